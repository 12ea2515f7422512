//! The program as a process: what it prints, how it stops, and when it refuses to start.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::http::{Connection, Request};
use crate::server::{Launch, Ports, Server, Service};

#[test]
fn ready_and_closing_lines_are_those_people_wait_for() {
    for signal in ["TERM", "INT"] {
        let server = Server::fresh();
        let ports = server.ports;
        let mut idle = Connection::open(&server, Service::Blob).unwrap();
        idle.send(&Request::new(Service::Blob, "GET", "/?comp=list"))
            .unwrap()
            .is(200);
        let (status, printed) = server.signal(signal);
        assert_eq!(status.code(), Some(0), "{signal}: {status}");
        for service in Service::ALL {
            let address = format!("http://127.0.0.1:{}", ports.of(service));
            let lines = [
                format!("Azurite {service:?} service is starting at {address}"),
                format!("Azurite {service:?} service is successfully listening at {address}"),
                format!("Azurite {service:?} service is closing..."),
                format!("Azurite {service:?} service successfully closed"),
            ];
            let position = |line: &String| printed.iter().position(|found| found == line);
            let positions: Option<Vec<usize>> = lines.iter().map(position).collect();
            assert!(
                positions.is_some_and(|found| found.is_sorted()),
                "{lines:#?} in {printed:#?}"
            );
        }
        let others = printed.iter().filter(|line| !line.starts_with("Azurite "));
        assert!(
            others
                .clone()
                .all(|line| line.contains("\"GET /devstoreaccount1/?comp=list HTTP/1.1\" 200 ")),
            "{printed:#?}"
        );
    }
}

#[test]
fn the_port_file_is_there_when_the_ready_lines_are() {
    let server = Server::fresh();
    let Ports { blob, queue, table } = server.ports;
    let expected = serde_json::json!({ "blob": blob, "queue": queue, "table": table });
    assert_eq!(server.port_file(), expected);
}

#[test]
fn the_port_file_goes_with_its_server() {
    let scratch = TempDir::new().unwrap();
    let file = scratch.path().join("ports.json");
    let start = |location: &str| {
        let launch = Launch::on(&scratch.path().join(location)).argument("--port-file");
        launch.argument(file.to_str().unwrap()).start()
    };
    let blob_port = || {
        let text = std::fs::read_to_string(&file).unwrap();
        let ports: serde_json::Value = serde_json::from_str(&text).unwrap();
        ports["blob"].as_u64().unwrap()
    };
    for signal in ["TERM", "INT"] {
        let server = start("data");
        assert_eq!(blob_port(), u64::from(server.ports.blob));
        server.signal(signal);
        assert!(!file.exists(), "{signal}");
    }
    start("data").kill();
    assert!(file.exists());
    // The file that a killed server left is replaced.
    let first = start("data");
    assert_eq!(blob_port(), u64::from(first.ports.blob));
    // A server that ends does not remove the file of another.
    let second = start("other");
    first.signal("TERM");
    assert_eq!(blob_port(), u64::from(second.ports.blob));
    second.signal("TERM");
    assert!(!file.exists());
}

/// The default for `--shutdown-timeout` is three seconds.
#[test]
fn requests_under_way_have_the_time_they_were_given_to_end() {
    let location = TempDir::new().unwrap();
    let begun = |seconds: &str| {
        let launch = Launch::on(location.path()).argument("--containers=con");
        let server = launch
            .argument("--shutdown-timeout")
            .argument(seconds)
            .start();
        let put = Request::new(Service::Blob, "PUT", "/con/slow");
        let put = put
            .header("x-ms-blob-type", "BlockBlob")
            .header("Content-Length", "2");
        let mut connection = Connection::open(&server, Service::Blob).unwrap();
        // The 100 Continue shows that the request is under way.
        connection.send_awaiting(put).unwrap().is(100);
        connection.write(b"a").unwrap();
        (server, connection)
    };
    let (server, _connection) = begun("0");
    let began = Instant::now();
    assert!(server.signal("TERM").0.success());
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    let (server, mut connection) = begun("60");
    let slow = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(4));
        connection.send_bytes(b"b", "PUT").unwrap().is(201);
    });
    assert!(server.signal("TERM").0.success());
    slow.join().unwrap();
}

