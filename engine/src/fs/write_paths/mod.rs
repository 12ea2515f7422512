//! How the log is written: the way that costs least on each operating system, above
//! [`crate::fs::platform`].

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
pub(super) use linux::open_log;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::open_log;
