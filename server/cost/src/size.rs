//! Billed bytes of stored data, by the published formulas.
//!
//! Source: Understanding Windows Azure Storage Billing - Bandwidth, Transactions, and Capacity,
//! "Capacity". Lengths are in UTF-16 code units where the formulas say characters. The formulas are
//! for prices: the service counts more where it checks the limit of a batch.

/// The value of a property, as far as its size depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertySize<'a> {
    /// Edm.String: 4 bytes, and 2 for each code unit.
    String(&'a str),
    /// Edm.Binary with this number of bytes: 4 bytes more.
    Binary(u64),
    /// Edm.DateTime: 8 bytes.
    DateTime,
    /// Edm.Int64: 8 bytes.
    Int64,
    /// Edm.Double: 8 bytes.
    Double,
    /// Edm.Int32: 4 bytes.
    Int32,
    /// Edm.Boolean: 1 byte.
    Boolean,
    /// Edm.Guid: 16 bytes.
    Guid,
    /// A null is not stored.
    Null,
}

impl PropertySize<'_> {
    /// `None` if the property is not stored.
    fn bytes(self) -> Option<u64> {
        Some(match self {
            PropertySize::String(text) => 4 + 2 * units(text),
            PropertySize::Binary(bytes) => bytes.saturating_add(4),
            PropertySize::DateTime | PropertySize::Int64 | PropertySize::Double => 8,
            PropertySize::Int32 => 4,
            PropertySize::Boolean => 1,
            PropertySize::Guid => 16,
            PropertySize::Null => return None,
        })
    }
}

/// UTF-16 code units.
fn units(text: &str) -> u64 {
    text.encode_utf16().count() as u64
}

/// Bytes of a table without its entities: 12, and 2 for each code unit of its name.
pub fn table_bytes(name: &str) -> u64 {
    12 + 2 * units(name)
}

/// Bytes of an entity. `properties` are the names and values of the properties other than
/// PartitionKey, RowKey and Timestamp. The formula counts these three as 4 bytes and the keys.
pub fn entity_bytes<'a>(
    partition_key: &str,
    row_key: &str,
    properties: impl IntoIterator<Item = (&'a str, PropertySize<'a>)>,
) -> u64 {
    let keys = 4 + 2 * (units(partition_key) + units(row_key));
    let properties = properties.into_iter().filter_map(|(name, value)| {
        let value = value.bytes()?;
        Some(value.saturating_add(8 + 2 * units(name)))
    });
    properties.fold(keys, u64::saturating_add)
}

/// Bytes of a queue without its messages. `metadata` are names and values. In its term for the
/// metadata, the published formula has the name of the queue. We read it as the name of the pair.
pub fn queue_bytes<'a>(name: &str, metadata: impl IntoIterator<Item = (&'a str, &'a str)>) -> u64 {
    let metadata = metadata.into_iter();
    let metadata = metadata.map(|(name, value)| 4 + 2 * units(name) + 2 * units(value));
    24 + 2 * units(name) + metadata.sum::<u64>()
}

/// Bytes of a message with a body of `body_bytes`, as the client sends it: in base64 if the client
/// encodes.
pub fn message_bytes(body_bytes: u64) -> u64 {
    body_bytes.saturating_add(12)
}

/// Bytes of a container without its blobs. `metadata` are names and values.
pub fn container_bytes<'a>(
    name: &str,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    stored_access_policies: u64,
) -> u64 {
    let policies = stored_access_policies.saturating_mul(512);
    (48 + 2 * units(name) + metadata_bytes(metadata)).saturating_add(policies)
}

/// Bytes of a block blob or of a snapshot of one. `content_bytes` are those of its blocks,
/// committed and uncommitted, that no other version of it shares. No formula for append blobs is
/// published: they use this one.
pub fn block_blob_bytes<'a>(
    name: &str,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    blocks: u64,
    block_id_bytes: u64,
    content_bytes: u64,
) -> u64 {
    let head = 124 + 2 * units(name) + metadata_bytes(metadata) + 8;
    let block_list = blocks.saturating_mul(block_id_bytes);
    head.saturating_add(block_list)
        .saturating_add(content_bytes)
}

/// Bytes of a page blob or of a snapshot of one. `page_bytes` are those of the pages with data that
/// no snapshot shares, in `ranges` separate ranges.
pub fn page_blob_bytes<'a>(
    name: &str,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    ranges: u64,
    page_bytes: u64,
) -> u64 {
    let head = 124 + 2 * units(name) + metadata_bytes(metadata);
    head.saturating_add(ranges.saturating_mul(12))
        .saturating_add(page_bytes)
}

fn metadata_bytes<'a>(metadata: impl IntoIterator<Item = (&'a str, &'a str)>) -> u64 {
    let pairs = metadata.into_iter();
    pairs
        .map(|(name, value)| 3 + units(name) + units(value))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_METADATA: [(&str, &str); 0] = [];

    #[test]
    fn entity_of_the_test_vector_has_56_bytes() {
        let properties = [
            ("Age", PropertySize::Int32),
            ("Name", PropertySize::String("Ann")),
        ];
        // 4 + 2 x 4 for the keys; Age 8 + 6 + 4; Name 8 + 8 + (6 + 4).
        assert_eq!(entity_bytes("p1", "r1", properties), 56);
    }

    #[test]
    fn every_type_has_its_bytes() {
        let value = |value| entity_bytes("", "", [("", value)]) - 12;
        for (property, bytes) in [
            (PropertySize::Int32, 4),
            (PropertySize::Boolean, 1),
            (PropertySize::Guid, 16),
            (PropertySize::DateTime, 8),
            (PropertySize::Int64, 8),
            (PropertySize::Double, 8),
            (PropertySize::Binary(3), 7),
            (PropertySize::String("ab"), 8),
            // Two code units for one character.
            (PropertySize::String("\u{1f600}"), 8),
        ] {
            assert_eq!(value(property), bytes, "{property:?}");
        }
        let with_null = entity_bytes("p", "r", [("Gone", PropertySize::Null)]);
        assert_eq!(with_null, entity_bytes("p", "r", []));
    }

    #[test]
    fn names_and_metadata_of_resources_count() {
        assert_eq!(table_bytes("Staff"), 22);
        // 24 + 2 x 4 for the name; 4 + 2 x 1 + 2 x 2 for the pair.
        assert_eq!(queue_bytes("work", [("a", "bc")]), 42);
        assert_eq!(message_bytes(100), 112);
        // 48 + 2 x 3; 3 + 1 + 2; 512 for each policy.
        assert_eq!(container_bytes("con", [("a", "bc")], 2), 1084);
        // 124 + 2 x 1 + 8; 2 blocks with ids of 4 bytes; the content.
        assert_eq!(block_blob_bytes("b", NO_METADATA, 2, 4, 1000), 1142);
        // 124 + 2 x 1; 2 ranges of 12; two pages.
        assert_eq!(page_blob_bytes("b", NO_METADATA, 2, 1024), 1174);
    }

    #[test]
    fn absurd_sizes_do_not_overflow() {
        let max = u64::MAX;
        assert_eq!(message_bytes(max), max);
        assert_eq!(block_blob_bytes("b", NO_METADATA, max, max, max), max);
        assert_eq!(
            entity_bytes("", "", [("B", PropertySize::Binary(max))]),
            max
        );
    }
}
