//! Containers and their blobs.

pub mod check;
pub mod container;
pub mod content;
pub mod export;
pub mod import;
pub mod line;
mod put;
mod upload;
