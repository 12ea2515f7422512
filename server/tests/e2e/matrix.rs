//! The matrix of rights: every operation of the three services against every kind of credentials
//! and every permission letter.
//!
//! A unit test of the server checks that every operation has a row here.

use std::collections::BTreeSet;

use tempfile::TempDir;

use crate::auth::bearer;
use crate::credentials::{DelegationKey, with_tokens};
use crate::http::{Connection, Request, Response};
use crate::rights::{account_sas_for, service_sas};
use crate::server::{Server, Service};

/// An operation of the documentation's tables: a request, and the letters that permit it in an
/// account SAS and in a service SAS. One letter suffices, unless `all` is true. Without letters, no
/// SAS of that kind permits the operation. Sources: Create an account SAS, "Account SAS permissions
/// by operation"; Create a service SAS, "Permissions for a directory, container, or blob",
/// "Permissions for a queue", "Permissions for a table"; Set Blob Tier, Lease Blob,
/// "Authorization".
struct Row {
    name: &'static str,
    request: Request,
    account: &'static str,
    service: &'static str,
    /// Letters of `srt`, one of which an account SAS must have.
    types: &'static str,
    /// Whether all letters are required, or one suffices.
    all: bool,
    /// Letters that are required in addition, for headers and parameters.
    also: &'static str,
    /// Whether a SAS for the blob suffices, not only one for its container.
    of_blob: bool,
    /// Whether anonymous clients may perform the operation in a public container.
    public: bool,
}

fn row(name: &'static str, request: Request, account: &'static str, service: &'static str) -> Row {
    let path = request.target().split('?').next().unwrap_or_default();
    let below_account = path.splitn(3, '/').nth(2).unwrap_or_default();
    let types = match below_account {
        "" => "s",
        "open" | "que" => "c",
        path if path.starts_with("Tables") => "c",
        _ => "o",
    };
    Row {
        name,
        request,
        account,
        service,
        types,
        all: false,
        also: "",
        of_blob: false,
        public: false,
    }
}

fn of_blob(name: &'static str, request: Request, letters: &'static str) -> Row {
    Row {
        of_blob: true,
        ..row(name, request, letters, letters)
    }
}

impl Row {
    fn public(self) -> Row {
        Row {
            public: true,
            ..self
        }
    }

    fn types(self, types: &'static str) -> Row {
        Row { types, ..self }
    }

    /// Requires all letters instead of one.
    fn all(self) -> Row {
        Row { all: true, ..self }
    }

    /// Requires these letters in addition.
    fn also(self, also: &'static str) -> Row {
        Row { also, ..self }
    }

    fn opens(&self, letters: &str, permissions: &str) -> bool {
        let has = |letter: char| permissions.contains(letter);
        let covered = if self.all {
            letters.chars().all(has)
        } else {
            letters.chars().any(has)
        };
        covered && !letters.is_empty() && self.also.chars().all(has)
    }
}

