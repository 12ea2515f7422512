//! Leases: keep a server running while programs depend on it. A program that starts a second server
//! on the directory gets a lease on the running one, which stops only after the last lease holder
//! has ended.
//!
//! Each lease is a file in the data directory, named after the process that started the second
//! server, with that process's start time, because process ids are reused. Systems other than Linux
//! do not show that time and have no leases.

use crate::platform::{parent_process, process_start};
use crate::port_holder::Holder;
use std::path::Path;

const PREFIX: &str = "attached-";

/// Records that the parent of this process needs the server of a data directory. The lease names
/// the parent, because this process ends at once.
pub fn take(directory: &Path) {
    if let Some(parent) = parent_process()
        && let Some(start) = process_start(parent)
    {
        // Without the file the server stops at the signal, as if there were no leases.
        let _ = std::fs::write(directory.join(format!("{PREFIX}{parent}")), start);
    }
}

/// Removes the leases that holders had on an earlier server.
pub fn clear(directory: &Path) {
    for (path, _, _) in files(directory) {
        let _ = std::fs::remove_file(path);
    }
}

/// The lease holders that still run. Removes the files of the others.
pub fn holders(directory: &Path) -> Vec<Holder> {
    let mut holders = Vec::new();
    for (path, process_id, start) in files(directory) {
        if process_start(process_id) == Some(start) {
            holders.push(Holder::named(process_id));
        } else {
            let _ = std::fs::remove_file(path);
        }
    }
    holders
}

fn files(directory: &Path) -> Vec<(std::path::PathBuf, u32, String)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let name = entry.file_name();
        let process_id = name.to_str()?.strip_prefix(PREFIX)?.parse().ok()?;
        let start = std::fs::read_to_string(entry.path()).ok()?;
        Some((entry.path(), process_id, start))
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_as_long_as_its_process() {
        let directory = tempfile::TempDir::new().unwrap();
        let lease = |process_id: u32, start: &str| {
            let path = directory.path().join(format!("{PREFIX}{process_id}"));
            std::fs::write(path, start).unwrap();
        };
        let own = std::process::id();
        let Some(start) = process_start(own) else {
            return;
        };
        lease(own, &start);
        lease(1, "another process of that number");
        std::fs::write(directory.path().join("CURRENT"), "").unwrap();
        let holders = super::holders(directory.path());
        assert_eq!(holders.len(), 1);
        assert_eq!(holders[0].process_id, own);
        assert_eq!(files(directory.path()).len(), 1);
        clear(directory.path());
        assert!(super::holders(directory.path()).is_empty());
        assert!(directory.path().join("CURRENT").exists());
        take(directory.path());
        assert_eq!(files(directory.path()).len(), 1);
    }
}
