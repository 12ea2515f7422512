//! Queries: one page at a time, from one snapshot, with its cost.
//!
//! A continuation names the row at which the next page begins. A full page looks up to a thousand
//! rows ahead for the next match, so that the last page of a query is usually recognised as the
//! last.

use crate::TableService;
use crate::access::{AccessKind, AccessRange};
use crate::check::is_metrics_table;
use crate::codec::{Row, TableRecord, ValueRef};
use crate::error::{Error, InvalidInput, Result};
use crate::estimate::RowCount;
use crate::filter::Filter;
use crate::keys;
use crate::model::Entity;
use crate::plan::{Plan, intersect};
use crate::skip::Skipper;
use crate::view::{EntityView, Matcher};
use lazurite_base::ticks::Ticks;
use lazurite_engine::{Direction, KeyRange, Keyspace, Snapshot};

/// Maximum number of rows of a page, and the default.
pub const PAGE_ROWS_MAX: usize = 1000;
/// Maximum number of bytes of the stored rows of a page.
pub const PAGE_BYTES_MAX: usize = 4 << 20;
/// Maximum number of rows that a full page examines to find one more match.
const LOOK_AHEAD_ROWS_MAX: usize = 1000;
/// Number of rows between two checks of the deadline.
const EXPIRY_ROWS: usize = 100;

/// The parameters of Query Entities.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// `$filter` as sent; blank means no filter.
    pub filter: Option<&'a str>,
    /// `$top`: maximum number of entities of the page, 0 to 1,000; `None` means 1,000.
    pub top: Option<u32>,
    /// The keys of the first entity to return, from [`Page::next`]; an absent NextRowKey is the
    /// empty RowKey.
    pub continuation: Option<(&'a str, &'a str)>,
    /// The range of entities that the query sees; `None` for all.
    pub access_range: Option<&'a AccessRange>,
    /// Maximum number of partitions whose rows the page reads, at least 1; `None`: no limit.
    pub partitions_max: Option<u32>,
}

/// The cost of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// How the rows were accessed.
    pub access: AccessKind,
    /// How the hosted service would access the rows, according to its guides.
    pub azure_access: AccessKind,
    /// Number of rows read, whether they match or not.
    pub examined: usize,
    /// Rows that the hosted service would read for the page: counted if it would read the same
    /// rows, otherwise estimated. `None` for [`AccessKind::Nothing`], after a failed estimate, and
    /// after too many estimates in a second.
    pub azure_examined: Option<RowCount>,
    /// Number of rows returned.
    pub returned: usize,
}

/// One page of entities in key order.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The matches. May be empty even if more entities follow.
    pub entities: Vec<Entity>,
    /// PartitionKey and RowKey of the entity at which the next page begins; `None` at the end.
    pub next: Option<(String, String)>,
    /// The cost of the page.
    pub cost: Cost,
}

/// Takes a PartitionKey and a number of its rows.
pub type RowCounter<'a> = &'a mut dyn FnMut(&str, u32);

/// The callbacks that receive a page while it is read.
pub struct Visitor<'a> {
    /// Takes each entity of the page.
    pub entity: &'a mut dyn FnMut(&EntityView<'_>) -> Result<()>,
    /// Receives the number of rows of a partition that the page examined, whether they matched or
    /// not. Called when the page leaves a partition, and at its end; more than once for a partition
    /// if the page returns to it. With `None`, examined rows are not counted by partition.
    pub examined: Option<RowCounter<'a>>,
}

/// The end of a page that was visited row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEnd {
    /// Like [`Page::next`].
    pub next: Option<(String, String)>,
    /// The cost of the page.
    pub cost: Cost,
    /// The PartitionKey of which the page examined the most rows, and how many; `None` if it
    /// examined none.
    pub busiest: Option<(String, u32)>,
    /// Whether the page ended because of [`Query::partitions_max`].
    pub is_at_partition_end: bool,
}

/// The parameters of Query Tables.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableQuery<'a> {
    /// `$filter` on `TableName`, ignoring case; blank means no filter.
    pub filter: Option<&'a str>,
    /// `$top`: maximum number of tables of the page, 0 to 1,000; `None` means 1,000.
    pub top: Option<u32>,
    /// The first table to return, from [`TablePage::next`].
    pub continuation: Option<&'a str>,
}

/// One page of tables in the order of their lower-case names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePage {
    /// Names as spelled at creation. May be empty even if more tables follow.
    pub tables: Vec<String>,
    /// The table at which the next page begins; `None` at the end.
    pub next: Option<String>,
}

