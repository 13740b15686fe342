//! The options of `serve`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

#[derive(Debug, Args)]
pub struct Serve {
    /// The file of the store. Default: that of --store
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The socket at which the store is served. Default: the name of the file, with .sock behind it,
    /// where other commands look for it
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Serve at this TCP address, too, such as 127.0.0.1:7711. Needs --secret-file
    #[arg(long, value_name = "ADDRESS")]
    pub tcp: Option<String>,
    /// Allow a TCP address that other machines can reach
    #[arg(long, requires = "tcp")]
    pub any_interface: bool,
    #[cfg(feature = "http")]
    #[command(flatten)]
    pub http: ServeHttp,
}

impl Serve {
    #[cfg(feature = "http")]
    pub fn is_over_http(&self) -> bool {
        self.http.http.is_some()
    }

    #[cfg(not(feature = "http"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub fn is_over_http(&self) -> bool {
        false
    }
}

/// How the store is served over HTTP.
#[cfg(feature = "http")]
#[derive(Debug, Args)]
pub struct ServeHttp {
    /// Serve over HTTP at this address, too, such as 127.0.0.1:11380
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// A file with the token that each call over HTTP sends. Needed for an address that other machines can reach
    #[arg(long, value_name = "FILE", requires = "http", value_hint = ValueHint::FilePath)]
    pub http_token_file: Option<PathBuf>,
    /// A name under which a proxy calls the server over HTTP. May be given several times
    #[arg(long, value_name = "NAME", requires = "http")]
    pub http_host: Vec<String>,
    /// Refuse the calls over HTTP that change something
    #[arg(long, requires = "http")]
    pub http_read_only: bool,
}
