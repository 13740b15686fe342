//! Which process has a file open: best effort, where the system tells.

use std::path::Path;

/// The process that has the file at `path` open, other than this one, as people call it.
#[cfg(target_os = "linux")]
pub fn of(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    let file = std::fs::metadata(path).ok()?;
    let is_it = |fd: std::fs::DirEntry| {
        let open = std::fs::metadata(fd.path());
        open.is_ok_and(|open| open.dev() == file.dev() && open.ino() == file.ino())
    };
    let me = std::process::id();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // What belongs to other users cannot be looked into.
        let Ok(mut fds) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        if pid != me && fds.any(|fd| fd.is_ok_and(is_it)) {
            return Some(describe(pid));
        }
    }
    locked_by(file.dev(), file.ino()).filter(|pid| *pid != me).map(describe)
}

#[cfg(not(target_os = "linux"))]
pub fn of(_path: &Path) -> Option<String> {
    None
}

/// The list of locks names the processes of other users too.
#[cfg(target_os = "linux")]
fn locked_by(device: u64, inode: u64) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // Another file system may have a file of the same number.
    let (major, minor) = numbers(device);
    let of_file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let at = fields.iter().position(|field| *field == of_file)?;
        // Locks that belong to an open file rather than to a process say -1.
        fields.get(at.checked_sub(1)?)?.parse().ok()
    })
}

/// The two numbers in a device's.
#[cfg(target_os = "linux")]
fn numbers(device: u64) -> (u64, u64) {
    let major = device >> 32 & 0xffff_f000 | device >> 8 & 0xfff;
    let minor = device >> 12 & 0xffff_ff00 | device & 0xff;
    (major, minor)
}

#[cfg(target_os = "linux")]
fn describe(pid: u32) -> String {
    const LONGEST: usize = 60;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    // What another process calls itself must not reach the terminal as control codes.
    let command: String = command.trim().chars().filter(|c| !c.is_control()).collect();
    let short: String = command.chars().take(LONGEST).collect();
    let more = if short.len() < command.len() { "…" } else { "" };
    if short.is_empty() {
        return format!("process {pid}");
    }
    format!("process {pid} ({short}{more})")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::numbers;

    #[test]
    fn a_device_has_two_numbers() {
        assert_eq!(numbers(0xfd03), (0xfd, 3));
        assert_eq!(numbers(0x10_082c), (8, 300));
    }
}
