//! Ten thousand tubes with few tasks each.

use std::time::Instant;

use tubewell::{Durability, FIFO, Store, Tube, TubeOptions};

use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body, checked, mebibytes, median, millis, timed};

const MANY: u64 = 10_000;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let path = setting.fresh("tubes");
    let relaxed = || Store::options().durability(Durability::relaxed());
    let store = relaxed().open(&path)?;
    let mut thousands = Vec::new();
    let mut tubes = Vec::new();
    for thousand in 0..MANY / 1000 {
        let start = Instant::now();
        for n in 0..1000 {
            let name = format!("tube{}", thousand * 1000 + n);
            tubes.push(store.create_tube(&name, TubeOptions::new().driver(FIFO))?);
        }
        thousands.push(millis(start.elapsed()));
    }
    report.note("create a tube, the first thousand", thousands[0], "µs");
    report.note("create a tube, the last thousand", thousands[9], "µs");
    let one = std::slice::from_ref(&tubes[0]);
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..10 {
        times[0].push(cycles(&tubes, round)?);
        times[1].push(cycles(one, round)?);
    }
    report.spread("cycle in each of 10,000 tubes, relaxed", &times[0], "µs");
    report.spread("as many cycles in one tube, relaxed", &times[1], "µs");
    let (many, one) = (median(&times[0]), median(&times[1]));
    report.note("cycle in 10,000 tubes, relative to one tube", many / one, "times");
    scrapes(&store, &tubes, report)?;
    store.close()?;
    drop((store, tubes));
    let (store, time) = timed(|| relaxed().open(&path));
    report.note("open a store of 10,000 tubes", millis(time), "ms");
    report.note("file size with 10,000 tubes", mebibytes(&path), "MiB");
    let (store, before) = (store?, Instant::now());
    let last = store.find_tube(&format!("tube{}", MANY - 1))?;
    last.put(body(1, BODY))?;
    assert_eq!(checked(last.try_take()?.ok_or("no ready task")?.body(), BODY), 1);
    println!("- first cycle after the open: {} ms", short(millis(before.elapsed())));
    Ok(store.close()?)
}

/// Scrapes for Prometheus: with no ready task, and with one in each tube that no take has looked at.
fn scrapes(store: &Store, tubes: &[Tube], report: &mut Report) -> Outcome {
    let scrape = || -> Outcome<(f64, usize)> {
        let (text, time) = timed(|| store.prometheus());
        Ok((millis(time), text?.len()))
    };
    let scrapes = || (0..11).map(|_| Ok(scrape()?.0)).collect::<Outcome<Vec<f64>>>();
    report.spread("scrape of 10,000 empty tubes", &scrapes()?, "ms");
    for (n, tube) in (0..MANY).zip(tubes) {
        tube.put(body(n, BODY))?;
    }
    store.flush()?;
    report.spread("scrape of 10,000 tubes with a ready task each", &scrapes()?, "ms");
    #[expect(clippy::cast_precision_loss, reason = "a size for people")]
    let size = scrape()?.1 as f64 / f64::from(1 << 20);
    report.note("text of the scrape", size, "MiB");
    for tube in tubes {
        tube.try_take()?.ok_or("no ready task")?.ack()?;
    }
    Ok(())
}

/// Microseconds per cycle: `MANY` puts, distributed over the tubes, and then as many takes and
/// acks.
fn cycles(tubes: &[Tube], round: u64) -> Outcome<f64> {
    let start = Instant::now();
    for (n, tube) in (0..MANY).zip(tubes.iter().cycle()) {
        tube.put(body(round * MANY + n, BODY))?;
    }
    for (n, tube) in (0..MANY).zip(tubes.iter().cycle()) {
        let claim = tube.try_take()?.ok_or("no ready task")?;
        assert_eq!(checked(claim.body(), BODY), round * MANY + n);
        claim.ack()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / MANY as f64)
}
