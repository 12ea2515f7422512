//! Shows a request as a curl command, and as a call of a client library.

use crate::links::encode;
use crate::requests::body;
use crate::requests::calls::{CALLS, LANGUAGES, beginning};
use crate::requests::facts::resource;
use lazurite_protocol::request::context::Query;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::requests::Record;
use lazurite_services::table::address::Address;
use std::borrow::Cow;

/// Headers that curl adds itself.
const HEADERS_OF_CURL: [&str; 3] = ["content-length", "connection", "transfer-encoding"];

/// Characters that end a line in some languages and that JSON does not escape. Source: ECMA-334,
/// "Line terminators".
const LINE_ENDS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// Maximum length of a body in the command; a longer one is read from a file.
const BODY_BYTES_MAX: usize = 2 << 10;

/// The request as a curl command to `origin`, which must be this server. The request's own host
/// name does not count: a client chooses it, and no signature covers it.
pub fn curl(record: &Record, origin: &str) -> String {
    let method = record.method();
    let verb = match method.as_str() {
        // After `-X HEAD`, curl waits for a body.
        "HEAD" => "--head".to_owned(),
        method => format!("-X {}", quoted(method)),
    };
    // With `-g`, curl takes brackets and braces of the target literally; with `--path-as-is`, dots
    // too, which could otherwise lead to another resource, or to a page that changes the server.
    let url = quoted(&url_at(origin, &record.target()));
    let mut command = format!("curl -g --path-as-is -i {verb} {url}");
    let [request, _] = record.headers();
    let is_own = |name: &str, value: &str| {
        let is_host_of_url = name == "host" && origin.ends_with(&format!("://{value}"));
        is_host_of_url || HEADERS_OF_CURL.contains(&name)
    };
    for (name, value) in request.iter().filter(|(name, value)| !is_own(name, value)) {
        // The form of an empty header: after a colon alone, curl would send none.
        let header = match value.as_str() {
            "" => format!("{name};"),
            value => format!("{name}: {value}"),
        };
        push_header(&mut command, &header);
    }
    if record.has_body() && record.header("content-type").is_none() {
        // Otherwise curl names the type of a form.
        push_header(&mut command, "content-type:");
    }
    let body = body::whole_request_text(record, BODY_BYTES_MAX);
    match body.filter(|body| !body.is_empty()) {
        // Other options would read the file named after a leading `@`.
        Some(body) => command.push_str(&format!(" \\\n  --data-raw {}", quoted(&body))),
        None if record.has_body() => {
            command.push_str(" \\\n  --data-binary @body");
        }
        None if ["GET", "HEAD"].contains(&method.as_str()) => {}
        None => push_header(&mut command, "content-length: 0"),
    }
    command
}

fn push_header(command: &mut String, header: &str) {
    command.push_str(&format!(" \\\n  -H {}", quoted(header)));
}

/// The URL of a target at this server. A target that does not begin with a slash could otherwise
/// turn the host into a user or into part of a port.
fn url_at(origin: &str, target: &str) -> String {
    let slash = if target.starts_with('/') { "" } else { "/" };
    format!("{origin}{slash}{target}")
}

