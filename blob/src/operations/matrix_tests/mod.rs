//! The operations on a blob, each as one line of the protocol's tables: what they need, and how
//! they treat a lease id, conditional headers, customer-provided keys, encryption scopes and
//! protections. The files of this folder go through every cell.

mod conditions;
mod keys;
mod leases;
mod protections;
mod scopes;

use crate::operations::tests::*;
use crate::*;
use std::time::SystemTime;

/// How an operation treats `x-ms-lease-id`. Source: Lease Blob, "Remarks".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    /// The operation needs the lease id while the blob is leased. It changes the blob, so an
    /// expired lease is forgotten.
    Changes,
    /// The operation needs the lease id, and leaves the blob and its lease as they are.
    Needs,
    /// The operation needs no lease id, but one that is given must be that of the lease.
    Compares,
}

/// Which conditional headers an operation honours. Source: Specifying conditional headers for Blob
/// service operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HonouredConditions {
    /// All headers, as a read.
    Read,
    /// All headers; makes the blob if there is none.
    Create,
    /// All headers; the blob must exist.
    Change,
    /// Only the condition on tags.
    Tags,
    /// No header; the blob must exist.
    Nothing,
}

/// How an operation treats a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The operation needs the key of the blob.
    Needs,
    /// The operation makes the blob anew with the key of the request, whatever there was.
    Replaces,
    /// The operation needs no key and ignores one: the clients send none with it.
    Ignores,
    /// The operation makes the blob anew and without a key: the clients send none with it.
    Drops,
}

/// How an operation treats an encryption scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The operation needs the scope of the blob, named or as the container's default.
    Needs,
    /// The operation makes the blob anew, in the scope that is named or the container's.
    Replaces,
    /// The operation stores content beside the blob, in any scope that the container allows.
    Allows,
    /// The operation needs no scope: the clients send none, and the server refuses one.
    Ignores,
}

/// What an operation does that a policy or hold, a pending copy, or the archive tier may prevent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protection {
    /// The operation ignores all of them.
    Free,
    /// The operation needs content that is online.
    NeedsOnline,
    /// The operation may set protections and tags, but not while a copy is pending.
    Sets,
    /// The operation needs the whole content, which is complete and online.
    Copies,
    /// The operation deletes the blob, now or later, in any tier.
    Removes,
    /// The operation changes content or properties.
    Changes,
}

impl Protection {
    /// The outcomes on a blob with a policy or hold, with a pending copy, and in the archive tier.
    fn outcomes(self) -> [&'static str; 3] {
        const PROTECTED: &str = "BlobImmutableDueToPolicy";
        const PENDING: &str = "PendingCopyOperation";
        const ARCHIVED: &str = "BlobArchived";
        match self {
            Protection::Free => ["ok"; 3],
            Protection::NeedsOnline => ["ok", "ok", ARCHIVED],
            Protection::Sets => ["ok", PENDING, "ok"],
            Protection::Copies => ["ok", PENDING, ARCHIVED],
            Protection::Removes => [PROTECTED, PENDING, "ok"],
            Protection::Changes => [PROTECTED, PENDING, ARCHIVED],
        }
    }
}

type Act = fn(&Store, &str, &Conditions, SystemTime) -> Result<()>;

struct Operation {
    name: &'static str,
    on: BlobType,
    lease: Lease,
    honoured_conditions: HonouredConditions,
    key: Key,
    scope: Scope,
    protection: Protection,
    act: Act,
}

/// The time at which policies end, in seconds.
const UNTIL: u64 = 1000;
/// The tags of every blob that these tests make.
const TAGS: [(&str, &str); 1] = [("kind", "lake")];

