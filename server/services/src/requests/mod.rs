//! The last requests in memory: what the pages of Requests and `lazurite requests` show.
//!
//! Bounded by number and by bytes; the oldest are dropped and counted, but for the last ones of
//! resources that busier ones push out (`aside.rs`). A record costs its request one copy of the
//! head, one of the start of each body (`request/body_copy.rs`), and one short lock at its end.
//! Watchers poll, so there is no further cost without them. Requests that come faster than people
//! could read them are only counted, unless they are refused or fail: see [`SECOND_RECORDS_MAX`].
//! Secrets in heads are cut before a record is kept, those in bodies before they are shown.
//!
//! Bodies take at most half of the ring's bytes. To make room, the bodies of the oldest records are
//! dropped before the records are.

mod aside;

pub use aside::OF_RESOURCE_MAX;

use crate::accounts::{SECONDARY, names_account};
use crate::layers::access_log::RequestLog;
use crate::local_services::OWN_REQUEST;
use crate::request::body_copy::{BodyCopy, Copied, CopiedBody, CopyBudget};
use crate::request::context::{RequestOrigin, ServiceKind, text_of};
use crate::request::target::{
    may_have_secret, redact, without_credentials, without_secret_parameters,
};
use crate::response::error::{ClientSigned, Failure, WRONG_SERVICE};
use aside::Aside;
use axum::body::Body;
use axum::http::header::{HeaderMap, HeaderValue};
use axum::http::uri::PathAndQuery;
use axum::http::{Method, Request, Response, Uri};
use hyper::body::Body as _;
use memchr::{memchr, memchr_iter};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Room that a head is given to begin with: most have less.
const HEAD_BYTES_USUAL: usize = 1024;
/// Most bytes of a head that are kept.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Requests of a second that are kept; of the others only those that are refused or fail, without
/// their headers. A busy server does not spend its time on records that are dropped before they can
/// be read.
const SECOND_RECORDS_MAX: u32 = 2000;
/// Bytes of a record beside its texts.
const RECORD_BYTES: usize = size_of::<Record>() + 64;
/// The share of the records that are kept of resources that busier ones push out.
const ASIDE_SHARE: usize = 4;
/// Longest reason in a list.
const REASON_BYTES_MAX: usize = 300;

/// Details that say why in one phrase, the best first.
const REASONS: [&str; 4] = [
    WRONG_SERVICE,
    "AuthenticationErrorDetail",
    "Reason",
    "ExtendedErrorDetail",
];

/// Headers that open something, or hold a URL that does.
const SECRET_HEADERS: [&str; 17] = [
    OWN_REQUEST,
    "x-ms-copy-source-authorization",
    "x-ms-copy-source",
    "x-ms-rename-source",
    "x-ms-encryption-key",
    "x-ms-source-encryption-key",
    "cookie",
    "x-identity-header",
    "proxy-authorization",
    "x-forwarded-authorization",
    "x-ms-authorization-auxiliary",
    "x-functions-key",
    "x-api-key",
    "api-key",
    "ocp-apim-subscription-key",
    "referer",
    "location",
];

/// The lengths of these names, a bit each: most headers have another.
const SECRET_LENGTHS: u64 = {
    let (mut lengths, mut next) = (0, 0);
    while next < SECRET_HEADERS.len() {
        lengths |= 1 << SECRET_HEADERS[next].len();
        next += 1;
    }
    lengths
};

/// Whether a header, in lower case, is one of [`SECRET_HEADERS`].
fn is_secret(name: &str) -> bool {
    name.len() < 64 && SECRET_LENGTHS & (1 << name.len()) != 0 && SECRET_HEADERS.contains(&name)
}

/// One request and how it was answered.
#[derive(Debug)]
pub struct Record {
    /// Counts up from 1; the position in the ring.
    pub number: u64,
    pub at: SystemTime,
    pub took: Duration,
    pub service: ServiceKind,
    pub peer: IpAddr,
    pub secure: bool,
    pub request_id: String,
    /// Whose resource the request names; `None` if it was refused before that was known.
    pub account: Option<String>,
    /// The REST name; empty if the request got no further.
    pub operation: &'static str,
    pub status: u16,
    pub refusal: Option<Box<WhyRefused>>,
    pub request_bytes: Option<u64>,
    pub response_bytes: Option<u64>,
    /// A number for the container, queue or table; 0 if the request names none. Set by the ring.
    pub resource: u64,
    /// The request line, the headers, an empty line, and the headers of the response.
    pub head: Vec<u8>,
    pub bodies: Option<Bodies>,
}

