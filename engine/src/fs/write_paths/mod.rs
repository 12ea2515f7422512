//! How the log and large files are written: the way that costs least on each operating system, above [`crate::fs::platform`].

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
pub(super) use linux::{LargeWrites, create_large, open_log};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{LargeWrites, create_large, open_log};
