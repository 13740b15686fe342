//! The costs of calls over HTTP beside calls through a unix socket, of idle event streams, and of many tubes.
//!
//! * `cargo bench -p tubewell-http` takes and acks the tasks of a store on disk over 1, 16 and 64 connections that are
//!   kept open.
//! * `… -- streams 9990` opens that many event streams to a server in a process of its own. The server accepts as many
//!   connections as half of its limit of open files.
//! * `… -- tubes FILE 10000 10000000` makes a store of that many tubes and tasks unless the file exists, and serves it
//!   until it is killed.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]
#![allow(clippy::cast_precision_loss, reason = "rates for people")]
#![allow(clippy::disallowed_methods, reason = "real time is what is measured")]

mod client;
mod cycles;
mod streams;
mod tubes;

use std::path::Path;

fn main() {
    // `cargo bench` adds an argument of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => cycles::cycles(),
        ["streams", count] => streams::streams(count.parse().unwrap()),
        ["streams-server"] => streams::server(),
        ["tubes", file, tubes, tasks] => {
            tubes::served(Path::new(file), tubes.parse().unwrap(), tasks.parse().unwrap());
        }
        _ => panic!("{words:?}: see the first lines of this benchmark"),
    }
}
