//! Names in keys: a zero byte is escaped, so that the order of keys is the order of names.

/// Ends a name.
pub(super) const NAME_END: [u8; 2] = [0, 1];

/// The name that ends here, and what comes after it.
pub(super) fn unescape(mut rest: &[u8]) -> Option<(String, &[u8])> {
    let mut name = Vec::with_capacity(rest.len());
    loop {
        match rest {
            [0, 0xff, tail @ ..] => {
                name.push(0);
                rest = tail;
            }
            [0, 1, tail @ ..] => return Some((String::from_utf8(name).ok()?, tail)),
            [0, ..] | [] => return None,
            [byte, tail @ ..] => {
                name.push(*byte);
                rest = tail;
            }
        }
    }
}

pub(super) fn escape(key: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
}
