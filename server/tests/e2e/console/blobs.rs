//! Blobs in the console: snapshots and versions, deleted blobs, and changes of one blob.

use super::*;

fn blob_page(more: &str, name: &str) -> String {
    format!("blobs/{ACCOUNT}/photos/blob{more}?name={name}")
}

fn put(server: &Server, name: &str, content: &str) -> Response {
    of(Service::Blob, "PUT", &format!("/photos/{name}"))
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-blob-content-type", "text/plain")
        .body(content)
        .send(server)
}

fn with_photos(server: Server) -> Server {
    of(Service::Blob, "PUT", "/photos?restype=container")
        .send(&server)
        .is(201);
    server
}

fn content(server: &Server, name: &str) -> String {
    get(&format!("/photos/{name}")).send(server).is(200).text()
}

#[test]
fn a_snapshot_is_taken_compared_and_restored() {
    let server = with_photos(Server::fresh());
    put(&server, "notes", "one\ntwo\nthree\n").is(201);
    submit(&server, &blob_page("/snapshot", "notes"), "").is(303);
    put(&server, "notes", "one\n2 <b>\nthree\n").is(201);
    let text = html(&blob_page("", "notes")).send(&server).is(200).text();
    let (_, rest) = text.split_once("compare?name=notes&amp;snapshot=").unwrap();
    let moment = rest.split('"').next().unwrap().to_owned();
    let snapshot = |more: &str| format!("{}&snapshot={moment}", blob_page(more, "notes"));
    let shown = html(&snapshot("")).send(&server).is(200).text();
    assert!(
        shown.contains("This is the snapshot of") && shown.contains("one\ntwo\nthree"),
        "{shown}"
    );
    let compared = html(&snapshot("/compare")).send(&server).is(200).text();
    assert!(
        compared.contains("<code>two</code>") && compared.contains("<code>2 &lt;b&gt;</code>"),
        "{compared}"
    );
    assert!(compared.contains("class=\"removed\"") && compared.contains("differs"));
    submit(&server, &snapshot("/restore"), "").is(303);
    assert_eq!(content(&server, "notes"), "one\ntwo\nthree\n");
    let same = html(&snapshot("/compare")).send(&server).is(200).text();
    assert!(same.contains("The contents are the same"), "{same}");
    html(&format!("{}&snapshot=yesterday", blob_page("", "notes")))
        .send(&server)
        .is(400);
}

#[test]
fn a_version_is_restored_and_a_deleted_blob_is_found() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--blob-versioning");
    let server = with_photos(launch.start());
    put(&server, "notes", "old").is(201);
    put(&server, "notes", "new").is(201);
    let text = html(&blob_page("", "notes")).send(&server).is(200).text();
    let (_, rest) = text.split_once("restore?name=notes&amp;version=").unwrap();
    let moment = rest.split('"').next().unwrap().to_owned();
    of(Service::Blob, "DELETE", "/photos/notes")
        .send(&server)
        .is(202);
    let text = html(&blob_page("", "notes")).send(&server).is(200).text();
    assert!(text.contains("There is no blob of this name now"), "{text}");
    let list = format!("blobs/{ACCOUNT}/photos");
    assert!(!html(&list).send(&server).text().contains(">notes<"));
    let deleted = html(&format!("{list}?deleted=yes")).send(&server).text();
    assert!(deleted.contains(">notes<"), "{deleted}");
    let restore = format!("{}&version={moment}", blob_page("/restore", "notes"));
    submit(&server, &restore, "").is(303);
    assert_eq!(content(&server, "notes"), "old");
}

#[test]
fn a_soft_deleted_blob_is_shown_and_undeleted() {
    let server = with_photos(Server::fresh());
    let policy = "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>1</Days></DeleteRetentionPolicy></StorageServiceProperties>";
    of(Service::Blob, "PUT", "/?restype=service&comp=properties")
        .body(policy)
        .send(&server)
        .is(202);
    put(&server, "notes", "mine").is(201);
    of(Service::Blob, "DELETE", "/photos/notes")
        .send(&server)
        .is(202);
    let list = html(&format!("blobs/{ACCOUNT}/photos?deleted=yes"))
        .send(&server)
        .text();
    assert!(
        list.contains(">notes<") && list.contains("deleted"),
        "{list}"
    );
    let text = html(&blob_page("", "notes")).send(&server).is(200).text();
    assert!(text.contains("Undelete all that is deleted"), "{text}");
    submit(&server, &blob_page("/undelete", "notes"), "").is(303);
    assert_eq!(content(&server, "notes"), "mine");
    html(&blob_page("", "never")).send(&server).is(404);
}

