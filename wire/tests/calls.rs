//! Calls and their answers.

use std::sync::Arc;

use tubewell_wire::{
    Address, Answering, CallKind, Client, ClientOptions, Handler, Reply, Server, ServerOptions,
    Service,
};

struct Upper;

impl Service for Upper {
    type Peer = ();
    fn connect(&self, _hello: &[u8]) -> Result<((), Vec<u8>), String> {
        Ok(((), Vec::new()))
    }
    fn call(&self, _peer: &Arc<()>, body: &[u8]) -> Answering {
        Answering::Now(Reply::new(body.to_ascii_uppercase()))
    }
    fn disconnect(&self, _peer: Arc<()>) {}
}

struct Quiet;

impl Handler for Quiet {
    fn hello(&self) -> Vec<u8> {
        Vec::new()
    }
    fn welcome(&self, _welcome: &[u8]) -> Result<(), String> {
        Ok(())
    }
    fn orphan(&self, _body: &[u8]) {}
    fn broken(&self) {}
}

#[test]
fn calls_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let address = Address::Unix(folder.path().join("app.sock"));
    let server = Server::start(&address, ServerOptions::default(), Upper).unwrap();
    let client =
        Client::connect(server.address(), ClientOptions::default(), Arc::new(Quiet)).unwrap();
    for _ in 0..1000 {
        let answer = client.call(b"hello".to_vec(), CallKind { resend: true, cancel: true });
        assert_eq!(answer.wait().unwrap(), b"HELLO");
    }
}
