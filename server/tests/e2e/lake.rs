//! Data Lake Storage: every operation with its permissions, how requests find their protocol, and
//! the rights of users on paths. `python_lake` and `javascript_lake` go through the official clients.

use std::collections::BTreeSet;

use serde_json::Value;
use tempfile::TempDir;

use crate::auth::bearer_with;
use crate::credentials::DelegationKey;
use crate::http::{Request, Response};
use crate::operations::{LAKE_LEASE as LEASE, LAKE_LIST as ACL, Row, blob, lake_rows, put};
use crate::rights::{account_sas_for, service_sas};
use crate::server::{ACCOUNT, KEY, Launch, Server, Service};

const PUBLISHED: &str = include_str!("../published_operations.txt");
const ALICE: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const BOB: &str = "bbbbbbbb-0000-0000-0000-000000000002";
const STAFF: &str = "cccccccc-0000-0000-0000-000000000003";

fn start(location: &TempDir, arguments: &[&str]) -> Server {
    let launch = Launch::on(location.path()).argument("--hns");
    let launch = arguments
        .iter()
        .fold(launch, |launch, argument| launch.argument(argument));
    launch.start()
}

/// Makes the file system `lake` with a file, a directory that has a file, and an empty directory.
fn fill(server: &Server) {
    blob("DELETE", "/lake?resource=filesystem").send(server);
    blob("PUT", "/lake?resource=filesystem")
        .send(server)
        .is(201);
    for (path, kind) in [
        ("file", "file"),
        ("dir/inner", "file"),
        ("empty", "directory"),
    ] {
        let target = format!("/lake/{path}?resource={kind}");
        blob("PUT", &target).send(server).is(201);
    }
    write(server, "file", "data");
}

fn write(server: &Server, path: &str, text: &str) {
    let append = blob(
        "PATCH",
        &format!("/lake/{path}?action=append&position=0&flush=true"),
    );
    append.body(text).send(server).is(202);
}

fn rename(from: &str, to: &str) -> Request {
    blob("PUT", &format!("/lake/{to}?mode=legacy"))
        .header("x-ms-rename-source", &format!("/lake/{from}"))
}

