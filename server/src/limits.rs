//! The limits of the operating system on this process.

use crate::platform;

/// Open files that are left to the store, which keeps 256 SSTables open beside its logs, and to copies from other servers.
const FILES_OF_THE_STORE_MIN: u64 = 512;
/// Most connections unless a flag says otherwise. Each costs about 7 KB while it is idle.
const CONNECTIONS_MAX: u64 = 65_536;

/// How many connections there can be beside what the store needs: three quarters of the open files that the system allows.
pub fn connections_max() -> usize {
    let files = platform::open_files_max().unwrap_or(u64::MAX);
    let left = files.saturating_sub(FILES_OF_THE_STORE_MIN.max(files / 4));
    left.clamp(16, CONNECTIONS_MAX) as usize
}

/// Raises the number of open files to what the system allows at most: the usual 1,024 are fewer than the connections of one busy test
/// suite, and 256 on some systems fewer than those of one web page.
pub fn raise_open_files() {
    platform::raise_open_files();
}
