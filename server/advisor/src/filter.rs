//! The shape of a `$filter`, as far as advice depends on it. The filter is read word by word,
//! without a parser: advice on a malformed filter does not matter.

/// The comparisons of keys in a filter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) names_partition_key: bool,
    pub(crate) names_row_key: bool,
    pub(crate) has_or: bool,
    /// The value of the first `PartitionKey eq`, if there is no `or`.
    pub(crate) partition: Option<String>,
}

impl Shape {
    pub(crate) fn of(filter: &str) -> Shape {
        let mut shape = Shape::default();
        let mut words: Vec<Word> = Vec::new();
        let mut rest = filter;
        while let Some((word, after)) = next_word(rest) {
            match &word {
                Word::Name("PartitionKey") => shape.names_partition_key = true,
                Word::Name("RowKey") => shape.names_row_key = true,
                Word::Name("or") => shape.has_or = true,
                Word::Name(_) | Word::Text(_) => {}
            }
            words.push(word);
            rest = after;
        }
        let equals = words.windows(3).find_map(|three| match three {
            [
                Word::Name("PartitionKey"),
                Word::Name("eq"),
                Word::Text(text),
            ] => Some(text),
            _ => None,
        });
        if !shape.has_or {
            shape.partition = equals.map(|text| text.replace("''", "'"));
        }
        shape
    }

    /// Whether the filter has an `or` and names a key.
    pub(crate) fn has_or_on_keys(&self) -> bool {
        self.has_or && (self.names_partition_key || self.names_row_key)
    }
}

#[derive(Debug, PartialEq)]
enum Word<'a> {
    Name(&'a str),
    /// The text between two quotes; doubled quotes stay doubled.
    Text(&'a str),
}

/// The first word of `rest`, and the text after it.
fn next_word(rest: &str) -> Option<(Word<'_>, &str)> {
    let begins = |c: char| c == '\'' || c == '_' || c.is_alphanumeric();
    let rest = &rest[rest.find(begins)?..];
    if let Some(text) = rest.strip_prefix('\'') {
        let end = end_of_text(text);
        let after = text.get(end + 1..).unwrap_or_default();
        return Some((Word::Text(&text[..end]), after));
    }
    let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric());
    let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
    Some((Word::Name(name), after))
}

/// The index of the closing quote, the first that is not doubled; the length of the text if there
/// is none.
fn end_of_text(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\'', Some(b'\'')) => at += 2,
            (b'\'', _) => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_inside_literals_are_not_operators() {
        let shape = Shape::of("PartitionKey eq 'a or b' and Name eq 'RowKey'");
        assert_eq!(
            shape,
            Shape {
                names_partition_key: true,
                partition: Some("a or b".to_owned()),
                ..Shape::default()
            }
        );
        assert!(Shape::of("RowKey eq 'a' or RowKey eq 'b'").has_or_on_keys());
        assert!(!Shape::of("Age gt 5 or Age lt 2").has_or_on_keys());
    }

    #[test]
    fn quotes_are_doubled_and_unfinished_texts_end_with_the_filter() {
        let partition = |filter| Shape::of(filter).partition;
        assert_eq!(
            partition("PartitionKey eq 'O''Neil'").as_deref(),
            Some("O'Neil")
        );
        assert_eq!(partition("PartitionKey eq 'x"), Some("x".to_owned()));
        assert_eq!(partition("PartitionKey eq '"), Some(String::new()));
        assert_eq!(partition("PartitionKey eq 'é''"), Some("é'".to_owned()));
        assert_eq!(partition("PartitionKey eq 'a' or x"), None);
    }
}