/// The copies of the two bodies of a request.
#[derive(Debug, Clone)]
pub struct Bodies {
    request: Arc<BodyCopy>,
    response: Arc<BodyCopy>,
}

/// Why a request was not served.
#[derive(Debug, Clone)]
pub struct WhyRefused {
    pub code: String,
    /// In one phrase.
    pub reason: String,
    /// All that the response says, name by name.
    pub details: Vec<(&'static str, String)>,
    /// The string that the client signed instead, if it is known.
    pub client_signed: Option<Box<ClientSigned>>,
}

/// A header as it was sent, secrets cut.
pub type Header = (String, String);

impl Record {
    fn text(&self) -> Cow<'_, str> {
        text_in(&self.head)
    }

    pub fn method(&self) -> String {
        let text = self.text();
        text.split(' ').next().unwrap_or_default().to_owned()
    }

    /// The target as logs show it.
    pub fn target(&self) -> String {
        let text = self.text();
        let line = text.lines().next().unwrap_or_default();
        redact(line.split_once(' ').map_or("", |(_, target)| target))
    }

    /// The headers of the request, then those of the response.
    pub fn headers(&self) -> [Vec<Header>; 2] {
        let text = self.text();
        let (request, response) = text.split_once("\n\n").unwrap_or((&text, ""));
        [
            lines(request.split_once('\n').map_or("", |(_, rest)| rest)),
            lines(response),
        ]
    }

    /// A header of the request, without reading the others.
    pub fn header(&self, name: &str) -> Option<String> {
        value_in(&self.head, name)
    }

    /// A header of the response, without reading the others.
    pub fn response_header(&self, name: &str) -> Option<String> {
        let request_end = memchr::memmem::find(&self.head, b"\n\n")?;
        value_in(&self.head[request_end + 2..], name)
    }

    /// The start of the request's body, then that of the response; `None` if bodies are not kept.
    /// May hold secrets.
    pub fn bodies(&self) -> Option<[Copied; 2]> {
        let bodies = self.bodies.as_ref()?;
        Some([bodies.request.get(), bodies.response.get()])
    }

    /// Refused, failed, or a batch of which nothing was done.
    pub fn is_error(&self) -> bool {
        self.status >= 400 || self.refusal.is_some()
    }

    /// A number for the container, queue or table that the path names, of the account and service
    /// of the request. It is made for each request: the path is read as it was sent.
    fn resource_number(&self) -> u64 {
        let line = memchr(b'\n', &self.head);
        let line = text_in(&self.head[..line.unwrap_or(self.head.len())]);
        let target = line.split_once(' ').map_or("", |(_, target)| target);
        let path = self.below_account(target.split('?').next().unwrap_or_default());
        let name = path.split(['/', '(']).next().unwrap_or_default();
        if name.is_empty() {
            return 0;
        }
        let account = self.account.as_deref().unwrap_or_default();
        let name = [account, "/", name].concat();
        xxh3_64_with_seed(name.as_bytes(), self.service as u64).max(1)
    }

