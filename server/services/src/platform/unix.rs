//! Unix: signals, owners and modes of files, symbolic links, limits of the process.

use crate::platform::{Rights, Signal};
use rustix::fs::{Access, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Maximum number of open files on macOS if it reports no limit (`OPEN_MAX`).
const OPEN_FILES_OF_MACOS: u64 = 10_240;

/// The directory for settings of programs, relative to the user's home.
pub const SETTINGS_IN_HOME: &str = if cfg!(target_os = "macos") {
    "Library/Application Support"
} else {
    ".config"
};

/// The signals at which the program ends in good order, and the one at which it reloads files.
#[derive(Debug)]
pub struct Signals {
    interrupt: Stream,
    terminate: Stream,
    hangup: Stream,
}

impl Signals {
    /// From this call on, these signals no longer kill the program.
    pub fn watch() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. Dropping the future loses none.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.hangup.recv() => Signal::Reload,
        }
    }
}

/// Creates a directory and its parents, accessible only to their owner.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a new file, accessible only to its owner. Error: it exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Makes a builder create temporary directories that only their owner can access.
pub fn restrict_to_owner(builder: &mut tempfile::Builder<'_, '_>) {
    builder.permissions(Permissions::from_mode(0o700));
}

/// Gives a file the mode of the one that it will replace, or 0600 if there is none.
pub fn keep_private(file: &Path, replaced: &Path) -> io::Result<()> {
    let permissions = match fs::metadata(replaced) {
        Ok(found) => found.permissions(),
        Err(_) => Permissions::from_mode(0o600),
    };
    fs::set_permissions(file, permissions)
}

/// Makes a file accessible only to its owner.
pub fn make_private(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Opens a file to append to it, or creates one for its owner alone. Without `follows_links` a
/// symbolic link is an error.
pub fn append_private(path: &Path, follows_links: bool) -> io::Result<File> {
    let flags = if follows_links {
        OFlags::empty()
    } else {
        OFlags::NOFOLLOW
    };
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

/// Bytes that a file occupies on disk, and an id (device, inode) that its hard links share.
pub fn disk_use(found: &Metadata) -> (u64, Option<(u64, u64)>) {
    // Always in units of 512 bytes. Source: stat(3type), `st_blocks`.
    (found.blocks() * 512, Some((found.dev(), found.ino())))
}

pub fn rights(found: &Metadata) -> Option<Rights> {
    Some(Rights {
        owner: found.uid(),
        mode: found.mode() & 0o777,
    })
}

/// The effective user id of this process; 0 is root.
pub fn own_user() -> Option<u32> {
    Some(rustix::process::geteuid().as_raw())
}

/// Whether this process may write to a file or create files in a directory.
pub fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

/// Creates `link` as a symbolic link to the program.
pub fn link_program(program: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(program, link)
}

/// Maximum number of files that this process may have open at a time; `None`: no limit.
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the limit on open files to the maximum that the system allows.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = |current| Rlimit { current, ..limit };
    // macOS reports no maximum and refuses a limit without one. If a system refuses both values,
    // its present limit stays, which usually suffices.
    let is_low = limit
        .current
        .is_some_and(|current| current < OPEN_FILES_OF_MACOS);
    if setrlimit(Resource::Nofile, raised(limit.maximum)).is_err() && is_low {
        let _ = setrlimit(Resource::Nofile, raised(Some(OPEN_FILES_OF_MACOS)));
    }
}

/// The host name of this machine.
pub fn host_name() -> Option<String> {
    let own = rustix::system::uname();
    own.nodename().to_str().ok().map(str::to_owned)
}

/// The id of the process that started this one.
pub fn parent_process() -> Option<u32> {
    let parent = rustix::process::getppid()?;
    u32::try_from(parent.as_raw_pid()).ok()
}

/// Processor time that the calling thread has used so far.
#[cfg_attr(
    not(debug_assertions),
    expect(
        dead_code,
        reason = "only debug builds look for requests that hold a thread"
    )
)]
pub fn thread_processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Standard output without the lock and the buffer of the standard library.
pub fn standard_output() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Standard error without the lock of the standard library.
pub fn standard_error() -> io::Result<File> {
    Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?))
}
