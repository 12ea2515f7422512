//! Directories of a hierarchical namespace in the console: made, renamed, deleted, and their access
//! control lists.

use super::*;

const LIST: &str = "user::rwx,group::r-x,other::---";

fn start(location: &TempDir) -> Server {
    let server = Launch::on(location.path()).argument("--hns").start();
    of(Service::Blob, "PUT", "/lake?resource=filesystem")
        .send(&server)
        .is(201);
    for path in ["raw/2026/a.csv", "raw/2026/b.csv", "raw/c.csv", "other.csv"] {
        put(&server, path);
    }
    server
}

fn put(server: &Server, path: &str) {
    of(Service::Blob, "PUT", &format!("/lake/{path}"))
        .header("x-ms-blob-type", "BlockBlob")
        .body(format!("content of {path}"))
        .send(server)
        .is(201);
}

fn of_path(more: &str, name: &str) -> String {
    format!("blobs/{ACCOUNT}/lake/blob{more}?name={name}")
}

fn head(server: &Server, path: &str) -> Response {
    of(Service::Blob, "HEAD", &format!("/lake/{path}")).send(server)
}

fn etag(server: &Server, path: &str) -> String {
    let head = head(server, path);
    head.is(200).header("etag").unwrap().replace('"', "%22")
}

/// Owner, group and list of a path.
fn access(server: &Server, path: &str) -> [String; 3] {
    let request = format!("/lake/{path}?action=getAccessControl");
    let answer = of(Service::Blob, "HEAD", &request).send(server);
    answer.is(200);
    ["x-ms-owner", "x-ms-group", "x-ms-acl"].map(|name| answer.header(name).unwrap().to_owned())
}

/// Submits a form that is refused, and returns the page that a browser shows.
fn refused(server: &Server, path: &str, fields: &str, status: u16) -> String {
    let token = token(server);
    let form = page("POST", path)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Accept", "text/html")
        .body(format!("token={token}&{fields}"));
    form.send(server).is(status).text()
}

#[test]
fn a_directory_is_renamed_in_one_step_and_a_refused_form_comes_back_filled() {
    let location = TempDir::new().unwrap();
    let server = start(&location);
    let list = html(&format!("blobs/{ACCOUNT}/lake")).send(&server).text();
    for part in [
        "name=raw#rename",
        "New directory",
        "blob/access\"",
        "4 paths",
    ] {
        let part = part.replace("4 paths", "6 paths");
        assert!(list.contains(&part), "{part}: {list}");
    }
    let shown = html(&of_path("", "raw")).send(&server).is(200).text();
    assert!(
        shown.contains("name=\"to\" value=\"raw\"") && shown.contains("rwxr-x---"),
        "{shown}"
    );
    let rename = |to: &str| {
        format!(
            "act=move&kind=directory&container=lake&to={to}&etag={}",
            etag(&server, "raw")
        )
    };
    let path = of_path("/copy", "raw");
    put(&server, "taken/x.csv");
    for (to, status, reason) in [
        (
            "taken",
            409,
            "There is a file or directory &#39;taken&#39; already.",
        ),
        (
            "none/raw",
            404,
            "There is no directory &#39;none&#39;. Create it first.",
        ),
        (
            "raw/2026/raw",
            409,
            "A directory cannot be moved into itself.",
        ),
        ("raw", 400, "This is the name that it has."),
        (
            "other.csv/raw",
            409,
            "A part of the path &#39;other.csv/raw&#39; is a file.",
        ),
    ] {
        let text = refused(&server, &path, &rename(to), status);
        let text = text.replace("&#x27;", "'").replace("&#39;", "'");
        let reason = reason.replace("&#39;", "'");
        assert!(text.contains(&reason), "{to}: {text}");
        assert!(
            text.contains(&format!("name=\"to\" value=\"{to}\" aria-invalid=\"true\"")),
            "{to}: {text}"
        );
        head(&server, "raw/2026/a.csv").is(200);
    }
    let before = head(&server, "raw/2026/a.csv")
        .header("etag")
        .unwrap()
        .to_owned();
    let moved = submit(&server, &path, &rename("refined"));
    let place = moved.is(303).header("location").unwrap();
    assert_eq!(
        place,
        format!("/_lazurite/blobs/{ACCOUNT}/lake?prefix=refined%2F&done=moved")
    );
    head(&server, "refined/2026/a.csv")
        .is(200)
        .has_header("etag", &before);
    head(&server, "raw").is(404);
    // A file is renamed, too: it keeps its ETag.
    let fields = format!(
        "act=move&container=lake&to=refined/d.csv&etag={}",
        etag(&server, "other.csv")
    );
    let before = head(&server, "other.csv")
        .header("etag")
        .unwrap()
        .to_owned();
    submit(&server, &of_path("/copy", "other.csv"), &fields).is(303);
    head(&server, "refined/d.csv")
        .is(200)
        .has_header("etag", &before);
}

