//! Tests of the command line: a table of every flag with typical mistakes in its value, and the
//! meaning of single flags.

use super::*;
use crate::embedded::Lazurite;
use crate::{announce, log};
use clap::Arg;
use std::any::TypeId;
use std::path::Path;
use tempfile::TempDir;

/// The cells of the table with which the server starts, each with the reason. The server refuses
/// all other cells with a message that names the flag and, unless it is secret, the value.
const STARTS: &[(&str, &str, &str)] = &[
    ("debug", MISSING, "the log is a new file"),
    ("extentMemoryLimit", "0.25", "a new store fits"),
    ("fork-lifetime", "4294967295", "136 years"),
    (
        "max-connections",
        "4294967295",
        "the system has its own limit",
    ),
    (
        "max-connections-per-address",
        "4294967295",
        "--max-connections counts too",
    ),
    ("max-sas-hours", "4294967295", "no SAS is longer"),
    ("port", "0", "any free ones"),
    ("blobPort", "0", "any free one"),
    ("queuePort", "0", "any free one"),
    ("tablePort", "0", "any free one"),
    ("blobKeepAliveTimeout", "0", "counts as 1, as documented"),
    ("queueKeepAliveTimeout", "0", "counts as 1, as documented"),
    ("tableKeepAliveTimeout", "0", "counts as 1, as documented"),
    ("requests-kept", "0", "keeps none"),
    ("shutdown-timeout", "0", "requests under way are cut"),
    ("requests-body-kib", "0", "keeps none"),
    (
        "import",
        MISSING,
        "the first run of several; the log says so",
    ),
    ("import", DIRECTORY, "an export of nothing"),
    ("location", MISSING, "a new store"),
    ("location", DIRECTORY, "a new store"),
    ("seed", DIRECTORY, "an export of nothing"),
    ("port-file", MISSING, "the server writes it"),
    ("port-file", LOOP, "the link is replaced"),
];

/// Values to test besides those for all flags of a kind.
const MORE: &[(&str, &[&str])] = &[
    ("extentMemoryLimit", &["0.001", "0.25", "1e30", "NaN"]),
    ("location", &[FILE, BELOW_FILE]),
    ("host", &["http://x", "x:80", "*"]),
    (
        "allow-copy-from",
        &["http://x", "x:80", "a/b", "private:", "*"],
    ),
    (
        "allowed-host",
        &["http://x", "x:80", "a/b", "*", "*.example.com"],
    ),
    ("cors", &["x", "http://x/", "*.example.com"]),
    (
        "accounts",
        &["a:?", "a--b:AAAA", "a/b:AAAA", "a", "a:AA;a:AA"],
    ),
    ("forks", &["a/b"]),
    ("port", &["65535", "65534"]),
    ("fork-lifetime", &["4294967295"]),
    ("max-connections", &["4294967295"]),
    ("max-connections-per-address", &["4294967295"]),
    ("max-sas-hours", &["4294967295"]),
    ("disk-quota", &["255", "1099511627777"]),
    ("port-file", &["/dev/null"]),
];

/// Flags that are only valid together with others.
const COMPANIONS: &[(&str, &str)] = &[
    ("key", "--cert=CERTIFICATES/self-signed.pem"),
    ("pwd", "--cert=CERTIFICATES/self-signed.pfx"),
    ("pwd-file", "--cert=CERTIFICATES/self-signed.pfx"),
    ("cert", "--key=CERTIFICATES/key.pem"),
    (
        "client-ca",
        "--cert=CERTIFICATES/self-signed.pem --key=CERTIFICATES/key.pem",
    ),
    ("no-shared-key", "--oauth=basic"),
    ("export-on-exit", "--import=x.tar.zst"),
];

/// Flags whose values must not appear in messages.
const SECRETS: [&str; 3] = ["accounts", "console-password", "pwd"];

// Values that are paths, below the scratch directory of a cell.
const MISSING: &str = "SCRATCH/missing";
const DIRECTORY: &str = "SCRATCH/directory";
const FILE: &str = "SCRATCH/file";
const BELOW_FILE: &str = "SCRATCH/file/below";
/// A link to itself, which no user can read.
const LOOP: &str = "SCRATCH/loop";

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates");

/// The values to test for all flags of this kind.
fn values_of_kind(arg: &Arg) -> &'static [&'static str] {
    let kind = arg.get_value_parser().type_id();
    let is = |id: TypeId| kind == id;
    if !arg.get_action().takes_values() || !arg.get_possible_values().is_empty() {
        &["", "nonsense"]
    } else if is(TypeId::of::<PathBuf>()) {
        &["", MISSING, DIRECTORY, LOOP]
    } else if is(TypeId::of::<u16>()) || is(TypeId::of::<u32>()) || is(TypeId::of::<u64>()) {
        &[
            "",
            "0",
            "-1",
            "18446744073709551615",
            "18446744073709551616",
        ]
    } else {
        &[""]
    }
}

