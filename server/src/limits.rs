//! The limits of the operating system on this process.
//!
//! The store, its forks and the connections share the open files of the process. Each has its own
//! part, so that none takes the open files of another.

use crate::platform;
use crate::state::{FORK_HANDLES_MAX, forks_by_open_files};

/// Open files reserved for the store, which keeps 256 SSTables open besides its logs, and for
/// copies from other servers.
const FILES_OF_THE_STORE: u64 = 512;
/// Minimum number of connections, even if the system allows only few files.
const CONNECTIONS_MIN: u64 = 16;
/// Maximum number of connections unless a flag says otherwise. Each costs about 7 KB while it is
/// idle.
const CONNECTIONS_MAX: u64 = 65_536;

/// The number of connections that open files allow, besides the store and at most `forks` forks.
pub fn connections_max(forks: usize) -> usize {
    connections_by_open_files(platform::open_files_max(), forks)
}

fn connections_by_open_files(files: Option<u64>, forks: usize) -> usize {
    let forks = forks.min(forks_by_open_files(files)) as u64;
    let files = files.unwrap_or(u64::MAX);
    let left = files.saturating_sub(FILES_OF_THE_STORE + forks * FORK_HANDLES_MAX);
    left.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX) as usize
}

/// Raises the number of open files to the most that the system allows. The usual 1,024 are fewer
/// than the connections of one busy test suite; the 256 of some systems are fewer than those of one
/// web page.
pub fn raise_open_files() {
    platform::raise_open_files();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_forks_and_connections_have_open_files_of_their_own() {
        for files in [600, 1024, 4096, 10_240, 1 << 20] {
            let forks = 1000.min(forks_by_open_files(Some(files)));
            let connections = connections_by_open_files(Some(files), 1000);
            let taken = connections as u64 + forks as u64 * FORK_HANDLES_MAX;
            let least = CONNECTIONS_MIN + files / 4;
            assert!(
                taken + FILES_OF_THE_STORE <= files || taken <= least,
                "{files}"
            );
            assert!(
                forks > 10 && connections >= 16,
                "{files}: {forks} {connections}"
            );
        }
        assert_eq!(forks_by_open_files(None).min(1000), 1000);
    }
}
