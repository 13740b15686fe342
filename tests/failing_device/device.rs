//! A block device whose writes fail for a while, with a file system on it.
//!
//! It is a loop device on a file with holes in a small tmpfs. While the tmpfs is full, a write to a
//! block fails if it was never written before.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The size of the device. `mkfs.xfs` refuses smaller ones.
const DEVICE: &str = "320M";
/// The size of the tmpfs.
const BACKING: &str = "size=160M";

/// A file system, and how it is made and mounted.
pub struct FileSystem {
    pub name: &'static str,
    mkfs: &'static [&'static str],
    mount_options: &'static str,
}

pub const EXT4: FileSystem = FileSystem {
    name: "ext4",
    mkfs: &["mkfs.ext4", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    mount_options: "dioread_nolock",
};
pub const EXT4_WRITTEN_EXTENTS: FileSystem =
    FileSystem { name: "ext4 without dioread_nolock", mount_options: "dioread_lock", ..EXT4 };
pub const XFS: FileSystem =
    FileSystem { name: "XFS", mkfs: &["mkfs.xfs", "-q", "-f"], mount_options: "defaults" };
pub const BTRFS: FileSystem =
    FileSystem { name: "btrfs", mkfs: &["mkfs.btrfs", "-q", "-f"], mount_options: "defaults" };

/// A mounted file system on a device that can fail.
pub struct Device {
    file_system: &'static FileSystem,
    backing: Mount,
    mounted: Option<LoopMount>,
    folder: TempDir,
}

impl Device {
    /// `None` if this process may not mount, or the tools or the file system are missing.
    pub fn new(file_system: &'static FileSystem) -> Option<Device> {
        let folder = tempfile::tempdir().unwrap();
        let backing =
            Mount::new(&["-t", "tmpfs", "-o", BACKING, "tmpfs"], &folder.path().join("tmpfs"))?;
        let disk = backing.0.join("disk");
        call("truncate", &["-s", DEVICE, disk.to_str().unwrap()])?;
        let mut device = Device { file_system, backing, mounted: None, folder };
        let looped = Loop::new(&disk)?;
        call(file_system.mkfs[0], &[&file_system.mkfs[1..], &[looped.0.as_str()]].concat())?;
        device.mounted =
            Some(LoopMount::new(looped, file_system, &device.folder.path().join("fs"))?);
        device.write_metadata_once();
        Some(device)
    }

    /// The path of a file on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.mounted.as_ref().unwrap().mount.0.join(name)
    }

    /// Writes to blocks that were never written fail from now on.
    pub fn begin_failure(&self) {
        let mut fill = File::create(self.backing.0.join("fill")).unwrap();
        let block = vec![0; 1 << 16];
        while fill.write_all(&block).is_ok() {}
    }

    /// Writes succeed from now on.
    pub fn end_failure(&self) {
        fs::remove_file(self.backing.0.join("fill")).unwrap();
    }

    /// A copy of the device at this moment: what a power cut leaves.
    pub fn image(&self, name: &str) -> Image {
        let image = self.folder.path().join(name);
        let disk = self.backing.0.join("disk");
        let arguments = ["--sparse=always", disk.to_str().unwrap(), image.to_str().unwrap()];
        call("cp", &arguments).expect("the device is copied");
        Image { path: image, file_system: self.file_system }
    }

    /// Flushes the file system: its device is then what a kill of a process leaves.
    pub fn flush(&self) {
        let _ = call("sync", &["-f", self.path("").to_str().unwrap()]);
    }

    /// Unmounts it. Its images can be mounted afterwards.
    pub fn unmount(&mut self) {
        self.mounted = None;
    }

    /// Writes blocks that the file system uses for its own data, so that it survives the failure.
    fn write_metadata_once(&self) {
        fs::write(self.path("large"), vec![0; 6 << 20]).unwrap();
        for n in 0..40 {
            let small = File::create(self.path(&format!("small{n}"))).unwrap();
            small.sync_all().unwrap();
        }
        self.flush();
        for n in 0..40 {
            fs::remove_file(self.path(&format!("small{n}"))).unwrap();
        }
        self.flush();
    }
}

/// A copy of a device.
pub struct Image {
    path: PathBuf,
    file_system: &'static FileSystem,
}

impl Image {
    /// Mounts the image and calls `check` with the path of a file on it. Deletes the image.
    pub fn check(self, name: &str, check: impl FnOnce(&Path)) {
        let looped = Loop::new(&self.path).expect("a loop device of the image");
        let mounted = LoopMount::new(looped, self.file_system, &self.path.with_extension("fs"));
        let mounted = mounted.expect("the image is mounted");
        check(&mounted.mount.0.join(name));
        drop(mounted);
        fs::remove_file(&self.path).unwrap();
    }
}

struct LoopMount {
    // Dropped in this order.
    mount: Mount,
    _looped: Loop,
}

impl LoopMount {
    fn new(looped: Loop, file_system: &FileSystem, at: &Path) -> Option<LoopMount> {
        let mount = Mount::new(&["-o", file_system.mount_options, &looped.0], at)?;
        Some(LoopMount { mount, _looped: looped })
    }
}

struct Mount(PathBuf);

impl Mount {
    fn new(arguments: &[&str], at: &Path) -> Option<Mount> {
        fs::create_dir_all(at).unwrap();
        call("mount", &[arguments, &[at.to_str().unwrap()]].concat())?;
        Some(Mount(at.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = call("umount", &[self.0.to_str().unwrap()]);
    }
}

/// A loop device.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Option<Loop> {
        let device = call("losetup", &["--find", "--show", file.to_str().unwrap()])?;
        // Small requests: the failure then ends in the middle of a flush.
        let queue = Path::new("/sys/block").join(device.strip_prefix("/dev/")?).join("queue");
        let _ = fs::write(queue.join("max_sectors_kb"), "4");
        let _ = fs::write(queue.join("nomerges"), "2");
        Some(Loop(device))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = call("losetup", &["--detach", &self.0]);
    }
}

/// The output of a command; `None` if it failed or does not exist.
fn call(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
