//! Typed tasks: any serde type can be a body.
//!
//! `cargo run --example typed_tasks`. The bodies are JSON: other programs can read them, and a type can
//! get new fields that older bodies do not have. `typed_with(Bincode)` is compact instead, and does not
//! store the names of fields.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tubewell::{Error, Put, Store, TaskState};

/// All kinds of work in this queue.
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
    let tube = store.tube("jobs")?;
    let jobs = tube.typed::<Job>();

    let resize = jobs.put(Job::Resize { picture: "cat.jpg".into(), width: 200 })?;
    println!("{}", tube.query().task(resize.id)?.body.text());
    let mail = Job::Mail { to: "ann".into(), lines: vec!["Hello".into(), "Ann".into()] };
    // All options of a put are available; a priority of 500 comes after the default of 100.
    jobs.put(Put::new(&mail).priority(500).ttr(Duration::from_secs(30)))?;

    let mut results = Vec::new();
    while let Some(job) = jobs.try_take()? {
        results.push(run(job.value()));
        job.ack()?;
    }
    println!("{}", results.join("; "));
    if results != ["cat.jpg is 200 wide now", "2 lines sent to ann"] {
        return Err("the jobs differ from those that were put".into());
    }

    // A body that does not decode is buried: delivered again and again, it would block the queue.
    let undecodable = tube.put("no job at all")?.id;
    match jobs.try_take() {
        Err(Error::Codec { what }) => println!("buried: {what}"),
        other => return Err(format!("it was decoded as {other:?}").into()),
    }
    if tube.query().task(undecodable)?.info.state != TaskState::Buried {
        return Err("the undecodable task was not buried".into());
    }
    tube.delete(undecodable)?;
    Ok(())
}
