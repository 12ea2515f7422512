//! The threads that write and read blobs, one for each kind of history: overwrites, snapshots,
//! appends, pages, leases, copies, deletions that are taken back.

use std::thread::Scope;

use lazurite_bench_common::Random;

use crate::soak::ledger::Kind;
use crate::soak::operations::{ACCOUNT, BlobId, Done, LeaseRequest, RETAINING_ACCOUNT};
use crate::soak::possible::Possible;
use crate::soak::state::{Failure, Services, Soak};

/// More than all steps of the clock together.
const RETENTION_DAYS: u16 = 30;
const UPLOADERS: u64 = 2;
const SNAPSHOTS_MAX: usize = 16;
/// An append blob that is longer is made anew.
const APPENDED_BYTES_MAX: usize = 64 << 10;
const PAGE: u64 = 512;
const PAGES: u64 = 64;
/// Blobs whose deletion was taken back, which are read again.
const UNDELETED_MAX: usize = 16;
const STILL: &str = "still";
const STILL_BYTES: usize = 4096;

type Content = Option<Vec<u8>>;

/// Creates the containers and the blob that no thread writes.
pub(super) fn prepare(services: &Services) -> Done<()> {
    let operations = &services.operations;
    for account in [ACCOUNT, RETAINING_ACCOUNT] {
        operations.create_container(account)?;
    }
    operations.keep_deleted_blobs(RETAINING_ACCOUNT, RETENTION_DAYS)?;
    operations.put_blob(blob_id(STILL), &[7; STILL_BYTES], None)
}

pub(super) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    soak: &'scope Soak,
    random: impl Fn(u64) -> Random,
) {
    for number in 0..UPLOADERS {
        let random = random(number);
        scope.spawn(move || overwrite(soak, number, random));
    }
    let kinds: [fn(&Soak, Random); 6] = [snapshots, appends, pages, leases, copies, undeletions];
    for (number, kind) in (UPLOADERS..).zip(kinds) {
        let random = random(number);
        scope.spawn(move || kind(soak, random));
    }
}

fn blob_id(name: &str) -> BlobId<'_> {
    BlobId {
        account: ACCOUNT,
        name,
        snapshot: None,
    }
}

fn snapshot_id<'a>(name: &'a str, time: &'a str) -> BlobId<'a> {
    BlobId {
        snapshot: Some(time),
        ..blob_id(name)
    }
}

