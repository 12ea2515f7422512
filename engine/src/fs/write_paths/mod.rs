//! How the log and large files are written: the way that costs least on each operating system, above [`crate::fs::platform`].

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
pub(super) use linux::{large_file, open_log};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{large_file, open_log};
