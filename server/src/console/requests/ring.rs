//! The last requests in memory: what the pages of Requests and `lazurite requests` show.
//!
//! Bounded by number and by bytes; the oldest are dropped and counted, but for the last ones of resources that busier ones push out
//! (`aside.rs`). A record costs its request one copy of the head, one of the start
//! of each body (`request/body_copy.rs`), and one short lock at its end. Watchers poll, so there is no further cost without them.
//! Requests that come faster than people could read them are only counted, unless they are refused or fail: see
//! [`SECOND_RECORDS_MAX`]. Secrets in heads are cut before a record is kept, those in bodies before they are shown.
//!
//! Bodies take at most half of the ring's bytes. To make room, the bodies of the oldest records are dropped before the records are.

use crate::accounts::{SECONDARY, names_account};
use crate::console::requests::aside::Aside;
use crate::layers::access_log::RequestLog;
use crate::local_services::OWN_REQUEST;
use crate::request::body_copy::{BodyCopy, Copied, CopiedBody, CopyBudget};
use crate::request::context::{RequestOrigin, ServiceKind, text_of};
use crate::request::target::{
    may_have_secret, redact, without_credentials, without_secret_parameters,
};
use crate::response::error::{ClientSigned, Failure, WRONG_SERVICE};
use axum::body::Body;
use axum::http::header::HeaderMap;
use axum::http::uri::PathAndQuery;
use axum::http::{Method, Request, Response, Uri};
use hyper::body::Body as _;
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
/// Requests of a second that are kept; of the others only those that are refused or fail, without their headers. A busy server does not
/// spend its time on records that are dropped before they can be read.
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
    pub operation: Cow<'static, str>,
    pub status: u16,
    pub refusal: Option<Box<WhyRefused>>,
    pub request_bytes: Option<u64>,
    pub response_bytes: Option<u64>,
    /// Whether the request was for a fork, which ends with the process.
    pub is_of_fork: bool,
    /// Whether an earlier run of the server has answered the request: it counts in no figure of this one.
    pub is_earlier: bool,
    /// A number for the container, queue or table; 0 if the request names none. Set by the ring.
    pub resource: u64,
    /// The request line, the headers, an empty line, and the headers of the response.
    pub(super) head: Vec<u8>,
    pub(super) bodies: Option<Bodies>,
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
    pub details: Vec<(Cow<'static, str>, String)>,
    /// The string that the client signed instead, if it is known.
    pub client_signed: Option<Box<ClientSigned>>,
}

/// A header as it was sent, secrets cut.
pub type Header = (String, String);

impl Record {
    fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.head)
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

    /// The start of the request's body, then that of the response; `None` if bodies are not kept. May hold secrets.
    pub fn bodies(&self) -> Option<[Copied; 2]> {
        let bodies = self.bodies.as_ref()?;
        Some([bodies.request.get(), bodies.response.get()])
    }

    /// Refused, failed, or a batch of which nothing was done.
    pub fn is_error(&self) -> bool {
        self.status >= 400 || self.refusal.is_some()
    }

    /// A number for the container, queue or table that the path names, of the account and service of the request. It is made for each
    /// request: the path is read as it was sent.
    fn resource_number(&self) -> u64 {
        let line = self.head.iter().position(|&byte| byte == b'\n');
        let line = String::from_utf8_lossy(&self.head[..line.unwrap_or(self.head.len())]);
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

    /// The part of a path that stands behind the account of the request, without slashes around it. A host with dots may name the account
    /// instead, as in `request/address.rs`.
    pub(super) fn below_account<'p>(&self, path: &'p str) -> &'p str {
        let path = path.trim_matches('/');
        let account = self.account.as_deref().unwrap_or_default();
        let names = |name: &str| names_account(name, account);
        let host = self.header("host").unwrap_or_default();
        let label = host.split(['.', ':']).next().unwrap_or_default();
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if host.contains('.') && names(label) || !names(first) {
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

    /// Memory that the record takes, without the bodies.
    pub fn bytes(&self) -> usize {
        let account = self.account.as_ref().map_or(0, String::capacity);
        let texts = self.head.capacity() + self.request_id.capacity() + account;
        let refusal = self.refusal.as_ref().map_or(0, |why| why.bytes());
        RECORD_BYTES + texts + self.operation.len() + refusal
    }
}

