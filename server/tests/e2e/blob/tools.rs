//! Tools that move data, on a tree of thousands of files: azcopy, which is installed with the
//! JavaScript clients, and rclone, which is installed with the Python clients. A tool that cannot
//! be started is skipped, and the output says why.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{account_sas, request};
use crate::clients::{SCRIPT_SILENCE_MAX, finish, node, python, skips_clients, text};
use crate::random::Random;
use crate::server::{ACCOUNT, Launch, Server};

const AZCOPY: &str = "node_modules/@azure-tools/azcopy-linux/dist/bin/azcopy_linux_amd64";
/// Number of files in the tree, besides one that is uploaded in blocks.
const FILES: u64 = 2000;

/// A server with these containers, and an account SAS.
fn server_with(containers: &[&str]) -> (Server, String) {
    let server = Server::fresh();
    for container in containers {
        let target = format!("/{container}?restype=container");
        request("PUT", &target).send(&server).is(201);
    }
    let sas = account_sas("rwdlacupft", "b", "sco", "", "https,http");
    (server, sas)
}

/// Fills a directory with nested files of various names and sizes.
fn grow(root: &Path) {
    let mut random = Random(1);
    for at in 0..FILES {
        let directory = root.join(format!("d{}/e{}", at % 37, at % 5));
        fs::create_dir_all(&directory).unwrap();
        let name = match at % 50 {
            0 => format!("file {at} é+%.txt"),
            _ => format!("f{at}.bin"),
        };
        let length = [0, 1, 100, 5_000, 70_000][random.below(5) as usize];
        fs::write(directory.join(name), noise(&mut random, length)).unwrap();
    }
    fs::write(root.join("large.bin"), noise(&mut random, 20 << 20)).unwrap();
}

fn noise(random: &mut Random, length: usize) -> Vec<u8> {
    let words = (0..length.div_ceil(8)).flat_map(|_| random.below(u64::MAX).to_le_bytes());
    words.take(length).collect()
}

/// The contents of all files below a directory, by relative path.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                found.insert(name.to_string(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn assert_same(left: &Path, right: &Path) {
    let (left, right) = (files(left), files(right));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&left), names(&right));
    let different = left
        .iter()
        .find(|(name, content)| right[*name] != **content);
    assert_eq!(different.map(|(name, _)| name), None);
}

/// Changes a tree: one new file, one changed, some removed. Returns the numbers of files to copy
/// and to delete.
fn change(root: &Path) -> (u64, u64) {
    fs::write(root.join("new.txt"), "new").unwrap();
    fs::write(root.join("large.bin"), "smaller").unwrap();
    let gone = root.join("d0/e0");
    let count = fs::read_dir(&gone).unwrap().count() as u64;
    fs::remove_dir_all(gone).unwrap();
    (2, count)
}

/// azcopy as a command; `None`, with the reason on standard error, if it cannot be started.
fn azcopy(home: &Path) -> Option<Command> {
    if skips_clients() {
        return None;
    }
    let program = node().join(AZCOPY);
    let started = Command::new(&program).arg("--version").output();
    match started {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            eprintln!("skipped: azcopy does not start here:\n{}", text(&output));
            return None;
        }
        Err(error) => {
            eprintln!("skipped: there is no azcopy here: {error}");
            return None;
        }
    }
    let mut command = Command::new(program);
    command
        .env("AZCOPY_LOG_LOCATION", home.join("log"))
        .env("AZCOPY_JOB_PLAN_LOCATION", home.join("plan"))
        .env("AZCOPY_DISABLE_SYSLOG", "true")
        .env("HOME", home);
    Some(command)
}

/// Runs azcopy and returns the last report as (name, number) pairs.
fn shown(home: &Path, arguments: &[&str]) -> BTreeMap<String, u64> {
    let mut command = azcopy(home).expect("it started before");
    command.args(arguments);
    let output = finish(&mut command, SCRIPT_SILENCE_MAX, "azcopy cannot be started");
    let report = text(&output);
    assert!(
        output.status.success() && report.contains("Final Job Status: Completed"),
        "{arguments:?}:\n{report}"
    );
    let numbers = report.lines().filter_map(|line| {
        let (name, number) = line.split_once(": ")?;
        Some((name.trim().to_string(), number.trim().parse().ok()?))
    });
    numbers.collect()
}

