//! The headers and query parameters that operations read, and the treatment of inputs that an
//! operation does not read.
//!
//! The row of an operation names its inputs (`Operation::reads`). Its handler sees no other input
//! of the tables below, so an input that a row leaves out is refused or has no effect, as the
//! tables say. Names that are not in the tables pass: credentials, routing, and headers that every
//! operation takes.

use crate::multipart::SubRequest;
use crate::parameters::Query;
use crate::request::context::{Context, ServiceKind};
use crate::response::error::{Failure, Result, common};
use crate::response::headers::METADATA_PREFIX;

/// A header or query parameter that some operation reads.
pub struct Input {
    /// The name, in lower case for headers. [`METADATA_PREFIX`] stands for all names that begin
    /// with it.
    pub name: &'static str,
    pub unread: Unread,
}

/// How an input that the operation does not read is treated. `--loose` ignores all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// Refused with `501`, with the name of the unsupported feature.
    Unsupported(&'static str),
    /// Refused with `501` if the operation changes something, otherwise ignored.
    UnsupportedByWrites(&'static str),
    /// `400 ConditionHeadersNotSupported` if the operation changes something, because the change
    /// would be made whether the condition holds or not.
    Condition,
    /// Refused with `400` if the operation changes something: the input would have no effect.
    Refused,
    /// Compared with the body (`Operation::check_content`).
    Checked,
    /// Ignored, with the reason why that does no harm.
    Ignored(&'static str),
}

use Unread::{Checked, Condition, Ignored, Refused, Unsupported, UnsupportedByWrites};

const CUSTOMER_KEY: Unread = UnsupportedByWrites("A customer-provided key of this operation");
const CHECKSUM_OF_RANGE: Unread =
    Ignored("Only responses with a range of a blob carry its checksum.");
const REPEATED: Unread = Ignored(
    "The first client for Node repeats the properties of a blob with each append, block, snapshot and page.",
);
const ODATA_VERSION: Unread = Ignored("`Accept` decides the format of a response.");
const OF_PATH: Unread = Ignored("Headers of a blob begin with `x-ms-blob-`.");
const PERMISSIONS: Unread = Unsupported("Setting permissions of a path");
const QUERY_OPTION: Unread = Unsupported("A query option of OData");

const fn input(name: &'static str, unread: Unread) -> Input {
    Input { name, unread }
}

/// All headers that operations read, in any order.
#[rustfmt::skip]
pub static HEADERS: &[Input] = &[
    // Conditions.
    input("if-match", Condition),
    input("if-modified-since", Condition),
    input("if-none-match", Condition),
    input("if-unmodified-since", Condition),
    input("x-ms-if-tags", Condition),
    input("x-ms-blob-if-match", Condition),
    input("x-ms-blob-if-modified-since", Condition),
    input("x-ms-blob-if-none-match", Condition),
    input("x-ms-blob-if-unmodified-since", Condition),
    input("x-ms-source-if-match", Condition),
    input("x-ms-source-if-modified-since", Condition),
    input("x-ms-source-if-none-match", Condition),
    input("x-ms-source-if-tags", Condition),
    input("x-ms-source-if-unmodified-since", Condition),
    input("x-ms-access-tier-if-modified-since", Condition),
    input("x-ms-access-tier-if-unmodified-since", Condition),
    input("x-ms-blob-condition-appendpos", Condition),
    input("x-ms-blob-condition-maxsize", Condition),
    input("x-ms-if-sequence-number-eq", Condition),
    input("x-ms-if-sequence-number-le", Condition),
    input("x-ms-if-sequence-number-lt", Condition),
    // Leases.
    input("x-ms-lease-id", Refused),
    input("x-ms-source-lease-id", Refused),
    input("x-ms-lease-action", Refused),
    input("x-ms-lease-break-period", Refused),
    input("x-ms-lease-duration", Refused),
    input("x-ms-proposed-lease-id", Refused),
    // Properties of a container, a blob or a queue.
    input(METADATA_PREFIX, Ignored("The official client for Python repeats the metadata of a blob with each of its blocks and pages.")),
    input("x-ms-tags", Refused),
    input("x-ms-access-tier", Refused),
    input("x-ms-blob-cache-control", REPEATED),
    input("x-ms-blob-content-disposition", REPEATED),
    input("x-ms-blob-content-encoding", REPEATED),
    input("x-ms-blob-content-language", REPEATED),
    input("x-ms-blob-content-length", Ignored("All blobs but page blobs are as long as their content.")),
    input("x-ms-blob-content-md5", REPEATED),
    input("x-ms-blob-content-type", REPEATED),
    input("x-ms-blob-sequence-number", Refused),
    input("x-ms-sequence-number-action", Refused),
    input("x-ms-immutability-policy-mode", Refused),
    input("x-ms-immutability-policy-until-date", Refused),
    input("x-ms-legal-hold", Refused),
    input("x-ms-expiry-option", Unsupported("An expiry given with another operation than Set Blob Expiry")),
    input("x-ms-expiry-time", Refused),
    input("x-ms-blob-public-access", Refused),
    input("x-ms-default-encryption-scope", Refused),
    input("x-ms-deny-encryption-scope-override", Refused),
    // Encryption.
    input("x-ms-encryption-scope", Unsupported("An encryption scope of this operation")),
    input("x-ms-encryption-algorithm", CUSTOMER_KEY),
    input("x-ms-encryption-key", CUSTOMER_KEY),
    input("x-ms-encryption-key-sha256", CUSTOMER_KEY),
    input("x-ms-source-encryption-algorithm", Refused),
    input("x-ms-source-encryption-key", Refused),
    input("x-ms-source-encryption-key-sha256", Refused),
    // Content.
    input("content-md5", Checked),
    input("x-ms-content-crc64", Checked),
    input("x-ms-structured-body", Unsupported("A structured body of this operation")),
    input("x-ms-structured-content-length", Refused),
    input("x-ms-blob-type", Ignored("Only Put Blob creates blobs of several types.")),
    input("range", Ignored("Servers ignore it where they define no ranges (RFC 9110, section 14.2).")),
    input("x-ms-range", Refused),
    input("x-ms-range-get-content-crc64", CHECKSUM_OF_RANGE),
    input("x-ms-range-get-content-md5", CHECKSUM_OF_RANGE),
    input("x-ms-page-write", Refused),
    input("x-ms-previous-snapshot-url", Refused),
    // Copies.
    input("x-ms-copy-action", Refused),
    input("x-ms-copy-source", Refused),
    input("x-ms-copy-source-authorization", Refused),
    input("x-ms-copy-source-blob-properties", Refused),
    input("x-ms-copy-source-tag-option", Refused),
    input("x-ms-rehydrate-priority", Refused),
    input("x-ms-requires-sync", Ignored("Only copies of a whole blob can be asynchronous; all others are synchronous.")),
    input("x-ms-seal-blob", Refused),
    input("x-ms-source-content-crc64", Refused),
    input("x-ms-source-content-md5", Refused),
    input("x-ms-source-range", Refused),
    // Deletion and restoration.
    input("x-ms-delete-snapshots", Refused),
    input("x-ms-deleted-container-name", Refused),
    input("x-ms-deleted-container-version", Refused),
    input("x-ms-source-container-name", Refused),
    // Tables.
    input("dataserviceversion", ODATA_VERSION),
    input("maxdataserviceversion", ODATA_VERSION),
    input("prefer", Ignored("Only Insert Entity and Create Table return content that can be left out.")),
    // Data Lake Storage.
    input("x-ms-acl", Unsupported("Setting the access control list of a path")),
    input("x-ms-cache-control", OF_PATH),
    input("x-ms-content-disposition", OF_PATH),
    input("x-ms-content-encoding", OF_PATH),
    input("x-ms-content-language", OF_PATH),
    input("x-ms-content-md5", OF_PATH),
    input("x-ms-content-type", OF_PATH),
    input("x-ms-encryption-context", Unsupported("An encryption context of a path")),
    input("x-ms-group", Unsupported("Setting the owning group of a path")),
    input("x-ms-owner", Unsupported("Setting the owner of a path")),
    input("x-ms-permissions", PERMISSIONS),
    input("x-ms-properties", Unsupported("A property list of Data Lake Storage")),
    input("x-ms-rename-source", Refused),
    input("x-ms-umask", PERMISSIONS),
    input("x-ms-undelete-source", Refused),
];

/// All query parameters that operations read, in any order.
#[rustfmt::skip]
pub static PARAMETERS: &[Input] = &[
    input("timeout", Ignored("`--request-timeout` bounds all requests.")),
    // Lists.
    input("delimiter", Refused),
    input("endBefore", Refused),
    input("include", Refused),
    input("marker", Refused),
    input("maxresults", Refused),
    input("prefix", Refused),
    input("showonly", Refused),
    input("startFrom", Refused),
    input("where", Refused),
    // Blobs.
    input("blockid", Refused),
    input("blocklisttype", Refused),
    input("copyid", Refused),
    input("deletetype", Refused),
    input("prevsnapshot", Refused),
    input("snapshot", Refused),
    input("versionid", Refused),
    // Paths.
    input("beginFrom", Refused),
    input("close", Refused),
    input("continuation", Refused),
    input("directory", Refused),
    input("flush", Refused),
    input("forceFlag", Refused),
    input("fsAction", Refused),
    input("maxRecords", Refused),
    input("mode", Refused),
    input("paginated", Refused),
    input("position", Refused),
    input("recursive", Refused),
    input("retainUncommittedData", Refused),
    input("upn", Ignored("Object ids are returned as they were set, since no directory has their names.")),
    // Messages.
    input("messagettl", Refused),
    input("numofmessages", Refused),
    input("peekonly", Refused),
    input("popreceipt", Refused),
    input("visibilitytimeout", Refused),
    // Tables.
    input("$filter", Refused),
    input("$format", Ignored("A response without content has no format.")),
    input("$select", Refused),
    input("$top", Refused),
    input("NextPartitionKey", Refused),
    input("NextRowKey", Refused),
    input("NextTableName", Refused),
    input("$apply", QUERY_OPTION),
    input("$compute", QUERY_OPTION),
    input("$count", QUERY_OPTION),
    input("$expand", QUERY_OPTION),
    input("$inlinecount", QUERY_OPTION),
    input("$orderby", QUERY_OPTION),
    input("$search", QUERY_OPTION),
    input("$skip", QUERY_OPTION),
    input("$skiptoken", QUERY_OPTION),
];

/// A set of inputs: one bit for each row of [`HEADERS`] and [`PARAMETERS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inputs {
    headers: u128,
    parameters: u64,
}

/// The checksums of a body.
pub const CHECKSUMS: Inputs = headers(&["content-md5", "x-ms-content-crc64"]);

/// Rows that a request may have several times: one row stands for all metadata, and `prefer` is a
/// list.
const REPEATABLE: Inputs = headers(&[METADATA_PREFIX, "prefer"]);

/// Inputs that may not be empty in operations that read them or change something. They decide what
/// a request is about, or whether it happens: a client whose variable is empty would overwrite or
/// delete the wrong thing.
const NEVER_EMPTY: Inputs = union(&[
    headers(&[
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "x-ms-if-tags",
        "x-ms-blob-if-match",
        "x-ms-blob-if-modified-since",
        "x-ms-blob-if-none-match",
        "x-ms-blob-if-unmodified-since",
        "x-ms-source-if-match",
        "x-ms-source-if-modified-since",
        "x-ms-source-if-none-match",
        "x-ms-source-if-tags",
        "x-ms-source-if-unmodified-since",
        "x-ms-access-tier-if-modified-since",
        "x-ms-access-tier-if-unmodified-since",
        "x-ms-blob-condition-appendpos",
        "x-ms-blob-condition-maxsize",
        "x-ms-if-sequence-number-eq",
        "x-ms-if-sequence-number-le",
        "x-ms-if-sequence-number-lt",
        "x-ms-lease-id",
        "x-ms-source-lease-id",
        "x-ms-copy-source",
        "x-ms-copy-source-authorization",
        "x-ms-source-range",
        "x-ms-source-content-crc64",
        "x-ms-source-content-md5",
        "x-ms-blob-type",
        "x-ms-blob-content-length",
        "x-ms-sequence-number-action",
        "x-ms-page-write",
        "x-ms-range",
        "x-ms-delete-snapshots",
        "x-ms-immutability-policy-mode",
        "x-ms-immutability-policy-until-date",
        "x-ms-legal-hold",
        "x-ms-encryption-algorithm",
        "x-ms-encryption-key",
        "x-ms-encryption-key-sha256",
        "x-ms-encryption-scope",
    ]),
    parameters(&["snapshot", "versionid", "prevsnapshot", "deletetype"]),
]);

/// Inputs of [`NEVER_EMPTY`] that requests of Data Lake Storage may send empty: the official client
/// for Python sends an empty lease id with the rename of a path without a lease.
const EMPTY_IN_DATA_LAKE: Inputs = headers(&["x-ms-source-lease-id"]);

const _: () = assert!(HEADERS.len() <= u128::BITS as usize);
const _: () = assert!(PARAMETERS.len() <= u64::BITS as usize);

/// The set of these headers. In a constant, a name missing from [`HEADERS`] does not compile.
pub const fn headers(names: &[&str]) -> Inputs {
    let mut set = Inputs::NONE;
    let mut next = 0;
    while next < names.len() {
        set.headers |= 1 << index_of(HEADERS, names[next]);
        next += 1;
    }
    set
}

/// The set of these parameters, which must be in [`PARAMETERS`].
pub const fn parameters(names: &[&str]) -> Inputs {
    let mut set = Inputs::NONE;
    let mut next = 0;
    while next < names.len() {
        set.parameters |= 1 << index_of(PARAMETERS, names[next]);
        next += 1;
    }
    set
}

/// The union of these sets.
pub const fn union(sets: &[Inputs]) -> Inputs {
    let mut union = Inputs::NONE;
    let mut next = 0;
    while next < sets.len() {
        union.headers |= sets[next].headers;
        union.parameters |= sets[next].parameters;
        next += 1;
    }
    union
}

impl Inputs {
    pub const NONE: Inputs = Inputs {
        headers: 0,
        parameters: 0,
    };

    /// Whether the set has a header, or a parameter if the name begins with `?`.
    #[cfg(any(test, feature = "testing"))]
    pub fn contains(self, name: &str) -> bool {
        match name.strip_prefix('?') {
            Some(name) => PARAMETERS_BY_LENGTH
                .find(PARAMETERS, name)
                .is_some_and(|index| self.has_parameter(index)),
            None => header_index(name).is_some_and(|index| self.has_header(index)),
        }
    }

    fn without(self, others: Inputs) -> Inputs {
        Inputs {
            headers: self.headers & !others.headers,
            parameters: self.parameters & !others.parameters,
        }
    }

    /// Whether this set contains all inputs of the other.
    pub fn covers(self, other: Inputs) -> bool {
        let headers = self.headers & other.headers == other.headers;
        headers && self.parameters & other.parameters == other.parameters
    }

    fn has_header(self, index: usize) -> bool {
        self.headers & (1 << index) != 0
    }

    fn has_parameter(self, index: usize) -> bool {
        self.parameters & (1 << index) != 0
    }

    fn headers(self) -> impl Iterator<Item = &'static Input> {
        rows(HEADERS, self.headers)
    }

    fn parameters(self) -> impl Iterator<Item = &'static Input> {
        rows(PARAMETERS, self.parameters.into())
    }

    /// Refuses the first of these unread inputs whose treatment is a refusal.
    fn check_unread(self, changes_state: bool) -> Result<()> {
        for header in self.headers() {
            header.check_unread("HeaderName", changes_state)?;
        }
        for parameter in self.parameters() {
            parameter.check_unread("QueryParameterName", changes_state)?;
        }
        Ok(())
    }
}

