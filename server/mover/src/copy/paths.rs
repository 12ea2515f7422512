//! `lazurite cp` and `mv`: copies blobs from one place to another: of one account, of two accounts,
//! or of two servers.
//!
//! If both places are in one store of one server, the server copies. Otherwise the content passes
//! through this program in pieces.

use crate::asking::{ask, send};
use crate::blobs::container::resource;
use crate::blobs::export::{quoted, reason_to_leave_out};
use crate::blobs::line::headers_of;
use crate::blobs::listed::Listed;
use crate::bulk::{
    BlobList, Outcome, Place, Work, delete_one, is_directory, list_blobs, reason_to_stay,
};
use crate::client::Client;
use crate::copy::blobs::{BlobCopy, NotCopied, datasets};
use crate::copy::journal::Journal;
use crate::copy::run::{CopyRun, Options};
use crate::error::{Error, Result};
use crate::existing::Existing;
use crate::fields::{header, text_field};
use crate::parallel::{Hand, in_parallel};
use crate::progress::Progress;
use lazurite_protocol::service_kind::ServiceKind;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long requests are repeated after a connection broke.
const RETRY: Duration = Duration::from_secs(30);
/// How often a pending copy is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Properties that Copy Blob does not take over.
const NOT_BY_SERVER: [&str; 3] = ["expires", "encryptionScope", "sealed"];

/// A copy of one blob, or of all below a directory.
pub struct BlobsCopy<'a> {
    pub from: &'a Client,
    pub to: &'a Client,
    pub source: Place,
    pub destination: Place,
    /// All blobs below the directories, instead of one.
    pub is_recursive: bool,
    /// Whether the source is deleted, once it was copied.
    pub moves: bool,
    /// Whether blobs of the destination stay.
    pub keeps_existing: bool,
}

