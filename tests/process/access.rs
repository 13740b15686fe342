//! Who may open the file of a store, and where its owner is looked for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tubewell::Store;
use tubewell::expert::socket_beside;

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn new_files_are_for_their_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy, shared] = ["store", "copy", "shared"].map(|name| folder.path().join(name));
    let store = Store::open(&path).unwrap();
    store.admin().backup(&copy).unwrap();
    store.close().unwrap();
    assert_eq!([mode_of(&path), mode_of(&copy)], [0o600; 2]);
    // The umask may take bits away, and those of the user never.
    Store::options().file_mode(0o640).open(&shared).unwrap().close().unwrap();
    assert!([0o600, 0o640].contains(&mode_of(&shared)));
}

#[test]
fn file_that_exists_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    Store::open(&path).unwrap().close().unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    Store::open(&path).unwrap().close().unwrap();
    assert_eq!(mode_of(&path), 0o660);
}

#[test]
fn symbolic_link_to_a_store_has_the_socket_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let [path, link, second] = ["store", "link", "second"].map(|name| folder.path().join(name));
    symlink("store", &link).unwrap();
    symlink(&link, &second).unwrap();
    let socket = folder.path().join("store.sock");
    // Whether there is a file or not: it may have been removed under its owner.
    for exists in [false, true] {
        if exists {
            fs::write(&path, "").unwrap();
        }
        for path in [&path, &link, &second] {
            assert_eq!(socket_beside(path), socket, "{exists}");
        }
    }
    assert_eq!(socket_beside("store"), Path::new("store.sock"));
}
