//! Queries: one page at a time, from one snapshot, with its cost.
//!
//! A continuation names the first row not considered yet, and a page that is full looks a little ahead for the next match:
//! so the last page of a query usually knows that it is the last.

use crate::TableService;
use crate::access::{AccessKind, AccessRange};
use crate::codec::{Row, TableRecord, ValueRef};
use crate::error::{Error, InvalidInput, Result};
use crate::filter::Filter;
use crate::keys;
use crate::limits::is_metrics_table;
use crate::model::Entity;
use crate::plan::Plan;
use crate::skip::Skipper;
use crate::view::{EntityView, Matcher};
use lazurite_engine::{Direction, KeyRange, Keyspace, Snapshot};

/// Most rows of a page, and how many it has when the query does not say.
pub const PAGE_ROWS_MAX: usize = 1000;
/// Bytes of stored rows after which a page ends.
pub const PAGE_BYTES_MAX: usize = 4 << 20;
/// Rows that a full page examines in search of one more match.
const LOOK_AHEAD_ROWS_MAX: usize = 1000;
/// Rows between two looks at the clock.
const EXPIRY_ROWS: usize = 100;

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
    /// How the hosted service would reach them, as its guides describe it.
    pub azure_access: AccessKind,
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

/// How a page ended that was shown row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEnd {
    /// As [`Page::next`].
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
}

impl TableService {
    /// One page of the entities that match, all of one instant. It ends at `$top`, at about 4 MiB, or, possibly empty,
    /// once `expired` answers true; it is asked every hundred rows. Errors: `TableNotFound`, `InvalidInput`,
    /// `NotImplemented`.
    pub fn query_entities(
        &self,
        account: &str,
        table: &str,
        query: &Query<'_>,
        expired: &dyn Fn() -> bool,
    ) -> Result<Page> {
        let mut entities = Vec::new();
        let mut take = |row: &EntityView<'_>| {
            entities.push(row.to_entity()?);
            Ok(())
        };
        let PageEnd { next, cost } =
            self.visit_entities(account, table, query, expired, &mut take)?;
        Ok(Page {
            entities,
            next,
            cost,
        })
    }

    /// As [`TableService::query_entities`], but shows each row of the page to `visit` as it is read.
    pub fn visit_entities(
        &self,
        account: &str,
        table: &str,
        query: &Query<'_>,
        expired: &dyn Fn() -> bool,
        visit: &mut dyn FnMut(&EntityView<'_>) -> Result<()>,
    ) -> Result<PageEnd> {
        let filter = query.filter.map_or(Ok(None), Filter::parse)?;
        let mut pager = Pager::new(query.top, expired)?;
        let snapshot = self.db.snapshot();
        let record = self.table_record(account, table, Some(&snapshot))?;
        let prefix = record.ok_or(Error::TableNotFound)?.id.to_be_bytes();
        let mut plan = Plan::new(filter, &["PartitionKey", "RowKey"]);
        if let Some(range) = query.access_range {
            plan.clip(&range.to_key_range());
        }
        let (access, azure_access) = (plan.kind(), plan.azure_kind);
        if let Some((partition_key, row_key)) = query.continuation {
            plan.start_at(keys::in_table(partition_key, row_key));
        }
        let matcher = plan.residual.as_ref().map(Matcher::new);
        let mut next = None;
        pager.walk(
            &snapshot,
            &self.entities,
            &prefix,
            &plan,
            |pager, key, value| {
                let row = Row::decode(value)?;
                let matches = match &matcher {
                    Some(matcher) => matcher.matches(key, row)?,
                    None => true,
                };
                let step = pager.step(matches, value.len());
                match step {
                    Step::Take => visit(&EntityView::of_key(key, row)?)?,
                    Step::Skip => {}
                    Step::Stop => {
                        let row = EntityView::of_key(key, row)?;
                        next = Some((row.partition_key().into(), row.row_key().into()));
                    }
                }
                Ok(step)
            },
        )?;
        let cost = Cost {
            access,
            azure_access,
            examined: pager.examined,
            returned: pager.taken,
        };
        Ok(PageEnd { next, cost })
    }

    /// One page of the account's tables; bounds and errors as [`TableService::query_entities`]. A filter may only speak of
    /// `TableName`.
    pub fn query_tables(
        &self,
        account: &str,
        query: &TableQuery<'_>,
        expired: &dyn Fn() -> bool,
    ) -> Result<TablePage> {
        let filter = query.filter.map_or(Ok(None), Filter::parse_for_tables)?;
        let mut pager = Pager::new(query.top, expired)?;
        let mut plan = Plan::new(filter, &["TableName"]);
        if let Some(name) = query.continuation {
            let mut start = Vec::new();
            keys::component(&mut start, &name.to_ascii_lowercase());
            plan.start_at(start);
        }
        let mut tables = Vec::new();
        let mut next = None;
        pager.walk(
            &self.db.snapshot(),
            &self.catalog,
            &keys::tables(account),
            &plan,
            |pager, _, value| {
                let TableRecord { name, .. } = TableRecord::decode(value)?;
                let lower_case = name.to_ascii_lowercase();
                let values = [Some(ValueRef::String(&lower_case))];
                let matches = plan
                    .residual
                    .as_ref()
                    .is_none_or(|filter| filter.matches(&values));
                let step = pager.step(matches && !is_metrics_table(&name), value.len());
                match step {
                    Step::Take => tables.push(name),
                    Step::Skip => {}
                    Step::Stop => next = Some(name),
                }
                Ok(step)
            },
        )?;
        Ok(TablePage { tables, next })
    }
}