#[test]
fn a_form_for_a_changed_blob_shows_both_versions_and_who_changed_it() {
    let server = with_photos(Server::fresh());
    put(&server, "notes", "one\ntwo\nthree\n").is(201);
    let head = || of(Service::Blob, "HEAD", "/photos/notes").send(&server);
    let stale = head().header("etag").unwrap().replace('"', "%22");
    put(&server, "notes", "one\n2\nthree\n").is(201);
    of(Service::Blob, "PUT", "/photos/notes?comp=metadata")
        .header("x-ms-meta-camera", "X100")
        .send(&server)
        .is(200);
    let refused = |form: &str, fields: &str| {
        let path = blob_page(&format!("/{form}"), "notes");
        let answer = submit(&server, &path, &format!("etag={stale}&{fields}"));
        let text = answer.is(412).text();
        for part in ["Changed since you opened it", ">SetBlobMetadata 200</a>"] {
            assert!(text.contains(part), "{form}: {text}");
        }
        text
    };
    let text = refused("text", "lines=lf&text=one%0D%0Amine%0D%0Athree%0D%0A");
    assert!(
        text.contains("<code>2</code>") && text.contains("<code>mine</code>"),
        "{text}"
    );
    let text = refused("metadata", "metadata=camera%3A+Leica");
    assert!(text.contains("<td>Leica</td><td>X100</td>"), "{text}");
    let text = refused("properties", "type=text%2Fcsv");
    assert!(
        text.contains("<td>text/csv</td><td>text/plain</td>"),
        "{text}"
    );
    let text = refused("tags", "tags=place%3A+lake");
    assert!(
        text.contains("<td>lake</td><td><i>absent</i></td>"),
        "{text}"
    );
    let seen = "%5B%5B%22Size%22,%2214%20bytes%22%5D,%5B%22Content-Type%22,%22text/plain%22%5D%5D";
    let text = refused(
        "copy",
        &format!("act=move&container=photos&to=renamed&seen={seen}"),
    );
    assert!(text.contains("name=\"to\" value=\"renamed\""), "{text}");
    for part in [
        "When you opened it",
        "<td>14 bytes</td><td>12 bytes</td>",
        "<td><i>absent</i></td><td>X100</td>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("<td>text/plain</td>"), "{text}");
    let shown = html(&blob_page("", "notes")).send(&server).text();
    let seen = "[[&quot;Size&quot;,&quot;12 bytes&quot;]";
    assert!(shown.contains(seen), "{shown}");
    // The form again has the ETag that is stored now, and what was typed.
    let text = refused("text", "lines=lf&text=mine");
    let (_, rest) = text.split_once("name=\"etag\" value=\"&quot;").unwrap();
    let etag = rest.split("&quot;").next().unwrap();
    let again = format!("etag=%22{etag}%22&lines=lf&text=mine");
    submit(&server, &blob_page("/text", "notes"), &again).is(303);
    assert_eq!(content(&server, "notes"), "mine");
    assert_eq!(head().header("x-ms-meta-camera"), Some("X100"));
}

#[test]
fn a_conflict_in_a_fork_names_the_request_to_the_fork() {
    let server = with_photos(Server::fresh());
    put(&server, "notes", "one").is(201);
    page("POST", "state/forks")
        .body(r#"{"name":"pr42"}"#)
        .send(&server)
        .is(201);
    let metadata = of(Service::Blob, "PUT", "/photos/notes?comp=metadata");
    metadata.in_fork("pr42").send(&server).is(200);
    // Of the store, and later.
    put(&server, "notes", "two").is(201);
    let form = format!("blobs/{ACCOUNT}--pr42/photos/blob/metadata?name=notes");
    let text = submit(&server, &form, "etag=%220x1%22&metadata=a%3A+b");
    let text = text.is(412).text();
    assert!(text.contains(">SetBlobMetadata 200</a>"), "{text}");
    let missing = of(Service::Blob, "GET", "/photos/note")
        .in_fork("pr42")
        .send(&server);
    let id = missing
        .is(404)
        .header("x-ms-request-id")
        .unwrap()
        .to_owned();
    of(Service::Blob, "DELETE", "/photos/notes")
        .send(&server)
        .is(202);
    let shown = html(&format!("requests/{id}")).send(&server).is(200).text();
    let (_, nearest) = shown
        .split_once("Nearest names")
        .expect("names of the fork");
    assert!(nearest.contains("<code>notes</code>"), "{nearest}");
}

#[test]
fn properties_metadata_tags_tier_and_lease_are_changed() {
    let server = with_photos(Server::fresh());
    put(&server, "notes", "mine").is(201);
    let etag = || {
        let head = of(Service::Blob, "HEAD", "/photos/notes").send(&server);
        head.is(200).header("etag").unwrap().replace('"', "%22")
    };
    let stale = etag();
    submit(
        &server,
        &blob_page("/properties", "notes"),
        &format!("etag={stale}&type=text%2Fcsv&cache=no-cache"),
    )
    .is(303);
    submit(
        &server,
        &blob_page("/metadata", "notes"),
        &format!("etag={stale}&metadata=a%3A+b"),
    )
    .is(412);
    submit(
        &server,
        &blob_page("/metadata", "notes"),
        &format!("etag={}&metadata=a%3A+b%0D%0Ac%3A+d", etag()),
    )
    .is(303);
    submit(
        &server,
        &blob_page("/tags", "notes"),
        &format!("etag={}&tags=kind%3A+note", etag()),
    )
    .is(303);
    submit(&server, &blob_page("/tier", "notes"), "tier=Cool").is(303);
    submit(&server, &blob_page("/tier", "notes"), "tier=Warm").is(400);
    of(Service::Blob, "HEAD", "/photos/notes")
        .send(&server)
        .is(200)
        .has_header("content-type", "text/csv")
        .has_header("cache-control", "no-cache")
        .has_header("x-ms-meta-a", "b")
        .has_header("x-ms-meta-c", "d")
        .has_header("x-ms-tag-count", "1")
        .has_header("x-ms-access-tier", "Cool");
    of(Service::Blob, "PUT", "/photos/notes?comp=lease")
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "-1")
        .send(&server)
        .is(201);
    put(&server, "notes", "other").is(412);
    let text = html(&blob_page("", "notes")).send(&server).text();
    assert!(text.contains("Break the lease now"), "{text}");
    submit(&server, &blob_page("/lease/break", "notes"), "").is(303);
    put(&server, "notes", "other").is(201);
    submit(
        &server,
        &format!("blobs/{ACCOUNT}/$logs/blob/tags?name=x"),
        "tags=",
    )
    .is(403);
}

#[test]
fn a_container_is_deleted_with_a_count_first_and_its_lease_broken() {
    let server = with_photos(Server::fresh());
    for number in 0..3 {
        put(&server, &format!("d/{number}"), "x").is(201);
    }
    let delete = format!("blobs/{ACCOUNT}/photos/delete");
    let asked = html(&delete).send(&server).is(200).text();
    assert!(asked.contains("<b>3 blobs</b>"), "{asked}");
    get("/photos/d/0").send(&server).is(200);
    of(Service::Blob, "PUT", "/photos?restype=container&comp=lease")
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "-1")
        .send(&server)
        .is(201);
    submit(&server, &delete, "").is(412);
    submit(&server, &format!("blobs/{ACCOUNT}/photos/lease/break"), "").is(303);
    submit(&server, &delete, "").is(303);
    get("/photos/d/0").send(&server).is(404);
}