/// The rows whose bits are set. Skips the others, which are most, without looking at them.
fn rows(inputs: &'static [Input], mut set: u128) -> impl Iterator<Item = &'static Input> {
    std::iter::from_fn(move || {
        let input = inputs.get(set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(input)
    })
}

/// Refuses a request with an input that its operation does not read, if the tables say so. Hides
/// all inputs that the operation does not read from the handler.
pub fn admit(context: &mut Context, reads: Inputs, changes_state: bool, loose: bool) -> Result<()> {
    let never_empty = match context.speaks_data_lake {
        true => NEVER_EMPTY.without(EMPTY_IN_DATA_LAKE),
        false => NEVER_EMPTY,
    };
    let headers = context.headers.iter();
    let unread = unread(headers, &context.query, reads, never_empty, changes_state);
    let unread = unread.map_err(|failure| match context.service {
        // Source: recorded responses of the hosted service.
        ServiceKind::Table if failure.code == common::INVALID_HEADER_VALUE.1 => {
            common::INVALID_INPUT.into()
        }
        _ => failure,
    })?;
    if unread == Inputs::NONE {
        return Ok(());
    }
    if !loose {
        unread.check_unread(changes_state)?;
    }
    for header in unread.headers() {
        context.headers.remove_all(header.name);
    }
    for parameter in unread.parameters() {
        context.query.remove(parameter.name);
    }
    Ok(())
}

/// Like [`admit`], for a part of a batch; hides nothing. `query` is that of the part's target.
pub fn check_part(
    part: &SubRequest,
    query: &Query,
    reads: Inputs,
    changes_state: bool,
    loose: bool,
) -> Result<()> {
    let headers = part.headers();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.into_owned()));
    let unread = unread(headers, query, reads, NEVER_EMPTY, changes_state)?;
    if loose {
        return Ok(());
    }
    unread.check_unread(changes_state)
}