/// What becomes of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is on the page.
    Take,
    /// It does not match.
    Skip,
    /// The page ends before it.
    Stop,
}

/// Counts what a page holds and what it cost, and ends it.
struct Pager<'a> {
    top: usize,
    expired: &'a dyn Fn() -> bool,
    examined: usize,
    taken: usize,
    taken_bytes: usize,
    looked_ahead: usize,
}

impl<'a> Pager<'a> {
    fn new(top: Option<u32>, expired: &'a dyn Fn() -> bool) -> Result<Pager<'a>> {
        let top = top.map_or(PAGE_ROWS_MAX, |top| top as usize);
        match top > PAGE_ROWS_MAX {
            true => Err(InvalidInput::Request.into()),
            false => Ok(Pager {
                top,
                expired,
                examined: 0,
                taken: 0,
                taken_bytes: 0,
                looked_ahead: 0,
            }),
        }
    }

    /// Shows every row of the plan to `visit`, its key without `prefix`, until that says [`Step::Stop`].
    fn walk(
        &mut self,
        snapshot: &Snapshot,
        keyspace: &Keyspace,
        prefix: &[u8],
        plan: &Plan,
        mut visit: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<Step>,
    ) -> Result<()> {
        // The page of no rows is complete: a continuation would make a client ask forever.
        let accesses = if self.top == 0 {
            &[]
        } else {
            &plan.accesses[..]
        };
        for access in accesses {
            let range = within(prefix, &access.range);
            if access.kind == AccessKind::Point {
                let value = snapshot.get(keyspace, &range.start)?;
                if let Some(value) = value
                    && visit(self, &range.start[prefix.len()..], &value)? == Step::Stop
                {
                    return Ok(());
                }
                continue;
            }
            let mut scan = snapshot.scan(keyspace, range, Direction::Forward);
            let skips = access.kind == AccessKind::SkipScan;
            let mut skipper = skips.then(|| Skipper::new(&access.rows));
            while scan.advance()? {
                let key = &scan.key()[prefix.len()..];
                if visit(self, key, &scan.value_in_place()?)? == Step::Stop {
                    return Ok(());
                }
                let destination = skipper.as_mut().and_then(|skipper| skipper.after(key));
                if let Some(destination) = destination {
                    scan.seek(&[prefix, destination].concat());
                }
            }
        }
        Ok(())
    }

    /// Counts a row of so many bytes and says what becomes of it.
    fn step(&mut self, matches: bool, bytes: usize) -> Step {
        let out_of_time =
            self.examined > 0 && self.examined.is_multiple_of(EXPIRY_ROWS) && (self.expired)();
        self.examined += 1;
        let full = self.taken == self.top;
        let too_large = self.taken > 0 && self.taken_bytes + bytes > PAGE_BYTES_MAX;
        if out_of_time || matches && (full || too_large) || self.looked_ahead == LOOK_AHEAD_ROWS_MAX
        {
            return Step::Stop;
        }
        self.looked_ahead += usize::from(full);
        if !matches {
            return Step::Skip;
        }
        self.taken += 1;
        self.taken_bytes += bytes;
        Step::Take
    }
}

/// The keys of a range behind a prefix.
fn within(prefix: &[u8], range: &KeyRange) -> KeyRange {
    let end = range.end.as_ref().map(|end| [prefix, end].concat());
    KeyRange {
        start: [prefix, &range.start].concat(),
        end: end.or_else(|| KeyRange::prefix(prefix).end),
    }
}
