//! The time, memory and open files that a client can use up on the server, and the facts about the
//! machine that it can learn.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::auth::bearer;
use crate::http::{Connection, Request};
use crate::rights::account_sas;
use crate::server::{ACCOUNT, Launch, Server, Service};

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

/// A script that runs a line of shell and then the server.
fn program_after(location: &Path, line: &str) -> std::path::PathBuf {
    let program = location.join("program");
    let server = env!("CARGO_BIN_EXE_lazurite");
    std::fs::write(
        &program,
        format!("#!/bin/sh\n{line}\nexec {server} \"$@\"\n"),
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, mode).unwrap();
    program
}

#[test]
fn a_request_ends_when_its_time_is_over() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--request-timeout=1")
        .start();
    blob("PUT", "/con?restype=container").send(&server).is(201);
    let stalled = [
        blob("PUT", "/con/b").header("x-ms-blob-type", "BlockBlob"),
        Request::new(Service::Queue, "POST", "/que/messages"),
        Request::new(Service::Table, "POST", "/Tables").header("Content-Type", "application/json"),
    ];
    for (service, request) in Service::ALL.into_iter().zip(stalled) {
        let bytes = request.body(vec![b' '; 1000]).bytes();
        let mut connection = Connection::open(&server, service).unwrap();
        let began = Instant::now();
        connection.write(&bytes[..bytes.len() - 900]).unwrap();
        let answer = connection.read("PUT").unwrap();
        let code = answer.header("x-ms-error-code");
        assert_eq!((answer.status, code), (500, Some("OperationTimedOut")));
        let took = began.elapsed();
        // The default would let a body stall for 30 seconds.
        assert!(took < Duration::from_secs(20), "{service:?}: {took:?}");
    }
    blob("GET", "/?comp=list").send(&server).is(200);
}

#[test]
fn nothing_is_served_in_clear_with_https_only() {
    let location = TempDir::new().unwrap();
    let (status, said) = Launch::on(location.path())
        .argument("--https-only")
        .refused();
    assert!(!status.success() && said.contains("--cert"), "{said}");
    let server = Server::fresh_secure(&["--https-only"]);
    for service in Service::ALL {
        let mut connection = Connection::open(&server, service).unwrap();
        let request = Request::new(service, "GET", "/?comp=list");
        // The refusal says what to do and shows nothing of the store.
        let answer = connection.send(&request).unwrap();
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "AccountRequiresHttps"),
            "{service:?}"
        );
        assert!(connection.is_closed(), "{service:?}");
    }
}