/// The operations on blobs. Comments mark deviations from the documentation and gaps in it.
fn blob_rows() -> Vec<Row> {
    let of = |method: &str, query: &str| blob(method, &format!("/open/b{query}"));
    let container = |method: &str, query: &str| {
        let joint = if query.is_empty() { "" } else { "&" };
        blob(method, &format!("/open?restype=container{joint}{query}"))
    };
    let kind = |kind: &str| of("PUT", "").header("x-ms-blob-type", kind);
    let copy = |request: Request| {
        request.header(
            "x-ms-copy-source",
            "http://127.0.0.1:1/devstoreaccount1/x/y",
        )
    };
    let batch =
        |target: &str| blob("POST", target).header("Content-Type", "multipart/mixed; boundary=b");
    let lease = |request: Request, action: &str| request.header("x-ms-lease-action", action);
    vec![
        row("List Containers", blob("GET", "/?comp=list"), "l", ""),
        row(
            "Get Blob Service Properties",
            blob("GET", "/?restype=service&comp=properties"),
            "r",
            "",
        ),
        row(
            "Set Blob Service Properties",
            blob("PUT", "/?restype=service&comp=properties"),
            "w",
            "",
        ),
        row(
            "Get Blob Service Stats",
            blob("GET", "-secondary/?restype=service&comp=stats"),
            "r",
            "",
        ),
        row(
            "Get User Delegation Key",
            blob("POST", "/?restype=service&comp=userdelegationkey"),
            "",
            "",
        ),
        row(
            "Find Blobs by Tags",
            blob("GET", "/?comp=blobs&where=%22a%22%3D'1'"),
            "f",
            "",
        )
        .types("oc"),
        row("Create Container", container("PUT", ""), "cw", ""),
        row("Get Container Properties", container("GET", ""), "r", "").public(),
        row(
            "Get Container Metadata",
            container("GET", "comp=metadata"),
            "r",
            "",
        )
        .public(),
        row(
            "Set Container Metadata",
            container("PUT", "comp=metadata"),
            "w",
            "",
        ),
        row("Get Container ACL", container("GET", "comp=acl"), "", ""),
        row("Set Container ACL", container("PUT", "comp=acl"), "", ""),
        row(
            "Rename Container",
            blob("PUT", "/open2?restype=container&comp=rename")
                .header("x-ms-source-container-name", "nosuch"),
            "wd",
            "",
        )
        // Undocumented.
        .types("c")
        .all(),
        row(
            "Get Account Information",
            blob("GET", "/?restype=account&comp=properties"),
            "rwdlacupitfxyme",
            "",
        )
        .types("sco"),
        row(
            "Get Account Information of a container",
            container("GET", "comp=properties").retarget("restype=container", "restype=account"),
            "rwdlacupitfxyme",
            "rwdlacupitfxyme",
        )
        .types("sco"),
        row("Batch", batch("/?comp=batch"), "rwdlacupitfxyme", "").types("sco"),
        row(
            "Batch in a container",
            batch("/open?restype=container&comp=batch"),
            "rwdlacupitfxyme",
            "rwdlacupitfxyme",
        )
        .types("sco"),
        row(
            "Restore Container",
            container("PUT", "comp=undelete"),
            "w",
            "",
        ),
        row(
            "Lease Container",
            lease(container("PUT", "comp=lease"), "acquire"),
            "w",
            "",
        ),
        row(
            "Lease Container (break)",
            lease(container("PUT", "comp=lease"), "break"),
            "wd",
            "",
        ),
        row("List Blobs", container("GET", "comp=list"), "l", "l").public(),
        row(
            "List Blobs with deleted ones",
            container("GET", "comp=list&include=deleted"),
            "l",
            "l",
        ),
        row(
            "List Blobs with tags",
            container("GET", "comp=list&include=tags"),
            "l",
            "l",
        )
        .also("t"),
        row(
            "Find Blobs by Tags in Container",
            container("GET", "comp=blobs&where=%22a%22%3D'1'"),
            "f",
            "f",
        )
        .types("oc"),
        of_blob("Put Blob", kind("BlockBlob"), "cw"),
        of_blob(
            "Put Blob with tags",
            kind("BlockBlob").header("x-ms-tags", "a=1"),
            "cw",
        )
        .also("t"),
        of_blob(
            "Put Blob with a legal hold",
            kind("BlockBlob").header("x-ms-legal-hold", "false"),
            "cw",
        )
        .also("i"),
        of_blob(
            "Put Blob with tags and a policy",
            kind("BlockBlob")
                .header("x-ms-tags", "a=1")
                .header("x-ms-immutability-policy-mode", "Unlocked"),
            "cw",
        )
        .also("ti"),
        of_blob(
            "Copy Blob with the tags of its source",
            copy(of("PUT", "")).header("x-ms-copy-source-tag-option", "COPY"),
            "cw",
        )
        .also("t"),
        of_blob(
            "Get Blob on a condition of tags",
            of("GET", "").header("x-ms-if-tags", "\"a\" = '1'"),
            "r",
        )
        .also("t"),
        of_blob(
            "Get Blob of a snapshot",
            of("GET", &format!("?snapshot={MOMENT}")),
            "r",
        )
        .public(),
        of_blob(
            "Get Blob of a version",
            of("GET", &format!("?versionid={MOMENT}")),
            "r",
        ),
        of_blob("Put Append Blob", kind("AppendBlob"), "cw"),
        of_blob("Put Page Blob", kind("PageBlob"), "cw"),
        of_blob("Put Blob From URL", copy(kind("BlockBlob")), "cw"),
        of_blob("Copy Blob", copy(of("PUT", "")), "cw"),
        of_blob(
            "Copy Blob From URL",
            copy(of("PUT", "").header("x-ms-requires-sync", "true")),
            "cw",
        ),
        of_blob(
            "Incremental Copy Blob",
            copy(of("PUT", "?comp=incrementalcopy")),
            "cw",
        ),
        // From API version 2026-06-06 on, `c` suffices too: see `credentials`.
        of_blob("Put Block", of("PUT", "?comp=block&blockid=AAAA"), "w"),
        of_blob(
            "Put Block From URL",
            copy(of("PUT", "?comp=block&blockid=AAAA")),
            "w",
        ),
        of_blob("Put Block List", of("PUT", "?comp=blocklist"), "w"),
        of_blob("Snapshot Blob", of("PUT", "?comp=snapshot"), "cw"),
        of_blob("Get Block List", of("GET", "?comp=blocklist"), "r").public(),
        of_blob(
            "Get Block List (all)",
            of("GET", "?comp=blocklist&blocklisttype=all"),
            "r",
        ),
        of_blob("Get Blob", of("GET", ""), "r").public(),
        of_blob("Get Blob Properties", of("HEAD", ""), "r").public(),
        of_blob("Get Blob Metadata", of("GET", "?comp=metadata"), "r").public(),
        of_blob("Get Page Ranges", of("GET", "?comp=pagelist"), "r").public(),
        of_blob("Query Blob Contents", of("POST", "?comp=query"), "r"),
        of_blob("Set Blob Properties", of("PUT", "?comp=properties"), "w"),
        of_blob("Set Blob Metadata", of("PUT", "?comp=metadata"), "w"),
        of_blob("Set Blob Tier", of("PUT", "?comp=tier"), "w"),
        of_blob("Set Blob Expiry", of("PUT", "?comp=expiry"), "w"),
        of_blob("Undelete Blob", of("PUT", "?comp=undelete"), "w"),
        of_blob("Abort Copy Blob", of("PUT", "?comp=copy&copyid=x"), "w"),
        of_blob("Put Page", of("PUT", "?comp=page"), "w"),
        of_blob("Put Page From URL", copy(of("PUT", "?comp=page")), "w"),
        of_blob("Append Block", of("PUT", "?comp=appendblock"), "aw"),
        of_blob(
            "Append Block From URL",
            copy(of("PUT", "?comp=appendblock")),
            "aw",
        ),
        of_blob("Append Blob Seal", of("PUT", "?comp=seal"), "w"),
        of_blob(
            "Lease Blob",
            lease(of("PUT", "?comp=lease"), "acquire"),
            "w",
        ),
        of_blob(
            "Lease Blob (break)",
            lease(of("PUT", "?comp=lease"), "break"),
            "wd",
        ),
        of_blob(
            "Lease Blob (renew)",
            lease(of("PUT", "?comp=lease"), "renew"),
            "w",
        ),
        of_blob(
            "Lease Blob (change)",
            lease(of("PUT", "?comp=lease"), "change"),
            "w",
        ),
        of_blob(
            "Lease Blob (release)",
            lease(of("PUT", "?comp=lease"), "release"),
            "w",
        ),
        of_blob("Get Blob Tags", of("GET", "?comp=tags"), "t"),
        of_blob("Set Blob Tags", of("PUT", "?comp=tags"), "t"),
        of_blob(
            "Set Blob Immutability Policy",
            of("PUT", "?comp=immutabilityPolicies"),
            "i",
        ),
        of_blob(
            "Delete Blob Immutability Policy",
            of("DELETE", "?comp=immutabilityPolicies"),
            "i",
        ),
        of_blob("Set Blob Legal Hold", of("PUT", "?comp=legalhold"), "i"),
        of_blob(
            "Delete Blob (permanently)",
            of(
                "DELETE",
                &format!("?snapshot={MOMENT}&deletetype=permanent"),
            ),
            "y",
        ),
        of_blob(
            "Delete Blob Version",
            of("DELETE", &format!("?versionid={MOMENT}")),
            "x",
        ),
        of_blob("Delete Blob", of("DELETE", ""), "d"),
        // Last, because it deletes the resources of the other rows.
        row("Delete Container", container("DELETE", ""), "d", ""),
    ]
}

