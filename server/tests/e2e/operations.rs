//! The table of operations: for each one, a request that succeeds, and the permissions that it needs.
//! `matrix` tries the permissions, `refusals` makes the requests invalid. The capitalised words of
//! requests and their resources come from `refusals/store.rs`.
//!
//! A unit test of the server checks that every operation has a row here.

use crate::http::Request;
use crate::rights::account_sas_for;
use crate::server::{ACCOUNT, Server, Service};

pub(crate) const PAGE: usize = 512;
pub(crate) const PAST: &str = "Sat, 01 Jan 2000 00:00:00 GMT";
pub(crate) const FUTURE: &str = "Fri, 01 Jan 2100 00:00:00 GMT";
pub(crate) const MESSAGE: &str = "<QueueMessage><MessageText>new</MessageText></QueueMessage>";
const TAGS: &str = "<Tags><TagSet><Tag><Key>a</Key><Value>2</Value></Tag></TagSet></Tags>";
const BLOCKS: &str = "<BlockList><Latest>AAAA</Latest></BlockList>";
const IDENTIFIERS: &str = "<SignedIdentifiers><SignedIdentifier><Id>i</Id><AccessPolicy>\
                           <Permission>r</Permission></AccessPolicy>\
                           </SignedIdentifier></SignedIdentifiers>";
const PROPERTIES: &str = "<StorageServiceProperties><Cors /></StorageServiceProperties>";
const QUERY: &str = "<QueryRequest><QueryType>SQL</QueryType>\
                     <Expression>SELECT * FROM BlobStorage</Expression></QueryRequest>";

pub(crate) const LAKE_LIST: &str = "user::rwx,group::r-x,other::---";
pub(crate) const LAKE_LEASE: &str = "11111111-0000-0000-0000-000000000001";
const LAKE_USER: &str = "aaaaaaaa-0000-0000-0000-000000000001";

/// Published operations without a request, with the reason.
pub(crate) const UNREACHED: [(&str, &str); 1] = [(
    "Blob Service_GetUserDelegationKey",
    "It needs a bearer token, and that needs HTTPS.",
)];

/// An operation, a request for it that succeeds, the permissions that it needs, and the origin of
/// its content if it copies.
pub(crate) struct Row {
    /// The service and `operationId` of the published specification; or a name, for an operation
    /// that it leaves out.
    pub(crate) name: &'static str,
    pub(crate) rights: Rights,
    pub(crate) request: Request,
    pub(crate) source: Source,
}

/// The letters that permit an operation in an account SAS and in a service SAS. One letter suffices,
/// unless `all` is true. Without letters, no SAS of that kind permits the operation. Sources: Create
/// an account SAS, "Account SAS permissions by operation"; Create a service SAS, "Permissions for a
/// directory, container, or blob", "Permissions for a queue", "Permissions for a table"; Set Blob
/// Tier, Lease Blob, "Authorization".
#[derive(Clone, Copy)]
pub(crate) struct Rights {
    pub(crate) account: &'static str,
    pub(crate) service: &'static str,
    /// Letters of `srt`, one of which an account SAS must have; `None`: that of the request's path.
    pub(crate) types: Option<&'static str>,
    /// Whether all letters are required, or one suffices.
    pub(crate) all: bool,
    /// Letters that are required in addition, for headers and parameters.
    pub(crate) also: &'static str,
    /// Whether a SAS for the blob suffices, not only one for its container.
    pub(crate) of_blob: bool,
    /// Whether anonymous clients may perform the operation in a public container.
    pub(crate) public: bool,
}

/// The letters of an operation that any permission opens.
const ANY_LETTER: &str = "rwdlacupitfxyme";

/// An operation that only an account SAS permits.
pub(crate) fn account(letters: &'static str) -> Rights {
    Rights {
        account: letters,
        service: "",
        types: None,
        all: false,
        also: "",
        of_blob: false,
        public: false,
    }
}

/// An operation that a SAS for its container, queue or table permits too.
pub(crate) fn container(letters: &'static str) -> Rights {
    Rights {
        service: letters,
        ..account(letters)
    }
}

/// An operation that a SAS for its blob permits too.
pub(crate) fn of_blob(letters: &'static str) -> Rights {
    Rights {
        of_blob: true,
        ..container(letters)
    }
}

