//! `/_lazurite/advice`, `/_lazurite/heatmap` and `/_lazurite/record`, as JSON.
//!
//! The pages show keys and filters, which are private to an account. Programs on this machine get
//! advice and heat map without credentials, but only about accounts with the well-known key.
//! Clients with the key of an account get all three pages of that account, below its path.

use crate::advisor::log_new;
use crate::browser_guard;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::http::{Method, Response};
use lazurite_advisor::{Advisor, HeatMap, Report};
use lazurite_protocol::accounts::Accounts;
use lazurite_protocol::response::error::{Failure, Result};
use serde::Serialize;
use std::net::IpAddr;
use std::time::SystemTime;

/// The report that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Advice,
    HeatMap,
    /// The requests recorded after this position. Asking keeps the recorder on for ten seconds.
    Record {
        after: Option<u64>,
    },
}

impl Page {
    /// The page at `path`, which has neither its first slash nor an account. `_lazurite` is no
    /// valid name of a container, queue or table.
    pub fn of(method: &Method, path: &str, query: Option<&str>) -> Option<Page> {
        match path {
            _ if method != Method::GET => None,
            "_lazurite/advice" => Some(Page::Advice),
            "_lazurite/heatmap" => Some(Page::HeatMap),
            "_lazurite/record" => {
                let after = query.and_then(|query| query.strip_prefix("after="));
                let after = after.and_then(|after| after.parse().ok());
                Some(Page::Record { after })
            }
            _ => None,
        }
    }
}

/// Answers a request without credentials. Errors: the request comes from another machine, through a
/// proxy, or from a page of another origin; `host` is no name of this machine; the page is a
/// record.
pub fn answer(
    advisor: &Advisor,
    accounts: &Accounts,
    page: Page,
    peer: IpAddr,
    host: &str,
    headers: &HeaderMap,
    now: SystemTime,
) -> Result<Response<Body>> {
    browser_guard::check_origin(headers, host)?;
    let through_proxy = browser_guard::came_through_proxy(headers);
    let is_near = peer.to_canonical().is_loopback() && browser_guard::names_this_machine(host);
    if through_proxy || !is_near {
        let message = "This page is for programs on the machine of the server. From elsewhere, ask for it below the path of an account \
                       (/ACCOUNT/_lazurite/advice), signed with the key of the account.";
        return Err(Failure::new(403, "AuthorizationFailure", message));
    }
    respond(advisor, page, &Reader::Program(accounts), now)
}

/// Answers the owner of an account, with the facts of that account alone. The record is that of the
/// fork or of the account, whichever the request addresses; advice and heat map are of both.
pub fn answer_owner(
    advisor: &Advisor,
    page: Page,
    account: &str,
    fork: Option<&str>,
    now: SystemTime,
) -> Result<Response<Body>> {
    respond(advisor, page, &Reader::Owner { account, fork }, now)
}

/// Who reads a page.
enum Reader<'a> {
    /// A program on this machine, without credentials.
    Program(&'a Accounts),
    /// A client with the key of the account.
    Owner {
        account: &'a str,
        fork: Option<&'a str>,
    },
}

fn respond(
    advisor: &Advisor,
    page: Page,
    reader: &Reader<'_>,
    now: SystemTime,
) -> Result<Response<Body>> {
    let is_shown = |name: &str| match reader {
        Reader::Program(accounts) => accounts.is_well_known(name),
        Reader::Owner { account, .. } => name == *account,
    };
    match (page, reader) {
        (Page::Advice, _) => Ok(json(&report(advisor, &is_shown))),
        (Page::HeatMap, _) => Ok(json(&heat_map(advisor, &is_shown, now))),
        (Page::Record { after }, Reader::Owner { account, fork }) => {
            Ok(json(&advisor.records(account, *fork, after, now)))
        }
        (Page::Record { .. }, Reader::Program(_)) => {
            let message = "A record of requests is for the owner of an account: ask for it below the path of the account \
                           (/ACCOUNT/_lazurite/record), signed with its key.";
            Err(Failure::new(403, "AuthorizationFailure", message))
        }
    }
}

/// All advice so far about the accounts that `is_shown` accepts. Logs new advice.
pub fn report(advisor: &Advisor, is_shown: &dyn Fn(&str) -> bool) -> Report {
    let (mut report, new) = advisor.report();
    log_new(&new);
    report.advice.retain(|advice| is_shown(&advice.account));
    report
}

