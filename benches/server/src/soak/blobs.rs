//! The threads that write and read blobs, one for each kind of history: overwrites, snapshots, appends, pages, leases, copies,
//! deletions that are taken back.

use std::thread::Scope;

use lazurite_blob::{
    AccountPolicy, AppendBlock, BlobAddress, BlobHeaders, BlobSettings, BlobState, Checksums,
    Conditions, CopyBlob, DeleteBlob, Error, Guid, LeaseAction, LeaseDuration, LeaseOutcome,
    Metadata, PageUpdate, PublicAccess, PutAppendBlob, PutBlob, PutPage, PutPageBlob,
    SequenceConditions, SnapshotTime, Ticket, TierChanged, Upload, UploadKind,
};

use lazurite_bench_common::{Outcome, Random};

use super::ledger::Kind;
use super::possible::Possible;
use super::state::{ACCOUNT, Failure, Services, Soak};

/// The account whose deleted blobs are kept for a while.
const RETAINING_ACCOUNT: &str = "retaining";
/// More than all steps of the clock together.
const RETENTION_DAYS: u16 = 30;
const CONTAINER: &str = "soak";
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

/// Creates the containers and the blob that nobody writes.
pub(super) fn prepare(services: &Services) -> Outcome<()> {
    for account in [ACCOUNT, RETAINING_ACCOUNT] {
        let private = PublicAccess::Private;
        let blobs = &services.blobs;
        let created = blobs.create_container(account, CONTAINER, private, Metadata::new())?;
        created.1.wait()?;
    }
    let policy = AccountPolicy {
        delete_retention_days: Some(RETENTION_DAYS),
        ..AccountPolicy::default()
    };
    let blobs = &services.blobs;
    blobs
        .set_account_policy(RETAINING_ACCOUNT, policy, None)?
        .wait()?;
    let put = put(services, &address(ACCOUNT, STILL), &[7; STILL_BYTES], None);
    Ok(put.map_err(|failure| failure.to_string())?)
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

fn address<'a>(account: &'a str, name: &'a str) -> BlobAddress<'a> {
    BlobAddress {
        account,
        container: CONTAINER,
        blob: name,
        state: BlobState::Current,
    }
}

fn snapshot_address(name: &str, moment: SnapshotTime) -> BlobAddress<'_> {
    BlobAddress {
        state: BlobState::Snapshot(moment),
        ..address(ACCOUNT, name)
    }
}

fn upload(services: &Services, kind: UploadKind, body: &[u8]) -> Result<Upload, Error> {
    let mut upload = services.blobs.begin_upload(kind, Checksums::default())?;
    upload.write(body)?;
    Ok(upload)
}

fn try_put(
    services: &Services,
    address: &BlobAddress,
    body: &[u8],
    lease_id: Option<Guid>,
) -> Result<Ticket, Error> {
    let put = PutBlob {
        upload: upload(services, UploadKind::PutBlob, body)?,
        headers: BlobHeaders::default(),
        metadata: Metadata::new(),
        settings: BlobSettings::default(),
        conditions: Conditions {
            lease_id,
            ..Conditions::default()
        },
    };
    Ok(services.blobs.put_blob(address, put)?.1)
}

fn put(
    services: &Services,
    address: &BlobAddress,
    body: &[u8],
    lease_id: Option<Guid>,
) -> Result<(), Failure> {
    Ok(try_put(services, address, body, lease_id)?.wait()?)
}

