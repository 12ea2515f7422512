//! A message as a line of an export.

use crate::checks::check_names;
use crate::fields::text_field;
use lazurite_protocol::xml::{escape_into, is_xml_character};
use lazurite_queue::PutMessage;
use serde_json::{Map, Value};

const LINE_FIELDS: [&str; 4] = ["text", "ttlSeconds", "hiddenSeconds", "dequeueCount"];

/// The message that a line describes.
pub struct Line {
    text: String,
    ttl_seconds: Option<i64>,
    hidden_seconds: Option<i64>,
    pub dequeue_count: Option<u32>,
}

impl Line {
    pub fn parse(line: &str) -> Result<Line, String> {
        let fields: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        check_names(&fields, LINE_FIELDS.into_iter())?;
        let text = text_field(&fields, "text")?.ok_or("text: every message has one")?;
        let number = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{name}: {value} is no whole number")),
            },
        };
        let dequeue_count = number("dequeueCount")?.map(u32::try_from).transpose();
        Ok(Line {
            text: text.to_owned(),
            ttl_seconds: number("ttlSeconds")?,
            hidden_seconds: number("hiddenSeconds")?,
            dequeue_count: dequeue_count.map_err(|_| "dequeueCount: it is out of range")?,
        })
    }

    /// Refuses a message that the service would refuse.
    pub fn check(&self) -> Result<(), String> {
        let mut characters = self.text.chars();
        if let Some(character) = characters.find(|character| !is_xml_character(*character)) {
            return Err(format!(
                "text: XML, which holds messages, has no {character:?}"
            ));
        }
        lazurite_queue::check_message(&PutMessage {
            text: &self.text,
            ttl_seconds: self.ttl_seconds,
            visibility_seconds: self.hidden_seconds,
            dequeue_count: self.dequeue_count.unwrap_or(0),
        })
        .map_err(|error| match error {
            lazurite_queue::Error::InvalidQueryParameterValue { name, reason, .. } => {
                format!("{}: {}", field(name), reason.trim_end_matches('.'))
            }
            lazurite_queue::Error::OutOfRangeQueryParameterValue { name, .. } => {
                format!("{}: it is out of range", field(name))
            }
            lazurite_queue::Error::RequestBodyTooLarge { limit } => {
                format!("text: it has more than {limit} bytes")
            }
            error => error.to_string(),
        })
    }

    /// The query of the request that puts the message.
    pub fn query(&self) -> String {
        let parameters = [
            ("messagettl", self.ttl_seconds),
            ("visibilitytimeout", self.hidden_seconds),
        ];
        let parameters = parameters.into_iter();
        let parameters: Vec<_> = parameters
            .filter_map(|(name, value)| Some(format!("{name}={}", value?)))
            .collect();
        match parameters.as_slice() {
            [] => String::new(),
            parameters => format!("?{}", parameters.join("&")),
        }
    }

    /// The body of the request that puts the message.
    pub fn body(&self) -> String {
        let mut body = String::from("<QueueMessage><MessageText>");
        escape_into(&mut body, &self.text);
        body.push_str("</MessageText></QueueMessage>");
        body
    }
}

/// The field of a line for a query parameter.
fn field(parameter: &str) -> &'static str {
    if parameter == "messagettl" {
        "ttlSeconds"
    } else {
        "hiddenSeconds"
    }
}
