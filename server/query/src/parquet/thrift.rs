//! Thrift's compact encoding, as far as it is needed to check Parquet's footer and page headers
//! before they are decoded: the decoder trusts their declared list lengths and nesting. Source:
//! Apache Thrift, "Compact protocol".

/// Maximum number of elements of one list.
const LIST_ELEMENTS_MAX: usize = 64 << 10;
/// Maximum nesting of structs and lists.
const DEPTH_MAX: usize = 16;

/// Why bytes could not be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The bytes end before the value does.
    Truncated,
    Invalid,
}

pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    True,
    False,
    Byte,
    /// An integer of 16, 32 or 64 bits.
    Integer,
    Double,
    Binary,
    List,
    Map,
    Struct,
}

impl Kind {
    fn of(number: u8) -> Result<Kind> {
        Ok(match number {
            1 => Kind::True,
            2 => Kind::False,
            3 => Kind::Byte,
            4..=6 => Kind::Integer,
            7 => Kind::Double,
            8 => Kind::Binary,
            9 | 10 => Kind::List,
            11 => Kind::Map,
            12 => Kind::Struct,
            _ => return Err(Error::Invalid),
        })
    }
}

/// Reads values of the compact protocol in order.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// Calls `field` with the number and kind of each field of a struct. `field` reads or skips the
    /// value.
    pub fn fields(
        &mut self,
        mut field: impl FnMut(&mut Cursor<'a>, i64, Kind) -> Result<()>,
    ) -> Result<()> {
        let mut number = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            let kind = Kind::of(head & 0x0f)?;
            number = match head >> 4 {
                0 => self.integer()?,
                delta => number.checked_add(i64::from(delta)).ok_or(Error::Invalid)?,
            };
            field(self, number, kind)?;
        }
    }

    /// Reads a zigzag-encoded integer of up to 64 bits.
    pub fn integer(&mut self) -> Result<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads a non-negative integer.
    pub fn count(&mut self) -> Result<usize> {
        usize::try_from(self.integer()?).map_err(|_| Error::Invalid)
    }

    /// Reads the kind and the number of the elements of a list.
    pub fn list(&mut self) -> Result<(Kind, usize)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.varint()?).map_err(|_| Error::Invalid)?,
            count => usize::from(count),
        };
        if count > LIST_ELEMENTS_MAX {
            return Err(Error::Invalid);
        }
        Ok((Kind::of(head & 0x0f)?, count))
    }

    /// Skips the value of a field.
    pub fn skip(&mut self, kind: Kind) -> Result<()> {
        self.skip_nested(kind, 0)
    }

    fn skip_nested(&mut self, kind: Kind, depth: usize) -> Result<()> {
        if depth == DEPTH_MAX {
            return Err(Error::Invalid);
        }
        match kind {
            Kind::True | Kind::False => Ok(()),
            Kind::Byte => self.advance(1),
            Kind::Integer => self.integer().map(drop),
            Kind::Double => self.advance(8),
            Kind::Binary => {
                let length = usize::try_from(self.varint()?).map_err(|_| Error::Invalid)?;
                self.advance(length)
            }
            Kind::List => {
                let (kind, count) = self.list()?;
                for _ in 0..count {
                    match kind {
                        // Unlike a Boolean field, a Boolean element has a byte of its own.
                        Kind::True | Kind::False => self.advance(1)?,
                        kind => self.skip_nested(kind, depth + 1)?,
                    }
                }
                Ok(())
            }
            // Parquet has no maps.
            Kind::Map => Err(Error::Invalid),
            Kind::Struct => self.fields(|cursor, _, kind| cursor.skip_nested(kind, depth + 1)),
        }
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).ok_or(Error::Truncated)?;
        self.at += 1;
        Ok(*byte)
    }

    fn advance(&mut self, length: usize) -> Result<()> {
        if length > self.bytes.len() - self.at {
            return Err(Error::Truncated);
        }
        self.at += length;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Error::Invalid)
    }
}

/// Checks the structure of a footer: the declared lengths of lists and of the schema, and that the
/// nesting is shallow enough to decode recursively.
pub fn check_footer(bytes: &[u8]) -> Result<()> {
    let mut children = Vec::new();
    Cursor::new(bytes).fields(|cursor, number, kind| match (number, kind) {
        (2, Kind::List) => {
            let (kind, count) = cursor.list()?;
            for _ in 0..count {
                if kind != Kind::Struct {
                    return Err(Error::Invalid);
                }
                children.push(schema_children(cursor)?);
            }
            Ok(())
        }
        _ => cursor.skip(kind),
    })?;
    check_schema(&children)
}

/// The number of children of an element of the schema.
fn schema_children(cursor: &mut Cursor<'_>) -> Result<usize> {
    let mut children = 0;
    cursor.fields(|cursor, number, kind| match (number, kind) {
        (5, Kind::Integer) => {
            children = cursor.count()?;
            Ok(())
        }
        _ => cursor.skip(kind),
    })?;
    Ok(children)
}

/// Checks that the elements are in pre-order: each comes before its children.
fn check_schema(children: &[usize]) -> Result<()> {
    // For each open group, from the root on: the number of children still to come.
    let mut open: Vec<usize> = Vec::new();
    for (place, &count) in children.iter().enumerate() {
        if place > 0 {
            match open.last_mut() {
                Some(left) => *left -= 1,
                None => return Err(Error::Invalid),
            }
        }
        if count > children.len() {
            return Err(Error::Invalid);
        }
        open.push(count);
        if open.len() > DEPTH_MAX {
            return Err(Error::Invalid);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    if children.is_empty() || !open.is_empty() {
        return Err(Error::Invalid);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn schemas_with_deep_nesting_or_missing_elements_are_invalid() {
        assert_eq!(check_schema(&[2, 0, 1, 0]), Ok(()));
        assert_eq!(check_schema(&[2, 0]), Err(Error::Invalid));
        assert_eq!(check_schema(&[0, 0]), Err(Error::Invalid));
        assert_eq!(check_schema(&[usize::MAX, 0]), Err(Error::Invalid));
        assert_eq!(check_schema(&[]), Err(Error::Invalid));
        let mut deep = vec![1; 100_000];
        deep.push(0);
        assert_eq!(check_schema(&deep), Err(Error::Invalid));
    }

    #[test]
    fn lists_with_too_many_declared_elements_are_invalid() {
        // Field 4 is declared as a list of 2^32 structs.
        let huge = [0x49, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x10, 0];
        assert_eq!(check_footer(&huge), Err(Error::Invalid));
        let short = [0x49, 0x5c, 0];
        assert_eq!(check_footer(&short), Err(Error::Truncated));
        let deep = [0x1c].repeat(100_000);
        assert_eq!(check_footer(&deep), Err(Error::Invalid));
    }

    proptest! {
        #[test]
        fn check_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = check_footer(&bytes);
        }
    }
}
