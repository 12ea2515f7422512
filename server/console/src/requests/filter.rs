//! The filter of a list of requests.

use crate::requests::facts::{client, partition, resource, version};
use crate::respond::Visit;
use lazurite_services::requests::Record;

/// The fields that a word of the filter can name: name, example, meaning.
pub const FIELDS: [(&str, &str, &str); 9] = [
    ("status", "status:404", "a status; status:4 is the class"),
    (
        "code",
        "code:BlobNotFound",
        "an error code, or a part of one",
    ),
    (
        "operation",
        "operation:GetBlob",
        "a REST operation, or a part of its name",
    ),
    ("method", "method:put", "an HTTP method"),
    (
        "client",
        "client:python",
        "the client library or its version",
    ),
    (
        "version",
        "version:2026",
        "the start of the API version, x-ms-version",
    ),
    ("in", "in:photos", "a container, queue or table"),
    (
        "partition",
        "partition:Sales",
        "the PartitionKey that a request names",
    ),
    (
        "slower",
        "slower:100",
        "requests that took this many milliseconds or more",
    ),
];

/// The filter of a list of requests.
pub struct Wanted {
    words: Vec<Word>,
    pub service: String,
    pub errors_only: bool,
}

/// A word, in lower case, that must or must not occur in the row; in one field of it, if the word
/// names one.
struct Word {
    is_excluded: bool,
    field: Option<&'static str>,
    text: String,
}

impl Word {
    fn of(word: &str) -> Word {
        let field = |name: &str| {
            let mut fields = FIELDS.iter().map(|(field, ..)| *field);
            fields.find(|field| *field == name)
        };
        let rest = word.strip_prefix('-').filter(|rest| !rest.is_empty());
        let (is_excluded, word) = rest.map_or((false, word), |rest| (true, rest));
        let named = word
            .split_once(':')
            .and_then(|(name, text)| Some((field(name)?, text)));
        let (field, text) = named.map_or((None, word), |(field, text)| (Some(field), text));
        Word {
            is_excluded,
            field,
            text: text.to_owned(),
        }
    }

    /// Whether the record fits the word. `row` is the record's row as text, in lower case.
    fn fits(&self, record: &Record, row: &str) -> bool {
        self.matches(record, row) != self.is_excluded
    }

    fn matches(&self, record: &Record, row: &str) -> bool {
        let text = self.text.as_str();
        let Some(field) = self.field else {
            return row.contains(text);
        };
        let code = || record.refusal.as_ref().map_or("", |why| &why.code);
        match field {
            // A prefix matches too: `4` stands for all of 400 to 499.
            "status" => record.status.to_string().starts_with(text),
            "operation" => record.operation.to_lowercase().contains(text),
            "code" => code().to_lowercase().contains(text),
            "client" => client(record).to_lowercase().contains(text),
            "method" => record.method().eq_ignore_ascii_case(text),
            "version" => version(record).starts_with(text),
            "partition" => partition(record).is_some_and(|key| key.to_lowercase().contains(text)),
            "slower" => text
                .parse()
                .is_ok_and(|limit: f64| record.took.as_secs_f64() * 1000.0 >= limit),
            // The name of a container, queue or table: the first segment below the account.
            _ => {
                let path = resource(record);
                let name = path.split(['/', '(']).next().unwrap_or_default();
                name.eq_ignore_ascii_case(text)
            }
        }
    }
}

impl Wanted {
    pub fn of(visit: &Visit) -> Wanted {
        let text = visit.parameter("filter").to_lowercase();
        Wanted {
            words: text.split_whitespace().map(Word::of).collect(),
            service: visit.parameter("service"),
            errors_only: visit.query.has("errors"),
        }
    }

    /// Whether the record passes the filter: every word must match.
    pub fn matches(&self, record: &Record) -> bool {
        if self.errors_only && !record.is_error()
            || !self.service.is_empty() && self.service != record.service.label()
        {
            return false;
        }
        if self.words.is_empty() {
            return true;
        }
        let code = record.refusal.as_ref().map_or("", |why| &why.code);
        let row = format!(
            "{} {} {} {} {code} {} {}",
            record.method(),
            record.target(),
            record.operation,
            record.status,
            client(record),
            record.request_id
        );
        let row = row.to_lowercase();
        self.words.iter().all(|word| word.fits(record, &row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_field_if_it_is_one() {
        let word = |text: &str| {
            let Word {
                field,
                text,
                is_excluded,
            } = Word::of(text);
            assert!(!is_excluded);
            (field, text)
        };
        let excluded = Word::of("-code:x");
        assert!(excluded.is_excluded && excluded.field == Some("code") && excluded.text == "x");
        assert!(!Word::of("-").is_excluded);
        assert_eq!(word("status:404"), (Some("status"), "404".to_owned()));
        assert_eq!(word("http://x"), (None, "http://x".to_owned()));
        assert_eq!(word("photos"), (None, "photos".to_owned()));
    }
}