impl BlobsCopy<'_> {
    /// Whether source and destination are the same.
    pub fn is_onto_itself(&self) -> Result<bool> {
        if !self.stays_in_container()? {
            return Ok(false);
        }
        let (from, to) = (&self.source, &self.destination);
        Ok(if self.is_recursive {
            from.directory() == to.directory()
        } else {
            from.name == to.name
        })
    }

    fn stays_in_container(&self) -> Result<bool> {
        let is_same = self.source.container == self.destination.container;
        Ok(is_same && self.from.shares_store(self.to, ServiceKind::Blob)?)
    }

    /// Lists, copies, and deletes if it is a move. `work` begins the work on a number of blobs.
    /// Error: the listing; nothing was copied.
    pub fn run(&self, work: impl FnOnce(u64) -> Work) -> Result<Outcome> {
        let options = Options {
            services: Vec::new(),
            containers: Vec::new(),
            queues: Vec::new(),
            tables: Vec::new(),
            existing: if self.keeps_existing {
                Existing::Refuse
            } else {
                Existing::Replace
            },
            parallel: 1,
            journal: None,
            retry: RETRY,
            takes_first_messages: false,
            reads_back: false,
        };
        let copy = CopyRun {
            from: self.from.with_retry(RETRY),
            to: self.to.with_retry(RETRY),
            options: &options,
            journal: Journal::default(),
            progress: Progress::silent(),
            known: AtomicU64::new(0),
            notes: Mutex::default(),
        };
        let (list, unreadable, directories) = self.list(&copy)?;
        let work = work(list.count);
        for sentence in unreadable {
            work.leave_out(sentence);
        }
        let mut copied = self.copy(&copy, list, &work);
        if self.moves && copied.is_ok() {
            copied = self.delete_directories(&copy, directories);
        }
        for sentence in copy.progress.end(usize::MAX) {
            work.leave_out(sentence);
        }
        let notes = copy.notes.into_inner();
        Ok(work.end(copied, notes.unwrap_or_else(PoisonError::into_inner)))
    }

    /// Deletes the directories that a move has emptied, from the last one listed to the first.
    fn delete_directories(&self, copy: &CopyRun<'_>, directories: Vec<String>) -> Result<()> {
        for name in directories.iter().rev() {
            let directory = resource(&self.source.container, name);
            match send(
                &copy.from,
                ServiceKind::Blob,
                "DELETE",
                &directory,
                &[],
                b"",
            ) {
                Err(error) if error.ends_all() => return Err(error),
                // Something is left in it, or somebody has deleted it.
                _ => {}
            }
        }
        Ok(())
    }

    /// The blobs to copy, sentences about those that cannot be read, and the directories of a
    /// hierarchical container, which a copy of what is in them makes again.
    fn list(&self, copy: &CopyRun<'_>) -> Result<(BlobList, Vec<String>, Vec<String>)> {
        let mut directories = Vec::new();
        let container = &self.source.container;
        let (mut others, mut unreadable) = (NotCopied::default(), Vec::new());
        let prefix = if self.is_recursive {
            self.source.directory()
        } else {
            self.source.name.clone()
        };
        let datasets = datasets(copy, container)?;
        let list = list_blobs(self.from, container, &prefix, datasets, &mut |blob| {
            let name = blob.child_name("Name");
            if !self.is_recursive && *name != self.source.name || others.counts(blob) {
                return false;
            }
            if is_directory(blob) {
                directories.push(name);
                return false;
            }
            if let Some(reason) = reason_to_leave_out(blob) {
                unreadable.push(format!("{container}/{name}: {reason}"));
                return false;
            }
            true
        })?;
        others.note(copy, container);
        Ok((list, unreadable, directories))
    }

    fn copy(&self, copy: &CopyRun<'_>, mut list: BlobList, work: &Work) -> Result<()> {
        let by_server = self.from.shares_server(self.to)?;
        let stays = self.is_recursive && self.stays_in_container()?;
        let produce = |hand: &mut Hand<'_, Listed>| {
            list.each(&mut |blob| {
                work.check()?;
                hand(blob)
            })
        };
        in_parallel(produce, |blob: Listed| {
            work.check()?;
            let to = self.name_of_copy(&blob.name);
            let item = format!("{}/{}", self.source.container, blob.name);
            // What is below the source is copied, too, perhaps later: it is never replaced.
            let keeps = self.keeps_existing || stays && to.starts_with(&self.source.directory());
            match self.copy_blob(copy, &blob, &to, (by_server, keeps)) {
                Ok(Done::Copied) => work.add(blob.bytes),
                Ok(Done::IsThere) => work.skip(),
                Ok(Done::LeftOut) => {}
                // The next blob would meet it too.
                Err(error) if error.code() == "ContainerNotFound" => return Err(error),
                Err(error) => work.fail(&item, error)?,
            }
            Ok(())
        })
    }

    fn name_of_copy(&self, name: &str) -> String {
        if !self.is_recursive {
            return self.destination.name.clone();
        }
        let rest = name.strip_prefix(&self.source.directory()).unwrap_or(name);
        format!("{}{rest}", self.destination.directory())
    }

    fn copy_blob(
        &self,
        copy: &CopyRun<'_>,
        blob: &Listed,
        to: &str,
        (by_server, keeps): (bool, bool),
    ) -> Result<Done> {
        let is_plain = NOT_BY_SERVER
            .iter()
            .all(|field| !blob.fields.contains_key(*field));
        let to = [self.destination.container.as_str(), to];
        let from = [self.source.container.as_str(), blob.name.as_str()];
        if keeps && self.is_there(copy, to)? {
            return Ok(Done::IsThere);
        }
        if by_server && is_plain {
            self.copy_by_server(copy, blob, to, keeps)?;
        } else if !BlobCopy::new(copy, from, to, blob).run()? {
            return Ok(Done::LeftOut);
        }
        if self.moves {
            let deleted = delete_one(&copy.from, from[0], blob, false);
            deleted.map_err(|error| match reason_to_stay(&error) {
                Some(reason) => format!("copied, but the source is there: {reason}").into(),
                None => error.within("copied, but the source is there"),
            })?;
        }
        Ok(Done::Copied)
    }

    fn is_there(&self, copy: &CopyRun<'_>, [container, name]: [&str; 2]) -> Result<bool> {
        let head = ask(
            &copy.to,
            ServiceKind::Blob,
            "HEAD",
            &resource(container, name),
        );
        match head {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets the server copy, and waits until it has.
    fn copy_by_server(
        &self,
        copy: &CopyRun<'_>,
        blob: &Listed,
        [container, name]: [&str; 2],
        keeps_existing: bool,
    ) -> Result<()> {
        let url = copy.from.readable_url(&self.source.container, &blob.name)?;
        let mut headers = vec![
            header("x-ms-copy-source", &url),
            header("x-ms-source-if-match", &quoted(&blob.etag)),
        ];
        if keeps_existing {
            headers.push(header("If-None-Match", "*"));
        }
        // The other properties come with the content.
        let tags = headers_of(&blob.fields)?;
        headers.extend(tags.into_iter().filter(|(name, _)| name == "x-ms-tags"));
        if let Some(tier) = text_field(&blob.fields, "tier")? {
            headers.push(header("x-ms-access-tier", tier));
        }
        let resource = resource(container, name);
        let reply = send(&copy.to, ServiceKind::Blob, "PUT", &resource, &headers, b"");
        let reply = reply.map_err(|error| match error.code() {
            "ConditionNotMet" | "SourceConditionNotMet" | "CannotVerifyCopySource" => {
                error.within("changed since it was listed")
            }
            _ => error,
        })?;
        let mut status = reply.header("x-ms-copy-status").map(str::to_owned);
        while status.as_deref() == Some("pending") {
            std::thread::sleep(LOOK_INTERVAL);
            let head = ask(&copy.to, ServiceKind::Blob, "HEAD", &resource)?;
            status = head.header("x-ms-copy-status").map(str::to_owned);
        }
        match status.as_deref() {
            None | Some("success") => Ok(()),
            Some(status) => Err(Error::from(format!("the server's copy ended as {status}"))),
        }
    }
}

/// What was done for a blob.
enum Done {
    Copied,
    IsThere,
    /// Noted by the copy.
    LeftOut,
}
