//! The Queue service: messages that are taken, hidden for a while, and deleted or seen again.

mod error;
mod model;
mod operations;

pub use error::{Error, Result};
pub use model::*;

use lazurite_engine::{Db, IdSource};
use std::sync::Arc;

/// The Queue service of every account of one store. All methods take `&self` and may run at once on any threads.
#[derive(Debug)]
pub struct QueueService {}

impl QueueService {
    /// Opens the service's keyspaces in `db`. Reads no queue and no message.
    pub fn open(_db: &Db, _ids: Arc<dyn IdSource>) -> Result<QueueService> {
        todo!()
    }
}
