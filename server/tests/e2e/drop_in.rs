//! Command lines that start Azurite in the wild start Lazurite unchanged: from scripts, images,
//! test containers, editors and tools.
//!
//! Each row is a line as published. Two things are replaced, so that tests run side by side and
//! write only where they may: port numbers by 0, and the first part of absolute paths by a scratch
//! directory. A line without ports takes free ones from the environment. Lines of containers run
//! with the environment that the image sets.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tempfile::TempDir;

use crate::clients::{SCRIPT_SILENCE_MAX, finish, python_command, skips_clients, text};
use crate::http::{Request, sign};
use crate::server::{Launch, Server, Service};

pub(crate) const CONTAINERFILE: &str = include_str!("../../../packages/docker/Containerfile");
const NAMES: [&str; 4] = ["azurite", "azurite-blob", "azurite-queue", "azurite-table"];
/// The directory of the clients' scripts.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");
const KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";

/// Lines that run on a machine: npm, shells, editors, build files, `func`. Each has its section of
/// the collection that it comes from, and its source there. The sections are D1 containers, D2 npm
/// and shells, D3 func, D4 Testcontainers, D5 Aspire, D6 Actions and Pipelines. AZ is Azure/Azurite
/// on GitHub.
const HOST_LINES: &[(&str, &str)] = &[
    ("D2.0 npm: the program alone", "azurite"),
    (
        "D2.1 README of Azurite",
        "azurite --silent --location c:\\azurite --debug c:\\azurite\\debug.log",
    ),
    (
        "D2.2 AZ#384, and as a tool of Rider",
        "azurite -s -l c:\\azurite -d c:\\azurite\\debug.log",
    ),
    (
        "D2.3 the same on Linux",
        "azurite -s -l /azurite -d /azurite/debug.log",
    ),
    ("D2.4 AZ#2741", "azurite -L"),
    (
        "D2.5 AZ#2544",
        "azurite --location c:\\azurite --debug C:\\azurite\\debug.log --loose --skipApiVersionCheck --disableProductStyleUrl --disableTelemetry",
    ),
    (
        "D2.6 AZ#2412",
        "azurite --location /azurite --oauth basic --cert /cert.pem --key /key.pem --skipApiVersionCheck -d /azurite/debug.log",
    ),
    (
        "D2.7 README of Azurite",
        "azurite --blobPort 0 --queuePort 0 --tablePort 0",
    ),
    (
        "D2.8 build files with start-storage-systems",
        "azurite --inMemoryPersistence --silent --skipApiVersionCheck",
    ),
    ("D2.9 npx azurite", "azurite --inMemoryPersistence"),
    (
        "D2.10 npx azurite",
        "azurite --silent --skipApiVersionCheck --location ./azurite --debug ./azurite/debug.log",
    ),
    (
        "D2.11 Visual Studio 2022, AZ#1309",
        "azurite --location /Temp/Azurite --debug /Temp/Azurite/debug.log",
    ),
    (
        "D2.12 DF PR 3386, azurite.cmd",
        "azurite --silent --blobPort 10000 --queuePort 10001 --tablePort 10002",
    ),
    (
        "D3.1 managed-azurite.md of func",
        "azurite -l /data --blobHost 127.0.0.1 --queueHost 127.0.0.1 --tableHost 127.0.0.1 --blobPort 10000 --queuePort 10001 --tablePort 10002 --disableProductStyleUrl --skipApiVersionCheck --disableTelemetry --silent --debug /logs/azurite.log",
    ),
    (
        "D6.1 Pipelines, with mkcert",
        "azurite --oauth basic --cert /cert.pem --key /key.pem --silent --location data --debug data\\debug.log",
    ),
    (
        "D2.13 README of Azurite, section on Docker",
        "azurite --silent --azurite.disableTelemetry",
    ),
    (
        "D2.14 orleans PR 9921: flags given twice",
        "azurite-blob --blobHost 127.0.0.1 --blobHost 127.0.0.1 --blobPort 10000 --blobPort 10000",
    ),
    ("D2.15 the program for queues", "azurite-queue -l ."),
    (
        "D2.16 the program for tables",
        "azurite-table --tablePort=10002 --tableKeepAliveTimeout=5",
    ),
    (
        "D2.17 README of Azurite, PFX",
        "azurite --cert /cert.pfx --pwd secret",
    ),
    (
        "D2.18 every flag of Azurite that goes with the others",
        "azurite -d /azurite/debug.log -s -L --skipApiVersionCheck --disableProductStyleUrl --disableTelemetry --oauth basic --cert /cert.pem --key /key.pem --inMemoryPersistence --extentMemoryLimit 64 --blobHost 127.0.0.1 --blobPort 10000 --blobKeepAliveTimeout 5 --queueHost 127.0.0.1 --queuePort 10001 --queueKeepAliveTimeout 5 --tableHost 127.0.0.1 --tablePort 10002 --tableKeepAliveTimeout 5",
    ),
];

