//! Plans a filter: the key ranges that contain every match, and the part of the filter to evaluate
//! on each row.
//!
//! Each term selects a union of regions; a region is a span of the first key component times a span
//! of the second. `and` intersects unions, `or` joins them, and `not` is pushed down to the
//! comparisons. A term on a property other than the keys selects everything and is evaluated on
//! each row. A region of one partition, or of whole partitions, is one range of keys. Any other
//! region becomes a skip scan (`skip.rs`) over the range of its partitions, which looks for the
//! requested spans of RowKeys in each partition; the filter is evaluated on its rows too.
//!
//! | filter | plan here | plan of the hosted service |
//! | --- | --- | --- |
//! | both keys | point | point |
//! | both keys, several times | points | partition scan, table scan |
//! | PartitionKey, a range of RowKeys | row range | row range |
//! | PartitionKey | partition scan | partition scan |
//! | RowKey, in all partitions or a range of them | skip scan | table scan, partition range scan |
//! | a range of PartitionKeys | partition range scan | partition range scan |
//! | no key | table scan | table scan |

use crate::access::AccessKind;
use crate::filter::{Comparison, Expression, Filter, Operator};
use crate::keys::{component, skip_component};
use crate::model::Value;
use lazurite_engine::KeyRange;

/// The ranges of keys to read, and the filter to evaluate on each row.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Disjoint ranges in key order. Their keys lack the common prefix of the table's keys.
    pub(crate) accesses: Vec<Access>,
    /// The filter to evaluate on each row; `None` if every row in the ranges matches.
    pub(crate) residual: Option<Filter>,
    /// How the hosted service would access the rows.
    pub(crate) azure: Azure,
}

/// The access of the hosted service.
#[derive(Debug, Clone)]
pub(crate) struct Azure {
    pub(crate) kind: AccessKind,
    /// The range that the hosted service would read; empty for [`AccessKind::Nothing`].
    pub(crate) range: KeyRange,
}

/// One range of keys to read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Access {
    pub(crate) range: KeyRange,
    /// A [`AccessKind::Point`] has its one key as the start of the range.
    pub(crate) kind: AccessKind,
    /// Spans of the second component that contain every match, disjoint and in order. A
    /// [`AccessKind::SkipScan`] looks for them in each partition.
    pub(crate) rows: Vec<KeyRange>,
}

/// Maximum number of pairs of regions that are intersected to plan one `and`. More would take
/// longer than a few milliseconds; the remaining terms are evaluated on each row instead.
const PAIRS_MAX: usize = 16 * 1024;
/// Maximum number of regions of an `and`: more would cost too many seeks.
const REGIONS_MAX: usize = 2048;

impl Plan {
    /// Plans a filter for keys whose components are the properties `key_names`.
    pub(crate) fn new(filter: Option<Filter>, key_names: &[&str]) -> Plan {
        let Some(mut filter) = filter else {
            let (table, _) = Region::all().to_access();
            let azure = Azure::of(&table);
            return Plan {
                accesses: vec![table],
                residual: None,
                azure,
            };
        };
        let columns: Vec<Option<usize>> = key_names.iter().map(|name| filter.slot(name)).collect();
        let planner = Planner { columns: &columns };
        let mut terms = match filter.expression {
            Expression::And(terms) => terms,
            one => vec![one],
        };
        let azure = planner.azure(&terms);
        let term_ranges = planner.all_key_ranges(&terms, false);
        let (regions, complete) = intersect_all(&term_ranges);
        let (accesses, exact): (Vec<Access>, Vec<bool>) =
            regions.iter().map(Region::to_access).unzip();
        if complete && exact.iter().all(|exact| *exact) {
            // All rows in the ranges satisfy the terms whose ranges are exact.
            let mut term_ranges = term_ranges.iter();
            terms.retain(|_| term_ranges.next().is_some_and(|ranges| !ranges.exact));
        }
        let is_open = !terms.is_empty();
        filter.expression = Expression::And(terms);
        filter.forget_unused_names();
        Plan {
            accesses: join(accesses),
            residual: is_open.then_some(filter),
            azure,
        }
    }