fn names(server: &Server, query: &str) -> Vec<String> {
    let list = blob("GET", &format!("/lake?resource=filesystem&{query}"));
    let listed = list.send(server).is(200).json();
    let paths = listed["paths"].as_array().unwrap().iter();
    paths
        .map(|path| path["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The requests of all operations, for the file system that [`fill`] makes.
fn rows() -> Vec<Row> {
    let rows = lake_rows().into_iter().map(|row| Row {
        request: row.request.replace("/free", "/lake"),
        ..row
    });
    rows.collect()
}

fn is_refused(answer: &Response) -> bool {
    let code = answer.header("x-ms-error-code").unwrap_or_default();
    answer.status == 403 && (code.starts_with("Authorization") || code == "AuthenticationFailed")
}

#[test]
fn every_published_operation_has_a_request() {
    let rows = rows();
    for line in PUBLISHED
        .lines()
        .filter(|line| line.starts_with("DataLake "))
    {
        let name = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        assert!(rows.iter().any(|row| row.name == name), "{name}");
    }
}

#[test]
fn every_operation_is_served_with_its_permissions_alone() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &["--inMemoryPersistence"]);
    for row in rows() {
        fill(&server);
        let answer = row.request.send(&server);
        assert!(
            (200..300).contains(&answer.status),
            "{}: {answer:?}",
            row.name
        );
        blob("DELETE", "/new?resource=filesystem").send(&server);
        fill(&server);
        for letter in "rwdxylactmeopif".chars() {
            let letters = format!("{letter}{}", row.rights.also);
            let of_account = account_sas_for("b", "sco", &letters);
            let fields = [("sr", "c"), ("sp", letters.as_str())];
            let of_container = service_sas(Service::Blob, "lake", &fields).sign();
            let opens = |granted: &str| {
                granted.contains(letter) || {
                    granted.chars().any(|one| row.rights.also.contains(one))
                }
            };
            for (sas, granted) in [
                (of_account, row.rights.account),
                (of_container, row.rights.service),
            ] {
                let answer = row
                    .request
                    .clone()
                    .credited(sas.trim_start_matches('?'))
                    .send(&server);
                let label = format!("{} with {letters}: {answer:?}", row.name);
                assert_eq!(!is_refused(&answer), opens(granted), "{label}");
                if answer.status < 300 {
                    fill(&server);
                }
            }
        }
    }
}

#[test]
fn errors_are_json_with_names_of_their_own_and_those_of_blobs_are_xml() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &[]);
    fill(&server);
    for (request, status, code) in [
        (
            blob("PATCH", "/lake/no?action=append&position=0").body("x"),
            404,
            "PathNotFound",
        ),
        (
            blob("GET", "/no1?resource=filesystem&recursive=true"),
            404,
            "FilesystemNotFound",
        ),
        (
            blob("PUT", "/lake?resource=filesystem"),
            409,
            "FilesystemAlreadyExists",
        ),
        (
            blob("PUT", "/lake/file?resource=file").header("If-None-Match", "*"),
            409,
            "PathAlreadyExists",
        ),
        (
            blob("DELETE", "/lake/dir?recursive=false"),
            409,
            "DirectoryNotEmpty",
        ),
        (
            blob("PUT", "/lake/file/below?resource=file"),
            409,
            "PathConflict",
        ),
        (
            blob("PATCH", "/lake/file?action=flush&position=9"),
            400,
            "InvalidFlushPosition",
        ),
        (
            blob("PATCH", "/lake/file?action=flush&position=4").body("x"),
            400,
            "ContentLengthMustBeZero",
        ),
        (
            blob("PATCH", "/lake/dir?action=append&position=0").body("x"),
            409,
            "ResourceTypeMismatch",
        ),
        (
            blob("PATCH", "/lake/file?action=append"),
            400,
            "MissingRequiredQueryParameter",
        ),
        (
            blob("PATCH", "/lake/file?action=other"),
            400,
            "InvalidQueryParameterValue",
        ),
        (
            blob("PUT", "/lake/file?resource=other"),
            400,
            "InvalidQueryParameterValue",
        ),
        (
            blob("POST", "/lake?resource=filesystem"),
            405,
            "UnsupportedHttpVerb",
        ),
        (
            blob("PATCH", "/lake/file"),
            400,
            "MissingRequiredQueryParameter",
        ),
        (
            blob("PUT", "/lake/file?position=0").header("X-HTTP-Method-Override", "PATCH"),
            400,
            "MissingRequiredQueryParameter",
        ),
        (blob("DELETE", "/lake?recursive=true"), 400, "InvalidUri"),
        (
            blob("PATCH", "/lake/file?action=setAccessControl")
                .header("x-ms-acl", ACL)
                .header("x-ms-permissions", "0777"),
            400,
            "InvalidInput",
        ),
        (
            blob("PATCH", "/lake/file?action=setAccessControl")
                .header("x-ms-permissions", "0777")
                .header("If-None-Match", "*"),
            412,
            "ConditionNotMet",
        ),
        (
            blob("PUT", "/lake/file?resource=file").header("x-ms-properties", "a"),
            400,
            "InvalidHeaderValue",
        ),
        (
            blob("PUT", "/lake/file?resource=file").header("x-ms-tags", "a=b"),
            400,
            "UnsupportedHeader",
        ),
        (
            rename("file", "x").header("x-ms-permissions", "0777"),
            400,
            "UnsupportedHeader",
        ),
        // Refused by the pipeline, before the operation.
        (
            blob("PUT", "/lake/x?resource=file").header("Authorization", "SharedKey a:b"),
            403,
            "AuthenticationFailed",
        ),
        (
            blob("PUT", "/lake/x?resource=file").header("x-ms-version", "bogus"),
            400,
            "InvalidHeaderValue",
        ),
        (
            rename("file", "x")
                .retarget("?mode=legacy", "")
                .header("x-ms-version", "bogus"),
            400,
            "InvalidHeaderValue",
        ),
        (
            Request::exactly(Service::Blob, "GET", "/nobody/lake?resource=filesystem"),
            400,
            "InvalidUri",
        ),
    ] {
        let answer = request.send(&server);
        assert_eq!(
            (answer.status, answer.header("x-ms-error-code")),
            (status, Some(code)),
            "{answer:?}"
        );
        assert_eq!(
            answer.header("content-type"),
            Some("application/json;charset=utf-8")
        );
        let error = &answer.json()["error"];
        assert_eq!(error["code"], code);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("\nRequestId:"), "{message}");
    }
    // Hadoop takes a directory that exists for made.
    let new = |path: &str, kind: &str| {
        let request = blob("PUT", &format!("/lake/{path}?resource={kind}"));
        let answer = request.header("If-None-Match", "*").send(&server);
        answer
            .header("x-ms-existing-resource-type")
            .map(str::to_owned)
    };
    assert_eq!(new("dir", "directory").as_deref(), Some("directory"));
    assert_eq!(new("file", "file").as_deref(), Some("file"));
    let missing = blob("GET", "/lake/no").send(&server);
    assert_eq!(
        (missing.status, missing.element("Code").as_deref()),
        (404, Some("BlobNotFound"))
    );
    // Clients of Data Lake Storage ask for properties and content by the Blob protocol.
    let agent = |request: Request| request.header("User-Agent", "azsdk-python-storage-dfs/12.26.1");
    for (accept, code) in [
        ("application/xml", "BlobNotFound"),
        ("application/json", "PathNotFound"),
        ("*/*", "PathNotFound"),
    ] {
        let head = agent(blob("HEAD", "/lake/no")).header("Accept", accept);
        let missing = head.send(&server);
        assert_eq!(missing.header("x-ms-error-code"), Some(code), "{accept}");
    }
    let full = blob("DELETE", "/lake/dir").send(&server);
    assert_eq!(full.element("Code").as_deref(), Some("DirectoryIsNotEmpty"));
    let head = blob("HEAD", "/lake/no?action=getStatus").send(&server);
    assert_eq!(
        (head.status, head.header("x-ms-error-code")),
        (404, Some("PathNotFound"))
    );
}

