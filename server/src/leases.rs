//! Programs that asked for a server and found one running: it serves on until the last of them has ended.
//!
//! Each is a file in the data directory, named after the process that started the second server, with the time at which that process
//! began, because numbers of processes come again. Where the system does not tell that time (other than Linux) there are no leases.

use crate::port_holder::{Holder, name_of};
use std::path::Path;

const PREFIX: &str = "attached-";

/// Notes the parent of this process as one that needs the server of a data directory. The parent alone lives on: this process ends.
pub fn take(directory: &Path) {
    let Some(parent) = rustix::process::getppid() else {
        return;
    };
    let parent = parent.as_raw_pid();
    if let Some(start) = u32::try_from(parent).ok().and_then(start_of) {
        // Without the file the server ends when it is told to, as it did before.
        let _ = std::fs::write(directory.join(format!("{PREFIX}{parent}")), start);
    }
}

/// Forgets who attached to an earlier server.
pub fn clear(directory: &Path) {
    for (path, _, _) in files(directory) {
        let _ = std::fs::remove_file(path);
    }
}

/// The processes that attached and have not ended. Removes the files of those that have.
pub fn holders(directory: &Path) -> Vec<Holder> {
    let mut holders = Vec::new();
    for (path, process_id, start) in files(directory) {
        if start_of(process_id) == Some(start) {
            let name = name_of(&Path::new("/proc").join(process_id.to_string()));
            holders.push(Holder { process_id, name });
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

/// When a process began, in the kernel's count; `None` of one that has ended or of another system.
/// Source: proc_pid_stat(5), fields 3 (behind the name in brackets) and 22.
fn start_of(process_id: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process_id}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // One that has ended, and whose parent has not asked how.
    if fields.next() == Some("Z") {
        return None;
    }
    fields.nth(18).map(str::to_owned)
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
        let Some(start) = start_of(own) else {
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
