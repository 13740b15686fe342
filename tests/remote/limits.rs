//! The size of a call through a connection.

use tempfile::TempDir;
use tubewell::{Error, FIFO, ServeOptions, Store, TubeOptions};

use super::executor::with_timeout;

/// The longest call, in bytes.
const LONGEST: usize = 65 << 20;
const BODY: usize = 32 << 20;

#[test]
fn put_many_of_more_than_65_mib_is_invalid() {
    with_timeout(|| {
        let folder = TempDir::new().unwrap();
        let owner = Store::in_memory().unwrap();
        let options = TubeOptions::new().temporary(true);
        let here = owner.create_tube("case", options.driver(FIFO)).unwrap();
        let served = owner.admin().serve(ServeOptions::unix(folder.path().join("socket"))).unwrap();
        let tube = tubewell::connect(served.url()).unwrap().find_tube("case").unwrap();
        let put = |bytes: usize| tube.put_many([vec![1; BODY], vec![2; bytes - BODY]]);
        let refused = put(LONGEST);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert_eq!(here.statistics().unwrap().tasks.total, 0);
        // The connection goes on, and a call needs few bytes beside the bodies.
        assert_eq!(put(LONGEST - 1024).unwrap().len(), 2);
        assert_eq!(here.statistics().unwrap().tasks.total, 2);
    });
}