#[test]
fn a_flat_account_says_so() {
    let location = TempDir::new().unwrap();
    let accounts = format!("--accounts=flat:{KEY};{ACCOUNT}:{KEY}");
    let hns = format!("--hns={ACCOUNT}");
    let server = Launch::on(location.path())
        .argument(&accounts)
        .argument(&hns)
        .start();
    let flat = |method: &str, target: &str| {
        let request = Request::exactly(Service::Blob, method, &format!("/flat{target}"));
        request.signed_by("flat").send(&server)
    };
    let info = "?restype=account&comp=properties";
    assert_eq!(
        flat("HEAD", info).header("x-ms-is-hns-enabled"),
        Some("false")
    );
    assert_eq!(flat("HEAD", "/c//?action=getAccessControl").status, 400);
    let refused = flat("PUT", "/c?resource=filesystem");
    assert_eq!(
        (refused.status, refused.header("x-ms-error-code")),
        (501, Some("NotImplemented"))
    );
    assert!(refused.text().contains("--hns"), "{refused:?}");
    let lake = blob("HEAD", &format!("/{info}")).send(&server);
    assert_eq!(lake.header("x-ms-is-hns-enabled"), Some("true"));
    blob("PUT", "/lake?resource=filesystem")
        .send(&server)
        .is(201);
    let root = blob("HEAD", "/lake//?action=getAccessControl&upn=false").send(&server);
    assert_eq!(root.is(200).header("x-ms-permissions"), Some("rwxr-x---"));
    assert_eq!(
        root.header("x-ms-acl"),
        Some("user::rwx,group::r-x,other::---")
    );
    assert_eq!(
        blob("HEAD", "/no1//?action=getAccessControl")
            .send(&server)
            .status,
        404
    );
}

#[test]
fn a_file_is_appended_flushed_and_read() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &[]);
    fill(&server);
    let created = blob("PUT", "/lake/f?resource=file")
        .header("x-ms-content-type", "text/plain")
        .header("x-ms-properties", "n=dg==")
        .send(&server);
    let etag = created.is(201).header("etag").unwrap().to_owned();
    // Hadoop sends PATCH as another method. Parts may arrive in any order.
    for (method, position, text) in [("PUT", 6, "world"), ("POST", 0, "hello ")] {
        let target = format!("/lake/f?action=append&position={position}");
        let append = blob(method, &target).header("X-HTTP-Method-Override", "PATCH");
        append.body(text).send(&server).is(202);
    }
    assert_eq!(blob("GET", "/lake/f").send(&server).is(200).body, b"");
    let flush = blob("PATCH", "/lake/f?action=flush&position=11&close=true");
    let flushed = flush.header("If-Match", &etag).send(&server);
    assert_ne!(flushed.is(200).header("etag"), Some(&*etag));
    let read = blob("GET", "/lake/f")
        .header("Range", "bytes=6-")
        .send(&server);
    assert_eq!(read.is(206).body, b"world");
    for (name, value) in [
        ("content-type", "text/plain"),
        ("x-ms-resource-type", "file"),
        ("x-ms-owner", "$superuser"),
        ("x-ms-group", "$superuser"),
        ("x-ms-permissions", "rw-r-----"),
        ("x-ms-properties", "n=dg=="),
        ("x-ms-meta-n", "v"),
        ("x-ms-blob-type", "BlockBlob"),
    ] {
        assert_eq!(read.header(name), Some(value), "{name}");
    }
    let set = blob("PATCH", "/lake/f?action=setProperties").header("x-ms-properties", "m=dw==");
    set.send(&server).is(200);
    let head = blob("HEAD", "/lake/f").send(&server);
    assert_eq!(head.header("x-ms-properties"), Some("m=dw=="));
    assert_eq!(head.header("content-type"), Some("text/plain"));
    let status = blob("HEAD", "/lake/f?action=getStatus").send(&server);
    assert_eq!(
        (
            status.is(200).header("x-ms-properties"),
            status.header("x-ms-meta-m")
        ),
        (None, None)
    );
    let directory = blob("HEAD", "/lake/dir").send(&server);
    assert_eq!(
        directory.is(200).header("x-ms-meta-hdi_isfolder"),
        Some("true")
    );
    assert_eq!(directory.header("x-ms-resource-type"), Some("directory"));
}

#[test]
fn an_append_acquires_renews_and_releases_a_lease() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &[]);
    fill(&server);
    let append = |position: u64, action: &str, lease: &str| {
        let target = format!("/lake/empty-file?action=append&position={position}&flush=true");
        blob("PATCH", &target)
            .header("x-ms-lease-action", action)
            .header(lease, LEASE)
            .body("x")
    };
    blob("PUT", "/lake/empty-file?resource=file")
        .send(&server)
        .is(201);
    let acquire =
        append(0, "acquire", "x-ms-proposed-lease-id").header("x-ms-lease-duration", "60");
    acquire.send(&server).is(202);
    let state = || {
        let head = blob("HEAD", "/lake/empty-file").send(&server);
        head.header("x-ms-lease-state").unwrap().to_owned()
    };
    assert_eq!(state(), "leased");
    let unnamed = blob(
        "PATCH",
        "/lake/empty-file?action=append&position=1&flush=true",
    )
    .body("x");
    assert_eq!(
        unnamed.send(&server).header("x-ms-error-code"),
        Some("LeaseIdMissing")
    );
    let renewed = append(1, "auto-renew", "x-ms-lease-id").send(&server);
    assert_eq!(renewed.is(202).header("x-ms-lease-renewed"), Some("true"));
    append(2, "release", "x-ms-lease-id").send(&server).is(202);
    assert_eq!(state(), "available");
    // A lease that was acquired for a write that fails is given back.
    let failing =
        append(9, "acquire", "x-ms-proposed-lease-id").header("x-ms-lease-duration", "60");
    assert_eq!(
        failing.send(&server).header("x-ms-error-code"),
        Some("InvalidFlushPosition")
    );
    assert_eq!(state(), "available");
    // One that was held before stays.
    let acquire =
        append(3, "acquire", "x-ms-proposed-lease-id").header("x-ms-lease-duration", "60");
    acquire.send(&server).is(202);
    let failing =
        append(9, "acquire-release", "x-ms-proposed-lease-id").header("x-ms-lease-duration", "60");
    assert_eq!(
        failing.send(&server).header("x-ms-error-code"),
        Some("InvalidFlushPosition")
    );
    assert_eq!(state(), "leased");
}

