//! The program `lazurite`: the library with an allocator of its own.

use std::process::ExitCode;

/// Memory goes back to the system, and stays flat under whole-table scans, where the C library's allocator lets it grow.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    lazurite::run_program()
}
