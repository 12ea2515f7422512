//! The table of the patterns. A new pattern is a module with a `PATTERN`, and a row here.

mod client_side_joins;
mod compound_key;
mod continuation;
mod data_series;
mod denormalisation;
mod encrypted_properties;
mod entity_group_transactions;
mod etag_contention;
mod eventual_transactions;
mod high_volume_delete;
mod index_entities;
mod inheritance;
mod inter_partition_index;
mod intra_partition_index;
mod large_entities;
mod log_data_in_blobs;
mod log_tail;
mod materialised_view;
mod merge_or_replace;
mod one_to_many;
mod one_to_one;
mod parallel_queries;
mod partition_key;
mod prepend_append;
mod projection;
mod query_kinds;
mod sas_key_range;
mod wide_entities;

use crate::guide::pattern::Pattern;

pub(super) static PATTERNS: &[&Pattern] = &[
    &partition_key::PATTERN,
    &entity_group_transactions::PATTERN,
    &query_kinds::PATTERN,
    &intra_partition_index::PATTERN,
    &inter_partition_index::PATTERN,
    &index_entities::PATTERN,
    &eventual_transactions::PATTERN,
    &materialised_view::PATTERN,
    &denormalisation::PATTERN,
    &client_side_joins::PATTERN,
    &compound_key::PATTERN,
    &log_tail::PATTERN,
    &high_volume_delete::PATTERN,
    &data_series::PATTERN,
    &wide_entities::PATTERN,
    &large_entities::PATTERN,
    &log_data_in_blobs::PATTERN,
    &prepend_append::PATTERN,
    &one_to_one::PATTERN,
    &one_to_many::PATTERN,
    &inheritance::PATTERN,
    &projection::PATTERN,
    &merge_or_replace::PATTERN,
    &continuation::PATTERN,
    &parallel_queries::PATTERN,
    &sas_key_range::PATTERN,
    &encrypted_properties::PATTERN,
    &etag_contention::PATTERN,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_the_names_of_containers() {
        let mut names: Vec<_> = PATTERNS.iter().map(|pattern| pattern.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PATTERNS.len());
        for pattern in PATTERNS {
            let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '-';
            assert!(pattern.name.chars().all(is_name) && pattern.name.len() <= 30);
            assert!(pattern.designs.len() >= 2, "{}", pattern.name);
        }
    }
}
