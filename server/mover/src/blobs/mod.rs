//! Containers and their blobs.

pub mod check;
pub mod container;
pub mod content;
pub mod content_type;
pub mod export;
pub mod file;
pub mod import;
pub mod line;
pub mod listed;
mod put;
mod upload;
