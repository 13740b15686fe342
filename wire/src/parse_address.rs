//! Addresses from texts.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::str::FromStr;

use crate::address::Address;
use crate::error::WireError;

impl FromStr for Address {
    type Err = WireError;

    fn from_str(text: &str) -> Result<Address, WireError> {
        let invalid = |why: String| WireError::InvalidAddress { text: text.to_owned(), why };
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(invalid("the path is empty".to_owned()));
            }
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        let Some(host) = text.strip_prefix("tcp://") else {
            return Err(invalid("it begins with neither unix: nor tcp://".to_owned()));
        };
        let host = host.strip_suffix('/').unwrap_or(host);
        let mut resolved = host.to_socket_addrs().map_err(|error| invalid(error.to_string()))?;
        resolved
            .next()
            .map(Address::Tcp)
            .ok_or_else(|| invalid("the host has no address".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_and_print() {
        for text in
            ["unix:/run/app.sock", "unix:relative.sock", "tcp://127.0.0.1:7711", "tcp://[::1]:1"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert!(matches!("tcp://localhost:7711".parse(), Ok(Address::Tcp(_))));
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in
            ["", "unix:", "/run/app.sock", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:99999"]
        {
            assert!(
                matches!(text.parse::<Address>(), Err(WireError::InvalidAddress { .. })),
                "{text}"
            );
        }
    }
}
