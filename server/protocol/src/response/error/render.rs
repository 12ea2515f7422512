//! Failures as responses: XML for Blob and Queue, JSON for Data Lake Storage; OData JSON for Table, or
//! XML for operations that are not OData.

use crate::date;
use crate::response::error::{Failure, WRONG_SERVICE};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Response, StatusCode};
use std::time::SystemTime;

/// The format of an error body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFormat {
    /// The format of Blob and Queue.
    Xml,
    /// The format of Data Lake Storage.
    DataLake,
    /// The format of Table for operations that are not OData, such as ACLs and service properties.
    TableXml,
    /// The format of Table for everything else; the text is the metadata level of the content type.
    TableJson(&'static str),
}

/// The response of a failure. If `bodiless`, or for 304, the body is empty, and only a header has
/// the code.
pub fn render(
    failure: Failure,
    error_format: ErrorFormat,
    request_id: &str,
    now: SystemTime,
    bodiless: bool,
) -> Response<Body> {
    let bodiless = bodiless || failure.status == StatusCode::NOT_MODIFIED;
    let (content_type, body) = match error_format {
        ErrorFormat::Xml => (
            "application/xml".to_owned(),
            xml_body(&failure, request_id, now),
        ),
        ErrorFormat::DataLake => (
            "application/json;charset=utf-8".to_owned(),
            data_lake_body(&failure, request_id, now),
        ),
        ErrorFormat::TableXml => (
            "application/xml".to_owned(),
            table_xml_body(&failure, request_id, now),
        ),
        ErrorFormat::TableJson(level) => (
            format!("application/json;odata={level};streaming=true;charset=utf-8"),
            table_json_body(&failure, request_id, now),
        ),
    };
    let mut response = Response::new(if bodiless {
        Body::empty()
    } else {
        Body::from(body)
    });
    *response.status_mut() = failure.status;
    let headers = response.headers_mut();
    if let ErrorFormat::TableXml | ErrorFormat::TableJson(_) = error_format {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    if let ErrorFormat::TableJson(_) = error_format {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    if !bodiless {
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::try_from(content_type).expect("media types are plain ASCII"),
        );
    }
    if let Ok(code) = HeaderValue::try_from(failure.code.as_ref()) {
        headers.insert("x-ms-error-code", code);
    }
    headers.extend(failure.into_content().headers);
    response
}

/// The message as the hosted service sends it, followed by request id and time.
pub fn full_message(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    format!(
        "{}\nRequestId:{request_id}\nTime:{}",
        failure.message,
        date::iso8601(now)
    )
}

fn xml_body(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    let mut body = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><Error>");
    element(&mut body, "Code", &failure.code);
    element(
        &mut body,
        "Message",
        &full_message(failure, request_id, now),
    );
    for (name, value) in &failure.details {
        element(&mut body, name, value);
    }
    body.push_str("</Error>");
    body
}

fn data_lake_body(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    let message = message_with_detail(failure, request_id, now);
    serde_json::json!({ "error": { "code": failure.code, "message": message } }).to_string()
}

fn table_xml_body(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    let mut body = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
         <m:error xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">",
    );
    element(&mut body, "m:code", &failure.code);
    body.push_str("<m:message xml:lang=\"en-US\">");
    crate::xml::escape_into(&mut body, &message_with_detail(failure, request_id, now));
    body.push_str("</m:message></m:error>");
    body
}

/// The JSON body of an OData error. A refused table batch sends it as its only part.
pub fn table_json_body(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    let message = message_with_detail(failure, request_id, now);
    serde_json::json!({
        "odata.error": { "code": failure.code, "message": { "lang": "en-US", "value": message } }
    })
    .to_string()
}

/// Appends the details to the message, since errors in JSON have no other place for them: sentences as
/// they are, the others in the form of the request id.
fn message_with_detail(failure: &Failure, request_id: &str, now: SystemTime) -> String {
    let mut message = full_message(failure, request_id, now);
    for (name, value) in &failure.details {
        message.push('\n');
        if ![
            "AuthenticationErrorDetail",
            "ExtendedErrorDetail",
            WRONG_SERVICE,
        ]
        .contains(name)
        {
            message.push_str(name);
            message.push(':');
        }
        message.push_str(value);
    }
    message
}