impl TableService {
    /// Returns one page of the matching entities, from one snapshot. The page ends at `$top`, at
    /// about 4 MiB, or, possibly empty, once `expired` returns `true`. The page calls `expired`
    /// every hundred rows. Errors: `TableNotFound`, `InvalidInput`, `NotImplemented`.
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
        let visitor = Visitor {
            entity: &mut take,
            examined: None,
        };
        let PageEnd { next, cost, .. } =
            self.visit_entities(account, table, query, expired, visitor)?;
        Ok(Page {
            entities,
            next,
            cost,
        })
    }

    /// Like [`TableService::query_entities`], but passes each row of the page to `visitor` as it is
    /// read.
    pub fn visit_entities(
        &self,
        account: &str,
        table: &str,
        query: &Query<'_>,
        expired: &dyn Fn() -> bool,
        visitor: Visitor<'_>,
    ) -> Result<PageEnd> {
        let mut plan = plan_of(query)?;
        let mut pager = Pager::new(query.top, expired)?;
        let snapshot = self.db.snapshot();
        let record = self.table_record(account, table, Some(&snapshot))?;
        let prefix = record.ok_or(Error::TableNotFound)?.id.to_be_bytes();
        let (access, azure_access) = (plan.kind(), plan.azure.kind);
        if let Some((partition_key, row_key)) = query.continuation {
            plan.start_at(keys::in_table(partition_key, row_key));
        }
        let matcher = plan.residual.as_ref().map(Matcher::new);
        let mut partitions = query.partitions_max.map(Partitions::new);
        let mut examined = ExaminedRows::new(visitor.examined);
        let mut is_at_partition_end = false;
        let mut next = None;
        pager.walk(
            &snapshot,
            &self.entities,
            &prefix,
            &plan,
            |pager, key, value| {
                let row = Row::decode(value)?;
                if partitions.as_mut().is_some_and(|seen| seen.are_full(key)) {
                    is_at_partition_end = true;
                    next = Some(keys_of(&EntityView::of_key(key, row)?));
                    return Ok(Step::Stop);
                }
                let matches = match &matcher {
                    Some(matcher) => matcher.matches(key, row)?,
                    None => true,
                };
                let step = pager.step(matches, value.len());
                if step != Step::Stop {
                    examined.count(key);
                }
                match step {
                    Step::Take => (visitor.entity)(&EntityView::of_key(key, row)?)?,
                    Step::Skip => {}
                    Step::Stop => next = Some(keys_of(&EntityView::of_key(key, row)?)),
                }
                Ok(step)
            },
        )?;
        let busiest = examined.finish();
        let cost = Cost {
            access,
            azure_access,
            examined: pager.examined,
            azure_examined: self.azure_examined(&snapshot, &prefix, &plan, &pager, next.as_ref()),
            returned: pager.taken,
        };
        Ok(PageEnd {
            next,
            cost,
            busiest,
            is_at_partition_end,
        })
    }

    /// The rows that the hosted service would examine for the page; `None` if that is not known.
    fn azure_examined(
        &self,
        snapshot: &Snapshot,
        prefix: &[u8],
        plan: &Plan,
        pager: &Pager<'_>,
        next: Option<&(String, String)>,
    ) -> Option<RowCount> {
        if plan.azure.kind == AccessKind::Nothing {
            return None;
        }
        if pager.top == 0 || plan.reads_as_azure() {
            return Some(RowCount::exact(pager.examined));
        }
        // A failed estimate does not fail the query: the answer is complete without it, and a block
        // that cannot be read should fail only the queries that need the block.
        let rows = self.estimate_azure(snapshot, prefix, plan, next);
        let rows = rows.ok().flatten();
        rows.map(|rows| rows.at_least(pager.examined))
    }

    /// The rows that the hosted service would read up to the end of the page.
    fn estimate_azure(
        &self,
        snapshot: &Snapshot,
        prefix: &[u8],
        plan: &Plan,
        next: Option<&(String, String)>,
    ) -> Result<Option<RowCount>> {
        let page = KeyRange {
            start: Vec::new(),
            end: next.map(|(partition_key, row_key)| keys::in_table(partition_key, row_key)),
        };
        let range = intersect(&plan.azure.range, &page);
        if range.is_empty() {
            return Ok(Some(RowCount::exact(0)));
        }
        let second = self.clock.now().ticks() / Ticks::PER_SECOND;
        let range = within(prefix, &range);
        self.estimates.rows(second, snapshot, &self.entities, range)
    }

    /// Returns one page of the account's tables, with the limits of
    /// [`TableService::query_entities`]. A filter may only refer to `TableName`. Errors:
    /// `InvalidInput`, `NotImplemented`.
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

/// The outcome for a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The row is on the page.
    Take,
    /// The row does not match.
    Skip,
    /// The page ends before the row.
    Stop,
}

/// The partitions of which a page has read rows.
struct Partitions {
    /// Number of further partitions that the page may read.
    left: u32,
    /// The first component of the keys of the present partition.
    present: Vec<u8>,
}

impl Partitions {
    fn new(max: u32) -> Partitions {
        Partitions {
            left: max,
            present: Vec::new(),
        }
    }

