//! Lists of steps that have more bytes than one answer.

use tubewell::expert::{Restore, Step, StepKind};
use tubewell::{FIFO, TubeOptions};

use super::executor::block_on;
use super::steps::claim;
use super::support::*;
use crate::stores;

const MIB: usize = 1 << 20;

#[test]
fn list_of_large_steps_has_all_of_them() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    // More than a frame of a connection. A step may have more bytes than one part of the list.
    let sizes = [30 * MIB, 1, 30 * MIB, MIB, MIB, MIB, MIB, 5 * MIB, 0, 10 * MIB, 3];
    let step = |(n, size)| Step::new(format!("part {n:02}"), StepKind::Value, vec![n; size]);
    let steps: Vec<Step> = (0..).zip(sizes).map(step).collect();
    let task = Restore::new("x").steps(steps.clone());
    stores::owner(&store).find_tube("case").unwrap().admin().restore_many([task]).unwrap();
    let same = |listed: Vec<Step>| {
        let names = |steps: &[Step]| -> Vec<(String, usize)> {
            steps.iter().map(|step| (step.name.clone(), step.value.len())).collect()
        };
        assert_eq!(names(&listed), names(&steps));
        assert!(listed == steps, "a value is another one");
    };
    same(tube.query().steps(0).unwrap());
    same(block_on(tube.to_async().query().steps(0)).unwrap());
    for limit in 0..=steps.len() + 1 {
        let (first, left) = tube.query().first_steps(0, limit).unwrap();
        let shown = limit.min(steps.len());
        assert!((&first[..], left) == (&steps[..shown], steps.len() - shown), "{limit}");
    }
    let job = claim(&tube);
    same(job.steps().unwrap());
    let job = job.into_async();
    same(block_on(job.steps()).unwrap());
    job.ack().wait().unwrap();
    assert_not_found(tube.query().steps(0), 0);
    assert_not_found(tube.query().first_steps(0, 0), 0);
}
