//! Which calls are answered at all: those of the token's holders, or those of this machine's own programs.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, TRANSFER_ENCODING,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use crate::HttpOptions;
use crate::page;
use crate::problem::Problem;

/// A browser names itself with this header; programs do not.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// With `navigate`, the browser opens what it gets as a page of its own, which the calling page cannot read.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// A page of another site cannot set this header without asking first, which is never allowed.
const FROM_PAGE: HeaderName = HeaderName::from_static("tubewell-page");

/// Who may call.
pub(crate) struct Guard {
    token: Option<Arc<[u8]>>,
    /// Names of this server, in lower case, with and without its port.
    hosts: Vec<String>,
    read_only: bool,
}

impl Guard {
    pub(crate) fn new(options: &HttpOptions, address: SocketAddr) -> Guard {
        let (ip, port) = (address.ip(), address.port());
        let ip = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        let own = [ip, "localhost".to_owned()].into_iter().flat_map(|name| {
            // Clients leave out the port of HTTP.
            let without = (port == 80).then(|| name.clone());
            [Some(format!("{name}:{port}")), without].into_iter().flatten()
        });
        let further = options.hosts.iter().map(|name| name.to_ascii_lowercase());
        Guard {
            token: options.token.clone(),
            hosts: own.chain(further).collect(),
            read_only: options.read_only,
        }
    }

    fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Problem> {
        check_transfer(headers)?;
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        // The page has no data, and asks for the token.
        let is_page = !changes && page::is_page(path);
        match &self.token {
            Some(_) if is_page => {}
            Some(token) => check_token(token, headers)?,
            None => self.check_host(headers)?,
        }
        // A link of another site may lead to the page.
        let is_link = is_page && text_of(headers, &FETCH_MODE) == Some("navigate");
        if !is_link {
            self.check_origin(headers, changes)?;
        }
        if changes && self.read_only {
            return Err(forbidden(
                "read_only",
                "the server changes nothing; serve the store without read-only",
            ));
        }
        Ok(())
    }

    fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let host = text_of(headers, &HOST).map(str::to_ascii_lowercase);
        if host.is_some_and(|host| self.is_own(&host)) {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            "the call names another host than this server; call it by its address with the port, or allow the \
             name (HttpOptions::host, --http-host)",
        ))
    }

    /// A name of this server, or one that was allowed, with any port.
    fn is_own(&self, host: &str) -> bool {
        let without_port = match host.rsplit_once(':') {
            Some((name, _)) if !name.contains(':') || name.ends_with(']') => name,
            _ => host,
        };
        self.hosts.iter().any(|own| own == host || own == without_port)
    }

    /// Refuses the calls of pages of other sites.
    fn check_origin(&self, headers: &HeaderMap, changes: bool) -> Result<(), Problem> {
        let foreign = || {
            forbidden(
                "wrong_origin",
                "pages of other sites may not call this server; call it from their server, or serve the page at its address",
            )
        };
        let origin = text_of(headers, &ORIGIN);
        if let Some(origin) = origin {
            let host = origin.split_once("://").map_or(origin, |(_, host)| host);
            let is_same = text_of(headers, &HOST).is_some_and(|own| own.eq_ignore_ascii_case(host));
            // A token is enough: a foreign name that leads here (DNS rebinding) brings none.
            let is_own = self.token.is_some() || self.is_own(&host.to_ascii_lowercase());
            if !is_same || !is_own {
                return Err(foreign());
            }
        }
        let site = text_of(headers, &FETCH_SITE);
        if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Err(foreign());
        }
        if changes && (origin.is_some() || site.is_some()) && !headers.contains_key(&FROM_PAGE) {
            return Err(forbidden(
                "no_page_header",
                "a page that changes something sends the header Tubewell-Page",
            ));
        }
        Ok(())
    }
}

/// Answers a call, or refuses it.
pub(crate) async fn guard(State(guard): State<Arc<Guard>>, call: Request, next: Next) -> Response {
    let mut response = match guard.check(call.method(), call.uri().path(), call.headers()) {
        Ok(()) => next.run(call).await,
        Err(problem) => problem.into_response(),
    };
    let is_unauthorized = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    if is_unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The page has one of its own.
    let policy = headers.entry(CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static("default-src 'none'"));
    // Answers have tasks in them.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Refuses content in a coding that the server would not undo.
fn check_transfer(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(coding) = text_of(headers, &TRANSFER_ENCODING) else { return Ok(()) };
    if coding.trim().eq_ignore_ascii_case("chunked") {
        return Ok(());
    }
    let what = "the server undoes no other Transfer-Encoding than chunked";
    Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "unknown_coding", what))
}

fn check_token(token: &[u8], headers: &HeaderMap) -> Result<(), Problem> {
    let given = text_of(headers, &AUTHORIZATION).and_then(|value| value.split_once(' '));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"));
    let given = given.map_or(&b""[..], |(_, token)| token.as_bytes());
    // Only its length is told by how long this takes.
    if bool::from(token.ct_eq(given)) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNAUTHORIZED,
        "wrong_token",
        "send the token of the server as `Authorization: Bearer TOKEN`",
    ))
}

fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    // Several are those of a call that was smuggled.
    if values.next().is_some() { Some("") } else { Some(first.to_str().unwrap_or_default()) }
}

fn forbidden(kind: &str, detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, kind, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_of_http_may_be_left_out() {
        let guard = |address: &str| {
            let address: SocketAddr = address.parse().unwrap();
            Guard::new(&HttpOptions::new("x"), address)
        };
        for own in ["127.0.0.1", "127.0.0.1:80", "localhost", "localhost:80"] {
            assert!(guard("127.0.0.1:80").is_own(own), "{own}");
        }
        assert!(guard("[::1]:80").is_own("[::1]"));
        assert!(!guard("127.0.0.1:81").is_own("127.0.0.1"));
        assert!(!guard("127.0.0.1:81").is_own("127.0.0.1:81:99"));
        assert!(!guard("127.0.0.1:81").is_own("localhost:80"));
    }
}
