//! What is between a client and an owner: it can carry nothing any more, or end within a frame.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

/// Carries bytes between clients and an owner.
#[derive(Default)]
pub struct Tunnel {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is read is thrown away: of both sides, or of the clients alone.
    is_stuck: bool,
    clients_are_stuck: bool,
    /// The connections end when the clients have sent so many further bytes.
    left: Option<usize>,
    /// The bytes of the clients that were carried, and those that were thrown away.
    sent: usize,
    lost: usize,
    /// The sides of the clients.
    clients: Vec<UnixStream>,
    /// The sides of the owner, which stay open.
    owners: Vec<UnixStream>,
}

impl Tunnel {
    pub fn start(from: &Path, to: &Path) -> Arc<Tunnel> {
        let (tunnel, to) = (Arc::new(Tunnel::default()), to.to_owned());
        let (listener, accepts) = (UnixListener::bind(from).unwrap(), tunnel.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, owner) = (client.unwrap(), UnixStream::connect(&to).unwrap());
                // Before anything is carried, so that a cut finds both.
                let (from, to) = (client.try_clone().unwrap(), owner.try_clone().unwrap());
                let mut state = accepts.state.lock().unwrap();
                state.clients.push(client.try_clone().unwrap());
                state.owners.push(owner.try_clone().unwrap());
                drop(state);
                accepts.carry(from, to, true);
                accepts.carry(owner, client, false);
            }
        });
        tunnel
    }

    fn carry(self: &Arc<Self>, mut from: UnixStream, mut to: UnixStream, is_of_client: bool) {
        let tunnel = self.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                let carried = tunnel.passes(read, is_of_client);
                if to.write_all(&bytes[..carried]).is_err() {
                    return;
                }
                if is_of_client && tunnel.is_used_up() {
                    tunnel.cut();
                    return;
                }
            }
        });
    }

    /// How many of these bytes pass.
    fn passes(&self, read: usize, is_of_client: bool) -> usize {
        let mut state = self.state.lock().unwrap();
        if state.is_stuck || (is_of_client && state.clients_are_stuck) {
            state.lost += if is_of_client { read } else { 0 };
            return 0;
        }
        if !is_of_client {
            return read;
        }
        let carried = state.left.unwrap_or(usize::MAX).min(read);
        state.left = state.left.map(|left| left - carried);
        state.sent += carried;
        carried
    }

    fn is_used_up(&self) -> bool {
        self.state.lock().unwrap().left == Some(0)
    }

    /// Carries nothing any more.
    pub fn vanish(&self) {
        self.state.lock().unwrap().is_stuck = true;
    }

    /// Carries nothing of the clients any more.
    pub fn hold_clients(&self) {
        self.state.lock().unwrap().clients_are_stuck = true;
    }

    /// The bytes of the clients that were not carried.
    pub fn lost(&self) -> usize {
        self.state.lock().unwrap().lost
    }

    /// The bytes of the clients that were carried.
    pub fn sent(&self) -> usize {
        self.state.lock().unwrap().sent
    }

    /// Whether the cut of a `cut_after` is still to come.
    pub fn is_to_be_cut(&self) -> bool {
        self.state.lock().unwrap().left.is_some()
    }

    /// Ends the connections when the clients have sent so many further bytes.
    pub fn cut_after(&self, bytes: usize) {
        self.state.lock().unwrap().left = Some(bytes);
    }

    /// The clients see the end of their connections, and the owner sees nothing.
    pub fn cut_clients(&self) {
        for client in self.state.lock().unwrap().clients.drain(..) {
            client.shutdown(Shutdown::Both).unwrap();
        }
    }

    /// Ends the connections, as the end of a process does. Further ones are carried.
    pub fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        (state.left, state.clients_are_stuck) = (None, false);
        let State { clients, owners, .. } = &mut *state;
        for side in owners.drain(..).chain(clients.drain(..)) {
            // The other side may have ended it.
            let _ = side.shutdown(Shutdown::Both);
        }
    }
}