    /// Whether the row of this key is in one partition too many. The first row never is.
    fn are_full(&mut self, key: &[u8]) -> bool {
        let is_first = self.present.is_empty();
        if !is_first && key.starts_with(&self.present) {
            return false;
        }
        if !is_first && self.left == 0 {
            return true;
        }
        self.left = self.left.saturating_sub(1);
        self.present.clear();
        let bytes = keys::first_component_bytes(key).unwrap_or(key.len());
        self.present.extend_from_slice(&key[..bytes]);
        false
    }
}

/// Counts the rows that a page examines by partition. Keys stay encoded until they are needed: a
/// page may examine a row in each of very many partitions.
struct ExaminedRows<'a> {
    report: Option<RowCounter<'a>>,
    /// The first component of the keys of the present partition, and the number of its rows.
    present: (Vec<u8>, u32),
    /// The same pair for the partition with the most rows so far.
    busiest: (Vec<u8>, u32),
}

impl<'a> ExaminedRows<'a> {
    fn new(report: Option<RowCounter<'a>>) -> ExaminedRows<'a> {
        ExaminedRows {
            report,
            present: (Vec::new(), 0),
            busiest: (Vec::new(), 0),
        }
    }

    fn count(&mut self, key: &[u8]) {
        if self.present.1 == 0 || !key.starts_with(&self.present.0) {
            self.leave_partition();
            let bytes = keys::first_component_bytes(key).unwrap_or(key.len());
            self.present.0.clear();
            self.present.0.extend_from_slice(&key[..bytes]);
        }
        self.present.1 = self.present.1.saturating_add(1);
    }

    fn leave_partition(&mut self) {
        let (key, rows) = &mut self.present;
        if *rows > 0
            && let Some(report) = &mut self.report
            && let Some((partition_key, _)) = keys::parse_component(key)
        {
            report(&partition_key, *rows);
        }
        if *rows > self.busiest.1 {
            std::mem::swap(&mut self.present, &mut self.busiest);
        }
        self.present.1 = 0;
    }

    /// Ends the last partition. Returns the one with the most rows.
    fn finish(mut self) -> Option<(String, u32)> {
        self.leave_partition();
        let (key, rows) = self.busiest;
        let (partition_key, _) = keys::parse_component(&key)?;
        Some((partition_key.into_owned(), rows))
    }
}

/// Counts the rows and the cost of a page, and ends it.
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
        if top > PAGE_ROWS_MAX {
            return Err(InvalidInput::Request.into());
        }
        Ok(Pager {
            top,
            expired,
            examined: 0,
            taken: 0,
            taken_bytes: 0,
            looked_ahead: 0,
        })
    }

    /// Passes every row of the plan to `visit`, with its key without `prefix`, until `visit`
    /// returns [`Step::Stop`].
    fn walk(
        &mut self,
        snapshot: &Snapshot,
        keyspace: &Keyspace,
        prefix: &[u8],
        plan: &Plan,
        mut visit: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<Step>,
    ) -> Result<()> {
        // A page of no rows has no continuation: with one, a client would continue forever.
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

    /// Counts a row of `bytes` bytes and decides its outcome.
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

/// The plan of a query for all of its pages. Errors: `InvalidInput`, `NotImplemented`.
fn plan_of(query: &Query<'_>) -> Result<Plan> {
    let filter = query.filter.map_or(Ok(None), Filter::parse)?;
    let mut plan = Plan::new(filter, &["PartitionKey", "RowKey"]);
    if let Some(range) = query.access_range {
        plan.clip(&range.to_key_range());
    }
    Ok(plan)
}

/// The PartitionKey and the RowKey of an entity.
fn keys_of(row: &EntityView<'_>) -> (String, String) {
    (row.partition_key().into(), row.row_key().into())
}

/// The range of keys that consist of `prefix` and a key in `range`.
fn within(prefix: &[u8], range: &KeyRange) -> KeyRange {
    let end = range.end.as_ref().map(|end| [prefix, end].concat());
    KeyRange {
        start: [prefix, &range.start].concat(),
        end: end.or_else(|| KeyRange::prefix(prefix).end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_with_the_most_rows_is_reported_wherever_it_stands() {
        for sizes in [[3, 1, 2], [1, 3, 2], [1, 2, 3]] {
            let mut seen = Vec::new();
            let mut report = |partition: &str, rows| seen.push((partition.to_owned(), rows));
            let mut examined = ExaminedRows::new(Some(&mut report));
            for (partition, size) in ["a", "b", "c"].into_iter().zip(sizes) {
                for row in 0..size {
                    // A component ends with 00 01.
                    let key = format!("{partition}\0\u{1}{row}\0\u{1}");
                    examined.count(key.as_bytes());
                }
            }
            let (busiest, rows) = examined.finish().unwrap();
            assert_eq!(rows, 3);
            assert_eq!(
                seen.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(),
                sizes
            );
            assert!(seen.contains(&(busiest, 3)));
        }
    }
}
