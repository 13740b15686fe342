//! The file of a store is removed, renamed or replaced while its owner has it open.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tubewell::{Durability, Error, FIFO, ManualClock, Receipt, Result, Store, Tube, TubeOptions};

struct Owner {
    clock: ManualClock,
    store: Store,
    tube: Tube,
    path: PathBuf,
    folder: TempDir,
}

/// A store with one task in a tube of this durability.
fn owner(durability: Durability) -> Owner {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let store = Store::options().clock(clock.clone()).open(&path).unwrap();
    let tube =
        store.create_tube("jobs", TubeOptions::new().durability(durability).driver(FIFO)).unwrap();
    tube.put("kept").unwrap();
    Owner { clock, store, tube, path, folder }
}

/// Asserts that a put is refused or in doubt because of the file.
fn assert_says(answer: Result<Receipt>, what: &str) {
    match answer {
        Err(Error::OutcomeUnknown { why } | Error::Unavailable { why }) => {
            assert!(why.contains(what) && why.contains("backup"), "{why}");
        }
        answer => panic!("{answer:?}"),
    }
}

/// The bodies in the backup of a store.
fn bodies_in(path: &Path) -> Vec<String> {
    let store = Store::open(path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("jobs").unwrap();
    let claims = tube.take_many(99, Duration::MAX).unwrap();
    claims.iter().map(|claim| String::from_utf8(claim.body().to_vec()).unwrap()).collect()
}

#[test]
fn puts_into_a_removed_file_are_not_acknowledged_and_a_backup_saves_the_store() {
    let Owner { store, tube, path, folder, .. } = owner(Durability::Flush);
    fs::remove_file(&path).unwrap();
    assert_says(tube.put("in doubt"), "removed or renamed");
    assert_says(tube.put("refused"), "removed or renamed");
    let copy = folder.path().join("copy");
    store.admin().backup(&copy).unwrap();
    assert_eq!(bodies_in(&copy), ["kept", "in doubt"]);
    let closed = store.close().unwrap_err().to_string();
    assert!(closed.contains("removed or renamed"), "{closed}");
    assert!(!path.exists(), "the close has created a file");
}

/// Regression: what tools write that truncate first, such as `cp` of a backup over the file, was not noticed
/// before the close.
#[test]
fn puts_into_a_file_that_was_cut_off_are_not_acknowledged_and_a_backup_saves_the_store() {
    for left in [0, 500_000] {
        let Owner { store, tube, path, folder, .. } = owner(Durability::Flush);
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
        assert_says(tube.put("in doubt"), "cut off");
        assert_says(tube.put("refused"), "cut off");
        let copy = folder.path().join("copy");
        // What it has in memory; what was cut off may be missing, and is told then.
        if store.admin().backup(&copy).is_ok() {
            assert_eq!(bodies_in(&copy), ["kept", "in doubt"]);
        }
        store.close().unwrap_err();
    }
}

#[cfg(unix)]
#[test]
fn puts_into_a_file_whose_path_is_a_loop_of_links_are_not_acknowledged() {
    let Owner { store, tube, path, folder: _folder, .. } = owner(Durability::Flush);
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&path, &path).unwrap();
    assert_says(tube.put("in doubt"), "removed or renamed");
    store.close().unwrap_err();
}

#[test]
fn puts_into_a_replaced_file_are_not_acknowledged() {
    let Owner { store, tube, path, folder, .. } = owner(Durability::Flush);
    let backup = folder.path().join("backup");
    store.admin().backup(&backup).unwrap();
    fs::rename(&backup, &path).unwrap();
    assert_says(tube.put("in doubt"), "another file has replaced it");
    assert_says(tube.put("refused"), "another file has replaced it");
    store.close().unwrap_err();
    // The restored backup is as it was.
    assert_eq!(bodies_in(&path), ["kept"]);
}

/// Regression: the copy at the path of the file was taken for a file that had replaced it, and the next owner of the
/// path missed what was put after it.
#[test]
fn backup_to_the_path_of_the_removed_file_is_refused_in_every_spelling() {
    let Owner { store, tube, path, folder, .. } = owner(Durability::Flush);
    let [inner, link, hard] = ["inner", "link", "hard"].map(|name| folder.path().join(name));
    fs::create_dir(&inner).unwrap();
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    fs::hard_link(&path, &hard).unwrap();
    let relative = "../".repeat(99) + path.strip_prefix("/").unwrap().to_str().unwrap();
    let spellings =
        [path.clone(), inner.join("../store"), link.join("store"), PathBuf::from(relative)];
    for spelling in &spellings {
        assert!(
            matches!(store.admin().backup(spelling), Err(Error::FileExists { .. })),
            "{spelling:?}"
        );
    }
    fs::remove_file(&path).unwrap();
    // Also once the storage has failed because of that.
    for is_failed in [false, true] {
        if is_failed {
            assert_says(tube.put("in doubt"), "removed or renamed");
        }
        for spelling in &spellings {
            let Err(Error::Invalid { what }) = store.admin().backup(spelling) else {
                panic!("{is_failed}: {spelling:?} is accepted");
            };
            assert!(what.contains("path of the store itself"), "{what}");
            assert!(!path.exists());
        }
        assert!(matches!(store.admin().backup(&hard), Err(Error::FileExists { .. })));
    }
    // The same name in another folder is another path, and so is a name beside it.
    for other in [inner.join("store"), folder.path().join("store2")] {
        store.admin().backup(&other).unwrap();
        assert_eq!(bodies_in(&other), ["kept", "in doubt"]);
    }
    // Nothing is lost, and what the error says leads to a store at the path.
    store.close().unwrap_err();
    fs::rename(inner.join("store"), &path).unwrap();
    assert_eq!(bodies_in(&path), ["kept", "in doubt"]);
}

#[test]
fn store_goes_on_when_its_file_is_back() {
    let Owner { clock, store, tube, path, folder } = owner(Durability::Flush);
    let away = folder.path().join("away");
    fs::rename(&path, &away).unwrap();
    assert_says(tube.put("in doubt"), "removed or renamed");
    clock.advance(Duration::from_secs(11));
    assert_says(tube.put("refused"), "removed or renamed");
    fs::rename(&away, &path).unwrap();
    clock.advance(Duration::from_secs(11));
    tube.put("after").unwrap();
    store.close().unwrap();
    assert_eq!(bodies_in(&path), ["kept", "in doubt", "after"]);
}

/// A written tube does not flush: its puts look once a second.
#[test]
fn written_puts_into_a_removed_file_are_noticed_within_a_second() {
    let Owner { clock, store, tube, path, folder } =
        owner(Durability::Write { flush_within: Duration::from_secs(3600) });
    fs::remove_file(&path).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_says(tube.put("in doubt"), "removed or renamed");
    assert_says(tube.put("refused"), "removed or renamed");
    let copy = folder.path().join("copy");
    store.admin().backup(&copy).unwrap();
    assert_eq!(bodies_in(&copy), ["kept", "in doubt"]);
}

/// The working directory and the links of a path may change.
#[test]
fn file_that_is_opened_through_a_link_needs_only_its_own_name() {
    let Owner { store, path, folder, .. } = owner(Durability::Flush);
    store.close().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let store = Store::open(&link).unwrap();
    fs::remove_file(&link).unwrap();
    store.find_tube("jobs").unwrap().put("after").unwrap();
    store.close().unwrap();
    assert_eq!(bodies_in(&path), ["kept", "after"]);
}