/// Lines that run in a container: `docker run`, compose files, Testcontainers, Aspire. The first is
/// the image's own command.
const CONTAINER_LINES: &[(&str, &str)] = &[
    (
        "D1.1 README of Azurite, D6.2 Actions, Testcontainers for Python: the image's own command",
        "",
    ),
    ("D1.2 README of Azurite", "azurite-blob --blobHost 0.0.0.0"),
    (
        "D1.3 README of Azurite",
        "azurite -l /workspace -d /workspace/debug.log --blobPort 7777 --blobHost 0.0.0.0 --blobKeepAliveTimeout 5 --queuePort 8888 --queueHost 0.0.0.0 --queueKeepAliveTimeout 5 --tablePort 9999 --tableHost 0.0.0.0 --tableKeepAliveTimeout 5 --loose --skipApiVersionCheck --disableProductStyleUrl",
    ),
    (
        "D1.4 docker run --detach",
        "azurite --skipApiVersionCheck --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0",
    ),
    (
        "D1.5 docker run",
        "azurite --blobPort 10000 --blobHost 0.0.0.0 --queuePort 10001 --queueHost 0.0.0.0 --loose",
    ),
    (
        "D1.6 docker run without hosts",
        "azurite --skipApiVersionCheck",
    ),
    (
        "D1.7 docker run with certificates",
        "azurite --oauth basic --cert /cert.pem --key /key.pem",
    ),
    (
        "D1.8 docker run with a volume",
        "azurite --location /data --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0 --skipApiVersionCheck",
    ),
    ("D1.9 AZ#715", "azurite-blob --blobHost=0.0.0.0"),
    (
        "D1.10 AZ#2672, D5.1 Aspire",
        "azurite -l /data --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0 --skipApiVersionCheck",
    ),
    (
        "D5.2 Aspire 13",
        "azurite -l /data --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0 --disableProductStyleUrl --skipApiVersionCheck",
    ),
    (
        "D1.11 SE#4163",
        "azurite --blobHost 0.0.0.0 --queueHost 0.0.0.0 --loose -l /data",
    ),
    ("D1.12 AZ#379", "azurite-blob --loose --blobHost 0.0.0.0"),
    (
        "D1.13 compose",
        "azurite-blob --blobHost 0.0.0.0 --blobPort 10000 --loose --skipApiVersionCheck",
    ),
    (
        "D1.14 a suite in Go",
        "azurite --debug /dev/stderr -l /data --blobHost 0.0.0.0 --blobKeepAliveTimeout 600 --disableTelemetry --skipApiVersionCheck",
    ),
    (
        "D1.15 Materialize",
        "azurite --blobHost 0.0.0.0 --blobPort 10000 --disableProductStyleUrl --loose",
    ),
    (
        "D1.16 Materialize, in memory",
        "azurite --blobHost 0.0.0.0 --blobPort 10000 --disableProductStyleUrl --loose --inMemoryPersistence",
    ),
    (
        "D4.1 Testcontainers for .NET, in memory",
        "azurite --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0 --inMemoryPersistence --extentMemoryLimit 64",
    ),
    (
        "D4.2 Testcontainers for Go, one service",
        "azurite --blobHost 0.0.0.0",
    ),
    (
        "D4.3 Testcontainers for Java, with a certificate",
        "azurite --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0 --cert /cert.pem --key /key.pem",
    ),
    ("our own command", "lazurite"),
    (
        "D3.2 func in a container",
        "azurite -l /data --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0 --blobPort 10000 --queuePort 10001 --tablePort 10002 --disableProductStyleUrl --skipApiVersionCheck --disableTelemetry --silent --debug /logs/azurite.log",
    ),
    (
        "D4.4 Testcontainers for Java, PFX",
        "azurite --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0 --cert /cert.pfx --pwd secret",
    ),
    (
        "D4.5 Testcontainers for Node.js, .NET and Java",
        "azurite --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0",
    ),
];

/// Values of AZURITE_ACCOUNTS in containers: one account, several, keys of three bytes, and a
/// second key.
const ACCOUNTS: &[(&str, &[(&str, &str)])] = &[
    (
        "D1.17 SE#8514, D4.6 Testcontainers",
        &[("customaccount1", KEY)],
    ),
    (
        "D1.18 AZ#2672",
        &[
            ("devstoreaccount1", KEY),
            ("devstoreaccount2", KEY),
            ("devstoreaccount3", KEY),
        ],
    ),
    (
        "D1.19 SE#4163",
        &[("account1", "Zm9v"), ("account2", "YmFy")],
    ),
    (
        "D2.19 README of Azurite, two keys of an account",
        &[("account1", "Zm9v:YmFy"), ("account2", "YmF6:cXV4")],
    ),
];

pub(crate) fn bin(scratch: &Path) -> std::path::PathBuf {
    scratch.join("bin")
}