#[test]
fn the_access_log_has_the_common_format() {
    let mut server = Server::fresh();
    Request::new(Service::Queue, "PUT", "/logged")
        .send(&server)
        .is(201);
    let line = server.wait_for_line("PUT /devstoreaccount1/logged");
    let (head, tail) = line.split_once('[').unwrap();
    assert_eq!(head, "127.0.0.1 - - ");
    let (date, tail) = tail.split_once("] ").unwrap();
    assert_eq!(date.len(), "21/Nov/2026:03:58:31 +0000".len(), "{line}");
    assert!(date.ends_with(" +0000"), "{line}");
    assert!(
        tail.starts_with("\"PUT /devstoreaccount1/logged HTTP/1.1\" 201 "),
        "{line}"
    );
}

#[test]
fn silence_is_kept_when_asked_for() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).argument("--silent").start();
    Request::new(Service::Queue, "PUT", "/unlogged")
        .send(&server)
        .is(201);
    let (_, printed) = server.signal("TERM");
    assert!(
        !printed.is_empty() && printed.iter().all(|line| line.starts_with("Azurite ")),
        "{printed:#?}"
    );
}

#[test]
fn signatures_are_not_logged() {
    let mut server = Server::fresh();
    let target = "/?comp=list&sv=2026-10-06&ss=b&srt=s&sp=l&se=2099-01-01&sig=c2VjcmV0";
    Request::new(Service::Blob, "GET", target)
        .unsigned()
        .send(&server)
        .is(403);
    let line = server.wait_for_line("comp=list");
    assert!(!line.contains("c2VjcmV0"), "{line}");
    assert!(!server.log().contains("c2VjcmV0"));
}

#[test]
fn health_is_open_to_all() {
    let server = Server::fresh();
    for service in Service::ALL {
        let health = Request::exactly(service, "GET", "/_lazurite/health")
            .unsigned()
            .send(&server);
        health.is(200);
        let json = health.json();
        assert_eq!(json["durability"], "process", "{json}");
        assert_eq!(json["recovered"]["bytes_cut_off"], 0, "{json}");
    }
}

#[test]
fn flags_of_azurite_are_accepted() {
    let location = TempDir::new().unwrap();
    let log = location.path().join("debug.log");
    let mut launch = Launch::on(&location.path().join("data"));
    for flag in [
        "--skipApiVersionCheck",
        "--disableProductStyleUrl",
        "--disableTelemetry",
        "--loose",
        "--blobKeepAliveTimeout=7",
        "--queueKeepAliveTimeout",
        "7",
        "--blobHost",
        "127.0.0.1",
        "-s",
        "-d",
        &log.display().to_string(),
    ] {
        launch = launch.argument(flag);
    }
    let server = launch
        .environment("AZURITE_SKIP_API_VERSION_CHECK", "true")
        .start();
    let target = "/?comp=list&sv=2026-10-06&ss=b&srt=s&sp=l&se=2099-01-01&sig=c2VjcmV0";
    let list = Request::new(Service::Blob, "GET", target).unsigned();
    list.send(&server).is(403);
    server.signal("TERM");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.is_empty() && !log.contains("c2VjcmV0"), "{log}");
}

#[test]
fn flags_that_cannot_be_honoured_are_refused() {
    let location = TempDir::new().unwrap();
    let refused = |flag: &str| Launch::on(location.path()).argument(flag).refused();
    // A wrong command line ends with status 2, whoever finds the mistake: the parser or the server.
    let is_usage = |(status, text): (ExitStatus, String), part: &str| {
        assert_eq!(status.code(), Some(2), "{text}");
        assert!(text.contains(part), "{part:?} in {text}");
    };
    let accounts = Launch::on(location.path()).environment("AZURITE_ACCOUNTS", "nonsense");
    is_usage(accounts.refused(), "AZURITE_ACCOUNTS: ");
    for (flag, part) in [
        ("--nonsense", "--nonsense"),
        ("--https-only", "--https-only"),
        ("--export-on-exit", "--export-on-exit"),
        ("--accounts=", "--accounts"),
        ("--accounts=nonsense", "--accounts: "),
        ("--cors=x", "--cors x: "),
        (
            "--cert=cert.pem",
            "--cert cert.pem needs --key (PEM) or --pwd (PFX)",
        ),
        ("--key=key.pem", "--cert"),
        ("--console-password=", "--console-password"),
        ("--containers=A", "--containers A: "),
    ] {
        is_usage(refused(flag), part);
    }
    // A file that is not there is no mistake of the command line.
    let missing = Launch::on(location.path()).argument("--cert=absent.pem");
    let (status, text) = missing.argument("--key=absent.pem").refused();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("--cert absent.pem: cannot read it"), "{text}");
    let launch = Launch::on(location.path()).environment("AZURITE_ACCOUNTS", "");
    drop(launch.start());
}