/// A SAS with the letter `p` may set rights in a write to a file that exists; one without it only
/// those of a new file.
#[test]
fn a_sas_sets_rights_of_a_file_that_exists_by_its_letter_alone() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &[]);
    fill(&server);
    let create = |path: &str, letters: &str| {
        let sas = service_sas(Service::Blob, "lake", &[("sr", "c"), ("sp", letters)]).sign();
        let create = blob("PUT", &format!("/lake/{path}?resource=file"));
        let create = create.header("x-ms-permissions", "0777");
        let create = create.header("x-ms-umask", "0000");
        create.credited(sas.trim_start_matches('?')).send(&server)
    };
    let permissions = |path: &str| {
        let head = blob("HEAD", &format!("/lake/{path}")).send(&server);
        let content = blob("GET", &format!("/lake/{path}")).send(&server);
        (
            head.header("x-ms-permissions").unwrap().to_owned(),
            content.body.len(),
        )
    };
    let refused = create("file", "rwc");
    assert_eq!(
        (refused.status, refused.header("x-ms-error-code")),
        (403, Some("AuthorizationPermissionMismatch"))
    );
    assert_eq!(permissions("file"), ("rw-r-----".to_owned(), 4));
    create("new", "rwc").is(201);
    assert_eq!(permissions("new"), ("rwxrwxrwx".to_owned(), 0));
    create("file", "rwcp").is(201);
    assert_eq!(permissions("file"), ("rwxrwxrwx".to_owned(), 0));
    let owned = blob("PUT", "/lake/file?resource=file").header("x-ms-owner", ALICE);
    owned.send(&server).is(201);
    let head = blob("HEAD", "/lake/file").send(&server);
    assert_eq!(head.header("x-ms-owner"), Some(ALICE));
    assert_eq!(permissions("file"), ("rwxrwxrwx".to_owned(), 0));
}

/// With forceFlag, what the caller may not change or list is reported, and the rest is changed.
#[test]
fn a_recursive_change_reports_what_it_cannot_change() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &["--oauth=basic", "--data-owners=*"]);
    fill(&server);
    let key = DelegationKey::from(&server, Service::Blob);
    blob("PATCH", "/lake/?action=setAccessControl")
        .header("x-ms-acl", "user::--x,group::--x,other::--x")
        .send(&server)
        .is(200);
    let create = |path: &str, kind: &str, owner: Option<&str>| {
        let create = blob("PUT", &format!("/lake/{path}?resource={kind}"));
        let create = match owner {
            Some(owner) => create.header("x-ms-owner", owner),
            None => create,
        };
        create.send(&server).is(201);
    };
    create("d", "directory", Some(ALICE));
    for path in ["d/subdir1", "d/subdir2"] {
        create(path, "directory", Some(ALICE));
        create(&format!("{path}/file"), "file", Some(ALICE));
    }
    create("d/file3", "file", None);
    create("d/dir3/below", "file", None);
    let fields = [("sr", "c"), ("sp", "racwdlmeop"), ("suoid", ALICE)];
    let sas = key.sas_at("lake", &fields, "");
    let change = |query: &str, next: &str| {
        let next = match next {
            "" => String::new(),
            next => format!("&continuation={next}"),
        };
        let target = format!("/lake/d?action=setAccessControlRecursive&mode=set{query}{next}");
        let change = blob("PATCH", &target).header("x-ms-acl", ACL);
        change.credited(&sas).send(&server)
    };
    let (mut failed, mut changed, mut next) = (Vec::new(), 0, String::new());
    loop {
        let answer = change("&maxRecords=2&forceFlag=true", &next);
        let page = answer.is(200).json();
        for entry in page["failedEntries"].as_array().unwrap() {
            failed.push((entry["name"].clone(), entry["type"].clone()));
        }
        let count = |name: &str| page[name].as_u64().unwrap();
        assert_eq!(
            count("failureCount") as usize,
            page["failedEntries"].as_array().unwrap().len()
        );
        changed += count("directoriesSuccessful") + count("filesSuccessful");
        next = answer
            .header("x-ms-continuation")
            .unwrap_or_default()
            .to_owned();
        if next.is_empty() {
            break;
        }
    }
    assert_eq!(
        failed,
        [
            ("d/dir3".into(), "DIRECTORY".into()),
            ("d/file3".into(), "FILE".into())
        ]
    );
    assert_eq!(changed, 5);
    let answer = change("", "");
    let page = answer.is(200).json();
    assert_eq!(
        (&page["failureCount"], &page["directoriesSuccessful"]),
        (&1.into(), &1.into())
    );
    assert_eq!(answer.header("x-ms-continuation"), None);
}

