//! beanstalkd: one server for each row, and one connection for each caller.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::process::{Process, version_of};
use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting};
use crate::threads::{Caller, Threaded, Verbs};

const PROGRAM: &str = "beanstalkd";
/// Maximum time until the server listens.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a read or a write on the connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
const NOT_UTF8: &str = "the path is not UTF-8";

/// How often the binlog is flushed.
#[derive(Clone, Copy)]
enum Flush {
    Always,
    Every50Ms,
}

/// How the callers connect.
#[derive(Clone, Copy)]
enum Socket {
    Tcp,
    Unix,
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [Socket::Tcp, Socket::Unix].into_iter().flat_map(|socket| {
        [Flush::Always, Flush::Every50Ms]
            .map(|flush| Box::new(Beanstalkd { flush, socket }) as Box<dyn Peer>)
    })
}

struct Beanstalkd {
    flush: Flush,
    socket: Socket,
}

impl Peer for Beanstalkd {
    fn about(&self) -> About {
        let (class, loses) = match self.flush {
            Flush::Always => (Class::Durable, Losses::nothing()),
            Flush::Every50Ms => {
                let lost = "the last 50 ms of puts and deletes; it syncs only when it writes, so \
                            those before an idle period stay unsynced until the next write";
                (Class::ProcessSafe, Losses::new("nothing", lost, "the same"))
            }
        };
        let (suffix, connection) = match self.socket {
            Socket::Tcp => ("", "a TCP connection"),
            Socket::Unix => ("-unix", "a connection to a unix socket"),
        };
        About {
            name: format!("beanstalkd/{}{suffix}", self.flush.option()),
            version: version_of(PROGRAM).unwrap_or_default(),
            class,
            loses,
            callers: format!("threads, {connection} each, one request at a time"),
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
        Ok(Box::new(Threaded(Server::start(dir, self.flush, self.socket)?)))
    }
}

impl Flush {
    /// The option of the server.
    fn option(self) -> &'static str {
        match self {
            Flush::Always => "-f0",
            Flush::Every50Ms => "-f50",
        }
    }
}

struct Server {
    process: Process,
    address: Address,
}

impl Server {
    fn start(dir: &Path, flush: Flush, socket: Socket) -> Result<Server> {
        let address = Address::new(dir, socket)?;
        let binlog = dir.join("binlog");
        std::fs::create_dir(&binlog)?;
        let (listen, port) = address.options()?;
        let binlog = binlog.to_str().ok_or(NOT_UTF8)?;
        let mut arguments = vec!["-l", &listen, "-b", binlog, flush.option()];
        arguments.extend(port.iter().flat_map(|port| ["-p", port]));
        let process = Process::guarded(PROGRAM, &arguments, &dir.join("beanstalkd.log"))?;
        let mut server = Server { process, address };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let started = Instant::now();
        while let Err(error) = self.address.connect() {
            if started.elapsed() > START_TIMEOUT || !self.process.runs() {
                return Err(format!("beanstalkd does not listen: {error}").into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// Where the server listens.
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    fn new(dir: &Path, socket: Socket) -> Result<Address> {
        Ok(match socket {
            Socket::Tcp => Address::Tcp(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?),
            Socket::Unix => Address::Unix(dir.join("beanstalkd.sock")),
        })
    }

    /// The values of the options `-l` and `-p`.
    fn options(&self) -> Result<(String, Option<String>)> {
        Ok(match self {
            Address::Tcp(address) => (address.ip().to_string(), Some(address.port().to_string())),
            Address::Unix(path) => (format!("unix:{}", path.to_str().ok_or(NOT_UTF8)?), None),
        })
    }

    fn connect(&self) -> io::Result<Stream> {
        match self {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                Ok(Box::new(stream))
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// A socket of either kind.
trait ReadWrite: Read + Write + Send {}
impl<T: Read + Write + Send> ReadWrite for T {}
type Stream = Box<dyn ReadWrite>;

impl Verbs for Server {
    type Caller = Connection;

    fn caller(&self) -> Result<Connection> {
        let stream = BufReader::new(self.address.connect()?);
        Ok(Connection { stream, request: Vec::new() })
    }

    fn close(self) -> Result<()> {
        self.process.end()
    }
}

struct Connection {
    stream: BufReader<Stream>,
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
