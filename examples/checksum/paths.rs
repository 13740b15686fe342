//! Paths as bytes. On Unix a name is any bytes; elsewhere only names that are text can be kept.

use std::ffi::OsStr;
use std::path::PathBuf;

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
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
    // Only what `to_bytes` made comes here: nothing is lost.
    String::from_utf8_lossy(bytes).into_owned().into()
}
