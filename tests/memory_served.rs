//! Memory that a peer costs the owner of a store. A process of its own: it counts all allocations.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tubewell::{Durability, FIFO, ServeOptions, Store, TubeOptions, connect};

#[global_allocator]
static MEMORY: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

const CACHE: usize = 1 << 20;
const BODY: usize = 4 << 20;
const BODIES: usize = 48;
/// An answer has up to 16 MiB: here three bodies. Both sides are in this process, and each may copy it.
const MOST: usize = 64 << 20;

#[test]
fn take_of_many_large_bodies_costs_the_owner_one_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || Store::options().cache_size(CACHE).open(&path).unwrap();
    let owner = open();
    let written = TubeOptions::new().durability(Durability::write());
    let jobs = owner.create_tube("jobs", written.driver(FIFO)).unwrap();
    for n in 0..BODIES {
        jobs.put(vec![u8::try_from(n).unwrap(); BODY]).unwrap();
    }
    owner.close().unwrap();
    drop((jobs, owner));

    let owner = open();
    let served = owner.admin().serve(ServeOptions::unix(folder.path().join("socket"))).unwrap();
    let remote = connect(served.url()).unwrap();
    let jobs = remote.find_tube("jobs").unwrap();
    let (before, filled) = (MEMORY.allocated(), MEMORY.max_allocated());
    assert!(filled < MOST, "{filled} bytes to fill the store");
    let claims = jobs.take_many(usize::MAX, Duration::MAX).unwrap();
    let most = MEMORY.max_allocated();
    println!("{before} bytes before the take, {filled} at most; {most} at most with it");
    assert_eq!(claims.len(), 3);
    assert!(most < MOST, "{most} bytes for an answer of {}", 3 * BODY);
}
