//! Conditional headers: the state of a blob that a request requires, and the errors if the blob is
//! in another state.
//!
//! Reads and writes combine the four HTTP headers (`If-Match`, `If-None-Match` and the two dates)
//! differently. The headers of a write are first reduced to one condition by
//! [`Conditions::for_write`], which may fail before anything is read. Then that condition is
//! checked against the blob. Source: Specifying conditional headers for Blob service operations.

use crate::cipher::CustomerKey;
use crate::error::{Error, Result};
use crate::etag::ETag;
use crate::guid::Guid;
use crate::model::{Blob, Container, Tags};
use crate::tags::TagCondition;
use std::time::SystemTime;

/// The conditional headers of one request. Dates count in whole seconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// `If-Match`.
    pub if_match: Option<ETags>,
    /// `If-None-Match`.
    pub if_none_match: Option<ETags>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<SystemTime>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<SystemTime>,
    /// `x-ms-if-tags`: of blobs only.
    pub if_tags: Option<TagCondition>,
    /// `x-ms-lease-id`.
    pub lease_id: Option<Guid>,
    /// Whether the caller may only create blobs and blocks, and not replace any.
    pub must_be_new: bool,
    /// The customer-provided key, `None` without one. A new blob gets this key; a read or a change
    /// must bring the blob's key.
    pub customer_key: Option<CustomerKey>,
    /// `x-ms-encryption-scope` of writes: a new blob gets this scope, and a change must name the
    /// blob's scope. `None` is the container's default.
    pub encryption_scope: Option<String>,
}

impl Conditions {
    /// There is no blob of the name.
    pub fn absent() -> Conditions {
        Conditions {
            if_none_match: Some(ETags::Any),
            ..Conditions::default()
        }
    }

    /// The blob has this ETag.
    pub fn unchanged(etag: ETag) -> Conditions {
        Conditions::default().and_unchanged(etag)
    }

    /// These conditions, and the blob has this ETag. Replaces `If-Match`.
    pub fn and_unchanged(self, etag: ETag) -> Conditions {
        Conditions {
            if_match: Some(ETags::OneOf(vec![etag.to_string()])),
            ..self
        }
    }
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ETags {
    /// `*`.
    Any,
    /// One of these ETags, without quotes; they may be any text.
    OneOf(Vec<String>),
}

impl ETags {
    /// Reads a header value: `*`, or ETags with commas between them. Quotes and `W/` are dropped.
    /// `None` if there is no ETag.
    pub fn parse(header: &str) -> Option<ETags> {
        let bare = |tag: &str| {
            let tag = tag.trim();
            tag.strip_prefix("W/")
                .unwrap_or(tag)
                .trim_matches('"')
                .to_string()
        };
        let tags: Vec<String> = header
            .split(',')
            .map(bare)
            .filter(|tag| !tag.is_empty())
            .collect();
        match tags.as_slice() {
            [] => None,
            tags if tags.iter().any(|tag| tag == "*") => Some(ETags::Any),
            _ => Some(ETags::OneOf(tags)),
        }
    }

    fn covers(&self, etag: ETag) -> bool {
        match self {
            ETags::Any => true,
            ETags::OneOf(tags) => {
                let etag = etag.to_string();
                tags.iter().any(|tag| tag.eq_ignore_ascii_case(&etag))
            }
        }
    }
}

/// The state that conditions are checked against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validators {
    pub(crate) etag: ETag,
    pub(crate) last_modified: SystemTime,
}

impl From<&Blob> for Validators {
    fn from(blob: &Blob) -> Self {
        Validators {
            etag: blob.etag,
            last_modified: blob.last_modified,
        }
    }
}

impl From<&Container> for Validators {
    fn from(container: &Container) -> Self {
        Validators {
            etag: container.etag,
            last_modified: container.last_modified,
        }
    }
}

/// The effect of a write on a blob's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// Creates the blob, or replaces it.
    Create,
    /// Changes a blob that must exist.
    Change,
}

