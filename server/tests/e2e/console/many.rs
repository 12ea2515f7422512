//! Many things at once: what was confirmed, beside writers; downloads of directories; forks; and the
//! rules of access for every write of the console.

use super::*;
use std::fs;
use std::path::Path;

fn put(server: &Server, container: &str, blob: &str) {
    of(Service::Blob, "PUT", &format!("/{container}/{blob}"))
        .header("x-ms-blob-type", "BlockBlob")
        .body(format!("content of {blob}"))
        .send(server)
        .is(201);
}

fn create(server: &Server, container: &str) {
    of(
        Service::Blob,
        "PUT",
        &format!("/{container}?restype=container"),
    )
    .send(server)
    .is(201);
}

fn names(server: &Server, container: &str) -> String {
    let path = format!("/{container}?restype=container&comp=list");
    of(Service::Blob, "GET", &path).send(server).is(200).text()
}

fn selected(container: &str) -> String {
    format!("blobs/{ACCOUNT}/{container}/selected")
}

#[test]
fn a_bulk_deletion_beside_writers_removes_exactly_what_was_confirmed() {
    let server = Server::fresh();
    create(&server, "photos");
    for number in 0..450 {
        put(&server, "photos", &format!("old/{number:03}.txt"));
    }
    put(&server, "photos", "older.txt");
    let fields = "act=delete&all=yes&prefix=old/";
    let asked = asked(&server, &selected("photos"), fields);
    let text = asked.text();
    assert!(
        text.contains("Delete 450 blobs") && text.contains("from photos/old/"),
        "{text}"
    );
    // Others write while the visitor reads the question.
    put(&server, "photos", "old/007.txt");
    put(&server, "photos", "old/new.txt");
    of(Service::Blob, "DELETE", "/photos/old/449.txt")
        .send(&server)
        .is(202);
    let report = carried_out(&server, &plan_of(&asked), "");
    assert!(
        report.contains(
            "Deleted 448 of 450 blobs from photos/old/. Others changed or deleted 2 meanwhile"
        ),
        "{report}"
    );
    let left = names(&server, "photos");
    assert_eq!(left.matches("<Name>").count(), 3, "{left}");
    for name in ["old/007.txt", "old/new.txt", "older.txt"] {
        assert!(left.contains(&format!("<Name>{name}</Name>")), "{left}");
    }
    // A confirmation is used once.
    let again = submit(&server, "jobs", &format!("plan={}", plan_of(&asked)));
    again.is(409);
}

#[test]
fn a_leased_blob_is_left_and_named_in_the_report() {
    let server = Server::fresh();
    create(&server, "photos");
    for name in ["a", "held"] {
        put(&server, "photos", name);
    }
    of(Service::Blob, "PUT", "/photos/held?comp=lease")
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "-1")
        .send(&server)
        .is(201);
    let report = confirmed(&server, &selected("photos"), "act=delete&all=yes&prefix=");
    assert!(
        report.contains("Deleted 1 of 2 blobs") && report.contains("<b>held</b> LeaseIdMissing"),
        "{report}"
    );
}

#[test]
fn selected_blobs_and_directories_are_copied_and_moved_to_another_container() {
    let server = Server::fresh();
    create(&server, "photos");
    create(&server, "kept");
    for name in ["2026/01/a.txt", "2026/01/b.txt", "2026/c.txt", "other.txt"] {
        put(&server, "photos", name);
    }
    let directory = "act=copy&prefix=2026/&item=%5B%222026%2F01%2F%22%5D";
    let plan = plan_of(&asked(&server, &selected("photos"), directory));
    submit(
        &server,
        "jobs",
        &format!("plan={plan}&container=none&path="),
    )
    .is(404);
    let report = carried_out(&server, &plan, "container=kept&path=in");
    assert!(
        report.contains("Copied 2 blobs from photos/2026/."),
        "{report}"
    );
    assert!(names(&server, "kept").contains("<Name>in/01/a.txt</Name>"));
    let plan = plan_of(&asked(
        &server,
        &selected("photos"),
        "act=copy&all=yes&prefix=2026/",
    ));
    // What is there stays, unless it is to be replaced.
    let report = carried_out(&server, &plan, "container=kept&path=in&move=yes");
    assert!(
        report.contains("Copied 1 of 3 blobs") && report.contains("2 failed"),
        "{report}"
    );
    assert_eq!(names(&server, "photos").matches("<Name>").count(), 3);
}

