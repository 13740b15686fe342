//! Peers of a store: they run no transactions, and commit beside those of the owner.

use tubewell::{Error, FIFO, Result, ServeOptions, Store, TubeOptions, connect};

use super::support::{serve, served};

#[test]
fn transaction_and_view_of_a_peer_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Store::in_memory().unwrap();
    let listening = owner.admin().serve(ServeOptions::unix(folder.path().join("socket"))).unwrap();
    let remote = connect(listening.url()).unwrap();
    let transaction = remote.transact(|_| -> Result<()> { panic!("the closure runs") });
    let view = remote.view(|_| -> Result<()> { panic!("the closure runs") });
    for refused in [transaction, view] {
        assert!(matches!(refused, Err(Error::OwnerOnly { .. })), "{refused:?}");
    }
}

#[test]
fn calls_of_peers_are_answered_while_a_closure_of_the_owner_runs() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Store::open(folder.path().join("store")).unwrap();
    owner.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let listening = owner.admin().serve(ServeOptions::unix(folder.path().join("socket"))).unwrap();
    let work = connect(listening.url()).unwrap().find_tube("work").unwrap();
    owner
        .transact(|tx| -> Result<()> {
            serve(tx, "ann")?;
            // A peer is another thread of its owner.
            work.put("a")?;
            let claim = work.take()?;
            assert_eq!(work.query().task(claim.id())?.body, b"a");
            claim.ack()?;
            work.put_many(["b", "c"]).map(drop)
        })
        .unwrap();
    assert_eq!((served(&owner, "ann"), work.statistics().unwrap().tasks.ready), (1, 2));
    assert_eq!(owner.admin().verify().unwrap(), [""; 0]);
}