fn read(services: &Services, address: &BlobAddress) -> Result<Content, Failure> {
    let none = Conditions::default();
    let mut body = match services.blobs.get_blob(address, None, &none) {
        Ok(download) => download.body,
        Err(Error::BlobNotFound) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next_chunk(1 << 20)? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

fn delete(services: &Services, address: &BlobAddress) -> Result<(), Failure> {
    let delete = DeleteBlob {
        snapshots: None,
        permanent: false,
        conditions: Conditions::default(),
        tier_changed: TierChanged::default(),
    };
    Ok(services.blobs.delete_blob(address, &delete)?.1.wait()?)
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

    /// Sends a write that makes `content` of the blob. What a failed store has kept is found out once it is reopened.
    fn write(
        &mut self,
        name: &'static str,
        content: Content,
        write: impl FnOnce(&Services, &BlobAddress) -> Result<(), Failure>,
    ) -> Option<()> {
        let address = address(self.account, &self.name);
        let outcome = self
            .soak
            .request(Kind::Write, name, |services| write(services, &address));
        self.possible.wrote(outcome, content);
        if outcome.is_none() {
            self.soak.wait_for_store();
            self.check();
        }
        outcome
    }

    fn put(&mut self, body: Vec<u8>) -> Option<()> {
        let content = Some(body.clone());
        self.write("put blob", content, |services, address| {
            put(services, address, &body, None)
        })
    }

    /// The blob must be as one of the possible writes left it.
    fn check(&mut self) {
        let address = address(self.account, &self.name);
        let found = self
            .soak
            .request(Kind::Read, "get blob", |services| read(services, &address));
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
    let mut taken: Vec<(SnapshotTime, Content)> = Vec::new();
    while !soak.is_over() {
        let body = noise(&mut random, 2000);
        if blob.put(body).is_none() {
            continue;
        }
        let moment = soak.request(Kind::Write, "snapshot blob", |services| {
            let address = address(ACCOUNT, &blob.name);
            let none = Conditions::default();
            let snapshot = services
                .blobs
                .snapshot_blob(&address, Metadata::new(), &none)?;
            snapshot.2.wait()?;
            Ok(snapshot.0)
        });
        match moment {
            Some(moment) => taken.push((moment, blob.possible.latest().clone())),
            None => soak.wait_for_store(),
        }
        blob.check();
        if let Some((moment, content)) = taken.get(random.below(taken.len() as u64) as usize) {
            check_snapshot(soak, &blob.name, *moment, content);
        }
        if taken.len() > SNAPSHOTS_MAX {
            let (moment, _) = taken.remove(random.below(SNAPSHOTS_MAX as u64) as usize);
            let deleted = soak.request(Kind::Write, "delete snapshot", |services| {
                delete(services, &snapshot_address(&blob.name, moment))
            });
            match deleted {
                Some(()) => check_snapshot(soak, &blob.name, moment, &None),
                None => soak.wait_for_store(),
            }
        }
    }
}

fn check_snapshot(soak: &Soak, name: &str, moment: SnapshotTime, expected: &Content) {
    let found = soak.request(Kind::Read, "get snapshot", |services| {
        read(services, &snapshot_address(name, moment))
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
            blob.write("put append blob", Some(Vec::new()), |services, address| {
                let empty = PutAppendBlob::default();
                let put = services.blobs.put_append_blob(address, empty)?;
                Ok(put.1.wait()?)
            });
            continue;
        }
        let length = 1 + random.below(700) as usize;
        let block = noise(&mut random, length);
        content.extend_from_slice(&block);
        blob.write("append block", Some(content), |services, address| {
            let append = AppendBlock {
                upload: upload(services, UploadKind::AppendBlock, &block)?,
                max_size: None,
                append_position: None,
                conditions: Conditions::default(),
            };
            let appended = services.blobs.append_block(address, append)?;
            Ok(appended.1.wait()?)
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
            blob.write("put page blob", zeros, |services, address| {
                let empty = PutPageBlob {
                    length: bytes,
                    ..PutPageBlob::default()
                };
                let put = services.blobs.put_page_blob(address, empty)?;
                Ok(put.1.wait()?)
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
        blob.write("put page", Some(content), |services, address| {
            let update = if is_cleared {
                PageUpdate::Clear
            } else {
                PageUpdate::Update(upload(services, UploadKind::PutPage, &part)?)
            };
            let page = PutPage {
                range,
                update,
                sequence: SequenceConditions::default(),
                conditions: Conditions::default(),
            };
            Ok(services.blobs.put_page(address, page)?.1.wait()?)
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
        let acquire = LeaseAction::Acquire {
            duration: LeaseDuration::Infinite,
            proposed: None,
        };
        let Some(LeaseOutcome::Held(id)) = lease(soak, &blob.name, acquire) else {
            soak.wait_for_store();
            // A lease of unknown id may be held.
            lease(soak, &blob.name, LeaseAction::Break(Some(0)));
            continue;
        };
        let refused = soak.request(Kind::Write, "put leased blob", |services| {
            match try_put(services, &address(ACCOUNT, &blob.name), b"refused", None) {
                Ok(_) => Err(Failure::wrong(
                    "a leased blob takes a write without the lease's id",
                )),
                Err(Error::LeaseIdMissing) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
        let body = noise(&mut random, 500);
        let content = Some(body.clone());
        let written = blob.write("put with lease", content, |services, address| {
            put(services, address, &body, Some(id))
        });
        blob.check();
        if refused.is_none() || written.is_none() || random.below(4) == 0 {
            lease(soak, &blob.name, LeaseAction::Break(Some(0)));
        } else {
            lease(soak, &blob.name, LeaseAction::Release(id));
        }
    }
}

/// `None` as well if there is no lease to break.
fn lease(soak: &Soak, name: &str, action: LeaseAction) -> Option<LeaseOutcome> {
    let outcome = soak.request(Kind::Write, "lease blob", |services| {
        let none = Conditions::default();
        let leased = services
            .blobs
            .lease_blob(&address(ACCOUNT, name), action, &none);
        match (leased, action) {
            (Ok((outcome, _, ticket)), _) => Ok(ticket.wait().map(|()| Some(outcome))?),
            (Err(Error::LeaseNotPresentWithLeaseOperation), LeaseAction::Break(_)) => Ok(None),
            (Err(Error::LeaseAlreadyPresent), LeaseAction::Acquire { .. }) => Ok(None),
            (Err(error), _) => Err(error.into()),
        }
    });
    outcome.flatten()
}

/// Copies a blob to another, changes the copy, and copies it back: each stays as it was when the other changes.
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
                let source = address(ACCOUNT, &name);
                let copy = CopyBlob {
                    source_url: format!("http://127.0.0.1/{ACCOUNT}/{CONTAINER}/{name}"),
                    ..CopyBlob::default()
                };
                Ok(services
                    .blobs
                    .copy_blob(&source, destination, copy)?
                    .1
                    .wait()?)
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
        let deleted = blob.write("delete blob", None, delete);
        blob.check();
        if deleted.is_none() {
            continue;
        }
        blob.write("undelete blob", Some(body), |services, address| {
            Ok(services.blobs.undelete_blob(address, None)?.wait()?)
        });
        blob.check();
        undeleted.push(blob);
        if undeleted.len() > UNDELETED_MAX {
            let mut oldest = undeleted.remove(0);
            oldest.check();
        }
    }
}

/// Reads the blob that nobody writes.
pub(super) fn read_still(services: &Services) -> Result<(), Failure> {
    match read(services, &address(ACCOUNT, STILL))? {
        Some(content) if content == [7; STILL_BYTES] => Ok(()),
        _ => Err(Failure::wrong("the still blob has changed")),
    }
}