#[test]
fn a_copy_replaces_no_blob_that_is_copied_too() {
    let server = Server::fresh();
    create(&server, "photos");
    for name in ["in/a", "in/b/a"] {
        put(&server, "photos", name);
    }
    let asked = asked(&server, &selected("photos"), "act=copy&all=yes&prefix=in/");
    let fields = "container=photos&path=in/b&move=yes&replace=yes";
    let report = carried_out(&server, &plan_of(&asked), fields);
    assert!(
        report.contains("Copied 1 of 2 blobs") && report.contains("<b>in/a</b> BlobAlreadyExists"),
        "{report}"
    );
    let left = names(&server, "photos");
    for name in ["in/a", "in/b/b/a"] {
        assert!(left.contains(&format!("<Name>{name}</Name>")), "{left}");
    }
}

#[test]
fn a_confirmation_has_an_address_that_leads_to_the_report_afterwards() {
    let server = Server::fresh();
    create(&server, "photos");
    put(&server, "photos", "a.txt");
    let answer = submit(&server, &selected("photos"), "act=delete&all=yes&prefix=");
    let place = answer.is(303).header("location").unwrap().to_owned();
    let visit = || {
        let page = Request::exactly(Service::Blob, "GET", &place).unsigned();
        page.header("Accept", "text/html").send(&server)
    };
    let plan = plan_of(&visit());
    // A reload shows the same question.
    assert_eq!(plan_of(&visit()), plan);
    carried_out(&server, &plan, "");
    let report = format!("/_lazurite/blobs/{ACCOUNT}/photos?job={plan}");
    visit().is(303).has_header("location", &report);
    let gone = html("jobs/4711").send(&server).is(404).text();
    assert!(gone.contains("Go back to the list"), "{gone}");
}

