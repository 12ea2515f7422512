//! Shared Key and Shared Key Lite: the strings that clients sign with an account key.
//! Source: Authorize with Shared Key, all sections.
//!
//! Client libraries differ in details that both sides must agree on (order of two headers, of header names, zero lengths,
//! plus signs). Every form that some library is known to sign is tried; each is a signature by the key all the same.

use super::{failed, verify as signature_is_good};
use crate::http::context::{Context, ServiceKind, decode};
use crate::http::error::{Failure, Result, known};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

/// How far a request's date may be from ours, either way.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// A request and the names its signature may have been computed over.
#[derive(Debug)]
pub struct SignedRequest<'a> {
    pub context: &'a Context,
}

/// The scheme of an `Authorization` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    SharedKey,
    SharedKeyLite,
}

/// One way to write the parts on which client libraries disagree.
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
    /// `/account-secondary/…` signed as `/account/…`.
    Primary,
    /// `'` and `%27` exchanged.
    QuotesEncoded,
    QuotesDecoded,
    /// Percent-decoded whole.
    Decoded,
}

/// Checks an `Authorization` header that is not Bearer: form, account, date, signature.
pub fn verify(request: &SignedRequest<'_>, authorization: &str, keys: &[Vec<u8>]) -> Result<()> {
    let (scheme, account, signature) = parse(authorization)?;
    let context = request.context;
    if account != context.account {
        return Err(failed(format!(
            "The account in the Authorization header, '{account}', is not the account of the request, '{}'.",
            context.account
        )));
    }
    check_date(context)?;
    if forms(context).any(|form| {
        signature_is_good(
            keys,
            string_to_sign(context, scheme, form).as_bytes(),
            signature,
        )
    }) {
        return Ok(());
    }
    let text = string_to_sign(context, scheme, Form::default());
    Err(failed(format!(
        "The MAC signature found in the HTTP request '{signature}' is not the same as any computed signature. Server used \
         following string to sign: '{text}'."
    )))
}

fn parse(authorization: &str) -> Result<(Scheme, &str, &str)> {
    let malformed = || Failure::from(known::INVALID_AUTHENTICATION_INFO);
    let (scheme, credentials) = authorization.split_once(' ').ok_or_else(malformed)?;
    let scheme = match scheme {
        "SharedKey" => Scheme::SharedKey,
        "SharedKeyLite" => Scheme::SharedKeyLite,
        _ => return Err(malformed()),
    };
    let (account, signature) = credentials.split_once(':').ok_or_else(malformed)?;
    let account = account.strip_suffix("-secondary").unwrap_or(account);
    Ok((scheme, account, signature))
}

fn check_date(context: &Context) -> Result<()> {
    let text = context
        .header("x-ms-date")
        .or_else(|| context.header("date"));
    let text =
        text.ok_or_else(|| failed("The request has neither an x-ms-date nor a Date header."))?;
    let date = crate::codec::date::parse_http(&text).ok_or_else(|| {
        failed(format!(
            "The date of the request, '{text}', is not in the RFC 1123 format."
        ))
    })?;
    let skew = context
        .now
        .duration_since(date)
        .unwrap_or_else(|ahead| ahead.duration());
    match skew > CLOCK_SKEW_MAX {
        true if date < context.now => Err(failed(format!("Request date header too old: '{text}'"))),
        true => Err(failed(format!(
            "Request date header too far in the future: '{text}'"
        ))),
        false => Ok(()),
    }
}

/// The forms worth trying for this request, the usual one first.
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
        let values = context.query.pairs();
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
            values.iter().any(|(_, value)| value.contains('+')),
            |form| form.plus_is_blank = true,
        );
        let zero_length = context.header("content-length").as_deref() == Some("0");
        alternate(&mut forms, zero_length, |form| {
            form.zero_length_written = true
        });
        alternate(&mut forms, sent("x-ms-date") && sent("date"), |form| {
            form.date_written = true
        });
        alternate(&mut forms, names_repeat(values), |form| {
            form.one_value_per_name = true
        });
    }
    forms.into_iter()
}

/// Doubles `forms` by a variant of each, where the variant could make a difference.
fn alternate(forms: &mut Vec<Form>, applies: bool, change: impl Fn(&mut Form)) {
    if applies {
        let mut variants = forms.clone();
        variants.iter_mut().for_each(change);
        forms.extend(variants);
    }
}

