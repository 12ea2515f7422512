//! The matrix of rights: every operation of the three services against every kind of credentials
//! and every permission letter.

use std::collections::BTreeSet;

use tempfile::TempDir;

use crate::auth::bearer;
use crate::credentials::{DelegationKey, with_tokens};
use crate::http::{Connection, Request, Response};
use crate::operations::{
    Row, Source, account, all_rows, blob, container, lake_rows, of_blob, put, queue, row, table,
};
use crate::rights::{account_sas_for, service_sas};
use crate::server::{Launch, Server, Service};

/// A port without a listener, for sources of copies.
const CLOSED: u16 = 1;

/// The requests of all operations without their bodies: they show how far a request gets. All
/// requests to containers are to `free`.
fn rows(server: &Server) -> Vec<Row> {
    let mut rows = all_rows(server, CLOSED);
    let only_here = "Blob PageBlob_CopyIncremental";
    rows.retain(|row| row.source != Source::Own || row.name == only_here);
    rows.extend(further_rows());
    for row in &mut rows {
        let mut request = row.request.clone().body("");
        if request.service() == Service::Blob {
            for other in ["leased", "guarded", "gone", "new", "renamed", "source"] {
                request = request.retarget(&format!("/{other}"), "/free");
            }
        }
        row.request = request;
    }
    rows
}

/// Operations that are refused without a token, and operations whose headers and parameters need
/// further permissions.
#[rustfmt::skip]
fn further_rows() -> Vec<Row> {
    let of = |method: &str, query: &str| blob(method, &format!("/free/block{query}"));
    let list = |include: &str| {
        let target = format!("/free?restype=container&comp=list&include={include}");
        blob("GET", &target)
    };
    let create = || put("/free/block", "BlockBlob");
    let copy = of("PUT", "").header("x-ms-copy-source", "http://127.0.0.1:1/x/y");
    let key = "/?restype=service&comp=userdelegationkey";
    vec![
        row("Blob Service_GetUserDelegationKey", account(""), blob("POST", key)),
        row("GetUserDelegationKey", account(""), queue("POST", key)),
        row("GetUserDelegationKey", account(""), table("POST", key)),
        row("List Blobs with deleted ones", container("l"), list("deleted")),
        row("List Blobs with tags", container("l").also("t"), list("tags")),
        row("Put Blob with tags", of_blob("cw").also("t"), create().header("x-ms-tags", "a=1")),
        row("Put Blob with a legal hold", of_blob("cw").also("i"),
            create().header("x-ms-legal-hold", "false")),
        row(
            "Put Blob with tags and a policy",
            of_blob("cw").also("ti"),
            create()
                .header("x-ms-tags", "a=1")
                .header("x-ms-immutability-policy-mode", "Unlocked"),
        ),
        row("Copy Blob with the tags of its source", of_blob("cw").also("t"),
            copy.header("x-ms-copy-source-tag-option", "COPY")),
        row("Get Blob on a condition of tags", of_blob("r").also("t"),
            of("GET", "").header("x-ms-if-tags", "\"a\" = '1'")),
        row("Get Blob of a snapshot", of_blob("r").public(),
            of("GET", &format!("?snapshot={MOMENT}"))),
        row("Get Blob of a version", of_blob("r"), of("GET", &format!("?versionid={MOMENT}"))),
        row("Get Block List (all)", of_blob("r"), of("GET", "?comp=blocklist&blocklisttype=all")),
        row("Delete Blob (permanently)", of_blob("y"),
            of("DELETE", &format!("?snapshot={MOMENT}&deletetype=permanent"))),
        row("Delete Blob Version", of_blob("x"), of("DELETE", &format!("?versionid={MOMENT}"))),
    ]
}

/// The path below the account.
fn path(row: &Row) -> &str {
    let path = row.request.target().split('?').next().unwrap_or_default();
    path.splitn(3, '/').nth(2).unwrap_or_default()
}

/// Letters of `srt`, one of which an account SAS must have.
fn types(row: &Row) -> &'static str {
    let of_path = match (row.request.service(), path(row)) {
        (_, "") => "s",
        (Service::Table, path) if path.starts_with("Tables") => "c",
        (Service::Blob | Service::Queue, path) if !path.contains('/') => "c",
        _ => "o",
    };
    row.rights.types.unwrap_or(of_path)
}