/// Makes a fork, and returns the account in it.
fn fork_of(server: &Server, name: &str) -> String {
    let body = format!(r#"{{"name":"{name}"}}"#);
    page("POST", "state/forks").body(body).send(server).is(201);
    format!("{ACCOUNT}--{name}")
}

/// The content of a blob, in the store or in a fork.
fn content(server: &Server, fork: Option<&str>, path: &str) -> Vec<u8> {
    let get = of(Service::Blob, "GET", path);
    let get = fork.map_or(get.clone(), |fork| get.in_fork(fork));
    get.send(server).is(200).body.clone()
}

#[test]
fn blobs_of_all_kinds_are_copied_into_a_fork_and_moved_back() {
    let server = Server::fresh();
    create(&server, "photos");
    create(&server, "back");
    of(Service::Blob, "PUT", "/photos/in/block.txt")
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-meta-camera", "X100")
        .header("x-ms-tags", "place=lake")
        .header("Content-Type", "text/plain")
        .body("block")
        .send(&server)
        .is(201);
    of(Service::Blob, "PUT", "/photos/in/append.log")
        .header("x-ms-blob-type", "AppendBlob")
        .send(&server)
        .is(201);
    for line in ["one\n", "two\n"] {
        of(
            Service::Blob,
            "PUT",
            "/photos/in/append.log?comp=appendblock",
        )
        .body(line)
        .send(&server)
        .is(201);
    }
    of(Service::Blob, "PUT", "/photos/in/disk.vhd")
        .header("x-ms-blob-type", "PageBlob")
        .header("x-ms-blob-content-length", "1048576")
        .send(&server)
        .is(201);
    of(Service::Blob, "PUT", "/photos/in/disk.vhd?comp=page")
        .header("x-ms-page-write", "update")
        .header("x-ms-range", "bytes=65536-66047")
        .body(vec![7; 512])
        .send(&server)
        .is(201);
    let fork = fork_of(&server, "pr42");
    let asked = asked(&server, &selected("photos"), "act=copy&all=yes&prefix=in/");
    assert!(
        asked.text().contains(&format!("<option value=\"{fork}\">")),
        "{}",
        asked.text()
    );
    let plan = plan_of(&asked);
    let nowhere = format!("plan={plan}&account={ACCOUNT}--none&container=photos&path=out");
    submit(&server, "jobs", &nowhere).is(404);
    let fields = format!("account={fork}&container=photos&path=out");
    let report = carried_out(&server, &plan, &fields);
    assert!(
        report.contains("Copied 3 blobs from photos/in/."),
        "{report}"
    );
    assert!(!names(&server, "photos").contains("<Name>out/"));
    assert_eq!(
        content(&server, Some("pr42"), "/photos/out/append.log"),
        b"one\ntwo\n"
    );
    // A second copy replaces the block blob only: the others would be built in place.
    let again = super::asked(&server, &selected("photos"), "act=copy&all=yes&prefix=in/");
    let report = carried_out(&server, &plan_of(&again), &format!("{fields}&replace=yes"));
    assert!(
        report.contains("Copied 1 of 3 blobs") && report.contains("BlobAlreadyExists"),
        "{report}"
    );
    // And back, into another container of the store.
    let path = format!("blobs/{fork}/photos/selected");
    let asked = super::asked(&server, &path, "act=copy&all=yes&prefix=out/");
    let fields = format!("account={ACCOUNT}&container=back&path=&move=yes");
    let report = carried_out(&server, &plan_of(&asked), &fields);
    assert!(
        report.contains("Copied 3 blobs from photos/out/."),
        "{report}"
    );
    let left = of(
        Service::Blob,
        "GET",
        "/photos?restype=container&comp=list&prefix=out/",
    );
    let left = left.in_fork("pr42").send(&server).is(200).text();
    assert!(!left.contains("<Name>"), "{left}");
    let block = of(Service::Blob, "GET", "/back/block.txt").send(&server);
    block.is(200).has_header("content-type", "text/plain");
    block.has_header("x-ms-meta-camera", "X100");
    block.has_header("x-ms-tag-count", "1");
    for name in ["block.txt", "append.log", "disk.vhd"] {
        assert_eq!(
            content(&server, None, &format!("/back/{name}")),
            content(&server, None, &format!("/photos/in/{name}")),
            "{name}"
        );
    }
    let pages = of(Service::Blob, "GET", "/back/disk.vhd?comp=pagelist").send(&server);
    assert_eq!(pages.is(200).text().matches("<PageRange>").count(), 1);
}

#[test]
fn rows_and_messages_go_into_a_fork_and_back() {
    let server = Server::fresh();
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Orders"}"#)
        .send(&server)
        .is(201);
    of(Service::Queue, "PUT", "/work").send(&server).is(201);
    for number in 0..3 {
        of(Service::Table, "POST", "/Orders")
            .json(format!(
                r#"{{"PartitionKey":"p","RowKey":"{number}","Age":{number}}}"#
            ))
            .send(&server)
            .is(201);
        of(Service::Queue, "POST", "/work/messages")
            .body(format!(
                "<QueueMessage><MessageText>{number}</MessageText></QueueMessage>"
            ))
            .send(&server)
            .is(201);
    }
    let fork = fork_of(&server, "pr42");
    // In the store only, so that each side differs.
    of(Service::Table, "POST", "/Orders")
        .json(r#"{"PartitionKey":"p","RowKey":"new"}"#)
        .send(&server)
        .is(201);
    let rows = format!("tables/{ACCOUNT}/Orders/rows");
    let plan = plan_of(&asked(&server, &rows, "act=copy&all=yes&filter="));
    // The table of the same name in the fork is another table.
    let report = carried_out(&server, &plan, &format!("account={fork}&table=Orders"));
    assert!(
        report.contains("Copied 1 of 4 rows") && report.contains("3 failed"),
        "{report}"
    );
    let found = of(
        Service::Table,
        "GET",
        "/Orders(PartitionKey='p',RowKey='new')",
    );
    found.in_fork("pr42").send(&server).is(200);
    let messages = format!("queues/{fork}/work/selected");
    let plan = plan_of(&asked(&server, &messages, "act=move&all=yes"));
    let report = carried_out(&server, &plan, &format!("account={ACCOUNT}&to=work"));
    assert!(report.contains("Moved 3 messages from work."), "{report}");
    let count = |request: Request| {
        let answer = request.send(&server);
        answer
            .header("x-ms-approximate-messages-count")
            .unwrap()
            .to_owned()
    };
    let metadata = || of(Service::Queue, "GET", "/work?comp=metadata");
    assert_eq!(
        (count(metadata()), count(metadata().in_fork("pr42"))),
        ("6".to_owned(), "0".to_owned())
    );
}

#[test]
fn a_blob_is_moved_to_another_account() {
    let location = TempDir::new().unwrap();
    let accounts = format!("{ACCOUNT}:{KEY};second:{KEY}");
    let launch = Launch::on(location.path())
        .argument("--accounts")
        .argument(&accounts);
    let server = launch.start();
    create(&server, "photos");
    put(&server, "photos", "a.txt");
    let etag = of(Service::Blob, "HEAD", "/photos/a.txt").send(&server);
    let etag = etag.header("etag").unwrap().replace('"', "%22");
    let other = "blobs/second";
    submit(&server, other, "container=kept").is(303);
    let rename = format!("blobs/{ACCOUNT}/photos/blob/copy?name=a.txt");
    let fields = format!("act=move&etag={etag}&account=second&container=kept&to=b.txt");
    let moved = submit(&server, &rename, &fields);
    let place = moved.is(303).header("location").unwrap();
    assert!(
        place.starts_with("/_lazurite/blobs/second/kept/blob?name=b.txt"),
        "{place}"
    );
    assert!(!names(&server, "photos").contains("a.txt"));
    let text = html("blobs/second/kept").send(&server).is(200).text();
    assert!(text.contains(">b.txt</a>"), "{text}");
}

#[test]
fn a_directory_is_downloaded_as_a_zip_file() {
    let server = Server::fresh();
    create(&server, "photos");
    for name in ["2026/a.txt", "2026/deep/b.txt", "other.txt"] {
        put(&server, "photos", name);
    }
    let answer = submit(
        &server,
        &selected("photos"),
        "act=download&prefix=2026/&all=yes",
    );
    answer.is(200).has_header("content-type", "application/zip");
    assert!(
        answer
            .header("content-disposition")
            .unwrap()
            .contains("2026.zip")
    );
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("2026.zip");
    fs::write(&file, &answer.body).unwrap();
    let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
                  print([(n, z.read(n).decode()) for n in z.namelist()])";
    let read = Command::new("python3")
        .args(["-c", script])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&read.stdout).trim(),
        "[('a.txt', 'content of 2026/a.txt'), ('deep/b.txt', 'content of 2026/deep/b.txt')]",
        "{read:?}"
    );
    submit(
        &server,
        &selected("photos"),
        "act=download&prefix=none/&all=yes",
    )
    .is(400);
}