fn element(body: &mut String, name: &str, text: &str) {
    body.push('<');
    body.push_str(name);
    body.push('>');
    crate::xml::escape_into(body, text);
    body.push_str("</");
    body.push_str(name);
    body.push('>');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::text_of;

    const FORMATS: [ErrorFormat; 4] = [
        ErrorFormat::Xml,
        ErrorFormat::DataLake,
        ErrorFormat::TableXml,
        ErrorFormat::TableJson("minimalmetadata"),
    ];

    fn failure(status: u16) -> Failure {
        Failure::new(status, "Code<1>", "What & why.")
            .with("HeaderName", "x-ms-a")
            .with("ExtendedErrorDetail", "A sentence.")
            .with_header(
                axum::http::header::RETRY_AFTER,
                HeaderValue::from_static("1"),
            )
    }

    fn rendered(failure: Failure, format: ErrorFormat, bodiless: bool) -> (Response<()>, String) {
        let now = date::parse_iso8601("2024-03-01T12:34:56Z").unwrap();
        let (head, body) = render(failure, format, "id", now, bodiless).into_parts();
        (Response::from_parts(head, ()), text_of(body))
    }

    #[test]
    fn each_format_has_code_message_and_details() {
        let time = "2024-03-01T12:34:56.0000000Z";
        let message = format!("What & why.\nRequestId:id\nTime:{time}");
        let whole = format!("{message}\nHeaderName:x-ms-a\nA sentence.");
        let bodies = FORMATS.map(|format| rendered(failure(409), format, false).1);
        let [xml, data_lake, table_xml, table_json] = bodies;
        let escape = |text: &str| text.replace('&', "&amp;");
        assert_eq!(
            xml,
            format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>Code&lt;1&gt;</Code><Message>{}</Message>\
                 <HeaderName>x-ms-a</HeaderName><ExtendedErrorDetail>A sentence.</ExtendedErrorDetail></Error>",
                escape(&message)
            )
        );
        assert_eq!(
            table_xml,
            format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\
                 <m:code>Code&lt;1&gt;</m:code><m:message xml:lang=\"en-US\">{}</m:message></m:error>",
                escape(&whole)
            )
        );
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let error = &read(&data_lake)["error"];
        assert_eq!(
            (&error["code"], &error["message"]),
            (&"Code<1>".into(), &whole.clone().into())
        );
        let error = &read(&table_json)["odata.error"];
        assert_eq!(
            (&error["code"], &error["message"]["value"]),
            (&"Code<1>".into(), &whole.into())
        );
    }

    #[test]
    fn the_head_has_status_code_and_the_headers_of_the_format() {
        let cached = [None, None, Some("no-cache"), Some("no-cache")];
        let sniffed = [None, None, None, Some("nosniff")];
        let types = [
            "application/xml",
            "application/json;charset=utf-8",
            "application/xml",
            "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
        ];
        for (at, format) in FORMATS.into_iter().enumerate() {
            for (status, bodiless) in [(409, false), (409, true), (304, false)] {
                let (response, body) = rendered(failure(status), format, bodiless);
                let header = |name: &str| {
                    response
                        .headers()
                        .get(name)
                        .map(|value| value.to_str().unwrap())
                };
                let has_body = status != 304 && !bodiless;
                assert_eq!(response.status().as_u16(), status);
                assert_eq!(body.is_empty(), !has_body, "{format:?}");
                assert_eq!(header("content-type"), has_body.then_some(types[at]));
                assert_eq!(header("x-ms-error-code"), Some("Code<1>"));
                assert_eq!(header("retry-after"), Some("1"));
                assert_eq!(header("cache-control"), cached[at]);
                assert_eq!(header("x-content-type-options"), sniffed[at]);
            }
        }
    }
}