/// The inputs of a request that are not in `reads`. A header without a value counts as absent; a
/// parameter without a value counts as present. Header names must be in lower case. Errors:
/// `MultipleConditionHeadersNotSupported` or `InvalidHeaderValue` for a header in `reads` that is
/// given twice, because a handler would see only one; `InvalidHeaderValue` or
/// `InvalidQueryParameterValue` for an empty input of `never_empty`.
fn unread<N: AsRef<str>, V: AsRef<[u8]>>(
    headers: impl Iterator<Item = (N, V)>,
    query: &Query,
    reads: Inputs,
    never_empty: Inputs,
    changes_state: bool,
) -> Result<Inputs> {
    let mut unread = Inputs::NONE;
    let mut read = Inputs::NONE;
    for (name, value) in headers {
        let Some(index) = header_index(name.as_ref()) else {
            continue;
        };
        let is_empty = value.as_ref().trim_ascii().is_empty();
        let matters = changes_state || reads.has_header(index);
        if is_empty && matters && never_empty.has_header(index) {
            return Err(Failure::header(HEADERS[index].name, ""));
        }
        if reads.has_header(index) {
            if read.has_header(index) && !REPEATABLE.has_header(index) {
                return Err(repeated(&HEADERS[index]));
            }
            read.headers |= 1 << index;
        } else if !is_empty {
            unread.headers |= 1 << index;
        }
    }
    for (name, value) in query.pairs() {
        let Some(index) = PARAMETERS_BY_LENGTH.find(PARAMETERS, name) else {
            continue;
        };
        let matters = changes_state || reads.has_parameter(index);
        if value.is_empty() && matters && never_empty.has_parameter(index) {
            let name = PARAMETERS[index].name;
            return Err(Failure::parameter(name, "", "It must not be empty."));
        }
        if !reads.has_parameter(index) {
            unread.parameters |= 1 << index;
        }
    }
    Ok(unread)
}

