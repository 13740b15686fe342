//! The durabilities of tubes.

use std::time::Duration;

use tubewell::{Durability, TubeOptions};

const HOUR: Duration = Duration::from_secs(3600);

/// The options of a tube that may exist. Its durability is a word of its name.
pub fn options_of(name: &str) -> TubeOptions {
    let word = |word| match word {
        "flush" => Some(Durability::Flush),
        // Its later flush never comes, but with that of another tube.
        "write" => Some(Durability::Write { flush_within: HOUR }),
        "relaxed" => Some(Durability::Relaxed { max_delay: HOUR }),
        _ => None,
    };
    let durability = name.split('/').find_map(word).expect("the name has a durability");
    TubeOptions::new().durability(durability)
}