/// The one condition of a write that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteCondition<'a> {
    None,
    IfMatch(&'a ETags),
    IfNoneMatch(&'a ETags),
    IfModifiedSince(SystemTime),
    IfUnmodifiedSince(SystemTime),
}

impl Conditions {
    /// Checks the conditions of a read against the blob: `If-Match and If-Unmodified-Since and
    /// (If-None-Match or If-Modified-Since)`. Errors: `ConditionNotMet` for the first two,
    /// `NotModified` for the parenthesis; `UnsatisfiableCondition` for `If-None-Match: *`.
    pub(crate) fn check_read(&self, current: Validators) -> Result<()> {
        if self.if_none_match == Some(ETags::Any) {
            return Err(Error::UnsatisfiableCondition);
        }
        let matched = self
            .if_match
            .as_ref()
            .is_none_or(|tags| tags.covers(current.etag));
        let unmodified = self
            .if_unmodified_since
            .is_none_or(|date| current.last_modified <= date);
        if !(matched && unmodified) {
            return Err(Error::ConditionNotMet);
        }
        let differs = self
            .if_none_match
            .as_ref()
            .map(|tags| !tags.covers(current.etag));
        let modified = self
            .if_modified_since
            .map(|date| current.last_modified > date);
        match (differs, modified) {
            (None, None) | (Some(true), _) | (_, Some(true)) => Ok(()),
            _ => Err(Error::NotModified {
                etag: current.etag,
                last_modified: current.last_modified,
            }),
        }
    }

    /// Returns the condition of a write. `If-Match` overrides `If-Unmodified-Since`, and
    /// `If-None-Match` overrides `If-Modified-Since`. Error: `MultipleConditionHeadersNotSupported`
    /// for other pairs and for lists of ETags.
    pub(crate) fn for_write(&self) -> Result<WriteCondition<'_>> {
        let condition = match (
            &self.if_match,
            &self.if_none_match,
            self.if_modified_since,
            self.if_unmodified_since,
        ) {
            (None, None, None, None) => WriteCondition::None,
            (Some(tags), None, None, _) => WriteCondition::IfMatch(one(tags)?),
            (None, Some(tags), _, None) => WriteCondition::IfNoneMatch(one(tags)?),
            (None, None, Some(date), None) => WriteCondition::IfModifiedSince(date),
            (None, None, None, Some(date)) => WriteCondition::IfUnmodifiedSince(date),
            _ => return Err(Error::MultipleConditionHeadersNotSupported),
        };
        Ok(condition)
    }

    /// Checks `x-ms-if-tags` against the tags of the blob.
    pub(crate) fn check_tags(&self, tags: &Tags) -> Result<()> {
        match &self.if_tags {
            Some(condition) if !condition.holds(tags) => Err(Error::ConditionNotMet),
            _ => Ok(()),
        }
    }

    /// The condition of a write to a container, which may have only dates.
    pub(crate) fn for_container_write(&self) -> Result<WriteCondition<'_>> {
        if self.if_match.is_some() || self.if_none_match.is_some() {
            return Err(Error::ConditionHeadersNotSupported);
        }
        self.for_write()
    }
}

fn one(tags: &ETags) -> Result<&ETags> {
    match tags {
        ETags::OneOf(tags) if tags.len() > 1 => Err(Error::MultipleConditionHeadersNotSupported),
        _ => Ok(tags),
    }
}