fn repeated(header: &Input) -> Failure {
    let failure = match header.unread {
        Condition => Failure::new(
            400,
            "MultipleConditionHeadersNotSupported",
            "Multiple condition headers are not supported.",
        ),
        _ => common::INVALID_HEADER_VALUE.into(),
    };
    failure.with("HeaderName", header.name)
}

impl Input {
    /// Refuses this input if its treatment is a refusal. Call it for an input that the operation
    /// does not read. `kind` is the element in which the error names the input.
    fn check_unread(&self, kind: &'static str, changes_state: bool) -> Result<()> {
        let unsupported = |feature| Failure::unsupported(format!("{feature} ({})", self.name));
        let refused = |code, message| Failure::new(400, code, message).with(kind, self.name);
        Err(match self.unread {
            Unsupported(feature) => unsupported(feature),
            UnsupportedByWrites(feature) if changes_state => unsupported(feature),
            Condition if changes_state => refused(
                "ConditionHeadersNotSupported",
                "Condition headers are not supported.",
            ),
            Refused if changes_state && kind == "HeaderName" => refused(
                "UnsupportedHeader",
                "One of the HTTP headers specified in the request is not supported.",
            ),
            Refused if changes_state => refused(
                "UnsupportedQueryParameter",
                "One of the query parameters specified in the request URI is not supported.",
            ),
            UnsupportedByWrites(_) | Condition | Refused | Checked | Ignored(_) => return Ok(()),
        })
    }
}