#[test]
fn a_directory_that_changed_meanwhile_is_shown_in_both_versions() {
    let location = TempDir::new().unwrap();
    let server = start(&location);
    let stale = etag(&server, "raw");
    let update = of(Service::Blob, "PATCH", "/lake/raw?action=setAccessControl");
    update
        .header("x-ms-owner", "somebody")
        .send(&server)
        .is(200);
    let seen = "%5B%5B%22Owner%22,%22$superuser%22%5D%5D";
    let fields = format!("act=move&kind=directory&container=lake&to=new&etag={stale}&seen={seen}");
    let text = submit(&server, &of_path("/copy", "raw"), &fields)
        .is(412)
        .text();
    for part in [
        "Changed since you opened it",
        "<td>$superuser</td><td>somebody</td>",
        ">PathSetAccessControl 200</a>",
        "name=\"to\" value=\"new\"",
        "name=\"kind\" value=\"directory\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let fields = format!("act=owner&owner=me&group=staff&etag={stale}");
    let text = submit(&server, &of_path("/access", "raw"), &fields)
        .is(412)
        .text();
    assert!(text.contains("<td>me</td><td>somebody</td>"), "{text}");
}

#[test]
fn a_directory_is_made_and_deleted_with_what_is_in_it() {
    let location = TempDir::new().unwrap();
    let server = start(&location);
    let create = format!("blobs/{ACCOUNT}/lake/directory");
    let made = submit(&server, &create, "parent=raw/&directory=deep/new");
    let place = made.is(303).header("location").unwrap();
    assert!(place.contains("prefix=raw%2Fdeep%2Fnew%2F"), "{place}");
    head(&server, "raw/deep/new")
        .is(200)
        .has_header("x-ms-resource-type", "directory");
    let text = refused(&server, &create, "parent=raw/&directory=2026", 409);
    assert!(text.contains("of this name already"), "{text}");
    let text = refused(&server, &create, "parent=raw/&directory=c.csv/x", 409);
    assert!(text.contains("A part of this path is a file"), "{text}");
    let asked = html(&of_path("/delete", "raw"))
        .send(&server)
        .is(200)
        .text();
    assert!(asked.contains("<b>6 paths</b>"), "{asked}");
    head(&server, "raw/c.csv").is(200);
    submit(&server, &of_path("/delete", "raw"), "recursive=yes").is(303);
    head(&server, "raw/c.csv").is(404);
    head(&server, "raw").is(404);
    head(&server, "other.csv").is(200);
}

#[test]
fn selected_directories_are_deleted_copied_and_downloaded_with_what_is_in_them() {
    let location = TempDir::new().unwrap();
    let server = start(&location);
    let selected = format!("blobs/{ACCOUNT}/lake/selected");
    submit(
        &server,
        &format!("blobs/{ACCOUNT}/lake/directory"),
        "parent=raw/&directory=empty",
    )
    .is(303);
    let row = "item=%5B%22raw%2F%22%5D&prefix=";
    let plan = plan_of(&asked(&server, &selected, &format!("act=copy&{row}")));
    let report = carried_out(&server, &plan, "container=lake&path=copy");
    assert!(report.contains("Copied 6 paths from lake/."), "{report}");
    head(&server, "copy/raw/2026/b.csv").is(200);
    head(&server, "copy/raw/empty")
        .is(200)
        .has_header("x-ms-resource-type", "directory");
    let zip = submit(&server, &selected, &format!("act=download&{row}"));
    zip.is(200).has_header("content-type", "application/zip");
    let report = confirmed(&server, &selected, &format!("act=delete&{row}"));
    assert!(report.contains("Deleted 6 paths from lake/."), "{report}");
    head(&server, "raw").is(404);
    head(&server, "copy/raw/2026/b.csv").is(200);
    // A blob with a lease stays, and so do the directories that it is in.
    of(Service::Blob, "PUT", "/lake/copy/raw/c.csv?comp=lease")
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "-1")
        .send(&server)
        .is(201);
    let report = confirmed(
        &server,
        &selected,
        "act=delete&item=%5B%22copy%2F%22%5D&prefix=",
    );
    assert!(
        report.contains("Deleted 4 of 7 paths") && report.contains("DirectoryIsNotEmpty"),
        "{report}"
    );
    head(&server, "copy/raw/c.csv").is(200);
    head(&server, "copy/raw/2026").is(404);
}

