//! How the log is written: the cheapest way on each operating system, built on
//! [`crate::fs::platform`].

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
pub(super) use linux::open_log;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::open_log;