impl Rights {
    pub(crate) fn public(self) -> Rights {
        Rights {
            public: true,
            ..self
        }
    }

    fn types(self, types: &'static str) -> Rights {
        Rights {
            types: Some(types),
            ..self
        }
    }

    /// Requires all letters instead of one.
    fn all(self) -> Rights {
        Rights { all: true, ..self }
    }

    /// Requires these letters in addition.
    pub(crate) fn also(self, also: &'static str) -> Rights {
        Rights { also, ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    None,
    Own,
    Foreign,
}

impl Row {
    pub(crate) fn changes_state(&self) -> bool {
        let reads = ["GET", "HEAD"].contains(&self.request.method());
        let exceptions = ["Queue Messages_Dequeue", "Blob Blob_Query"];
        reads == exceptions.contains(&self.name)
    }

    /// The operation's name in the tables of accepted requests.
    pub(crate) fn label(&self) -> String {
        let from = if self.source == Source::Foreign {
            " from another server"
        } else {
            ""
        };
        format!("{}{from}", self.name)
    }
}

pub(crate) fn row(name: &'static str, rights: Rights, request: Request) -> Row {
    Row {
        name,
        rights,
        request,
        source: Source::None,
    }
}

pub(crate) fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

pub(crate) fn queue(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

/// A request to Table with the content type of JSON.
pub(crate) fn table(method: &str, target: &str) -> Request {
    let request = Request::new(Service::Table, method, target);
    request.header("Content-Type", "application/json")
}

/// A Put Blob request for a blob of this type.
pub(crate) fn put(target: &str, kind: &str) -> Request {
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

#[rustfmt::skip]
fn of_containers() -> Vec<Row> {
    let list = "/free?restype=container&comp=list";
    let leased = "/leased?restype=container&comp=lease";
    let held = |action: &str| lease(leased, action).header("x-ms-lease-id", "LEASED_CONTAINER");
    let service = "/?restype=service&comp=properties";
    let account_info = "/?restype=account&comp=properties";
    let found = "where=a%3D%271%27";
    let metadata = blob("PUT", "/free?restype=container&comp=metadata");
    let restore = blob("PUT", "/gone?restype=container&comp=undelete");
    let restore = restore
        .header("x-ms-deleted-container-name", "gone")
        .header("x-ms-deleted-container-version", "VERSION");
    let get = |target: &str| blob("GET", target);
    let head = |target: &str| blob("HEAD", target);
    vec![
        row("Blob Service_SetProperties", account("w"), blob("PUT", service).body(PROPERTIES)),
        row("Blob Service_GetProperties", account("r"), get(service)),
        row("Blob Service_GetStatistics", account("r"), stats(Service::Blob)),
        row("Blob Service_ListContainersSegment", account("l"), get("/?comp=list")),
        row("Blob Service_GetAccountInfo", account(ANY_LETTER).types("sco"), get(account_info)),
        row("Blob Service_GetAccountInfoWithHead", account(ANY_LETTER).types("sco"),
            head(account_info)),
        row("Blob Service_SubmitBatch", account(ANY_LETTER).types("sco"),
            batch_of_blobs("/?comp=batch")),
        row("Blob Service_FilterBlobs", account("f").types("oc"),
            get(&format!("/?comp=blobs&{found}"))),
        row("Blob Container_Create", account("cw"), blob("PUT", "/new?restype=container")),
        row("Blob Container_GetProperties", account("r").public(), get("/free?restype=container")),
        row("Blob Container_GetPropertiesWithHead", account("r").public(),
            head("/free?restype=container")),
        row("Blob Container_Delete", account("d"), blob("DELETE", "/free?restype=container")),
        row("Blob Container_SetMetadata", account("w"), metadata.header("x-ms-meta-new", "1")),
        row("GetContainerMetadata", account("r").public(),
            get("/free?restype=container&comp=metadata")),
        row("Blob Container_GetAccessPolicy", account(""), get("/free?restype=container&comp=acl")),
        row("Blob Container_SetAccessPolicy", account(""),
            blob("PUT", "/free?restype=container&comp=acl").body(IDENTIFIERS)),
        row("Blob Container_Restore", account("w"), restore),
        row("Blob Container_SubmitBatch", container(ANY_LETTER).types("sco"),
            batch_of_blobs("/free?restype=container&comp=batch")),
        row("Blob Container_FilterBlobs", container("f").types("oc"),
            get(&format!("/free?restype=container&comp=blobs&{found}"))),
        row("Blob Container_AcquireLease", account("w"),
            acquire("/free?restype=container&comp=lease")),
        row("Blob Container_ReleaseLease", account("w"), held("release")),
        row("Blob Container_RenewLease", account("w"), held("renew")),
        row("Blob Container_BreakLease", account("wd"), lease(leased, "break")),
        row("Blob Container_ChangeLease", account("w"),
            held("change").header("x-ms-proposed-lease-id", "LEASED_CONTAINER")),
        row("Blob Container_ListBlobFlatSegment", container("l").public(), get(list)),
        row("Blob Container_ListBlobHierarchySegment", container("l").public(),
            get(&format!("{list}&delimiter=/"))),
        row("Blob Container_GetAccountInfo", container(ANY_LETTER).types("sco"),
            get("/free?restype=account&comp=properties")),
        row("Blob Container_GetAccountInfoWithHead", container(ANY_LETTER).types("sco"),
            head("/free?restype=account&comp=properties")),
    ]
}

#[rustfmt::skip]
fn of_blobs() -> Vec<Row> {
    let of = |comp: &str| blob("PUT", &format!("/free/block?comp={comp}"));
    let leased = "/leased/block?comp=lease";
    let held = |action: &str| lease(leased, action).header("x-ms-lease-id", "LEASED_BLOB");
    let account_info = "/free/block?restype=account&comp=properties";
    let get = |target: &str| blob("GET", target);
    vec![
        row("Blob Blob_Download", of_blob("r").public(), get("/free/block")),
        row("GetBlobMetadata", of_blob("r").public(), get("/free/block?comp=metadata")),
        row("Blob Blob_GetProperties", of_blob("r").public(), blob("HEAD", "/free/block")),
        row("Blob Blob_Delete", of_blob("d"),
            blob("DELETE", "/free/block").header("x-ms-delete-snapshots", "include")),
        row("Blob Blob_Undelete", of_blob("w"), blob("PUT", "/free/deleted?comp=undelete")),
        row(
            "Blob Blob_SetExpiry",
            of_blob("w"),
            of("expiry")
                .header("x-ms-expiry-option", "RelativeToNow")
                .header("x-ms-expiry-time", "100000"),
        ),
        row("Blob Blob_SetHTTPHeaders", of_blob("w"),
            of("properties").header("x-ms-blob-content-type", "a/b")),
        row(
            "Blob Blob_SetImmutabilityPolicy",
            of_blob("i"),
            of("immutabilityPolicies")
                .header("x-ms-immutability-policy-until-date", FUTURE)
                .header("x-ms-immutability-policy-mode", "Unlocked"),
        ),
        row("Blob Blob_DeleteImmutabilityPolicy", of_blob("i"),
            blob("DELETE", "/guarded/policy?comp=immutabilityPolicies")),
        row("Blob Blob_SetLegalHold", of_blob("i"),
            of("legalhold").header("x-ms-legal-hold", "true")),
        row("Blob Blob_SetMetadata", of_blob("w"), of("metadata").header("x-ms-meta-new", "1")),
        row("Blob Blob_AcquireLease", of_blob("w"), acquire("/free/block?comp=lease")),
        row("Blob Blob_ReleaseLease", of_blob("w"), held("release")),
        row("Blob Blob_RenewLease", of_blob("w"), held("renew")),
        row("Blob Blob_ChangeLease", of_blob("w"),
            held("change").header("x-ms-proposed-lease-id", "LEASED_BLOB")),
        row("Blob Blob_BreakLease", of_blob("wd"), lease(leased, "break")),
        row("Blob Blob_CreateSnapshot", of_blob("cw"), of("snapshot")),
        row("Blob Blob_AbortCopyFromURL", of_blob("w"),
            blob("PUT", "/free/pending?comp=copy&copyid=COPY").header("x-ms-copy-action", "abort")),
        row("Blob Blob_SetTier", of_blob("w"), of("tier").header("x-ms-access-tier", "Cool")),
        row("Blob Blob_GetAccountInfo", of_blob(ANY_LETTER).types("sco"), get(account_info)),
        row("Blob Blob_GetAccountInfoWithHead", of_blob(ANY_LETTER).types("sco"),
            blob("HEAD", account_info)),
        row("Blob Blob_Query", of_blob("r"), blob("POST", "/free/block?comp=query").body(QUERY)),
        row("Blob Blob_GetTags", of_blob("t"), get("/free/block?comp=tags")),
        row("Blob Blob_SetTags", of_blob("t"), of("tags").body(TAGS)),
        row("Blob BlockBlob_Upload", of_blob("cw"), put("/free/block", "BlockBlob").body("new")),
        // From API version 2026-06-06 on, `c` suffices too: see `credentials`.
        row("Blob BlockBlob_StageBlock", of_blob("w"), of("block&blockid=AAAA").body("staged")),
        row("Blob BlockBlob_CommitBlockList", of_blob("w"), of("blocklist").body(BLOCKS)),
        row("Blob BlockBlob_GetBlockList", of_blob("r").public(),
            get("/free/block?comp=blocklist")),
        row("Blob AppendBlob_Create", of_blob("cw"), put("/free/append", "AppendBlob")),
        row("Blob AppendBlob_AppendBlock", of_blob("aw"),
            blob("PUT", "/free/append?comp=appendblock").body("more")),
        row("Blob AppendBlob_Seal", of_blob("w"), blob("PUT", "/free/append?comp=seal")),
    ]
}

#[rustfmt::skip]
fn of_page_blobs() -> Vec<Row> {
    let of = |comp: &str| blob("PUT", &format!("/free/page?comp={comp}"));
    let ranges = "/source/page?comp=pagelist";
    let clear = of("page").header("x-ms-page-write", "clear");
    vec![
        row("Blob PageBlob_Create", of_blob("cw"),
            put("/free/page", "PageBlob").header("x-ms-blob-content-length", "512")),
        row("Blob PageBlob_UploadPages", of_blob("w"), pages(of("page")).body(vec![7; PAGE])),
        row("Blob PageBlob_ClearPages", of_blob("w"), clear.header("x-ms-range", "bytes=0-511")),
        row("Blob PageBlob_GetPageRanges", of_blob("r").public(), blob("GET", ranges)),
        row("Blob PageBlob_GetPageRangesDiff", of_blob("r").public(),
            blob("GET", &format!("{ranges}&prevsnapshot=SNAPSHOT"))),
        row("Blob PageBlob_Resize", of_blob("w"),
            of("properties").header("x-ms-blob-content-length", "1024")),
        row(
            "Blob PageBlob_UpdateSequenceNumber",
            of_blob("w"),
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
    let mut add = |name, rights, request: Request, url: &str, source| {
        let request = request.header("x-ms-copy-source", url);
        rows.push(Row {
            name,
            rights,
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
        for (name, rights, request) in [
            ("Blob Blob_StartCopyFromURL", of_blob("cw"), whole()),
            ("Blob Blob_CopyFromURL", of_blob("cw"), waiting),
            ("Blob BlockBlob_PutBlobFromUrl", of_blob("cw"), put),
            ("Blob BlockBlob_StageBlockFromURL", of_blob("w"), stage),
            ("Blob AppendBlob_AppendBlockFromUrl", of_blob("aw"), append),
            ("Blob PageBlob_UploadPagesFromURL", of_blob("w"), page),
        ] {
            add(name, rights, request, &url, source);
        }
    }
    let incremental = blob("PUT", "/free/incremental?comp=incrementalcopy");
    let snapshot = own("page?snapshot=SNAPSHOT&");
    add(
        "Blob PageBlob_CopyIncremental",
        of_blob("cw"),
        incremental,
        &snapshot,
        Source::Own,
    );
    rows
}

#[rustfmt::skip]
fn of_queues() -> Vec<Row> {
    let service = "/?restype=service&comp=properties";
    let message = |method: &str, query: &str| {
        let target = format!("/free/messages/MESSAGE?popreceipt=RECEIPT{query}");
        queue(method, &target)
    };
    let get = |target: &str| queue("GET", target);
    let head = |target: &str| queue("HEAD", target);
    vec![
        row("Queue Service_SetProperties", account("w"), queue("PUT", service).body(PROPERTIES)),
        row("Queue Service_GetProperties", account("r"), get(service)),
        row("Queue Service_GetStatistics", account("r"), stats(Service::Queue)),
        row("Queue Service_ListQueuesSegment", account("l"), get("/?comp=list")),
        row("Queue Queue_Create", account("cw"), queue("PUT", "/new")),
        row("Queue Queue_Delete", account("d"), queue("DELETE", "/free")),
        row("Queue Queue_GetProperties", container("r"), get("/free?comp=metadata")),
        row("Queue Queue_GetPropertiesWithHead", container("r"), head("/free?comp=metadata")),
        row("Queue Queue_SetMetadata", account("w"),
            queue("PUT", "/free?comp=metadata").header("x-ms-meta-new", "1")),
        row("Queue Queue_GetAccessPolicy", account(""), get("/free?comp=acl")),
        row("Queue Queue_GetAccessPolicyWithHead", account(""), head("/free?comp=acl")),
        row("Queue Queue_SetAccessPolicy", account(""),
            queue("PUT", "/free?comp=acl").body(IDENTIFIERS)),
        row("Queue Messages_Dequeue", container("p"), get("/free/messages")),
        row("Queue Messages_Clear", account("d"), queue("DELETE", "/free/messages")),
        row("Queue Messages_Enqueue", container("a"),
            queue("POST", "/free/messages").body(MESSAGE)),
        row("Queue Messages_Peek", container("r"), get("/free/messages?peekonly=true")),
        row("Queue MessageId_Update", container("u").types("oc"),
            message("PUT", "&visibilitytimeout=60").body(MESSAGE)),
        row("Queue MessageId_Delete", container("p").types("oc"), message("DELETE", "")),
    ]
}

#[rustfmt::skip]
fn of_tables() -> Vec<Row> {
    let entity = "/Free(PartitionKey='p',RowKey='r')";
    let service = "/?restype=service&comp=properties";
    let plain = |method: &str, target: &str| Request::new(Service::Table, method, target);
    let any = |request: Request| request.header("If-Match", "*");
    vec![
        row("Table Table_Query", account("l"), plain("GET", "/Tables")),
        row("Table Table_Create", account("cw"),
            table("POST", "/Tables").body(r#"{"TableName":"New"}"#)),
        // Undocumented. Accepts the letter of Query Tables or that of other reads.
        row("GetTable", account("lr"), plain("GET", "/Tables('Free')")),
        // Any of these letters admits the batch. Each operation inside is checked on its own.
        row("Table Table_Batch", container("raud"), transaction()),
        row("Table Table_Delete", account("d"), plain("DELETE", "/Tables('Free')")),
        // The documentation requires type `o`, Azurite type `c`; either suffices here.
        row("Table Table_QueryEntities", container("r").types("oc"), plain("GET", "/Free()")),
        row("Table Table_QueryEntitiesWithPartitionAndRowKey", container("r"),
            plain("GET", entity)),
        row("Table Table_UpdateEntity", container("u"),
            any(table("PUT", entity)).body(r#"{"A":2}"#)),
        row("Table Table_MergeEntity", container("u"),
            any(table("PATCH", entity)).body(r#"{"B":2}"#)),
        row("Table Table_DeleteEntity", container("d"), any(plain("DELETE", entity))),
        row("Table Table_InsertEntity", container("a"),
            table("POST", "/Free").body(r#"{"PartitionKey":"p","RowKey":"new"}"#)),
        row("Table Table_GetAccessPolicy", account(""), plain("GET", "/Free?comp=acl")),
        row("Table Table_SetAccessPolicy", account(""),
            plain("PUT", "/Free?comp=acl").body(IDENTIFIERS)),
        row("Table Service_SetProperties", account("w"), plain("PUT", service).body(PROPERTIES)),
        row("Table Service_GetProperties", account("r"), plain("GET", service)),
        row("Table Service_GetStatistics", account("r"), stats(Service::Table)),
    ]
}

/// Operations that change something and are missing in the specification. The rename is
/// undocumented.
#[rustfmt::skip]
fn of_no_specification() -> Vec<Row> {
    let entity = "/Free(PartitionKey='p',RowKey='r')";
    vec![
        row(
            "RenameContainer",
            account("wd").all(),
            blob("PUT", "/renamed?restype=container&comp=rename")
                .header("x-ms-source-container-name", "free"),
        ),
        row("InsertOrReplaceEntity", container("au").all(),
            table("PUT", entity).body(r#"{"A":2}"#)),
        row("InsertOrMergeEntity", container("au").all(),
            table("MERGE", entity).body(r#"{"B":2}"#)),
    ]
}

/// The operations of Data Lake Storage, which need an account with a hierarchical namespace: a file
/// system `free` with `file`, whose content is `data`, and a directory `dir` that is not empty.
#[rustfmt::skip]
pub(crate) fn lake_rows() -> Vec<Row> {
    let of_file_system = |method: &str| blob(method, "/free?resource=filesystem");
    let update = |path: &str, query: &str| blob("PATCH", &format!("/free/{path}?action={query}"));
    let head = |query: &str| blob("HEAD", &format!("/free/file{query}"));
    vec![
        row("DataLake Service_ListFileSystems", account("l"), blob("GET", "/?resource=account")),
        row("DataLake FileSystem_Create", account("cw"), blob("PUT", "/new?resource=filesystem")),
        row("DataLake FileSystem_SetProperties", account("w"),
            of_file_system("PATCH").header("x-ms-properties", "a=YQ==")),
        row("DataLake FileSystem_GetProperties", account("r"), of_file_system("HEAD")),
        row("DataLake FileSystem_Delete", account("d"), of_file_system("DELETE")),
        row("DataLake FileSystem_ListPaths", container("l"),
            blob("GET", "/free?resource=filesystem&recursive=true")),
        row("DataLake Path_Create", of_blob("cw"), blob("PUT", "/free/made?resource=file")),
        row("DataLake Path_Create with an owner", of_blob("cw").also("o"),
            blob("PUT", "/free/made?resource=directory").header("x-ms-owner", LAKE_USER)),
        row("DataLake Path_Create with a list", of_blob("cw").also("p"),
            blob("PUT", "/free/made?resource=directory").header("x-ms-acl", LAKE_LIST)),
        row("DataLake Path_Update", of_blob("w"),
            update("file", "setProperties").header("x-ms-properties", "a=YQ==")),
        row("DataLake Path_Create with a lease", of_blob("w"),
            blob("PUT", "/free/made?resource=file").header("x-ms-proposed-lease-id", LAKE_LEASE)
                .header("x-ms-lease-duration", "-1")),
        row("DataLake PathRename", of_blob("m"),
            blob("PUT", "/free/renamed?mode=legacy").header("x-ms-rename-source", "/free/file")),
        row("DataLake Path_AppendData", of_blob("aw"),
            update("file", "append&position=4").body("more")),
        row("DataLake Path_FlushData", of_blob("aw"), update("file", "flush&position=4")),
        row("DataLake Path_AppendData with a lease", of_blob("w"),
            update("file", "append&position=4").body("more")
                .header("x-ms-lease-action", "acquire-release")
                .header("x-ms-lease-duration", "-1").header("x-ms-proposed-lease-id", LAKE_LEASE)),
        row("DataLake Path_FlushData with a type", of_blob("w"),
            update("file", "flush&position=4").header("x-ms-content-type", "a/b")),
        row("DataLake Path_SetAccessControl", of_blob("p"),
            update("file", "setAccessControl").header("x-ms-permissions", "0777")),
        row("DataLake Path_SetAccessControl of the owner", of_blob("o"),
            update("file", "setAccessControl").header("x-ms-owner", LAKE_USER)),
        row("DataLake Path_SetAccessControlRecursive", of_blob("p"),
            update("dir", "setAccessControlRecursive&mode=set").header("x-ms-acl", LAKE_LIST)),
        row("DataLake Path_Lease", of_blob("w"),
            blob("POST", "/free/file").header("x-ms-lease-action", "acquire")
                .header("x-ms-lease-duration", "-1").header("x-ms-proposed-lease-id", LAKE_LEASE)),
        row("DataLake Path_Read", of_blob("r"),
            blob("GET", "/free/file").header("Accept", "application/json")),
        row("DataLake Path_GetProperties", of_blob("r"),
            head("").header("Accept", "application/json")),
        row("DataLake Path_GetProperties: getStatus", of_blob("er"), head("?action=getStatus")),
        row("DataLake Path_GetProperties: getAccessControl", of_blob("er"),
            head("?action=getAccessControl")),
        row("DataLake Path_GetProperties: checkAccess", of_blob("er"),
            head("?action=checkAccess&fsAction=r--")),
        row("DataLake Path_Delete", of_blob("d"), blob("DELETE", "/free/dir?recursive=true")),
    ]
}

pub(crate) fn all_rows(server: &Server, other: u16) -> Vec<Row> {
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
