//! Parses the forms of browsers, `application/x-www-form-urlencoded`.

use lazurite_protocol::response::error::{Failure, Result};
use percent_encoding::percent_decode_str;

/// Maximum number of fields: an entity has three for each of its 252 properties.
const FIELDS_MAX: usize = 2000;

/// The names and values of a form, in order.
#[derive(Debug, Clone, Default)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Parses a form. Bytes that are not UTF-8 become replacement characters; browsers send none.
    /// Errors: `400` for more than [`FIELDS_MAX`] fields.
    pub fn parse(bytes: &[u8]) -> Result<Form> {
        if bytes.iter().filter(|&&byte| byte == b'&').count() >= FIELDS_MAX {
            let message = format!("A form may have {FIELDS_MAX} fields.");
            return Err(Failure::invalid_input(message));
        }
        let text = String::from_utf8_lossy(bytes);
        let decode = |text: &str| {
            let blanks = text.replace('+', " ");
            percent_decode_str(&blanks).decode_utf8_lossy().into_owned()
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Ok(Form(pairs.collect()))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a field; empty if absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// The value of a field. Error: it is absent or empty.
    pub fn required(&self, name: &str) -> Result<&str> {
        self.get(name)
            .filter(|text| !text.is_empty())
            .ok_or_else(|| {
                Failure::new(400, "MissingField", format!("'{name}' is empty.")).with("Field", name)
            })
    }

    /// The whole number in a field; `None` if empty or absent. Error: it is malformed.
    pub fn number(&self, name: &str) -> Result<Option<i64>> {
        match self.text(name).trim() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                let message = format!("'{text}' is not a whole number.");
                Failure::invalid_input(message).with("Field", name)
            }),
        }
    }

    /// The pairs of a field that has one on each line, as `name: value`. Error: a line is not one.
    pub fn pairs(&self, field: &str) -> Result<Vec<(String, String)>> {
        let lines = self.text(field).lines();
        let lines = lines.filter(|line| !line.trim().is_empty());
        let pair = |line: &str| {
            let (name, value) = line.split_once(':').ok_or_else(|| {
                let line = &line[..line.floor_char_boundary(100)];
                let message = format!("The line '{line}' is not 'name: value'.");
                Failure::invalid_input(message).with("Field", field)
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        lines.map(pair).collect()
    }

    /// A form with these names and values.
    pub fn of(fields: &[(&str, &str)]) -> Form {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Form(fields.iter().map(owned).collect())
    }

    /// Names and values, in order.
    pub fn fields(&self) -> &[(String, String)] {
        &self.0
    }

    /// The values of all fields with this name, in order.
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
        let form = Form::parse(b"a=1+2&b=%C3%A9%26&a=x&empty=&n=-7").unwrap();
        assert_eq!(form.text("a"), "1 2");
        assert_eq!(form.text("b"), "é&");
        assert_eq!(form.all("a").collect::<Vec<_>>(), ["1 2", "x"]);
        assert_eq!(form.number("n").unwrap(), Some(-7));
        assert_eq!(form.number("empty").unwrap(), None);
        assert!(form.required("empty").is_err() && form.number("b").is_err());
    }

    #[test]
    fn a_line_of_pairs_is_a_name_and_a_value() {
        let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let form = Form::parse(b"m=camera: X100%0D%0A%0D%0A at : 10:30 %0A&bad=camera").unwrap();
        let read = form.pairs("m").unwrap();
        assert_eq!(read, [owned("camera", "X100"), owned("at", "10:30")]);
        assert!(form.pairs("bad").is_err() && form.pairs("none").unwrap().is_empty());
    }

    #[test]
    fn a_form_of_too_many_fields_is_refused_before_it_takes_memory() {
        assert!(Form::parse("a&".repeat(FIELDS_MAX - 1).as_bytes()).is_ok());
        assert_eq!(
            Form::parse("a&".repeat(FIELDS_MAX).as_bytes())
                .unwrap_err()
                .status,
            400
        );
    }
}
