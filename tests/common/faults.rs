//! Faults of a disk: which call fails, when and how.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::io;

/// The calls that a plan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Any,
    Read,
    Write,
    Sync,
    SetLen,
    Close,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device reports an error.
    Device,
    /// The disk is full.
    Full,
    /// The call transfers half of its bytes and then fails.
    Short,
}

impl Fault {
    pub const ALL: [Fault; 3] = [Fault::Device, Fault::Full, Fault::Short];

    pub fn error(self) -> io::Error {
        match self {
            Fault::Device => io::Error::other("device error"),
            Fault::Full => io::ErrorKind::StorageFull.into(),
            Fault::Short => io::ErrorKind::UnexpectedEof.into(),
        }
    }
}

/// A planned fault.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub kind: Kind,
    /// The number of the first call of this kind that fails, counted from 1 when the plan is armed.
    pub nth: u64,
    pub fault: Fault,
    /// Whether all later calls of this kind fail too.
    pub lasting: bool,
}

/// The armed plan of a disk, if any, and the calls counted so far.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Option<Plan>,
    calls: u64,
    /// Whether any call has failed.
    pub tripped: bool,
}

impl Faults {
    /// Arms a plan and starts to count calls.
    pub fn arm(&mut self, plan: Plan) {
        (self.plan, self.calls) = (Some(plan), 0);
    }

    /// Removes the plan: no further call fails.
    pub fn disarm(&mut self) {
        self.plan = None;
    }

    /// Whether calls fail now or may fail later.
    pub fn is_armed(&self) -> bool {
        self.plan.is_some()
    }

    /// Counts a call and returns its fault, if it is to fail.
    pub fn count_call(&mut self, kind: Kind) -> Option<Fault> {
        let plan = self.plan.filter(|plan| plan.kind == Kind::Any || plan.kind == kind)?;
        self.calls += 1;
        let fails = if plan.lasting { self.calls >= plan.nth } else { self.calls == plan.nth };
        if fails && !plan.lasting {
            self.plan = None;
        }
        self.tripped |= fails;
        fails.then_some(plan.fault)
    }
}
