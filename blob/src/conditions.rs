//! Conditional headers: what a request demands of the state it meets, and what it hears when that is not so.
//!
//! Reads and writes combine the four headers differently. A write's are first reduced to the one that counts
//! ([`Conditions::for_write`]), which may fail before anything is looked up; then it is held against the blob.
//! Source: Specifying conditional headers for Blob service operations.

use crate::error::{Error, Result};
use crate::etag::ETag;
use crate::model::{Blob, Container};
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
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ETags {
    /// `*`.
    Any,
    /// The ETags listed, without quotes; they may be any text.
    OneOf(Vec<String>),
}

impl ETags {
    /// Reads a header value: `*`, or ETags with commas between them. Quotes and `W/` are dropped. `None` if none is named.
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

/// What conditions are held against.
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

/// What a write does to a blob's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// Makes the blob, or makes it anew.
    Create,
    /// Changes a blob that must be there.
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
    /// Holds the conditions of a read against the blob it found.
    /// `If-Match and If-Unmodified-Since and (If-None-Match or If-Modified-Since)`: the failed half says how to answer.
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

    /// The condition of a write. An ETag wins over the date that means the same; other pairs, and lists, are an error.
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

    /// The condition of a write to a container, which has dates only.
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
    /// Holds the condition of a write against the blob it found, if there is one.
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
            // To create only what is not there. On a change of a blob the service was seen to let it pass.
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