impl WriteCondition<'_> {
    /// Checks the condition of a write against the blob, if there is one.
    pub(crate) fn check(self, kind: WriteKind, current: Option<Validators>) -> Result<()> {
        match current {
            Some(current) => self.check_existing(kind, current),
            None => self.check_missing(kind),
        }
    }

    fn check_existing(self, kind: WriteKind, current: Validators) -> Result<()> {
        let met = match self {
            WriteCondition::None => true,
            WriteCondition::IfMatch(tags) => tags.covers(current.etag),
            // Only a creation requires that there is no blob. On a change, the hosted service was
            // observed to ignore this condition.
            WriteCondition::IfNoneMatch(ETags::Any) if kind == WriteKind::Create => {
                return Err(Error::BlobAlreadyExists);
            }
            WriteCondition::IfNoneMatch(ETags::Any) => true,
            WriteCondition::IfNoneMatch(tags) => !tags.covers(current.etag),
            WriteCondition::IfModifiedSince(date) => current.last_modified > date,
            WriteCondition::IfUnmodifiedSince(date) => current.last_modified <= date,
        };
        if met {
            Ok(())
        } else {
            Err(Error::ConditionNotMet)
        }
    }

    fn check_missing(self, kind: WriteKind) -> Result<()> {
        match (self, kind) {
            (WriteCondition::IfMatch(_), _) => Err(Error::ConditionNotMet),
            (_, WriteKind::Create) => Ok(()),
            (_, WriteKind::Change) => Err(Error::BlobNotFound),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    const CURRENT: u64 = 0x8DE_0000_0000_0001;

    fn seconds(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn current() -> Validators {
        Validators {
            etag: ETag(CURRENT),
            last_modified: seconds(1000),
        }
    }

    /// Parses conditions from words: `match=same`, `match=other`, `match=*`, `none=...`,
    /// `since=before`, `unsince=after` ...
    fn conditions(words: &str) -> Conditions {
        let mut conditions = Conditions::default();
        for word in words.split_whitespace() {
            let (header, value) = word.split_once('=').unwrap();
            let tags = || {
                let header = value
                    .replace("same", &ETag(CURRENT).quoted())
                    .replace("other", "\"0x8DE000000000002\"");
                ETags::parse(&header)
            };
            let date = || match value {
                "before" => Some(seconds(999)),
                "same" => Some(seconds(1000)),
                "after" => Some(seconds(1001)),
                _ => panic!("{value}"),
            };
            match header {
                "match" => conditions.if_match = tags(),
                "none" => conditions.if_none_match = tags(),
                "since" => conditions.if_modified_since = date(),
                "unsince" => conditions.if_unmodified_since = date(),
                _ => panic!("{header}"),
            }
        }
        conditions
    }

    fn shown(result: Result<()>) -> &'static str {
        match result {
            Ok(()) => "ok",
            Err(Error::ConditionNotMet) => "412",
            Err(Error::NotModified { .. }) => "304",
            Err(Error::BlobAlreadyExists) => "409",
            Err(Error::BlobNotFound) => "404",
            Err(Error::UnsatisfiableCondition) => "unsatisfiable",
            Err(Error::MultipleConditionHeadersNotSupported) => "multiple",
            Err(Error::ConditionHeadersNotSupported) => "unsupported",
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_combine_conditions_as_documented() {
        for (words, expected) in [
            ("", "ok"),
            ("match=same", "ok"),
            ("match=*", "ok"),
            ("match=other", "412"),
            ("match=other,same", "ok"),
            ("none=other", "ok"),
            ("none=same", "304"),
            ("none=other,same", "304"),
            ("none=*", "unsatisfiable"),
            ("since=before", "ok"),
            ("since=same", "304"),
            ("since=after", "304"),
            ("unsince=before", "412"),
            ("unsince=same", "ok"),
            ("unsince=after", "ok"),
            // `match` is paired with `unsince`, and `none` with `since`. If both pairs fail, the
            // first decides the status.
            ("match=same unsince=before", "412"),
            ("match=other unsince=after", "412"),
            ("match=same none=same", "304"),
            ("match=other none=same", "412"),
            ("unsince=before since=after", "412"),
            ("match=same unsince=same none=other since=after", "ok"),
            // Of none and since, one condition that holds is enough.
            ("none=same since=before", "ok"),
            ("none=other since=after", "ok"),
            ("none=same since=after", "304"),
        ] {
            assert_eq!(
                shown(conditions(words).check_read(current())),
                expected,
                "{words}"
            );
        }
    }

    fn write(words: &str, kind: WriteKind, current: Option<Validators>) -> &'static str {
        shown(
            conditions(words)
                .for_write()
                .and_then(|condition| condition.check(kind, current)),
        )
    }

    #[test]
    fn writes_meet_the_result_matrix() {
        use WriteKind::{Change, Create};
        // Conditions; then the outcomes of creating over a blob, changing a blob, creating where
        // there is none, changing an absent blob.
        for (words, create, change, create_missing, change_missing) in [
            ("", "ok", "ok", "ok", "404"),
            ("match=same", "ok", "ok", "412", "412"),
            ("match=other", "412", "412", "412", "412"),
            ("match=*", "ok", "ok", "412", "412"),
            ("none=same", "412", "412", "ok", "404"),
            ("none=other", "ok", "ok", "ok", "404"),
            ("none=*", "409", "ok", "ok", "404"),
            ("since=before", "ok", "ok", "ok", "404"),
            ("since=same", "412", "412", "ok", "404"),
            ("since=after", "412", "412", "ok", "404"),
            ("unsince=before", "412", "412", "ok", "404"),
            ("unsince=same", "ok", "ok", "ok", "404"),
            ("unsince=after", "ok", "ok", "ok", "404"),
            // The date that is paired with an ETag does not count.
            ("match=same unsince=before", "ok", "ok", "412", "412"),
            ("match=other unsince=after", "412", "412", "412", "412"),
            ("none=other since=after", "ok", "ok", "ok", "404"),
            ("none=same since=before", "412", "412", "ok", "404"),
            ("none=* since=before", "409", "ok", "ok", "404"),
        ] {
            assert_eq!(
                write(words, Create, Some(current())),
                create,
                "create, {words}"
            );
            assert_eq!(
                write(words, Change, Some(current())),
                change,
                "change, {words}"
            );
            assert_eq!(
                write(words, Create, None),
                create_missing,
                "create missing, {words}"
            );
            assert_eq!(
                write(words, Change, None),
                change_missing,
                "change missing, {words}"
            );
        }
    }

    #[test]
    fn writes_refuse_lists_and_pairs_without_a_meaning() {
        for words in [
            "match=same,other",
            "none=same,other",
            "match=same none=other",
            "match=same since=before",
            "none=other unsince=after",
            "since=before unsince=after",
            "match=same unsince=after since=before",
            "none=other since=before unsince=after",
            "match=same none=other since=before unsince=after",
        ] {
            assert_eq!(
                shown(conditions(words).for_write().map(|_| ())),
                "multiple",
                "{words}"
            );
        }
    }

    #[test]
    fn containers_take_dates_only() {
        for (words, expected) in [
            ("", "ok"),
            ("since=before", "ok"),
            ("unsince=after", "ok"),
            ("since=before unsince=after", "multiple"),
            ("match=same", "unsupported"),
            ("none=*", "unsupported"),
        ] {
            let result = conditions(words).for_container_write().map(|_| ());
            assert_eq!(shown(result), expected, "{words}");
        }
    }

    #[test]
    fn etags_are_read_with_and_without_quotes_and_weakness() {
        let one = |tag: &str| Some(ETags::OneOf(vec![tag.to_string()]));
        assert_eq!(ETags::parse("*"), Some(ETags::Any));
        assert_eq!(ETags::parse("\"*\""), Some(ETags::Any));
        assert_eq!(ETags::parse("\"0x8D\""), one("0x8D"));
        assert_eq!(ETags::parse(" 0x8D "), one("0x8D"));
        assert_eq!(ETags::parse("W/\"0x8D\""), one("0x8D"));
        assert_eq!(ETags::parse("anything else"), one("anything else"));
        for nothing in ["", " ", ",", "\"\""] {
            assert_eq!(ETags::parse(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn a_blob_that_must_be_unchanged_keeps_its_other_conditions() {
        let given = Conditions {
            if_match: Some(ETags::Any),
            if_none_match: ETags::parse("\"other\""),
            must_be_new: true,
            ..Conditions::default()
        };
        let unchanged = given.clone().and_unchanged(ETag(CURRENT));
        let if_match = ETags::parse(&ETag(CURRENT).to_string());
        assert_eq!(unchanged, Conditions { if_match, ..given });
        assert!(
            unchanged
                .if_match
                .is_some_and(|tags| tags.covers(ETag(CURRENT)))
        );
        let other = Conditions::unchanged(ETag(CURRENT + 1));
        assert!(
            !other
                .if_match
                .is_some_and(|tags| tags.covers(ETag(CURRENT)))
        );
    }
}
