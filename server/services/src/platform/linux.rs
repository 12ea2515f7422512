//! Linux: other processes, and the sizes of memory, from `/proc`.

use std::path::Path;

/// The process that listens on a TCP port. `None` for processes of other users. Does not block for
/// long.
pub fn listener(port: u16) -> Option<u32> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, port))
        .collect();
    let sockets: Vec<String> = inodes
        .iter()
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = std::fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|entry| {
        let process_id: u32 = entry.file_name().to_str()?.parse().ok()?;
        holds(&entry.path(), &sockets).then_some(process_id)
    })
}

/// Inodes of the sockets in a table of the kernel that listen on `port`.
/// Source: proc_pid_net(5), "/proc/net/tcp": local address, remote address, state, …, inode; state
/// 0A is LISTEN.
fn listening(table: &str, port: u16) -> Vec<String> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.split_once(':')?;
        let is_it = u16::from_str_radix(local_port, 16) == Ok(port) && *fields.get(3)? == "0A";
        is_it.then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn holds(process: &Path, sockets: &[String]) -> bool {
    let Ok(files) = std::fs::read_dir(process.join("fd")) else {
        return false;
    };
    files.flatten().any(|file| {
        std::fs::read_link(file.path()).is_ok_and(|target| {
            sockets
                .iter()
                .any(|socket| target.as_os_str() == socket.as_str())
        })
    })
}

/// The name of a process: the first word of its command line, without directories. Not the name
/// that the kernel keeps, because that is cut to 15 bytes.
pub fn process_name(process_id: u32) -> Option<String> {
    let command = std::fs::read(format!("/proc/{process_id}/cmdline")).ok()?;
    let first = command.split(|byte| *byte == 0).next()?;
    let text = String::from_utf8_lossy(first);
    let name = Path::new(&*text).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// When a process began, in ticks of the kernel since boot; `None` if it has ended. Source:
/// proc_pid_stat(5), fields 3 (after the name in brackets) and 22.
pub fn process_start(process_id: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process_id}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A zombie: it has ended, and its parent has not waited for it.
    if fields.next() == Some("Z") {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

/// Memory of the machine, in bytes.
pub fn memory_bytes() -> Option<u64> {
    bytes_in("/proc/meminfo", "MemTotal:")
}

/// Resident memory of this process, in bytes.
pub fn resident_bytes() -> Option<u64> {
    bytes_in("/proc/self/status", "VmRSS:")
}

/// The value in bytes of a line in a file such as `/proc/meminfo`, which has it in kB.
fn bytes_in(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = std::net::TcpListener::bind(host) else {
                continue; // No IPv6 here.
            };
            let port = socket.local_addr().unwrap().port();
            assert_eq!(listener(port), Some(std::process::id()), "{host}");
        }
    }

    #[test]
    fn connections_to_a_port_do_not_count_as_listeners() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:2710 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n\
                     1: 0100007F:2710 0100007F:8001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n\
                     2: 0100007F:2711 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1\n";
        assert_eq!(listening(table, 10000), ["4711"]);
        assert_eq!(listening(table, 10003), Vec::<String>::new());
    }
}
