//! Shared Key and Shared Key Lite: the strings that clients sign with an account key. Source:
//! Authorize with Shared Key, all sections.
//!
//! Client libraries build the string to sign in different ways: they differ in the order of
//! headers, in zero lengths and in plus signs, among others. Every form that a library is known to
//! sign is tried. Each form proves possession of the key.

use crate::auth::signature::{failed, verify as signature_is_good};
use crate::auth::signing_mistakes::client_signed;
use crate::request::context::{Context, Query, ServiceKind, decode, text_of};
use crate::response::error::{Failure, Result, common};
use axum::http::header::{HeaderName, HeaderValue};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum difference between a request's date and the server's clock, either way.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// Maximum number of bytes hashed to find the form that a client signed. Enough for all forms of a
/// usual request. Longer strings to sign get fewer tries, so that no unauthenticated request costs
/// much.
const HASHED_BYTES_MAX: usize = 256 * 1024;

/// A request whose `Authorization` header is verified.
#[derive(Debug)]
pub struct SignedRequest<'a> {
    pub context: &'a Context,
}

/// The longest first word of an `Authorization` header that a refusal repeats.
const SCHEME_BYTES_MAX: usize = 20;

/// The scheme of an `Authorization` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    SharedKey,
    SharedKeyLite,
}

