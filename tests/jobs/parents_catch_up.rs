//! `catch_up` returns when the tasks that waited for parents are told of their ends. The clock is that
//! of the system, whose writer thread does the same meanwhile.

use tubewell::{FIFO, OnParent, Put, Store, TubeOptions};

use crate::stores;

const CHILDREN: u64 = 2_000;

fn put_children(tube: &tubewell::Tube, parents: &tubewell::Tube) {
    let put = |_| Put::new("child").after(parents, [0]).on_parent(OnParent::Bury);
    tube.put_many((0..CHILDREN).map(put)).unwrap();
}

#[test]
fn catch_up_tells_all_children_of_the_end_of_their_parent() {
    type End = fn(&Store, &tubewell::Tube);
    let ends: [(End, u64, u64); 4] = [
        (|_, tube| assert_eq!(tube.claim(0).unwrap().ack().unwrap().id, 0), CHILDREN, 0),
        (|_, tube| assert_eq!(tube.admin().bury(0, None).unwrap().id, 0), 0, CHILDREN),
        (|_, tube| tube.admin().truncate().unwrap(), 0, CHILDREN),
        (|store, tube| store.drop_tube(tube.name()).unwrap(), 0, CHILDREN),
    ];
    for reopened in [false, true] {
        for (end, ready, buried) in ends {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("store");
            let mut store = stores::open(&path);
            let [parents, tube] = ["parents", "case"]
                .map(|name| store.create_tube(name, TubeOptions::new().driver(FIFO)));
            let (parents, mut tube) = (parents.unwrap(), tube.unwrap());
            parents.put("parent").unwrap();
            put_children(&tube, &parents);
            end(&store, &parents);
            if reopened {
                drop((parents, tube));
                stores::close(&store);
                store = stores::open(&path);
                tube = store.find_tube("case").unwrap();
            }
            store.admin().catch_up().unwrap();
            let tasks = tube.statistics().unwrap().tasks;
            assert_eq!((tasks.ready, tasks.buried, tasks.blocked), (ready, buried, 0));
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
    }
}