/// The value of the first line that has this name, before the first empty one.
fn value_in(lines: &[u8], name: &str) -> Option<String> {
    let lines = lines.split(|&byte| byte == b'\n');
    let mut lines = lines.take_while(|line| !line.is_empty());
    let value = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn lines(text: &str) -> Vec<Header> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The part of a record that is known before the request is handled; `None` in [`Ring::begin`] for requests that are not kept.
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

    /// Copies the start of the response's body while it is sent, unless the response is a key or a token.
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
    /// Those among the kept ones that earlier runs have answered.
    pub kept_earlier: u64,
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
    /// The present second since the start, and the requests in it that are kept. Threads that begin a second at the same time may let a
    /// few more pass.
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
    /// The position of the newest record of an earlier run.
    newest_earlier: u64,
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

    /// Drops the oldest record that no resource needs, but not the newest; `None` if there is no other.
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
        // Requests under way may hold copies that no drop of older ones frees: they get a little more.
        self.copies = Arc::new(CopyBudget::new(body_bytes_max, self.bytes_max / 4 * 3));
        self
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the head of a request that came at `started`, unless it is for a page of the console or nothing is kept.
    pub fn begin<B>(&self, request: &Request<B>, started: Instant) -> Option<Begun> {
        if self.count_max == 0 || request.uri().path().starts_with(crate::console::PREFIX) {
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
            is_of_fork,
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
            operation: operation.into(),
            status: response.status().as_u16(),
            refusal,
            request_bytes: log.request_bytes(),
            response_bytes: response.body().size_hint().exact(),
            is_of_fork,
            is_earlier: false,
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

    /// Keeps a record of an earlier run. Before the first request of this one.
    pub fn restore(&self, record: Record) {
        self.push(Record {
            is_earlier: true,
            ..record
        });
        let mut kept = self.kept();
        kept.newest_earlier = kept.newest;
    }

    pub fn totals(&self) -> Totals {
        let kept = self.kept();
        let skipped = self.skipped.0.load(Ordering::Relaxed);
        Totals {
            seen: kept.newest - kept.newest_earlier + skipped,
            errors: self.errors.load(Ordering::Relaxed),
            skipped,
            kept: kept.len() as u64,
            kept_earlier: (kept.len() - kept.behind(kept.newest_earlier).count()) as u64,
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

    /// The newest records behind position `after` that `is_wanted` accepts, at most `count_max`, newest first; and the position of the
    /// newest of all. `is_wanted` is asked under the lock of all requests.
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
    /// Whether the request was for a fork.
    pub is_of_fork: bool,
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
    if may_have_secret(target.as_bytes()) {
        head.extend_from_slice(without_credentials(target).as_bytes());
    } else {
        head.extend_from_slice(target.as_bytes());
    }
    head.truncate(HEAD_BYTES_MAX);
    head.push(b'\n');
    head
}

/// Appends headers, one a line, until the head is too long. Secrets are cut.
pub fn push_headers(head: &mut Vec<u8>, headers: &HeaderMap) {
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
            _ if may_have_secret(value.as_bytes()) => {
                head.extend_from_slice(without_secret_parameters(&text_of(value)).as_bytes());
            }
            _ => head.extend_from_slice(value.as_bytes()),
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
        let details = self.details.capacity() * size_of::<(Cow<'static, str>, String)>();
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
            .map(|(name, text)| (Cow::Borrowed(*name), without_secrets(text)))
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

/// A text without what opens something: the signatures that a refusal quotes, for that of another request could be a good one, the values
/// of secret headers, and secret parameters. For details of refusals, strings to sign and bodies. In JSON, line breaks are escaped.
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
mod tests {
    use super::*;

    fn origin(id: u64) -> RequestOrigin {
        RequestOrigin {
            service: ServiceKind::Blob,
            now: SystemTime::UNIX_EPOCH,
            system_now: SystemTime::UNIX_EPOCH,
            sas_now: SystemTime::UNIX_EPOCH,
            peer: "127.0.0.1:1".parse().unwrap(),
            secure: false,
            request_id: format!("id-{id}"),
        }
    }

    fn serve(ring: &Ring, id: u64, target: &str, headers: &[(&str, &str)], status: u16) {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let log = RequestLog::new(&request);
        let mut response = Response::new(Body::from("hello"));
        *response.status_mut() = status.try_into().unwrap();
        let answer = Answer {
            account: Some("a".to_owned()),
            is_of_fork: false,
            operation: "GetBlob",
            refusal: None,
            response: &response,
        };
        if let Some(begun) = ring.begin(&request, log.started()) {
            ring.end(begun, &origin(id), &log, answer);
        }
    }

    #[test]
    fn requests_that_come_too_fast_are_counted_and_their_errors_kept() {
        let ring = Ring::new(100_000, usize::MAX);
        let all = 20 * u64::from(SECOND_RECORDS_MAX);
        for id in 0..all {
            serve(&ring, id, "/a/c/b?sig=x", &[("user-agent", "test")], 200);
        }
        serve(&ring, all, "/a/c/b?sig=x", &[("user-agent", "test")], 404);
        let totals = ring.totals();
        assert_eq!((totals.seen, totals.errors), (all + 1, 1));
        assert_eq!(totals.skipped + totals.kept, all + 1);
        assert!(totals.skipped > 0, "{totals:?}");
        let error = &ring.latest(1, |_| true)[0];
        assert_eq!(
            (error.status, &*error.target()),
            (404, "/a/c/b?sig=REDACTED")
        );
        assert_eq!(error.number, totals.newest);
    }

    #[test]
    fn oldest_requests_are_dropped_and_counted() {
        let ring = Ring::new(3, usize::MAX);
        for id in 1..=5 {
            serve(&ring, id, "/a/c/b", &[], if id == 5 { 404 } else { 200 });
        }
        let totals = ring.totals();
        assert_eq!((totals.seen, totals.errors, totals.kept), (5, 1, 3));
        let batch = ring.after(0, 10, |_| true);
        let numbers: Vec<_> = batch.records.iter().map(|record| record.number).collect();
        assert_eq!((numbers, batch.missed, batch.next), (vec![3, 4, 5], 2, 5));
        let batch = ring.after(4, 10, |_| true);
        assert_eq!((batch.records.len(), batch.missed, batch.next), (1, 0, 5));
        assert_eq!(ring.after(5, 10, |_| true).next, 5);
        assert_eq!(ring.after(u64::MAX, 10, |_| true).next, 5);
        assert_eq!(ring.after(0, 2, |_| true).next, 4);
        assert!(ring.find("id-2").is_none());
        assert_eq!(ring.find("id-4").unwrap().response_bytes, Some(5));
        assert_eq!(ring.latest_errors(9, |_| true)[0].number, 5);
    }

    #[test]
    fn a_busy_resource_leaves_the_last_requests_of_others() {
        let ring = Ring::new(100, usize::MAX);
        for id in 0..30 {
            serve(&ring, id, "/a/quiet/b?x=1", &[], 200);
        }
        for id in 30..35 {
            serve(&ring, id, "/a/Rare(PartitionKey='p',RowKey='r')", &[], 404);
        }
        for id in 35..500 {
            let target = if id % 2 == 0 {
                "/a/busy"
            } else {
                "/a?comp=list"
            };
            serve(&ring, id, target, &[], 200);
        }
        assert_eq!(ring.totals().kept, 100);
        let ids = |targets: &str| {
            let of = |record: &Record| record.target().starts_with(targets);
            let records = ring.latest(usize::MAX, of);
            let ids = records.iter().rev().map(|record| record.number - 1);
            ids.collect::<Vec<_>>()
        };
        assert_eq!(ids("/a/quiet"), (10..30).collect::<Vec<_>>());
        assert_eq!(ids("/a/Rare"), (30..35).collect::<Vec<_>>());
        assert!(ring.find("id-10").is_some() && ring.find("id-9").is_none());
        // Page by page, each dropped one is counted once.
        let (mut after, mut seen, mut missed) = (0, Vec::new(), 0);
        loop {
            let batch = ring.after(after, 7, |_| true);
            seen.extend(batch.records.iter().map(|record| record.number));
            missed += batch.missed;
            if batch.next == after {
                break;
            }
            after = batch.next;
        }
        assert!(seen.is_sorted() && seen.len() == 100, "{seen:?}");
        assert_eq!((after, missed), (500, 400));
    }

    #[test]
    fn resources_that_are_many_keep_a_share_of_the_ring() {
        let ring = Ring::new(100, usize::MAX);
        for id in 0..1000 {
            serve(&ring, id, &format!("/a/c{id}/b"), &[], 200);
        }
        for id in 1000..1500 {
            serve(&ring, id, "/a/busy/b", &[], 200);
        }
        let busy = ring.latest(usize::MAX, |record| record.target() == "/a/busy/b");
        assert!((75..=100).contains(&busy.len()), "{}", busy.len());
        assert_eq!(ring.totals().kept, 100);
        let none = Ring::new(1, usize::MAX);
        for id in 0..3 {
            serve(&none, id, &format!("/a/c{id}/b"), &[], 200);
        }
        assert_eq!((none.totals().kept, none.totals().newest), (1, 3));
    }

    /// A record as it is read from a file of the history.
    fn record(account: &str, service: ServiceKind, head: &str) -> Record {
        Record {
            number: 0,
            at: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
            service,
            peer: [127, 0, 0, 1].into(),
            secure: false,
            request_id: "id".to_owned(),
            account: Some(account.to_owned()),
            operation: "GetBlob".into(),
            status: 200,
            refusal: None,
            request_bytes: None,
            response_bytes: None,
            is_of_fork: false,
            is_earlier: true,
            resource: 0,
            head: head.into(),
            bodies: None,
        }
    }

    #[test]
    fn a_resource_is_the_same_however_its_account_is_addressed() {
        use ServiceKind::{Blob, Table};
        let of = |account, service, host: &str, path: &str| {
            let head = format!("GET {path}?x=/\nhost:{host}\n\n");
            record(account, service, &head)
        };
        let photos = of("acct", Blob, "127.0.0.1:1", "/acct/photos/b").resource_number();
        for (host, path, resource) in [
            ("127.0.0.1:1", "/acct/photos/a/b", "photos/a/b"),
            ("127.0.0.1:1", "/acct-secondary/photos", "photos"),
            ("127.0.0.1:1", "/acct--pr-42/photos/b", "photos/b"),
            ("127.0.0.1:1", "/acct//photos//b", "photos//b"),
            ("acct.blob.localhost:1", "/photos/b", "photos/b"),
            ("ACCT-secondary.blob.localhost", "/photos/b", "photos/b"),
            ("acct:1", "/acct/photos/b", "photos/b"),
        ] {
            let record = of("acct", Blob, host, path);
            assert_eq!(record.below_account(path), resource, "{host} {path}");
            assert_eq!(record.resource_number(), photos, "{host} {path}");
        }
        for (service, host, path, resource) in [
            // Containers whose names begin as that of the account does.
            (Blob, "acct.blob.localhost:1", "/accts/b", "accts/b"),
            (Blob, "acct.blob.localhost:1", "/acct/b", "acct/b"),
            (Blob, "127.0.0.1:1", "/acct/accts/b", "accts/b"),
            (Blob, "127.0.0.1:1", "/acct-secondary/acct/b", "acct/b"),
            (Blob, "127.0.0.1:1", "/other/photos/b", "other/photos/b"),
            (Table, "127.0.0.1:1", "/acct-secondary/acct/T(x)", "T(x)"),
            (Table, "127.0.0.1:1", "/acct/photos/b", "photos/b"),
        ] {
            let record = of("acct", service, host, path);
            assert_eq!(record.below_account(path), resource, "{host} {path}");
            assert!(![0, photos].contains(&record.resource_number()), "{path}");
        }
        let other = of("other", Blob, "127.0.0.1:1", "/other/photos/b");
        assert_ne!(other.resource_number(), photos);
        for path in ["/acct", "/acct/", "/acct-secondary"] {
            let account = of("acct", Blob, "127.0.0.1:1", path);
            assert_eq!(account.resource_number(), 0, "{path}");
        }
    }

    #[test]
    fn restored_requests_stay_within_the_bytes() {
        let long = || "x".repeat(4000);
        let refusal = |details, mistake: String| {
            Some(Box::new(WhyRefused {
                code: String::new(),
                reason: String::new(),
                details,
                client_signed: Some(Box::new(ClientSigned {
                    text: String::new(),
                    mistake: mistake.into(),
                })),
            }))
        };
        let plain = || record("a", ServiceKind::Blob, "GET /a/c/b\n\n");
        let texts: [&dyn Fn() -> Record; 5] = [
            &|| Record {
                operation: long().into(),
                ..plain()
            },
            &|| Record {
                account: Some(long()),
                ..plain()
            },
            &|| Record {
                refusal: refusal(vec![(long().into(), String::new())], String::new()),
                ..plain()
            },
            &|| Record {
                refusal: refusal(vec![(Cow::Borrowed(""), String::new()); 100], String::new()),
                ..plain()
            },
            &|| Record {
                refusal: refusal(Vec::new(), long()),
                ..plain()
            },
        ];
        for (field, text) in texts.iter().enumerate() {
            let ring = Ring::new(1000, 64 << 10);
            for _ in 0..100 {
                ring.restore(text());
            }
            let kept = ring.totals().kept;
            assert!((1..=16).contains(&kept), "{field}: {kept}");
        }
    }

    /// The counts of a ring, made anew.
    fn check_counts(ring: &Ring) {
        let kept = ring.kept();
        let all: Vec<_> = kept.behind(0).collect();
        let bytes: usize = all.iter().map(|record| record.bytes()).sum();
        assert_eq!((kept.bytes, kept.len()), (bytes, all.len()));
        assert!(all.is_sorted_by(|a, b| a.number < b.number));
        assert_eq!(all.last().map(|newest| newest.number), Some(kept.newest));
        assert!(kept.len() <= ring.count_max && kept.aside.len() <= ring.count_max / ASIDE_SHARE);
        assert!(kept.bytes <= ring.bytes_max || kept.len() == 1);
        let mut of_resource = HashMap::new();
        for record in kept.records.iter().filter(|record| record.resource != 0) {
            *of_resource.entry(record.resource).or_default() += 1;
        }
        assert_eq!(kept.of_resource, of_resource);
    }

    #[test]
    fn counts_hold_whatever_comes_and_each_resource_keeps_its_newest() {
        let mut random = 7_u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        for (count_max, bytes_max) in [(1, 4000), (40, usize::MAX), (40, 20_000), (400, 20_000)] {
            let ring = Ring::new(count_max, bytes_max);
            let mut served: HashMap<u64, Vec<u64>> = HashMap::new();
            for number in 1..=2000 {
                // One of them is as busy as all others.
                let name = if next(2) == 0 { 0 } else { next(12) };
                let length = next(3000) as usize;
                let head = format!("GET /a/c{name}/{}\n\n", "x".repeat(length));
                ring.restore(record("a", ServiceKind::Blob, &head));
                let resource = ring.kept().records.back().unwrap().resource;
                served.entry(resource).or_default().push(number);
                check_counts(&ring);
            }
            for (resource, served) in served {
                let kept = ring.latest(usize::MAX, |record| record.resource == resource);
                let kept: Vec<_> = kept.iter().rev().map(|record| record.number).collect();
                assert!(served.ends_with(&kept), "{kept:?} of {served:?}");
            }
        }
    }

    #[test]
    fn bodies_of_the_oldest_go_before_requests_do() {
        let ring = Ring::new(100, 64 << 10).with_bodies(8 << 10);
        for id in 0..10 {
            let request = Request::builder().uri("/a/c/b").body(()).unwrap();
            let log = RequestLog::new(&request);
            let begun = ring.begin(&request, log.started()).unwrap();
            begun.request_copy().unwrap().take(&[b'x'; 8 << 10]);
            let response = Response::new(Body::empty());
            let answer = Answer {
                account: Some("a".to_owned()),
                is_of_fork: false,
                operation: "PutBlob",
                refusal: None,
                response: &response,
            };
            ring.end(begun, &origin(id), &log, answer);
        }
        let records = ring.latest(usize::MAX, |_| true);
        assert_eq!(records.len(), 10);
        let has_body = |record: &Arc<Record>| !record.bodies().unwrap()[0].bytes.is_empty();
        let newest = records.iter().take_while(|record| has_body(record));
        assert_eq!(newest.count(), 4, "half of the bytes");
        assert!(!records[4..].iter().any(has_body));
        assert_eq!(records[9].bodies().unwrap()[0].passed, 8 << 10);
    }

    #[test]
    fn restored_requests_are_dropped_first_and_never_counted() {
        let ring = Ring::new(4, usize::MAX);
        for _ in 0..3 {
            ring.restore(Record {
                status: 500,
                ..record("a", ServiceKind::Blob, "GET /a\n\n")
            });
        }
        let counts = || {
            let totals = ring.totals();
            (totals.seen, totals.errors, totals.kept, totals.kept_earlier)
        };
        assert_eq!(counts(), (0, 0, 3, 3));
        serve(&ring, 1, "/a?comp=list", &[], 404);
        assert_eq!(counts(), (1, 1, 4, 3));
        serve(&ring, 2, "/a?comp=list", &[], 200);
        assert_eq!(counts(), (2, 1, 4, 2));
        for id in 3..10 {
            serve(&ring, id, "/a?comp=list", &[], 200);
        }
        assert_eq!(counts(), (9, 1, 4, 0));
    }

    #[test]
    fn ring_stays_within_its_bytes() {
        let ring = Ring::new(1000, 64 << 10);
        let long = "x".repeat(4000);
        for id in 0..100 {
            serve(&ring, id, &format!("/a/c/{long}"), &[], 200);
        }
        assert!(ring.totals().kept < 20);
        assert!(ring.kept().bytes <= 64 << 10);
        let huge = "y".repeat(100_000);
        serve(&ring, 0, "/a", &[("x-huge", &huge)], 200);
        assert_eq!(ring.latest(1, |_| true)[0].header("x-huge"), None);
    }

    #[test]
    fn secrets_do_not_reach_the_ring() {
        let ring = Ring::new(10, usize::MAX);
        let headers = [
            ("authorization", "SharedKey devstoreaccount1:c2VjcmV0"),
            ("cookie", "session=c2VjcmV0"),
            ("x-functions-key", "c2VjcmV0"),
            ("x-api-key", "c2VjcmV0"),
            ("api-key", "c2VjcmV0"),
            ("ocp-apim-subscription-key", "c2VjcmV0"),
            ("x-forwarded-authorization", "Bearer c2VjcmV0"),
            ("x-ms-authorization-auxiliary", "Bearer c2VjcmV0"),
            ("x-ms-encryption-key", "c2VjcmV0"),
            ("x-ms-copy-source", "http://h/a/c/b?sv=1&sig=c2VjcmV0"),
            ("x-ms-copy-source-authorization", "Bearer c2VjcmV0"),
            ("user-agent", "test"),
            ("x-other", "http://h/a?SIG=c2VjcmV0"),
            ("x-encoded", "http%3A%2F%2Fh%2Fa%3Fsig%3Dc2VjcmV0"),
            ("x-ms-meta-s", "AccountName=a;AccountKey=c2VjcmV0==;X=y"),
        ];
        let target = "/a/c/b?sv=1&sig=c2VjcmV0&code=c2VjcmV0&access_token=c2VjcmV0";
        serve(&ring, 1, target, &headers, 200);
        let record = ring.find("id-1").unwrap();
        assert_eq!(
            record.target(),
            "/a/c/b?sv=1&sig=REDACTED&code=REDACTED&access_token=REDACTED"
        );
        let memory = String::from_utf8_lossy(&record.head).into_owned();
        assert!(!memory.contains("c2VjcmV0"), "{memory}");
        assert_eq!(
            record.header("authorization").unwrap(),
            "SharedKey devstoreaccount1:…"
        );
        assert_eq!(record.header("user-agent").unwrap(), "test");
        let shown = format!("{:?} {}", record.headers(), record.target());
        assert!(!shown.contains("c2VjcmV0"), "{shown}");
    }

    #[test]
    fn details_of_a_refusal_hold_no_secrets() {
        let text = "Server used following string to sign: 'PUT\n\nx-ms-copy-source:http://h/a/c/b?sv=1&sig=c2VjcmV0\n\
                    x-ms-copy-source-authorization:Bearer c2VjcmV0\nx-ms-encryption-key:c2VjcmV0\nx-ms-version:2021-12-02\n/a/a/c/b'.";
        let refused = || {
            crate::response::error::common::AUTHENTICATION_FAILED
                .with("AuthenticationErrorDetail", text)
                .with("HeaderValue", "/a/c/b?sig=c2VjcmV0")
        };
        let failure = Failure {
            client_signed: Some(Box::new(ClientSigned {
                text: text.to_owned(),
                mistake: "A mistake.".into(),
            })),
            ..refused()
        };
        let why = format!("{:?}", WhyRefused::of(&failure));
        assert!(!why.contains("c2VjcmV0"), "{why}");
        assert!(why.contains("x-ms-version:2021-12-02"), "{why}");
    }

    #[test]
    fn reason_of_a_refused_signature_is_a_phrase_without_the_signature() {
        let failure = crate::response::error::common::AUTHENTICATION_FAILED.with(
            "AuthenticationErrorDetail",
            "The MAC signature found in the HTTP request 'c2ln' is not the same as any computed signature. Server used following string to \
             sign: 'GET\n\n'.",
        );
        let why = WhyRefused::of(&failure);
        assert_eq!(why.code, "AuthenticationFailed");
        assert_eq!(
            why.reason,
            "The MAC signature found in the HTTP request '…' is not the same as any computed signature."
        );
        assert!(why.details[0].1.contains("GET\n") && !why.details[0].1.contains("c2ln"));
    }

    #[test]
    fn pages_of_the_console_are_not_kept() {
        let ring = Ring::new(10, usize::MAX);
        serve(&ring, 1, "/_lazurite/requests", &[], 200);
        assert_eq!(ring.totals().seen, 0);
        let none = Ring::new(0, usize::MAX);
        serve(&none, 1, "/a/c", &[], 200);
        assert_eq!(none.totals().seen, 0);
    }
}
