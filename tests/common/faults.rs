//! What goes wrong with a disk, and when.

#![allow(dead_code, reason = "each suite asks for its own part")]

use std::io;

/// Which calls are counted.
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
    /// The device has an error.
    Device,
    /// There is no room.
    Full,
    /// Half of the bytes go through.
    Short,
}

impl Fault {
    pub const ALL: [Fault; 3] = [Fault::Device, Fault::Full, Fault::Short];

    pub fn error(self) -> io::Error {
        match self {
            Fault::Device => io::Error::other("the device has an error"),
            Fault::Full => io::ErrorKind::StorageFull.into(),
            Fault::Short => io::ErrorKind::UnexpectedEof.into(),
        }
    }
}

/// What is to go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub kind: Kind,
    /// The number of the first call of this kind that fails, counted from when it is armed.
    pub nth: u64,
    pub fault: Fault,
    /// Whether all calls fail from then on.
    pub lasting: bool,
}

/// A plan on its way.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Option<Plan>,
    calls: u64,
    /// Whether a call has failed.
    pub tripped: bool,
}

impl Faults {
    /// This is to go wrong from now on.
    pub fn arm(&mut self, plan: Plan) {
        (self.plan, self.calls) = (Some(plan), 0);
    }

    /// Nothing goes wrong any more.
    pub fn disarm(&mut self) {
        self.plan = None;
    }

    /// Whether calls fail now, or may do so soon.
    pub fn is_armed(&self) -> bool {
        self.plan.is_some()
    }

    /// Counts a call; the fault that befalls it, if any.
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
