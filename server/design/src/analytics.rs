//! Reads lines of Storage Analytics logs, version 1.0 or 2.0, as recorded requests. The fields of
//! version 2.0 begin with those of 1.0. Source: Storage Analytics log format.

use crate::rewrite::unquoted;
use lazurite_advisor::Recorded;
use lazurite_table::DateTime;
use percent_encoding::percent_decode_str;
use std::time::SystemTime;

/// The request of a line; `None` if it is not a request to a table, or if the line is malformed.
/// Inserts and transactions have no keys in these logs.
pub fn recorded_from_log(line: &str) -> Option<Recorded> {
    let fields = fields(line);
    let field = |number: usize| fields.get(number - 1).map(String::as_str);
    if !matches!(field(1)?, "1.0" | "2.0") || field(11)? != "table" {
        return None;
    }
    let started = DateTime::parse(field(2)?).ok()?.to_system_time();
    let started = started.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let (path, query) = field(12)?.split_once('?').unwrap_or((field(12)?, ""));
    let resource = path.rsplit('/').next()?;
    let resource = percent_decode_str(resource).decode_utf8().ok()?;
    let (table, keys) = resource.split_once('(').unwrap_or((&resource, ""));
    let parameter = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(known, _)| {
            percent_decode_str(known)
                .decode_utf8()
                .is_ok_and(|known| known == name)
        });
        let value = values.next()?.1.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8().ok()?;
        Some(value.into_owned())
    };
    let key = |name: &str| unquoted(keys.split_once(&format!("{name}='"))?.1);
    let partition_key = key("PartitionKey");
    Some(Recorded {
        at_ms: started.as_millis() as u64,
        account: field(10)?.to_owned(),
        table: table.to_owned(),
        operation: field(3)?.to_owned(),
        status: field(5)?.parse().ok()?,
        row_keys: key("RowKey").into_iter().collect(),
        partition_key,
        filter: parameter("$filter"),
        top: parameter("$top").and_then(|top| top.parse().ok()),
        is_continuation: parameter("NextPartitionKey").is_some(),
        request_bytes: field(19)?.parse().unwrap_or_default(),
        ..Recorded::default()
    })
}

/// The fields of a line. Those in quotes are HTML-encoded.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in line.trim_end().chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    let decoded = |field: String| {
        let text = field.replace("&quot;", "\"").replace("&#39;", "'");
        let text = text.replace("&lt;", "<").replace("&gt;", ">");
        text.replace("&amp;", "&")
    };
    fields.into_iter().map(decoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(operation: &str, url: &str) -> String {
        format!(
            "1.0;2026-11-29T22:59:23.1967767Z;{operation};Success;200;5;4;authenticated;acct;acct;table;\"{url}\";\"/acct/Orders\";id;0;1.2.3.4:5;2019-02-02;300;77;200;400;0;;;;;;;;\"x\""
        )
    }

    #[test]
    fn requests_are_read_from_logs() {
        let url = "https://acct.table.core.windows.net/Orders(PartitionKey='O''Neil%20%26%20Co',RowKey='r;1')";
        let read = recorded_from_log(&line("QueryEntity", url)).unwrap();
        assert_eq!(read.partition_key.as_deref(), Some("O'Neil & Co"));
        assert_eq!(
            (read.row_keys, read.at_ms),
            (vec!["r;1".to_owned()], 1_795_993_163_196)
        );
        let url = "https://acct.table.core.windows.net/Orders()?%24filter=A%20eq%20%27b%27&amp;$top=5&amp;sig=XXXXX";
        let read = recorded_from_log(&line("QueryEntities", url)).unwrap();
        assert_eq!(
            (read.filter.as_deref(), read.top),
            (Some("A eq 'b'"), Some(5))
        );
        assert_eq!(
            (read.table.as_str(), &read.partition_key),
            ("Orders", &None)
        );
        let second = line("QueryEntities", url).replacen("1.0", "2.0", 1);
        assert_eq!(recorded_from_log(&second), Some(read));
        let other = line("GetBlob", "https://a/b").replace(";table;", ";blob;");
        assert_eq!(recorded_from_log(&other), None);
        assert_eq!(recorded_from_log("1.0;x"), None);
    }
}
