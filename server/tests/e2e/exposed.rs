//! A server on a network: access, keys, limits on connections, and requests that do not wait for
//! the output of the program.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::auth::bearer;
use crate::http::{Connection, Request};
use crate::server::{ACCOUNT, KEY, Launch, Server, Service};

const PRIVATE: &str = "someone:QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";

fn launch(location: &Path, arguments: &[&str]) -> Launch {
    arguments
        .iter()
        .fold(Launch::on(location), |launch, argument| {
            launch.argument(argument)
        })
}

fn list(service: Service) -> Request {
    let target = if service == Service::Table {
        "/Tables"
    } else {
        "/?comp=list"
    };
    Request::new(service, "GET", target)
}

fn started(arguments: &[&str]) -> (TempDir, Server) {
    let location = TempDir::new().unwrap();
    let server = launch(location.path(), arguments).start();
    (location, server)
}

#[test]
fn the_well_known_key_is_offered_to_a_network_only_if_asked_for() {
    let location = TempDir::new().unwrap();
    for host in ["0.0.0.0", "0", "[::]", "::"] {
        let (status, said) = launch(location.path(), &["--host", host]).refused();
        assert!(!status.success(), "{host}");
        assert!(said.contains("--i-know"), "{host}: {said}");
    }
    for arguments in [
        &["--host", "0.0.0.0", "--i-know"][..],
        &["--host", "0.0.0.0", "--accounts", PRIVATE],
        &["--host", "localhost"],
        &["--host", "::1"],
    ] {
        drop(started(arguments));
    }
    let server = Launch::on(location.path())
        .argument("--host=0.0.0.0")
        .environment("LAZURITE_I_KNOW", "1")
        .start();
    list(Service::Blob).send(&server).is(200);
}

#[test]
fn unsigned_tokens_are_taken_from_a_network_only_with_a_flag() {
    let location = TempDir::new().unwrap();
    let private = [
        "--host",
        "0.0.0.0",
        "--accounts",
        PRIVATE,
        "--oauth",
        "basic",
    ];
    let (status, said) = launch(location.path(), &private).refused();
    assert!(
        !status.success() && said.contains("--accept-forged-tokens"),
        "{said}"
    );
    let server = launch(location.path(), &private).argument("--accept-forged-tokens");
    let server = server.start();
    server.wait_for_log("without a check of their signature");
}

#[test]
fn no_private_key_is_printed() {
    let (_location, server) = started(&["--accounts", PRIVATE]);
    server.wait_for_log("AccountName=someone;AccountKey=…");
    let said = server.log();
    assert!(!said.contains("QUFB"), "{said}");
    Server::fresh().wait_for_log(KEY);
}