impl Store {
    /// Makes a blob of this type, with tags and content, for any of the operations.
    fn make(&self, name: &str, blob_type: BlobType) -> Written {
        match blob_type {
            BlobType::BlockBlob => {
                self.put_block(name, "a", b"body").unwrap();
                self.commit(name, latest(&["a"])).unwrap();
            }
            BlobType::AppendBlob => {
                self.put_append_blob(name);
                self.append(name, b"body").unwrap();
            }
            BlobType::PageBlob => {
                self.put_page_blob(name, 1024);
            }
        }
        let (service, none) = (self, Conditions::default());
        let set = service
            .at(at(1))
            .set_blob_tags(&address(name), pairs(&TAGS), &none);
        set.unwrap().wait().unwrap();
        let blob = self.properties(name).unwrap();
        blob.written()
    }

    /// Makes the blobs that copies read.
    fn make_sources(&self) {
        self.make("source", BlobType::BlockBlob);
        self.make("pages", BlobType::PageBlob);
    }

    /// A body that is encrypted with the key of these conditions, if they have one.
    fn upload_with(&self, kind: UploadKind, body: &[u8], conditions: &Conditions) -> Upload {
        match conditions.customer_key {
            Some(key) => self.sealed(kind, body, key),
            None => self.upload(kind, body),
        }
    }