/// `None` if there is no such blob.
fn read(services: &Services, blob: BlobId) -> Done<Content> {
    match services.operations.get_blob(blob) {
        Ok(content) => Ok(Some(content)),
        Err(failure) if failure.is("BlobNotFound") => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A blob of one writer.
struct Subject<'a> {
    soak: &'a Soak,
    account: &'static str,
    name: String,
    possible: Possible<Content>,
}

impl<'a> Subject<'a> {
    fn new(soak: &'a Soak, name: impl Into<String>) -> Subject<'a> {
        Subject {
            soak,
            account: ACCOUNT,
            name: name.into(),
            possible: Possible::new(None),
        }
    }

    fn id(&self) -> BlobId<'_> {
        BlobId {
            account: self.account,
            name: &self.name,
            snapshot: None,
        }
    }

    /// Sends a write that makes `content` of the blob. What a failed store has kept is found out
    /// once it is reopened.
    fn write(
        &mut self,
        name: &'static str,
        content: Content,
        write: impl FnOnce(&Services, BlobId) -> Done<()>,
    ) -> Option<()> {
        let blob = self.id();
        let outcome = self
            .soak
            .request(Kind::Write, name, |services| write(services, blob));
        self.possible.wrote(outcome, content);
        if outcome.is_none() {
            self.soak.wait_for_store();
            self.check();
        }
        outcome
    }

    fn put(&mut self, body: Vec<u8>) -> Option<()> {
        let content = Some(body.clone());
        self.write("put blob", content, |services, blob| {
            services.operations.put_blob(blob, &body, None)
        })
    }

    /// The blob must be as one of the possible writes left it.
    fn check(&mut self) {
        let blob = self.id();
        let found = self
            .soak
            .request(Kind::Read, "get blob", |services| read(services, blob));
        if let Some(found) = found
            && !self.possible.observed(&found)
        {
            let length = found.map_or(-1, |content| content.len() as i64);
            self.soak.ledger.wrong(format!(
                "{} of {length} bytes is none of what was written",
                self.name
            ));
        }
    }

    /// The content that was written last, empty if there is no blob.
    fn content(&self) -> Vec<u8> {
        self.possible.latest().clone().unwrap_or_default()
    }
}

fn noise(random: &mut Random, bytes: usize) -> Vec<u8> {
    let mut body = vec![0; bytes];
    random.fill(&mut body);
    body
}

fn overwrite(soak: &Soak, number: u64, mut random: Random) {
    let mut blob = Subject::new(soak, format!("overwritten {number}"));
    while !soak.is_over() {
        let bytes = [100, 10_000, 300_000][random.below(3) as usize];
        blob.put(noise(&mut random, bytes));
        blob.check();
    }
}

/// Takes a snapshot after each overwrite. Snapshots stay as they were taken; deleted ones are gone.
fn snapshots(soak: &Soak, mut random: Random) {
    let mut blob = Subject::new(soak, "with snapshots");
    let mut taken: Vec<(String, Content)> = Vec::new();
    while !soak.is_over() {
        let body = noise(&mut random, 2000);
        if blob.put(body).is_none() {
            continue;
        }
        let moment = soak.request(Kind::Write, "snapshot blob", |services| {
            services.operations.snapshot_blob(blob_id(&blob.name))
        });
        match moment {
            Some(moment) => taken.push((moment, blob.possible.latest().clone())),
            None => soak.wait_for_store(),
        }
        blob.check();
        if let Some((moment, content)) = taken.get(random.below(taken.len() as u64) as usize) {
            check_snapshot(soak, &blob.name, moment, content);
        }
        if taken.len() > SNAPSHOTS_MAX {
            let (moment, _) = taken.remove(random.below(SNAPSHOTS_MAX as u64) as usize);
            let deleted = soak.request(Kind::Write, "delete snapshot", |services| {
                let snapshot = snapshot_id(&blob.name, &moment);
                services.operations.delete_blob(snapshot)
            });
            match deleted {
                Some(()) => check_snapshot(soak, &blob.name, &moment, &None),
                None => soak.wait_for_store(),
            }
        }
    }
}

fn check_snapshot(soak: &Soak, name: &str, moment: &str, expected: &Content) {
    let found = soak.request(Kind::Read, "get snapshot", |services| {
        read(services, snapshot_id(name, moment))
    });
    if found.is_some_and(|found| found != *expected) {
        soak.ledger.wrong(format!(
            "a snapshot of {name} is not as it was taken, or is back"
        ));
    }
}

fn appends(soak: &Soak, mut random: Random) {
    let mut blob = Subject::new(soak, "appended");
    while !soak.is_over() {
        let mut content = blob.content();
        if blob.possible.latest().is_none() || content.len() > APPENDED_BYTES_MAX {
            blob.write("put append blob", Some(Vec::new()), |services, blob| {
                services.operations.put_append_blob(blob)
            });
            continue;
        }
        let length = 1 + random.below(700) as usize;
        let block = noise(&mut random, length);
        content.extend_from_slice(&block);
        blob.write("append block", Some(content), |services, blob| {
            services.operations.append_block(blob, &block)
        });
        if random.below(4) == 0 {
            blob.check();
        }
    }
}

fn pages(soak: &Soak, mut random: Random) {
    let mut blob = Subject::new(soak, "of pages");
    let bytes = PAGE * PAGES;
    while !soak.is_over() {
        if blob.possible.latest().is_none() {
            let zeros = Some(vec![0; bytes as usize]);
            blob.write("put page blob", zeros, |services, blob| {
                services.operations.put_page_blob(blob, bytes)
            });
            continue;
        }
        let first = random.below(PAGES);
        let count = 1 + random.below(4.min(PAGES - first));
        let range = first * PAGE..(first + count) * PAGE;
        let is_cleared = random.below(4) == 0;
        let part = if is_cleared {
            vec![0; (count * PAGE) as usize]
        } else {
            noise(&mut random, (count * PAGE) as usize)
        };
        let mut content = blob.content();
        content[range.start as usize..range.end as usize].copy_from_slice(&part);
        blob.write("put page", Some(content), |services, blob| {
            let written = (!is_cleared).then_some(&part[..]);
            services.operations.put_page(blob, range, written)
        });
        if random.below(4) == 0 {
            blob.check();
        }
    }
}

/// A leased blob takes no write without the id of its lease.
fn leases(soak: &Soak, mut random: Random) {
    let mut blob = Subject::new(soak, "leased");
    while !soak.is_over() {
        if blob.possible.latest().is_none() {
            blob.put(vec![0]);
            continue;
        }
        let Some(id) = lease(soak, &blob.name, LeaseRequest::Acquire) else {
            soak.wait_for_store();
            // A lease of unknown id may be held.
            lease(soak, &blob.name, LeaseRequest::Break);
            continue;
        };
        let refused = soak.request(Kind::Write, "put leased blob", |services| {
            let leased = blob_id(&blob.name);
            match services.operations.put_blob(leased, b"refused", None) {
                Ok(()) => Err(Failure::wrong(
                    "a leased blob takes a write without the lease's id",
                )),
                Err(failure) if failure.is("LeaseIdMissing") => Ok(()),
                Err(failure) => Err(failure),
            }
        });
        let body = noise(&mut random, 500);
        let content = Some(body.clone());
        let written = blob.write("put with lease", content, |services, blob| {
            services.operations.put_blob(blob, &body, Some(&id))
        });
        blob.check();
        if refused.is_none() || written.is_none() || random.below(4) == 0 {
            lease(soak, &blob.name, LeaseRequest::Break);
        } else {
            lease(soak, &blob.name, LeaseRequest::Release(&id));
        }
    }
}

/// The id of an acquired lease. `None` as well if it is held already, or if there is no lease to
/// break.
fn lease(soak: &Soak, name: &str, request: LeaseRequest) -> Option<String> {
    let outcome = soak.request(Kind::Write, "lease blob", |services| {
        let refusal = match request {
            LeaseRequest::Acquire => "LeaseAlreadyPresent",
            LeaseRequest::Break => "LeaseNotPresentWithLeaseOperation",
            LeaseRequest::Release(_) => "",
        };
        match services.operations.lease_blob(blob_id(name), request) {
            Err(failure) if failure.is(refusal) => Ok(None),
            leased => leased,
        }
    });
    outcome.flatten()
}

/// Copies a blob to another, changes the copy, and copies it back: each stays as it was when the
/// other changes.
fn copies(soak: &Soak, mut random: Random) {
    let mut blobs = [
        Subject::new(soak, "copied to"),
        Subject::new(soak, "copied fro"),
    ];
    while !soak.is_over() {
        let [source, destination] = &mut blobs;
        source.put(noise(&mut random, 3000));
        source.check();
        if source.possible.latest().is_some() {
            let (name, content) = (source.name.clone(), source.possible.latest().clone());
            destination.write("copy blob", content, |services, destination| {
                services.operations.copy_blob(blob_id(&name), destination)
            });
            destination.check();
        }
        blobs.swap(0, 1);
    }
}

/// Deletes blobs of an account that keeps them, and undeletes them.
fn undeletions(soak: &Soak, mut random: Random) {
    let mut undeleted: Vec<Subject> = Vec::new();
    for number in 0_u64.. {
        if soak.is_over() {
            return;
        }
        let mut blob = Subject::new(soak, format!("undeleted {number}"));
        blob.account = RETAINING_ACCOUNT;
        let body = noise(&mut random, 1000);
        if blob.put(body.clone()).is_none() {
            continue;
        }
        let deleted = blob.write("delete blob", None, |services, blob| {
            services.operations.delete_blob(blob)
        });
        blob.check();
        if deleted.is_none() {
            continue;
        }
        blob.write("undelete blob", Some(body), |services, blob| {
            services.operations.undelete_blob(blob)
        });
        blob.check();
        undeleted.push(blob);
        if undeleted.len() > UNDELETED_MAX {
            let mut oldest = undeleted.remove(0);
            oldest.check();
        }
    }
}

/// Reads the blob that no thread writes.
pub(super) fn read_still(services: &Services) -> Done<()> {
    match read(services, blob_id(STILL))? {
        Some(content) if content == [7; STILL_BYTES] => Ok(()),
        _ => Err(Failure::wrong("the still blob has changed")),
    }
}