/// One way to build a string to sign, in the parts on which client libraries disagree.
#[derive(Debug, Clone, Copy, Default)]
struct Form {
    language_before_encoding: bool,
    headers_by_byte: bool,
    plus_is_blank: bool,
    zero_length_written: bool,
    date_written: bool,
    one_value_per_name: bool,
    path: PathForm,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum PathForm {
    #[default]
    AsSent,
    /// `/account-secondary/…`, signed as `/account/…`.
    Primary,
    /// `'`, signed as `%27`.
    QuotesEncoded,
    /// `%27`, signed as `'`.
    QuotesDecoded,
    /// The whole path, percent-decoded.
    Decoded,
    /// Backslashes, signed as slashes. The service reads them as slashes.
    Slashes,
}

/// Checks an `Authorization` header that is not Bearer: form, account, date, signature.
pub fn verify(request: &SignedRequest<'_>, authorization: &str, keys: &[Vec<u8>]) -> Result<()> {
    let (scheme, account, signature) = parse(authorization)?;
    let context = request.context;
    if account != context.account_of_client() {
        return Err(failed(format!(
            "The account in the Authorization header, '{account}', is not the account of the request, '{}'.",
            context.account_of_client()
        )));
    }
    check_date(context)?;
    // The form that most requests sign comes first. The others are only computed if it does not
    // match.
    let text = string_to_sign(context, scheme, Form::default());
    let is_good = |text: &str| signature_is_good(keys, text.as_bytes(), signature);
    if is_good(&text) {
        return Ok(());
    }
    let tries = 1.max(HASHED_BYTES_MAX / text.len().max(1));
    let other = |form| is_good(&string_to_sign(context, scheme, form));
    if forms(context).skip(1).take(tries).any(other) {
        return Ok(());
    }
    let query = match scheme {
        Scheme::SharedKey if context.service != ServiceKind::Table => {
            canonicalized_query(context, Form::default())
        }
        _ => String::new(),
    };
    let client_signed = client_signed(context, &text, &query, keys, signature);
    let refusal = failed(format!(
        "The MAC signature found in the HTTP request '{signature}' is not the same as any computed signature. Server used \
         following string to sign: '{text}'."
    ));
    // The advice does not ask for the client's string to sign: few clients log it.
    let advice = "The key is not one of the account, or the client signed another string. `lazurite doctor \"CONNECTION STRING\"` checks the key.";
    let mut refusal = refusal.with("ExtendedErrorDetail", advice);
    refusal.client_signed = client_signed;
    Err(refusal)
}

fn parse(authorization: &str) -> Result<(Scheme, &str, &str)> {
    let (scheme, credentials) = authorization.split_once(' ').unwrap_or((authorization, ""));
    let scheme = match scheme {
        "SharedKey" => Scheme::SharedKey,
        "SharedKeyLite" => Scheme::SharedKeyLite,
        _ => return Err(unknown_scheme(scheme, credentials)),
    };
    let Some((account, signature)) = credentials.split_once(':') else {
        return Err(malformed(format!(
            "The Authorization header has the scheme {scheme:?}. Expected after it is ACCOUNT:SIGNATURE."
        )));
    };
    let account = account.strip_suffix("-secondary").unwrap_or(account);
    Ok((scheme, account, signature))
}

/// The refusal of an `Authorization` header with an unknown scheme. Repeats the first word only if
/// it looks like a scheme: it may be a key or a token.
fn unknown_scheme(first_word: &str, credentials: &str) -> Failure {
    let is_scheme_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_scheme = first_word.len() <= SCHEME_BYTES_MAX && first_word.bytes().all(is_scheme_byte);
    let found = if is_scheme && !credentials.is_empty() {
        format!("has the scheme '{first_word}'")
    } else {
        "has no scheme".to_owned()
    };
    malformed(format!(
        "The Authorization header {found}. Expected is SharedKey ACCOUNT:SIGNATURE, SharedKeyLite ACCOUNT:SIGNATURE or Bearer TOKEN, \
         in this spelling; or no such header, and a SAS in the URL."
    ))
}

fn malformed(detail: String) -> Failure {
    common::INVALID_AUTHENTICATION_INFO.with("AuthenticationErrorDetail", detail)
}

fn check_date(context: &Context) -> Result<()> {
    let text = context
        .header("x-ms-date")
        .or_else(|| context.header("date"));
    let text =
        text.ok_or_else(|| failed("The request has neither an x-ms-date nor a Date header."))?;
    let date = crate::date::parse_http(&text).ok_or_else(|| {
        failed(format!(
            "The date of the request, '{text}', is not in the RFC 1123 format."
        ))
    })?;
    let skew = context
        .system_now
        .duration_since(date)
        .unwrap_or_else(|ahead| ahead.duration());
    match skew > CLOCK_SKEW_MAX {
        true if date < context.system_now => {
            Err(failed(format!("Request date header too old: '{text}'")))
        }
        true => Err(failed(format!(
            "Request date header too far in the future: '{text}'"
        ))),
        false => Ok(()),
    }
}

/// The forms that could apply to this request: the usual one first, the others by the number of
/// details in which they differ from it.
fn forms(context: &Context) -> impl Iterator<Item = Form> {
    let mut forms: Vec<Form> = path_forms(context)
        .into_iter()
        .map(|path| Form {
            path,
            ..Form::default()
        })
        .collect();
    if context.service != ServiceKind::Table {
        let sent = |name: &str| context.headers.contains_key(name);
        let query = &context.query;
        alternate(
            &mut forms,
            sent("content-language") || sent("content-encoding"),
            |form| {
                form.language_before_encoding = true;
            },
        );
        alternate(&mut forms, header_orders_differ(context), |form| {
            form.headers_by_byte = true
        });
        alternate(
            &mut forms,
            query.pairs().any(|(_, value)| value.contains('+')),
            |form| form.plus_is_blank = true,
        );
        let zero_length = context.header("content-length").as_deref() == Some("0");
        alternate(&mut forms, zero_length, |form| {
            form.zero_length_written = true
        });
        alternate(&mut forms, sent("x-ms-date") && sent("date"), |form| {
            form.date_written = true
        });
        alternate(&mut forms, values_repeat(query), |form| {
            form.one_value_per_name = true
        });
    }
    forms.sort_by_key(Form::differences);
    forms.into_iter()
}

impl Form {
    /// The number of parts in which this differs from the usual form.
    fn differences(&self) -> usize {
        let flags = [
            self.language_before_encoding,
            self.headers_by_byte,
            self.plus_is_blank,
            self.zero_length_written,
            self.date_written,
            self.one_value_per_name,
            self.path != PathForm::AsSent,
        ];
        flags.into_iter().filter(|&differs| differs).count()
    }
}

/// Adds a changed copy of each form, if `applies`: only then could `change` matter.
fn alternate(forms: &mut Vec<Form>, applies: bool, change: impl Fn(&mut Form)) {
    if applies {
        let mut variants = forms.clone();
        variants.iter_mut().for_each(change);
        forms.extend(variants);
    }
}

/// True if parameters are repeated, and every repetition has the same value. With different values,
/// a signature over one would not cover the other.
fn values_repeat(query: &Query) -> bool {
    let lower = |(name, value): (&str, &str)| (name.to_lowercase(), value.to_owned());
    let mut pairs: Vec<_> = query.pairs().map(lower).collect();
    pairs.sort_unstable();
    let mut same_names = pairs.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    let mut repeats = false;
    same_names.all(|pair| {
        repeats = true;
        pair[0].1 == pair[1].1
    }) && repeats
}

fn path_forms(context: &Context) -> Vec<PathForm> {
    let mut forms = vec![PathForm::AsSent];
    let all = [
        PathForm::Primary,
        PathForm::QuotesEncoded,
        PathForm::QuotesDecoded,
        PathForm::Decoded,
        PathForm::Slashes,
    ];
    forms.extend(
        all.into_iter()
            .filter(|&form| path(context, form) != context.raw_path),
    );
    forms
}

fn path(context: &Context, form: PathForm) -> Cow<'_, str> {
    let raw = &context.raw_path;
    match form {
        PathForm::AsSent => Cow::Borrowed(raw),
        PathForm::Primary if context.secondary => raw.replacen("-secondary", "", 1).into(),
        PathForm::Primary => Cow::Borrowed(raw),
        PathForm::QuotesEncoded => raw.replace('\'', "%27").into(),
        PathForm::QuotesDecoded => raw.replace("%27", "'").into(),
        PathForm::Decoded => decode(raw),
        PathForm::Slashes => raw
            .replace('\\', "/")
            .replace("%5C", "/")
            .replace("%5c", "/")
            .into(),
    }
}