/// A directory with the four commands, a certificate, and space for data.
pub(crate) fn scratch() -> TempDir {
    let scratch = TempDir::new().unwrap();
    std::fs::create_dir(bin(scratch.path())).unwrap();
    for name in NAMES.iter().chain(&["lazurite"]) {
        symlink(
            env!("CARGO_BIN_EXE_lazurite"),
            bin(scratch.path()).join(name),
        )
        .unwrap();
    }
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates");
    for (file, name) in [
        ("self-signed.pfx", "cert.pfx"),
        ("self-signed.pem", "cert.pem"),
        ("key.pem", "key.pem"),
    ] {
        std::fs::copy(certificates.join(file), scratch.path().join(name)).unwrap();
    }
    scratch
}

/// The words of a line, with free ports and with absolute paths moved into `scratch`.
fn words(line: &str, scratch: &Path) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let is_port = words.last().is_some_and(|before| before.ends_with("Port"));
        words.push(match word.split_once('=') {
            _ if is_port => "0".to_owned(),
            Some((flag, _)) if flag.ends_with("Port") => format!("{flag}=0"),
            _ if word.starts_with('/') && !word.starts_with("/dev/") => {
                format!("{}{word}", scratch.display())
            }
            _ => word.to_owned(),
        });
    }
    words
}

/// Starts a line in its own working directory.
pub(crate) fn launch(line: &str, scratch: &Path) -> Launch {
    let words = words(line, scratch);
    let work = scratch.join("work");
    std::fs::create_dir_all(&work).unwrap();
    let launch = Launch::exactly(&bin(scratch).join(&words[0]), &words[1..], &work);
    launch.environment("LAZURITE_PORT", "0")
}

/// Adds the environment that the image sets with `ENV`, with its paths below `scratch`. Makes the
/// directories of the image there.
pub(crate) fn in_image(launch: Launch, scratch: &Path) -> Launch {
    let text = CONTAINERFILE.replace("\\\n", " ");
    let set = text.lines().find_map(|line| line.strip_prefix("ENV "));
    let made = text.split("mkdir -p ").nth(1).unwrap();
    let made = made
        .split_whitespace()
        .map_while(|word| word.strip_prefix('/'));
    made.for_each(|directory| std::fs::create_dir_all(scratch.join(directory)).unwrap());
    let pairs = set
        .unwrap()
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap());
    pairs.fold(launch, |launch, (name, value)| {
        match value.strip_prefix('/') {
            Some(path) => {
                let path = scratch.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                launch.environment(name, path.to_str().unwrap())
            }
            None => launch.environment(name, value),
        }
    })
}

/// The `CMD` of the image.
pub(crate) fn command_of_image() -> String {
    let command = CONTAINERFILE
        .lines()
        .find_map(|line| line.strip_prefix("CMD "));
    let words: Vec<String> = serde_json::from_str(command.unwrap()).unwrap();
    words.join(" ")
}

fn services_of(line: &str) -> Vec<Service> {
    match line.split_whitespace().next() {
        Some("azurite-blob") => vec![Service::Blob],
        Some("azurite-queue") => vec![Service::Queue],
        Some("azurite-table") => vec![Service::Table],
        _ => Service::ALL.to_vec(),
    }
}

/// Starts a line, uses each service that it promises, and stops the server.
pub(crate) fn is_served(line: &str, launch: Launch, scratch: &Path) {
    let services = services_of(line);
    let mut server = launch.start_services(services.len());
    for service in &services {
        server.wait_for_line(&format!(
            "Azurite {service:?} service is successfully listening at "
        ));
        if services.len() == 1 {
            server.wait_for_line(&format!(
                "Azurite {service:?} service successfully listens on http"
            ));
        }
        // A probe such as `nc -z` only connects.
        TcpStream::connect(("127.0.0.1", server.ports.of(*service))).unwrap();
        if !line.contains("--cert") {
            use_service(&server, *service);
        }
    }
    if line.contains("--cert") {
        use_over_tls(&server, line.contains("--oauth"), scratch);
    }
    let (status, printed) = server.signal("TERM");
    assert_eq!(status.code(), Some(0), "{line}: {printed:#?}");
}

fn use_service(server: &Server, service: Service) {
    let (request, status) = match service {
        Service::Blob => (Request::new(service, "PUT", "/con?restype=container"), 201),
        Service::Queue => (Request::new(service, "PUT", "/que"), 201),
        Service::Table => (Request::new(service, "GET", "/Tables"), 200),
    };
    request.send(server).is(status);
    probe(server, service);
}

