//! The class in which a request is billed.
//!
//! Source, Blob: Map each REST operation to a price, column "General-purpose v2". Queue: Queue
//! Storage pricing, footnotes. Table: Table Storage pricing ("any type of operation is counted as a
//! transaction"); invoices list writes, batch writes, reads, scans and deletes separately.

use serde::Serialize;

/// A service of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Blob Storage.
    Blob,
    /// Queue Storage.
    Queue,
    /// Table Storage.
    Table,
}

/// The class in which a request is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Writes of blobs and blocks.
    BlobWrite,
    /// Reads of content.
    BlobRead,
    /// Listings, and the creation of containers.
    BlobList,
    /// Properties, metadata, tags, leases, snapshots.
    BlobOther,
    /// Deletes of blobs and containers, which are free.
    BlobDelete,
    /// Writes of messages and queues, and listings of queues.
    #[serde(rename = "queue_class_1")]
    QueueClass1,
    /// Reads of messages and properties.
    #[serde(rename = "queue_class_2")]
    QueueClass2,
    /// Single writes of entities.
    TableWrite,
    /// Entity group transactions.
    TableBatchWrite,
    /// Reads of one entity by its keys.
    TableRead,
    /// Pages of queries.
    TableScan,
    /// Single deletes of entities.
    TableDelete,
    /// Tables, policies and properties.
    TableOther,
}

impl Class {
    /// All classes, in the order of a bill.
    pub const ALL: [Class; 13] = [
        Class::BlobWrite,
        Class::BlobRead,
        Class::BlobList,
        Class::BlobOther,
        Class::BlobDelete,
        Class::QueueClass1,
        Class::QueueClass2,
        Class::TableWrite,
        Class::TableBatchWrite,
        Class::TableRead,
        Class::TableScan,
        Class::TableDelete,
        Class::TableOther,
    ];

    /// Its key in the price file.
    pub fn name(self) -> &'static str {
        match self {
            Class::BlobWrite => "blob_write",
            Class::BlobRead => "blob_read",
            Class::BlobList => "blob_list",
            Class::BlobOther => "blob_other",
            Class::BlobDelete => "blob_delete",
            Class::QueueClass1 => "queue_class_1",
            Class::QueueClass2 => "queue_class_2",
            Class::TableWrite => "table_write",
            Class::TableBatchWrite => "table_batch_write",
            Class::TableRead => "table_read",
            Class::TableScan => "table_scan",
            Class::TableDelete => "table_delete",
            Class::TableOther => "table_other",
        }
    }

    /// The class of an operation by its REST name, such as `PutBlob`, or by its name in Storage
    /// Analytics logs, such as `QueryEntity`; `None` if the name is not known.
    pub fn of(service: Service, operation: &str) -> Option<Class> {
        match service {
            Service::Blob => of_blob(operation),
            Service::Queue => of_queue(operation),
            Service::Table => of_table(operation),
        }
    }
}

/// The class of a Blob operation. An operation without a row on the page has the class of the
/// nearest one with a row: writes of pages count as writes, page ranges as block lists, a renamed
/// container as a created one. Set Blob Tier is a write to a cooler tier and a read to a warmer
/// one. It counts as the dearer one, a write. The parts of a Blob Batch are billed by themselves.
fn of_blob(operation: &str) -> Option<Class> {
    Some(match operation {
        "PutBlob" | "PutAppendBlob" | "PutPageBlob" | "PutBlobFromUrl" | "PutBlock"
        | "PutBlockFromUrl" | "PutBlockList" | "AppendBlock" | "AppendBlockFromUrl"
        | "AppendBlobSeal" | "PutPage" | "PutPageFromUrl" | "CopyBlob" | "CopyBlobFromUrl"
        | "UndeleteBlob" | "SetBlobTier" => Class::BlobWrite,
        "PutBlobFromURL"
        | "PutBlockFromURL"
        | "AppendBlockThroughCopy"
        | "SealBlob"
        | "ClearPage"
        | "PutPageFromURL"
        | "CopyBlobFromURL" => Class::BlobWrite,
        "GetBlob" | "QueryBlobContents" => Class::BlobRead,
        "ListBlobs" | "ListContainers" | "CreateContainer" | "FindBlobsByTags"
        | "RestoreContainer" | "RenameContainer" => Class::BlobList,
        "DeleteBlob" | "DeleteContainer" => Class::BlobDelete,
        "GetBlobProperties"
        | "GetBlobMetadata"
        | "GetBlobTags"
        | "GetBlockList"
        | "GetPageRanges"
        | "GetContainerProperties"
        | "GetContainerMetadata"
        | "GetContainerAcl"
        | "GetContainerACL"
        | "GetAccountInformation"
        | "GetBlobServiceProperties"
        | "GetBlobServiceStats"
        | "GetUserDelegationKey"
        | "SetBlobMetadata"
        | "SetBlobProperties"
        | "SetBlobTags"
        | "SetBlobExpiry"
        | "SetContainerAcl"
        | "SetContainerACL"
        | "SetContainerMetadata"
        | "SetBlobServiceProperties"
        | "IncrementalCopyBlob"
        | "AbortCopyBlob"
        | "SnapshotBlob"
        | "LeaseBlob"
        | "LeaseContainer"
        | "SetBlobImmutabilityPolicy"
        | "DeleteBlobImmutabilityPolicy"
        | "SetBlobLegalHold"
        | "GetPageRegions"
        | "BlobPreflightRequest"
        | "Batch"
        | "BlobBatch" => Class::BlobOther,
        lease if lease.ends_with("BlobLease") || lease.ends_with("ContainerLease") => {
            Class::BlobOther
        }
        _ => return None,
    })
}

