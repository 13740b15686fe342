//! Two tubes that differ in one option, measured in turn, so that a disturbance of the machine
//! affects both.

use tubewell::{FIFO, Store, Tube, TubeOptions};

use super::report::Report;
use super::setting::{BODY, Outcome, Setting, body};

/// Opens two stores with a tube each. The tube of the second one has the option that is measured.
pub fn open(
    setting: &Setting,
    subject: &str,
    [without, with]: [TubeOptions; 2],
) -> Outcome<[(Store, Tube); 2]> {
    let open = |name: &str, options: TubeOptions| -> Outcome<(Store, Tube)> {
        let store = Store::open(setting.fresh(&format!("{name}-{subject}")))?;
        let tube = store.create_tube("work", options.driver(FIFO))?;
        Ok((store, tube))
    };
    Ok([open("without", without)?, open("with", with)?])
}

/// Measures both; each of them is the first one in every second run.
pub fn in_turn<T>(
    runs: usize,
    mut measure: impl FnMut(usize) -> Outcome<T>,
) -> Outcome<[Vec<T>; 2]> {
    let mut measured = [Vec::new(), Vec::new()];
    for run in 0..runs {
        for at in if run.is_multiple_of(2) { [0, 1] } else { [1, 0] } {
            measured[at].push(measure(at)?);
        }
    }
    Ok(measured)
}

pub fn cycle(tube: &Tube, n: u64) -> tubewell::Result<()> {
    tube.put(body(n, BODY))?;
    tube.try_take()?.map_or(Ok(()), |claim| claim.ack().map(drop))
}

/// Adds the rates of both, and a target for the share of the second one.
pub fn compare(
    report: &mut Report,
    names: [String; 2],
    (what, share): (&str, f64),
    [without, with]: &[Vec<f64>; 2],
) {
    for (name, rates) in names.into_iter().zip([without, with]) {
        report.spread(name, rates, "tasks/s");
    }
    report.ratio(what, share, (with, without));
}
