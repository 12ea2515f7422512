//! Converts names to engine keys and back; the only file that knows the layout of keys.
//!
//! A component is UTF-8 text whose bytes are mapped so that byte order is the order of UTF-16 code
//! units, as the protocol demands. `00` becomes `00 FF`, and `00 01` ends the component. So no
//! component is a prefix of another, and `a` sorts before every longer text that begins with `a`.
//!
//! | keyspace | key | value |
//! | --- | --- | --- |
//! | catalog | `01` | the next table id |
//! | catalog | `02` account, lower-case table name | table record |
//! | catalog | `03` table id | stored access policies |
//! | catalog | `04` account | service properties, opaque |
//! | catalog | `05` | upper bound of the Timestamps of all rows |
//! | catalog | `06` | upper bound of the Timestamps that followed the wall clock (`clock.rs`) |
//! | entities | table id, PartitionKey, RowKey | row |
//!
//! A table id is 8 bytes, big-endian, and never reused: deleting a table of any size is one range
//! delete.

use lazurite_engine::{KeyRange, escape};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Identifies a table of any account from its creation to its deletion.
pub(crate) type TableId = u64;

/// Bytes of a table id in a key.
pub(crate) const TABLE_ID_BYTES: usize = 8;

/// The key of the next table id.
pub(crate) const NEXT_TABLE_ID: &[u8] = &[1];

/// The key of the upper bound of the Timestamps of all rows.
pub(crate) const TIMESTAMP_BOUND: &[u8] = &[5];

/// The key of the upper bound of the Timestamps that followed the wall clock. A start that finds
/// it far ahead of the wall clock resets it (`clock.rs`).
pub(crate) const FOLLOWING_BOUND: &[u8] = &[6];

/// Initial capacity for a key of the catalog.
const CATALOG_KEY_BYTES_USUAL: usize = 64;

/// The key of a table's record.
pub(crate) fn table(account: &str, name: &str) -> Vec<u8> {
    let mut key = tables(account);
    component(&mut key, &name.to_ascii_lowercase());
    key
}

/// The common prefix of the keys of an account's tables.
pub(crate) fn tables(account: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(CATALOG_KEY_BYTES_USUAL);
    key.push(2);
    component(&mut key, account);
    key
}

/// The key of a table's stored access policies.
pub(crate) fn acl(table: TableId) -> Vec<u8> {
    let mut key = vec![3];
    key.extend(table.to_be_bytes());
    key
}

/// The key of an account's service properties.
pub(crate) fn service_properties(account: &str) -> Vec<u8> {
    let mut key = vec![4];
    component(&mut key, account);
    key
}

/// The key of an entity.
pub(crate) fn entity(table: TableId, partition_key: &str, row_key: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(TABLE_ID_BYTES + partition_key.len() + row_key.len() + 4);
    key.extend(table.to_be_bytes());
    component(&mut key, partition_key);
    component(&mut key, row_key);
    key
}

/// The key of an entity without its table id.
pub(crate) fn in_table(partition_key: &str, row_key: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(partition_key.len() + row_key.len() + 4);
    component(&mut key, partition_key);
    component(&mut key, row_key);
    key
}

/// The range of the keys of all entities of a table.
pub(crate) fn entities(table: TableId) -> KeyRange {
    KeyRange::prefix(&table.to_be_bytes())
}

/// The entities of a table whose PartitionKey is less than `partition_key`.
pub(crate) fn entities_before(table: TableId, partition_key: &str) -> KeyRange {
    let start = table.to_be_bytes().to_vec();
    let mut end = start.clone();
    component(&mut end, partition_key);
    KeyRange {
        start,
        end: Some(end),
    }
}

/// Returns PartitionKey and RowKey from the key of an entity without its table id; `None` if the
/// key is malformed.
pub(crate) fn parse_entity(key: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (partition_key, rest) = parse_component(key)?;
    let (row_key, rest) = parse_component(rest)?;
    rest.is_empty().then_some((partition_key, row_key))
}

/// Appends `text` as a component.
pub(crate) fn component(key: &mut Vec<u8>, text: &str) {
    let start = key.len();
    escape::put_component(key, text.as_bytes());
    // The escape itself is byte FF, which `rank` leaves as it is.
    if text.bytes().any(|byte| byte >= MAPPED_FROM) {
        for byte in &mut key[start..] {
            *byte = rank(*byte);
        }
    }
}

/// Turns a key that ends with a component into the least key after all keys that begin with that
/// key.
pub(crate) fn skip_component(key: &mut [u8]) {
    if let Some(end) = key.last_mut() {
        debug_assert_eq!(*end, 1, "a component ends with 00 01");
        *end = 2;
    }
}

/// The length in bytes of the first component of `key` with its end; `None` if there is none.
pub(crate) fn first_component_bytes(key: &[u8]) -> Option<usize> {
    // A zero byte is followed by FF inside a component, and by 01 at its end.
    let end = key.windows(2).position(|pair| pair == [0, 1])?;
    Some(end + 2)
}