    /// The part of a path that stands behind the account of the request, without slashes around it;
    /// all of it if the host names the account.
    pub fn below_account<'p>(&self, path: &'p str) -> &'p str {
        let path = path.trim_matches('/');
        let account = self.account.as_deref().unwrap_or_default();
        let names = |name: &str| names_account(name, account);
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if !names(first) || self.host_names_account() {
            return path;
        }
        let rest = rest.trim_start_matches('/');
        // azure-data-tables for Python writes the account behind its secondary location.
        let is_location = self.service == ServiceKind::Table && first.ends_with(SECONDARY);
        match rest.split_once('/') {
            Some((second, rest)) if is_location && names(second) => rest,
            _ => rest,
        }
    }

    /// Whether a host with dots names the account of the request, as in `request/address.rs`.
    fn host_names_account(&self) -> bool {
        let account = self.account.as_deref().unwrap_or_default();
        let host = self.header("host").unwrap_or_default();
        let label = host.split(['.', ':']).next().unwrap_or_default();
        host.contains('.') && names_account(label, account)
    }

    /// Memory that the record takes, without the bodies.
    pub fn bytes(&self) -> usize {
        let account = self.account.as_ref().map_or(0, String::capacity);
        let texts = self.head.capacity() + self.request_id.capacity() + account;
        let refusal = self.refusal.as_ref().map_or(0, |why| why.bytes());
        RECORD_BYTES + texts + refusal
    }
}

/// How a query was answered, with its cost.
pub fn plan_of(headers: &HeaderMap) -> Option<String> {
    plan_with(|name| headers.get(name).map(text_of))
}

/// As [`plan_of`], of any headers.
pub fn plan_with(header: impl Fn(&str) -> Option<String>) -> Option<String> {
    let plan = header("x-lazurite-plan")?;
    let examined = header("x-lazurite-examined").unwrap_or_default();
    Some(format!("{plan}, {examined} examined"))
}

/// The value of the first line that has this name, before the first empty one.
fn value_in(lines: &[u8], name: &str) -> Option<String> {
    let mut start = 0;
    for end in memchr_iter(b'\n', lines).chain([lines.len()]) {
        let line = &lines[start..end];
        if line.is_empty() {
            return None;
        }
        let value = line.strip_prefix(name.as_bytes());
        if let Some(value) = value.and_then(|value| value.strip_prefix(b":")) {
            return Some(text_in(value).into_owned());
        }
        start = end + 1;
    }
    None
}

/// The text of a head, or of a part of one. A line that is not UTF-8 is read as Latin-1, as
/// [`text_of`] reads headers.
pub fn text_in(head: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(head) {
        return text.into();
    }
    let latin = |line: &[u8]| line.iter().map(|&byte| char::from(byte)).collect();
    let lines = head.split(|&byte| byte == b'\n');
    let texts = lines.map(|line| str::from_utf8(line).map_or_else(|_| latin(line), str::to_owned));
    texts.collect::<Vec<String>>().join("\n").into()
}

fn lines(text: &str) -> Vec<Header> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The part of a record that is known before the request is handled; `None` in [`Ring::begin`] for
/// requests that are not kept.
pub struct Begun {
    /// `None` if there are too many requests to keep them all.
    head: Option<Vec<u8>>,
    bodies: Option<Bodies>,
}

impl Begun {
    /// Takes the start of the request's body; `None` if it is not kept.
    pub fn request_copy(&self) -> Option<Arc<BodyCopy>> {
        let bodies = self.bodies.as_ref()?;
        Some(bodies.request.clone())
    }

    /// Copies the start of the response's body while it is sent, unless the response is a key or a
    /// token.
    pub fn copy_response(&self, operation: &str, response: &mut Response<Body>) {
        let is_secret = operation == "GetUserDelegationKey"
            || operation.is_empty() && response.status().is_success();
        if let Some(bodies) = self.bodies.as_ref().filter(|_| !is_secret) {
            let body = std::mem::take(response.body_mut());
            *response.body_mut() = CopiedBody::wrap(body, bodies.response.clone());
        }
    }
}

/// Counts of the ring since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub seen: u64,
    pub errors: u64,
    /// Requests that were only counted.
    pub skipped: u64,
    pub kept: u64,
    /// The position of the newest.
    pub newest: u64,
}

/// The ring. See the head of this file.
#[derive(Debug)]
pub struct Ring {
    count_max: usize,
    bytes_max: usize,
    errors: AtomicU64,
    opened: Instant,
    /// The present second since the start, and the requests in it that are kept. Threads that begin
    /// a second at the same time may let a few more pass.
    second: AtomicU64,
    in_second: AtomicU32,
    /// Written by each request of a busy server, and far from what each of them reads.
    skipped: OwnLine<AtomicU64>,
    copies: Arc<CopyBudget>,
    kept: Mutex<Kept>,
}