fn companions(flag: &str) -> impl Iterator<Item = String> {
    let given = COMPANIONS.iter().find(|(of, _)| *of == flag);
    let words = given.map_or("", |(_, words)| words).split_whitespace();
    words.map(|word| word.replace("CERTIFICATES", CERTIFICATES))
}

/// Creates the files of a cell in a new scratch directory.
fn scratch() -> TempDir {
    let scratch = TempDir::new().unwrap();
    std::fs::create_dir(scratch.path().join("directory")).unwrap();
    std::fs::write(scratch.path().join("file"), "").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("loop", scratch.path().join("loop")).unwrap();
    scratch
}

/// Starts a server in memory, or on a directory if the flag is about one, and stops it. The error
/// is the message that a user would read.
fn start(flag: &str, value: &str, scratch: &Path) -> Result<(), String> {
    match flag {
        // The embedded server does not write a port file, so this cell writes it directly.
        "port-file" if !value.is_empty() => return announce::write_port_file(value.as_ref(), &[]),
        "debug" if !value.is_empty() => return log::open(value.as_ref()).map(drop),
        _ => {}
    }
    let server = match flag {
        "location" => Lazurite::at(value),
        "durability" | "disk-quota" => Lazurite::at(scratch.join("data")),
        _ => Lazurite::in_memory(),
    };
    let server = companions(flag).fold(server, Lazurite::flag);
    let server = server.flag(format!("--{flag}={value}"));
    let started = server.start().and_then(crate::embedded::Store::stop);
    started.map_err(|error| error.to_string())
}

