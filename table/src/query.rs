//! Queries: one page at a time, from one snapshot, with its cost.

use crate::TableService;
use crate::error::Result;
use crate::model::Entity;
use crate::plan::{AccessKind, AccessRange};

/// Most rows of a page, and how many it has when the query does not say.
pub const PAGE_ROWS_MAX: usize = 1000;
/// Bytes of stored rows after which a page ends.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// Which entities to return.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// `$filter` as given; blank means none.
    pub filter: Option<&'a str>,
    /// `$top`: most entities of the page, 0 to 1,000; `None` means 1,000.
    pub top: Option<u32>,
    /// The keys of the first entity to return, from [`Page::next`]; an absent NextRowKey is the empty RowKey.
    pub continuation: Option<(&'a str, &'a str)>,
    /// Only entities in this range exist for the query.
    pub access_range: Option<&'a AccessRange>,
}

/// What a query cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// How the rows were reached.
    pub access: AccessKind,
    /// Rows read.
    pub examined: usize,
    /// Rows returned.
    pub returned: usize,
}

/// Entities in key order.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// May be empty although more follow.
    pub entities: Vec<Entity>,
    /// PartitionKey and RowKey of the first entity not considered yet; `None` at the end.
    pub next: Option<(String, String)>,
    /// What it took.
    pub cost: Cost,
}

/// Which tables to return.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableQuery<'a> {
    /// `$filter` on `TableName`, compared without regard to case; blank means none.
    pub filter: Option<&'a str>,
    /// `$top`: most tables of the page, 0 to 1,000; `None` means 1,000.
    pub top: Option<u32>,
    /// The first table to return, from [`TablePage::next`].
    pub continuation: Option<&'a str>,
}

/// Tables in the order of their lower-case names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePage {
    /// Names as spelled at creation. May be empty although more follow.
    pub tables: Vec<String>,
    /// The first table not considered yet; `None` at the end.
    pub next: Option<String>,
    /// What it took.
    pub cost: Cost,
}

impl TableService {
    /// One page of the entities that match. It ends at `$top`, at about 4 MiB, or, possibly empty, once `expired` answers
    /// true; it is asked every hundred rows or so. Errors: `TableNotFound`, `InvalidInput`, `NotImplemented`.
    pub fn query_entities(
        &self,
        account: &str,
        table: &str,
        query: &Query<'_>,
        expired: &dyn Fn() -> bool,
    ) -> Result<Page> {
        let _ = (account, table, query, expired);
        todo!("being written")
    }

    /// One page of the account's tables; bounds and errors as [`TableService::query_entities`].
    pub fn query_tables(
        &self,
        account: &str,
        query: &TableQuery<'_>,
        expired: &dyn Fn() -> bool,
    ) -> Result<TablePage> {
        let _ = (account, query, expired);
        todo!("being written")
    }
}
