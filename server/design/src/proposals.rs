//! Keys to try, read off the filters of a workload.

use crate::workload::Workload;
use lazurite_table::{Condition, FilterOperator, Value, conditions};
use std::collections::BTreeMap;

/// Maximum number of proposals.
const PROPOSALS_MAX: usize = 5;

/// Keys to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The expression of PartitionKey.
    pub partition: String,
    /// The expression of RowKey. It ends with the former keys, so that it is unique.
    pub row: String,
    /// Number of queries that would name their partition.
    pub queries: u64,
}

/// Keys that would let queries name their partition, those with most queries first. A property that
/// filters compare with a range comes first in RowKey.
pub fn proposals(workload: &Workload) -> Vec<Proposal> {
    let mut found: BTreeMap<(String, String), u64> = BTreeMap::new();
    for ((filter, _), query) in &workload.queries {
        let conditions = conditions(filter).unwrap_or_default();
        let of_key = |name: &str| matches!(name, "PartitionKey" | "RowKey" | "Timestamp");
        if conditions.iter().any(|condition| {
            condition.property == "PartitionKey" && condition.operator == FilterOperator::Equal
        }) {
            continue;
        }
        let others = || {
            conditions
                .iter()
                .filter(|condition| !of_key(&condition.property))
        };
        let range = others().find(|condition| {
            !matches!(
                condition.operator,
                FilterOperator::Equal | FilterOperator::NotEqual
            )
        });
        let row = range.and_then(in_front).map_or_else(
            || "PartitionKey + '_' + RowKey".to_owned(),
            |first| format!("{first} + '_' + PartitionKey + '_' + RowKey"),
        );
        let is_equal = |condition: &&Condition| condition.operator == FilterOperator::Equal;
        let is_key = |condition: &&Condition| {
            !matches!(condition.literal, Value::Double(_) | Value::Binary(_))
        };
        for equal in others().filter(is_equal).filter(is_key) {
            let times = query.seconds.len() as u64;
            *found
                .entry((equal.property.clone(), row.clone()))
                .or_default() += times;
        }
    }
    let proposal = |((partition, row), queries)| Proposal {
        partition,
        row,
        queries,
    };
    let mut proposals: Vec<Proposal> = found.into_iter().map(proposal).collect();
    proposals.sort_by_key(|proposal| std::cmp::Reverse(proposal.queries));
    proposals.truncate(PROPOSALS_MAX);
    proposals
}

/// The term for a property in which a range of values is a range of keys, whatever follows it;
/// `None` for types without such a term, such as texts.
fn in_front(condition: &Condition) -> Option<String> {
    let name = &condition.property;
    match condition.literal {
        Value::DateTime(_) | Value::Guid(_) => Some(name.clone()),
        Value::Int32(_) => Some(format!("pad({name}, 10)")),
        Value::Int64(_) => Some(format!("pad({name}, 19)")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::query;

    #[test]
    fn properties_that_filters_compare_are_proposed() {
        let mut records = vec![
            query(0, "PartitionKey eq 'p' and City eq 'x'", 1, false),
            query(0, "City eq 'x' or City eq 'y'", 1, false),
            query(
                0,
                "Customer eq 'c' and Placed ge datetime'2026-01-01T00:00:00Z'",
                1,
                false,
            ),
        ];
        records.extend((0..3).map(|_| query(0, "City eq 'x' and Total ne 5", 1, false)));
        let found = proposals(&Workload::of(&records, "T"));
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.partition.as_str(), one.row.as_str(), one.queries))
            .collect();
        let expected = [
            ("City", "PartitionKey + '_' + RowKey", 3),
            ("Customer", "Placed + '_' + PartitionKey + '_' + RowKey", 1),
        ];
        assert_eq!(found, expected);
    }
}