/// Uses all services over TLS, as a client that trusts the certificate, with a key, or with a token
/// if the server accepts tokens.
fn use_over_tls(server: &Server, by_token: bool, scratch: &Path) {
    if skips_clients() {
        return;
    }
    let script = "import json, os, sys
sys.path.insert(0, os.environ['SCRIPTS'])
os.environ['LAZURITE_CERTIFICATE'] = os.environ['CERTIFICATE']
import secure
from secure import *
credential = Credential() if os.environ['BY_TOKEN'] else {'account_name': ACCOUNT, 'account_key': KEY}
blobs(credential).create_container(unique('con')).upload_blob('b', b'1')
queues(credential).create_queue(unique('queue')).send_message('x')
if os.environ['BY_TOKEN']:
    tables(credential).create_table(unique('table'))
else:
    TableServiceClient.from_connection_string(CONNECTION, **TRUST).create_table(unique('table'))
";
    let mut command = python_command();
    command
        .args(["-c", script])
        .env("SCRIPTS", SCRIPTS)
        .env("BY_TOKEN", if by_token { "yes" } else { "" })
        .env("CERTIFICATE", scratch.join("cert.pem"))
        .env(
            "AZURE_STORAGE_CONNECTION_STRING",
            server.connection_string(),
        );
    let output = finish(&mut command, SCRIPT_SILENCE_MAX, "Python cannot be started");
    assert!(output.status.success(), "{}", text(&output));
}

/// The unsigned request by which `func start` recognises an emulator.
fn probe(server: &Server, service: Service) {
    let target = match service {
        Service::Blob | Service::Queue => "/devstoreaccount1?comp=list",
        Service::Table => "/devstoreaccount1/Tables",
    };
    let probe = Request::exactly(service, "GET", target).unsigned();
    let answer = probe.header("x-ms-version", "2021-12-02").send(server);
    assert!(answer.header("x-ms-request-id").is_some());
    assert!(answer.header("x-ms-error-code").is_some());
}

/// Outside of the image, nothing states that others are kept out.
#[test]
fn lines_that_listen_on_all_addresses_start_with_a_warning_of_two_lines() {
    let key = "account1:Zm9v";
    for (line, accounts) in [
        (
            "azurite --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0",
            None,
        ),
        ("azurite-blob --blobHost 0.0.0.0", None),
        ("azurite-queue --queueHost ::", None),
        ("azurite-table --tableHost 0", None),
        ("azurite --blobHost 0.0.0.0", Some(key)),
    ] {
        let scratch = scratch();
        let mut launched = launch(line, scratch.path());
        if let Some(accounts) = accounts {
            launched = launched.environment("AZURITE_ACCOUNTS", accounts);
        }
        let server = launched.start_services(services_of(line).len());
        let log = server.log();
        let warned: Vec<_> = log
            .lines()
            .skip_while(|line| !line.starts_with("WARNING: "))
            .collect();
        assert!(
            warned.len() >= 2 && warned[1].contains("--host 127.0.0.1"),
            "{line}: {log}"
        );
        assert!(
            warned[0].contains("other machines may reach it"),
            "{line}: {log}"
        );
        drop(server);
        let quiet = launch(line, scratch.path()).environment("LAZURITE_I_KNOW", "1");
        let server = quiet.start_services(services_of(line).len());
        assert!(!server.log().contains("WARNING: "), "{line}");
    }
    let scratch = scratch();
    let line = "lazurite --host 0.0.0.0 --inMemoryPersistence";
    let (status, text) = launch(line, scratch.path()).refused();
    assert!(!status.success() && text.contains("--i-know"), "{text}");
}

#[test]
fn lines_for_a_machine_start_unchanged() {
    for (row, line) in HOST_LINES {
        eprintln!("{row}");
        let scratch = scratch();
        is_served(line, launch(line, scratch.path()), scratch.path());
        // The log must be at the given path, even in a new directory.
        if line.contains("/azurite/debug.log") {
            let log = scratch.path().join("azurite/debug.log");
            let log = if line.contains("./azurite") {
                scratch.path().join("work/azurite/debug.log")
            } else {
                log
            };
            assert!(log.metadata().is_ok_and(|log| log.len() > 0), "{line}");
        }
    }
}

#[test]
fn lines_for_a_container_start_unchanged() {
    for (row, line) in CONTAINER_LINES {
        eprintln!("{row}");
        let line = if line.is_empty() {
            command_of_image()
        } else {
            (*line).to_owned()
        };
        let scratch = scratch();
        is_served(
            &line,
            in_image(launch(&line, scratch.path()), scratch.path()),
            scratch.path(),
        );
    }
}

#[test]
fn accounts_of_a_container_come_from_the_environment() {
    if skips_clients() {
        return;
    }
    for (row, accounts) in ACCOUNTS {
        eprintln!("{row}");
        let pairs = accounts.iter().map(|(name, key)| format!("{name}:{key}"));
        let value = pairs.collect::<Vec<_>>().join(";");
        let (scratch, line) = (scratch(), command_of_image());
        let launch = in_image(launch(&line, scratch.path()), scratch.path());
        let server = launch.environment("AZURITE_ACCOUNTS", &value).start();
        for (name, keys) in *accounts {
            let (_, key) = keys.rsplit_once(':').unwrap_or(("", keys));
            use_as(&server, name, key);
        }
    }
}