#[test]
fn messages_that_a_search_finds_are_deleted_and_no_other() {
    let server = Server::fresh();
    of(Service::Queue, "PUT", "/orders").send(&server).is(201);
    for number in 0..300 {
        let kind = if number % 3 == 0 { "late" } else { "early" };
        let body =
            format!("<QueueMessage><MessageText>{kind} {number}</MessageText></QueueMessage>");
        of(Service::Queue, "POST", "/orders/messages")
            .body(body)
            .send(&server)
            .is(201);
    }
    let path = format!("queues/{ACCOUNT}/orders/selected");
    let report = confirmed(&server, &path, "act=delete&all=yes&filter=late");
    assert!(
        report.contains("Deleted 100 messages from orders."),
        "{report}"
    );
    let left = of(Service::Queue, "GET", "/orders?comp=metadata").send(&server);
    left.has_header("x-ms-approximate-messages-count", "200");
}

#[test]
fn a_fork_is_looked_at_and_changed_apart_from_the_store() {
    let server = Server::fresh();
    create(&server, "photos");
    put(&server, "photos", "a.txt");
    page("POST", "state/forks")
        .body(r#"{"name":"pr42"}"#)
        .send(&server)
        .is(201);
    let fork = format!("{ACCOUNT}--pr42");
    let list = format!("blobs/{fork}/photos");
    let text = html(&list).send(&server).is(200).text();
    assert!(
        text.contains(">a.txt<") && text.contains("fork pr42"),
        "{text}"
    );
    assert!(
        text.contains(&format!("/_lazurite/queues/{fork}")),
        "{text}"
    );
    confirmed(
        &server,
        &format!("{list}/selected"),
        "act=delete&all=yes&prefix=",
    );
    assert!(!html(&list).send(&server).text().contains(">a.txt<"));
    assert!(names(&server, "photos").contains("<Name>a.txt</Name>"));
    // No link leads out of the fork.
    for path in [
        format!("blobs/{fork}"),
        list,
        format!("queues/{fork}"),
        format!("tables/{fork}"),
        format!("connect/{fork}"),
    ] {
        let text = html(&path).send(&server).is(200).text();
        let main = text.split("<main").nth(1).unwrap();
        assert!(
            !main.contains(&format!("/{ACCOUNT}/")) && !main.contains(&format!("/{ACCOUNT}\"")),
            "{path}: {main}"
        );
    }
    let gone = html(&format!("blobs/{ACCOUNT}--none"))
        .send(&server)
        .is(404)
        .text();
    assert!(gone.contains("no fork"), "{gone}");
    let unknown = html("blobs/nobody").send(&server).is(404).text();
    assert!(unknown.contains("There is no account"), "{unknown}");
}

#[test]
fn a_restore_keeps_what_it_replaces_and_asks_first() {
    let server = Server::fresh();
    create(&server, "photos");
    submit(&server, "state", "act=snapshot&name=before").is(303);
    put(&server, "photos", "a.txt");
    let asked = submit(&server, "state", "act=restore&name=before")
        .is(200)
        .text();
    assert!(asked.contains("containers: 1"), "{asked}");
    assert!(names(&server, "photos").contains("a.txt"));
    submit(&server, "state", "act=restore&name=before&confirmed=yes").is(303);
    assert!(!names(&server, "photos").contains("a.txt"));
    let state = html("state").send(&server).text();
    let (_, rest) = state.split_once("before-restore-").unwrap();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let kept = format!("act=restore&confirmed=yes&name=before-restore-{digits}");
    submit(&server, "state", &kept).is(303);
    assert!(names(&server, "photos").contains("a.txt"));
    let look = submit(&server, "state", "act=look&name=before");
    let place = look.is(303).header("location").unwrap().to_owned();
    assert_eq!(place, format!("/_lazurite/blobs/{ACCOUNT}--look-before"));
}

#[test]
fn a_refused_form_comes_back_filled_with_the_message_at_its_field() {
    let server = Server::fresh();
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Orders"}"#)
        .send(&server)
        .is(201);
    let path = format!("tables/{ACCOUNT}/Orders/entity");
    let fields = "pk=p&rk=r&name=Age&type=Int32&value=x%3Cy";
    let token = token(&server);
    let refused = page("POST", &path)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Accept", "text/html")
        .body(format!("token={token}&{fields}"))
        .send(&server);
    let text = refused.is(400).text();
    assert!(text.contains("data-field=\"value:0\""), "{text}");
    assert!(
        text.contains("name=\"value\" value=\"x&lt;y\" aria-invalid=\"true\""),
        "{text}"
    );
    assert!(text.contains("name=\"pk\" value=\"p\""), "{text}");
}

/// Every path that writes, with the method and with names in the place of its parameters.
fn writes() -> Vec<(&'static str, String)> {
    let posts = [
        "blobs/A",
        "blobs/A/selected",
        "blobs/A/ccc/selected",
        "blobs/A/ccc/settings",
        "blobs/A/ccc/delete",
        "blobs/A/ccc/lease/break",
        "blobs/A/ccc/directory",
        "blobs/A/ccc/blob/access",
        "blobs/A/ccc/blob/access/below",
        "blobs/A/ccc/blob/delete",
        "blobs/A/ccc/blob/copy",
        "blobs/A/ccc/blob/text",
        "blobs/A/ccc/blob/snapshot",
        "blobs/A/ccc/blob/restore",
        "blobs/A/ccc/blob/undelete",
        "blobs/A/ccc/blob/lease/break",
        "blobs/A/ccc/blob/tier",
        "blobs/A/ccc/blob/tags",
        "blobs/A/ccc/blob/metadata",
        "blobs/A/ccc/blob/properties",
        "queues/A",
        "queues/A/selected",
        "queues/A/q",
        "queues/A/q/selected",
        "queues/A/q/settings",
        "queues/A/q/clear",
        "queues/A/q/delete",
        "queues/A/q/take",
        "queues/A/q/message",
        "tables/A",
        "tables/A/selected",
        "tables/A/T/delete",
        "tables/A/T/rows",
        "tables/A/T/rows/change",
        "tables/A/T/rows/convert",
        "tables/A/T/undo",
        "tables/A/T/import",
        "tables/A/T/entity",
        "tables/A/T/entity/delete",
        "tables/A/T/settings",
        "cors/A",
        "sample/A",
        "jobs",
        "jobs/1/cancel",
        "state",
        "requests/1/again",
    ];
    let path = |path: &str| path.replace("/A", &format!("/{ACCOUNT}"));
    let posts = posts.iter().map(|post| ("POST", path(post)));
    posts.chain([("PUT", path("blobs/A/ccc?name=b"))]).collect()
}

/// The number of `post(` and `put(` in the sources of the console, in files with routes that the
/// guard protects.
fn handlers_of_writes() -> usize {
    fn count(directory: &Path) -> usize {
        let entries = fs::read_dir(directory).unwrap();
        let number = |path: &Path| {
            let is_for_programs = ["state_pages.rs", "test_pages.rs", "transfer_pages.rs"];
            if path.is_dir() {
                return count(path);
            }
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.ends_with(".rs") || is_for_programs.contains(&name) {
                return 0;
            }
            let text = fs::read_to_string(path).unwrap();
            text.matches(" post(").count()
                + text.matches("\tpost(").count()
                + text.matches(".post(").count()
                + text.matches("(post(").count()
                + text.matches("::post(").count()
                + text.matches(".put(tree::").count()
        };
        entries.map(|entry| number(&entry.unwrap().path())).sum()
    }
    count(Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/console/src"
    )))
}