fn names_repeat(pairs: &[(String, String)]) -> bool {
    let mut names: Vec<_> = pairs.iter().map(|(name, _)| name.to_lowercase()).collect();
    names.sort();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

fn path_forms(context: &Context) -> Vec<PathForm> {
    let mut forms = vec![PathForm::AsSent];
    let all = [
        PathForm::Primary,
        PathForm::QuotesEncoded,
        PathForm::QuotesDecoded,
        PathForm::Decoded,
    ];
    forms.extend(
        all.into_iter()
            .filter(|&form| path(context, form) != context.raw_path),
    );
    forms
}

fn path(context: &Context, form: PathForm) -> String {
    let raw = &context.raw_path;
    match form {
        PathForm::AsSent => raw.clone(),
        PathForm::Primary => raw.replacen("-secondary", "", usize::from(context.secondary)),
        PathForm::QuotesEncoded => raw.replace('\'', "%27"),
        PathForm::QuotesDecoded => raw.replace("%27", "'"),
        PathForm::Decoded => decode(raw).into_owned(),
    }
}

fn string_to_sign(context: &Context, scheme: Scheme, form: Form) -> String {
    let value = |name: &str| context.header(name).unwrap_or_default();
    let date = context.header("x-ms-date").unwrap_or_else(|| value("date"));
    let resource = || {
        format!(
            "/{}{}",
            context.account,
            path_or_root(path(context, form.path))
        )
    };
    if context.service == ServiceKind::Table {
        let resource = resource() + &comp_of(context);
        return match scheme {
            Scheme::SharedKeyLite => format!("{date}\n{resource}"),
            Scheme::SharedKey => [
                context.method.as_str(),
                &value("content-md5"),
                &value("content-type"),
                &date,
                &resource,
            ]
            .join("\n"),
        };
    }
    // The date is signed among the x-ms headers when it is there.
    let date = if context.headers.contains_key("x-ms-date") && !form.date_written {
        String::new()
    } else {
        value("date")
    };
    let headers = canonicalized_headers(context, form.headers_by_byte);
    if scheme == Scheme::SharedKeyLite {
        let lines = [
            context.method.as_str(),
            &value("content-md5"),
            &value("content-type"),
            &date,
        ];
        return format!(
            "{}\n{headers}{}{}",
            lines.join("\n"),
            resource(),
            comp_of(context)
        );
    }
    let (mut encoding, mut language) = (value("content-encoding"), value("content-language"));
    if form.language_before_encoding {
        std::mem::swap(&mut encoding, &mut language);
    }
    let mut length = value("content-length");
    if length == "0" && (context.version.is_at_least("2015-02-21") != form.zero_length_written) {
        length.clear();
    }
    let lines = [
        context.method.as_str(),
        &encoding,
        &language,
        &length,
        &value("content-md5"),
        &value("content-type"),
        &date,
        &value("if-modified-since"),
        &value("if-match"),
        &value("if-none-match"),
        &value("if-unmodified-since"),
        &value("range"),
    ];
    let query = canonicalized_query(context, form);
    format!("{}\n{headers}{}{query}", lines.join("\n"), resource())
}

fn path_or_root(path: String) -> String {
    if path.is_empty() {
        "/".to_owned()
    } else {
        path
    }
}

fn comp_of(context: &Context) -> String {
    context
        .query
        .get_literal("comp")
        .map_or(String::new(), |comp| format!("?comp={comp}"))
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

/// Names and folded values of the `x-ms-` headers, in no particular order.
fn ms_headers(context: &Context) -> Vec<(String, String)> {
    let empty_ones_signed = context.version.is_at_least("2016-05-31");
    let names = context
        .headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-ms-"));
    let folded = names.map(|name| {
        let values = context
            .headers
            .get_all(name)
            .iter()
            .map(crate::http::context::text_of);
        (
            name.as_str().to_owned(),
            values.collect::<Vec<_>>().join(","),
        )
    });
    folded
        .filter(|(_, value)| empty_ones_signed || !value.is_empty())
        .collect()
}

fn canonicalized_headers(context: &Context, by_byte: bool) -> String {
    let mut headers = ms_headers(context);
    match by_byte {
        true => headers.sort(),
        false => headers.sort_by(|a, b| culture_order(&a.0, &b.0)),
    }
    headers
        .into_iter()
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect()
}

fn header_orders_differ(context: &Context) -> bool {
    let mut names: Vec<_> = ms_headers(context)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort();
    !names.is_sorted_by(|a, b| culture_order(a, b) != Ordering::Greater)
}

/// The order in which the service compares header names: hyphens count only where nothing else differs.
fn culture_order(a: &str, b: &str) -> Ordering {
    let ranks = |name: &str| {
        name.bytes()
            .filter(|byte| !is_ignored(*byte))
            .map(rank)
            .collect::<Vec<_>>()
    };
    ranks(a).cmp(&ranks(b)).then_with(|| {
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

fn rank(byte: u8) -> usize {
    const ORDER: &[u8] = b"!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";
    ORDER
        .iter()
        .position(|&known| known == byte)
        .unwrap_or(ORDER.len())
}

#[cfg(test)]
#[path = "shared_key_tests.rs"]
mod tests;
