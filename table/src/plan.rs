//! From a parsed filter to the key ranges that hold every match, and what those ranges cannot decide.
//!
//! Each term covers a union of regions: a span of the first key component times a span of the second. `and` intersects,
//! `or` joins, `not` is pushed down to the comparisons; a term on anything but keys covers everything and stays to be
//! evaluated. A region of one partition, or of whole partitions, is one range of keys. Any other is a skip scan: the range of its
//! partitions, read as `skip.rs` says, by the spans of RowKeys that are wanted in each. What it reads is evaluated all the same.
//!
//! | filter | plan here | plan of the hosted service |
//! | --- | --- | --- |
//! | both keys | point | point |
//! | both keys, several times | points | partition scan, table scan |
//! | PartitionKey, a stretch of RowKeys | row range | row range |
//! | PartitionKey | partition scan | partition scan |
//! | RowKey, in all partitions or a stretch of them | skip scan | table scan, partition range scan |
//! | a stretch of PartitionKeys | partition range scan | partition range scan |
//! | no key | table scan | table scan |

use crate::access::AccessKind;
use crate::filter::{Comparison, Expression, Filter, Operator};
use crate::keys::{component, skip_component};
use crate::model::Value;
use lazurite_engine::KeyRange;

/// Which ranges of keys to read, and what is left to evaluate on each row.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Disjoint, in key order, without the prefix that all keys of the table have.
    pub(crate) accesses: Vec<Access>,
    /// `None` if every row in the ranges matches.
    pub(crate) residual: Option<Filter>,
    /// How the hosted service would reach the rows.
    pub(crate) azure_kind: AccessKind,
}

/// One range of keys to read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Access {
    pub(crate) range: KeyRange,
    /// A [`AccessKind::Point`] has its one key as the start of the range.
    pub(crate) kind: AccessKind,
    /// Spans of the second component that hold every match, disjoint and in order: what a [`AccessKind::SkipScan`] looks for in each
    /// partition.
    pub(crate) rows: Vec<KeyRange>,
}

/// Pairs of regions that are intersected to plan one `and`. More would take longer than a few milliseconds; what is left out is
/// evaluated on each row instead.
const PAIRS_MAX: usize = 16 * 1024;
/// Most regions that an `and` has: more are not worth the seeks.
const REGIONS_MAX: usize = 2048;

impl Plan {
    /// Plans a filter whose key components are the properties of these names; a key of one component has one name.
    pub(crate) fn new(filter: Option<Filter>, key_names: &[&str]) -> Plan {
        let Some(mut filter) = filter else {
            let (table, _) = Region::all().to_access();
            return Plan {
                accesses: vec![table],
                residual: None,
                azure_kind: AccessKind::Table,
            };
        };
        let columns: Vec<Option<usize>> = key_names.iter().map(|name| filter.slot(name)).collect();
        let planner = Planner { columns: &columns };
        let mut terms = match filter.expression {
            Expression::And(terms) => terms,
            one => vec![one],
        };
        let azure_kind = planner.azure_kind(&terms);
        let covers = planner.covers(&terms, false);
        let (regions, complete) = intersect_all(&covers);
        let (accesses, exact): (Vec<Access>, Vec<bool>) =
            regions.iter().map(Region::to_access).unzip();
        if complete && exact.iter().all(|exact| *exact) {
            // What is read satisfies every term that says nothing but where to read.
            let mut covers = covers.iter();
            terms.retain(|_| covers.next().is_some_and(|cover| !cover.exact));
        }
        let open = !terms.is_empty();
        filter.expression = Expression::And(terms);
        filter.forget_unused_names();
        Plan {
            accesses: join(accesses),
            residual: open.then_some(filter),
            azure_kind,
        }
    }

    /// Leaves only the keys of `range` to read.
    pub(crate) fn clip(&mut self, range: &KeyRange) {
        self.accesses.retain_mut(|access| {
            let clipped = intersect(&access.range, range);
            if clipped != access.range {
                access.range = clipped;
                access.kind = access.kind.min(AccessKind::PartitionRange);
                self.azure_kind = self.azure_kind.min(AccessKind::PartitionRange);
            }
            !access.range.is_empty()
        });
    }

    /// Leaves only the keys from `key` on to read.
    pub(crate) fn start_at(&mut self, key: Vec<u8>) {
        self.clip(&KeyRange {
            start: key,
            end: None,
        });
    }

    /// The dearest of its accesses.
    pub(crate) fn kind(&self) -> AccessKind {
        match self.accesses.iter().map(|access| access.kind).max() {
            None => AccessKind::Nothing,
            Some(AccessKind::Point) if self.accesses.len() > 1 => AccessKind::Points,
            Some(kind) => kind,
        }
    }
}