/// Requests in a batch are checked like the same requests alone.
#[test]
fn a_batch_deletes_what_its_bearer_may_delete() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &["--oauth=basic"]);
    fill(&server);
    blob("PATCH", "/lake/?action=setAccessControl")
        .header("x-ms-acl", "user::rwx,group::r-x,other::--x")
        .send(&server)
        .is(200);
    let own = blob("PUT", "/lake/own?resource=directory").header("x-ms-owner", ALICE);
    own.send(&server).is(201);
    blob("PUT", "/lake/own/file?resource=file")
        .send(&server)
        .is(201);
    let token = bearer_with(&serde_json::json!({ "oid": ALICE }));
    let part = |path: &str| {
        format!(
            "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             DELETE /{ACCOUNT}/lake/{path} HTTP/1.1\r\nAuthorization: {token}\r\n\
             x-ms-version: 2024-08-04\r\nContent-Length: 0\r\n\r\n\r\n"
        )
    };
    for target in ["/?comp=batch", "/lake?restype=container&comp=batch"] {
        blob("PUT", "/lake/own/file?resource=file")
            .send(&server)
            .is(201);
        let batch = blob("POST", target)
            .header("Authorization", &token)
            .header("x-ms-version", "2024-08-04")
            .header("Content-Type", "multipart/mixed; boundary=b")
            .body(format!(
                "{}{}--b--\r\n",
                part("own/file"),
                part("dir/inner")
            ));
        let text = batch.send(&server).is(202).text();
        assert!(text.contains("HTTP/1.1 202"), "{text}");
        assert!(text.contains("HTTP/1.1 403"), "{text}");
        assert_eq!(blob("HEAD", "/lake/own/file").send(&server).status, 404);
        blob("HEAD", "/lake/dir/inner").send(&server).is(200);
    }
}

/// A key that was issued before the account had a hierarchical namespace is no key of a data owner.
#[test]
fn a_sas_of_a_user_delegation_key_has_the_rights_of_the_user_of_the_key() {
    let location = TempDir::new().unwrap();
    let flat = Launch::on(location.path())
        .argument("--oauth=basic")
        .start();
    let key = DelegationKey::from(&flat, Service::Blob);
    drop(flat);
    let user = key.user().to_owned();
    let read = |server: &Server, more: &[(&'static str, &str)]| {
        let fields = [&[("sr", "c"), ("sp", "rwl")][..], more].concat();
        let read = blob("GET", "/lake/file").credited(&key.sas_at("lake", &fields, ""));
        read.send(server)
    };
    let server = start(&location, &["--oauth=basic"]);
    fill(&server);
    assert_eq!(read(&server, &[]).status, 403);
    blob("PATCH", "/lake/?action=setAccessControl")
        .header("x-ms-acl", "user::rwx,group::r-x,other::--x")
        .send(&server)
        .is(200);
    let acl = format!("user::rw-,user:{user}:r--,group::---,mask::r--,other::---");
    blob("PATCH", "/lake/file?action=setAccessControl")
        .header("x-ms-acl", &acl)
        .send(&server)
        .is(200);
    read(&server, &[]).is(200);
    // It may not act as another user.
    let acl = format!("user::rw-,user:{BOB}:r--,group::---,mask::r--,other::---");
    blob("PATCH", "/lake/file?action=setAccessControl")
        .header("x-ms-acl", &acl)
        .send(&server)
        .is(200);
    for name in ["suoid", "saoid"] {
        assert_eq!(read(&server, &[(name, BOB)]).status, 403, "{name}");
    }
    drop(server);
    let owners = format!("--data-owners={user}");
    let server = start(&location, &["--oauth=basic", &owners]);
    read(&server, &[]).is(200);
}

/// Below a directory that is renamed, paths may become longer than new ones.
#[test]
fn long_paths_below_a_renamed_directory_are_found_by_both_protocols() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &[]);
    fill(&server);
    let segments = |letter: &str, count| vec![letter.repeat(15); count].join("/");
    let (top, below) = (segments("t", 35), segments("b", 34));
    blob("PUT", &format!("/lake/{below}/file?resource=file"))
        .send(&server)
        .is(201);
    blob("PUT", &format!("/lake/{top}?resource=directory"))
        .send(&server)
        .is(201);
    let first = "b".repeat(15);
    rename(&first, &format!("{top}/{first}"))
        .send(&server)
        .is(201);
    let file = format!("{top}/{below}/file");
    assert!(file.len() > 1100 && file.split('/').count() == 70);
    write(&server, &file, "deep");
    let target = format!("/lake/{file}");
    let as_json = || blob("GET", &target).header("Accept", "application/json");
    for read in [blob("GET", &target), as_json()] {
        assert_eq!(read.send(&server).is(200).body, b"deep");
    }
    put(&target, "BlockBlob").body("put").send(&server).is(201);
    blob("PUT", &format!("{target}?comp=metadata"))
        .header("x-ms-meta-a", "1")
        .send(&server)
        .is(200);
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let query = format!("recursive=true&maxResults=20&directory={top}{next}");
        let list = blob("GET", &format!("/lake?resource=filesystem&{query}")).send(&server);
        for path in list.is(200).json()["paths"].as_array().unwrap() {
            found.push(path["name"].as_str().unwrap().to_owned());
        }
        match list.header("x-ms-continuation") {
            Some(token) => next = format!("&continuation={token}"),
            None => break,
        }
    }
    assert_eq!((found.len(), found.last()), (35, Some(&file)));
    let list = format!("/lake?restype=container&comp=list&prefix={top}/{below}/f");
    let listed = blob("GET", &list).send(&server).is(200).text();
    assert!(listed.contains(&format!("<Name>{file}</Name>")), "{listed}");
    for refused in [
        put(&format!("{target}-2"), "BlockBlob"),
        blob("PUT", &format!("{target}-2?resource=file")),
        rename(&file, &format!("{file}-2")),
    ] {
        let refused = refused.send(&server);
        assert_eq!(
            (refused.status, refused.header("x-ms-error-code")),
            (400, Some("OutOfRangeInput"))
        );
    }
    blob("DELETE", &target).send(&server).is(202);
    rename(&format!("{top}/{below}"), "short")
        .send(&server)
        .is(201);
    assert_eq!(names(&server, "recursive=true&directory=short"), [""; 0]);
}

