//! Tasks as Rust values: any serde type is a body.
//!
//! `cargo run --example typed_tasks`, or with `--features json` to see the same bodies as JSON.
//! bincode, the default, is compact and does not write the names of fields: a type whose fields
//! change reads no older bodies, so keep a version in it, as `Job` does with its variants, or
//! choose JSON for bodies that live long or that others read.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tubewell::{Error, FIFOTTL, State, Store, TubeOptions};

/// Everything that this program's queue can be asked to do. New variants go to the end.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Job {
    Resize { picture: String, width: u32 },
    Mail { to: String, lines: Vec<String> },
}

fn run(job: &Job) -> String {
    match job {
        Job::Resize { picture, width } => format!("{picture} is {width} wide now"),
        Job::Mail { to, lines } => format!("{} lines sent to {to}", lines.len()),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory()?;
    let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    let jobs = tube.typed::<Job>();

    jobs.put(&Job::Resize { picture: "cat.jpg".into(), width: 200 })?;
    let mail = Job::Mail { to: "ann".into(), lines: vec!["Hello".into(), "Ann".into()] };
    // The options are those of every put; a priority of 5 comes after the default of 0.
    jobs.put_with(&mail, |put| put.pri(5).ttr(Duration::from_secs(30)))?;

    let mut results = Vec::new();
    while let Some(job) = jobs.take(Duration::ZERO)? {
        results.push(run(job.value()));
        job.ack()?;
    }
    println!("{}", results.join("; "));
    if results != ["cat.jpg is 200 wide now", "2 lines sent to ann"] {
        return Err("the jobs are not what was put".into());
    }

    // A body that is no job: handed out again and again it would stop the queue, so it is buried.
    let strange = tube.put("no job at all")?.id;
    match jobs.take(Duration::ZERO) {
        Err(Error::Codec { what }) => println!("buried: {what}"),
        other => return Err(format!("it was read as {other:?}").into()),
    }
    if tube.peek(strange)?.info.state != State::Buried {
        return Err("the strange body was not set aside".into());
    }
    tube.delete(strange)?;

    #[cfg(feature = "json")]
    as_json(&tube)?;
    Ok(())
}

#[cfg(feature = "json")]
fn as_json(tube: &tubewell::Tube) -> Result<(), Box<dyn std::error::Error>> {
    let jobs = tube.typed_with::<Job, tubewell::Json>();
    let receipt = jobs.put(&Job::Resize { picture: "dog.jpg".into(), width: 80 })?;
    println!("{}", String::from_utf8(tube.peek(receipt.id)?.data)?);
    let job = jobs.take(Duration::ZERO)?.ok_or("the job is gone")?;
    job.ack()?;
    Ok(())
}
