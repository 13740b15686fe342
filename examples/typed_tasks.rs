//! Typed tasks: any serde type can be a body, and any can be a result.
//!
//! `cargo run --example typed_tasks`. The bodies are JSON: other programs can read them, and a type can
//! get new fields that older bodies do not have. `typed_with(Bincode)` is compact instead, and does not
//! store the names of fields.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tubewell::{Ending, Job, Keep, Outcome, Put, Store, TubeOptions, Worker};

/// All kinds of work in this queue.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Work {
    Resize { picture: String, width: u32 },
    Mail { to: String, lines: Vec<String> },
}

fn run(job: &Job<Work>) -> Outcome {
    Outcome::value(&match job.value() {
        Work::Resize { picture, width } => format!("{picture} is {width} wide now"),
        Work::Mail { to, lines } => format!("{} lines sent to {to}", lines.len()),
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory()?;
    let tube = store.open_tube("jobs", TubeOptions::new().keep_done(Keep::new().count(1000)))?;
    let jobs = tube.typed::<Work>();

    let resize = jobs.put(Work::Resize { picture: "cat.jpg".into(), width: 200 })?;
    println!("{}", tube.query().task(resize.id)?.body.text());
    let mail = Work::Mail { to: "ann".into(), lines: vec!["Hello".into(), "Ann".into()] };
    // All options of a put are available; a priority of 500 comes after the default of 100.
    let mail = jobs.put(Put::new(&mail).priority(500).ttr(Duration::from_secs(30)))?;
    // A body that does not decode is buried: delivered again and again, it would block the queue.
    let undecodable = tube.put("no job at all")?;

    Worker::new(&store).on(&jobs, run).run_until_idle()?;
    let mut results = Vec::new();
    for id in [resize.id, mail.id] {
        results.push(jobs.ending(id)?.ok_or("a job has not ended")?.value::<String>()?);
    }
    println!("{}", results.join("; "));
    match jobs.ending(undecodable.id)? {
        Some(Ending::Buried { failure: Some(failure) }) => {
            println!("{}: {}", failure.group, failure.message);
            Ok(())
        }
        other => Err(format!("the undecodable task was not buried: {other:?}").into()),
    }
}
