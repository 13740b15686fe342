//! Futures of calls, woken by several threads.

use shuttle::future::block_on;
use shuttle::thread;
use tubewell_wire::Limits;

use crate::explore::explore;
use crate::support::{ONCE, connect, end, serve};

/// The second signal may come while the first one's poll runs, on either thread of the server.
#[test]
fn future_woken_while_it_is_polled_is_polled_again() {
    explore("future_woken_while_it_is_polled_is_polled_again", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let signallers = [(); 2].map(|()| {
            let desk = desk.clone();
            thread::spawn(move || desk.signal("a"))
        });
        let answer = block_on(client.call(b"twice:a".to_vec(), ONCE));
        assert_eq!(answer.as_deref(), Ok(&b"a"[..]));
        for signaller in signallers {
            signaller.join().unwrap();
        }
        end(&server, &desk, [client]);
    });
}
