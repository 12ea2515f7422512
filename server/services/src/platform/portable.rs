//! Systems other than Linux, where the standard library has no facts about other processes and
//! memory.

/// The process that listens on a TCP port: not known.
pub fn listener(_: u16) -> Option<u32> {
    None
}

/// The name of a process: not known.
pub fn process_name(_: u32) -> Option<String> {
    None
}

/// When a process began: not known.
pub fn process_start(_: u32) -> Option<String> {
    None
}

/// Bytes of memory that this process has: not known.
pub fn resident_bytes() -> Option<u64> {
    None
}

/// Bytes of memory of the machine: not known.
pub fn memory_bytes() -> Option<u64> {
    None
}