/// Uses all services with the key of an account.
fn use_as(server: &Server, account: &str, key: &str) {
    let endpoints = Service::ALL.map(|service| {
        let port = server.ports.of(service);
        format!("{service:?}Endpoint=http://127.0.0.1:{port}/{account};")
    });
    let endpoints = endpoints.concat();
    use_by(&format!(
        "DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};{endpoints}"
    ));
}

/// Uses all services by a connection string, like Aspire at its start: it asks for one container,
/// then creates what it needs.
pub(crate) fn use_by(connection: &str) {
    let script = "import os
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient
connection = os.environ['CONNECTION']
blobs = BlobServiceClient.from_connection_string(connection)
next(blobs.list_containers(results_per_page=1).by_page(), None)
blobs.create_container('con')
QueueServiceClient.from_connection_string(connection).create_queue('que')
TableServiceClient.from_connection_string(connection).create_table('Tab')
";
    let mut command = python_command();
    command.args(["-c", script]).env("CONNECTION", connection);
    let output = finish(&mut command, SCRIPT_SILENCE_MAX, "Python cannot be started");
    assert!(output.status.success(), "{}", text(&output));
}

/// A suite in Go gives its container 60 MiB for /data, as D1.14 starts it.
#[test]
fn sixty_mebibytes_are_enough_for_a_data_directory() {
    let may_mount = Command::new("unshare").args(["-m", "true"]).output();
    if !may_mount.is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: it takes the right to mount");
        return;
    }
    let scratch = scratch();
    let (data, work) = (scratch.path().join("data"), scratch.path().join("work"));
    for directory in [&data, &work] {
        std::fs::create_dir(directory).unwrap();
    }
    let script = "mount -t tmpfs -o size=60m none \"$0\" && exec \"$@\"";
    let line = "azurite --debug /dev/stderr -l /data --blobHost 127.0.0.1 --blobKeepAliveTimeout 600 --disableTelemetry --skipApiVersionCheck";
    let mut words = ["-m", "sh", "-c", script].map(str::to_owned).to_vec();
    words.push(data.display().to_string());
    words.push(bin(scratch.path()).join("azurite").display().to_string());
    words.extend(self::words(line, scratch.path()).into_iter().skip(1));
    let launch = Launch::exactly(Path::new("unshare"), &words, &work);
    let server = launch.environment("LAZURITE_PORT", "0").start();
    Request::new(Service::Blob, "PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    // Half of the space is content. Space of replaced blobs is freed later, in the background.
    for number in 0..4 {
        Request::new(Service::Blob, "PUT", &format!("/con/b{number}"))
            .header("x-ms-blob-type", "BlockBlob")
            .body(vec![7; 8 << 20])
            .send(&server)
            .is(201);
    }
    use_service(&server, Service::Queue);
    use_service(&server, Service::Table);
}

#[test]
fn a_data_directory_may_hold_a_debug_log_and_other_files() {
    let line = "azurite -s -l /azurite -d /azurite/debug.log";
    let scratch = scratch();
    let data = scratch.path().join("azurite");
    for round in 0..2 {
        let server = launch(line, scratch.path()).start();
        let create = Request::new(Service::Queue, "PUT", "/lasting").send(&server);
        create.is(if round == 0 { 201 } else { 204 });
        server.signal("TERM");
        assert!(data.join("CURRENT").exists());
    }
    // The data goes into a subdirectory if the directory has files of a project or of Azurite.
    let project = scratch.path().join("work");
    std::fs::write(project.join("__azurite_db_blob__.json"), "{}").unwrap();
    let server = launch("azurite -l .", scratch.path()).start();
    server.wait_for_log("holds data of Azurite: the store is in");
    server.signal("TERM");
    assert!(project.join(".lazurite/CURRENT").exists());
    assert_eq!(
        std::fs::read_to_string(project.join(".lazurite/.gitignore")).unwrap(),
        "*\n"
    );
}

#[test]
fn settings_come_from_the_environment() {
    let scratch = scratch();
    let accounts = format!("\"customaccount1:{KEY};other:Zm9v\"");
    let database = "mysql://root:secret@localhost/azurite";
    let server = launch("azurite", scratch.path())
        .environment("AZURITE_ACCOUNTS", &accounts)
        .environment("AZURITE_DB", database)
        .environment("AZURITE_SKIP_API_VERSION_CHECK", "true")
        .environment("AZURITE_IN_MEMORY_PERSISTENCE", "1")
        .environment("AZURITE_BLOB_HOST", "")
        .environment("LAZURITE_SILENT", "yes")
        .start();
    let list = Request::exactly(Service::Blob, "GET", "/other?comp=list").unsigned();
    list.send(&server).is(403);
    server.wait_for_log("AZURITE_DB is ignored");
    let log = server.log();
    assert_eq!(log.matches("AZURITE_DB is ignored").count(), 1, "{log}");
    assert!(!log.contains("secret"), "{log}");
    let (_, printed) = server.signal("TERM");
    assert!(
        printed.iter().all(|line| line.starts_with("Azurite ")),
        "{printed:#?}"
    );
    assert!(!scratch.path().join("work/.lazurite").exists());
}