#[test]
fn every_flag_starts_or_is_refused_by_name() {
    let command = Cli::command();
    let flags = || {
        command
            .get_arguments()
            .filter_map(|arg| Some((arg.get_long()?, arg)))
    };
    let mut starts: Vec<_> = STARTS
        .iter()
        .map(|(flag, value, _)| (*flag, *value))
        .collect();
    let mut wrong = Vec::new();
    for (flag, arg) in flags().filter(|(flag, _)| *flag != "version") {
        let more = MORE.iter().find(|(of, _)| *of == flag);
        let more = more.map_or(&[][..], |(_, values)| values);
        let cells = values_of_kind(arg).iter().chain(more);
        for cell in cells.filter(|cell| cfg!(unix) || **cell != LOOP) {
            let scratch = scratch();
            let value = cell.replace("SCRATCH", scratch.path().to_str().unwrap());
            let outcome = start(flag, &value, scratch.path());
            let listed = starts.iter().position(|row| *row == (flag, *cell));
            let is_right = match (&outcome, listed) {
                (Ok(()), Some(row)) => {
                    starts.remove(row);
                    true
                }
                (Err(text), None) => {
                    let names_value = SECRETS.contains(&flag) || text.contains(&value);
                    names_value && text.contains(&format!("--{flag}"))
                }
                _ => false,
            };
            if !is_right {
                wrong.push(format!("--{flag}={cell}: {outcome:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        starts.is_empty(),
        "these are no cells, or do not start: {starts:?}"
    );
    let known = |flag: &&str| flags().any(|(known, _)| known == *flag);
    let named = MORE.iter().map(|(flag, _)| *flag);
    let named = named
        .chain(COMPANIONS.iter().map(|(flag, _)| *flag))
        .chain(SECRETS);
    assert_eq!(
        named.filter(|flag| !known(flag)).collect::<Vec<_>>(),
        [""; 0]
    );
}

#[test]
fn every_flag_may_be_given_twice() {
    for arg in Cli::command().get_arguments() {
        let Some(flag) = arg.get_long().filter(|flag| *flag != "version") else {
            continue;
        };
        let parser = arg.get_value_parser().type_id();
        let word = match arg.get_possible_values().first() {
            _ if !arg.get_action().takes_values() => format!("--{flag}"),
            Some(value) => format!("--{flag}={}", value.get_name()),
            None if parser == TypeId::of::<ForkSource>() => format!("--{flag}=now"),
            None if parser == TypeId::of::<String>() => format!("--{flag}=some"),
            None => format!("--{flag}=300"),
        };
        let mut words = vec![word.clone(), word];
        words.extend(companions(flag));
        if flag == "extentMemoryLimit" {
            words.push("--inMemoryPersistence".to_owned());
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(read(&words).is_ok(), "{words:?}");
    }
}

fn read(arguments: &[&str]) -> Result<Cli, clap::Error> {
    let words = std::iter::once(&"lazurite").chain(arguments);
    Cli::read(&Cli::parser().try_get_matches_from(words)?)
}

fn cli(arguments: &[&str]) -> Cli {
    read(arguments).unwrap()
}

#[test]
fn flags_of_azurite_are_taken_in_both_spellings() {
    let cli = cli(&[
        "--blobPort=20000",
        "--queuePort",
        "0",
        "-l",
        "data",
        "-s",
        "-d",
        "log",
        "-L",
        "--skipApiVersionCheck",
        "--disableProductStyleUrl",
        "--blobKeepAliveTimeout",
        "7",
        "--disableTelemetry",
        "--tableHost",
        "0.0.0.0",
    ]);
    assert_eq!(
        cli.address(ServiceKind::Blob),
        ("127.0.0.1".to_owned(), 20000)
    );
    assert_eq!(cli.address(ServiceKind::Queue), ("127.0.0.1".to_owned(), 0));
    assert_eq!(
        cli.address(ServiceKind::Table),
        ("0.0.0.0".to_owned(), 10002)
    );
    assert!(cli.silent && cli.loose && cli.path_style_only && cli.skip_api_version_check);
    assert!(cli.check(&ServiceKind::ALL).is_ok());
}

#[test]
fn one_port_makes_three() {
    let three = cli(&["--port", "20000", "--host", "::1"]);
    let ports = ServiceKind::ALL.map(|service| three.address(service).1);
    assert_eq!(ports, [20000, 20001, 20002]);
    assert_eq!(
        ServiceKind::ALL.map(|service| cli(&["--port", "0"]).address(service).1),
        [0, 0, 0]
    );
}

#[test]
fn flags_that_need_others_say_so() {
    for flag in ["--key", "--pwd"] {
        let sentence = cli(&[flag, "x"]).check(&ServiceKind::ALL).unwrap_err();
        assert!(sentence.contains("--cert"), "{sentence}");
    }
}

#[test]
fn ports_that_do_not_exist_or_are_shared_are_refused() {
    let check = |words: &[&str], services: &[ServiceKind]| cli(words).check(services);
    for (words, parts) in [
        (
            &["--port=65535"][..],
            ["--port 65535", "Queue service", "--queuePort"],
        ),
        (
            &["--port=65534"],
            ["--port 65534", "Table service", "--tablePort"],
        ),
        (
            &["--port=65535", "--queuePort=1"],
            ["--port 65535", "Table service", "--tablePort"],
        ),
        (
            &["--port=7", "--queuePort=7"],
            ["127.0.0.1:7", "--blobPort", "--queuePort"],
        ),
        (
            &["--tablePort=10001"],
            ["127.0.0.1:10001", "--queuePort", "--tablePort"],
        ),
    ] {
        let refusal = check(words, &ServiceKind::ALL).unwrap_err();
        for part in parts {
            assert!(refusal.contains(part), "{part:?} in {refusal}");
        }
    }
    for words in [
        &["--port=65533"][..],
        &["--port=65535", "--queuePort=1", "--tablePort=2"],
        &["--port=7", "--queuePort=7", "--queueHost=127.0.0.2"],
        &["--port=0"],
    ] {
        assert_eq!(check(words, &ServiceKind::ALL), Ok(()), "{words:?}");
    }
    assert_eq!(check(&["--port=65535"], &[ServiceKind::Blob]), Ok(()));
}

#[test]
fn memory_is_refused_with_flags_about_the_disk() {
    for (words, parts) in [
        (
            ["--inMemoryPersistence", "-l", "data"],
            ["--location data", "--inMemoryPersistence"],
        ),
        (
            ["--inMemoryPersistence", "--durability", "disk"],
            ["--durability disk", "--inMemoryPersistence"],
        ),
    ] {
        let refusal = read(&words).unwrap_err().to_string();
        for part in parts {
            assert!(refusal.contains(part), "{part:?} in {refusal}");
        }
    }
    let from_environment = |flag: &str, words: &[&str]| {
        let command = Cli::parser().mut_arg(flag, |arg| match flag {
            "in_memory" => arg.default_value("true"),
            flag => arg.default_value(if flag == "location" { "/data" } else { "disk" }),
        });
        let words = std::iter::once(&"lazurite").chain(words);
        Cli::read(&command.try_get_matches_from(words).unwrap()).unwrap()
    };
    let image = from_environment("location", &["--inMemoryPersistence"]);
    assert!(image.in_memory && image.without_effect.is_empty());
    let image = from_environment("in_memory", &["-l", "/data"]);
    assert!(image.in_memory);
    assert_eq!(image.without_effect, ["location"]);
}

#[test]
fn flags_of_an_address_are_those_that_were_given() {
    let cli = cli(&["--host=::1", "--queueHost=10.0.0.1", "--tablePort=1"]);
    let flags = ServiceKind::ALL.map(|service| cli.address_flags(service));
    let flags = flags.each_ref().map(|(host, port)| (&**host, &**port));
    assert_eq!(
        flags,
        [
            ("--host", "--port"),
            ("--queueHost", "--port"),
            ("--host", "--tablePort")
        ]
    );
}

#[test]
fn every_command_for_a_server_takes_its_host_and_port() {
    // These read files, have ports or connection strings as arguments, or concern this machine.
    const OTHERS: [&str; 5] = ["verify", "dump", "copy", "shim", "service"];
    let has = |command: &clap::Command| {
        let mut flags = ["host", "port", "connection-string"].into_iter();
        flags.all(|flag| {
            let mut arguments = command.get_arguments();
            arguments.any(|arg| arg.get_long() == Some(flag))
        })
    };
    for command in Cli::command().get_subcommands() {
        let name = command.get_name();
        let takes = has(command) || command.get_subcommands().any(has);
        assert_eq!(takes, !OTHERS.contains(&name), "{name}");
    }
}
