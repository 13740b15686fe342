//! `work`: runs a command for each task.

mod attend;
mod child;
mod outcome;
#[cfg(unix)]
mod pipe;
mod report;
mod running;

use std::sync::Arc;

use tubewell::worker::Worker;
use tubewell::{Backoff, Store, Tube};

use crate::args::{Order, Work};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::Output;
use crate::progress::Progress;
use crate::{signals, store};
use attend::Attendant;
use outcome::Policy;
use report::Report;
use running::Running;

/// Runs the command for each task until a signal or, with --once, until no task is ready.
pub fn run(store: &Store, args: &Work, output: &mut Output) -> CommandResult {
    // The claims of failed tasks outlive the worker.
    let session = store.session("work")?;
    let mut tubes: Vec<Tube> = Vec::new();
    for name in &args.tubes {
        if tubes.iter().all(|tube| tube.name() != name) {
            tubes.push(session.tube(&store::tube(store, name)?)?);
        }
    }
    let policy = Policy::of(args, store)?;
    check(&policy, &tubes)?;
    // The policy decides what becomes of the task of a command that fails.
    let worker = Worker::new(store).backoff(Backoff::none()).max_attempts(u32::MAX);
    let mut worker = worker.session(&session).concurrency(args.jobs.into());
    worker = worker.order(match args.order {
        Order::Listed => tubewell::worker::Order::Listed,
        Order::RoundRobin => tubewell::worker::Order::RoundRobin,
        Order::Shuffled => tubewell::worker::Order::Shuffled,
    });
    let progress = Arc::new(progress(args, &tubes)?);
    let running = Arc::new(Running::new(worker.stopper(), progress.clone()));
    let signalled = running.clone();
    let last_signal = signals::forward(move |signal| signalled.signal(signal))?;
    let report = Report::new(output.json, progress, args.once);
    let attendant =
        Attendant::new(store, session, tubes.clone(), policy, report, running.clone(), last_signal);
    let attendant = Arc::new(attendant);
    for tube in &tubes {
        let attendant = attendant.clone();
        worker = worker.on(tube, move |job| attendant.attend(job));
    }
    let watching = attendant.clone();
    worker = worker.watch(move |report| watching.watch(report));
    let worked = if args.once {
        worker.run_until_idle().map(drop)
    } else {
        worker.start().and_then(|worker| {
            attendant.note_idle();
            worker.wait().map(drop)
        })
    };
    let released = attendant.release_kept();
    let (reported, has_failures) = attendant.end();
    match running.stopped() {
        (Some(failure), _) => Err(failure),
        (None, signals) => {
            worked?;
            released.and(reported)?;
            match signals.last() {
                // One signal is the usual way to stop a worker, but interrupts a run with --once.
                Some(signal) if args.once || signals.len() > 1 => {
                    Err(Failure::silent(Exit::Signal(*signal)))
                }
                None if args.once && has_failures => Err(Failure::silent(Exit::Partly)),
                _ => Ok(()),
            }
        }
    }
}

/// Checks the options and the command at the start, and not at the first failure.
fn check(policy: &Policy, tubes: &[Tube]) -> CommandResult {
    let args = &policy.args;
    for tube in tubes {
        if args.delay.is_some_and(|delay| !delay.is_zero()) {
            store::check_has_delays("--delay", tube)?;
        }
        if policy.backoff_for(tube.name()).is_some() {
            store::check_has_delays("--backoff", tube)?;
        }
        if args.keep_output && tube.info()?.keep_done.is_none() {
            let name = tube.name();
            let why = format!("--keep-output: tube {name:?} does not keep tasks that are done");
            let hint = format!("`tubewell alter {name} --keep-done age=1d` keeps them for a day");
            return Err(Failure::usage(why).hint(hint));
        }
    }
    if cfg!(not(unix)) && args.max_runtime.is_some() {
        return Err(Failure::usage("--max-runtime: this system cannot end commands"));
    }
    child::check(&args.command)
}

fn progress(args: &Work, tubes: &[Tube]) -> CommandResult<Progress> {
    if !args.once {
        return Ok(Progress::hidden());
    }
    let mut ready = 0;
    for tube in tubes {
        ready += tube.statistics()?.tasks.ready;
    }
    Ok(Progress::items("working", ready))
}