#[test]
fn paths_are_listed_in_pages() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &[]);
    fill(&server);
    assert_eq!(
        names(&server, "recursive=true"),
        ["dir", "dir/inner", "empty", "file"]
    );
    assert_eq!(names(&server, "recursive=false"), ["dir", "empty", "file"]);
    assert_eq!(
        names(&server, "recursive=false&directory=dir"),
        ["dir/inner"]
    );
    assert_eq!(
        names(&server, "recursive=true&beginFrom=empty"),
        ["empty", "file"]
    );
    let mut found = Vec::new();
    let mut query = "recursive=true&maxResults=3".to_owned();
    loop {
        let list = blob("GET", &format!("/lake?resource=filesystem&{query}")).send(&server);
        let page = list.is(200).json();
        found.extend(page["paths"].as_array().unwrap().clone());
        let Some(marker) = list.header("x-ms-continuation") else {
            break;
        };
        let encoded =
            percent_encoding::utf8_percent_encode(marker, percent_encoding::NON_ALPHANUMERIC);
        query = format!("recursive=true&maxResults=3&continuation={encoded}");
    }
    assert_eq!(found.len(), 4);
    assert_eq!(
        (&found[0]["isDirectory"], &found[0]["contentLength"]),
        (&"true".into(), &"0".into())
    );
    assert_eq!(
        (&found[3]["isDirectory"], &found[3]["contentLength"]),
        (&Value::Null, &"4".into())
    );
    for key in [
        "etag",
        "eTag",
        "lastModified",
        "creationTime",
        "owner",
        "group",
        "permissions",
    ] {
        assert!(found[3][key].is_string(), "{key}: {}", found[3]);
    }
    for (query, code) in [
        ("recursive=true&directory=no", "PathNotFound"),
        ("recursive=true&directory=file", "PathConflict"),
        ("directory=dir", "MissingRequiredQueryParameter"),
        ("recursive=true&maxResults=0", "InvalidQueryParameterValue"),
    ] {
        let list = blob("GET", &format!("/lake?resource=filesystem&{query}")).send(&server);
        assert_eq!(list.header("x-ms-error-code"), Some(code), "{query}");
    }
}

#[test]
fn a_rename_moves_a_file_or_a_directory() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &[]);
    fill(&server);
    let etag = blob("HEAD", "/lake/file")
        .send(&server)
        .header("etag")
        .unwrap()
        .to_owned();
    for (from, to, code) in [
        ("no", "x", "SourcePathNotFound"),
        ("file", "no/x", "RenameDestinationParentPathNotFound"),
        ("dir", "dir/x", "InvalidRenameSourcePath"),
        ("empty", "dir", "DirectoryNotEmpty"),
        ("file", "dir", "InvalidSourceOrDestinationResourceType"),
    ] {
        let refused = rename(from, to).send(&server);
        assert_eq!(
            refused.header("x-ms-error-code"),
            Some(code),
            "{from} to {to}"
        );
    }
    let condition = |name: &str, value: &str| rename("file", "empty/moved").header(name, value);
    let failed = condition("x-ms-source-if-none-match", &etag).send(&server);
    assert_eq!(
        failed.header("x-ms-error-code"),
        Some("SourceConditionNotMet")
    );
    let condition = rename("file", "dir/inner")
        .header("If-None-Match", "*")
        .send(&server);
    assert_eq!(
        condition.header("x-ms-error-code"),
        Some("PathAlreadyExists")
    );
    rename("file", "empty/moved").send(&server).is(201);
    let moved = blob("GET", "/lake/empty/moved").send(&server);
    assert_eq!(
        (moved.is(200).header("etag"), &*moved.body),
        (Some(&*etag), &b"data"[..])
    );
    // As clients write the source at an address in path style, and without a mode.
    let source = format!("/{ACCOUNT}/lake/dir");
    let posix = blob("PUT", "/lake/empty")
        .header("x-ms-rename-source", &source)
        .send(&server);
    assert_eq!(posix.is(201).status, 201);
    assert_eq!(
        names(&server, "recursive=true"),
        ["empty", "empty/dir", "empty/dir/inner", "empty/moved"]
    );
}

