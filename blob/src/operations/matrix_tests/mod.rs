//! The operations on a blob, each as one line of the protocol's tables: what they need, and how
//! they treat a lease id, conditional headers, customer-provided keys and encryption scopes.
//! `leases.rs`, `conditions.rs`, `keys.rs` and `scopes.rs` go through every cell.

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

type Act = fn(&Store, &str, &Conditions, SystemTime) -> Result<()>;

struct Operation {
    name: &'static str,
    on: BlobType,
    lease: Lease,
    honoured_conditions: HonouredConditions,
    act: Act,
}

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

macro_rules! operation {
    ($name:literal, $on:ident, $lease:ident, $honours:ident, $act:expr) => {
        Operation {
            name: $name,
            on: BlobType::$on,
            lease: Lease::$lease,
            honoured_conditions: HonouredConditions::$honours,
            act: $act,
        }
    };
}
use operation;

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
        operation!("Get Blob", BlockBlob, Compares, Read, |s, name, c, now| {
            s.at(now).get_blob(&address(name), None, c).map(|_| ())
        }),
        operation!(
            "Get Blob Properties",
            BlockBlob,
            Compares,
            Read,
            |s, name, c, now| { s.at(now).get_blob_properties(&address(name), c).map(|_| ()) }
        ),
        operation!(
            "Get Blob Tags",
            BlockBlob,
            Compares,
            Read,
            |s, name, c, now| { s.at(now).get_blob_tags(&address(name), c).map(|_| ()) }
        ),
        // The operation is a GET, so its answer is that of other reads, 304 included.
        operation!(
            "Get Page Ranges",
            PageBlob,
            Compares,
            Read,
            |s, name, c, now| {
                let request = GetPageRanges {
                    conditions: c.clone(),
                    ..GetPageRanges::default()
                };
                s.at(now)
                    .get_page_ranges(&address(name), &request)
                    .map(|_| ())
            }
        ),
        operation!(
            "Get Block List",
            BlockBlob,
            Compares,
            Tags,
            |s, name, c, now| {
                let list_type = BlockListType::All;
                s.at(now)
                    .get_block_list(&address(name), list_type, c)
                    .map(|_| ())
            }
        ),
    ]
}

fn creations() -> Vec<Operation> {
    vec![
        operation!(
            "Put Blob, before its body",
            BlockBlob,
            Needs,
            Create,
            |s, name, c, now| s
                .at(now)
                .check_upload(&address(name), UploadKind::PutBlob, c)
        ),
        operation!("Put Blob", BlockBlob, Changes, Create, |s, name, c, now| {
            let mut request = s.put_request(b"");
            request.upload = s.upload_with(UploadKind::PutBlob, b"new", c);
            request.conditions = c.clone();
            done(s.at(now).put_blob(&address(name), request))
        }),
        operation!(
            "Put Blob, append",
            AppendBlob,
            Changes,
            Create,
            |s, name, c, now| {
                let request = PutAppendBlob {
                    conditions: c.clone(),
                    ..PutAppendBlob::default()
                };
                done(s.at(now).put_append_blob(&address(name), request))
            }
        ),
        operation!(
            "Put Blob, pages",
            PageBlob,
            Changes,
            Create,
            |s, name, c, now| {
                let request = PutPageBlob {
                    conditions: c.clone(),
                    ..PutPageBlob::default()
                };
                done(s.at(now).put_page_blob(&address(name), request))
            }
        ),
        operation!(
            "Put Block List",
            BlockBlob,
            Changes,
            Create,
            |s, name, c, now| {
                let request = PutBlockList {
                    conditions: c.clone(),
                    ..PutBlockList::default()
                };
                done(s.at(now).put_block_list(&address(name), request))
            }
        ),
        operation!(
            "Copy Blob",
            BlockBlob,
            Changes,
            Create,
            |s, name, c, now| {
                let source = address("source");
                let request = s.copy_request(c);
                done(s.at(now).copy_blob(&source, &address(name), request))
            }
        ),
        operation!(
            "Copy Blob From URL",
            BlockBlob,
            Changes,
            Create,
            |s, name, c, now| {
                let source = address("source");
                let request = s.copy_request(c);
                done(
                    s.at(now)
                        .copy_blob_from_url(&source, &address(name), request),
                )
            }
        ),
        operation!(
            "Copy Blob from elsewhere",
            BlockBlob,
            Changes,
            Create,
            |s, name, c, now| {
                let request = s.copy_request(c);
                done(s.at(now).start_copy(&address(name), request, 4))
            }
        ),
    ]
}