#[test]
fn loose_ignores_inputs_that_are_otherwise_refused() {
    let location = TempDir::new().unwrap();
    let target = "/con?restype=container&comp=list&showonly=files";
    let list = Request::new(Service::Blob, "GET", target);
    let create = Request::new(Service::Blob, "PUT", "/con?restype=container");
    let server = Launch::on(location.path()).argument("--loose").start();
    create.send(&server).is(201);
    list.send(&server).is(200);
    let conditional = Request::new(Service::Blob, "PUT", "/con/b?comp=block&blockid=AAAA")
        .header("If-Match", "\"0x1\"")
        .body("block");
    conditional.send(&server).is(201);
    let strict = Server::fresh();
    create.send(&strict).is(201);
    list.send(&strict).is(501);
    conditional.send(&strict).is(400);
}

#[test]
fn nothing_is_written_in_memory_mode() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--inMemoryPersistence")
        .start();
    Request::new(Service::Queue, "PUT", "/fleeting")
        .send(&server)
        .is(201);
    server.signal("TERM");
    assert_eq!(std::fs::read_dir(location.path()).unwrap().count(), 0);
}

#[test]
fn memory_and_a_directory_are_refused_together() {
    let location = TempDir::new().unwrap();
    let path = location.path().display().to_string();
    let both = |memory: &str| {
        let launch = Launch::on(location.path()).argument("--location");
        launch.argument(&path).argument(memory)
    };
    let (status, text) = both("--inMemoryPersistence").refused();
    assert_eq!(status.code(), Some(2), "{text}");
    assert!(text.contains(&format!("--location {path}")), "{text}");
    // The command line has a directory, and the environment asks for a store in memory.
    let launch = both("--silent").environment("LAZURITE_IN_MEMORY_PERSISTENCE", "1");
    let server = launch.start();
    server.wait_for_log("--location has no effect");
    server.signal("TERM");
    assert_eq!(std::fs::read_dir(location.path()).unwrap().count(), 0);
}

#[test]
fn log_level_without_a_file_is_that_of_standard_error() {
    let location = TempDir::new().unwrap();
    let start = |level: &str| {
        let launch = Launch::on(location.path()).argument("--log-level");
        launch.argument(level).start()
    };
    let server = start("debug");
    let list = Request::new(Service::Blob, "GET", "/?comp=list");
    list.send(&server).is(200);
    server.wait_for_log(" DEBUG ");
    assert!(server.log().contains(" INFO "));
    server.signal("TERM");
    let server = start("warn");
    assert!(!server.log().contains(" INFO "), "{}", server.log());
}

#[test]
fn memory_has_the_limit_it_was_given() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--inMemoryPersistence");
    let server = launch.argument("--extentMemoryLimit=16").start();
    let request = |method: &str, target: &str| Request::new(Service::Blob, method, target);
    request("PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    let put = |name: usize| {
        let put = request("PUT", &format!("/con/{name}")).header("x-ms-blob-type", "BlockBlob");
        put.body(vec![0; 1 << 20]).send(&server)
    };
    let refused = (0..64).find_map(|name| Some(put(name)).filter(|put| put.status != 201));
    let refused = refused.expect("64 MiB do not fit into 16");
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "MemoryExtentStoreAtSizeLimit")
    );
    assert_eq!(
        request("GET", "/con/0").send(&server).is(200).body.len(),
        1 << 20
    );
}

#[test]
fn data_is_there_after_a_clean_stop() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    Request::new(Service::Queue, "PUT", "/lasting")
        .send(&server)
        .is(201);
    let ports = server.ports;
    server.signal("TERM");
    let server = Launch::on(location.path()).ports(ports).start();
    assert_eq!(
        server.ports, ports,
        "the ports asked for are the ports listened on"
    );
    Request::new(Service::Queue, "GET", "/lasting?comp=metadata")
        .send(&server)
        .is(200);
}

#[test]
fn a_stopped_store_can_be_verified_and_its_files_shown() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    Request::new(Service::Queue, "PUT", "/verified")
        .send(&server)
        .is(201);
    let run = |words: &[&std::ffi::OsStr]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lazurite"));
        let output = command.args(words).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let verify = || run(&["verify".as_ref(), directory.path().as_os_str()]);
    let (status, text) = verify();
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("in use"), "{text}");
    server.signal("TERM");
    let (status, text) = verify();
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("nothing is damaged"), "{text}");
    let entries = std::fs::read_dir(directory.path()).unwrap();
    let files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    for file in &files {
        let (status, text) = run(&["dump".as_ref(), file.as_os_str()]);
        assert_eq!(status, Some(0), "{}: {text}", file.display());
        assert!(text.contains("bytes"), "{text}");
    }
    let is_manifest = |path: &&std::path::PathBuf| path.to_string_lossy().contains("MANIFEST");
    let manifest = files.iter().find(is_manifest).unwrap();
    let mut bytes = std::fs::read(manifest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(manifest, bytes).unwrap();
    let (status, text) = verify();
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("MANIFEST"), "{text}");
}