/// The class of a Queue operation. Get Messages is one transaction of class 2, whether it finds
/// messages or not. The sources do not say whether its change of visibility also counts in class 1.
/// Operations that the footnotes leave out count as class 1 if they write, and as class 2 if they
/// read.
fn of_queue(operation: &str) -> Option<Class> {
    Some(match operation {
        "CreateQueue"
        | "DeleteQueue"
        | "ListQueues"
        | "SetQueueMetadata"
        | "SetQueueAcl"
        | "SetQueueACL"
        | "SetQueueServiceProperties"
        | "PutMessage"
        | "UpdateMessage"
        | "DeleteMessage"
        | "ClearMessages" => Class::QueueClass1,
        "GetMessage"
        | "GetMessages"
        | "PeekMessage"
        | "PeekMessages"
        | "GetQueue"
        | "GetQueueMetadata"
        | "GetQueueAcl"
        | "GetQueueACL"
        | "GetQueueServiceProperties"
        | "GetQueueServiceStats"
        | "GetUserDelegationKey"
        | "QueuePreflightRequest" => Class::QueueClass2,
        _ => return None,
    })
}

fn of_table(operation: &str) -> Option<Class> {
    Some(match operation {
        "InsertEntity"
        | "UpdateEntity"
        | "MergeEntity"
        | "InsertOrReplaceEntity"
        | "InsertOrMergeEntity" => Class::TableWrite,
        "Batch" | "EntityGroupTransaction" => Class::TableBatchWrite,
        "GetEntity" | "QueryEntity" => Class::TableRead,
        "QueryEntities" => Class::TableScan,
        "DeleteEntity" => Class::TableDelete,
        "CreateTable"
        | "DeleteTable"
        | "GetTable"
        | "QueryTable"
        | "QueryTables"
        | "GetTableAcl"
        | "GetTableACL"
        | "SetTableAcl"
        | "SetTableACL"
        | "GetTableServiceProperties"
        | "SetTableServiceProperties"
        | "GetTableServiceStats"
        | "GetUserDelegationKey"
        | "TablePreflightRequest" => Class::TableOther,
        _ => return None,
    })
}

/// Whether a request that was answered with `status` is billed. Refused credentials and faults of
/// the service (500, 504) are free. All other requests of authenticated callers are billed, those
/// with 404, 409, 412 and 503 (throttled) too. Of anonymous requests, only successful and throttled
/// ones are billed. Source: Understanding Windows Azure Storage Billing, "Transactions".
pub fn is_billed(status: u16, is_anonymous: bool) -> bool {
    match status {
        401 | 403 | 500 | 504 => false,
        503 => true,
        _ => status < 400 || !is_anonymous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation that is served has a class, so that no request is missing on a bill.
    #[test]
    fn every_operation_that_is_served_has_a_class() {
        const PAGE: &str = include_str!("../../docs/operations.md");
        let mut seen = 0;
        for (service, title) in [
            (Service::Blob, "## Blob\n\n"),
            (Service::Queue, "## Queue\n\n"),
            (Service::Table, "## Table\n\n"),
        ] {
            let (_, list) = PAGE.split_once(title).unwrap();
            let list = list.lines().next().unwrap().trim_end_matches('.');
            for title in list.split(", ") {
                let name = title.replace(' ', "").replace("URL", "Url");
                assert!(Class::of(service, &name).is_some(), "{service:?} {name}");
                seen += 1;
            }
        }
        assert!(seen > 80, "{seen}");
        assert_eq!(Class::of(Service::Table, "PutBlob"), None);
    }

    #[test]
    fn operations_stand_in_the_class_of_the_price_page() {
        for (operation, class) in [
            ("GetBlobProperties", Class::BlobOther),
            ("LeaseBlob", Class::BlobOther),
            ("BreakContainerLease", Class::BlobOther),
            ("SealBlob", Class::BlobWrite),
            ("SetBlobTags", Class::BlobOther),
            ("CreateContainer", Class::BlobList),
            ("DeleteBlob", Class::BlobDelete),
            ("PutBlockList", Class::BlobWrite),
        ] {
            assert_eq!(Class::of(Service::Blob, operation), Some(class));
        }
        let queue = |operation| Class::of(Service::Queue, operation);
        assert_eq!(queue("DeleteMessage"), Some(Class::QueueClass1));
        assert_eq!(queue("GetMessages"), Some(Class::QueueClass2));
        assert_eq!(queue("ListQueues"), Some(Class::QueueClass1));
    }

    #[test]
    fn refused_credentials_are_free_and_throttled_requests_are_not() {
        for billed in [200, 304, 400, 404, 409, 412, 503] {
            assert!(is_billed(billed, false), "{billed}");
        }
        for free in [401, 403, 500] {
            assert!(!is_billed(free, false), "{free}");
        }
        assert!(is_billed(200, true) && !is_billed(404, true));
    }

    #[test]
    fn names_are_those_that_are_serialized() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }
}