/// Entities whose first key component lies in one span and whose second lies in the other.
#[derive(Debug, Clone)]
struct Region {
    spans: [KeyRange; 2],
}

/// Every component: the empty text is the first.
fn all_components() -> KeyRange {
    KeyRange {
        start: vec![0, 1],
        end: None,
    }
}

/// Whether a span holds one component only.
fn is_single(span: &KeyRange) -> bool {
    span.end.as_ref().is_some_and(|end| {
        let mut next = span.start.clone();
        next.ends_with(&[0, 1]) && {
            skip_component(&mut next);
            next == *end
        }
    })
}

fn intersect(a: &KeyRange, b: &KeyRange) -> KeyRange {
    let start = (&a.start).max(&b.start).clone();
    let end = match (&a.end, &b.end) {
        (Some(a), Some(b)) => Some(a.min(b).clone()),
        (a, b) => a.as_ref().or(b.as_ref()).cloned(),
    };
    KeyRange { start, end }
}

impl Region {
    fn all() -> Region {
        Region {
            spans: [all_components(), all_components()],
        }
    }

    /// `None` if they have nothing in common.
    fn intersect(&self, other: &Region) -> Option<Region> {
        let spans = [0, 1].map(|at| intersect(&self.spans[at], &other.spans[at]));
        (!spans.iter().any(KeyRange::is_empty)).then_some(Region { spans })
    }

    /// The range of keys that holds the region, and whether it holds nothing else.
    fn to_access(&self) -> (Access, bool) {
        let [partitions, rows] = &self.spans;
        let one_partition = is_single(partitions);
        let all_rows = *rows == all_components();
        let kind = match (one_partition, all_rows) {
            (true, true) => AccessKind::Partition,
            (true, false) if is_single(rows) => AccessKind::Point,
            (true, false) => AccessKind::RowRange,
            (false, _) if *partitions == all_components() => AccessKind::Table,
            (false, _) => AccessKind::PartitionRange,
        };
        let range = match one_partition && !all_rows {
            true => rows_within(partitions, rows),
            false => partitions.clone(),
        };
        let rows = vec![rows.clone()];
        (Access { range, kind, rows }, one_partition || all_rows)
    }
}

/// A span of rows of one partition, as keys.
fn rows_within(partition: &KeyRange, rows: &KeyRange) -> KeyRange {
    let within = |row: &Vec<u8>| [&partition.start[..], row].concat();
    let end = rows.end.as_ref().map(within);
    KeyRange {
        start: within(&rows.start),
        end: end.or_else(|| partition.end.clone()),
    }
}

/// Sorts ranges and joins those that meet. What remains of RowKeys to look for in many partitions makes a skip scan.
fn join(mut accesses: Vec<Access>) -> Vec<Access> {
    accesses.sort_by(|a, b| a.range.start.cmp(&b.range.start));
    let mut joined: Vec<Access> = Vec::new();
    for access in accesses {
        let last = joined.last_mut();
        let Some(last) = last.filter(|last| meet(&last.range, &access.range)) else {
            joined.push(access);
            continue;
        };
        extend(&mut last.range, access.range);
        last.kind = last.kind.max(access.kind);
        last.rows.extend(access.rows);
    }
    for Access { kind, rows, .. } in &mut joined {
        *rows = join_spans(std::mem::take(rows));
        if *kind >= AccessKind::PartitionRange && *rows != [all_components()] {
            *kind = AccessKind::SkipScan;
        }
    }
    joined
}

fn join_spans(mut spans: Vec<KeyRange>) -> Vec<KeyRange> {
    spans.sort_by(|a, b| a.start.cmp(&b.start));
    let mut joined: Vec<KeyRange> = Vec::new();
    for span in spans {
        match joined.last_mut().filter(|last| meet(last, &span)) {
            Some(last) => extend(last, span),
            None => joined.push(span),
        }
    }
    joined
}

/// Whether nothing lies between a range and one that starts no earlier.
fn meet(range: &KeyRange, next: &KeyRange) -> bool {
    range.end.as_ref().is_none_or(|end| next.start <= *end)
}

/// Extends a range by one that it meets.
fn extend(range: &mut KeyRange, next: KeyRange) {
    range.end = match (range.end.take(), next.end) {
        (Some(a), Some(b)) => Some(a.max(b)),
        _ => None,
    };
}

/// The regions that hold every match of a term.
#[derive(Debug)]
struct Cover {
    regions: Vec<Region>,
    /// Whether they hold nothing else.
    exact: bool,
}