#[test]
fn csv_is_previewed_as_a_grid_and_text_in_its_encoding() {
    let server = with_photos(Server::fresh());
    put(&server, "people.csv", "name,age\n\"Lee, Ann\",34\n").is(201);
    let text = html(&blob_page("", "people.csv")).send(&server).text();
    assert!(text.contains("<td>Lee, Ann</td>"), "{text}");
    of(Service::Blob, "PUT", "/photos/wide.txt")
        .header("x-ms-blob-type", "BlockBlob")
        .body(b"\xff\xfeg\0r\0\xfc\0n\0".to_vec())
        .send(&server)
        .is(201);
    let text = html(&blob_page("", "wide.txt")).send(&server).text();
    assert!(
        text.contains("grün") && text.contains("UTF-16 LE"),
        "{text}"
    );
}

#[test]
fn an_uploaded_file_of_the_type_of_a_form_is_stored_with_its_bytes() {
    let server = with_photos(Server::fresh());
    let kind = "application/x-www-form-urlencoded";
    let upload = page("PUT", &format!("blobs/{ACCOUNT}/photos?name=form"))
        .header("x-lazurite-token", &token(&server))
        .header("Content-Type", kind)
        .body("a=1&token=none");
    upload.send(&server).is(200);
    let stored = get("/photos/form").send(&server);
    stored.is(200).has_header("content-type", kind);
    assert_eq!(stored.text(), "a=1&token=none");
}