fn string_to_sign(context: &Context, scheme: Scheme, form: Form) -> String {
    if context.service == ServiceKind::Table {
        return string_to_sign_for_tables(context, scheme, form);
    }
    let mut text = String::with_capacity(TEXT_BYTES_USUAL);
    // `x-ms-date`, if present, is signed among the `x-ms-` headers instead.
    let dated_there = context.headers.contains_key("x-ms-date") && !form.date_written;
    let zero_dropped = context.version.is_at_least("2015-02-21") != form.zero_length_written;
    let length = context.headers.get("content-length");
    text.push_str(context.method.as_str());
    for name in lines(scheme, form) {
        text.push('\n');
        let dropped = match *name {
            "date" => dated_there,
            "content-length" => zero_dropped && length.is_some_and(|length| length == "0"),
            _ => false,
        };
        if !dropped {
            push_values(&mut text, context.headers.get(name));
        }
    }
    text.push('\n');
    push_headers(&mut text, context, form.headers_by_byte);
    push_resource(&mut text, context, form);
    match scheme {
        Scheme::SharedKeyLite => push_comp(&mut text, context),
        Scheme::SharedKey => text.push_str(&canonicalized_query(context, form)),
    }
    text
}

fn string_to_sign_for_tables(context: &Context, scheme: Scheme, form: Form) -> String {
    let mut text = String::with_capacity(TEXT_BYTES_USUAL);
    if scheme == Scheme::SharedKey {
        text.push_str(context.method.as_str());
        for name in ["content-md5", "content-type"] {
            text.push('\n');
            push_values(&mut text, context.headers.get(name));
        }
        text.push('\n');
    }
    let date = context.headers.get("x-ms-date");
    let date = date.filter(|date| !date.is_empty());
    push_values(&mut text, date.or_else(|| context.headers.get("date")));
    text.push('\n');
    push_resource(&mut text, context, form);
    push_comp(&mut text, context);
    text
}

/// Initial capacity of a string to sign.
const TEXT_BYTES_USUAL: usize = 512;

/// The headers with a line of their own in the string to sign of Shared Key, in its order.
/// Source: Authorize with Shared Key, "Constructing the signature string".
pub const LINES: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// The headers with a line of their own, in the order of the scheme and the form.
fn lines(scheme: Scheme, form: Form) -> &'static [&'static str] {
    const LANGUAGE_FIRST: [&str; 11] = {
        let mut lines = LINES;
        (lines[0], lines[1]) = (LINES[1], LINES[0]);
        lines
    };
    match scheme {
        Scheme::SharedKeyLite => &["content-md5", "content-type", "date"],
        Scheme::SharedKey if form.language_before_encoding => &LANGUAGE_FIRST,
        Scheme::SharedKey => &LINES,
    }
}

