//! `serve`: opens a store, and lets other processes in until a signal.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::channel;

use serde_json::json;
use tubewell::Store;

use crate::args::{Cli, Serve};
use crate::connection::{self, Serving};
use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::{owner, signals, store};

pub fn run(path: &Path, cli: &Cli, args: &Serve, output: &mut Output) -> CommandResult {
    let tcp = args.tcp.as_deref().map(|address| tcp(address, args, cli)).transpose()?;
    store::must_exist(path)?;
    let store = store::open_file(path, cli, || false)?;
    let served = serve(&store, path, args, tcp, output);
    served.and(store::close(&store))
}

/// The TCP address and the secret.
fn tcp(address: &str, args: &Serve, cli: &Cli) -> CommandResult<(SocketAddr, Vec<u8>)> {
    let Some(file) = &cli.secret_file else {
        return Err(Failure::usage("--tcp needs a secret that both sides know")
            .hint("give --secret-file FILE; `openssl rand -hex 32` prints a secret"));
    };
    let is_near = |address: &SocketAddr| address.ip().is_loopback();
    let resolved = address.to_socket_addrs().map(|mut addresses| addresses.next());
    match resolved {
        Ok(Some(near)) if !is_near(&near) && !args.any_interface => {
            Err(Failure::usage(format!("--tcp {address} can be reached from other machines"))
                .hint("give --any-interface if that is meant"))
        }
        Ok(Some(address)) => Ok((address, owner::secret("secret", file)?)),
        Ok(None) => Err(Failure::usage(format!("--tcp: {address} has no address"))),
        Err(error) => Err(Failure::usage(format!("--tcp {address}: {error}"))
            .hint("write an address and a port, such as 127.0.0.1:7711")),
    }
}

/// Serves the store until a signal.
fn serve(
    store: &Store,
    path: &Path,
    args: &Serve,
    tcp: Option<(SocketAddr, Vec<u8>)>,
    output: &mut Output,
) -> CommandResult {
    let (stop, stopped) = channel();
    // Before the address is printed: who reads it may send a signal.
    signals::forward(move |_| stop.send(()).is_ok())?;
    let mut serving: Vec<Serving> = Vec::new();
    if cfg!(unix) || args.socket.is_some() {
        let socket = args.socket.clone().unwrap_or_else(|| tubewell::expert::socket_beside(path));
        let served = connection::serve_unix(store, &socket);
        serving.push(served.map_err(|error| Failure::of_address(error, &socket.display()))?);
    } else if tcp.is_none() && !args.is_over_http() {
        return Err(Failure::usage("this system has no unix sockets").hint(
            if cfg!(feature = "http") {
                "give --tcp ADDRESS or --http ADDRESS"
            } else {
                "give --tcp ADDRESS"
            },
        ));
    }
    if let Some((address, secret)) = tcp {
        let served = connection::serve_tcp(store, address, secret, args.any_interface);
        serving.push(served.map_err(|error| Failure::of_address(error, &address))?);
    }
    #[cfg_attr(not(feature = "http"), expect(unused_mut, reason = "it is the only other one"))]
    let mut urls: Vec<String> = serving.iter().map(|served| served.url().to_string()).collect();
    #[cfg(feature = "http")]
    let http = super::serve_http::serve(store, &args.http)?;
    #[cfg(feature = "http")]
    urls.extend(http.iter().map(|served| format!("http://{}", served.address())));
    for url in urls {
        if output.json {
            output.object(&json!({ "file": path.display().to_string(), "address": url }))?;
        } else {
            output.line(format!("serving {} at {url}", path.display()))?;
        }
    }
    output.flush()?;
    // The thread of the signals has the other end as long as there may be one.
    let _ = stopped.recv();
    Ok(())
}
