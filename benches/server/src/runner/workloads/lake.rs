//! Files and directories of Data Lake Storage beside blobs: each operation of a path beside the
//! operation on a blob that does the same, on a server of its own in the same run.

use std::sync::Arc;

use lazurite_bench_common::{Outcome, Random};

use crate::client::{Account, Outgoing, Request, Service, Template};
use crate::load::{Expected, Load, any, repeated};
use crate::runner::bench::Bench;
use crate::runner::peers::{Peer, Running};
use crate::runner::plan::{Plan, Scene};
use crate::runner::workloads::blob_loads::{CONTAINER, Names, noise};

/// The arguments of a server whose containers are file systems.
const HIERARCHY: &[&str] = &["--hns"];
const CONNECTIONS: &[usize] = &[1, 16];
const BYTES: usize = 4 << 10;
/// Number of files that exist before operations on them.
const FILES: f64 = 10_000.0;
/// Number of files that are deleted before the same number is created again.
const DELETED_TOGETHER: u64 = 64;
/// Number of files of a directory that is listed.
const LISTED: f64 = 1000.0;

/// The protocol of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Blob,
    Lake,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Protocol::Blob => "blob",
            Protocol::Lake => "lake",
        }
    }

    /// A request for the path that is value 0.
    fn request(self, method: &'static str) -> Request<'static> {
        let path = format!("/{CONTAINER}/{}", Template::mark(0));
        Request::new(Service::Blob, method, path)
            .header("accept", "application/json")
            .header("user-agent", "lazurite-bench")
    }

    /// Creates an empty file.
    fn create(self) -> Request<'static> {
        match self {
            Protocol::Blob => self.request("PUT").header("x-ms-blob-type", "BlockBlob"),
            Protocol::Lake => self.request("PUT").query("resource", "file"),
        }
    }
}

pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let files = Names::new(0, bench.scaled_small(FILES, 100));
    let listed = Names::new(0, bench.scaled_small(LISTED, 20));
    let content = noise(BYTES);
    for protocol in [Protocol::Blob, Protocol::Lake] {
        row(bench, protocol, "create", |scene| {
            create(scene.account, protocol, Names::new(scene.serial, u64::MAX))
        })?;
        let write = plan(protocol, "write 4 KiB", |scene| {
            Write::new(scene, protocol, &content)
        });
        bench.compare(&write.kinds(&["written", "created", "appended"]))?;
        let read = plan(protocol, "read 4 KiB", |scene| read(scene, protocol, files));
        bench.compare(&read.filled(|peer| fill(peer, files, &content)))?;
        let list = plan(protocol, "list 1000", |scene| list(scene.account, protocol));
        bench.compare(&list.filled(|peer| fill(peer, listed, &content)))?;
        let rename = plan(protocol, "rename or copy", |scene| {
            Rename::new(scene, protocol)
        });
        bench.compare(&rename.kinds(&["renamed", "created"]))?;
        let delete = plan(protocol, "delete", |scene| {
            delete(scene.account, protocol, files)
        });
        let delete = delete.filled(|peer| fill(peer, files, &content));
        bench.compare(&delete.restored(DELETED_TOGETHER, |scene| {
            create_in_turn(scene.account, protocol, files)
        }))?;
    }
    Ok(())
}

fn row<L: Load + 'static>(
    bench: &mut Bench,
    protocol: Protocol,
    what: &str,
    load: impl Fn(&Scene) -> L,
) -> Outcome<()> {
    bench.compare(&plan(protocol, what, load))
}

fn plan<'a, L: Load + 'static>(
    protocol: Protocol,
    what: &str,
    load: impl Fn(&Scene) -> L + 'a,
) -> Plan<'a> {
    let plan = Plan::new(format!("{} {what}", protocol.name()), Service::Blob, load);
    let plan = plan.on(&[Peer::Lazurite]).at(CONNECTIONS);
    match protocol {
        Protocol::Blob => plan,
        Protocol::Lake => plan.arguments(HIERARCHY),
    }
}

/// Puts the files, by the protocol of blobs, which both servers have.
fn fill(peer: &Running, names: Names, content: &Arc<Vec<u8>>) -> Outcome<()> {
    let mut load = super::blob_loads::put(peer.account(), names, content);
    peer.fill(Service::Blob, 16, &mut load)
}

fn create(account: &Account, protocol: Protocol, names: Names) -> impl Load + use<> {
    create_numbers(account, protocol, names, 0..names.count)
}

fn create_in_turn(account: &Account, protocol: Protocol, names: Names) -> impl Load + use<> {
    create_numbers(account, protocol, names, (0..names.count).cycle())
}

fn create_numbers<I: Iterator<Item = u64>>(
    account: &Account,
    protocol: Protocol,
    names: Names,
    mut numbers: I,
) -> impl Load + use<I> {
    let mut template = Template::new(account, protocol.create());
    let next = move |out: &mut Outgoing| {
        template.write(out, &[&names.name(numbers.next()?)], b"");
        Some(Expected::status(201))
    };
    repeated(next, any)
}

fn read(scene: &Scene, protocol: Protocol, names: Names) -> impl Load + use<> {
    let mut template = Template::new(scene.account, protocol.request("GET"));
    let mut random = Random::new(scene.serial);
    let next = move |out: &mut Outgoing| {
        template.write(out, &[&names.name(random.below(names.count))], b"");
        Some(Expected::status(200))
    };
    repeated(next, any)
}

