//! The options of tasks with a key.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use super::PutOptions;
use crate::tube_names;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnKey {
    /// Refuse the task
    Reject,
    /// Keep the task that has the key, and put nothing
    Keep,
    /// Put the task that has the key anew, with its id
    Replace,
}

impl From<OnKey> for tubewell::OnKey {
    fn from(on_key: OnKey) -> tubewell::OnKey {
        match on_key {
            OnKey::Reject => tubewell::OnKey::Reject,
            OnKey::Keep => tubewell::OnKey::Keep,
            OnKey::Replace => tubewell::OnKey::Replace,
        }
    }
}

#[derive(Debug, Args)]
pub struct Requeue {
    /// The tube in which the task is afterwards
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The key of the task
    pub key: String,
    /// The new body. Default, and for -: standard input
    pub body: Option<OsString>,
    #[command(flatten)]
    pub options: PutOptions,
}

#[derive(Debug, Args)]
pub struct Find {
    /// The key of the task
    pub key: String,
    /// Print the body only
    #[arg(long, conflicts_with = "json")]
    pub body: bool,
}
