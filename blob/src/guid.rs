//! Guid: the id of a lease or a copy, in all its spellings.

use std::fmt;
use uuid::Uuid;

/// The id of a lease or a copy. Displayed in lower case with dashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guid(pub u128);

impl Guid {
    /// Parses a GUID in any of its common spellings: with or without dashes, in braces or
    /// parentheses. `None` for any other text.
    pub fn parse(text: &str) -> Option<Guid> {
        let text = text.trim();
        let bare = [('{', '}'), ('(', ')')]
            .into_iter()
            .find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
            .unwrap_or(text);
        // The crate also parses URNs, which the protocol does not have. Braces are removed above.
        let is_plain = matches!(
            bare.len(),
            uuid::fmt::Simple::LENGTH | uuid::fmt::Hyphenated::LENGTH
        );
        let uuid = is_plain.then(|| Uuid::try_parse(bare).ok())??;
        Some(Guid(uuid.as_u128()))
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_u128(self.0).hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_in_all_spellings_and_other_texts_are_refused() {
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
            "1f2e3d4c-00001-111-2222-0123456789ab",
            "1f2e3d4c-0000-1111-2222-0123456789aé",
            "{{1f2e3d4c00001111222201234567}}",
            &format!("{{{{{plain}}}}}"),
            &format!("urn:uuid:{text}"),
        ] {
            assert_eq!(Guid::parse(bad), None, "{bad}");
        }
    }
}
