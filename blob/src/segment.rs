//! Segments: stretches of a page blob, and where their content is.

use crate::keys::{ContentName, File};
use crate::model::Pages;
use std::ops::Range;

/// A stretch of a page blob that comes from one layer, or from none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) range: Range<u64>,
    pub(crate) what: Written,
}

/// The state of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Never,
    Cleared,
    /// Pages, whose content begins with the stretch.
    Pages(Stored),
}

/// Pages and where their content is filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) file: File,
    /// The window that they belong to; `None` if they have a row of their own.
    pub(crate) window: Option<u64>,
    pub(crate) pages: Pages,
}

impl Stored {
    pub(crate) fn content_name(&self) -> ContentName {
        ContentName {
            file: self.file,
            window: self.window,
            content: self.pages.content,
        }
    }

    pub(crate) fn skip(mut self, bytes: u64) -> Stored {
        self.pages.skipped += bytes;
        self
    }
}

impl Segment {
    /// Returns the state at the start of the segment, and moves that to `start`.
    pub(crate) fn advance(&mut self, start: u64) -> Written {
        let what = self.what;
        if let Written::Pages(stored) = what {
            self.what = Written::Pages(stored.skip(start - self.range.start));
        }
        self.range.start = start;
        what
    }
}