#[test]
fn the_access_control_list_of_a_path_and_of_all_below_it_is_edited() {
    let location = TempDir::new().unwrap();
    let server = start(&location);
    let path = of_path("/access", "raw");
    let save = |fields: &str| {
        let fields = format!("{fields}&etag={}", etag(&server, "raw"));
        submit(&server, &path, &fields).is(303);
    };
    save("act=owner&owner=alice&group=staff");
    save("act=permissions&permissions=rwxrwx--T");
    save(
        "act=acl&acl=user::rwx%0D%0Auser:bob:r-x%0D%0Agroup::r-x%0D%0Aother::---%0D%0Adefault:user:bob:rwx",
    );
    let [owner, group, list] = access(&server, "raw");
    assert_eq!((&*owner, &*group), ("alice", "staff"));
    assert!(
        list.contains("user:bob:r-x") && list.contains("default:user:bob:rwx"),
        "{list}"
    );
    let shown = html(&path).send(&server).is(200).text();
    for part in [
        "user <code>bob</code>",
        "<code>alice</code>",
        "Default: what new paths",
        "Sticky bit",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let wrong = format!(
        "act=acl&acl=user::rwx%0D%0Agroup:r-x&etag={}",
        etag(&server, "raw")
    );
    let text = refused(&server, &path, &wrong, 400).replace("&#39;", "'");
    assert!(text.contains("'group:r-x' is not an entry"), "{text}");
    let short = format!("act=acl&acl=user::rwx&etag={}", etag(&server, "raw"));
    let text = refused(&server, &path, &short, 400);
    assert!(
        text.contains("needs entries of the owner, the group and others"),
        "{text}"
    );
    let file = of_path("/access", "raw/c.csv");
    let default = format!(
        "act=acl&acl={LIST},default:user:bob:rwx&etag={}",
        etag(&server, "raw/c.csv")
    );
    refused(&server, &file, &default, 400);
    // Of all below, with the number first. Another client changes one of them meanwhile.
    let below = of_path("/access/below", "raw");
    let text = refused(&server, &below, "mode=set&acl=user:carol:rwx", 400);
    assert!(text.contains("needs those of the owner"), "{text}");
    let fields = "mode=modify&acl=user:carol:rwx%0D%0Adefault:user:carol:rwx";
    let asked = asked(&server, &below, fields);
    let text = asked.text();
    assert!(text.contains("Change the permissions of 5 paths"), "{text}");
    put(&server, "raw/c.csv");
    let report = carried_out(&server, &plan_of(&asked), "");
    assert!(
        report.contains(
            "Changed the permissions of 4 of 5 paths in lake/raw. Others changed or deleted 1"
        ),
        "{report}"
    );
    assert!(access(&server, "raw/2026")[2].contains("default:user:carol:rwx"));
    let [_, _, of_file] = access(&server, "raw/2026/a.csv");
    assert!(
        of_file.contains("user:carol:rwx") && !of_file.contains("default:"),
        "{of_file}"
    );
    assert!(!access(&server, "raw/c.csv")[2].contains("carol"));
    let fields = "mode=remove&acl=user:carol,default:user:carol";
    let report = confirmed(&server, &below, fields);
    assert!(
        report.contains("Changed the permissions of 5 paths"),
        "{report}"
    );
    assert!(!access(&server, "raw/2026/a.csv")[2].contains("carol"));
    // The root has a list of its own.
    let root = html(&of_path("/access", "")).send(&server).is(200).text();
    assert!(root.contains("Permissions of /"), "{root}");
}