    /// Restricts the plan to the keys in `range`.
    pub(crate) fn clip(&mut self, range: &KeyRange) {
        self.accesses.retain_mut(|access| {
            let clipped = intersect(&access.range, range);
            if clipped != access.range {
                access.range = clipped;
                access.kind = access.kind.min(AccessKind::PartitionRange);
            }
            !access.range.is_empty()
        });
        let azure = intersect(&self.azure.range, range);
        if azure != self.azure.range {
            self.azure.range = azure;
            self.azure.kind = self.azure.kind.min(AccessKind::PartitionRange);
        }
    }

    /// Restricts the plan to the keys from `key` on.
    pub(crate) fn start_at(&mut self, key: Vec<u8>) {
        self.clip(&KeyRange {
            start: key,
            end: None,
        });
    }

    /// Whether the hosted service would read exactly the rows that this plan reads.
    pub(crate) fn reads_as_azure(&self) -> bool {
        match &self.accesses[..] {
            [] => self.azure.range.is_empty(),
            [only] => only.kind != AccessKind::SkipScan && only.range == self.azure.range,
            _ => false,
        }
    }

    /// The most expensive kind of access in the plan.
    pub(crate) fn kind(&self) -> AccessKind {
        match self.accesses.iter().map(|access| access.kind).max() {
            None => AccessKind::Nothing,
            Some(AccessKind::Point) if self.accesses.len() > 1 => AccessKind::Points,
            Some(kind) => kind,
        }
    }
}

impl Azure {
    fn of(access: &Access) -> Azure {
        Azure {
            kind: access.kind,
            range: access.range.clone(),
        }
    }

    fn nothing() -> Azure {
        Azure {
            kind: AccessKind::Nothing,
            range: KeyRange {
                start: Vec::new(),
                end: Some(Vec::new()),
            },
        }
    }
}

/// The entities whose first key component is in the first span, and whose second is in the second.
#[derive(Debug, Clone)]
struct Region {
    spans: [KeyRange; 2],
}

/// The span of all components, from the empty text on.
fn all_components() -> KeyRange {
    KeyRange {
        start: vec![0, 1],
        end: None,
    }
}

/// Whether a span contains exactly one component.
fn is_single(span: &KeyRange) -> bool {
    span.end.as_ref().is_some_and(|end| {
        let mut next = span.start.clone();
        next.ends_with(&[0, 1]) && {
            skip_component(&mut next);
            next == *end
        }
    })
}

/// The keys in both ranges.
pub(crate) fn intersect(a: &KeyRange, b: &KeyRange) -> KeyRange {
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

    /// The common part of two regions; `None` if it is empty.
    fn intersect(&self, other: &Region) -> Option<Region> {
        let spans = [0, 1].map(|at| intersect(&self.spans[at], &other.spans[at]));
        (!spans.iter().any(KeyRange::is_empty)).then_some(Region { spans })
    }

    /// The range of keys that contains the region, and whether it contains nothing else.
    fn to_access(&self) -> (Access, bool) {
        let [partitions, rows] = &self.spans;
        let one_partition = is_single(partitions);
        let all_rows = *rows == all_components();
        let kind = if *partitions == all_components() {
            AccessKind::Table
        } else if !one_partition {
            AccessKind::PartitionRange
        } else if all_rows {
            AccessKind::Partition
        } else if is_single(rows) {
            AccessKind::Point
        } else {
            AccessKind::RowRange
        };
        let range = if one_partition && !all_rows {
            rows_within(partitions, rows)
        } else {
            partitions.clone()
        };
        let rows = vec![rows.clone()];
        (Access { range, kind, rows }, one_partition || all_rows)
    }
}

/// The range of keys of a span of rows in one partition.
fn rows_within(partition: &KeyRange, rows: &KeyRange) -> KeyRange {
    let within = |row: &Vec<u8>| [&partition.start[..], row].concat();
    let end = rows.end.as_ref().map(within);
    KeyRange {
        start: within(&rows.start),
        end: end.or_else(|| partition.end.clone()),
    }
}