/// Returns the first component of `key`, and the rest of the key; `None` if it is malformed.
/// Borrowed unless the component has a mapped or escaped byte, which is rare.
pub(crate) fn parse_component(key: &[u8]) -> Option<(Cow<'_, str>, &[u8])> {
    let (bytes, rest) = escape::take_component(key)?;
    let text = match bytes {
        Cow::Borrowed(bytes) if bytes.iter().all(|&byte| byte < MAPPED_FROM) => {
            Cow::Borrowed(std::str::from_utf8(bytes).ok()?)
        }
        mapped => {
            let text = mapped.iter().map(|&byte| unrank(byte)).collect();
            Cow::Owned(String::from_utf8(text).ok()?)
        }
    };
    Some((text, rest))
}

/// Compares texts by UTF-16 code unit: the order of keys, and of strings in `$filter`.
pub(crate) fn compare_utf16(left: &str, right: &str) -> Ordering {
    let differ = left
        .bytes()
        .zip(right.bytes())
        .find(|(left, right)| left != right);
    match differ {
        Some((left, right)) => rank(left).cmp(&rank(right)),
        None => left.len().cmp(&right.len()),
    }
}

const MAPPED_FROM: u8 = 0xee;

/// Maps bytes of UTF-8 so that they sort as UTF-16 does. The two orders differ only in that UTF-16
/// puts U+E000 to U+FFFF (lead bytes EE and EF) after all higher code points (F0 to F4). Where two
/// texts first differ, a lead byte is never compared with a continuation byte.
fn rank(byte: u8) -> u8 {
    match byte {
        0xee | 0xef => byte + 5,
        0xf0..=0xf4 => byte - 2,
        _ => byte,
    }
}

fn unrank(byte: u8) -> u8 {
    match byte {
        0xf3 | 0xf4 => byte - 5,
        0xee..=0xf2 => byte + 2,
        _ => byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn utf16(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    /// Texts from an alphabet in which the orders of UTF-8 and UTF-16 differ.
    fn text() -> impl Strategy<Value = String> {
        let alphabet = vec![
            '\0',
            '\u{1}',
            '\u{2}',
            'a',
            'b',
            '\u{7f}',
            'é',
            '\u{d7ff}',
            '\u{e000}',
            '\u{ffff}',
            '😀',
            '\u{10ffff}',
        ];
        proptest::collection::vec(proptest::sample::select(alphabet), 0..5)
            .prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #[test]
        fn encoded_keys_sort_as_their_parts(a in (text(), text()), b in (text(), text())) {
            let parts = |(p, r): &(String, String)| (utf16(p), utf16(r));
            prop_assert_eq!(entity(1, &a.0, &a.1).cmp(&entity(1, &b.0, &b.1)), parts(&a).cmp(&parts(&b)));
            prop_assert_eq!(compare_utf16(&a.0, &b.0), utf16(&a.0).cmp(&utf16(&b.0)));
        }

        #[test]
        fn keys_round_trip(p in text(), r in any::<String>(), id: u64) {
            let key = entity(id, &p, &r);
            let (partition_key, row_key) = parse_entity(&key[TABLE_ID_BYTES..]).unwrap();
            prop_assert_eq!((&*partition_key, &*row_key), (&*p, &*r));
            prop_assert!(key.starts_with(&entities(id).start));
        }

        #[test]
        fn parsing_a_key_never_panics(bytes: Vec<u8>) {
            let _ = parse_entity(&bytes);
        }

        #[test]
        fn skipping_a_component_passes_all_keys_that_begin_with_it(p in text(), longer in text(), r in text()) {
            let mut beyond = Vec::new();
            component(&mut beyond, &p);
            skip_component(&mut beyond);
            prop_assert!(entity(1, &p, &r)[TABLE_ID_BYTES..] < beyond[..]);
            let other = p.clone() + "\0" + &longer;
            prop_assert!(entity(1, &other, &r)[TABLE_ID_BYTES..] >= beyond[..]);
        }
    }

    #[test]
    fn encoded_keys_match_the_format() {
        assert_eq!(table("a", "Tab"), b"\x02a\x00\x01tab\x00\x01");
        assert_eq!(acl(0x0102), b"\x03\0\0\0\0\0\0\x01\x02");
        assert_eq!(service_properties("a"), b"\x04a\x00\x01");
        let key = entity(0x0102, "p\0", "\u{e000}😀");
        let expected = b"\0\0\0\0\0\0\x01\x02p\x00\xff\x00\x01\xf3\x80\x80\xee\x9f\x98\x80\x00\x01";
        assert_eq!(key, expected);
    }

    #[test]
    fn key_of_one_name_is_no_prefix_of_another() {
        assert!(!table("acct", "table").starts_with(&table("acct", "tab")));
        assert!(!tables("acct2").starts_with(&tables("acct")));
        assert_eq!(table("acct", "TAB"), table("acct", "tab"));
    }
}