#[test]
fn every_write_of_the_console_needs_the_token_the_origin_and_the_host_of_the_console() {
    let server = Server::fresh();
    let token = token(&server);
    create(&server, "ccc");
    put(&server, "ccc", "b");
    // Three kinds share the handler of their settings, and those of their lists: one creates, one
    // acts on selected rows.
    assert_eq!(
        writes().len(),
        handlers_of_writes() + 3 * 2,
        "a write is missing in this test"
    );
    for (method, path) in writes() {
        let write = |token: &str| {
            page(method, &path)
                .header("Content-Type", "application/x-www-form-urlencoded")
                .body(format!("token={token}&act=delete&all=yes"))
        };
        let with_header = |name: &str, value: &str| write(&token).header(name, value);
        for refused in [
            write(""),
            write("0000"),
            with_header("Origin", "https://evil.example"),
            with_header("Origin", "null"),
            with_header("Sec-Fetch-Site", "cross-site"),
            with_header("Host", "rebound.example"),
            with_header("X-Forwarded-For", "10.0.0.1"),
        ] {
            let status = refused.send(&server).status;
            assert_eq!(status, 403, "{method} {path}");
        }
    }
    assert!(names(&server, "ccc").contains("<Name>b</Name>"));
}

#[test]
fn every_write_of_the_console_asks_for_the_password() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path());
    let server = launch
        .environment("LAZURITE_CONSOLE_PASSWORD", "open sesame")
        .start();
    for (method, path) in writes() {
        let write = page(method, &path)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body("token=x&act=delete");
        write.send(&server).is(401);
    }
}
