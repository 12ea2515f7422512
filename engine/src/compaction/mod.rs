//! Compaction: merging SSTables downwards, dropping what no reader can see.

mod retention;

pub(crate) use retention::Retention;

impl crate::store::Store {
    pub(crate) fn compact_one(&self) -> crate::Result<bool> {
        Ok(false)
    }
}
