//! Connections themselves. [`reconnected`], [`half_open`], [`cut`], [`killed`] and [`busy_owner`] are about those that break or whose peer has vanished,
//! processes that are killed, and owners that are busy. [`limits`] is about the size of calls, and [`workers`]
//! about workers whose connection breaks.

use crate::blocking_disk;
use crate::executor;
use crate::process;

mod busy_owner;
pub mod child;
mod cut;
mod half_open;
mod killed;
mod limits;
mod reconnected;
mod resumed;
mod tunnel;
mod workers;
