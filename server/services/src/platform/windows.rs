//! Windows: console events instead of signals, access rights that files inherit, no limit on open
//! files.

use crate::platform::{Rights, Signal};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::io::AsHandle;
use std::path::Path;
use std::time::Duration;
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

/// The directory for settings, relative to the user's home, if `APPDATA` is not set.
pub const SETTINGS_IN_HOME: &str = "AppData/Roaming";

/// The events at which the program ends in good order. The end of a user's session is not among
/// them: only services get that event, and it does not name the user. Other programs then get the
/// event of a closed window.
#[derive(Debug)]
pub struct Signals {
    interrupt: CtrlC,
    r#break: CtrlBreak,
    close: CtrlClose,
    shutdown: CtrlShutdown,
}

impl Signals {
    /// From this call on, these events no longer end the program at once.
    pub fn watch() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: ctrl_c()?,
            r#break: ctrl_break()?,
            close: ctrl_close()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// Waits for the next event. Dropping the future loses none.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.r#break.recv() => Signal::Stop,
            _ = self.close.recv() => Signal::Stop,
            _ = self.shutdown.recv() => Signal::Stop,
        }
    }
}

/// Creates a directory and its parents. They inherit the access rights of their parent: below a
/// user's profile, only that user, the administrators and the system have access.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Creates a new file with the access rights of its directory. Error: it exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// Does nothing: temporary directories inherit the rights of their directory.
pub fn restrict_to_owner(_: &mut tempfile::Builder<'_, '_>) {}

/// Does nothing: files inherit the rights of their directory.
pub fn keep_private(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Does nothing: files keep the rights that they inherit.
pub fn make_private(_: &File) -> io::Result<()> {
    Ok(())
}

/// Opens or creates a file to append to it. Follows symbolic links, which only administrators and
/// users in developer mode can make.
pub fn append_private(path: &Path, _: bool) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Length of a file in bytes, and `None` in place of an id: the standard library has no id that the
/// hard links of a file share.
pub fn disk_use(found: &Metadata) -> (u64, Option<(u64, u64)>) {
    (found.len(), None)
}

/// Unknown: Windows has access control lists, not an owner and a mode.
pub fn rights(_: &Metadata) -> Option<Rights> {
    None
}

/// Unknown: Windows users have no numeric id.
pub fn own_user() -> Option<u32> {
    None
}

/// Always true: whether a write is allowed shows only when it is tried.
pub fn is_writable(_: &Path) -> bool {
    true
}

/// Creates `link` as a symbolic link to the program. Needs developer mode or an administrator.
pub fn link_program(program: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(program, link)
}

/// Windows has no such limit.
pub fn open_files_max() -> Option<u64> {
    None
}

pub fn raise_open_files() {}

/// The host name of this machine.
pub fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

/// Unknown: the standard library has no function for it.
pub fn parent_process() -> Option<u32> {
    None
}

/// Unknown, so requests that hold a thread too long are not reported.
#[cfg_attr(
    not(debug_assertions),
    expect(
        dead_code,
        reason = "only debug builds look for requests that hold a thread"
    )
)]
pub fn thread_processor_time() -> Duration {
    Duration::ZERO
}

/// Standard output without the lock and the buffer of the standard library.
pub fn standard_output() -> io::Result<File> {
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}

/// Standard error without the lock of the standard library.
pub fn standard_error() -> io::Result<File> {
    Ok(File::from(io::stderr().as_handle().try_clone_to_owned()?))
}