fn changes() -> Vec<Operation> {
    vec![
        operation!(
            "Append Block",
            AppendBlob,
            Changes,
            Change,
            |s, name, c, now| {
                let request = AppendBlock {
                    upload: s.upload_with(UploadKind::AppendBlock, b"more", c),
                    max_size: None,
                    append_position: None,
                    conditions: c.clone(),
                };
                done(s.at(now).append_block(&address(name), request))
            }
        ),
        operation!(
            "Append Blob Seal",
            AppendBlob,
            Changes,
            Change,
            |s, name, c, now| { done(s.at(now).append_blob_seal(&address(name), None, c)) }
        ),
        operation!("Put Page", PageBlob, Changes, Change, |s, name, c, now| {
            let upload = s.upload_with(UploadKind::PutPage { start: 0 }, &[1; 512], c);
            s.put_pages(name, PageUpdate::Update(upload), c, now)
        }),
        operation!(
            "Put Page, clear",
            PageBlob,
            Changes,
            Change,
            |s, name, c, now| { s.put_pages(name, PageUpdate::Clear, c, now) }
        ),
        operation!(
            "Set Blob Properties, length",
            PageBlob,
            Changes,
            Change,
            |s, name, c, now| { s.set_pages(name, Some(512), None, c, now) }
        ),
        operation!(
            "Set Blob Properties, number",
            PageBlob,
            Changes,
            Change,
            |s, name, c, now| { s.set_pages(name, None, Some(SequenceAction::Increment), c, now) }
        ),
        operation!(
            "Set Blob Properties",
            BlockBlob,
            Changes,
            Change,
            |s, name, c, now| {
                let headers = BlobHeaders::default();
                done(s.at(now).set_blob_properties(&address(name), headers, c))
            }
        ),
        operation!(
            "Set Blob Metadata",
            BlockBlob,
            Changes,
            Change,
            |s, name, c, now| {
                let metadata = Metadata::new();
                done(s.at(now).set_blob_metadata(&address(name), metadata, c))
            }
        ),
        operation!(
            "Delete Blob",
            BlockBlob,
            Changes,
            Change,
            |s, name, c, now| {
                let request = DeleteBlob {
                    conditions: c.clone(),
                    ..DeleteBlob::default()
                };
                done(s.at(now).delete_blob(&address(name), &request))
            }
        ),
        operation!(
            "Snapshot Blob",
            BlockBlob,
            Compares,
            Change,
            |s, name, c, now| {
                let metadata = Metadata::new();
                let taken = s.at(now).snapshot_blob(&address(name), metadata, c)?;
                Ok(taken.2.wait()?)
            }
        ),
    ]
}

fn settings() -> Vec<Operation> {
    vec![
        operation!(
            "Set Blob Tags",
            BlockBlob,
            Needs,
            Change,
            |s, name, c, now| {
                let set = s.at(now).set_blob_tags(&address(name), pairs(&TAGS), c)?;
                Ok(set.wait()?)
            }
        ),
        operation!(
            "Set Blob Tier",
            BlockBlob,
            Needs,
            Tags,
            |s, name, c, now| {
                let tier = AccessTier::Cool;
                let soon = RehydratePriority::Standard;
                done(s.at(now).set_blob_tier(&address(name), tier, soon, c))
            }
        ),
        operation!(
            "Set Blob Expiry",
            BlockBlob,
            Changes,
            Change,
            |s, name, c, now| { done(s.at(now).set_blob_expiry(&address(name), Expiry::Never, c)) }
        ),
        operation!(
            "Undelete Blob",
            BlockBlob,
            Compares,
            Nothing,
            |s, name, c, now| {
                let service = &s;
                Ok(service
                    .at(now)
                    .undelete_blob(&address(name), c.lease_id)?
                    .wait()?)
            }
        ),
        operation!("Put Block", BlockBlob, Needs, Nothing, |s, name, c, now| {
            let upload = s.upload_with(UploadKind::PutBlock, b"block", c);
            done(s.at(now).put_block(&address(name), b"b", upload, c))
        }),
    ]
}
