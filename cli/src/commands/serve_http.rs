//! `serve --http`.

use tubewell::{Error, Store};
use tubewell_http::{HttpOptions, HttpServer};

use crate::args::ServeHttp;
use crate::failure::{CommandResult, Failure};
use crate::owner;

/// Serves the store over HTTP, if that is asked for.
pub(super) fn serve(store: &Store, args: &ServeHttp) -> CommandResult<Option<HttpServer>> {
    let Some(address) = &args.http else { return Ok(None) };
    let mut options = HttpOptions::new(address).read_only(args.http_read_only);
    options = args.http_host.iter().fold(options, HttpOptions::host);
    if let Some(file) = &args.http_token_file {
        options = options.token(owner::secret("token", file)?);
    }
    match tubewell_http::serve(store, options) {
        Ok(served) => Ok(Some(served)),
        Err(Error::Invalid { what }) if what.contains("token") => {
            Err(Failure::usage(format!("--http: {what}"))
                .hint("give --http-token-file FILE; `openssl rand -hex 32` prints a token"))
        }
        Err(Error::Invalid { what }) => Err(Failure::usage(format!("--http: {what}"))),
        Err(error) => Err(Failure::of_address(error, address)),
    }
}
