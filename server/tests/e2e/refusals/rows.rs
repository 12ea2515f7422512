//! For each operation, a request that succeeds.

use crate::http::Request;
use crate::rights::account_sas_for;
use crate::server::{ACCOUNT, Server, Service};

use super::store::PAGE;

pub(super) const PAST: &str = "Sat, 01 Jan 2000 00:00:00 GMT";
pub(super) const FUTURE: &str = "Fri, 01 Jan 2100 00:00:00 GMT";
pub(super) const MESSAGE: &str = "<QueueMessage><MessageText>new</MessageText></QueueMessage>";
const TAGS: &str = "<Tags><TagSet><Tag><Key>a</Key><Value>2</Value></Tag></TagSet></Tags>";
const BLOCKS: &str = "<BlockList><Latest>AAAA</Latest></BlockList>";
const IDENTIFIERS: &str = "<SignedIdentifiers><SignedIdentifier><Id>i</Id><AccessPolicy>\
                           <Permission>r</Permission></AccessPolicy>\
                           </SignedIdentifier></SignedIdentifiers>";
const PROPERTIES: &str = "<StorageServiceProperties><Cors /></StorageServiceProperties>";
const QUERY: &str = "<QueryRequest><QueryType>SQL</QueryType>\
                     <Expression>SELECT * FROM BlobStorage</Expression></QueryRequest>";

/// Published operations without a request, with the reason.
pub(super) const UNREACHED: [(&str, &str); 1] = [(
    "Blob Service_GetUserDelegationKey",
    "It needs a bearer token, and that needs HTTPS.",
)];

/// An operation, a request for it that succeeds, and the origin of its content if it copies.
pub(super) struct Row {
    /// The service and `operationId` of the published specification; or a name, for an operation
    /// that it leaves out.
    pub(super) name: &'static str,
    pub(super) request: Request,
    pub(super) source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    None,
    Own,
    Foreign,
}

impl Row {
    pub(super) fn changes_state(&self) -> bool {
        let reads = ["GET", "HEAD"].contains(&self.request.method());
        let exceptions = ["Queue Messages_Dequeue", "Blob Blob_Query"];
        reads == exceptions.contains(&self.name)
    }

    /// The operation's name in the tables of accepted requests.
    pub(super) fn label(&self) -> String {
        let from = if self.source == Source::Foreign {
            " from another server"
        } else {
            ""
        };
        format!("{}{from}", self.name)
    }
}

fn row(name: &'static str, request: Request) -> Row {
    Row {
        name,
        request,
        source: Source::None,
    }
}

pub(super) fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

