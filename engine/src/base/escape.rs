//! Escapes components of keys: a component may hold any bytes, and other components may follow it.
//!
//! Byte `00` becomes `00 FF`, and [`END`] ends the component. Escaped components sort as their
//! bytes do. No escaped component is a prefix of another one.

use std::borrow::Cow;

/// Ends a component of a key. Escaped bytes never contain it.
pub const END: [u8; 2] = [0, 1];

/// Appends `bytes` escaped, without [`END`]. The keys that begin with the result are those whose
/// component begins with `bytes`.
pub fn put(key: &mut Vec<u8>, bytes: &[u8]) {
    key.reserve(bytes.len() + END.len());
    for part in bytes.split_inclusive(|&byte| byte == 0) {
        key.extend_from_slice(part);
        if part.last() == Some(&0) {
            key.push(0xff);
        }
    }
}

/// Appends `bytes` escaped, and [`END`].
pub fn put_component(key: &mut Vec<u8>, bytes: &[u8]) {
    put(key, bytes);
    key.extend_from_slice(&END);
}

/// Returns the bytes of the first component of `key`, unescaped, and the bytes after its end;
/// `None` if the component is malformed or has no end. Borrows unless the component contains `00`.
pub fn take_component(key: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let zero = key.iter().position(|&byte| byte == 0)?;
    if let Some(rest) = key[zero..].strip_prefix(&END) {
        return Some((Cow::Borrowed(&key[..zero]), rest));
    }
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key;
    loop {
        let zero = rest.iter().position(|&byte| byte == 0)?;
        bytes.extend_from_slice(&rest[..zero]);
        rest = match &rest[zero..] {
            [0, 0xff, rest @ ..] => rest,
            [0, 1, rest @ ..] => return Some((Cow::Owned(bytes), rest)),
            _ => return None,
        };
        bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let alphabet = vec![0, 1, 2, b'a', 0xfe, 0xff];
        proptest::collection::vec(proptest::sample::select(alphabet), 0..6)
    }

    fn component(bytes: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        put_component(&mut key, bytes);
        key
    }

    proptest! {
        #[test]
        fn components_round_trip(first in bytes(), behind in bytes()) {
            let mut key = component(&first);
            key.extend(&behind);
            let (taken, rest) = take_component(&key).unwrap();
            prop_assert_eq!(taken.as_ref(), &first[..]);
            prop_assert_eq!(rest, &behind[..]);
        }

        #[test]
        fn components_sort_as_their_bytes(a in bytes(), b in bytes(), behind_a in bytes(), behind_b in bytes()) {
            let keys = [[component(&a), behind_a].concat(), [component(&b), behind_b].concat()];
            if a != b {
                prop_assert_eq!(a.cmp(&b), keys[0].cmp(&keys[1]));
            }
        }

        #[test]
        fn a_prefix_of_the_bytes_is_a_prefix_of_the_key(a in bytes(), behind in bytes()) {
            let mut prefix = Vec::new();
            put(&mut prefix, &a);
            prop_assert!(component(&[a, behind].concat()).starts_with(&prefix));
        }

        #[test]
        fn arbitrary_keys_never_panic(key in bytes()) {
            if let Some((taken, rest)) = take_component(&key) {
                let again = component(&taken);
                prop_assert_eq!([&again[..], rest].concat(), key);
            }
        }
    }

    #[test]
    fn escaped_components_match_the_format() {
        assert_eq!(component(b"a\0b"), b"a\0\xffb\0\x01");
        assert_eq!(take_component(b"a"), None);
        assert_eq!(take_component(b"a\0\x02"), None);
        assert!(matches!(
            take_component(b"a\0\x01b"),
            Some((Cow::Borrowed(b"a"), b"b"))
        ));
    }
}