/// Sorts accesses and joins those whose ranges touch. An access to some RowKeys of many partitions
/// becomes a skip scan.
fn join(mut accesses: Vec<Access>) -> Vec<Access> {
    accesses.sort_by(|a, b| a.range.start.cmp(&b.range.start));
    let mut joined: Vec<Access> = Vec::new();
    for access in accesses {
        let last = joined.last_mut();
        let Some(last) = last.filter(|last| touch(&last.range, &access.range)) else {
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
        match joined.last_mut().filter(|last| touch(last, &span)) {
            Some(last) => extend(last, span),
            None => joined.push(span),
        }
    }
    joined
}

/// Whether two ranges overlap or touch; `next` does not start earlier.
fn touch(range: &KeyRange, next: &KeyRange) -> bool {
    range.end.as_ref().is_none_or(|end| next.start <= *end)
}

/// Extends a range by one that it touches.
fn extend(range: &mut KeyRange, next: KeyRange) {
    range.end = match (range.end.take(), next.end) {
        (Some(a), Some(b)) => Some(a.max(b)),
        _ => None,
    };
}

/// The regions of keys that contain every match of a term.
#[derive(Debug)]
struct KeyRanges {
    regions: Vec<Region>,
    /// Whether the regions contain nothing but matches.
    exact: bool,
}

impl KeyRanges {
    /// The ranges of a term with the same value for every entity.
    fn constant(truth: bool) -> KeyRanges {
        let regions = Vec::from_iter(truth.then(Region::all));
        KeyRanges {
            regions,
            exact: true,
        }
    }

    /// The ranges of a term that does not depend on keys alone.
    fn unknown() -> KeyRanges {
        KeyRanges {
            regions: vec![Region::all()],
            exact: false,
        }
    }
}

/// Returns the intersection of all ranges, and `false` if some ranges were left out because there
/// were too many regions.
fn intersect_all(ranges: &[KeyRanges]) -> (Vec<Region>, bool) {
    let mut regions = vec![Region::all()];
    let mut complete = true;
    let mut pairs_left = PAIRS_MAX;
    // Ranges with few regions restrict most, and do not add regions.
    let mut ranges: Vec<&KeyRanges> = ranges.iter().collect();
    ranges.sort_by_key(|ranges| ranges.regions.len());
    for other in ranges {
        let pairs = regions.len() * other.regions.len();
        if pairs > REGIONS_MAX.min(pairs_left) {
            complete = false;
            continue;
        }
        pairs_left -= pairs;
        let both = regions
            .iter()
            .flat_map(|a| other.regions.iter().filter_map(|b| a.intersect(b)));
        regions = both.collect();
    }
    (regions, complete)
}

struct Planner<'a> {
    /// The index of each key component among the names of the filter.
    columns: &'a [Option<usize>],
}

impl Planner<'_> {
    /// The key ranges of a term, or of its negation if `negated`.
    fn key_ranges(&self, term: &Expression, negated: bool) -> KeyRanges {
        match (term, negated) {
            (Expression::Not(term), _) => self.key_ranges(term, !negated),
            (Expression::And(terms), false) | (Expression::Or(terms), true) => {
                let all = self.all_key_ranges(terms, negated);
                let (regions, complete) = intersect_all(&all);
                let exact = complete && all.iter().all(|ranges| ranges.exact);
                KeyRanges { regions, exact }
            }
            (Expression::Or(terms) | Expression::And(terms), _) => {
                let all = self.all_key_ranges(terms, negated);
                let exact = all.iter().all(|ranges| ranges.exact);
                let regions = all.into_iter().flat_map(|ranges| ranges.regions);
                KeyRanges {
                    regions: regions.collect(),
                    exact,
                }
            }
            (Expression::Constant(truth), _) => KeyRanges::constant(*truth != negated),
            (Expression::IsTrue(property), _) => match self.column(*property) {
                // Keys are Strings, never a Boolean that is true.
                Some(_) => KeyRanges::constant(negated),
                None => KeyRanges::unknown(),
            },
            (
                Expression::Compare {
                    property,
                    operator,
                    literal,
                },
                _,
            ) => match self.column(*property) {
                // Keys always exist, so the negation of a comparison is the comparison with the
                // negated operator.
                Some(column) if negated => comparison_ranges(column, operator.negated(), literal),
                Some(column) => comparison_ranges(column, *operator, literal),
                None => KeyRanges::unknown(),
            },
        }
    }

    /// How the hosted service would access the rows: only comparisons of keys that must all be true
    /// restrict its scans; terms of `or`, `not` and `ne` do not. Source: Azure storage table design
    /// guide, "Design for querying".
    fn azure(&self, terms: &[Expression]) -> Azure {
        let mut ranges = Vec::new();
        self.collect_comparisons(terms, &mut ranges);
        let (regions, _) = intersect_all(&ranges);
        let azure = regions
            .first()
            .map(|region| Azure::of(&region.to_access().0));
        azure.unwrap_or_else(Azure::nothing)
    }

    fn collect_comparisons(&self, terms: &[Expression], ranges: &mut Vec<KeyRanges>) {
        for term in terms {
            match term {
                Expression::And(terms) => self.collect_comparisons(terms, ranges),
                Expression::Compare { operator, .. } if *operator != Operator::NotEqual => {
                    ranges.push(self.key_ranges(term, false));
                }
                _ => {}
            }
        }
    }

    fn all_key_ranges(&self, terms: &[Expression], negated: bool) -> Vec<KeyRanges> {
        terms
            .iter()
            .map(|term| self.key_ranges(term, negated))
            .collect()
    }

    /// The key component of a property, if it is one.
    fn column(&self, property: usize) -> Option<usize> {
        self.columns.iter().position(|slot| *slot == Some(property))
    }
}

