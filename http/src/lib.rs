//! The [tubewell](https://docs.rs/tubewell) task queue over HTTP, in JSON: puts, takes as long polls, claims, listings.
//!
//! The process that owns a store serves it with one line, and programs in any language work with its tubes beside the
//! owner's own workers: they stand in the same line.
//!
//! ```
//! use tubewell::Store;
//! use tubewell_http::HttpOptions;
//!
//! let store = Store::in_memory()?;
//! let server = tubewell_http::serve(&store, HttpOptions::new("127.0.0.1:0"))?;
//! println!("http://{}/v1/tubes", server.address());
//! server.stop();
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! ```text
//! curl -d 'to: ann' http://127.0.0.1:11380/v1/tubes/mails/tasks
//! curl -X POST 'http://127.0.0.1:11380/v1/tubes/mails/take?wait=20s&hold=60s'
//! curl -X POST http://127.0.0.1:11380/v1/claims/CLAIM/ack
//! ```
//!
//! The page at `/` shows the store in a browser, and changes it: docs/dashboard.md describes it.
//!
//! # Calls
//! `docs/http.md` of the project lists the calls, and each server describes them at `/openapi.json`: puts, takes as long
//! polls and ends of claims; pages of tasks, their changes and outcomes; changes of many tasks; tubes, schedules, failure groups,
//! events and metrics.
//!
//! **Tasks** have the fields of the command's JSON (docs/command.md). A put reads a JSON object with `data` or
//! `data_base64` and the options of the task, or a list of such objects, if its content type is `application/json`. Any
//! other content is the body of one task, as it is. The header `Idempotency-Key` is the key of that name.
//!
//! **A take** waits up to `wait` (default: not at all), and returns up to `max` tasks (default 1), each with the text of
//! its `claim`. It is served in the order of arrival with all other takers of the store. A client that goes away while
//! it waits gets no task, and uses up no attempt. A claim ends with its ttr, or after `hold`; a take from a tube without
//! a ttr names the `hold`.
//!
//! **Errors** are problem details (RFC 9457), with the name of the library's error as `kind`. Unless the kind is
//! `outcome_unknown`, a call that failed has changed nothing; of a change of many tasks, the steps before the refused
//! one stand. A limit has status 429, a store that cannot answer now 503 and a full disk 507: these calls may be made again, but for `outcome_unknown`.
//!
//! # Security
//! The server listens at loopback only, unless it has a [token](HttpOptions::token), which each call then sends as
//! `Authorization: Bearer TOKEN`. Without a token it answers only calls to its own host name, which a page of another
//! site cannot name (DNS rebinding), and no call whose `Origin` is another one. TLS is left to a proxy.
#![forbid(unsafe_code)]

mod claim_text;
mod guard;
mod openapi;
mod options;
mod page;
mod peer;
mod problem;
mod query;
mod routes;
mod server;
#[cfg(test)]
mod slow_peers;
mod workers;

/// The programs of docs/http.md.
#[cfg(doctest)]
#[doc = include_str!("../../docs/http.md")]
struct Document;

pub use options::HttpOptions;
pub use server::{HttpServer, serve};
