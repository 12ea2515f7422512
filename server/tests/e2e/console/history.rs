//! The history of requests: what a start finds of the run before.

use super::*;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::server::PATIENCE;

fn file(location: &Path) -> PathBuf {
    location.join("REQUESTS.log")
}

fn id(response: &Response) -> String {
    response.header("x-ms-request-id").unwrap().to_owned()
}

/// The requests that a server shows.
fn listed(server: &Server) -> Vec<Value> {
    let batch = page("GET", "api/requests?after=0").send(server);
    batch.is(200).json()["requests"].as_array().unwrap().clone()
}

/// Three requests: one that succeeds, one with a signature that is refused, and one that finds nothing. Their ids.
fn ask(server: &Server) -> Vec<String> {
    let signed = "/none/b?sv=2020-08-04&sr=b&sp=r&se=2020-01-01&sig=c2VjcmV0";
    let requests = [
        (get("/?comp=list"), 200),
        (get(signed).unsigned(), 403),
        (get("/none/b"), 404),
    ];
    let answers = requests.map(|(request, status)| {
        let response = request.send(server);
        id(response.is(status))
    });
    answers.to_vec()
}

#[track_caller]
fn wait_for_history(location: &Path, request_id: &str) {
    let deadline = Instant::now() + PATIENCE;
    let is_written = || {
        let history = std::fs::read(file(location)).unwrap_or_default();
        String::from_utf8_lossy(&history).contains(request_id)
    };
    while !is_written() {
        assert!(Instant::now() < deadline, "{request_id} is not written");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn requests_are_there_after_a_restart_and_count_in_no_figure() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    let ids = ask(&server);
    assert!(server.signal("TERM").0.success());
    let history = std::fs::read(file(location.path())).unwrap();
    let found = file(location.path()).metadata().unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert!(!String::from_utf8_lossy(&history).contains("c2VjcmV0"));
    let others_can_read = Permissions::from_mode(0o644);
    std::fs::set_permissions(file(location.path()), others_can_read).unwrap();

    let server = Launch::on(location.path()).start();
    let status = page("GET", "api/status").send(&server).json();
    let figures = serde_json::json!({"seen": 0, "errors": 0, "kept": 3});
    assert_eq!(status["requests"], figures);
    let text = html("requests").send(&server).text();
    assert!(
        text.contains("3 of them from earlier runs") && !text.contains("3 errors"),
        "{text}"
    );
    assert_eq!(text.matches("<small>earlier run, 20").count(), 3);
    let now = id(&get("/none/later").send(&server));
    wait_for_history(location.path(), &now);
    let found = file(location.path()).metadata().unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let listed = listed(&server);
    let found: Vec<_> = listed
        .iter()
        .map(|request| request["request_id"].as_str().unwrap())
        .collect();
    assert_eq!(found, [&ids[..], &[now]].concat());
    let earlier: Vec<_> = listed.iter().map(|one| &one["earlier_run"]).collect();
    assert_eq!(earlier, [true, true, true, false]);
    assert_eq!(listed[1]["code"], "AuthenticationFailed");
    assert_eq!(listed[0]["operation"], "ListContainers");
    let text = html(&format!("requests/{}", ids[1])).send(&server).text();
    assert!(
        text.contains("in an earlier run") && text.contains("sig=REDACTED"),
        "{text}"
    );
    let (_, printed) = printed(&server, &[]);
    assert_eq!(printed.matches(" [earlier run, 20").count(), 3, "{printed}");

    // A third run has both.
    server.signal("TERM");
    let server = Launch::on(location.path()).start();
    assert_eq!(self::listed(&server).len(), 4);
}

#[test]
fn a_killed_server_has_written_its_requests_within_a_second_or_so() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    let ids = ask(&server);
    wait_for_history(location.path(), &ids[2]);
    server.kill();
    // As if the kill had hit the next write.
    let mut history = std::fs::File::options();
    let history = history.append(true).open(file(location.path()));
    history.unwrap().write_all(&[7; 40]).unwrap();
    let server = Launch::on(location.path()).start();
    assert_eq!(listed(&server).len(), 3);
    let later = id(&get("/none/b").send(&server));
    wait_for_history(location.path(), &later);
    server.kill();
    let server = Launch::on(location.path()).start();
    assert_eq!(listed(&server).len(), 4);
}

#[test]
fn both_files_are_private_from_the_start_on() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    ask(&server);
    server.signal("TERM");
    let files = [
        file(location.path()),
        location.path().join("REQUESTS.older.log"),
    ];
    std::fs::copy(&files[0], &files[1]).unwrap();
    for file in &files {
        std::fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    }
    let server = Launch::on(location.path()).start();
    for file in &files {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    assert_eq!(listed(&server).len(), 6);
}