/// The row of a header, whose name is in lower case.
fn header_index(name: &str) -> Option<usize> {
    if name.starts_with(METADATA_PREFIX) {
        return Some(METADATA);
    }
    HEADERS_BY_LENGTH.find(HEADERS, name)
}

const METADATA: usize = index_of(HEADERS, METADATA_PREFIX);

/// The row of a name. Panics if there is none, which fails the compilation of a constant.
const fn index_of(inputs: &[Input], name: &str) -> usize {
    let mut index = 0;
    while index < inputs.len() {
        if is_same(inputs[index].name.as_bytes(), name.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("the table has no input of this name")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Finds rows by the length of their names. Few names share a length, and every request looks up
/// all of its headers.
struct ByLength {
    /// The first row whose name has this length.
    first: [u8; NAME_BYTES_MAX + 1],
    /// The next row whose name has the same length.
    next: [u8; ROWS_MAX],
}

const NAME_BYTES_MAX: usize = 48;
const ROWS_MAX: usize = 128;
const END: u8 = u8::MAX;

static HEADERS_BY_LENGTH: ByLength = ByLength::new(HEADERS);
static PARAMETERS_BY_LENGTH: ByLength = ByLength::new(PARAMETERS);

impl ByLength {
    const fn new(inputs: &[Input]) -> ByLength {
        let mut rows = ByLength {
            first: [END; NAME_BYTES_MAX + 1],
            next: [END; ROWS_MAX],
        };
        let mut index = 0;
        while index < inputs.len() {
            let length = inputs[index].name.len();
            rows.next[index] = rows.first[length];
            rows.first[length] = index as u8;
            index += 1;
        }
        rows
    }

    fn find(&self, inputs: &[Input], name: &str) -> Option<usize> {
        let mut row = *self.first.get(name.len())?;
        let last_of = |name: &str| name.as_bytes().last().map(u8::to_ascii_lowercase);
        let last = last_of(name);
        while row != END {
            let index = usize::from(row);
            let known = inputs[index].name;
            // The last letter first: most names of one length differ in it, and have the first
            // letters in common.
            if last_of(known) == last && known.eq_ignore_ascii_case(name) {
                return Some(index);
            }
            row = self.next[index];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::context::ServiceKind;
    use crate::testing::request;

    const READS: Inputs = union(&[headers(&["x-ms-tags", "if-match"]), parameters(&["prefix"])]);

    fn outcome(target: &str, header: &str, changes_state: bool) -> (u16, String) {
        let headers = [(header, "1")];
        let mut context = request(ServiceKind::Blob, "PUT", target, "myaccount", &headers);
        match admit(&mut context, READS, changes_state, false) {
            Ok(()) => (200, String::new()),
            Err(failure) => (failure.status.as_u16(), failure.code.to_string()),
        }
    }

    #[test]
    fn unread_inputs_are_refused_or_ignored_as_the_tables_say() {
        for (target, header, status, code, status_of_read) in [
            ("/c/b", "x-ms-tags", 200, "", 200),
            ("/c/b", "X-MS-Tags", 200, "", 200),
            ("/c/b", "x-ms-new-in-2031", 200, "", 200),
            ("/c/b", "x-ms-client-request-id", 200, "", 200),
            ("/c/b", "x-ms-blob-type", 200, "", 200),
            (
                "/c/b",
                "if-none-match",
                400,
                "ConditionHeadersNotSupported",
                200,
            ),
            ("/c/b", "x-ms-lease-id", 400, "UnsupportedHeader", 200),
            ("/c/b", "x-ms-meta-a", 200, "", 200),
            ("/c/b", "x-ms-encryption-key", 501, "NotImplemented", 200),
            ("/c/b", "x-ms-encryption-scope", 501, "NotImplemented", 501),
            ("/c?PREFIX=a", "if-match", 200, "", 200),
            ("/c?timeout=5&unknown=1", "if-match", 200, "", 200),
            (
                "/c?BlockID=AA==",
                "if-match",
                400,
                "UnsupportedQueryParameter",
                200,
            ),
            (
                "/c?popreceipt=",
                "if-match",
                400,
                "UnsupportedQueryParameter",
                200,
            ),
            ("/c?$orderby=a", "if-match", 501, "NotImplemented", 501),
        ] {
            let of_write = outcome(target, header, true);
            assert_eq!(of_write, (status, code.to_owned()), "{target} {header}");
            let of_read = outcome(target, header, false);
            assert_eq!(of_read.0, status_of_read, "{target} {header}");
        }
    }

    #[test]
    fn handlers_do_not_see_inputs_that_their_row_leaves_out() {
        let headers = [
            ("x-ms-tags", "a=b"),
            ("x-ms-lease-id", "1"),
            ("x-ms-meta-a", "1"),
            ("x-ms-meta-b", "2"),
            ("x-ms-owner", "me"),
            ("user-agent", "test"),
        ];
        let target = "/c?prefix=a&marker=b&comp=list";
        let mut context = request(ServiceKind::Blob, "PUT", target, "myaccount", &headers);
        admit(&mut context, READS, true, true).unwrap();
        let names: Vec<_> = context.headers.keys().map(|name| name.as_str()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(context.header("x-ms-tags").as_deref(), Some("a=b"));
        assert_eq!(context.query.get("prefix").as_deref(), Some("a"));
        assert_eq!(context.query.get("marker"), None);
        assert_eq!(context.comp(), "list");
    }

    #[test]
    fn names_are_in_one_row_and_found() {
        for (index, header) in HEADERS.iter().enumerate() {
            assert_eq!(header_index(header.name), Some(index), "{}", header.name);
            assert_eq!(header.name, header.name.to_ascii_lowercase());
        }
        for (index, parameter) in PARAMETERS.iter().enumerate() {
            let found = PARAMETERS_BY_LENGTH.find(PARAMETERS, &parameter.name.to_uppercase());
            assert_eq!(found, Some(index), "{}", parameter.name);
        }
    }

    fn admitted(target: &str, headers: &[(&str, &str)], changes_state: bool) -> String {
        let mut context = request(ServiceKind::Blob, "PUT", target, "myaccount", headers);
        match admit(&mut context, READS, changes_state, false) {
            Ok(()) => String::new(),
            Err(failure) => failure.code.to_string(),
        }
    }

    #[test]
    fn a_header_that_a_handler_reads_is_given_once() {
        let twice = |name: &'static str| admitted("/c/b", &[(name, "1"), (name, "2")], true);
        assert_eq!(twice("if-match"), "MultipleConditionHeadersNotSupported");
        assert_eq!(twice("x-ms-tags"), "InvalidHeaderValue");
        let mixed = [("if-match", "1"), ("x-ms-tags", "2")];
        assert_eq!(admitted("/c/b", &mixed, true), "");
        // An unread header may be repeated: no handler sees it.
        assert_eq!(twice("x-ms-client-request-id"), "");
    }

    #[test]
    fn some_inputs_are_never_empty() {
        let header = |name: &'static str, changes| admitted("/c/b", &[(name, " ")], changes);
        let row = HEADERS.iter().position(|row| {
            NEVER_EMPTY.contains(row.name)
                && !READS.contains(row.name)
                && row.name != METADATA_PREFIX
        });
        let name = HEADERS[row.unwrap()].name;
        assert_eq!(header(name, true), "InvalidHeaderValue", "{name}");
        assert_eq!(header(name, false), "", "{name}");
        let row = PARAMETERS
            .iter()
            .position(|row| NEVER_EMPTY.contains(&format!("?{}", row.name)));
        let name = PARAMETERS[row.unwrap()].name;
        let parameter =
            |value: &str, changes| admitted(&format!("/c?{name}={value}"), &[], changes);
        assert_eq!(parameter("", true), "InvalidQueryParameterValue", "{name}");
        assert_eq!(parameter("", false), "", "{name}");
        assert_ne!(parameter("1", true), "InvalidQueryParameterValue", "{name}");
    }

    #[test]
    fn a_set_covers_its_subsets() {
        let all = union(&[READS, headers(&["x-ms-lease-id"]), parameters(&["marker"])]);
        let sets = [
            Inputs::NONE,
            headers(&["if-match"]),
            parameters(&["prefix"]),
            READS,
            all,
        ];
        for (at, one) in sets.into_iter().enumerate() {
            assert!(all.covers(one) && one.covers(one) && one.covers(Inputs::NONE));
            assert_eq!(one.covers(all), at == 4);
            assert!(!one.without(one).covers(READS));
            assert!(all.without(one).covers(headers(&["x-ms-lease-id"])) == (at < 4));
            assert!(all.without(one).covers(parameters(&["marker"])) == (at < 4));
        }
        assert!(!headers(&["if-match"]).covers(READS) && !parameters(&["prefix"]).covers(READS));
        assert!(
            !all.without(READS).contains("if-match") && !all.without(READS).contains("?prefix")
        );
    }

    /// Source: recorded responses of the hosted service.
    #[test]
    fn tables_refuse_a_repeated_header_in_their_own_words() {
        let twice = |service, name: &'static str| {
            let headers = [(name, "1"), (name, "2")];
            let mut context = request(service, "PUT", "/c/b", "myaccount", &headers);
            admit(&mut context, READS, true, false)
                .unwrap_err()
                .code
                .clone()
        };
        assert_eq!(twice(ServiceKind::Table, "x-ms-tags"), "InvalidInput");
        assert_eq!(twice(ServiceKind::Blob, "x-ms-tags"), "InvalidHeaderValue");
        let code = "MultipleConditionHeadersNotSupported";
        assert_eq!(twice(ServiceKind::Table, "if-match"), code);
    }

    #[test]
    fn a_part_of_a_batch_is_checked_like_a_request() {
        let refused = |header: &str, loose| {
            let batch = format!(
                "--b\r\nContent-Type: application/http\r\n\r\nPUT /c/b HTTP/1.1\r\n{header}\r\n\r\n--b--"
            );
            let batch = axum::body::Bytes::from(batch);
            let parts = crate::multipart::read_each("multipart/mixed; boundary=b", &batch);
            let part = parts.unwrap().remove(0).1;
            let query = Query::parse("").unwrap();
            let checked = check_part(&part, &query, READS, true, loose);
            checked.err().map(|failure| failure.code.to_string())
        };
        assert_eq!(refused("X-MS-Tags: a", false), None);
        let unread = "X-MS-Lease-Id: 1";
        assert_eq!(refused(unread, false).as_deref(), Some("UnsupportedHeader"));
        assert_eq!(refused(unread, true), None);
        let empty = refused("If-Modified-Since: ", true);
        assert_eq!(empty.as_deref(), Some("InvalidHeaderValue"));
    }
}
