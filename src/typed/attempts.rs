//! Attempts of typed claims, and of the tasks of typed tubes.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Codec, Failure, Receipt, Refused, Result, Ticket, TypedClaim, TypedTube, WhenFull};

impl<T> TypedClaim<T> {
    /// Which attempt this is. As [`Claim::attempt`](crate::Claim::attempt).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.claim().attempt()
    }

    /// How many attempts are left after this one. As
    /// [`Claim::attempts_left`](crate::Claim::attempts_left).
    #[must_use]
    pub fn attempts_left(&self) -> Option<u32> {
        self.claim().attempts_left()
    }

    /// Reports that this attempt has failed. As [`Claim::fail`](crate::Claim::fail).
    ///
    /// # Errors
    /// Those of [`Claim::fail`](crate::Claim::fail).
    pub fn fail(self, failure: Failure) -> Result<Receipt> {
        self.into_parts().1.fail(failure)
    }

    /// Reports a failure, with a delay. As [`Claim::fail_in`](crate::Claim::fail_in).
    ///
    /// # Errors
    /// Those of [`Claim::fail_in`](crate::Claim::fail_in).
    pub fn fail_in(self, delay: Duration, failure: Failure) -> Result<Receipt> {
        self.into_parts().1.fail_in(delay, failure)
    }

    /// Gives the task back and forgives the attempt. As [`Claim::snooze`](crate::Claim::snooze).
    ///
    /// # Errors
    /// Those of [`Claim::snooze`](crate::Claim::snooze).
    pub fn snooze(self, delay: Duration) -> Result<Receipt> {
        self.into_parts().1.snooze(delay)
    }

    /// Buries the task in the group of this failure. As
    /// [`Claim::bury_with`](crate::Claim::bury_with).
    ///
    /// # Errors
    /// Those of [`Claim::bury_with`](crate::Claim::bury_with).
    pub fn bury_with(self, failure: Failure) -> Result<Receipt> {
        self.into_parts().1.bury_with(failure)
    }

    /// Reports a failure without blocking. As
    /// [`Claim::fail_deferred`](crate::Claim::fail_deferred).
    ///
    /// # Errors
    /// [`Refused`] gives the claim back.
    pub fn fail_deferred(
        self,
        failure: Failure,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.fail_deferred(failure, when_full))
    }

    /// Reports a failure with a delay, without blocking. As
    /// [`Claim::fail_in_deferred`](crate::Claim::fail_in_deferred).
    ///
    /// # Errors
    /// [`Refused`] gives the claim back.
    pub fn fail_in_deferred(
        self,
        delay: Duration,
        failure: Failure,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.fail_in_deferred(delay, failure, when_full))
    }

    /// Gives the task back and forgives the attempt, without blocking. As
    /// [`Claim::snooze_deferred`](crate::Claim::snooze_deferred).
    ///
    /// # Errors
    /// [`Refused`] gives the claim back.
    pub fn snooze_deferred(
        self,
        delay: Duration,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.snooze_deferred(delay, when_full))
    }

    /// Buries the task in the group of this failure, without blocking. As
    /// [`Claim::bury_with_deferred`](crate::Claim::bury_with_deferred).
    ///
    /// # Errors
    /// [`Refused`] gives the claim back.
    pub fn bury_with_deferred(
        self,
        failure: Failure,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.bury_with_deferred(failure, when_full))
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Reports that the attempt of a taken task has failed. As [`Tube::fail`](crate::Tube::fail).
    ///
    /// # Errors
    /// Those of [`Tube::fail`](crate::Tube::fail).
    pub fn fail(&self, id: u64, failure: &Failure) -> Result<Receipt> {
        self.tube().fail(id, failure)
    }

    /// Reports a failure, with a delay. As [`Tube::fail_in`](crate::Tube::fail_in).
    ///
    /// # Errors
    /// Those of [`Tube::fail_in`](crate::Tube::fail_in).
    pub fn fail_in(&self, id: u64, delay: Duration, failure: &Failure) -> Result<Receipt> {
        self.tube().fail_in(id, delay, failure)
    }

    /// Gives a taken task back and forgives the attempt. As [`Tube::snooze`](crate::Tube::snooze).
    ///
    /// # Errors
    /// Those of [`Tube::snooze`](crate::Tube::snooze).
    pub fn snooze(&self, id: u64, delay: Duration) -> Result<Receipt> {
        self.tube().snooze(id, delay)
    }

    /// Buries a taken task in the group of this failure. As
    /// [`Tube::bury_with`](crate::Tube::bury_with).
    ///
    /// # Errors
    /// Those of [`Tube::bury_with`](crate::Tube::bury_with).
    pub fn bury_with(&self, id: u64, failure: &Failure) -> Result<Receipt> {
        self.tube().bury_with(id, failure)
    }

    /// Ends all claims of the tube and forgives the attempts. As
    /// [`Tube::revoke_all`](crate::Tube::revoke_all).
    ///
    /// # Errors
    /// Those of [`Tube::revoke_all`](crate::Tube::revoke_all).
    pub fn revoke_all(&self) -> Result<u64> {
        self.tube().revoke_all()
    }
}