/// Appends header values as they are signed: trimmed, and joined by commas.
fn push_values<'a>(text: &mut String, values: impl IntoIterator<Item = &'a HeaderValue>) {
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        match value.to_str() {
            Ok(plain) => text.push_str(plain.trim()),
            Err(_) => text.push_str(&text_of(value)),
        }
    }
}

fn push_resource(text: &mut String, context: &Context, form: Form) {
    let path = path(context, form.path);
    text.push('/');
    text.push_str(&context.account_of_client());
    text.push_str(if path.is_empty() { "/" } else { &path });
}

fn push_comp(text: &mut String, context: &Context) {
    if let Some(comp) = context.query.get_literal("comp") {
        text.push_str("?comp=");
        text.push_str(&comp);
    }
}

fn canonicalized_query(context: &Context, form: Form) -> String {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, raw) in context.query.pairs() {
        let value = if form.plus_is_blank {
            decode(&raw.replace('+', " ")).into_owned()
        } else {
            decode(raw).into_owned()
        };
        values.entry(name.to_lowercase()).or_default().push(value);
    }
    let mut text = String::new();
    for (name, mut values) in values {
        if form.one_value_per_name {
            values.drain(..values.len() - 1);
        }
        values.sort();
        text.push_str(&format!("\n{name}:{}", values.join(",")));
    }
    text
}

/// The names of the `x-ms-` headers that are signed, in no particular order.
fn ms_headers(context: &Context) -> Vec<&HeaderName> {
    let empty_ones_signed = context.version.is_at_least("2016-05-31");
    let is_empty = |name: &HeaderName| {
        let mut values = context.headers.get_all(name).iter();
        let first = values.next().is_none_or(|value| text_of(value).is_empty());
        first && values.next().is_none()
    };
    context
        .headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-ms-"))
        .filter(|name| empty_ones_signed || !is_empty(name))
        .collect()
}

fn push_headers(text: &mut String, context: &Context, by_byte: bool) {
    let mut names = ms_headers(context);
    if by_byte {
        names.sort_unstable_by_key(|name| name.as_str())
    } else {
        names.sort_unstable_by(|a, b| culture_order(a.as_str(), b.as_str()))
    }
    for name in names {
        text.push_str(name.as_str());
        text.push(':');
        push_values(text, context.headers.get_all(name));
        text.push('\n');
    }
}

fn header_orders_differ(context: &Context) -> bool {
    let mut names = ms_headers(context);
    names.sort_unstable_by_key(|name| name.as_str());
    !names.is_sorted_by(|a, b| culture_order(a.as_str(), b.as_str()) != Ordering::Greater)
}

/// The order in which the service compares header names: hyphens and apostrophes count only between
/// names that are otherwise equal.
fn culture_order(a: &str, b: &str) -> Ordering {
    fn ranked(name: &str) -> impl Iterator<Item = u8> {
        name.bytes()
            .filter(|byte| !is_ignored(*byte))
            .map(|byte| RANKS[usize::from(byte)])
    }
    ranked(a).cmp(ranked(b)).then_with(|| {
        let differing = a.bytes().zip(b.bytes()).find(|(left, right)| left != right);
        match differing {
            Some((left, _)) if is_ignored(left) => Ordering::Greater,
            Some(_) => Ordering::Less,
            None => a.len().cmp(&b.len()),
        }
    })
}

fn is_ignored(byte: u8) -> bool {
    byte == b'-' || byte == b'\''
}

/// The rank of each byte in the order of header names. Bytes that are not in `ORDER` rank last.
const RANKS: [u8; 256] = {
    const ORDER: &[u8] = b"!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";
    let mut ranks = [ORDER.len() as u8; 256];
    let mut at = 0;
    while at < ORDER.len() {
        ranks[ORDER[at] as usize] = at as u8;
        at += 1;
    }
    ranks
};

#[cfg(test)]
#[path = "shared_key_tests.rs"]
mod tests;