impl Cover {
    /// Of a term that is the same for every entity.
    fn constant(truth: bool) -> Cover {
        let regions = Vec::from_iter(truth.then(Region::all));
        Cover {
            regions,
            exact: true,
        }
    }

    /// Of a term on something other than keys.
    fn unknown() -> Cover {
        Cover {
            regions: vec![Region::all()],
            exact: false,
        }
    }
}

/// What lies in all covers; `false` if there were too many regions to tell, and some covers were left out.
fn intersect_all(covers: &[Cover]) -> (Vec<Region>, bool) {
    let mut regions = vec![Region::all()];
    let mut complete = true;
    let mut pairs_left = PAIRS_MAX;
    // Those of few regions narrow most, and make no others.
    let mut covers: Vec<&Cover> = covers.iter().collect();
    covers.sort_by_key(|cover| cover.regions.len());
    for cover in covers {
        let pairs = regions.len() * cover.regions.len();
        if pairs > REGIONS_MAX.min(pairs_left) {
            complete = false;
            continue;
        }
        pairs_left -= pairs;
        let both = regions
            .iter()
            .flat_map(|a| cover.regions.iter().filter_map(|b| a.intersect(b)));
        regions = both.collect();
    }
    (regions, complete)
}

struct Planner<'a> {
    /// Slots of the key components in the filter.
    columns: &'a [Option<usize>],
}

impl Planner<'_> {
    /// The cover of a term, or of its negation.
    fn cover(&self, term: &Expression, negated: bool) -> Cover {
        match (term, negated) {
            (Expression::Not(term), _) => self.cover(term, !negated),
            (Expression::And(terms), false) | (Expression::Or(terms), true) => {
                let covers = self.covers(terms, negated);
                let (regions, complete) = intersect_all(&covers);
                let exact = complete && covers.iter().all(|cover| cover.exact);
                Cover { regions, exact }
            }
            (Expression::Or(terms) | Expression::And(terms), _) => {
                let covers = self.covers(terms, negated);
                let exact = covers.iter().all(|cover| cover.exact);
                let regions = covers.into_iter().flat_map(|cover| cover.regions);
                Cover {
                    regions: regions.collect(),
                    exact,
                }
            }
            (Expression::Constant(truth), _) => Cover::constant(*truth != negated),
            (Expression::IsTrue(property), _) => match self.column(*property) {
                // Keys are Strings.
                Some(_) => Cover::constant(negated),
                None => Cover::unknown(),
            },
            (
                Expression::Compare {
                    property,
                    operator,
                    literal,
                },
                _,
            ) => match self.column(*property) {
                // Keys always exist, so the negated comparison is the one by the opposite operator.
                Some(column) if negated => cover_comparison(column, operator.negated(), literal),
                Some(column) => cover_comparison(column, *operator, literal),
                None => Cover::unknown(),
            },
        }
    }

    /// How the hosted service would reach the rows: by comparisons of keys that must all hold. What stands in an `or` or under a
    /// `not` narrows nothing, nor does `ne`. Source: Azure storage table design guide, "Design for querying".
    fn azure_kind(&self, terms: &[Expression]) -> AccessKind {
        let mut covers = Vec::new();
        self.cover_comparisons(terms, &mut covers);
        let (regions, _) = intersect_all(&covers);
        let kind = regions.first().map(|region| region.to_access().0.kind);
        kind.unwrap_or(AccessKind::Nothing)
    }

    fn cover_comparisons(&self, terms: &[Expression], covers: &mut Vec<Cover>) {
        for term in terms {
            match term {
                Expression::And(terms) => self.cover_comparisons(terms, covers),
                Expression::Compare { operator, .. } if *operator != Operator::NotEqual => {
                    covers.push(self.cover(term, false));
                }
                _ => {}
            }
        }
    }

    fn covers(&self, terms: &[Expression], negated: bool) -> Vec<Cover> {
        terms.iter().map(|term| self.cover(term, negated)).collect()
    }

    /// Which component of the key a property is.
    fn column(&self, property: usize) -> Option<usize> {
        self.columns.iter().position(|slot| *slot == Some(property))
    }
}

/// The cover of a comparison with one component of the key.
fn cover_comparison(column: usize, operator: Operator, literal: &Value) -> Cover {
    let Value::String(text) = literal else {
        return Cover::constant(operator.holds(Comparison::Mismatch));
    };
    let region = |span| {
        let mut region = Region::all();
        region.spans[column] = span;
        region
    };
    let spans = spans(operator, text)
        .into_iter()
        .filter(|span| !span.is_empty());
    Cover {
        regions: spans.map(region).collect(),
        exact: true,
    }
}

