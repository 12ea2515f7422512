//! Tables and their entities.

pub mod batches;
pub mod check;
pub mod entities;
pub mod export;
pub mod import;