#[test]
fn a_directory_sas_covers_its_directory_alone() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &[]);
    fill(&server);
    let fields = [("sr", "d"), ("sdd", "1"), ("sp", "rwdlcam")];
    let sas = service_sas(Service::Blob, "lake/dir", &fields).sign();
    let sas = sas.trim_start_matches('?');
    let send = |request: Request| request.credited(sas).send(&server);
    send(blob("GET", "/lake/dir/inner")).is(200);
    send(blob(
        "GET",
        "/lake?resource=filesystem&recursive=true&directory=dir",
    ))
    .is(200);
    send(blob("PUT", "/lake/dir/new?resource=file")).is(201);
    send(rename("dir/new", "dir/renamed")).is(201);
    for request in [
        blob("GET", "/lake/file"),
        blob("GET", "/lake?resource=filesystem&recursive=true"),
        blob(
            "GET",
            "/lake?resource=filesystem&recursive=true&directory=empty",
        ),
        blob("PUT", "/lake/dirs/new?resource=file"),
        rename("file", "dir/stolen"),
        rename("dir/inner", "stolen"),
        // The directory is a parameter of listings alone.
        blob("DELETE", "/lake?resource=filesystem&directory=dir"),
        blob(
            "PATCH",
            "/lake?action=setAccessControlRecursive&mode=set&directory=dir",
        )
        .header("x-ms-acl", ACL),
    ] {
        let target = request.target().to_owned();
        assert_eq!(send(request).status, 403, "{target}");
    }
    assert_eq!(blob("GET", "/lake/file").send(&server).status, 200);
}

#[test]
fn the_rights_of_a_bearer_are_those_of_the_paths() {
    let location = TempDir::new().unwrap();
    let owners = format!("--data-owners={BOB}");
    let server = start(&location, &["--oauth=basic", &owners]);
    fill(&server);
    let as_user = |request: Request, user: &str, more: Value| {
        let mut claims = serde_json::json!({ "oid": user });
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        request
            .header("Authorization", &bearer_with(&claims))
            .send(&server)
    };
    let none = || serde_json::json!({});
    let staff = || serde_json::json!({ "groups": [STAFF] });
    let role = || serde_json::json!({ "roles": ["Storage Blob Data Owner"] });
    let refused = |answer: &Response| {
        let code = answer.header("x-ms-error-code");
        assert_eq!(
            (answer.status, code),
            (403, Some("AuthorizationPermissionMismatch"))
        );
    };
    let read = || blob("GET", "/lake/file");
    refused(&as_user(read(), ALICE, none()));
    as_user(read(), BOB, none()).is(200);
    as_user(read(), ALICE, role()).is(200);
    let let_in = |path: &str, acl: &str| {
        let target = format!("/lake/{path}?action=setAccessControl");
        blob("PATCH", &target)
            .header("x-ms-acl", acl)
            .send(&server)
            .is(200);
    };
    let_in("", "user::rwx,group::r-x,other::--x");
    let group = format!("user::rw-,group::r--,group:{STAFF}:r--,mask::r--,other::---");
    let_in("file", &group);
    refused(&as_user(read(), ALICE, none()));
    as_user(read(), ALICE, staff()).is(200);
    let append = || blob("PATCH", "/lake/file?action=append&position=4&flush=true").body("more");
    refused(&as_user(append(), ALICE, staff()));
    refused(&as_user(
        blob("HEAD", "/lake/file?action=checkAccess&fsAction=rw-"),
        ALICE,
        staff(),
    ));
    as_user(
        blob("HEAD", "/lake/file?action=checkAccess&fsAction=r--"),
        ALICE,
        staff(),
    )
    .is(200);
    refused(&as_user(
        blob("PUT", "/lake/dir/new?resource=file"),
        ALICE,
        none(),
    ));
    let_in(
        "dir",
        &format!("user::rwx,user:{ALICE}:rwx,group::r-x,mask::rwx,other::---"),
    );
    as_user(blob("PUT", "/lake/dir/new?resource=file"), ALICE, none()).is(201);
    let owner = blob("HEAD", "/lake/dir/new?action=getAccessControl").send(&server);
    assert_eq!(owner.header("x-ms-owner"), Some(ALICE));
    as_user(put("/lake/dir/put", "BlockBlob"), ALICE, none()).is(201);
    refused(&as_user(
        blob("GET", "/lake?resource=filesystem&recursive=false"),
        ALICE,
        none(),
    ));
    as_user(
        blob(
            "GET",
            "/lake?resource=filesystem&recursive=false&directory=dir",
        ),
        ALICE,
        none(),
    )
    .is(200);
    refused(&as_user(rename("dir/new", "taken"), ALICE, none()));
    as_user(rename("dir/new", "dir/renamed"), ALICE, none()).is(201);
    refused(&as_user(
        blob("PUT", "/other?resource=filesystem"),
        ALICE,
        none(),
    ));
    refused(&as_user(blob("GET", "/?comp=list"), ALICE, none()));
    as_user(blob("PUT", "/other?resource=filesystem"), BOB, none()).is(201);
    as_user(blob("PUT", "/lake/of-bob?resource=file"), BOB, none()).is(201);
    let owner = blob("HEAD", "/lake/of-bob?action=getAccessControl").send(&server);
    assert_eq!(owner.header("x-ms-owner"), Some(BOB));
}