/// The most memory the server ever had resident, in MiB.
#[cfg(target_os = "linux")]
fn peak_mebibytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.unwrap().trim().trim_end_matches(" kB");
    kibibytes.parse::<u64>().unwrap() / 1024
}

#[test]
#[cfg(target_os = "linux")]
fn large_bodies_pass_through_little_memory() {
    const MEBIBYTES: usize = 384;
    let server = Server::fresh();
    let create = Request::new(Service::Blob, "PUT", "/con?restype=container");
    create.send(&server).is(201);
    let put = Request::new(Service::Blob, "PUT", "/con/large")
        .header("x-ms-blob-type", "BlockBlob")
        .header("Content-Length", &(MEBIBYTES << 20).to_string());
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let chunk = vec![7; 1 << 20];
    connection.write(&put.bytes()).unwrap();
    for _ in 0..MEBIBYTES - 1 {
        connection.write(&chunk).unwrap();
    }
    connection.send_bytes(&chunk, "PUT").unwrap().is(201);
    let get = Request::new(Service::Blob, "GET", "/con/large");
    for _ in 0..2 {
        let found = get.send(&server);
        assert_eq!(found.is(200).body.len(), MEBIBYTES << 20);
    }
    let peak = peak_mebibytes(&server);
    assert!(
        peak < 128,
        "{peak} MiB resident for a body of {MEBIBYTES} MiB"
    );
}

/// Checks that the exit is a failure, with one sentence that contains these words.
#[track_caller]
fn is_refusal(refusal: (std::process::ExitStatus, String), words: &[&str]) {
    let (status, text) = refusal;
    assert!(
        status.code().is_some_and(|code| code != 0),
        "{status}: {text}"
    );
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    assert_eq!(lines.len(), 1, "{text}");
    for word in words {
        assert!(lines[0].contains(word), "{word:?} in {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let location = TempDir::new().unwrap();
    let ports = Ports {
        queue: port,
        ..Ports::default()
    };
    is_refusal(
        Launch::on(location.path()).ports(ports).refused(),
        &[&port.to_string(), "use"],
    );
}

#[test]
fn a_directory_in_use_names_the_process_that_has_it() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    let pid = server.pid().to_string();
    is_refusal(
        Launch::on(location.path()).refused(),
        &[&pid, &location.path().display().to_string()],
    );
    Request::new(Service::Blob, "GET", "/?comp=list")
        .send(&server)
        .is(200);
}

#[test]
fn a_directory_of_an_unknown_format_is_refused_and_left_alone() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    Request::new(Service::Queue, "PUT", "/here")
        .send(&server)
        .is(201);
    server.signal("TERM");
    let current = location.path().join("CURRENT");
    let original = std::fs::read(&current).unwrap();
    std::fs::write(&current, "something else\n").unwrap();
    is_refusal(Launch::on(location.path()).refused(), &["CURRENT"]);
    std::fs::write(&current, original).unwrap();
    let server = Launch::on(location.path()).start();
    Request::new(Service::Queue, "GET", "/here?comp=metadata")
        .send(&server)
        .is(200);
}

#[test]
fn a_location_that_cannot_be_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let location = format!("--location {}", file.path().display());
    is_refusal(
        Launch::on(file.path()).refused(),
        &[&location, "it takes a directory", "this is a file"],
    );
}

#[test]
fn a_missing_certificate_leads_to_the_flag_that_makes_one() {
    let directory = TempDir::new().unwrap();
    let launch = Launch::on(directory.path());
    let launch = launch.argument("--cert").argument("127.0.0.1.pem");
    let refused = launch.argument("--key").argument("127.0.0.1-key.pem");
    is_refusal(refused.refused(), &["127.0.0.1.pem", "--https makes"]);
}

#[test]
fn a_name_of_one_service_starts_that_service() {
    let directory = TempDir::new().unwrap();
    for name in ["azurite-queue", "lazurite-queue"] {
        let program = directory.path().join(name);
        symlink(env!("CARGO_BIN_EXE_lazurite"), &program).unwrap();
        let server = Launch::on(&directory.path().join("data"))
            .program(&program)
            .start_services(1);
        let (_, lines) = server.signal("TERM");
        assert!(
            lines
                .iter()
                .all(|line| line.starts_with("Azurite Queue service ")),
            "{lines:#?}"
        );
    }
}