/// The ranges of a comparison with one component of the key.
fn comparison_ranges(column: usize, operator: Operator, literal: &Value) -> KeyRanges {
    let Value::String(text) = literal else {
        return KeyRanges::constant(operator.holds(Comparison::Mismatch));
    };
    let region = |span| {
        let mut region = Region::all();
        region.spans[column] = span;
        region
    };
    let spans = spans(operator, text)
        .into_iter()
        .filter(|span| !span.is_empty());
    KeyRanges {
        regions: spans.map(region).collect(),
        exact: true,
    }
}

/// The spans of components for which the comparison with `text` is true.
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
    fn plans_read_the_smallest_ranges_that_the_keys_allow() {
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
    fn touching_ranges_are_joined() {
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
    fn skip_scan_looks_for_the_spans_of_all_partitions() {
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
    fn hosted_service_is_restricted_by_plain_comparisons_only() {
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
            assert_eq!(plan(filter).azure.kind, kind, "{filter}");
        }
    }

    #[test]
    fn clipped_scan_is_a_partition_range_scan() {
        let mut plan = plan("");
        plan.clip(&KeyRange {
            start: vec![b'a'],
            end: None,
        });
        assert_eq!(plan.kind(), PartitionRange);
    }

    #[test]
    fn hosted_service_reads_the_same_rows_unless_this_server_is_cleverer() {
        for (filter, is_same) in [
            ("", true),
            ("Age gt 5", true),
            ("PartitionKey eq 'p' and RowKey eq 'r' and Age gt 5", true),
            ("PartitionKey eq 'p' and RowKey ge 'a'", true),
            ("PartitionKey gt 'a' and PartitionKey lt 'b'", true),
            ("PartitionKey eq 'p' and PartitionKey eq 'q'", true),
            ("RowKey eq 'r'", false),
            ("PartitionKey gt 'a' and RowKey lt 'b'", false),
            ("PartitionKey eq 'p' and RowKey ne 'a'", false),
            ("PartitionKey eq 'p' or PartitionKey eq 'q'", false),
            ("false", false),
        ] {
            let mut plan = plan(filter);
            assert_eq!(plan.reads_as_azure(), is_same, "{filter}");
            plan.start_at(vec![b'p']);
            assert_eq!(plan.reads_as_azure(), is_same, "{filter}");
        }
    }

    #[test]
    fn terms_with_exact_ranges_are_not_evaluated() {
        let plan = plan("PartitionKey eq 'p' and Age gt 5 and RowKey lt 'r'");
        let residual = plan.residual.unwrap().expression;
        let Expression::And(terms) = residual else {
            panic!("{residual:?}");
        };
        let terms: Vec<String> = terms.iter().map(|term| format!("{term:?}")).collect();
        assert!(
            matches!(&terms[..], [left] if left.contains("GreaterThan, literal: Int32(5)")),
            "{terms:?}"
        );
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
    fn planning_stops_when_evaluation_is_cheaper() {
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
