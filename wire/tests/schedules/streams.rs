//! Calls with many items.

use std::future::poll_fn;

use shuttle::future::block_on;
use shuttle::thread;
use tubewell_wire::Limits;
use tubewell_wire::explored::set_pipe_size;

use crate::explore::explore;
use crate::support::{ONCE, ask, connect, end, serve};

#[test]
fn items_arrive_in_order_up_to_the_end() {
    explore("items_arrive_in_order_up_to_the_end", || {
        set_pipe_size(40);
        let (server, desk) = serve(Limits { unsent: 20, ..Limits::default() });
        let (client, _) = connect();
        let items = client.subscribe(b"numbers:4".to_vec());
        let other = client.subscribe(b"numbers:3".to_vec());
        let reader = thread::spawn(move || {
            block_on(async {
                let mut count = 0;
                while poll_fn(|context| other.poll_next(context.waker())).await.is_some() {
                    count += 1;
                }
                count
            })
        });
        let mut taken = Vec::new();
        while let Some(item) = items.recv() {
            taken.push(String::from_utf8(item).unwrap());
        }
        assert_eq!((taken, items.error()), (["1", "2", "3", "4"].map(str::to_owned).into(), None));
        assert_eq!(reader.join().unwrap(), 3);
        end(&server, &desk, [client]);
    });
}

#[test]
fn dropped_subscription_ends_its_stream() {
    explore("dropped_subscription_ends_its_stream", || {
        set_pipe_size(40);
        let (server, desk) = serve(Limits { unsent: 20, ..Limits::default() });
        let (client, _) = connect();
        let items = client.subscribe(b"numbers:1000000".to_vec());
        let first = items.recv();
        assert_eq!(first.as_deref(), Some(&b"1"[..]));
        drop(items);
        desk.log.wait_for("numbers dropped");
        assert_eq!(ask(&client, "now:next", ONCE).as_deref(), Ok("next"));
        end(&server, &desk, [client]);
    });
}