/// The certificate that the server sends.
fn certificate(server: &Server) -> String {
    let script = format!(
        "import ssl; print(ssl.get_server_certificate(('127.0.0.1', {})))",
        server.ports.table
    );
    let shown = Command::new("python3").args(["-c", &script]).output();
    let shown = shown.expect("python3 runs");
    assert!(shown.status.success(), "{shown:?}");
    String::from_utf8(shown.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_signal_has_the_certificate_read_again() {
    let server = Server::fresh_secure(&[]);
    let path = server.certificate();
    let first = certificate(&server);
    assert_eq!(first.lines().next(), Some("-----BEGIN CERTIFICATE-----"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(
        path.with_file_name("key.pem"),
        made.signing_key.serialize_pem(),
    )
    .unwrap();
    std::fs::write(&path, made.cert.pem()).unwrap();
    let pid = server.pid().to_string();
    let hang_up = || {
        assert!(
            Command::new("kill")
                .args(["-HUP", &pid])
                .status()
                .unwrap()
                .success()
        )
    };
    hang_up();
    server.wait_for_log(" reloaded: certificate\n");
    let second = certificate(&server);
    assert_ne!(second, first);
    // A certificate that cannot be used changes nothing.
    std::fs::write(&path, "broken").unwrap();
    hang_up();
    server.wait_for_log("not reloaded: certificate");
    assert_eq!(certificate(&server), second);
}

#[test]
#[cfg(target_os = "linux")]
fn open_files_are_raised_to_the_limit_of_the_system() {
    let location = TempDir::new().unwrap();
    let program = program_after(location.path(), "ulimit -S -n 128");
    let server = Launch::on(&location.path().join("data"))
        .program(&program)
        .start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let words: Vec<_> = line.unwrap().split_whitespace().collect();
    assert_eq!(words[3], words[4], "{limits}");
    assert_ne!(words[3], "128", "{limits}");
}

/// The address at which other machines reach this one, if it has one.
fn address_for_others() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: the system only chooses a route.
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// The scheme of a source is the caller's text and does not prove that a token is sent safely.
#[test]
fn a_token_opens_no_source_of_a_request_in_clear_from_another_machine() {
    let Some(address) = address_for_others() else {
        eprintln!("skipped: this machine has no address but its own");
        return;
    };
    let location = TempDir::new().unwrap();
    let arguments = [
        "--host=0.0.0.0",
        "--i-know",
        "--oauth=basic",
        "--accept-forged-tokens",
    ];
    let launch = arguments
        .iter()
        .fold(Launch::on(location.path()), |launch, argument| {
            launch.argument(argument)
        });
    let server = launch.start();
    for name in ["secret", "drop"] {
        let target = format!("/{name}?restype=container");
        blob("PUT", &target).send(&server).is(201);
    }
    let payroll = blob("PUT", "/secret/payroll").header("x-ms-blob-type", "BlockBlob");
    payroll.body("salaries").send(&server).is(201);
    let copy = |address: SocketAddr, scheme: &str| {
        let source = format!("{scheme}://{address}/{ACCOUNT}/secret/payroll");
        let request = blob("PUT", "/drop/loot")
            .credited(&account_sas("cw"))
            .header("x-ms-copy-source", &source)
            .header("x-ms-copy-source-authorization", &bearer())
            .header("x-ms-requires-sync", "true")
            .header("Host", &address.to_string())
            .header("Connection", "close");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&request.bytes()).unwrap();
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    for scheme in ["http", "https"] {
        let refused = copy(SocketAddr::new(address, server.ports.blob), scheme);
        assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
        assert!(refused.contains("not allowed with HTTP"), "{refused}");
        // A request from this machine cannot be read by others, so the token is accepted.
        let near = SocketAddr::new([127, 0, 0, 1].into(), server.ports.blob);
        let copied = copy(near, scheme);
        assert!(copied.starts_with("HTTP/1.1 202"), "{copied}");
    }
}

/// The log may show the path of the data, responses may not.
#[test]
#[cfg(target_os = "linux")]
fn errors_of_a_failing_disk_show_clients_no_path() {
    let location = TempDir::new().unwrap();
    let at = |name: &str| location.path().join(name);
    let source = "#define _GNU_SOURCE\n#include <errno.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        static int fails(void) { if (access(getenv(\"BROKEN\"), F_OK)) return 0; errno = EIO; return -1; }\n\
        int fsync(int file) { return fails(); }\nint fdatasync(int file) { return fails(); }\n";
    std::fs::write(at("broken.c"), source).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .args([at("broken.so"), at("broken.c")])
        .status();
    assert!(compiled.unwrap().success());
    let server = Launch::on(&at("data"))
        .argument("--durability=disk")
        .environment("LD_PRELOAD", at("broken.so").to_str().unwrap())
        .environment("BROKEN", at("flag").to_str().unwrap())
        .start();
    let create = |service: Service, name: &str| match service {
        Service::Blob => blob("PUT", &format!("/{name}?restype=container")),
        Service::Queue => Request::new(service, "PUT", &format!("/{name}")),
        Service::Table => {
            let body = format!(r#"{{"TableName":"{name}"}}"#);
            Request::new(service, "POST", "/Tables").json(body)
        }
    };
    for service in Service::ALL {
        create(service, "before").send(&server).is(201);
    }
    std::fs::write(at("flag"), "").unwrap();
    let directory = location.path().to_str().unwrap();
    let mut shown = Vec::new();
    for _ in 0..2 {
        for service in Service::ALL {
            let answer = create(service, "after").send(&server);
            assert!(answer.status >= 500, "{service:?}: {}", answer.text());
            shown.push(answer.text());
        }
        let health = Request::exactly(Service::Blob, "GET", "/_lazurite/health").unsigned();
        let health = health.send(&server).is(503).text();
        assert!(health.contains("read-only"), "{health}");
        shown.push(health);
    }
    for text in shown {
        let names = [directory, ".wal", "MANIFEST", "data/"];
        assert!(!names.iter().any(|name| text.contains(name)), "{text}");
    }
}

/// For each kind of document held in memory: a request with one that needs much memory.
#[cfg(target_os = "linux")]
fn documents() -> Vec<(&'static str, Request)> {
    let parts = |type_of_part: &str| {
        let headers = "a:\n".repeat(99);
        let part =
            format!("--b\n{type_of_part}{headers}\nDELETE /{ACCOUNT}/c/b HTTP/1.1\n{headers}\n\n");
        part.repeat(256)
    };
    let batch = format!("{}--b--\n", parts(""));
    let changes = format!(
        "--o\nContent-Type: multipart/mixed; boundary=b\n\n{}--b--\n--o--\n",
        parts("")
    );
    let table =
        Request::new(Service::Table, "POST", "/Tab").header("Content-Type", "application/json");
    vec![
        (
            "a block list",
            blob("PUT", "/con/b?comp=blocklist").body(format!(
                "<BlockList>{}</BlockList>",
                "<Latest>AA==</Latest>".repeat(50_000)
            )),
        ),
        (
            "policies",
            blob("PUT", "/con?restype=container&comp=acl").body(format!(
                "<SignedIdentifiers>{}</SignedIdentifiers>",
                "<a/>".repeat(9_900)
            )),
        ),
        (
            "a batch",
            blob("POST", "/?comp=batch")
                .header("Content-Type", "multipart/mixed; boundary=b")
                .body(batch),
        ),
        (
            "changes of entities",
            Request::new(Service::Table, "POST", "/$batch")
                .header("Content-Type", "multipart/mixed; boundary=o")
                .body(changes),
        ),
        (
            "an entity",
            table.body(format!(
                r#"{{"PartitionKey":"p","RowKey":"r"{}}}"#,
                r#","":0"#.repeat(150_000)
            )),
        ),
    ]
}

/// Memory of the server in KiB, by the name of its line in `/proc`.
#[cfg(target_os = "linux")]
fn kibibytes(server: &Server, name: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_document_takes_at_most_four_times_its_bytes_of_memory() {
    /// Number of parallel clients: enough to tell the memory of one from noise.
    const CLIENTS: usize = 24;
    /// Memory not counted: stacks of threads, buffers of sockets, pages of the program.
    const KIBIBYTES_FREE: usize = 16 << 10;
    for (what, request) in documents() {
        let server = Server::fresh();
        blob("PUT", "/con?restype=container").send(&server).is(201);
        let service = request.service();
        let ask = |count: usize| {
            let bytes = request.bytes();
            let clients = (0..count).map(|_| {
                let (bytes, mut connection) =
                    (bytes.clone(), Connection::open(&server, service).unwrap());
                std::thread::spawn(move || connection.send_bytes(&bytes, "PUT").unwrap().status)
            });
            let clients: Vec<_> = clients.collect();
            for client in clients {
                let status = client.join().unwrap();
                assert!(status < 500, "{what}: {status}");
            }
        };
        let before = kibibytes(&server, "VmRSS");
        ask(CLIENTS);
        let taken = kibibytes(&server, "VmHWM") - before;
        let sent = CLIENTS * request.bytes().len() / 1024;
        let most = 4 * sent + KIBIBYTES_FREE;
        println!("{what}: {taken} KiB for {sent} KiB");
        assert!(taken < most, "{what}: {taken} KiB of {most} for {sent} KiB");
    }
}