    fn put_pages(
        &self,
        name: &str,
        update: PageUpdate,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<()> {
        let request = PutPage {
            range: 0..512,
            update,
            sequence: SequenceConditions::default(),
            conditions: conditions.clone(),
        };
        done(self.at(now).put_page(&address(name), request))
    }

    fn set_pages(
        &self,
        name: &str,
        length: Option<u64>,
        sequence: Option<SequenceAction>,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<()> {
        let address = address(name);
        let service = self;
        let set = service
            .at(now)
            .set_page_blob_properties(&address, length, sequence, None, conditions)?;
        Ok(set.2.wait()?)
    }

    fn copy_request(&self, conditions: &Conditions) -> CopyBlob {
        CopyBlob {
            conditions: conditions.clone(),
            ..CopyBlob::default()
        }
    }
}

fn done<T>(outcome: Result<(T, Ticket)>) -> Result<()> {
    Ok(outcome?.1.wait()?)
}

/// A row: the columns in the order of [`Operation`], and the call.
macro_rules! row {
    ($name:literal, $on:ident, $lease:ident, $honours:ident, $key:ident, $scope:ident,
     $protection:ident => $act:expr) => {
        Operation {
            name: $name,
            on: BlobType::$on,
            lease: Lease::$lease,
            honoured_conditions: HonouredConditions::$honours,
            key: Key::$key,
            scope: Scope::$scope,
            protection: Protection::$protection,
            act: $act,
        }
    };
}

/// All operations on one blob that take a lease id or conditions.
fn operations() -> Vec<Operation> {
    let mut all = reads();
    all.extend(creations());
    all.extend(changes());
    all.extend(settings());
    all
}

fn reads() -> Vec<Operation> {
    vec![
        row!("Get Blob", BlockBlob, Compares, Read, Needs, Ignores, NeedsOnline =>
            |s, name, c, now| s.at(now).get_blob(&address(name), None, c).map(|_| ())),
        row!("Get Blob Properties", BlockBlob, Compares, Read, Needs, Ignores, Free =>
            |s, name, c, now| s.at(now).get_blob_properties(&address(name), c).map(|_| ())),
        row!("Get Blob Tags", BlockBlob, Compares, Read, Ignores, Ignores, Free =>
            |s, name, c, now| s.at(now).get_blob_tags(&address(name), c).map(|_| ())),
        // The operation is a GET, so its answer is that of other reads, 304 included.
        row!("Get Page Ranges", PageBlob, Compares, Read, Ignores, Ignores, Free =>
        |s, name, c, now| {
            let request = GetPageRanges { conditions: c.clone(), ..Default::default() };
            s.at(now).get_page_ranges(&address(name), &request).map(|_| ())
        }),
        row!("Get Block List", BlockBlob, Compares, Tags, Ignores, Ignores, Free =>
        |s, name, c, now| {
            let list_type = BlockListType::All;
            s.at(now).get_block_list(&address(name), list_type, c).map(|_| ())
        }),
    ]
}

fn creations() -> Vec<Operation> {
    vec![
        row!("Put Blob, before its body", BlockBlob, Needs, Create, Ignores, Ignores, Changes =>
            |s, name, c, now| s.at(now).check_upload(&address(name), UploadKind::PutBlob, c)),
        row!("Put Blob", BlockBlob, Changes, Create, Replaces, Replaces, Changes =>
        |s, name, c, now| {
            let mut request = s.put_request(b"");
            request.upload = s.upload_with(UploadKind::PutBlob, b"new", c);
            request.conditions = c.clone();
            done(s.at(now).put_blob(&address(name), request))
        }),
        row!("Put Blob, append", AppendBlob, Changes, Create, Replaces, Replaces, Changes =>
        |s, name, c, now| {
            let request = PutAppendBlob { conditions: c.clone(), ..Default::default() };
            done(s.at(now).put_append_blob(&address(name), request))
        }),
        row!("Put Blob, pages", PageBlob, Changes, Create, Replaces, Replaces, Changes =>
        |s, name, c, now| {
            let request = PutPageBlob { conditions: c.clone(), ..Default::default() };
            done(s.at(now).put_page_blob(&address(name), request))
        }),
        row!("Put Block List", BlockBlob, Changes, Create, Replaces, Replaces, Changes =>
        |s, name, c, now| {
            let request = PutBlockList { conditions: c.clone(), ..Default::default() };
            done(s.at(now).put_block_list(&address(name), request))
        }),
        row!("Copy Blob", BlockBlob, Changes, Create, Drops, Replaces, Changes =>
        |s, name, c, now| {
            let source = address("source");
            let request = s.copy_request(c);
            done(s.at(now).copy_blob(&source, &address(name), request))
        }),
        row!("Copy Blob From URL", BlockBlob, Changes, Create, Drops, Replaces, Changes =>
        |s, name, c, now| {
            let source = address("source");
            let request = s.copy_request(c);
            done(s.at(now).copy_blob_from_url(&source, &address(name), request))
        }),
        row!("Copy Blob, elsewhere", BlockBlob, Changes, Create, Drops, Replaces, Changes =>
        |s, name, c, now| {
            let request = s.copy_request(c);
            done(s.at(now).start_copy(&address(name), request, 4))
        }),
    ]
}

fn changes() -> Vec<Operation> {
    vec![
        row!("Append Block", AppendBlob, Changes, Change, Needs, Needs, Changes =>
        |s, name, c, now| {
            let request = AppendBlock {
                upload: s.upload_with(UploadKind::AppendBlock, b"more", c),
                max_size: None,
                append_position: None,
                conditions: c.clone(),
            };
            done(s.at(now).append_block(&address(name), request))
        }),
        row!("Append Blob Seal", AppendBlob, Changes, Change, Ignores, Ignores, Changes =>
            |s, name, c, now| done(s.at(now).append_blob_seal(&address(name), None, c))),
        row!("Put Page", PageBlob, Changes, Change, Needs, Needs, Changes =>
        |s, name, c, now| {
            let upload = s.upload_with(UploadKind::PutPage { start: 0 }, &[1; 512], c);
            s.put_pages(name, PageUpdate::Update(upload), c, now)
        }),
        row!("Put Page, clear", PageBlob, Changes, Change, Needs, Needs, Changes =>
            |s, name, c, now| s.put_pages(name, PageUpdate::Clear, c, now)),
        row!("Set Blob Properties, length", PageBlob, Changes, Change, Needs, Needs, Changes =>
            |s, name, c, now| s.set_pages(name, Some(512), None, c, now)),
        row!("Set Blob Properties, number", PageBlob, Changes, Change, Ignores, Ignores, Changes =>
            |s, name, c, now| s.set_pages(name, None, Some(SequenceAction::Increment), c, now)),
        row!("Set Blob Properties", BlockBlob, Changes, Change, Ignores, Ignores, Changes =>
        |s, name, c, now| {
            done(s.at(now).set_blob_properties(&address(name), BlobHeaders::default(), c))
        }),
        row!("Set Blob Metadata", BlockBlob, Changes, Change, Needs, Needs, Changes =>
        |s, name, c, now| {
            done(s.at(now).set_blob_metadata(&address(name), Metadata::new(), c))
        }),
        row!("Delete Blob", BlockBlob, Changes, Change, Ignores, Ignores, Removes =>
        |s, name, c, now| {
            let request = DeleteBlob { conditions: c.clone(), ..Default::default() };
            done(s.at(now).delete_blob(&address(name), &request))
        }),
        row!("Snapshot Blob", BlockBlob, Compares, Change, Needs, Needs, Copies =>
        |s, name, c, now| {
            Ok(s.at(now).snapshot_blob(&address(name), Metadata::new(), c)?.2.wait()?)
        }),
    ]
}

fn settings() -> Vec<Operation> {
    vec![
        row!("Set Blob Tags", BlockBlob, Needs, Change, Ignores, Ignores, Sets =>
        |s, name, c, now| {
            Ok(s.at(now).set_blob_tags(&address(name), pairs(&TAGS), c)?.wait()?)
        }),
        row!("Set Blob Tier", BlockBlob, Needs, Tags, Ignores, Ignores, Sets =>
        |s, name, c, now| {
            let tier = AccessTier::Cool;
            let soon = RehydratePriority::Standard;
            done(s.at(now).set_blob_tier(&address(name), tier, soon, c))
        }),
        row!("Set Blob Expiry", BlockBlob, Changes, Change, Ignores, Ignores, Removes =>
            |s, name, c, now| done(s.at(now).set_blob_expiry(&address(name), Expiry::Never, c))),
        row!("Undelete Blob", BlockBlob, Compares, Nothing, Ignores, Ignores, Free =>
            |s, name, c, now| Ok(s.at(now).undelete_blob(&address(name), c.lease_id)?.wait()?)),
        row!("Put Block", BlockBlob, Needs, Nothing, Ignores, Allows, NeedsOnline =>
        |s, name, c, now| {
            let upload = s.upload_with(UploadKind::PutBlock, b"block", c);
            done(s.at(now).put_block(&address(name), b"b", upload, c))
        }),
    ]
}

/// Operations that `leases.rs` and `conditions.rs` leave out: they take no lease ids or conditions,
/// or have two effects.
fn others() -> Vec<Operation> {
    vec![
        row!("Set Blob Properties, both", PageBlob, Changes, Change, Needs, Needs, Changes =>
        |s, name, c, now| {
            s.set_pages(name, Some(512), Some(SequenceAction::Increment), c, now)
        }),
        row!("Set Immutability Policy", BlockBlob, Compares, Nothing, Ignores, Ignores, Sets =>
        |s, name, c, now| {
            let policy = ImmutabilityPolicy { until: at(UNTIL), mode: ImmutabilityMode::Locked };
            done(s.at(now).set_blob_immutability_policy(&address(name), policy, c))
        }),
        row!("Set Blob Legal Hold", BlockBlob, Compares, Nothing, Ignores, Ignores, Sets =>
            |s, name, _, now| Ok(s.at(now).set_blob_legal_hold(&address(name), true)?.wait()?)),
        row!("Lease Blob", BlockBlob, Compares, Change, Ignores, Ignores, Sets =>
        |s, name, c, now| {
            let duration = LeaseDuration::Infinite;
            let acquire = LeaseAction::Acquire { duration, proposed: None };
            Ok(s.at(now).lease_blob(&address(name), acquire, c)?.2.wait()?)
        }),
    ]
}