fn queue_rows() -> Vec<Row> {
    let of = |method: &str, target: &str| Request::new(Service::Queue, method, target);
    let message = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
    vec![
        row("List Queues", of("GET", "/?comp=list"), "l", ""),
        row(
            "Get Queue Service Properties",
            of("GET", "/?restype=service&comp=properties"),
            "r",
            "",
        ),
        row(
            "Set Queue Service Properties",
            of("PUT", "/?restype=service&comp=properties"),
            "w",
            "",
        ),
        row(
            "Get Queue Service Stats",
            of("GET", "-secondary/?restype=service&comp=stats"),
            "r",
            "",
        )
        .types("s"),
        row(
            "Get User Delegation Key",
            of("POST", "/?restype=service&comp=userdelegationkey"),
            "",
            "",
        ),
        row("Create Queue", of("PUT", "/que"), "cw", ""),
        row(
            "Get Queue Metadata",
            of("GET", "/que?comp=metadata"),
            "r",
            "r",
        ),
        row(
            "Set Queue Metadata",
            of("PUT", "/que?comp=metadata"),
            "w",
            "",
        ),
        row("Get Queue ACL", of("GET", "/que?comp=acl"), "", ""),
        row("Set Queue ACL", of("PUT", "/que?comp=acl"), "", ""),
        row(
            "Put Message",
            of("POST", "/que/messages").body(message),
            "a",
            "a",
        ),
        row("Get Messages", of("GET", "/que/messages"), "p", "p"),
        row(
            "Peek Messages",
            of("GET", "/que/messages?peekonly=true"),
            "r",
            "r",
        ),
        row("Clear Messages", of("DELETE", "/que/messages"), "d", ""),
        row(
            "Update Message",
            of("PUT", "/que/messages/x?popreceipt=AAAA&visibilitytimeout=1"),
            "u",
            "u",
        )
        .types("oc"),
        row(
            "Delete Message",
            of("DELETE", "/que/messages/x?popreceipt=AAAA"),
            "p",
            "p",
        )
        .types("oc"),
        row("Delete Queue", of("DELETE", "/que"), "d", ""),
    ]
}