/// The components that stand to `text` as `operator` says.
fn spans(operator: Operator, text: &str) -> Vec<KeyRange> {
    let mut at = Vec::new();
    component(&mut at, text);
    let mut beyond = at.clone();
    skip_component(&mut beyond);
    let all = all_components().start;
    let span = |start: &Vec<u8>, end: Option<&Vec<u8>>| KeyRange {
        start: start.clone(),
        end: end.cloned(),
    };
    match operator {
        Operator::Equal => vec![span(&at, Some(&beyond))],
        Operator::NotEqual => vec![span(&all, Some(&at)), span(&beyond, None)],
        Operator::LessThan => vec![span(&all, Some(&at))],
        Operator::LessThanOrEqual => vec![span(&all, Some(&beyond))],
        Operator::GreaterThan => vec![span(&beyond, None)],
        Operator::GreaterThanOrEqual => vec![span(&at, None)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessKind::{
        Nothing, Partition, PartitionRange, Point, Points, RowRange, SkipScan, Table,
    };

    fn plan(filter: &str) -> Plan {
        Plan::new(Filter::parse(filter).unwrap(), &["PartitionKey", "RowKey"])
    }

    #[test]
    fn filters_are_planned_as_narrow_as_their_keys_allow() {
        for (filter, kind, ranges, evaluated) in [
            ("", Table, 1, false),
            ("Age gt 5", Table, 1, true),
            ("RowKey eq 'r'", SkipScan, 1, true),
            ("PartitionKey eq 'p'", Partition, 1, false),
            ("'p' eq PartitionKey", Partition, 1, false),
            ("PartitionKey eq 'p' and RowKey eq 'r'", Point, 1, false),
            (
                "RowKey eq 'r' and PartitionKey eq 'p' and Age gt 5",
                Point,
                1,
                true,
            ),
            (
                "PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b'",
                RowRange,
                1,
                false,
            ),
            (
                "PartitionKey eq 'p' and RowKey ge 'a' and RowKey le 'a'",
                Point,
                1,
                false,
            ),
            ("PartitionKey eq 'p' and RowKey ne 'a'", RowRange, 2, false),
            (
                "PartitionKey ge 'abc' and PartitionKey lt 'abd'",
                PartitionRange,
                1,
                false,
            ),
            ("PartitionKey ge 'a' and RowKey eq 'r'", SkipScan, 1, true),
            (
                "PartitionKey ge 'a' and PartitionKey le 'a' and RowKey gt 'r'",
                RowRange,
                1,
                false,
            ),
            (
                "not (PartitionKey ne 'p' or RowKey lt 'r')",
                RowRange,
                1,
                false,
            ),
            (
                "PartitionKey eq 'p' and (RowKey eq 'a' or RowKey eq 'b' or RowKey eq 'a')",
                Points,
                2,
                false,
            ),
            (
                "(PartitionKey eq 'p' and RowKey eq 'a') or (PartitionKey eq 'q' and RowKey eq 'b')",
                Points,
                2,
                false,
            ),
            (
                "(PartitionKey eq 'p' and RowKey eq 'a' and x) or (PartitionKey eq 'q' and RowKey eq 'b')",
                Points,
                2,
                true,
            ),
            (
                "PartitionKey eq 'p' and RowKey eq 'a' or Age gt 5",
                Table,
                1,
                true,
            ),
            (
                "PartitionKey eq 'p' or PartitionKey eq 'q'",
                Partition,
                2,
                false,
            ),
            (
                "PartitionKey eq 'p' and PartitionKey eq 'q'",
                Nothing,
                0,
                false,
            ),
            ("PartitionKey eq 5", Nothing, 0, false),
            ("PartitionKey lt 5", Table, 1, false),
            ("PartitionKey eq 'p' and false", Nothing, 0, false),
            ("PartitionKey lt ''", Nothing, 0, false),
            ("PartitionKey ge ''", Table, 1, false),
            ("PartitionKey eq 'p' and RowKey ge ''", Partition, 1, false),
            ("PartitionKey", Nothing, 0, false),
            ("PartitionKey ne 'p' and RowKey eq 'r'", SkipScan, 2, true),
            ("RowKey eq 'r' or RowKey eq 's'", SkipScan, 1, true),
            ("RowKey eq 'r' or PartitionKey eq 'p'", Table, 1, true),
            ("RowKey ge ''", Table, 1, false),
            ("PartitionKey eq 'p' and not (Age gt 5)", Partition, 1, true),
        ] {
            let plan = plan(filter);
            let found = (plan.kind(), plan.accesses.len(), plan.residual.is_some());
            assert_eq!(found, (kind, ranges, evaluated), "{filter}");
        }
    }

    #[test]
    fn ranges_that_meet_are_read_as_one() {
        let either = |a: &str, b: &str| plan(&format!("PartitionKey eq 'p' and ({a} or {b})"));
        for (a, b, kind) in [
            ("RowKey eq 'a'", "RowKey ge 'a'", RowRange),
            ("RowKey eq 'a'", "RowKey gt 'a'", RowRange),
            ("RowKey lt 'c'", "RowKey gt 'b'", RowRange),
            ("RowKey eq 'a'", "RowKey eq 'a'", Point),
        ] {
            for plan in [either(a, b), either(b, a)] {
                assert_eq!((plan.kind(), plan.accesses.len()), (kind, 1), "{a} or {b}");
            }
        }
    }

    #[test]
    fn skip_scan_looks_for_all_spans_that_are_wanted_anywhere() {
        let spans = |filter: &str| plan(filter).accesses[0].rows.clone();
        let both = spans("RowKey eq 'r' or RowKey eq 's'");
        assert_eq!(both.len(), 2);
        let apart =
            "PartitionKey ge 'a' and RowKey eq 's' or PartitionKey ge 'b' and RowKey eq 'r'";
        assert_eq!(spans(apart), both);
        let met = "RowKey lt 'r' or RowKey eq 'r' or PartitionKey eq 'p' and RowKey eq 'o'";
        assert_eq!(spans(met), spans("RowKey le 'r'"));
    }

    #[test]
    fn hosted_service_narrows_by_plain_comparisons_only() {
        for (filter, kind) in [
            ("", Table),
            ("RowKey eq 'r'", Table),
            (
                "PartitionKey eq 'p' and (RowKey eq 'r' and Age gt 5)",
                Point,
            ),
            (
                "PartitionKey eq 'p' and (RowKey eq 'a' or RowKey eq 'b')",
                Partition,
            ),
            ("PartitionKey eq 'p' and RowKey ne 'a'", Partition),
            ("PartitionKey eq 'p' and RowKey ge 'a'", RowRange),
            ("PartitionKey eq 'p' or PartitionKey eq 'q'", Table),
            ("not (PartitionKey ne 'p')", Table),
            (
                "PartitionKey gt 'a' and PartitionKey lt 'b' and RowKey lt 'x'",
                PartitionRange,
            ),
            ("PartitionKey eq 'p' and PartitionKey eq 'q'", Nothing),
        ] {
            assert_eq!(plan(filter).azure_kind, kind, "{filter}");
        }
    }

    #[test]
    fn clipped_scan_is_no_table_scan() {
        let mut plan = plan("");
        plan.clip(&KeyRange {
            start: vec![b'a'],
            end: None,
        });
        assert_eq!(plan.kind(), PartitionRange);
    }

    #[test]
    fn only_what_the_ranges_leave_open_is_evaluated() {
        let plan = plan("PartitionKey eq 'p' and Age gt 5 and RowKey lt 'r'");
        let residual = plan.residual.unwrap().expression;
        assert!(matches!(residual, Expression::And(terms) if terms.len() == 1));
    }

    #[test]
    fn forty_keys_of_either_kind_are_read_as_points() {
        let either = |name: &str| {
            let terms: Vec<String> = (0..40).map(|at| format!("{name} eq '{at}'")).collect();
            format!("({})", terms.join(" or "))
        };
        let keys = [either("PartitionKey"), either("RowKey")].join(" and ");
        let plan = plan(&keys);
        assert_eq!((plan.kind(), plan.accesses.len()), (Points, 1600));
    }

    #[test]
    fn planning_stops_where_evaluation_is_cheaper() {
        let others: Vec<String> = (0..2000)
            .map(|at| format!("PartitionKey ne '{at}'"))
            .collect();
        let plan = plan(&format!("{} and RowKey eq 'r'", others.join(" and ")));
        assert_eq!(plan.kind(), SkipScan);
        assert!(plan.accesses.len() < 200 && plan.residual.is_some());
    }

    #[test]
    fn too_many_regions_fall_back_to_evaluation() {
        let either = |name: &str| {
            let terms: Vec<String> = (0..100).map(|at| format!("{name} eq '{at}'")).collect();
            format!("({})", terms.join(" or "))
        };
        let plan = plan(&format!(
            "{} and {}",
            either("PartitionKey"),
            either("RowKey")
        ));
        assert_eq!((plan.kind(), plan.accesses.len()), (Partition, 100));
        assert!(plan.residual.is_some());
    }
}
