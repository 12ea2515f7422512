//! Formats of requests and responses: OData metadata levels, content types, `Prefer`.

use axum::body::Body;
use axum::http::Response;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use lazurite_protocol::odata::Level;
use lazurite_protocol::request::context::{Context, read};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{empty, put_value};
use std::borrow::Cow;

/// The OData level. `$format` overrides `Accept`. Source: Payload format for Table operations.
pub fn level(context: &Context) -> Result<Level> {
    let format = context.query.get("$format");
    let Some(format) = format.filter(|format| !format.is_empty()) else {
        return level_of(&context.headers.get_hashed(&ACCEPT).map_or("".into(), read));
    };
    check_format(&format)?;
    level_of(&format)
}

/// Refuses a `$format` that OData does not have: the response would be in another format. `Accept`
/// is only a preference, and may name unknown formats.
fn check_format(format: &str) -> Result<()> {
    let lower = format.to_ascii_lowercase();
    let (kind, parameters) = lower.split_once(';').unwrap_or((&lower, ""));
    let is_known = ["json", "atom", "verbosejson", "application/json"].contains(&kind.trim())
        || kind.trim().starts_with("application/atom");
    let level = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        (name.trim() == "odata").then_some(value.trim())
    });
    let levels = ["nometadata", "minimalmetadata", "fullmetadata", "verbose"];
    if is_known && level.is_none_or(|level| levels.contains(&level)) {
        return Ok(());
    }
    Err(Failure::parameter("$format", format, "It is no format."))
}

pub fn level_of(accept: &str) -> Result<Level> {
    // Fast path for the text that the official clients send.
    match accept.strip_prefix("application/json;odata=") {
        Some("nometadata") => return Ok(Level::None),
        Some("minimalmetadata") => return Ok(Level::Minimal),
        Some("fullmetadata") => return Ok(Level::Full),
        _ => {}
    }
    let is_plain = |byte: u8| !byte.is_ascii_uppercase() && byte.is_ascii_graphic();
    let accept: Cow<str> = if accept.bytes().all(is_plain) {
        accept.into()
    } else {
        let lower = accept.to_ascii_lowercase();
        lower.split_whitespace().collect()
    };
    if accept.contains("odata=verbose") || accept == "verbosejson" {
        Err(unsupported_format())
    } else if accept.contains("odata=nometadata") {
        Ok(Level::None)
    } else if accept.contains("odata=fullmetadata") {
        Ok(Level::Full)
    } else if accept.contains("json") || accept.contains("*/*") || !accept.contains("atom") {
        Ok(Level::Minimal)
    } else {
        Err(unsupported_format())
    }
}

pub fn check_content_type(context: &Context, batch: bool) -> Result<()> {
    let content_type = context.headers.get_hashed(&CONTENT_TYPE);
    // Fast path for the text that the official clients send.
    if content_type.is_none_or(|value| value == "application/json") {
        return Ok(());
    }
    let content_type = content_type.map_or("".into(), read).to_ascii_lowercase();
    if content_type.contains("atom") {
        return Err(unsupported_format());
    }
    if !batch && content_type.starts_with("multipart/") {
        return Err(Failure::new(
            415,
            "MediaTypeNotSupported",
            "None of the provided media types are supported.",
        ));
    }
    Ok(())
}

pub fn unsupported_format() -> Failure {
    Failure::new(
        415,
        "AtomFormatNotSupported",
        "Atom format is not supported.",
    )
}

/// A response with an OData document.
pub fn json(status: u16, level: Level, body: String) -> Response<Body> {
    let mut response = empty(status);
    *response.body_mut() = Body::from(body);
    put_value(&mut response, CONTENT_TYPE, content_type(level));
    uncached(response)
}

fn content_type(level: Level) -> HeaderValue {
    match level {
        Level::None => const { HeaderValue::from_static(content_type_text(Level::None)) },
        Level::Minimal => const { HeaderValue::from_static(content_type_text(Level::Minimal)) },
        Level::Full => const { HeaderValue::from_static(content_type_text(Level::Full)) },
    }
}

pub const fn content_type_text(level: Level) -> &'static str {
    match level {
        Level::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
        Level::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
        Level::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
    }
}

/// Adds headers against caching and sniffing, which all responses about tables have.
pub fn uncached(mut response: Response<Body>) -> Response<Body> {
    let no_sniff = const { HeaderValue::from_static("nosniff") };
    let no_cache = const { HeaderValue::from_static("no-cache") };
    put_value(&mut response, X_CONTENT_TYPE_OPTIONS, no_sniff);
    put_value(&mut response, CACHE_CONTROL, no_cache);
    response
}

/// The preferred response to an insert, if the request has a preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    Content,
    NoContent,
}

impl Prefer {
    /// Source: Setting the Prefer header to manage response echo on insert operations.
    pub fn parse(header: Option<&str>) -> Option<Prefer> {
        let header = header?.trim();
        let mut known = [Prefer::Content, Prefer::NoContent].into_iter();
        known.find(|prefer| prefer.text().eq_ignore_ascii_case(header))
    }

    pub fn text(self) -> &'static str {
        match self {
            Prefer::Content => "return-content",
            Prefer::NoContent => "return-no-content",
        }
    }
}
