//! `read_tubes`: the tubes of a closed store, read without a write to its file.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tubewell::{Error, FIFO, LIMFIFOTTL, Store, StoreOptions, TubeInfo, TubeOptions};

fn read_tubes(path: &std::path::Path) -> tubewell::Result<Vec<TubeInfo>> {
    StoreOptions::default().read_tubes(path)
}

#[test]
fn read_tubes_returns_names_and_options_and_leaves_the_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::open(&path).unwrap();
    let small = TubeOptions::new().capacity(7).ttr(Duration::from_secs(5));
    store.create_tube("small", small.driver(LIMFIFOTTL)).unwrap();
    let plain = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
    plain.put_many((0..500).map(|n| n.to_string())).unwrap();
    store.create_tube("dropped", TubeOptions::new().driver(FIFO)).unwrap();
    store.drop_tube("dropped").unwrap();
    assert!(matches!(read_tubes(&path), Err(Error::InUse { .. })));
    // A backup is what a kill at this moment would leave.
    let copy = dir.path().join("copy");
    store.admin().backup(&copy).unwrap();
    store.close().unwrap();
    for path in [path, copy] {
        let before = std::fs::read(&path).unwrap();
        let tubes = read_tubes(&path).unwrap();
        let names: Vec<_> = tubes.iter().map(|tube| tube.name.as_str()).collect();
        assert_eq!(names, ["plain", "small"]);
        let small = &tubes[1];
        assert_eq!((small.driver.as_str(), small.capacity, small.usable), (LIMFIFOTTL, 7, true));
        assert_eq!(small.ttr, Some(Duration::from_secs(5)));
        assert!(std::fs::read(&path).unwrap() == before, "the file was written to");
    }
}

#[test]
fn read_tubes_refuses_what_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    assert!(matches!(read_tubes(&path), Err(Error::Io { .. })));
    assert!(!path.exists());
    assert!(matches!(read_tubes(dir.path()), Err(Error::Io { .. })));
    std::fs::write(&path, "a letter, not a store".repeat(1000)).unwrap();
    assert!(matches!(read_tubes(&path), Err(Error::NotAStore { .. })));
}
