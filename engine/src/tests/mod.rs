//! Tests of single parts that need a whole store around the part, and look inside.

mod config;
mod durability;
mod figures;
mod health;
mod values;

use crate::fs::MemoryFs;
use crate::{Config, Db, Environment};
use std::sync::Arc;

#[test]
fn a_store_that_is_dropped_leaves_no_part_in_memory() {
    let fs = Arc::new(MemoryFs::volatile());
    let opened = Db::open_with(
        "/data".as_ref(),
        Config::default(),
        Environment::stepped(fs),
    );
    let db = opened.unwrap();
    let sync = Arc::downgrade(db.parts().log.sync());
    let health = Arc::downgrade(&db.parts().health);
    drop(db);
    assert!(sync.upgrade().is_none() && health.upgrade().is_none());
}
