//! beanstalkd: one server for each row, and one connection for each caller.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{Process, version_of};
use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting};
use crate::threads::{Caller, Threaded, Verbs};

const PROGRAM: &str = "beanstalkd";
/// Maximum time until the server listens.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a read or a write on the connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// How often the binlog is flushed.
#[derive(Clone, Copy)]
enum Flush {
    Always,
    Every50Ms,
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [Flush::Always, Flush::Every50Ms]
        .into_iter()
        .map(|flush| Box::new(Beanstalkd(flush)) as Box<dyn Peer>)
}

struct Beanstalkd(Flush);

impl Peer for Beanstalkd {
    fn about(&self) -> About {
        let (name, class, loses) = match self.0 {
            Flush::Always => ("beanstalkd/-f0", Class::Durable, Losses::nothing()),
            Flush::Every50Ms => {
                let lost = "the last 50 ms of puts and deletes; it syncs only when it writes, so \
                            those before an idle period stay unsynced until the next write";
                ("beanstalkd/-f50", Class::ProcessSafe, Losses::new("nothing", lost, "the same"))
            }
        };
        About {
            name: name.into(),
            version: version_of(PROGRAM).unwrap_or_default(),
            class,
            loses,
            callers: "threads, a TCP connection each, one request at a time".into(),
            waits: "blocking reserve".into(),
            note: "A server: each call is a round trip. It runs on one thread, and connections \
                   do not share an fsync."
                .into(),
        }
    }

    fn missing(&self) -> Option<String> {
        version_of(PROGRAM).err()
    }

    fn open(&self, dir: &Path, _: &Setting) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Threaded(Server::start(dir, self.0)?)))
    }
}

struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    fn start(dir: &Path, flush: Flush) -> Result<Server> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let binlog = dir.join("binlog");
        std::fs::create_dir(&binlog)?;
        let flush = match flush {
            Flush::Always => "-f0",
            Flush::Every50Ms => "-f50",
        };
        let (port_text, binlog) =
            (port.to_string(), binlog.to_str().ok_or("the path is not UTF-8")?);
        let arguments = ["-l", "127.0.0.1", "-p", &port_text, "-b", binlog, flush];
        let process = Process::guarded(PROGRAM, &arguments, &dir.join("beanstalkd.log"))?;
        let mut server = Server { process, address: (Ipv4Addr::LOCALHOST, port).into() };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let started = Instant::now();
        while let Err(error) = TcpStream::connect(self.address) {
            if started.elapsed() > START_TIMEOUT || !self.process.runs() {
                return Err(format!("beanstalkd does not listen: {error}").into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Verbs for Server {
    type Caller = Connection;

    fn caller(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Connection { stream: BufReader::new(stream), request: Vec::new() })
    }

    fn close(self) -> Result<()> {
        self.process.end()
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
}

/// A job that the connection has reserved.
struct Reserved {
    id: u64,
    body: Vec<u8>,
}

impl AsRef<[u8]> for Reserved {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Connection {
    /// Sends a request and returns the first line of the answer.
    fn ask(&mut self, line: &str, body: Option<&[u8]>) -> Result<String> {
        self.request.clear();
        self.request.extend_from_slice(line.as_bytes());
        self.request.extend_from_slice(b"\r\n");
        if let Some(body) = body {
            self.request.extend_from_slice(body);
            self.request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&self.request)?;
        let mut answer = String::new();
        if self.stream.read_line(&mut answer)? == 0 {
            return Err("beanstalkd closed the connection".into());
        }
        answer.truncate(answer.trim_end().len());
        Ok(answer)
    }

    fn reserve(&mut self, seconds: u64) -> Result<Option<Reserved>> {
        let answer = self.ask(&format!("reserve-with-timeout {seconds}"), None)?;
        let words: Vec<&str> = answer.split(' ').collect();
        match words[..] {
            ["TIMED_OUT"] => Ok(None),
            ["RESERVED", id, length] => {
                let (id, mut body) = (id.parse()?, vec![0; length.parse::<usize>()? + 2]);
                self.stream.read_exact(&mut body)?;
                body.truncate(body.len() - 2);
                Ok(Some(Reserved { id, body }))
            }
            _ => Err(unexpected("a reserve", &answer)),
        }
    }
}

impl Caller for Connection {
    type Task = Reserved;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        let answer = self.ask(&format!("put 0 0 120 {}", body.len()), Some(body))?;
        if answer.starts_with("INSERTED ") { Ok(()) } else { Err(unexpected("a put", &answer)) }
    }

    fn take(&mut self) -> Result<Option<Reserved>> {
        self.reserve(0)
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Reserved>> {
        self.reserve(timeout.as_secs().max(1))
    }

    fn ack(&mut self, task: Reserved) -> Result<()> {
        let answer = self.ask(&format!("delete {}", task.id), None)?;
        if answer == "DELETED" { Ok(()) } else { Err(unexpected("a delete", &answer)) }
    }
}

fn unexpected(what: &str, answer: &str) -> Box<dyn std::error::Error + Send + Sync> {
    format!("unexpected answer of beanstalkd to {what}: {answer}").into()
}