/// A value that shares its cache line with no other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

#[derive(Debug, Default)]
struct Kept {
    /// The newest, without a gap.
    records: VecDeque<Arc<Record>>,
    /// How many of them each resource has.
    of_resource: HashMap<u64, usize>,
    /// Older ones.
    aside: Aside,
    /// Of both.
    bytes: usize,
    /// The position of the newest record.
    newest: u64,
    /// The position behind which records may have their bodies.
    bodies_behind: u64,
}

impl Kept {
    /// The records behind position `after`, oldest first.
    fn behind(&self, after: u64) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        let from = after.saturating_add(1);
        let first = self.records.front().map_or(from, |record| record.number);
        let skipped = from.saturating_sub(first).min(self.records.len() as u64);
        let newest = self.records.range(skipped as usize..);
        self.aside.range(from..).chain(newest)
    }

    fn len(&self) -> usize {
        self.aside.len() + self.records.len()
    }

    /// Drops the oldest record that no resource needs, but not the newest; `None` if there is no
    /// other.
    fn drop_oldest(&mut self, aside_max: usize) -> Option<Arc<Record>> {
        let mut dropped = None;
        while dropped.is_none() && self.records.len() > 1 {
            let oldest = self.records.pop_front()?;
            let newer = self.count_one_less(oldest.resource);
            dropped = self.aside.put(oldest, newer, aside_max);
        }
        let dropped = dropped.or_else(|| self.aside.pop_oldest())?;
        self.bytes = self.bytes.saturating_sub(dropped.bytes());
        Some(dropped)
    }

    /// Takes in the newest record. Returns one that its resource no longer needs.
    fn push(&mut self, record: Record) -> Option<Arc<Record>> {
        let resource = record.resource;
        self.bytes += record.bytes();
        self.records.push_back(Arc::new(record));
        if resource == 0 {
            return None;
        }
        let count = self.of_resource.entry(resource).or_default();
        *count += 1;
        let dropped = self.aside.trim(resource, *count)?;
        self.bytes = self.bytes.saturating_sub(dropped.bytes());
        Some(dropped)
    }

    /// How many records of the resource are left in the ring.
    fn count_one_less(&mut self, resource: u64) -> usize {
        let Some(count) = self.of_resource.get_mut(&resource) else {
            return 0;
        };
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.of_resource.remove(&resource);
        }
        left
    }

    /// Drops the bodies of the oldest record that still has them; `None` if no record has.
    fn drop_bodies(&mut self) -> Option<[Vec<u8>; 2]> {
        let record = self.behind(self.bodies_behind).next()?.clone();
        self.bodies_behind = record.number;
        let bodies = record.bodies.as_ref();
        Some(bodies.map_or_else(Default::default, |bodies| {
            [bodies.request.clear(), bodies.response.clear()]
        }))
    }
}

/// Records after a position, oldest first.
#[derive(Debug)]
pub struct Batch {
    pub records: Vec<Arc<Record>>,
    /// Records after the position and before `next` that were dropped before they could be sent.
    pub missed: u64,
    /// The position behind the last one.
    pub next: u64,
}

impl Ring {
    /// A ring of at most `count_max` records, 0 for none at all, and about `bytes_max` bytes.
    pub fn new(count_max: usize, bytes_max: usize) -> Ring {
        let kept = Kept {
            records: VecDeque::with_capacity(count_max),
            ..Kept::default()
        };
        Ring {
            count_max,
            bytes_max,
            errors: AtomicU64::new(0),
            opened: Instant::now(),
            second: AtomicU64::new(0),
            in_second: AtomicU32::new(0),
            skipped: OwnLine::default(),
            copies: Arc::new(CopyBudget::new(0, 0)),
            kept: Mutex::new(kept),
        }
    }