#[test]
fn accounts_come_from_a_file_that_is_read_again() {
    let location = TempDir::new().unwrap();
    let file = location.path().join("accounts");
    std::fs::write(&file, "# nothing\n").unwrap();
    let path = file.to_str().unwrap();
    let data = location.path().join("data");
    let (status, said) = launch(&data, &["--accounts-file", path]).refused();
    assert!(
        !status.success() && said.contains("--accounts-file"),
        "{said}"
    );
    let other = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
    std::fs::write(&file, format!("{ACCOUNT}:{other}\n")).unwrap();
    let server = launch(&data, &["--accounts-file", path]).start();
    list(Service::Queue).send(&server).is(403);
    std::fs::write(&file, format!("{ACCOUNT}:{other}:{KEY}\n")).unwrap();
    hang_up(&server);
    let deadline = Instant::now() + Duration::from_secs(30);
    while list(Service::Queue).send(&server).status != 200 {
        assert!(Instant::now() < deadline, "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    // A file that cannot be read changes nothing.
    std::fs::write(&file, "broken").unwrap();
    hang_up(&server);
    server.wait_for_log("not reloaded: accounts");
    list(Service::Queue).send(&server).is(200);
}

fn hang_up(server: &Server) {
    let pid = server.pid().to_string();
    let sent = Command::new("kill").args(["-HUP", &pid]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_key_that_can_be_guessed_is_not_offered_to_a_network() {
    let location = TempDir::new().unwrap();
    let weak = ["--accounts", "someone:AAAA"];
    let (status, said) = launch(
        location.path(),
        &[&weak[..], &["--host", "0.0.0.0"]].concat(),
    )
    .refused();
    assert!(
        !status.success() && said.contains("account someone"),
        "{said}"
    );
    for more in [&[][..], &["--host", "0.0.0.0", "--i-know"]] {
        let server = launch(location.path(), &[&weak[..], more].concat()).start();
        server.wait_for_log("account someone has a key of less");
    }
}

/// A signal must not give a server on a network a key with which it would not have started.
#[test]
fn the_well_known_key_is_not_reloaded_on_a_network() {
    let location = TempDir::new().unwrap();
    let (file, data) = (
        location.path().join("accounts"),
        location.path().join("data"),
    );
    let other = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
    std::fs::write(&file, format!("{ACCOUNT}:{other}\n")).unwrap();
    let path = file.to_str().unwrap();
    let server = launch(&data, &["--host", "0.0.0.0", "--accounts-file", path]).start();
    list(Service::Blob).send(&server).is(403);
    std::fs::write(&file, format!("{ACCOUNT}:{other}:{KEY}\n")).unwrap();
    hang_up(&server);
    server.wait_for_log("not reloaded: accounts");
    list(Service::Blob).send(&server).is(403);
    assert!(
        !server.log().contains("reloaded: accounts\n"),
        "{}",
        server.log()
    );
    std::fs::write(&file, format!("{ACCOUNT}:{other}:{other}\n")).unwrap();
    hang_up(&server);
    server.wait_for_log(" reloaded: accounts\n");
}

#[test]
fn no_public_access_closes_every_container() {
    let (_location, server) = started(&["--no-public-access"]);
    let make = |access: Option<&str>| {
        let request = Request::new(Service::Blob, "PUT", "/con?restype=container");
        let request = match access {
            Some(access) => request.header("x-ms-blob-public-access", access),
            None => request,
        };
        request.send(&server)
    };
    let message = "Public access is not permitted on this storage account.";
    make(Some("container")).is_error(409, "PublicAccessNotPermitted", message);
    make(None).is(201);
    let anonymous = Request::new(Service::Blob, "GET", "/con?restype=container&comp=list");
    anonymous
        .unsigned()
        .send(&server)
        .is_error(409, "PublicAccessNotPermitted", message);

    let (_location, server) = started(&["--oauth", "basic", "--no-shared-key"]);
    for service in Service::ALL {
        let refused = list(service).send(&server);
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "KeyBasedAuthenticationNotPermitted")
        );
        list(service)
            .header("Authorization", &bearer())
            .send(&server)
            .is(200);
    }

    // Keys are refused as well for the source of a copy and inside a batch.
    let token = bearer();
    let by_token = |request: Request| request.header("Authorization", &token);
    let create = Request::new(Service::Blob, "PUT", "/con?restype=container");
    by_token(create).send(&server).is(201);
    by_token(put_blob("/con/b").body("x")).send(&server).is(201);
    let sas = crate::rights::account_sas("rd");
    let source = format!("{}/con/b?{sas}", server.endpoint(Service::Blob));
    let copy = Request::new(Service::Blob, "PUT", "/con/copy").header("x-ms-copy-source", &source);
    let copied = by_token(copy.header("x-ms-requires-sync", "true")).send(&server);
    let text = copied.is(403).text();
    assert!(
        text.contains("KeyBasedAuthenticationNotPermitted"),
        "{text}"
    );
    let part = format!("DELETE /{ACCOUNT}/con/b?{sas} HTTP/1.1\r\nContent-Length: 0\r\n");
    let batch = Request::new(Service::Blob, "POST", "/?comp=batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(format!(
            "--b\r\nContent-Type: application/http\r\n\r\n{part}\r\n--b--\r\n"
        ));
    let text = by_token(batch).send(&server).is(202).text();
    assert!(
        text.contains("KeyBasedAuthenticationNotPermitted"),
        "{text}"
    );
    by_token(Request::new(Service::Blob, "HEAD", "/con/b"))
        .send(&server)
        .is(200);

    let (_location, server) = started(&["--max-sas-hours", "1"]);
    let sas = |start: &str, expiry: &str| {
        let fields = [("sp", "r"), ("st", start), ("se", expiry)];
        let sas = crate::rights::service_sas(Service::Queue, "que", &fields).sign();
        let asked = Request::new(Service::Queue, "GET", "/que?comp=metadata").credited(&sas);
        let answer = asked.send(&server);
        answer
            .text()
            .contains("no SAS that is good for more than 1 hours")
    };
    assert!(sas("2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z"));
    assert!(sas("", "2099-01-01T00:00:00Z"));
    assert!(!sas("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"));
    // A stored access policy applies to a SAS that takes its times from the policy, not to an
    // account SAS, which does not sign the policy's name.
    Request::new(Service::Queue, "PUT", "/que")
        .send(&server)
        .is(201);
    Request::new(Service::Queue, "PUT", "/que?comp=acl")
        .body(
            "<SignedIdentifiers><SignedIdentifier><Id>p</Id><AccessPolicy><Expiry>2098-01-01</Expiry></AccessPolicy>\
             </SignedIdentifier></SignedIdentifiers>",
        )
        .send(&server)
        .is(204);
    let ask = |sas: &str| {
        let asked = Request::new(Service::Queue, "GET", "/que?comp=metadata").credited(sas);
        asked.send(&server).status
    };
    let named = |fields: &[(&'static str, &str)]| {
        crate::rights::service_sas(Service::Queue, "que", fields).sign()
    };
    assert_eq!(ask(&named(&[("sp", "r"), ("si", "p"), ("se", "")])), 200);
    assert_eq!(
        ask(&named(&[
            ("sp", "r"),
            ("si", "p"),
            ("se", "2097-01-01T00:00:00Z")
        ])),
        403
    );
    let of_account = crate::rights::account_sas("r");
    assert_eq!(ask(&of_account), 403);
    assert_eq!(ask(&format!("{of_account}&si=p")), 403);
}

/// Idle connections must make room for one with a request.
#[test]
fn a_request_finds_a_place_among_idle_connections() {
    let (_location, server) = started(&["--max-connections", "20"]);
    let mut idle = Vec::new();
    for _ in 0..60 {
        idle.push(Connection::open(&server, Service::Blob).unwrap());
        let began = Instant::now();
        list(Service::Queue).send(&server).is(200);
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

/// Starts a server with a limit on its open files.
fn limited(location: &Path, open_files: usize, arguments: &[&str]) -> Server {
    let program = location.join("limited");
    let script = format!(
        "#!/bin/sh\nulimit -n {open_files}\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_lazurite")
    );
    std::fs::write(&program, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, mode).unwrap();
    launch(&location.join("data"), arguments)
        .program(&program)
        .start()
}

#[test]
fn a_store_waits_for_file_handles_that_connections_have() {
    // The flag allows more connections than the system gives file handles.
    let location = TempDir::new().unwrap();
    let server = limited(location.path(), 80, &["--max-connections", "1000"]);
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let send = |connection: &mut Connection, request: Request| connection.send(&request).unwrap();
    let create = Request::new(Service::Blob, "PUT", "/con?restype=container");
    send(&mut connection, create).is(201);
    let idle: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(("127.0.0.1", server.ports.queue)).unwrap())
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    // A large value needs a new file of the value log, so the write waits for a free handle.
    let body = vec![7; 8 << 20];
    let put =
        Request::new(Service::Blob, "PUT", "/con/large").header("x-ms-blob-type", "BlockBlob");
    let writing = std::thread::spawn(move || {
        let answer = connection.send(&put.body(body)).unwrap();
        (connection, answer.status)
    });
    std::thread::sleep(Duration::from_millis(500));
    drop(idle);
    let (mut connection, status) = writing.join().unwrap();
    assert_eq!(status, 201);
    let health = Request::exactly(Service::Blob, "GET", "/_lazurite/health").unsigned();
    let health = send(&mut connection, health.header("Host", "127.0.0.1"));
    assert!(health.is(200).text().contains("ready"));
}

/// Regression test: 500 forks took all file handles, and the store was read-only until a restart.
#[test]
fn forks_leave_file_handles_for_the_store() {
    let location = TempDir::new().unwrap();
    let server = limited(location.path(), 256, &["--forks"]);
    let put = || Request::new(Service::Blob, "PUT", "/con/b").header("x-ms-blob-type", "BlockBlob");
    Request::new(Service::Blob, "PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let mut statuses: Vec<u16> = (0..100)
        .map(|number| {
            let write = put().body("x").in_fork(&format!("f{number}"));
            connection.send(&write).unwrap().status
        })
        .collect();
    let made = statuses.partition_point(|status| *status == 201);
    assert!((1..20).contains(&made), "{statuses:?}");
    statuses.drain(..made);
    assert_eq!(statuses, vec![503; 100 - made]);
    // A large value needs a file of the value log.
    put().body(vec![7; 8 << 20]).send(&server).is(201);
    put().body("x").in_fork("f0").send(&server).is(201);
    let health = Request::exactly(Service::Blob, "GET", "/_lazurite/health").unsigned();
    assert!(health.send(&server).is(200).text().contains("ready"));
}

#[test]
fn a_quota_is_answered_507_and_reads_go_on() {
    let (_location, server) = started(&["--disk-quota", "256"]);
    let send = |method: &str, target: &str, body: Vec<u8>| {
        let request = Request::new(Service::Blob, method, target);
        let request = request.header("x-ms-blob-type", "BlockBlob").body(body);
        request.send(&server)
    };
    send("PUT", "/con?restype=container", Vec::new()).is(201);
    // Random bytes cannot be compressed.
    let mut body = vec![0; 16 << 20];
    std::fs::File::open("/dev/urandom")
        .unwrap()
        .read_exact(&mut body)
        .unwrap();
    let refused = (0..32).find_map(|number| {
        let answer = send("PUT", &format!("/con/{number}"), body.clone());
        (answer.status != 201).then_some((number, answer))
    });
    let (count, refused) = refused.expect("32 times 16 MiB are more than 256 MiB");
    assert!(count >= 8, "{count}");
    let message = "There is no space left for the data of this server.";
    refused.is_error(507, "InsufficientStorage", message);
    assert_eq!(send("GET", "/con/0", Vec::new()).is(200).body, body);
    // Replacing a blob needs as much space as a new one, although it deletes rows.
    let replaced = (0..10_000).find_map(|number| {
        let answer = Request::new(Service::Blob, "PUT", "/con/replaced")
            .header("x-ms-blob-type", "BlockBlob")
            .header("x-ms-tags", &format!("number={number}"))
            .header("x-ms-meta-a", &"x".repeat(3000))
            .body(&body[number..number + 3800])
            .send(&server);
        (answer.status != 201).then_some(answer)
    });
    let refused = replaced.expect("it is refused at some time");
    refused.is_error(507, "InsufficientStorage", message);
    for number in 0..count {
        send("DELETE", &format!("/con/{number}"), Vec::new()).is(202);
    }
    // The space of deleted blobs is freed and can be used again.
    let deadline = Instant::now() + Duration::from_secs(60);
    while send("PUT", "/con/again", body.clone()).status != 201 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Regression test: 700 requests filled the pipe, and a signal then waited for its reader.
#[test]
fn unread_output_never_blocks_a_request() {
    let location = TempDir::new().unwrap();
    let server = launch(location.path(), &["--debug", "-"]).start_unread();
    let mut stream = TcpStream::connect(("127.0.0.1", server.ports.blob)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let request = "GET /_lazurite/none HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    for _ in 0..3000 {
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        assert!(stream.read(&mut answer).unwrap() > 0);
    }
    let status = server.ends_within(Duration::from_secs(10));
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

/// Regression test: a half-sent head took three of the ten seconds that Docker gives a container.
#[test]
fn a_signal_does_not_wait_for_idle_clients() {
    // With this flag, a server that waits for its clients would take a minute.
    const MINUTE: &str = "--shutdown-timeout=60";
    let (_location, server) = started(&[MINUTE]);
    let mut half = TcpStream::connect(("127.0.0.1", server.ports.blob)).unwrap();
    half.write_all(b"GET /x HT").unwrap();
    let secure = Server::fresh_secure(&[MINUTE]);
    let mut handshake = TcpStream::connect(("127.0.0.1", secure.ports.blob)).unwrap();
    handshake.write_all(&[0x16, 0x03, 0x01]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    for server in [server, secure] {
        let began = Instant::now();
        let (status, _) = server.signal("TERM");
        assert!(status.success());
        let took = began.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
}

/// Work that may be under way when the signal comes. The result is dropped only after the server
/// has ended.
type Begin = fn(&Server) -> Box<dyn std::any::Any>;

const STATES: [(&str, Begin); 12] = [
    ("nothing", |_| Box::new(())),
    ("connections that were used", |server| {
        let mut open = Vec::new();
        for service in [Service::Blob, Service::Queue, Service::Table] {
            let mut connection = Connection::open(server, service).unwrap();
            connection.send(&list(service)).unwrap();
            open.push(connection);
        }
        Box::new(open)
    }),
    ("connections that were never used", |server| {
        let connect = |_| TcpStream::connect(("127.0.0.1", server.ports.table)).unwrap();
        Box::new((0..200).map(connect).collect::<Vec<_>>())
    }),
    ("half a head", |server| begun(server, b"GET /x HT")),
    ("a head behind a request", |server| {
        let mut bytes = list(Service::Blob).bytes();
        bytes.extend(b"GET /y HTTP/1.1\r\nHo");
        begun(server, &bytes)
    }),
    ("half a body", |server| {
        let put = put_blob("/con/half").body(vec![7; 1 << 20]).bytes();
        begun(server, &put[..put.len() / 2])
    }),
    ("half a body in chunks", |server| {
        let put = put_blob("/con/chunks").without("Content-Length");
        let mut bytes = put.header("Transfer-Encoding", "chunked").bytes();
        bytes.extend(b"5\r\nabc");
        begun(server, &bytes)
    }),
    ("a body that was asked for", |server| {
        let put = put_blob("/con/asked").header("Expect", "100-continue");
        let bytes = put.body(vec![7; 1000]).bytes();
        begun(server, &bytes[..bytes.len() - 1000])
    }),
    ("a response that is not read", |server| {
        put_blob("/con/large")
            .body(vec![7; 32 << 20])
            .send(server)
            .is(201);
        let get = Request::new(Service::Blob, "GET", "/con/large");
        begun(server, &get.bytes())
    }),
    ("a long query", |server| {
        let row = format!("{}\n", "ab".repeat(500));
        let put = put_blob("/con/rows").body(row.repeat(32 << 10));
        put.send(server).is(201);
        let conditions = vec!["_1 LIKE '%ba%bb%'"; 500].join(" OR ");
        let document = format!(
            "<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * FROM BlobStorage WHERE {conditions}</Expression></QueryRequest>"
        );
        let query = Request::new(Service::Blob, "POST", "/con/rows?comp=query");
        begun(server, &query.body(document).bytes())
    }),
    ("a hundred writers", |server| {
        let threads = (0..100).map(|number| {
            let put = put_blob(&format!("/con/{number}")).body(vec![7; 5000]);
            let mut connection = Connection::open(server, Service::Blob).unwrap();
            // Sends until the server has ended.
            std::thread::spawn(move || while connection.send(&put).is_ok() {})
        });
        Box::new(threads.collect::<Vec<_>>())
    }),
    ("a copy from a server that does not answer", |server| {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let source = format!(
            "http://127.0.0.1:{}/c/b",
            silent.local_addr().unwrap().port()
        );
        let copy = Request::new(Service::Blob, "PUT", "/con/copy");
        let copy = copy.header("x-ms-copy-source", &source);
        Box::new((silent, begun(server, &copy.bytes())))
    }),
];

fn put_blob(target: &str) -> Request {
    Request::new(Service::Blob, "PUT", target).header("x-ms-blob-type", "BlockBlob")
}

fn begun(server: &Server, bytes: &[u8]) -> Box<dyn std::any::Any> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.ports.blob)).unwrap();
    stream.write_all(bytes).unwrap();
    Box::new(stream)
}

/// Docker kills a container after ten seconds.
#[test]
fn a_signal_ends_the_server_in_time_during_any_request() {
    for (state, begin) in STATES {
        let arguments = ["--allow-copy-from", "private:127.0.0.1"];
        let (_location, server) = started(&arguments);
        Request::new(Service::Blob, "PUT", "/con?restype=container")
            .send(&server)
            .is(201);
        let under_way = begin(&server);
        std::thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        let (status, _) = server.signal("TERM");
        assert!(status.success(), "{state}");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(8), "{state}: {took:?}");
        drop(under_way);
    }
}

/// A disk that does not answer delays the end by three seconds, not forever.
#[test]
#[cfg(target_os = "linux")]
fn a_signal_ends_the_server_while_the_disk_hangs() {
    let location = TempDir::new().unwrap();
    let at = |name: &str| location.path().join(name);
    // A library whose syncs wait while a file exists.
    let source = "#include <stdlib.h>\n#include <unistd.h>\n\
        static int held(void) { while (access(getenv(\"HELD\"), F_OK) == 0) usleep(10000); return 0; }\n\
        int fsync(int file) { return held(); }\nint fdatasync(int file) { return held(); }\n";
    std::fs::write(at("held.c"), source).unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .args([at("held.so"), at("held.c")])
        .status();
    assert!(compiled.unwrap().success());
    // The last messages on standard error must not delay the end either.
    let server = launch(&at("data"), &[])
        .unread_stderr()
        .environment("LD_PRELOAD", at("held.so").to_str().unwrap())
        .environment("HELD", at("flag").to_str().unwrap())
        .start();
    let create = |name: &str| {
        let target = format!("/{name}?restype=container");
        Request::new(Service::Blob, "PUT", &target)
    };
    create("before").send(&server).is(201);
    std::fs::write(at("flag"), "").unwrap();
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    connection.write(&create("meanwhile").bytes()).unwrap();
    let began = Instant::now();
    let (status, _) = server.signal("TERM");
    assert_eq!(status.code(), Some(1));
    let elapsed = began.elapsed();
    assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
}
