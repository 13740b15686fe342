//! Which process has a file open. Best effort: on Linux only.

use std::path::Path;

/// Describes the process, other than this one, that has the file at `path` open.
#[cfg(target_os = "linux")]
pub fn find(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    let file = std::fs::metadata(path).ok()?;
    let is_file = |fd: std::fs::DirEntry| {
        let open = std::fs::metadata(fd.path());
        open.is_ok_and(|open| open.dev() == file.dev() && open.ino() == file.ino())
    };
    let me = std::process::id();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // The files of other users' processes cannot be listed.
        let Ok(mut fds) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        if pid != me && fds.any(|fd| fd.is_ok_and(is_file)) {
            return Some(describe(pid));
        }
    }
    locked_by(file.dev(), file.ino()).filter(|pid| *pid != me).map(describe)
}

#[cfg(not(target_os = "linux"))]
pub fn find(_path: &Path) -> Option<String> {
    None
}

/// Searches the kernel's list of locks, which has processes of other users too.
#[cfg(target_os = "linux")]
fn locked_by(device: u64, inode: u64) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // Inode numbers are unique within a device only.
    let (major, minor) = major_and_minor(device);
    let of_file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let at = fields.iter().position(|field| *field == of_file)?;
        // A lock of an open file description has the process id -1.
        fields.get(at.checked_sub(1)?)?.parse().ok()
    })
}

/// The major and minor number of a device.
#[cfg(target_os = "linux")]
fn major_and_minor(device: u64) -> (u64, u64) {
    let major = device >> 32 & 0xffff_f000 | device >> 8 & 0xfff;
    let minor = device >> 12 & 0xffff_ff00 | device & 0xff;
    (major, minor)
}

#[cfg(target_os = "linux")]
fn describe(pid: u32) -> String {
    const COLUMNS: usize = 60;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    // A process chooses this text itself: it must not reach the terminal as control codes.
    let command: String = command.trim().chars().filter(|c| !c.is_control()).collect();
    if command.is_empty() {
        return format!("process {pid}");
    }
    format!("process {pid} ({})", crate::columns::cut(&command, COLUMNS))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::major_and_minor;

    #[test]
    fn device_number_is_split_into_major_and_minor() {
        assert_eq!(major_and_minor(0xfd03), (0xfd, 3));
        assert_eq!(major_and_minor(0x10_082c), (8, 300));
    }
}
