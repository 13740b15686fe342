//! A store of many tubes and tasks, for a browser that opens its dashboard.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tubewell::{Durability, Put, Store, TubeOptions};
use tubewell_http::{HttpOptions, serve};

/// Makes the store unless it exists, and serves it until the process is killed.
pub fn served(file: &Path, tubes: usize, tasks: usize) {
    if !file.exists() {
        let began = Instant::now();
        fill(file, tubes, tasks);
        println!("{tasks} tasks in {tubes} tubes, made in {:.0?}", began.elapsed());
    }
    let began = Instant::now();
    let store = Store::open(file).unwrap();
    let server = serve(&store, HttpOptions::new("127.0.0.1:0")).unwrap();
    println!("opened in {:.1?}: http://{}/", began.elapsed(), server.address());
    loop {
        thread::park();
    }
}

fn fill(file: &Path, tubes: usize, tasks: usize) {
    let store = Store::options().durability(Durability::relaxed()).open(file).unwrap();
    let each = tasks / tubes;
    for number in 0..tubes {
        let tube = store.create_tube(&format!("tube-{number:05}"), TubeOptions::new()).unwrap();
        let bodies = (0..each).map(|task| Put::new(format!("{{\"task\": {task}}}")));
        tube.put_many(bodies).unwrap();
        if number % 100 == 0 {
            let taken = tube.take_many(each / 10, Duration::ZERO).unwrap();
            for claim in taken {
                let _acked = claim.ack().unwrap();
            }
        }
    }
    store.flush().unwrap();
}