#[test]
fn versions_begin_with_that_of_azurite() {
    let scratch = scratch();
    for flag in ["--version", "-v"] {
        for name in NAMES {
            let output = Command::new(bin(scratch.path()).join(name))
                .arg(flag)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(
                output.status.success() && text.starts_with("3.37.0 "),
                "{name} {flag}: {text}"
            );
        }
    }
    let own = Command::new(bin(scratch.path()).join("lazurite"))
        .arg("-v")
        .output()
        .unwrap();
    assert!(own.stdout.starts_with(b"lazurite "));
}

/// The probes are `nc -z`, a request without an account, the request of AZ#1539 to the secondary
/// location with a signature in its URL, and our own.
#[test]
fn health_checks_of_containers_pass() {
    let scratch = scratch();
    let line = command_of_image();
    let server = in_image(launch(&line, scratch.path()), scratch.path()).start();
    // Like Azurite, the server refuses a probe of the root, so `curl -f` fails with both.
    for service in Service::ALL {
        let root = Request::exactly(service, "GET", "/").unsigned();
        root.send(&server).is(400);
    }
    let signed = sign("devstoreaccount1\nr\nb\ns\n\n2099-01-01\n\n\n2020-08-04\n");
    let signature = utf8_percent_encode(&signed, NON_ALPHANUMERIC);
    let statistics = format!(
        "/devstoreaccount1-secondary/?restype=service&comp=stats&sv=2020-08-04&ss=b&srt=s&se=2099-01-01&sp=r&sig={signature}"
    );
    let statistics = Request::exactly(Service::Blob, "GET", &statistics).unsigned();
    statistics.send(&server).is(200);
    let health = |port_file: &Path| {
        let mut command = Command::new(bin(scratch.path()).join("lazurite"));
        let output = command
            .arg("health")
            .env("LAZURITE_PORT_FILE", port_file)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let port_file = scratch.path().join("tmp/lazurite-ports.json");
    let (status, text) = health(&port_file);
    assert_eq!(
        (status, text.matches("\"ready\"").count()),
        (Some(0), 3),
        "{text}"
    );
    server.signal("TERM");
    let (status, text) = health(&port_file);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("no server is ready"), "{text}");
}

/// For each URL: host, path before the resource, and whether it addresses the account.
const URLS: &[(&str, &str, bool)] = &[
    // Names of compose services, clusters, containers, machines and addresses: the account is in
    // the path.
    ("azurite", "/devstoreaccount1", true),
    ("azurite:10000", "/devstoreaccount1-secondary", true),
    ("storage.internal:10000", "/devstoreaccount1", true),
    (
        "azurite.default.svc.cluster.local",
        "/devstoreaccount1",
        true,
    ),
    (
        "azurite.default.svc.cluster.local:10000",
        "/devstoreaccount1-secondary",
        true,
    ),
    ("host.docker.internal:1", "/devstoreaccount1", true),
    ("host.docker.internal", "/devstoreaccount1-secondary", true),
    ("172.17.0.2", "/devstoreaccount1", true),
    ("127.0.0.1:10000", "/devstoreaccount1-secondary", true),
    ("[::1]:10000", "/devstoreaccount1", true),
    ("[fe80::1]", "/devstoreaccount1-secondary", true),
    ("localhost:10000", "/devstoreaccount1", true),
    ("lazurite.localhost", "/devstoreaccount1", true),
    // The account is the first label.
    ("devstoreaccount1.blob.localhost:10000", "", true),
    ("devstoreaccount1.queue.localhost:10001", "", true),
    ("devstoreaccount1.table.localhost", "", true),
    ("devstoreaccount1.localhost", "", true),
    ("DevStoreAccount1.Blob.Localhost", "", true),
    ("devstoreaccount1-secondary.blob.localhost", "", true),
    ("devstoreaccount1.blob.azure:10000", "", true),
    ("devstoreaccount1.storage.svc.cluster.local", "", true),
    ("devstoreaccount1.host.docker.internal", "", true),
    // Neither host nor path names the account.
    ("azurite", "", false),
    ("azurite.default.svc.cluster.local", "", false),
    ("127.0.0.1:10000", "", false),
    ("[::1]:10000", "/someone", false),
    ("devstoreaccount1", "", false),
    ("someone.blob.localhost", "", false),
    ("host.docker.internal", "/someone-secondary", false),
];