pub(super) fn queue(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

/// A request to Table with the content type of JSON.
pub(super) fn table(method: &str, target: &str) -> Request {
    let request = Request::new(Service::Table, method, target);
    request.header("Content-Type", "application/json")
}

/// A Put Blob request for a blob of this type.
pub(super) fn put(target: &str, kind: &str) -> Request {
    blob("PUT", target).header("x-ms-blob-type", kind)
}

fn pages(request: Request) -> Request {
    request
        .header("x-ms-page-write", "update")
        .header("x-ms-range", "bytes=0-511")
}

fn batch_of_blobs(target: &str) -> Request {
    let part = Request::exactly(Service::Blob, "DELETE", &format!("/{ACCOUNT}/free/block"));
    let part = part
        .header("Content-Length", "0")
        .header("x-ms-delete-snapshots", "include");
    let part = String::from_utf8(part.without("Host").bytes()).unwrap();
    let head = "--b\r\nContent-Type: application/http\r\n\
                Content-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\n";
    let request = blob("POST", target).header("Content-Type", "multipart/mixed; boundary=b");
    request.body(format!("{head}{part}\r\n--b--\r\n"))
}

/// An entity group transaction of two insertions.
fn transaction() -> Request {
    let insert = |row: &str| {
        let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        let head = "--c\r\nContent-Type: application/http\r\n\
                    Content-Transfer-Encoding: binary\r\n\r\n";
        let length = entity.len();
        format!(
            "{head}POST /{ACCOUNT}/Free HTTP/1.1\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{entity}\r\n"
        )
    };
    let changeset = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n";
    let (first, second) = (insert("new1"), insert("new2"));
    Request::new(Service::Table, "POST", "/$batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(format!("{changeset}{first}{second}--c--\r\n--b--\r\n"))
}

fn stats(service: Service) -> Request {
    let target = format!("/{ACCOUNT}-secondary/?restype=service&comp=stats");
    Request::exactly(service, "GET", &target)
}

fn lease(target: &str, action: &str) -> Request {
    blob("PUT", target).header("x-ms-lease-action", action)
}

fn acquire(target: &str) -> Request {
    lease(target, "acquire").header("x-ms-lease-duration", "-1")
}

fn of_containers() -> Vec<Row> {
    let list = "/free?restype=container&comp=list";
    let leased = "/leased?restype=container&comp=lease";
    let held = |action: &str| lease(leased, action).header("x-ms-lease-id", "LEASED_CONTAINER");
    let service = "/?restype=service&comp=properties";
    let account = "/?restype=account&comp=properties";
    let found = "where=a%3D%271%27";
    let metadata = blob("PUT", "/free?restype=container&comp=metadata");
    let restore = blob("PUT", "/gone?restype=container&comp=undelete");
    let restore = restore
        .header("x-ms-deleted-container-name", "gone")
        .header("x-ms-deleted-container-version", "VERSION");
    let get = |target: &str| blob("GET", target);
    let head = |target: &str| blob("HEAD", target);
    vec![
        row(
            "Blob Service_SetProperties",
            blob("PUT", service).body(PROPERTIES),
        ),
        row("Blob Service_GetProperties", get(service)),
        row("Blob Service_GetStatistics", stats(Service::Blob)),
        row("Blob Service_ListContainersSegment", get("/?comp=list")),
        row("Blob Service_GetAccountInfo", get(account)),
        row("Blob Service_GetAccountInfoWithHead", head(account)),
        row("Blob Service_SubmitBatch", batch_of_blobs("/?comp=batch")),
        row(
            "Blob Service_FilterBlobs",
            get(&format!("/?comp=blobs&{found}")),
        ),
        row(
            "Blob Container_Create",
            blob("PUT", "/new?restype=container"),
        ),
        row(
            "Blob Container_GetProperties",
            get("/free?restype=container"),
        ),
        row(
            "Blob Container_GetPropertiesWithHead",
            head("/free?restype=container"),
        ),
        row(
            "Blob Container_Delete",
            blob("DELETE", "/free?restype=container"),
        ),
        row(
            "Blob Container_SetMetadata",
            metadata.header("x-ms-meta-new", "1"),
        ),
        row(
            "Blob Container_GetAccessPolicy",
            get("/free?restype=container&comp=acl"),
        ),
        row(
            "Blob Container_SetAccessPolicy",
            blob("PUT", "/free?restype=container&comp=acl").body(IDENTIFIERS),
        ),
        row("Blob Container_Restore", restore),
        row(
            "Blob Container_SubmitBatch",
            batch_of_blobs("/free?restype=container&comp=batch"),
        ),
        row(
            "Blob Container_FilterBlobs",
            get(&format!("/free?restype=container&comp=blobs&{found}")),
        ),
        row(
            "Blob Container_AcquireLease",
            acquire("/free?restype=container&comp=lease"),
        ),
        row("Blob Container_ReleaseLease", held("release")),
        row("Blob Container_RenewLease", held("renew")),
        row("Blob Container_BreakLease", lease(leased, "break")),
        row(
            "Blob Container_ChangeLease",
            held("change").header("x-ms-proposed-lease-id", "LEASED_CONTAINER"),
        ),
        row("Blob Container_ListBlobFlatSegment", get(list)),
        row(
            "Blob Container_ListBlobHierarchySegment",
            get(&format!("{list}&delimiter=/")),
        ),
        row(
            "Blob Container_GetAccountInfo",
            get("/free?restype=account&comp=properties"),
        ),
        row(
            "Blob Container_GetAccountInfoWithHead",
            head("/free?restype=account&comp=properties"),
        ),
    ]
}

fn of_blobs() -> Vec<Row> {
    let of = |comp: &str| blob("PUT", &format!("/free/block?comp={comp}"));
    let leased = "/leased/block?comp=lease";
    let held = |action: &str| lease(leased, action).header("x-ms-lease-id", "LEASED_BLOB");
    let account = "/free/block?restype=account&comp=properties";
    let get = |target: &str| blob("GET", target);
    vec![
        row("Blob Blob_Download", get("/free/block")),
        row("Blob Blob_GetProperties", blob("HEAD", "/free/block")),
        row(
            "Blob Blob_Delete",
            blob("DELETE", "/free/block").header("x-ms-delete-snapshots", "include"),
        ),
        row(
            "Blob Blob_Undelete",
            blob("PUT", "/free/deleted?comp=undelete"),
        ),
        row(
            "Blob Blob_SetExpiry",
            of("expiry")
                .header("x-ms-expiry-option", "RelativeToNow")
                .header("x-ms-expiry-time", "100000"),
        ),
        row(
            "Blob Blob_SetHTTPHeaders",
            of("properties").header("x-ms-blob-content-type", "a/b"),
        ),
        row(
            "Blob Blob_SetImmutabilityPolicy",
            of("immutabilityPolicies")
                .header("x-ms-immutability-policy-until-date", FUTURE)
                .header("x-ms-immutability-policy-mode", "Unlocked"),
        ),
        row(
            "Blob Blob_DeleteImmutabilityPolicy",
            blob("DELETE", "/guarded/policy?comp=immutabilityPolicies"),
        ),
        row(
            "Blob Blob_SetLegalHold",
            of("legalhold").header("x-ms-legal-hold", "true"),
        ),
        row(
            "Blob Blob_SetMetadata",
            of("metadata").header("x-ms-meta-new", "1"),
        ),
        row("Blob Blob_AcquireLease", acquire("/free/block?comp=lease")),
        row("Blob Blob_ReleaseLease", held("release")),
        row("Blob Blob_RenewLease", held("renew")),
        row(
            "Blob Blob_ChangeLease",
            held("change").header("x-ms-proposed-lease-id", "LEASED_BLOB"),
        ),
        row("Blob Blob_BreakLease", lease(leased, "break")),
        row("Blob Blob_CreateSnapshot", of("snapshot")),
        row(
            "Blob Blob_AbortCopyFromURL",
            blob("PUT", "/free/pending?comp=copy&copyid=COPY").header("x-ms-copy-action", "abort"),
        ),
        row(
            "Blob Blob_SetTier",
            of("tier").header("x-ms-access-tier", "Cool"),
        ),
        row("Blob Blob_GetAccountInfo", get(account)),
        row("Blob Blob_GetAccountInfoWithHead", blob("HEAD", account)),
        row(
            "Blob Blob_Query",
            blob("POST", "/free/block?comp=query").body(QUERY),
        ),
        row("Blob Blob_GetTags", get("/free/block?comp=tags")),
        row("Blob Blob_SetTags", of("tags").body(TAGS)),
        row(
            "Blob BlockBlob_Upload",
            put("/free/block", "BlockBlob").body("new"),
        ),
        row(
            "Blob BlockBlob_StageBlock",
            of("block&blockid=AAAA").body("staged"),
        ),
        row(
            "Blob BlockBlob_CommitBlockList",
            of("blocklist").body(BLOCKS),
        ),
        row(
            "Blob BlockBlob_GetBlockList",
            get("/free/block?comp=blocklist"),
        ),
        row("Blob AppendBlob_Create", put("/free/append", "AppendBlob")),
        row(
            "Blob AppendBlob_AppendBlock",
            blob("PUT", "/free/append?comp=appendblock").body("more"),
        ),
        row(
            "Blob AppendBlob_Seal",
            blob("PUT", "/free/append?comp=seal"),
        ),
    ]
}

fn of_page_blobs() -> Vec<Row> {
    let of = |comp: &str| blob("PUT", &format!("/free/page?comp={comp}"));
    let ranges = "/source/page?comp=pagelist";
    let clear = of("page").header("x-ms-page-write", "clear");
    vec![
        row(
            "Blob PageBlob_Create",
            put("/free/page", "PageBlob").header("x-ms-blob-content-length", "512"),
        ),
        row(
            "Blob PageBlob_UploadPages",
            pages(of("page")).body(vec![7; PAGE]),
        ),
        row(
            "Blob PageBlob_ClearPages",
            clear.header("x-ms-range", "bytes=0-511"),
        ),
        row("Blob PageBlob_GetPageRanges", blob("GET", ranges)),
        row(
            "Blob PageBlob_GetPageRangesDiff",
            blob("GET", &format!("{ranges}&prevsnapshot=SNAPSHOT")),
        ),
        row(
            "Blob PageBlob_Resize",
            of("properties").header("x-ms-blob-content-length", "1024"),
        ),
        row(
            "Blob PageBlob_UpdateSequenceNumber",
            of("properties")
                .header("x-ms-sequence-number-action", "update")
                .header("x-ms-blob-sequence-number", "9"),
        ),
    ]
}

/// The operations with a source, once on this server and once on the one at port `other`.
fn of_copies(server: &Server, other: u16) -> Vec<Row> {
    let (port, sas) = (server.ports.blob, account_sas_for("b", "o", "r"));
    let own = |name: &str| format!("http://127.0.0.1:{port}/{ACCOUNT}/source/{name}{sas}");
    let foreign = format!("http://127.0.0.1:{other}/whole");
    let whole = || blob("PUT", "/free/block");
    let mut rows = Vec::new();
    let mut add = |name, request: Request, url: &str, source| {
        let request = request.header("x-ms-copy-source", url);
        rows.push(Row {
            name,
            request,
            source,
        });
    };
    for (url, source) in [(own("block?"), Source::Own), (foreign, Source::Foreign)] {
        let waiting = whole().header("x-ms-requires-sync", "true");
        let put = put("/free/block", "BlockBlob");
        let stage = blob("PUT", "/free/block?comp=block&blockid=AAAA");
        let append = blob("PUT", "/free/append?comp=appendblock");
        let page = pages(blob("PUT", "/free/page?comp=page"));
        let page = page.header("x-ms-source-range", "bytes=0-511");
        for (name, request) in [
            ("Blob Blob_StartCopyFromURL", whole()),
            ("Blob Blob_CopyFromURL", waiting),
            ("Blob BlockBlob_PutBlobFromUrl", put),
            ("Blob BlockBlob_StageBlockFromURL", stage),
            ("Blob AppendBlob_AppendBlockFromUrl", append),
            ("Blob PageBlob_UploadPagesFromURL", page),
        ] {
            add(name, request, &url, source);
        }
    }
    let incremental = blob("PUT", "/free/incremental?comp=incrementalcopy");
    let snapshot = own("page?snapshot=SNAPSHOT&");
    add(
        "Blob PageBlob_CopyIncremental",
        incremental,
        &snapshot,
        Source::Own,
    );
    rows
}

fn of_queues() -> Vec<Row> {
    let service = "/?restype=service&comp=properties";
    let message = |method: &str, query: &str| {
        let target = format!("/free/messages/MESSAGE?popreceipt=RECEIPT{query}");
        queue(method, &target)
    };
    let get = |target: &str| queue("GET", target);
    let head = |target: &str| queue("HEAD", target);
    vec![
        row(
            "Queue Service_SetProperties",
            queue("PUT", service).body(PROPERTIES),
        ),
        row("Queue Service_GetProperties", get(service)),
        row("Queue Service_GetStatistics", stats(Service::Queue)),
        row("Queue Service_ListQueuesSegment", get("/?comp=list")),
        row("Queue Queue_Create", queue("PUT", "/new")),
        row("Queue Queue_Delete", queue("DELETE", "/free")),
        row("Queue Queue_GetProperties", get("/free?comp=metadata")),
        row(
            "Queue Queue_GetPropertiesWithHead",
            head("/free?comp=metadata"),
        ),
        row(
            "Queue Queue_SetMetadata",
            queue("PUT", "/free?comp=metadata").header("x-ms-meta-new", "1"),
        ),
        row("Queue Queue_GetAccessPolicy", get("/free?comp=acl")),
        row(
            "Queue Queue_GetAccessPolicyWithHead",
            head("/free?comp=acl"),
        ),
        row(
            "Queue Queue_SetAccessPolicy",
            queue("PUT", "/free?comp=acl").body(IDENTIFIERS),
        ),
        row("Queue Messages_Dequeue", get("/free/messages")),
        row("Queue Messages_Clear", queue("DELETE", "/free/messages")),
        row(
            "Queue Messages_Enqueue",
            queue("POST", "/free/messages").body(MESSAGE),
        ),
        row("Queue Messages_Peek", get("/free/messages?peekonly=true")),
        row(
            "Queue MessageId_Update",
            message("PUT", "&visibilitytimeout=60").body(MESSAGE),
        ),
        row("Queue MessageId_Delete", message("DELETE", "")),
    ]
}

fn of_tables() -> Vec<Row> {
    let entity = "/Free(PartitionKey='p',RowKey='r')";
    let service = "/?restype=service&comp=properties";
    let plain = |method: &str, target: &str| Request::new(Service::Table, method, target);
    let any = |request: Request| request.header("If-Match", "*");
    vec![
        row("Table Table_Query", plain("GET", "/Tables")),
        row(
            "Table Table_Create",
            table("POST", "/Tables").body(r#"{"TableName":"New"}"#),
        ),
        row("Table Table_Batch", transaction()),
        row("Table Table_Delete", plain("DELETE", "/Tables('Free')")),
        row("Table Table_QueryEntities", plain("GET", "/Free()")),
        row(
            "Table Table_QueryEntitiesWithPartitionAndRowKey",
            plain("GET", entity),
        ),
        row(
            "Table Table_UpdateEntity",
            any(table("PUT", entity)).body(r#"{"A":2}"#),
        ),
        row(
            "Table Table_MergeEntity",
            any(table("PATCH", entity)).body(r#"{"B":2}"#),
        ),
        row("Table Table_DeleteEntity", any(plain("DELETE", entity))),
        row(
            "Table Table_InsertEntity",
            table("POST", "/Free").body(r#"{"PartitionKey":"p","RowKey":"new"}"#),
        ),
        row(
            "Table Table_GetAccessPolicy",
            plain("GET", "/Free?comp=acl"),
        ),
        row(
            "Table Table_SetAccessPolicy",
            plain("PUT", "/Free?comp=acl").body(IDENTIFIERS),
        ),
        row(
            "Table Service_SetProperties",
            plain("PUT", service).body(PROPERTIES),
        ),
        row("Table Service_GetProperties", plain("GET", service)),
        row("Table Service_GetStatistics", stats(Service::Table)),
    ]
}

/// Operations that change something and are missing in the specification.
fn of_no_specification() -> Vec<Row> {
    let entity = "/Free(PartitionKey='p',RowKey='r')";
    vec![
        row(
            "RenameContainer",
            blob("PUT", "/renamed?restype=container&comp=rename")
                .header("x-ms-source-container-name", "free"),
        ),
        row(
            "InsertOrReplaceEntity",
            table("PUT", entity).body(r#"{"A":2}"#),
        ),
        row(
            "InsertOrMergeEntity",
            table("MERGE", entity).body(r#"{"B":2}"#),
        ),
    ]
}

pub(super) fn all_rows(server: &Server, other: u16) -> Vec<Row> {
    let rows = [
        of_containers(),
        of_blobs(),
        of_page_blobs(),
        of_copies(server, other),
        of_queues(),
        of_tables(),
        of_no_specification(),
    ];
    rows.into_iter().flatten().collect()
}