/// Secrets in the target and in a header.
fn ask_with_secrets(server: &Server) -> String {
    let target =
        "/none/b?access_token=c2VjcmV0&code=c2VjcmV0&u=http%3A%2F%2Fh%3Fclient_secret%3Dc2VjcmV0";
    let request = get(target)
        .header("x-ms-meta-url", "http://h/a?sig=c2VjcmV0")
        .header("x-ms-meta-store", "AccountName=a;AccountKey=c2VjcmV0==;X=y");
    id(request.send(server).is(404))
}

#[test]
fn secret_parameters_are_neither_kept_nor_logged_nor_sent_again() {
    let location = TempDir::new().unwrap();
    let mut server = Launch::on(location.path()).start();
    let request_id = ask_with_secrets(&server);
    let line = server.wait_for_line("/none/b");
    assert!(!line.contains("c2VjcmV0"), "{line}");
    let detail = format!("requests/{request_id}");
    let text = html(&detail).send(&server).text();
    assert!(!text.contains("c2VjcmV0"), "{text}");
    assert!(text.contains("AccountKey=REDACTED;X=y"), "{text}");
    assert!(
        text.contains(r#"value="yes" disabled"#) && text.contains("write it in the place of"),
        "{text}"
    );
    let refused = submit(&server, &format!("{detail}/again"), "unchanged=yes");
    assert!(refused.is(400).text().contains("is not kept"));
    server.signal("TERM");
    let history = std::fs::read(file(location.path())).unwrap();
    assert!(!String::from_utf8_lossy(&history).contains("c2VjcmV0"));
}

#[test]
fn a_start_takes_whatever_stands_in_the_file() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    ask(&server);
    server.signal("TERM");
    let path = file(location.path());
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let longest = [&whole[..12], &[0xff; 4], &whole[16..]].concat();
    for (content, kept) in [
        (&whole[..whole.len() - 1], 2),
        (&flipped[..], 1),
        (&longest[..], 0),
        (&whole[..7], 0),
        (&[], 0),
    ] {
        std::fs::write(&path, content).unwrap();
        let server = Launch::on(location.path()).start();
        assert_eq!(listed(&server).len(), kept, "{} bytes", content.len());
        let id = id(&get("/none/b").send(&server));
        server.signal("TERM");
        let server = Launch::on(location.path()).start();
        let listed = listed(&server);
        assert_eq!(listed.len(), kept + 1);
        assert_eq!(listed[kept]["request_id"], id);
    }
    // What is not ours stays as it is, and does not hold the start up.
    let foreign = b"of another program\n";
    std::fs::write(&path, foreign).unwrap();
    let server = Launch::on(location.path()).start();
    server.wait_for_log("no history of requests is kept");
    get("/none/b").send(&server).is(404);
    server.signal("TERM");
    assert_eq!(std::fs::read(&path).unwrap(), foreign);
    std::fs::remove_file(&path).unwrap();
    let pipe = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(pipe.success());
    let server = Launch::on(location.path()).start();
    get("/none/b").send(&server).is(404);
    server.signal("TERM");
}

#[test]
fn no_history_is_written_where_no_requests_are_kept_nor_of_forks() {
    let location = TempDir::new().unwrap();
    for flag in ["--requests-kept=0", "--inMemoryPersistence"] {
        let server = Launch::on(location.path()).argument(flag).start();
        ask(&server);
        server.signal("TERM");
        assert!(!file(location.path()).exists(), "{flag}");
    }
    let server = Launch::on(location.path()).argument("--forks").start();
    let of_fork = get("/?comp=list").in_fork("pr42").send(&server);
    let of_store = get("/?comp=list").send(&server);
    server.signal("TERM");
    let server = Launch::on(location.path()).start();
    let listed = listed(&server);
    assert_eq!(listed.len(), 1, "{:?}", of_fork.is(200).status);
    assert_eq!(listed[0]["request_id"], id(of_store.is(200)));
}

#[test]
fn a_store_is_made_beside_a_history_that_is_left() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    ask(&server);
    server.signal("TERM");
    for entry in std::fs::read_dir(location.path()).unwrap() {
        let path = entry.unwrap().path();
        if path != file(location.path()) {
            std::fs::remove_file(path).unwrap();
        }
    }
    let server = Launch::on(location.path()).start();
    assert_eq!(listed(&server).len(), 3);
    server.signal("TERM");
    assert!(location.path().join("CURRENT").exists());
    let dump = Command::new(env!("CARGO_BIN_EXE_lazurite"))
        .arg("dump")
        .arg(file(location.path()))
        .output()
        .unwrap();
    let text = String::from_utf8(dump.stdout).unwrap();
    assert!(
        dump.status.success()
            && text.contains(" 404 GET ")
            && text.ends_with("0 places are damaged\n"),
        "{text}"
    );
}