#[test]
fn any_host_name_leads_to_the_account_but_for_browsers() {
    let server = Server::fresh();
    for &(host, prefix, is_found) in URLS {
        for service in Service::ALL {
            let resource = if service == Service::Table {
                "/Tables"
            } else {
                "/?comp=list"
            };
            let list = Request::exactly(service, "GET", &format!("{prefix}{resource}"));
            let list = list.without("Host").header("Host", host);
            let (signed, unsigned) = (list.send(&server), list.unsigned().send(&server));
            if is_found {
                signed.is(200);
                unsigned.is(403);
            } else {
                let message = signed.is(400).message();
                let names_all = message.contains("accounts here: devstoreaccount1");
                assert!(names_all, "{host} {prefix}: {message}");
                unsigned.is(400);
            }
        }
    }
    for name in [
        "evil.example",
        "devstoreaccount1.evil.example",
        "azurite.svc.cluster.local",
    ] {
        let rebound = Request::exactly(Service::Blob, "GET", "/devstoreaccount1?comp=list")
            .without("Host")
            .header("Host", name)
            .header("Accept-Language", "en");
        assert_eq!(
            rebound.send(&server).is(403).code(),
            "AuthorizationFailure",
            "{name}"
        );
    }
}

#[test]
fn a_server_ends_with_the_program_that_started_it() {
    let scratch = scratch();
    let line = "lazurite --inMemoryPersistence --until-stdin-ends";
    let server = launch(line, scratch.path()).keep_stdin_open().start();
    use_service(&server, Service::Queue);
    let printed = server.end_stdin();
    assert!(
        printed
            .iter()
            .any(|line| line == "Azurite Blob service successfully closed"),
        "{printed:#?}"
    );
}

#[test]
fn a_port_of_0_is_printed_as_the_one_that_was_taken() {
    let scratch = scratch();
    for line in [
        "azurite --inMemoryPersistence --blobPort 0 --queuePort 0 --tablePort 0",
        "azurite-blob --inMemoryPersistence --blobPort 0",
        "azurite-queue --inMemoryPersistence --queuePort 0",
        "azurite-table --inMemoryPersistence --tablePort 0",
    ] {
        // `is_served` uses each service on the port that the lines name.
        is_served(line, launch(line, scratch.path()), scratch.path());
    }
}

#[test]
fn the_commands_of_azurite_are_made_and_removed() {
    let directory = TempDir::new().unwrap();
    let shim = |action: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lazurite"));
        command
            .args(["shim", action])
            .arg(directory.path())
            .output()
            .unwrap()
    };
    for _ in 0..2 {
        assert!(shim("install").status.success());
    }
    let version = Command::new(directory.path().join("azurite-table"))
        .arg("-v")
        .output()
        .unwrap();
    assert!(version.stdout.starts_with(b"3."));
    assert!(shim("remove").status.success());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    std::fs::write(directory.path().join("azurite-blob"), "another program").unwrap();
    for action in ["install", "remove"] {
        let refused = shim(action);
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !refused.status.success() && text.contains("azurite-blob"),
            "{text}"
        );
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

/// An editor, `func` and a compose file may each start an emulator on the same directory.
#[test]
fn a_second_start_in_the_directory_of_a_running_server_succeeds() {
    let scratch = scratch();
    let first = launch("azurite -l /data --silent", scratch.path()).start();
    let ports = first.ports;
    let port_flags = format!(
        "--blobPort={} --queuePort={} --tablePort={}",
        ports.blob, ports.queue, ports.table
    );
    let again = |program: &str, directory: &str, flags: &str| {
        let directory = scratch.path().join(directory);
        let mut command = Command::new(bin(scratch.path()).join(program));
        command.arg("-l").arg(directory).args(port_flags.split(' '));
        let output = command.args(flags.split_whitespace()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            said,
        )
    };
    let pid = first.pid().to_string();
    for (program, flags) in [("azurite", ""), ("lazurite", "--attach")] {
        let (status, printed, said) = again(program, "data", flags);
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(
            printed.matches("is successfully listening at ").count(),
            3,
            "{printed}"
        );
        assert!(
            said.contains("already running") && said.contains(&pid) && said.contains(" since 20"),
            "{said}"
        );
    }
    let (status, _, said) = again("lazurite", "data", "");
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("already running") && said.contains("--attach"),
        "{said}"
    );
    let (status, _, said) = again("azurite", "other", "");
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains(&format!("in use by azurite (process {pid})")),
        "{said}"
    );
    use_service(&first, Service::Blob);
}

/// Starts a process that attaches to a server on the directory `data`, and runs until its standard
/// input ends.
fn attached(server: &Server, scratch: &Path) -> Child {
    let ports = server.ports;
    let mut other = Command::new("sh")
        .args(["-c", "\"$@\" 2>&1 && echo attached && read end", "sh"])
        .arg(bin(scratch).join("azurite"))
        .arg("-l")
        .arg(scratch.join("data"))
        .args(["--blobPort", &ports.blob.to_string()])
        .args(["--queuePort", &ports.queue.to_string()])
        .args(["--tablePort", &ports.table.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "attached"));
    other
}

