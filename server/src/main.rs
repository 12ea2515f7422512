//! The program `lazurite`: the library with an allocator of its own.

use std::process::ExitCode;

/// With jemalloc, freed memory goes back to the system, and memory stays flat under whole-table
/// scans, where the C library's allocator lets it grow. Mimalloc (0.1.52) is as fast, but keeps
/// twice the memory: 330 MB instead of 137 after a million entities.
///
/// The same holds with musl. Processor time of a request relative to jemalloc (static programs,
/// 16 connections, two busy cores, medians of three runs): musl's own allocator 1.5 to insert an
/// entity and to read a range of entities, 1.3 to put a blob, 1.2 for a cycle of a message, 1.0
/// to get an entity, 0.85 to get a blob; mimalloc 0.9 to 1.5, with up to 303 MB instead of 65.
#[cfg(all(unix, feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Freed memory goes back to the system within 0.3 seconds instead of 10, with glibc even if no
/// thread allocates. Otherwise the memory that many slow clients needed for a moment would stay.
/// The allocator reads this when the program starts.
#[cfg(all(unix, feature = "jemalloc"))]
#[allow(
    unsafe_code,
    reason = "the allocator reads its options from this symbol before its first use"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_OPTIONS: &[u8] = if cfg!(target_env = "gnu") {
    b"background_thread:true,dirty_decay_ms:300\0"
} else {
    // On macOS, jemalloc has no such thread and refuses every allocation if it is asked for one. For
    // musl, the crate leaves it out.
    b"dirty_decay_ms:300\0"
};

fn main() -> ExitCode {
    lazurite::run_program()
}
