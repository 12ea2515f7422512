//! A log-structured key-value store. (Interim core: the public surface, over an ordered map in memory.)

mod db;
mod error;

pub use db::*;
pub use error::{Error, Result};