fn table_rows() -> Vec<Row> {
    let of = |method: &str, target: &str| Request::new(Service::Table, method, target);
    let entity = "/Tab(PartitionKey='p',RowKey='r')";
    let body = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    vec![
        row("Query Tables", of("GET", "/Tables"), "l", ""),
        row(
            "Create Table",
            of("POST", "/Tables").json(r#"{"TableName":"Tab"}"#),
            "cw",
            "",
        ),
        row("Get Table ACL", of("GET", "/Tab?comp=acl"), "", ""),
        row("Set Table ACL", of("PUT", "/Tab?comp=acl"), "", ""),
        row(
            "Get Table Service Properties",
            of("GET", "/?restype=service&comp=properties"),
            "r",
            "",
        ),
        row(
            "Set Table Service Properties",
            of("PUT", "/?restype=service&comp=properties"),
            "w",
            "",
        ),
        row(
            "Get Table Service Stats",
            of("GET", "-secondary/?restype=service&comp=stats"),
            "r",
            "",
        )
        .types("s"),
        row(
            "Get User Delegation Key",
            of("POST", "/?restype=service&comp=userdelegationkey"),
            "",
            "",
        ),
        // Undocumented. Accepts the letter of Query Tables or that of other reads.
        row("Get Table", of("GET", "/Tables('Tab')"), "lr", ""),
        // The documentation requires type `o`, Azurite type `c`; either suffices here.
        row("Query Entities", of("GET", "/Tab()"), "r", "r").types("oc"),
        row("Get Entity", of("GET", entity), "r", "r"),
        row("Insert Entity", of("POST", "/Tab").json(body), "a", "a"),
        row(
            "Update Entity",
            of("PUT", entity).header("If-Match", "*").json("{}"),
            "u",
            "u",
        ),
        row(
            "Merge Entity",
            of("MERGE", entity).header("If-Match", "*").json("{}"),
            "u",
            "u",
        ),
        row(
            "Insert Or Replace Entity",
            of("PUT", entity).json("{}"),
            "au",
            "au",
        )
        .all(),
        row(
            "Insert Or Merge Entity",
            of("MERGE", entity).json("{}"),
            "au",
            "au",
        )
        .all(),
        // Any of these letters admits the batch. Each operation inside is checked on its own.
        row("Batch", of("POST", "/$batch"), "raud", "raud"),
        row(
            "Delete Entity",
            of("DELETE", entity).header("If-Match", "*"),
            "d",
            "d",
        ),
        row("Delete Table", of("DELETE", "/Tables('Tab')"), "d", ""),
    ]
}

/// Whether the response says that the credentials do not permit the operation.
fn is_refused(answer: &Response) -> bool {
    let code = answer.header("x-ms-error-code").unwrap_or_default();
    answer.status == 401
        || code.starts_with("Authorization") && answer.status == 403
        || code == "AuthenticationFailed"
}

/// The letters of the permissions of all kinds of SAS.
const LETTERS: &str = "rwdxylactmeopiuf";

/// A snapshot or version that requests name. It does not exist: the tests check how far a request
/// gets.
const MOMENT: &str = "2024-01-01T00:00:00.0000000Z";

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

/// Each letter alone, each letter with the row's additional letters, the row's own letters, and all
/// letters.
fn permissions(row: &Row) -> BTreeSet<String> {
    let alone = LETTERS.chars().map(|letter| letter.to_string());
    let beside = LETTERS
        .chars()
        .map(|letter| format!("{letter}{}", row.also.replace(letter, "")));
    let more = [row.account, row.service, LETTERS].map(str::to_owned);
    let more = more.into_iter().filter(|letters| !letters.is_empty());
    alone.chain(beside).chain(more).collect()
}

/// The results of [`permissions`], and for each letter, all letters but this one.
fn more_permissions(row: &Row) -> BTreeSet<String> {
    let missing = LETTERS.chars().map(|letter| LETTERS.replace(letter, ""));
    permissions(row).into_iter().chain(missing).collect()
}

/// Restores the resources that earlier rows may have deleted.
fn prepare(server: &Server, service: Service) {
    match service {
        Service::Blob => {
            let container =
                |name: &str, query: &str| blob("PUT", &format!("/{name}?restype=container{query}"));
            container("open", "").send(server);
            container("shut", "").send(server);
            container("open", "&comp=acl")
                .header("x-ms-blob-public-access", "container")
                .send(server);
        }
        Service::Queue => drop(Request::new(Service::Queue, "PUT", "/que").send(server)),
        Service::Table => {
            let table = Request::new(Service::Table, "POST", "/Tables");
            drop(table.json(r#"{"TableName":"Tab"}"#).send(server));
        }
    }
}

/// A kind of service SAS or user delegation SAS, and which rows it permits.
struct Kind {
    name: &'static str,
    resource: &'static str,
    fields: &'static [(&'static str, &'static str)],
    /// The time of the snapshot or version that the SAS is for.
    moment: &'static str,
    opens: fn(&Row) -> bool,
}

fn names(row: &Row, parameter: &str) -> bool {
    row.request.target().contains(parameter)
}

fn kinds(service: Service) -> Vec<Kind> {
    let kind = |name, resource, fields, moment, opens| Kind {
        name,
        resource,
        fields,
        moment,
        opens,
    };
    match service {
        Service::Blob => vec![
            kind("container", "open", &[("sr", "c")], "", |_| true),
            kind("blob", "open/b", &[("sr", "b")], "", |row| {
                row.of_blob && !names(row, MOMENT)
            }),
            kind(
                "directory",
                "open/b",
                &[("sr", "d"), ("sdd", "1")],
                "",
                |row| row.of_blob,
            ),
            kind("snapshot", "open/b", &[("sr", "bs")], MOMENT, |row| {
                row.of_blob && names(row, "snapshot=")
            }),
            kind("version", "open/b", &[("sr", "bv")], MOMENT, |row| {
                row.of_blob && names(row, "versionid=")
            }),
            kind("other container", "shut", &[("sr", "c")], "", |_| false),
            kind("other blob", "open/c", &[("sr", "b")], "", |_| false),
            kind(
                "other directory",
                "open/c",
                &[("sr", "d"), ("sdd", "1")],
                "",
                |_| false,
            ),
        ],
        Service::Queue => vec![
            kind("queue", "que", &[], "", |_| true),
            kind("other queue", "other", &[], "", |_| false),
        ],
        Service::Table => vec![
            kind("table", "tab", &[("tn", "Tab")], "", |_| true),
            // A batch is checked by the tables inside.
            kind("other table", "other", &[("tn", "Other")], "", |row| {
                row.name == "Batch"
            }),
        ],
    }
}

/// Sends the requests of one service, and records those that are wrongly permitted or refused.
struct Matrix<'a> {
    server: &'a Server,
    service: Service,
    connection: Connection,
    asked: usize,
    wrong: BTreeSet<String>,
}

impl<'a> Matrix<'a> {
    fn new(server: &'a Server, service: Service) -> Matrix<'a> {
        Matrix {
            server,
            service,
            connection: Connection::open(server, service).unwrap(),
            asked: 0,
            wrong: BTreeSet::new(),
        }
    }

    fn ask(&mut self, request: &Request) -> Response {
        self.asked += 1;
        let answer = self.connection.send(request).unwrap();
        if answer.header("Connection") == Some("close") {
            self.connection = Connection::open(self.server, self.service).unwrap();
        }
        answer
    }

    /// Restores the test's resources after a permitted operation that may have changed them.
    fn put_back(&self, row: &Row) {
        if ["Delete", "Set", "Rename"]
            .iter()
            .any(|start| row.name.starts_with(start))
        {
            prepare(self.server, self.service);
        }
    }

    fn check(&mut self, row: &Row, kind: &str, request: Request, opened: bool) {
        let answer = self.ask(&request);
        if opened {
            self.put_back(row);
        }
        if is_refused(&answer) == opened {
            let wrong = format!("{} {kind}: {} {}", row.name, answer.status, answer.code());
            self.wrong.insert(wrong);
        }
    }

    fn check_account_sas(&mut self, row: &Row) {
        let label = format!("{:?}", self.service).to_lowercase();
        let letter = &label[..1];
        for types in ["sco", "s", "c", "o"] {
            let permissions = if types == "sco" {
                more_permissions(row)
            } else {
                permissions(row)
            };
            for permissions in permissions {
                let opened = row.opens(row.account, &permissions);
                let fits = types.chars().any(|letter| row.types.contains(letter));
                let sas = account_sas_for(letter, types, &permissions);
                let request = row.request.clone().credited(&sas);
                let kind = format!("account {types} {permissions}");
                self.check(row, &kind, request, opened && fits);
            }
        }
        let others = "bqt".replace(letter, "");
        let sas = account_sas_for(&others, "sco", LETTERS);
        let request = row.request.clone().credited(&sas);
        self.check(row, "account of other services", request, false);
    }

    fn check_service_sas(&mut self, row: &Row, key: &DelegationKey) {
        let service = self.service;
        for (place, kind) in kinds(service).into_iter().enumerate() {
            let permissions = match kind.name {
                name if name.starts_with("other") => BTreeSet::from([LETTERS.to_owned()]),
                _ if place == 0 => more_permissions(row),
                _ => permissions(row),
            };
            for permissions in permissions {
                let opened = (kind.opens)(row) && row.opens(row.service, &permissions);
                let fields = [kind.fields, &[("sp", &*permissions)]].concat();
                let by_account = service_sas(service, kind.resource, &fields).sign_at(kind.moment);
                let by_user = key.sas_at(kind.resource, &fields, kind.moment);
                for (by, sas) in [("service", by_account), ("delegation", by_user)] {
                    let name = format!("{by} {} {permissions}", kind.name);
                    let request = row.request.clone().credited(&sas);
                    self.check(row, &name, request, opened);
                }
            }
        }
    }

    fn check_others(&mut self, row: &Row) {
        let unsigned = row.request.clone().unsigned();
        self.check(row, "anonymous, public", unsigned.clone(), row.public);
        // A private container answers 404 to anonymous clients.
        let answer = self.ask(&unsigned.clone().retarget("/open", "/shut"));
        if !is_refused(&answer) && answer.code() != "ResourceNotFound" {
            self.wrong
                .insert(format!("{} anonymous: {}", row.name, answer.status));
        }
        let by_token = unsigned.header("Authorization", &bearer());
        self.check(row, "bearer", by_token, true);
        // Only bearers of tokens get a user delegation key.
        let is_for_bearers = row.name == "Get User Delegation Key";
        self.check(row, "shared key", row.request.clone(), !is_for_bearers);
    }
}

/// Tries account SAS of all types and of other services, service SAS and user delegation SAS of
/// every kind of resource and of other resources, anonymous callers of public and of private
/// containers, and bearers of tokens and of the account's key.
#[test]
fn each_operation_is_opened_by_its_letters_and_by_no_other() {
    let location = TempDir::new().unwrap();
    let server = with_tokens(&location);
    let (mut operations, mut asked, mut wrong) = (0, 0, BTreeSet::new());
    for (service, rows) in [
        (Service::Blob, blob_rows()),
        (Service::Queue, queue_rows()),
        (Service::Table, table_rows()),
    ] {
        let key = DelegationKey::from(&server, service);
        let mut matrix = Matrix::new(&server, service);
        operations += rows.len();
        prepare(&server, service);
        for row in rows {
            matrix.check_account_sas(&row);
            matrix.check_service_sas(&row, &key);
            matrix.check_others(&row);
        }
        asked += matrix.asked;
        wrong.append(&mut matrix.wrong);
    }
    println!("{operations} rows, {asked} requests");
    assert!(wrong.is_empty(), "{} of {asked}: {wrong:#?}", wrong.len());
}

/// Source: Authorize with Microsoft Entra ID; Get Table ACL, "Authorization". Roles are not
/// distinguished here.
#[test]
fn a_token_opens_no_access_control_list_of_a_table() {
    let location = TempDir::new().unwrap();
    let server = with_tokens(&location);
    let is_acl = |row: &Row| ["Get Table ACL", "Set Table ACL"].contains(&row.name);
    for row in table_rows().into_iter().filter(is_acl) {
        let request = row.request.unsigned().header("Authorization", &bearer());
        assert_eq!(
            request.send(&server).code(),
            "ResourceNotFound",
            "{}",
            row.name
        );
    }
}