#[test]
fn a_user_delegation_sas_names_a_user() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &["--oauth=basic", "--data-owners=*"]);
    fill(&server);
    let key = DelegationKey::from(&server, Service::Blob);
    let send = |request: Request, user: &[(&'static str, &str)]| {
        let mut fields = vec![("sr", "c"), ("sp", "rwcl")];
        fields.extend_from_slice(user);
        request
            .credited(&key.sas_at("lake", &fields, ""))
            .send(&server)
    };
    send(blob("GET", "/lake/file"), &[]).is(200);
    send(
        blob("GET", "/lake/file"),
        &[("saoid", ALICE), ("scid", BOB)],
    )
    .is(200);
    let refused = send(blob("GET", "/lake/file"), &[("suoid", ALICE)]);
    assert_eq!(
        refused.header("x-ms-error-code"),
        Some("AuthorizationPermissionMismatch")
    );
    send(
        blob("PUT", "/lake/of-alice?resource=file"),
        &[("saoid", ALICE)],
    )
    .is(201);
    let owner = blob("HEAD", "/lake/of-alice?action=getAccessControl").send(&server);
    assert_eq!(owner.header("x-ms-owner"), Some(ALICE));
    let open =
        blob("PATCH", "/lake/?action=setAccessControl").header("x-ms-permissions", "rwxr-x--x");
    open.send(&server).is(200);
    send(blob("GET", "/lake/of-alice"), &[("suoid", ALICE)]).is(200);
    assert_eq!(
        send(blob("GET", "/lake/file"), &[("suoid", ALICE)]).status,
        403
    );
    assert_eq!(
        send(blob("GET", "/lake/file"), &[("scid", "junk")]).status,
        403
    );
}

#[test]
fn the_blob_protocol_shows_directories() {
    let location = TempDir::new().unwrap();
    let server = start(&location, &[]);
    fill(&server);
    let marker = put("/lake/made", "BlockBlob").header("x-ms-meta-hdi_isfolder", "true");
    marker.send(&server).is(201);
    let head = blob("HEAD", "/lake/made").send(&server);
    assert_eq!(head.is(200).header("x-ms-resource-type"), Some("directory"));
    put("/lake/below/made/file", "BlockBlob")
        .send(&server)
        .is(201);
    let list = |query: &str| {
        let target = format!("/lake?restype=container&comp=list&{query}");
        blob("GET", &target).send(&server).is(200).text()
    };
    let listed = |text: &str| -> BTreeSet<String> {
        let parts = text.split("<Name>").skip(1);
        parts
            .map(|part| part.split('<').next().unwrap().to_owned())
            .collect()
    };
    let set = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>()
    };
    let flat = list("include=metadata");
    let everything = [
        "below",
        "below/made",
        "below/made/file",
        "dir",
        "dir/inner",
        "empty",
        "file",
        "made",
    ];
    assert_eq!(listed(&flat), set(&everything));
    assert_eq!(
        flat.matches("<hdi_isfolder>true</hdi_isfolder>").count(),
        5,
        "{flat}"
    );
    assert_eq!(
        flat.matches("<ResourceType>file</ResourceType>").count(),
        3,
        "{flat}"
    );
    let by_directory = list("delimiter=/");
    assert_eq!(
        listed(&by_directory),
        set(&["below/", "dir/", "empty/", "file", "made/"])
    );
    let prefix = by_directory.split("<BlobPrefix>").nth(1).unwrap();
    assert!(prefix.contains("<Properties><Creation-Time>"), "{prefix}");
    assert!(
        prefix.contains("<ResourceType>directory</ResourceType>"),
        "{prefix}"
    );
    assert_eq!(
        listed(&list("showonly=files")),
        set(&["below/made/file", "dir/inner", "file"])
    );
    let directories = set(&["below", "below/made", "dir", "empty", "made"]);
    assert_eq!(listed(&list("showonly=directories")), directories);
    let permissions = list("include=permissions");
    for element in [
        "<Owner>$superuser</Owner>",
        "<Group>$superuser</Group>",
        "<Permissions>rw-r-----</Permissions>",
    ] {
        assert!(permissions.contains(element), "{permissions}");
    }
    assert!(
        permissions.contains("<Acl>user::rw-,group::r--,other::---</Acl>"),
        "{permissions}"
    );
    for (request, status, code) in [
        (
            put("/lake/dir", "BlockBlob"),
            409,
            "OperationNotSupportedOnDirectory",
        ),
        (put("/lake/file/below", "BlockBlob"), 409, "PathConflict"),
    ] {
        let answer = request.send(&server);
        assert_eq!(
            (answer.status, answer.element("Code").as_deref()),
            (status, Some(code)),
            "{answer:?}"
        );
    }
    // A deletion by the Blob protocol answers 202, and one by Data Lake Storage 200.
    assert_eq!(blob("DELETE", "/lake/file").send(&server).status, 202);
    let dfs =
        |method: &str, target: &str| blob(method, target).header("Accept", "application/json");
    assert_eq!(dfs("DELETE", "/lake/dir/inner").send(&server).status, 200);
    let host = format!("{ACCOUNT}.dfs.localhost:{}", server.ports.blob);
    let hosted = Request::exactly(Service::Blob, "DELETE", "/lake/made").header("Host", &host);
    assert_eq!(hosted.send(&server).status, 200);
}
