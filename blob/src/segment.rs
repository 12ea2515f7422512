//! Segments: stretches of a page blob, and where their content is.

use crate::keys::File;
use crate::model::Pages;
use std::ops::Range;

/// A stretch of a page blob of which one layer, or none, has something to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) range: Range<u64>,
    pub(crate) what: Written,
}

/// What is known of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Never,
    Cleared,
    /// What the extent of the stretch has of its content, cut to begin with the stretch.
    Pages(Stored),
}

/// Pages and where their content is filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) file: File,
    /// The window that they belong to; `None` of those that have a row of their own.
    pub(crate) window: Option<u64>,
    pub(crate) pages: Pages,
}

impl Stored {
    /// The row of the content.
    pub(crate) fn content_key(&self) -> Vec<u8> {
        match self.window {
            Some(window) => self.file.page_content(window, self.pages.content),
            None => self.file.block_content(self.pages.content),
        }
    }

    pub(crate) fn skip(mut self, bytes: u64) -> Stored {
        self.pages.skipped += bytes;
        self
    }
}

impl Segment {
    /// What there is at the start of the segment, which then begins at `start`.
    pub(crate) fn advance(&mut self, start: u64) -> Written {
        let what = self.what;
        if let Written::Pages(stored) = what {
            self.what = Written::Pages(stored.skip(start - self.range.start));
        }
        self.range.start = start;
        what
    }
}