    /// The same, with at most `body_bytes_max` bytes of each body; 0 for none.
    pub fn with_bodies(mut self, body_bytes_max: usize) -> Ring {
        // Requests under way may hold copies that no drop of older ones frees: they get a little
        // more.
        self.copies = Arc::new(CopyBudget::new(body_bytes_max, self.bytes_max / 4 * 3));
        self
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the head of a request that came at `started`, unless it is for a page of the console
    /// or nothing is kept.
    pub fn begin<B>(&self, request: &Request<B>, started: Instant) -> Option<Begun> {
        if self.count_max == 0 || request.uri().path().starts_with(crate::pages::PREFIX) {
            return None;
        }
        if !self.has_room(started) {
            return Some(Begun {
                head: None,
                bodies: None,
            });
        }
        let mut head = head_of(request.method(), request.uri());
        push_headers(&mut head, request.headers());
        Some(Begun {
            head: Some(head),
            bodies: self.copies_for(request.headers()),
        })
    }

    /// The copies of a request's bodies. What a client encrypts with its own key is not copied.
    fn copies_for(&self, headers: &HeaderMap) -> Option<Bodies> {
        let is_kept = self.copies.is_on() && !headers.contains_key("x-ms-encryption-key");
        is_kept.then(|| Bodies {
            request: BodyCopy::new(&self.copies),
            response: BodyCopy::new(&self.copies),
        })
    }

    /// Whether a request that begins now can be kept.
    fn has_room(&self, now: Instant) -> bool {
        let second = now.duration_since(self.opened).as_secs();
        if self.second.load(Ordering::Relaxed) != second {
            self.second.store(second, Ordering::Relaxed);
            self.in_second.store(0, Ordering::Relaxed);
        }
        self.in_second.load(Ordering::Relaxed) < SECOND_RECORDS_MAX
            && self.in_second.fetch_add(1, Ordering::Relaxed) < SECOND_RECORDS_MAX
    }

    /// Keeps a request that has been answered.
    pub fn end(&self, begun: Begun, origin: &RequestOrigin, log: &RequestLog, answer: Answer<'_>) {
        let Answer {
            account,
            operation,
            refusal,
            response,
        } = answer;
        let is_error = response.status().as_u16() >= 400 || refusal.is_some();
        if is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        let mut head = match begun.head {
            Some(head) => head,
            None if is_error => head_of(log.method(), log.target()),
            None => {
                self.skipped.0.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        head.push(b'\n');
        push_headers(&mut head, response.headers());
        self.push(Record {
            number: 0,
            at: origin.now,
            took: log.started().elapsed(),
            service: origin.service,
            peer: origin.peer.ip(),
            secure: origin.secure,
            request_id: origin.request_id.clone(),
            account,
            operation,
            status: response.status().as_u16(),
            refusal,
            request_bytes: log.request_bytes(),
            response_bytes: response.body().size_hint().exact(),
            resource: 0,
            head,
            bodies: begun.bodies,
        });
    }

    fn push(&self, mut record: Record) {
        record.resource = record.resource_number();
        let aside_max = self.count_max / ASIDE_SHARE;
        let mut kept = self.kept();
        kept.newest += 1;
        record.number = kept.newest;
        let mut dropped = kept.push(record);
        // Freed without the lock: in the usual case there is one.
        let mut bodies = None;
        while self.copies.bytes() > self.bytes_max / 2
            && let Some(dropped) = kept.drop_bodies()
        {
            bodies = Some(dropped);
        }
        while kept.len() > self.count_max || kept.bytes + self.copies.bytes() > self.bytes_max {
            match kept.drop_oldest(aside_max) {
                Some(oldest) => dropped = Some(oldest),
                None => break,
            }
        }
        drop(kept);
        drop((dropped, bodies));
    }

    pub fn totals(&self) -> Totals {
        let kept = self.kept();
        let skipped = self.skipped.0.load(Ordering::Relaxed);
        Totals {
            seen: kept.newest + skipped,
            errors: self.errors.load(Ordering::Relaxed),
            skipped,
            kept: kept.len() as u64,
            newest: kept.newest,
        }
    }

    /// Records behind position `after`, at most `count_max`, that `is_shown` accepts.
    pub fn after(&self, after: u64, count_max: usize, is_shown: impl Fn(&Record) -> bool) -> Batch {
        let kept = self.kept();
        // Copied first: `is_shown` may take its time, and the lock is that of all requests.
        let candidates: Vec<_> = kept.behind(after).take(count_max).cloned().collect();
        let next = candidates
            .last()
            .map_or(kept.newest, |record| record.number);
        drop(kept);
        let passed = next.saturating_sub(after);
        Batch {
            missed: passed.saturating_sub(candidates.len() as u64),
            records: candidates
                .into_iter()
                .filter(|record| is_shown(record))
                .collect(),
            next,
        }
    }

    /// The newest records behind position `after` that `is_wanted` accepts, at most `count_max`,
    /// newest first; and the position of the newest of all. `is_wanted` is asked under the lock of
    /// all requests.
    pub fn newest(
        &self,
        after: u64,
        count_max: usize,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> (u64, Vec<Arc<Record>>) {
        let kept = self.kept();
        let newest = kept.behind(after).rev();
        let wanted = newest.filter(|record| is_wanted(record)).take(count_max);
        (kept.newest, wanted.cloned().collect())
    }

    /// The last records that `is_shown` accepts, newest first.
    pub fn latest(&self, count_max: usize, is_shown: impl Fn(&Record) -> bool) -> Vec<Arc<Record>> {
        let all: Vec<_> = self.kept().behind(0).rev().cloned().collect();
        all.into_iter()
            .filter(|record| is_shown(record))
            .take(count_max)
            .collect()
    }

    /// The last records of requests that were refused or failed, newest first.
    pub fn latest_errors(
        &self,
        count_max: usize,
        is_shown: impl Fn(&Record) -> bool,
    ) -> Vec<Arc<Record>> {
        self.latest(count_max, |record| record.is_error() && is_shown(record))
    }

    /// The record of a request by the id that its response had.
    pub fn find(&self, request_id: &str) -> Option<Arc<Record>> {
        let kept = self.kept();
        let mut records = kept.behind(0).rev();
        let found = records.find(|record| record.request_id == request_id);
        found.cloned()
    }
}

/// How a request was answered.
pub struct Answer<'a> {
    pub account: Option<String>,
    pub operation: &'static str,
    pub refusal: Option<Box<WhyRefused>>,
    pub response: &'a Response<Body>,
}

/// The first line of a head. Secrets are cut.
pub fn head_of(method: &Method, target: &Uri) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES_USUAL);
    head.extend_from_slice(method.as_str().as_bytes());
    head.push(b' ');
    let target = target.path_and_query().map_or("", PathAndQuery::as_str);
    head.extend_from_slice(without_credentials(target).as_bytes());
    head.truncate(HEAD_BYTES_MAX);
    head.push(b'\n');
    head
}

/// Appends headers, one a line, until the head is too long. Secrets are cut.
pub fn push_headers(head: &mut Vec<u8>, headers: &HeaderMap) {
    let start = head.len();
    push_lines(head, headers, |head, value| {
        head.extend_from_slice(value.as_bytes());
    });
    // All lines are searched at once: most requests have no secret in them.
    if may_have_secret(&head[start..]) {
        head.truncate(start);
        push_lines(head, headers, push_without_secret_parameters);
    }
}

fn push_without_secret_parameters(head: &mut Vec<u8>, value: &HeaderValue) {
    if may_have_secret(value.as_bytes()) {
        head.extend_from_slice(without_secret_parameters(&text_of(value)).as_bytes());
    } else {
        head.extend_from_slice(value.as_bytes());
    }
}

/// As [`push_headers`]; `push_value` appends the value of a header that is not one of
/// [`SECRET_HEADERS`].
fn push_lines(
    head: &mut Vec<u8>,
    headers: &HeaderMap,
    push_value: impl Fn(&mut Vec<u8>, &HeaderValue),
) {
    for (name, value) in headers {
        let name = name.as_str();
        if head.len() + name.len() + value.len() + 2 > HEAD_BYTES_MAX {
            return;
        }
        head.extend_from_slice(name.as_bytes());
        head.push(b':');
        match name {
            "authorization" => push_credentials(head, value.as_bytes()),
            name if is_secret(name) => {
                head.extend_from_slice(without_secret(name, &text_of(value)).as_bytes());
            }
            _ => push_value(head, value),
        }
        head.push(b'\n');
    }
}

/// Appends the scheme of credentials, and the account of a shared key.
fn push_credentials(head: &mut Vec<u8>, value: &[u8]) {
    let scheme = value.iter().position(|&byte| byte == b' ').unwrap_or(0);
    let is_key = value.starts_with(b"SharedKey");
    let account = value.iter().position(|&byte| byte == b':');
    let shown = account.filter(|_| is_key).map_or(scheme, |colon| colon + 1);
    head.extend_from_slice(&value[..shown]);
    head.extend_from_slice("…".as_bytes());
}

/// A header value of which only the part remains that opens nothing.
fn without_secret(name: &str, value: &str) -> String {
    match name {
        "x-ms-copy-source" | "x-ms-rename-source" | "referer" | "location" => redact(value),
        _ => "…".to_owned(),
    }
}

impl WhyRefused {
    /// Memory that it takes.
    fn bytes(&self) -> usize {
        let texts = self.details.iter();
        let texts = texts.map(|(name, text)| name.len() + text.capacity());
        let details = self.details.capacity() * size_of::<(&'static str, String)>();
        let signed = self.client_signed.as_ref().map_or(0, |signed| {
            size_of::<ClientSigned>() + signed.text.capacity() + signed.mistake.len()
        });
        let own = size_of::<WhyRefused>() + self.code.capacity() + self.reason.capacity();
        own + details + texts.sum::<usize>() + signed
    }

    /// The reason of a failure, in the words of its response. Signatures in them are cut.
    pub fn of(failure: &Failure) -> Box<WhyRefused> {
        let details: Vec<_> = failure
            .details
            .iter()
            .map(|(name, text)| (*name, without_secrets(text)))
            .collect();
        let detail = REASONS
            .into_iter()
            .find_map(|reason| details.iter().find(|(name, _)| *name == reason));
        let message = without_secret_parameters(&failure.message);
        let first = detail.map_or(&*message, |(_, text)| text.as_str());
        let phrase = first.lines().next().unwrap_or_default();
        let phrase = phrase
            .split(" Server used following")
            .next()
            .unwrap_or_default();
        let mut reason = phrase.to_owned();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Box::new(WhyRefused {
            code: failure.code.clone().into_owned(),
            reason,
            details,
            client_signed: failure.client_signed.as_ref().map(|signed| {
                Box::new(ClientSigned {
                    text: without_secrets(&signed.text),
                    mistake: signed.mistake.clone(),
                })
            }),
        })
    }
}

/// A text without what opens something: the signatures that a refusal quotes, for that of another
/// request could be a good one, the values of secret headers, and secret parameters. For details of
/// refusals, strings to sign and bodies. In JSON, line breaks are escaped.
pub fn without_secrets(text: &str) -> String {
    let line = |line: &str| {
        let parts: Vec<_> = line.split("\\n").map(without_secret_value).collect();
        parts.join("\\n")
    };
    let lines: Vec<_> = text.split('\n').map(line).collect();
    without_quoted_signatures(&lines.join("\n"))
}

/// A line without the value of a header that opens something, and without secret parameters.
fn without_secret_value(line: &str) -> String {
    match line.split_once(':') {
        Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
            let mut line = format!("{name}: ").into_bytes();
            push_credentials(&mut line, value.trim_start().as_bytes());
            String::from_utf8_lossy(&line).into_owned()
        }
        Some((name, value)) if is_secret(&name.to_ascii_lowercase()) => {
            let (value, end) = match value.strip_suffix('\r') {
                Some(value) => (value, "\r"),
                None => (value, ""),
            };
            let shown = without_secret(&name.to_ascii_lowercase(), value);
            format!("{name}:{shown}{end}")
        }
        _ => without_secret_parameters(line),
    }
}

/// A text without the signatures that it quotes.
fn without_quoted_signatures(text: &str) -> String {
    let quoted = "found in the HTTP request '";
    let mut parts = text.split(quoted);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        let after = part.split_once('\'').map_or("", |(_, after)| after);
        format!("{shown}{quoted}…'{after}")
    })
}

#[cfg(test)]
mod tests;
