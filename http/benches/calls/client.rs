//! A client of HTTP that costs little itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A connection that is kept open.
pub struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

impl Client {
    pub fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream), address }
    }

    pub fn post(&mut self, path: &str) -> String {
        self.call("POST", path)
    }

    fn call(&mut self, method: &str, path: &str) -> String {
        self.send(method, path);
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).unwrap();
        String::from_utf8(content).unwrap()
    }

    /// The first line of an answer.
    pub fn status(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line
    }

    pub fn send(&mut self, method: &str, path: &str) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n",
            self.address
        );
        self.stream.get_mut().write_all(head.as_bytes()).unwrap();
    }
}
