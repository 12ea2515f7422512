//! Value: a length and a number that determine the bytes, so that a found value shows which put
//! wrote it.

use std::fmt;

/// A value of the model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value {
    length: u32,
    /// The first eight bytes as a number; missing ones are zeros.
    fill: u64,
}

impl Value {
    /// Returns a value of `length` bytes made from `fill`. Values of eight or more bytes differ if
    /// their `fill` differs.
    pub fn new(length: u32, fill: u64) -> Value {
        let bits = length.min(8) * 8;
        let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
        Value {
            length,
            fill: fill & mask,
        }
    }

    /// The number that the value was made from, as far as its length shows it.
    pub fn fill(self) -> u64 {
        self.fill
    }

    /// The length in bytes.
    pub fn length(self) -> u32 {
        self.length
    }

    /// The bytes of the value.
    pub fn bytes(self) -> Vec<u8> {
        let fill = self.fill.to_le_bytes();
        let byte = |at: usize| fill[at % 8] ^ (at / 8) as u8 ^ (at / 2048) as u8;
        (0..self.length as usize).map(byte).collect()
    }

    /// The value that has these bytes; `None` if none has.
    pub fn read(bytes: &[u8]) -> Option<Value> {
        let mut fill = [0; 8];
        let known = bytes.len().min(8);
        fill[..known].copy_from_slice(&bytes[..known]);
        let value = Value::new(bytes.len() as u32, u64::from_le_bytes(fill));
        (value.bytes() == bytes).then_some(value)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes #{:08x}", self.length, self.fill as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_by_its_bytes() {
        for length in [0, 1, 7, 8, 9, 100, 5000] {
            let value = Value::new(length, 0x0123_4567_89ab_cdef);
            assert_eq!(Value::read(&value.bytes()), Some(value));
        }
    }

    #[test]
    fn bytes_of_two_values_are_those_of_none() {
        let (one, other) = (Value::new(5000, 1).bytes(), Value::new(5000, 2).bytes());
        let mixed = [&one[..2500], &other[2500..]].concat();
        assert_eq!(Value::read(&mixed), None);
        let shifted = [&one[..2048], &one[1024..]].concat();
        assert_eq!(Value::read(&shifted), None);
    }
}