#[test]
fn the_end_of_standard_input_waits_for_attached_processes_and_is_no_second_signal() {
    let scratch = scratch();
    let line = "azurite -l /data --silent --until-stdin-ends";
    let start = || launch(line, scratch.path()).keep_stdin_open().start();
    for has_signal in [false, true] {
        let mut server = start();
        let mut other = attached(&server, scratch.path());
        if has_signal {
            let pid = server.pid().to_string();
            let sent = Command::new("kill").args(["-TERM", &pid]).status();
            assert!(sent.unwrap().success());
            server.wait_for_log("serves on for sh (process ");
        }
        server.close_stdin();
        server.wait_for_log("serves on for sh (process ");
        use_service(&server, Service::Table);
        drop(other.stdin.take());
        other.wait().unwrap();
        assert_eq!(server.ends().code(), Some(0), "{has_signal}");
    }
}

#[test]
fn a_server_stays_up_until_the_last_attached_process_has_gone() {
    let scratch = scratch();
    let start = || launch("azurite -l /data --silent", scratch.path()).start();
    let attach = |server: &Server| attached(server, scratch.path());
    let terminate = |server: &Server| {
        let pid = server.pid().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.unwrap().success());
    };
    let served_on = |server: &Server| {
        server.wait_for_log("serves on for sh (process ");
        use_service(server, Service::Table);
    };
    let server = start();
    let mut other = attach(&server);
    terminate(&server);
    served_on(&server);
    drop(other.stdin.take());
    other.wait().unwrap();
    assert_eq!(server.ends().code(), Some(0));

    // A second signal ends the server at once. The next server has no leases from it.
    let server = start();
    let mut other = attach(&server);
    terminate(&server);
    served_on(&server);
    assert_eq!(server.signal("TERM").0.code(), Some(0));
    assert_eq!(start().signal("TERM").0.code(), Some(0));
    drop(other.stdin.take());
    other.wait().unwrap();
}

#[test]
fn the_doctor_finds_the_known_mistakes() {
    let server = Server::fresh();
    let secure = Server::fresh_secure(&[]);
    let sound = server.connection_string();
    let doctor = |text: &str, proxy: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lazurite"));
        command
            .args(["doctor", text])
            .env_remove("NO_PROXY")
            .env_remove("no_proxy");
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(name);
        }
        let output = command.env("HTTP_PROXY", proxy).output().unwrap();
        (
            output.status.code(),
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
        )
    };
    let (status, text) = doctor(&sound, "");
    assert_eq!(status, Some(0), "{text}");
    let (blob_alone, _) = sound.split_once("QueueEndpoint").unwrap();
    let (status, text) = doctor(blob_alone, "");
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("no QueueEndpoint and no TableEndpoint"),
        "{text}"
    );
    let trusting = Command::new(env!("CARGO_BIN_EXE_lazurite"))
        .args(["doctor", &secure.connection_string()])
        .env("SSL_CERT_FILE", secure.certificate())
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    assert!(trusting.status.success(), "{trusting:?}");
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = other.local_addr().unwrap().port().to_string();
    drop(other);
    let [blob, table] =
        [Service::Blob, Service::Table].map(|service| server.ports.of(service).to_string());
    let of = |from: &str, to: &str| sound.replace(from, to);
    let cases = [
        (
            of(&format!(":{blob}/"), &format!(":{closed}/")),
            "other services do answer",
        ),
        (of(&format!(":{blob}/"), &format!(":{closed}/")), "10000)"),
        (of("127.0.0.1", "azurite.invalid"), "leads nowhere"),
        (
            of(
                &format!("http://127.0.0.1:{table}"),
                &format!("https://127.0.0.1:{table}"),
            ),
            "speaks http, the connection string says https",
        ),
        (
            secure.connection_string().replace("https://", "http://"),
            "speaks https, the connection string says http",
        ),
        (
            secure.connection_string(),
            "this environment does not trust",
        ),
        (
            of("devstoreaccount1", "otheraccount"),
            "has no account otheraccount",
        ),
        (
            of("AccountKey=Eby8", "AccountKey=AAAA"),
            "AccountKey is not a key of devstoreaccount1",
        ),
        (of("/devstoreaccount1;", "/;"), "the URL names no account"),
        (
            "AccountName=a;AccountKey=AAAA".to_owned(),
            "names no endpoint",
        ),
    ];
    for (text, word) in cases {
        let (status, said) = doctor(&text, "");
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(word), "{word}: {said}");
        assert!(!said.contains("Eby8"), "{said}");
    }
    let (status, said) = doctor(&sound, "http://user:password@proxy.example:3128");
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("the proxy proxy.example:3128") && !said.contains("password"),
        "{said}"
    );
}
