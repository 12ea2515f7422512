//! Guid: the id of a lease or a copy, in all its spellings.

use std::fmt;

/// The id of a lease or a copy. Displayed in lower case with dashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guid(pub u128);

impl Guid {
    /// Reads a GUID in any of its common spellings: with or without dashes, in braces or parentheses. `None` if it is none.
    pub fn parse(text: &str) -> Option<Guid> {
        let text = text.trim();
        let bare = [('{', '}'), ('(', ')')]
            .into_iter()
            .find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
            .unwrap_or(text);
        let dashed = bare.len() == 36
            && bare
                .bytes()
                .enumerate()
                .all(|(i, b)| (b == b'-') == matches!(i, 8 | 13 | 18 | 23));
        let digits = if dashed {
            bare.replace('-', "")
        } else {
            bare.to_string()
        };
        let is_hex = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let value = is_hex.then(|| u128::from_str_radix(&digits, 16))?;
        value.ok().map(Guid)
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            (id >> 96) as u32,
            (id >> 80) as u16,
            (id >> 64) as u16,
            (id >> 48) as u16,
            id & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_all_spellings_and_nothing_else_is() {
        let text = "1f2e3d4c-0000-1111-2222-0123456789ab";
        let id = Guid::parse(text).unwrap();
        assert_eq!(id.to_string(), text);
        let plain = text.replace('-', "");
        let braced = format!("{{{}}}", text.to_uppercase());
        for spelling in [&plain, &braced, &format!("({text})")] {
            assert_eq!(Guid::parse(spelling), Some(id), "{spelling}");
        }
        for bad in [
            "",
            "x",
            &plain[1..],
            &format!("{plain}0"),
            "+f2e3d4c-0000-1111-2222-0123456789ab",
        ] {
            assert_eq!(Guid::parse(bad), None, "{bad}");
        }
    }
}
