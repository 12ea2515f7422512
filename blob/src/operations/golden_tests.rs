//! The keys of rows, byte for byte.

use crate::keys::{self, File};

const HOME: u128 = 0x11;

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

#[test]
fn keys_are_where_they_were() {
    let id = bytes("00000000000000000000000000000011");
    let with = |tail: &str| [&id[..], &bytes(tail)].concat();
    assert_eq!(keys::container("a", "c"), bytes("61000163"));
    assert_eq!(keys::blob(HOME, "n"), with("6e0001ff"));
    let file = File {
        home: HOME,
        id: 0x33,
    };
    let other = "00000000000000000000000000000033";
    assert_eq!(file.whole_content(), with(other));
    assert_eq!(file.staging(), with(&format!("{other}00")));
    assert_eq!(file.uncommitted(b"a"), with(&format!("{other}0161")));
    assert_eq!(
        file.committed(5),
        with(&format!("{other}020000000000000005"))
    );
    assert_eq!(file.block_content(0x33), with(&format!("{other}{other}")));
}