#[test]
fn azcopy_uploads_syncs_downloads_copies_and_removes_a_tree() {
    let directory = TempDir::new().unwrap();
    let home = directory.path();
    if azcopy(home).is_none() {
        return;
    }
    let (server, sas) = server_with(&["con", "two"]);
    let url = |path: &str| {
        format!(
            "http://127.0.0.1:{}/{ACCOUNT}/{path}?{sas}",
            server.ports.blob
        )
    };
    let (tree, down) = (home.join("tree"), home.join("down"));
    grow(&tree);
    fs::create_dir(&down).unwrap();
    let (tree_text, down_text) = (tree.to_str().unwrap(), down.to_str().unwrap());
    let (con, two, all) = (url("con"), url("two"), url("con/*"));
    let copied = |report: BTreeMap<String, u64>| {
        assert_eq!(report["Number of File Transfers Completed"], FILES + 1);
    };
    let contents = format!("{tree_text}/*");
    let up = [
        "copy",
        &contents,
        &con,
        "--from-to",
        "LocalBlob",
        "--recursive",
        "--put-md5",
    ];
    copied(shown(home, &up));
    let check = "--check-md5=FailIfDifferentOrMissing";
    let from = [
        "copy",
        &all,
        down_text,
        "--from-to",
        "BlobLocal",
        "--recursive",
        check,
    ];
    copied(shown(home, &from));
    assert_same(&tree, &down);
    copied(shown(
        home,
        &["copy", &all, &two, "--from-to", "BlobBlob", "--recursive"],
    ));
    let (changed, gone) = change(&tree);
    for (from, to, kind) in [
        (tree_text, &con[..], "LocalBlob"),
        (&con, &two, "BlobBlob"),
        (&two, down_text, "BlobLocal"),
    ] {
        let sync = [
            "sync",
            from,
            to,
            "--from-to",
            kind,
            "--delete-destination",
            "true",
        ];
        let report = shown(home, &sync);
        let (copies, deletions) = (
            "Number of Copy Transfers Completed",
            "Number of Deletions at Destination",
        );
        assert_eq!(
            (report[copies], report[deletions]),
            (changed, gone),
            "{kind}"
        );
    }
    assert_same(&tree, &down);
    shown(
        home,
        &["remove", &two, "--from-to", "BlobTrash", "--recursive"],
    );
    let left = request("GET", "/two?restype=container&comp=list").send(&server);
    assert!(!left.is(200).text().contains("<Name>"), "{}", left.text());
}

#[test]
fn rclone_syncs_and_checks_a_tree_both_ways() {
    let (server, _) = server_with(&[]);
    check_rclone(&server, &[]);
}

/// Directories that are real are what rclone calls markers.
#[test]
fn rclone_syncs_and_checks_a_tree_of_real_directories() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).argument("--hns").start();
    check_rclone(&server, &["--azureblob-directory-markers"]);
}

fn check_rclone(server: &Server, options: &[&str]) {
    let directory = TempDir::new().unwrap();
    let home = directory.path();
    if skips_clients() {
        return;
    }
    let program = python().join("bin/rclone");
    if let Err(error) = Command::new(&program).arg("version").output() {
        eprintln!("skipped: rclone does not start here ({error})");
        return;
    }
    let sas = account_sas("rwdlacupft", "b", "sco", "", "https,http");
    let url = format!("http://127.0.0.1:{}/{ACCOUNT}?{sas}", server.ports.blob);
    let config = home.join("rclone.conf");
    fs::write(
        &config,
        format!("[az]\ntype = azureblob\nsas_url = {url}\n"),
    )
    .unwrap();
    let (tree, back) = (home.join("tree"), home.join("back"));
    grow(&tree);
    let rclone = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command
            .arg("--config")
            .arg(&config)
            .args(["--retries", "1", "--low-level-retries", "2"])
            .args(options);
        let output = finish(
            command.args(arguments),
            SCRIPT_SILENCE_MAX,
            "rclone cannot be started",
        );
        assert!(output.status.success(), "{arguments:?}:\n{}", text(&output));
    };
    let (tree_text, back_text) = (tree.to_str().unwrap(), back.to_str().unwrap());
    rclone(&["mkdir", "az:con"]);
    for _ in 0..2 {
        rclone(&["sync", tree_text, "az:con"]);
        rclone(&["check", tree_text, "az:con"]);
        rclone(&["check", "--download", tree_text, "az:con"]);
        rclone(&["sync", "az:con", back_text]);
        assert_same(&tree, &back);
        let _ = tree.join("d0/e0").exists().then(|| change(&tree));
    }
    rclone(&["sync", "az:con", "az:two"]);
    rclone(&["check", "az:con", "az:two"]);
    rclone(&["copy", "az:con/d1", "az:two/moving"]);
    rclone(&[
        "move",
        "--delete-empty-src-dirs",
        "az:two/moving",
        "az:two/moved",
    ]);
    rclone(&["check", "az:con/d1", "az:two/moved"]);
    rclone(&["purge", "az:two"]);
}
