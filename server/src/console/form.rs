//! Forms as browsers send them, `application/x-www-form-urlencoded`.

use crate::response::error::{Failure, Result};
use percent_encoding::percent_decode_str;

/// Names and values in the order of the form.
#[derive(Debug, Clone, Default)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Bytes that are not UTF-8 become replacement characters: browsers send none.
    pub fn parse(bytes: &[u8]) -> Form {
        let text = String::from_utf8_lossy(bytes);
        let decode = |text: &str| {
            let blanks = text.replace('+', " ");
            percent_decode_str(&blanks).decode_utf8_lossy().into_owned()
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Form(pairs.collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A field; empty if it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A field that must be there and not be empty.
    pub fn required(&self, name: &str) -> Result<&str> {
        self.get(name)
            .filter(|text| !text.is_empty())
            .ok_or_else(|| {
                Failure::new(
                    400,
                    "MissingField",
                    format!("The form has no value for '{name}'."),
                )
            })
    }

    /// A field with a whole number; `None` if it is empty or absent.
    pub fn number(&self, name: &str) -> Result<Option<i64>> {
        match self.text(name).trim() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Failure::new(
                    400,
                    "InvalidInput",
                    format!("'{text}' is not a whole number ({name})."),
                )
            }),
        }
    }

    /// All values of fields of this name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_as_browsers_write_them() {
        let form = Form::parse(b"a=1+2&b=%C3%A9%26&a=x&empty=&n=-7");
        assert_eq!(form.text("a"), "1 2");
        assert_eq!(form.text("b"), "é&");
        assert_eq!(form.all("a").collect::<Vec<_>>(), ["1 2", "x"]);
        assert_eq!(form.number("n").unwrap(), Some(-7));
        assert_eq!(form.number("empty").unwrap(), None);
        assert!(form.required("empty").is_err() && form.number("b").is_err());
    }
}