fn list(account: &Account, protocol: Protocol) -> impl Load + use<> {
    let list = Request::new(Service::Blob, "GET", format!("/{CONTAINER}"));
    let directory = Names::new(0, 1).directory();
    let list = match protocol {
        Protocol::Blob => list
            .query("restype", "container")
            .query("comp", "list")
            .query("prefix", format!("{directory}/")),
        Protocol::Lake => list
            .query("resource", "filesystem")
            .query("recursive", "false")
            .query("directory", directory),
    };
    let mut template = Template::new(account, list);
    let next = move |out: &mut Outgoing| {
        template.write(out, &[], b"");
        Some(Expected::status(200))
    };
    repeated(next, any)
}

/// Creates a file on each connection and renames it; or copies a blob, which is half of what a
/// rename of a blob takes.
struct Rename {
    protocol: Protocol,
    create: Template,
    rename: Template,
    names: Names,
    /// By connection: the number of its file, and whether the file is there.
    state: Vec<(u64, bool)>,
    next: u64,
}

impl Rename {
    fn new(scene: &Scene, protocol: Protocol) -> Rename {
        let source = format!("/{CONTAINER}/{}", Template::mark(1));
        let rename = match protocol {
            Protocol::Blob => {
                let endpoint = scene.account.endpoint(Service::Blob);
                let source = format!("{endpoint}{source}");
                protocol.request("PUT").header("x-ms-copy-source", source)
            }
            Protocol::Lake => protocol.request("PUT").header("x-ms-rename-source", source),
        };
        Rename {
            protocol,
            create: Template::new(scene.account, protocol.create()),
            rename: Template::new(scene.account, rename),
            names: Names::new(scene.serial, u64::MAX),
            state: (0..scene.connections as u64)
                .map(|number| (number, false))
                .collect(),
            next: scene.connections as u64,
        }
    }
}

impl Load for Rename {
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected> {
        let (number, is_there) = &mut self.state[connection];
        let name = self.names.name(*number);
        if !*is_there {
            *is_there = true;
            self.create.write(out, &[&name], b"");
            return Some(Expected::status(201).kind(1));
        }
        self.rename
            .write(out, &[&format!("{name}-moved"), &name], b"");
        (*number, *is_there) = (self.next, false);
        self.next += 1;
        Some(Expected::status(match self.protocol {
            Protocol::Blob => 202,
            Protocol::Lake => 201,
        }))
    }
}

fn delete(account: &Account, protocol: Protocol, names: Names) -> impl Load + use<> {
    let delete = match protocol {
        Protocol::Blob => protocol.request("DELETE"),
        Protocol::Lake => protocol.request("DELETE").query("recursive", "false"),
    };
    let status = match protocol {
        Protocol::Blob => 202,
        Protocol::Lake => 200,
    };
    let mut template = Template::new(account, delete);
    let mut numbers = (0..names.count).cycle();
    let next = move |out: &mut Outgoing| {
        template.write(out, &[&names.name(numbers.next()?)], b"");
        Some(Expected::status(status))
    };
    repeated(next, any)
}

/// Writes files on each connection: creates one, appends to it, flushes it; or puts an empty blob, a
/// block and a list.
struct Write {
    protocol: Protocol,
    create: Template,
    append: Template,
    commit: Template,
    content: Arc<Vec<u8>>,
    names: Names,
    /// By connection: the number of its file, and the requests for it so far.
    state: Vec<(u64, u8)>,
    next: u64,
}

impl Write {
    fn new(scene: &Scene, protocol: Protocol, content: &Arc<Vec<u8>>) -> Write {
        let (append, commit) = match protocol {
            Protocol::Blob => (
                protocol
                    .request("PUT")
                    .query("comp", "block")
                    .query("blockid", "MDAwMDAwMDA="),
                protocol.request("PUT").query("comp", "blocklist"),
            ),
            Protocol::Lake => (
                protocol
                    .request("PATCH")
                    .query("action", "append")
                    .query("position", "0"),
                protocol
                    .request("PATCH")
                    .query("action", "flush")
                    .query("position", content.len().to_string()),
            ),
        };
        let append = append.header("content-type", "application/octet-stream");
        Write {
            protocol,
            create: Template::new(scene.account, protocol.create()),
            append: Template::new(scene.account, append),
            commit: Template::new(scene.account, commit),
            content: content.clone(),
            names: Names::new(scene.serial, u64::MAX),
            state: (0..scene.connections as u64)
                .map(|number| (number, 0))
                .collect(),
            next: scene.connections as u64,
        }
    }
}

impl Load for Write {
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected> {
        let (number, sent) = &mut self.state[connection];
        let name = self.names.name(*number);
        let is_lake = self.protocol == Protocol::Lake;
        *sent += 1;
        match *sent {
            1 => {
                self.create.write(out, &[&name], b"");
                Some(Expected::status(201).kind(1))
            }
            2 => {
                let whole = 0..self.content.len();
                self.append.write_long(out, &[&name], &self.content, whole);
                Some(Expected::status(if is_lake { 202 } else { 201 }).kind(2))
            }
            _ => {
                let list: &[u8] = match self.protocol {
                    Protocol::Blob => b"<BlockList><Latest>MDAwMDAwMDA=</Latest></BlockList>",
                    Protocol::Lake => b"",
                };
                self.commit.write(out, &[&name], list);
                (*number, *sent) = (self.next, 0);
                self.next += 1;
                Some(Expected::status(if is_lake { 200 } else { 201 }))
            }
        }
    }
}