/// Whether a SAS with these permissions permits the operation, which needs `letters`.
fn opens(row: &Row, letters: &str, permissions: &str) -> bool {
    let has = |letter: char| permissions.contains(letter);
    let covered = if row.rights.all {
        letters.chars().all(has)
    } else {
        letters.chars().any(has)
    };
    covered && !letters.is_empty() && row.rights.also.chars().all(has)
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

/// Each letter alone, each letter with the row's additional letters, the row's own letters, and all
/// letters.
fn permissions(row: &Row) -> BTreeSet<String> {
    let alone = LETTERS.chars().map(|letter| letter.to_string());
    let beside = LETTERS
        .chars()
        .map(|letter| format!("{letter}{}", row.rights.also.replace(letter, "")));
    let more = [row.rights.account, row.rights.service, LETTERS].map(str::to_owned);
    let more = more.into_iter().filter(|letters| !letters.is_empty());
    alone.chain(beside).chain(more).collect()
}

/// The results of [`permissions`], and for each letter, all letters but this one.
fn more_permissions(row: &Row) -> BTreeSet<String> {
    let missing = LETTERS.chars().map(|letter| LETTERS.replace(letter, ""));
    permissions(row).into_iter().chain(missing).collect()
}

/// Creates the resources of the requests, unless they exist, and opens the container.
fn prepare(server: &Server) {
    let new = |name: &str| blob("PUT", &format!("/{name}?restype=container"));
    let open = blob("PUT", "/free?restype=container&comp=acl");
    let open = open.header("x-ms-blob-public-access", "container");
    let table = table("POST", "/Tables").body(r#"{"TableName":"Free"}"#);
    for request in [new("free"), new("shut"), open, queue("PUT", "/free"), table] {
        request.send(server);
    }
}

/// A kind of service SAS or user delegation SAS, and whether it permits the row.
struct Kind {
    name: &'static str,
    resource: String,
    fields: &'static [(&'static str, &'static str)],
    /// The time of the snapshot or version that the SAS is for.
    moment: &'static str,
    opens: bool,
}

/// The kinds of SAS for the resources of a row, and for others.
fn kinds(row: &Row) -> Vec<Kind> {
    let kind = |name, resource: &str, fields, moment, opens| Kind {
        name,
        resource: resource.to_owned(),
        fields,
        moment,
        opens,
    };
    let is_at = |parameter: &str| {
        row.request
            .target()
            .contains(&format!("?{parameter}={MOMENT}"))
    };
    let of_blob = row.rights.of_blob;
    match row.request.service() {
        Service::Blob => {
            let blob = if of_blob { path(row) } else { "free/block" };
            let (snapshot, version) = (is_at("snapshot"), is_at("versionid"));
            let directory = &[("sr", "d"), ("sdd", "1")];
            vec![
                kind("container", "free", &[("sr", "c")], "", true),
                kind(
                    "blob",
                    blob,
                    &[("sr", "b")],
                    "",
                    of_blob && !snapshot && !version,
                ),
                kind("directory", blob, directory, "", of_blob),
                kind(
                    "snapshot",
                    blob,
                    &[("sr", "bs")],
                    MOMENT,
                    of_blob && snapshot,
                ),
                kind("version", blob, &[("sr", "bv")], MOMENT, of_blob && version),
                kind("other container", "shut", &[("sr", "c")], "", false),
                kind("other blob", "free/c", &[("sr", "b")], "", false),
                kind("other directory", "free/c", directory, "", false),
            ]
        }
        Service::Queue => vec![
            kind("queue", "free", &[], "", true),
            kind("other queue", "other", &[], "", false),
        ],
        Service::Table => {
            // A batch is checked by the tables inside.
            let is_batch = row.name == "Table Table_Batch";
            vec![
                kind("table", "free", &[("tn", "Free")], "", true),
                kind("other table", "other", &[("tn", "Other")], "", is_batch),
            ]
        }
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

    fn check(&mut self, row: &Row, kind: &str, request: Request, opened: bool) {
        let answer = self.ask(&request);
        if is_refused(&answer) == opened {
            let wrong = format!("{} {kind}: {} {}", row.name, answer.status, answer.code());
            self.wrong.insert(wrong);
        }
    }

    fn check_account_sas(&mut self, row: &Row) {
        let label = format!("{:?}", self.service).to_lowercase();
        let letter = &label[..1];
        let fitting = self::types(row);
        for types in ["sco", "s", "c", "o"] {
            let permissions = if types == "sco" {
                more_permissions(row)
            } else {
                permissions(row)
            };
            for permissions in permissions {
                let opened = opens(row, row.rights.account, &permissions);
                let fits = types.chars().any(|letter| fitting.contains(letter));
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
        for (place, kind) in kinds(row).into_iter().enumerate() {
            let permissions = match kind.name {
                name if name.starts_with("other") => BTreeSet::from([LETTERS.to_owned()]),
                _ if place == 0 => more_permissions(row),
                _ => permissions(row),
            };
            for permissions in permissions {
                let opened = kind.opens && opens(row, row.rights.service, &permissions);
                let fields = [kind.fields, &[("sp", &*permissions)]].concat();
                let by_account = service_sas(service, &kind.resource, &fields).sign_at(kind.moment);
                let by_user = key.sas_at(&kind.resource, &fields, kind.moment);
                for (by, sas) in [("service", by_account), ("delegation", by_user)] {
                    let name = format!("{by} {} {permissions}", kind.name);
                    let request = row.request.clone().credited(&sas);
                    self.check(row, &name, request, opened);
                }
            }
        }
    }

    fn check_others(&mut self, row: &Row) {
        prepare(self.server);
        let unsigned = row.request.clone().unsigned();
        self.check(
            row,
            "anonymous, public",
            unsigned.clone(),
            row.rights.public,
        );
        // A private container answers 404 to anonymous clients.
        let answer = self.ask(&unsigned.clone().retarget("/free", "/shut"));
        if !is_refused(&answer) && answer.code() != "ResourceNotFound" {
            self.wrong
                .insert(format!("{} anonymous: {}", row.name, answer.status));
        }
        let by_token = unsigned.header("Authorization", &bearer());
        self.check(row, "bearer", by_token, true);
        // Only bearers of tokens get a user delegation key.
        let is_for_bearers = row.name.ends_with("GetUserDelegationKey");
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
    let rows = rows(&server);
    let (operations, mut asked, mut wrong) = (rows.len(), 0, BTreeSet::new());
    prepare(&server);
    for service in Service::ALL {
        let key = DelegationKey::from(&server, service);
        let mut matrix = Matrix::new(&server, service);
        let is_of_service = |row: &&Row| row.request.service() == service;
        for row in rows.iter().filter(is_of_service) {
            matrix.check_account_sas(row);
            matrix.check_service_sas(row, &key);
            matrix.check_others(row);
        }
        asked += matrix.asked;
        wrong.append(&mut matrix.wrong);
    }
    println!("{operations} rows, {asked} requests");
    assert!(wrong.is_empty(), "{} of {asked}: {wrong:#?}", wrong.len());
}

/// Like [`each_operation_is_opened_by_its_letters_and_by_no_other`], for Data Lake Storage.
#[test]
fn each_operation_of_data_lake_storage_is_opened_by_its_letters_and_by_no_other() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--hns")
        .argument("--oauth=basic")
        .argument("--data-owners=*")
        .start();
    let key = DelegationKey::from(&server, Service::Blob);
    let mut matrix = Matrix::new(&server, Service::Blob);
    prepare(&server);
    let rows = lake_rows().into_iter().map(|row| {
        let request = row.request.clone().body("");
        let request = request.replace("/new?", "/free?");
        Row { request, ..row }
    });
    for row in rows {
        // A rename needs further letters for its source: see `lake`.
        if row.name != "DataLake PathRename" {
            matrix.check_account_sas(&row);
            matrix.check_service_sas(&row, &key);
        }
        matrix.check_others(&row);
    }
    let (asked, wrong) = (matrix.asked, matrix.wrong);
    println!("{asked} requests");
    assert!(wrong.is_empty(), "{} of {asked}: {wrong:#?}", wrong.len());
}

/// Source: Authorize with Microsoft Entra ID; Get Table ACL, "Authorization". Roles are not
/// distinguished here.
#[test]
fn a_token_opens_no_access_control_list_of_a_table() {
    let location = TempDir::new().unwrap();
    let server = with_tokens(&location);
    let acls = ["Table Table_GetAccessPolicy", "Table Table_SetAccessPolicy"];
    let is_acl = |row: &Row| acls.contains(&row.name);
    for row in rows(&server).into_iter().filter(is_acl) {
        let request = row.request.unsigned().header("Authorization", &bearer());
        assert_eq!(
            request.send(&server).code(),
            "ResourceNotFound",
            "{}",
            row.name
        );
    }
}