/// The heat map of the accounts that `is_shown` accepts. Logs new advice.
pub fn heat_map(advisor: &Advisor, is_shown: &dyn Fn(&str) -> bool, now: SystemTime) -> HeatMap {
    let (mut map, new) = advisor.heat_map(now);
    log_new(&new);
    map.rows.retain(|row| is_shown(&row.account));
    map.others.retain(|others| is_shown(&others.account));
    map.splits.retain(|splits| is_shown(&splits.account));
    map.accounts.retain(|account, _| is_shown(account));
    map
}

fn json(value: &impl Serialize) -> Response<Body> {
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Body as _;
    use lazurite_advisor::{Keys, Request, Service};

    fn status(peer: &str, host: &str, header: Option<(&'static str, &str)>) -> u16 {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(name, value.parse().unwrap());
        }
        let advisor = Advisor::default();
        let accounts = Accounts::parse("own:a2V5").unwrap();
        let peer = peer.parse().unwrap();
        let now = SystemTime::UNIX_EPOCH;
        match answer(&advisor, &accounts, Page::Advice, peer, host, &headers, now) {
            Ok(response) => response.status().as_u16(),
            Err(failure) => failure.status.as_u16(),
        }
    }

    #[test]
    fn only_programs_on_this_machine_are_answered_without_a_key() {
        for (peer, host) in [
            ("127.0.0.1", "127.0.0.1:10000"),
            ("::1", "[::1]:10000"),
            ("::ffff:127.0.0.1", "localhost:10000"),
        ] {
            assert_eq!(status(peer, host, None), 200, "{peer} {host}");
        }
        assert_eq!(status("10.0.0.5", "127.0.0.1:10000", None), 403);
        assert_eq!(status("127.0.0.1", "storage.example.com", None), 403);
        for header in [
            ("x-forwarded-for", "10.0.0.5"),
            ("origin", "https://example.com"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let status = status("127.0.0.1", "127.0.0.1:10000", Some(header));
            assert_eq!(status, 403, "{header:?}");
        }
    }

    #[test]
    fn advice_on_accounts_with_a_secret_key_is_for_their_owners() {
        let advisor = Advisor::default();
        let now = SystemTime::UNIX_EPOCH;
        let mut request = Request::new(Service::Table, "GetEntity", now);
        request.account = "own".to_owned();
        request.resource = "Secret".to_owned();
        request.keys = Some(Keys {
            partition: "p".to_owned(),
            row: "r".to_owned(),
        });
        advisor.observe(1, request);
        let shown = |is_shown: &dyn Fn(&str) -> bool| {
            let response = json(&heat_map(&advisor, is_shown, now));
            response.body().size_hint().exact().unwrap()
        };
        let accounts = Accounts::parse("own:a2V5").unwrap();
        let nothing = shown(&|_| false);
        assert_eq!(shown(&|name| accounts.is_well_known(name)), nothing);
        assert!(shown(&|name| name == "own") > nothing);
    }

    #[test]
    fn record_is_for_owners_and_the_other_pages_for_both() {
        let (advisor, now) = (Advisor::default(), SystemTime::UNIX_EPOCH);
        let accounts = Accounts::parse("own:a2V5").unwrap();
        let owner = Reader::Owner {
            account: "own",
            fork: None,
        };
        let record = Page::Record { after: None };
        for (page, of_program) in [(Page::Advice, 200), (Page::HeatMap, 200), (record, 403)] {
            let status = |reader: &Reader<'_>| match respond(&advisor, page, reader, now) {
                Ok(response) => response.status().as_u16(),
                Err(failure) => failure.status.as_u16(),
            };
            assert_eq!(status(&Reader::Program(&accounts)), of_program, "{page:?}");
            assert_eq!(status(&owner), 200, "{page:?}");
        }
    }

    #[test]
    fn pages_are_read_and_nothing_else() {
        assert_eq!(
            Page::of(&Method::GET, "_lazurite/heatmap", None),
            Some(Page::HeatMap)
        );
        assert_eq!(Page::of(&Method::PUT, "_lazurite/heatmap", None), None);
        assert_eq!(Page::of(&Method::GET, "_lazurite/health", None), None);
        for (query, after) in [
            (None, None),
            (Some("after=7"), Some(7)),
            (Some("after=x"), None),
        ] {
            let page = Page::of(&Method::GET, "_lazurite/record", query);
            assert_eq!(page, Some(Page::Record { after }));
        }
    }
}
