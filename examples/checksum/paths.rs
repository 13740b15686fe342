//! Paths as bytes. On Unix a name is any bytes; on other systems only Unicode names are supported.

use std::ffi::OsStr;
use std::path::PathBuf;

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "it fails on other systems")]
pub fn to_bytes(name: &OsStr) -> Result<Vec<u8>, String> {
    use std::os::unix::ffi::OsStrExt;
    Ok(name.as_bytes().to_vec())
}

#[cfg(not(unix))]
pub fn to_bytes(name: &OsStr) -> Result<Vec<u8>, String> {
    match name.to_str() {
        Some(name) => Ok(name.as_bytes().to_vec()),
        None => Err(format!("the name {} is not valid text", name.display())),
    }
}

#[cfg(unix)]
pub fn from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
pub fn from_bytes(bytes: &[u8]) -> PathBuf {
    // The bytes come from `to_bytes`, so they are valid UTF-8.
    String::from_utf8_lossy(bytes).into_owned().into()
}