/// Quotes a text for a shell. Even a method may have backquotes and pipes.
fn quoted(text: &str) -> String {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric()) {
        return text.to_owned();
    }
    let is_control = |c: char| c.is_control() && !['\n', '\t'].contains(&c);
    if text.contains(is_control) {
        // A control character would not survive being copied to a terminal, or would act on it.
        // bash, ksh and zsh read escapes in this form of quotes.
        let escaped = text.chars().map(|c| match c {
            '\\' | '\'' => format!("\\{c}"),
            '\r' => "\\r".to_owned(),
            c if is_control(c) => octal(c),
            c => c.to_string(),
        });
        return format!("$'{}'", escaped.collect::<String>());
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn octal(c: char) -> String {
    let bytes = c.to_string().into_bytes();
    bytes.iter().map(|byte| format!("\\{byte:03o}")).collect()
}

/// The request as a call of each client library; empty for operations that are rarely called by
/// hand.
pub fn calls(record: &Record) -> Vec<(&'static str, String)> {
    let Some((_, calls)) = CALLS
        .iter()
        .find(|(operation, _)| *operation == record.operation)
    else {
        return Vec::new();
    };
    let arguments = arguments(record);
    let call = |(language, call): (&'static str, &&str)| {
        let mut text = beginning(record.service, language);
        text.push_str(&filled(call, language, &arguments));
        (language, text)
    };
    let calls = LANGUAGES.into_iter().zip(calls);
    calls
        .filter(|(_, call)| !call.is_empty())
        .map(call)
        .collect()
}

/// By language: the frame of a test with its imports, the call that succeeds, and the call that is
/// refused. A line `{i}`, `{b}` or `{c}` stands for the imports, the beginning and the call; `{n}`
/// is the name, `{u}` the name in lower case, `{s}` the status.
const TESTS: [(&str, &str, &str, &str); 6] = [
    (
        "Python",
        "import os\nimport pytest\nfrom azure.core.exceptions import HttpResponseError\n{i}\n\ndef test_{u}():\n    connection = os.environ[\"AZURE_STORAGE_CONNECTION_STRING\"]\n    {b}\n",
        "    {c}\n",
        "    with pytest.raises(HttpResponseError) as refused:\n        {c}\n    assert refused.value.status_code == {s}\n",
    ),
    (
        "JavaScript",
        "const assert = require(\"node:assert/strict\");\nconst { test } = require(\"node:test\");\nconst connection = process.env.AZURE_STORAGE_CONNECTION_STRING;\n{b}\n",
        "\ntest(\"{n}\", async () => {\n  {c}\n});\n",
        "\ntest(\"{n}\", async () => {\n  const call = async () => {\n    {c}\n  };\n  await assert.rejects(call, { statusCode: {s} });\n});\n",
    ),
    (
        ".NET",
        "{i}\nusing Azure;\nusing Xunit;\n\npublic class {n}Test\n{\n    [Fact]\n    public async Task IsAnswered()\n    {\n        var connection = Environment.GetEnvironmentVariable(\"AZURE_STORAGE_CONNECTION_STRING\");\n        {b}\n",
        "        {c}\n    }\n}\n",
        "        var refused = await Assert.ThrowsAsync<RequestFailedException>(async () =>\n        {\n            {c}\n        });\n        Assert.Equal({s}, refused.Status);\n    }\n}\n",
    ),
    (
        "Java",
        "{i}\nimport com.azure.core.exception.HttpResponseException;\nimport org.junit.jupiter.api.Test;\nimport static org.junit.jupiter.api.Assertions.*;\n\nclass {n}Test {\n    @Test\n    void isAnswered() {\n        var connection = System.getenv(\"AZURE_STORAGE_CONNECTION_STRING\");\n        {b}\n",
        "        {c}\n    }\n}\n",
        "        var refused = assertThrows(HttpResponseException.class, () -> {\n            {c}\n        });\n        assertEquals({s}, refused.getResponse().getStatusCode());\n    }\n}\n",
    ),
    (
        "Go",
        "package main\n\nimport \"context\"\nimport \"errors\"\nimport \"os\"\nimport \"testing\"\nimport \"github.com/Azure/azure-sdk-for-go/sdk/azcore\"\n{i}\n\nfunc statusOf(err error) int {\n\tvar refused *azcore.ResponseError\n\tif errors.As(err, &refused) {\n\t\treturn refused.StatusCode\n\t}\n\treturn 0\n}\n\nfunc Test{n}(t *testing.T) {\n\tctx := context.Background()\n\tconnection := os.Getenv(\"AZURE_STORAGE_CONNECTION_STRING\")\n\t{b}\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n",
        "\t{c}\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n",
        "\t{c}\n\tif statusOf(err) != {s} {\n\t\tt.Fatal(err)\n\t}\n}\n",
    ),
    (
        "Rust",
        "{i}\n\n#[tokio::test]\nasync fn {u}() -> Result<(), Box<dyn std::error::Error>> {\n    let url = std::env::var(\"AZURE_STORAGE_SERVICE_URL\")?;\n    {b}\n",
        "    {c}\n    Ok(())\n}\n",
        "    let call = async {\n        {c}\n        Ok::<(), azure_core::Error>(())\n    };\n    let refused = call.await.unwrap_err();\n    assert_eq!(refused.http_status().map(u16::from), Some({s}));\n    Ok(())\n}\n",
    ),
];

/// A test that expects the recorded response; `None` for languages without a template.
pub fn test(record: &Record, language: &str, code: &str) -> Option<String> {
    let (_, frame, served, refused) = TESTS.iter().find(|(known, ..)| *known == language)?;
    let steps = if record.is_error() { refused } else { served };
    let beginning = beginning(record.service, language);
    let call = code.strip_prefix(&*beginning)?;
    let call = if language == "Go" {
        without_results(call)
    } else {
        call.to_owned()
    };
    let is_import = |line: &&str| {
        ["import ", "using ", "from ", "use "]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let lines = beginning.lines().filter(|line| !line.is_empty());
    let (imports, setup): (Vec<&str>, Vec<&str>) = lines.partition(is_import);
    let name = format!("{}{}", record.operation, record.status);
    let mut test = String::new();
    for line in format!("{frame}{steps}").lines() {
        let indentation = &line[..line.len() - line.trim_start().len()];
        let lines = match line.trim_start() {
            "{i}" => imports.clone(),
            "{b}" => setup.clone(),
            "{c}" => call.lines().collect(),
            _ => {
                let status = record.status.to_string();
                let words = line.replace("{n}", &name).replace("{u}", &snake(&name));
                test.push_str(&(words.replace("{s}", &status) + "\n"));
                continue;
            }
        };
        for line in lines {
            test.push_str(&format!("{indentation}{line}\n"));
        }
    }
    Some(test)
}

/// A call in Go without variables for its results: Go refuses unused variables. Loops over pages
/// end at the first error.
fn without_results(call: &str) -> String {
    let page = "\tpage, err := pager.NextPage(ctx)";
    let next = "\tif _, err = pager.NextPage(ctx); err != nil {\n\t\tbreak\n\t}";
    let line = |line: &str| match line.split_once(", err := ") {
        _ if line == page => next.to_owned(),
        Some((result, call)) if result.chars().all(char::is_alphanumeric) => {
            format!("_, err = {call}")
        }
        _ => line.to_owned(),
    };
    call.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A name in snake case, such as `get_blob_404`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut before = '_';
    for letter in name.chars() {
        let begins = letter.is_uppercase() || letter.is_ascii_digit() && !before.is_ascii_digit();
        if begins && before != '_' {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
        before = if begins && letter.is_uppercase() {
            '_'
        } else {
            letter
        };
    }
    snake
}

/// The texts that replace the marks in a call.
fn arguments(record: &Record) -> Vec<(&'static str, String)> {
    let path = resource(record);
    let [first, second, third] = if record.service == ServiceKind::Table {
        let address = Address::parse(&encode(&path));
        let (table, keys) = address.map(Address::names).unwrap_or_default();
        [table, keys.partition_key, keys.row_key]
    } else {
        let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
        [first.to_owned(), rest.to_owned(), String::new()]
    };
    let target = record.target();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let parameter = |name: &str| {
        let query = Query::parse(query).ok();
        query.and_then(|query| query.get(name)).unwrap_or_default()
    };
    let (filter, prefix) = (parameter("$filter"), parameter("prefix"));
    vec![
        ("{0}", first),
        ("{1}", second),
        ("{2}", third),
        ("{f}", filter),
        ("{p}", prefix),
    ]
}

/// A string literal. All the languages except Rust accept the escapes of JSON.
fn literal(text: &str, language: &str) -> String {
    if language == "Rust" {
        return format!("{text:?}");
    }
    // JSON does not escape these. In C#, and in JavaScript before 2019, some of them end a line and
    // with it the literal.
    let escaped = |literal: String, mark: char| {
        let escape = format!("\\u{:04x}", u32::from(mark));
        literal.replace(mark, &escape)
    };
    let literal = serde_json::Value::from(text).to_string();
    LINE_ENDS.into_iter().fold(literal, escaped)
}

/// A call with its marks replaced by string literals.
fn filled(call: &str, language: &str, arguments: &[(&str, String)]) -> String {
    let mut text = String::new();
    let mut rest = call;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let argument = arguments.iter().find(|(mark, _)| rest.starts_with(mark));
        let (mark, value): (&str, Cow<'_, str>) = match argument {
            Some((mark, value)) => (mark, literal(value, language).into()),
            None => ("{", "{".into()),
        };
        text.push_str(&value);
        rest = &rest[mark.len()..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_in_a_header_does_not_end_the_word() {
        assert_eq!(quoted("GET"), "GET");
        assert_eq!(quoted("X|touch$IFS`x`|X"), "'X|touch$IFS`x`|X'");
        assert_eq!(quoted("a'; rm -rf /'"), "'a'\\''; rm -rf /'\\'''");
    }

    #[test]
    fn a_target_does_not_change_the_host() {
        let at = |target| url_at("http://127.0.0.1:1", target);
        assert_eq!(at("/a?b"), "http://127.0.0.1:1/a?b");
        assert_eq!(at("@evil.example/"), "http://127.0.0.1:1/@evil.example/");
        assert_eq!(at("0@evil.example/"), "http://127.0.0.1:1/0@evil.example/");
    }

    #[test]
    fn names_of_tests_are_words() {
        assert_eq!(snake("GetBlob404"), "get_blob_404");
        assert_eq!(snake("PutMessage201"), "put_message_201");
    }

    #[test]
    fn marks_become_texts_in_quotes_and_braces_stay() {
        let arguments = [("{0}", "a\"{1}".to_owned()), ("{1}", "b".to_owned())];
        assert_eq!(
            filled("f({0}, { x: {1} })", "Go", &arguments),
            "f(\"a\\\"{1}\", { x: \"b\" })"
        );
    }

    #[test]
    fn no_name_ends_a_line_of_code() {
        let name = "a\u{85}b\u{2028}c\u{2029}d\ne";
        for language in LANGUAGES {
            let literal = literal(name, language);
            let ends = |c: char| c == '\n' || c == '\r' || LINE_ENDS.contains(&c);
            assert!(!literal.contains(ends), "{language}: {literal}");
        }
        let expected = "\"a\\u0085b\\u2028c\\u2029d\\ne\"";
        assert_eq!(literal(name, ".NET"), expected);
        assert_eq!(
            literal(name, "Rust"),
            "\"a\\u{85}b\\u{2028}c\\u{2029}d\\ne\""
        );
    }

    #[test]
    fn a_test_in_go_has_no_variable_that_is_not_used() {
        for (operation, calls) in CALLS {
            let call = without_results(calls[4]);
            assert!(!call.contains("page, err"), "{operation}: {call}");
            assert!(!call.contains(", err :="), "{operation}: {call}");
            assert!(call.contains(", err = "), "{operation}: {call}");
        }
        let named = r#"_, err = client.DeleteContainer(ctx, "a, err := b", nil)"#;
        assert_eq!(without_results(named), named);
    }
}
