//! Calls over HTTP to a server in this process: well-formed calls with names, options and contents of all kinds, and
//! any bytes in the place of a call.

mod answer;
mod grammar;

use std::collections::BTreeSet;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use tubewell::{Failure, Keep, Put, Schedule, Store, TubeOptions, UTUBETTL};
use tubewell_http::{HttpOptions, HttpServer, serve};

use crate::oracle::Oracle;
use answer::Answer;
use grammar::Call;

/// With more calls, each input would be slow, without additional findings.
const CALLS_MAX: usize = 40;
/// A call that waits for longer hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);
const HOUR: Duration = Duration::from_secs(3600);

pub fn check(bytes: &[u8], oracle: Oracle) {
    run(bytes, oracle);
}

/// The calls of an input, with whether they were carried out, such as `GET /v1/tubes true`.
#[must_use]
pub fn met(bytes: &[u8]) -> BTreeSet<String> {
    run(bytes, Oracle::Correct)
}

/// All calls of the target.
pub fn calls() -> impl Iterator<Item = &'static str> {
    grammar::CALLS.into_iter()
}

/// The calls that the server describes.
#[must_use]
pub fn described() -> BTreeSet<String> {
    let mut run = Run::new(Oracle::Correct);
    let answer = run.send(&Call::plain("GET /openapi.json"));
    let description = answer.json();
    let paths = description["paths"].as_object().unwrap().iter();
    let calls = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    calls.collect()
}

fn run(bytes: &[u8], oracle: Oracle) -> BTreeSet<String> {
    let mut source = Unstructured::new(bytes);
    let mut run = Run::new(oracle);
    for _ in 0..CALLS_MAX {
        if source.is_empty() || run.step(&mut source).is_err() {
            break;
        }
    }
    run.finish()
}

struct Run {
    store: Store,
    server: HttpServer,
    stream: BufReader<TcpStream>,
    /// Of the last take.
    claim: String,
    oracle: Oracle,
    met: BTreeSet<String>,
}

/// A store with tasks in all states.
fn filled() -> Store {
    let store = Store::in_memory().unwrap();
    let options = TubeOptions::new().ttr(HOUR).keep_done(Keep::new()).history(20).metrics(7);
    let jobs = store.create_tube("jobs", options).unwrap();
    for (key, body) in [("k", "one"), ("l", "{\"a\": 1}"), ("m", "three")] {
        jobs.put(Put::new(body).key(key).tag("t")).unwrap();
    }
    jobs.take().unwrap().ack().unwrap();
    jobs.take().unwrap().bury(Failure::new("g", "why")).unwrap();
    jobs.put(Put::new("child").after(&jobs, [2])).unwrap();
    jobs.put(Put::new("later").delay(HOUR)).unwrap();
    jobs.schedule(Schedule::every("s", HOUR), "tick").unwrap();
    let options = TubeOptions::new().driver(UTUBETTL).shared_limits(true);
    store.create_tube("u", options).unwrap().put(Put::new("x").sub_queue("a")).unwrap();
    store
}

impl Run {
    fn new(oracle: Oracle) -> Run {
        let store = filled();
        let server = serve(&store, HttpOptions::new("127.0.0.1:0").max_body(1 << 16)).unwrap();
        let stream = connect(&server);
        let (claim, met) = (String::new(), BTreeSet::new());
        Run { store, server, stream, claim, oracle, met }
    }

    fn step(&mut self, source: &mut Unstructured<'_>) -> Result<()> {
        match u8::arbitrary(source)? % 8 {
            0 => self.bytes(source)?,
            1 => self.read_back(source)?,
            2 => self.make(&Call::take()),
            _ => self.make(&Call::arbitrary(source, &self.claim)?),
        }
        Ok(())
    }

    fn make(&mut self, call: &Call) {
        let answer = self.send(call);
        self.met.insert(format!("{} {}", call.name, answer.is_done()));
        if let Some(claim) = answer.claim() {
            self.claim = claim;
        }
    }

    /// Makes a call, and checks that its answer is one of the server's own.
    fn send(&mut self, call: &Call) -> Answer {
        let bytes = call.bytes(&self.server.address().to_string());
        let _may_be_refused = self.stream.get_mut().write_all(&bytes);
        let answer = Answer::read(&mut self.stream, call.method() == "HEAD");
        let Some(answer) = answer else { panic!("no answer to {call:?}") };
        answer.check(call);
        if answer.closes {
            self.stream = connect(&self.server);
        }
        answer
    }

    /// Sends any bytes, and nothing behind them. What the server answers must be no failure of its own.
    fn bytes(&mut self, source: &mut Unstructured<'_>) -> Result<()> {
        let sent = grammar::text(source)?;
        let mut stream = connect(&self.server);
        let host = self.server.address().to_string();
        let sent = String::from_utf8_lossy(&sent).replace("HOST", &host).replace('\n', "\r\n");
        let _may_be_refused = stream.get_mut().write_all(sent.as_bytes());
        let _may_be_closed = stream.get_mut().shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            ended => assert!(ended.is_ok(), "the server did not end the connection: {ended:?}"),
        }
        for status in answer::statuses(&answer) {
            assert!(status < 500 || status == 501, "{status}: {sent:?}");
        }
        Ok(())
    }

    /// Puts any bytes, and reads exactly these back.
    fn read_back(&mut self, source: &mut Unstructured<'_>) -> Result<()> {
        let mut body = grammar::text(source)?;
        let put = Call::put(&body);
        let put = self.send(&put);
        if put.status != 201 {
            return Ok(());
        }
        if self.oracle.is_faulty() {
            body.push(b'x');
        }
        let id = put.json()["id"].as_u64().unwrap();
        let task = self.send(&Call::plain(&format!("GET /v1/tasks/{id}"))).json();
        assert_eq!(task["size"], body.len(), "{task}");
        let text = task["data"].as_str().map(|text| text.as_bytes().to_vec());
        assert_eq!(text, String::from_utf8(body).ok().map(String::into_bytes), "{task}");
        Ok(())
    }

    fn finish(self) -> BTreeSet<String> {
        let Run { store, server, met, .. } = self;
        server.stop();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        met
    }
}

fn connect(server: &HttpServer) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(HANGS_AFTER)).unwrap();
    BufReader::new(stream)
}
