//! Listing: flat, by prefix and by delimiter, with increasing numbers of blobs.

use std::ops::Range;

use lazurite_bench_common::{Outcome, Random};

use crate::client::{Account, Outgoing, Request, Service, Template};
use crate::load::{Expected, Load, any, repeated};
use crate::runner::bench::{Bench, IDLE_SECONDS};
use crate::runner::peers::Peer;
use crate::runner::plan::{Plan, Scene};
use crate::runner::workloads::blob_loads::{CONTAINER, noise};

/// The numbers of blobs. The names do not depend on the scale.
const DEPTHS: [(&str, f64); 3] = [("10k", 1e4), ("100k", 1e5), ("1M", 1e6)];
/// Number of directories with the blobs.
const DIRECTORIES: u64 = 100;
/// Minimum number of bytes of a listed item.
const ITEM_BYTES: u64 = 40;

/// Lists among increasing numbers of blobs. Azurite lists only among the fewest, because filling it
/// takes long.
pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let mut peers = bench.start_all(&[Peer::Lazurite, Peer::Azurite], Service::Blob)?;
    // Pages shrink with the scale, so that they are always full.
    let pages = Pages {
        flat: bench.scaled_small(5000.0, 100),
        prefix: bench.scaled_small(100.0, 2),
    };
    let mut stored = 0;
    for (name, full) in DEPTHS {
        let until = bench.depth(full, 200).max(stored);
        for peer in &peers {
            let mut load = fill(peer.account(), stored..until);
            peer.fill(Service::Blob, 16, &mut load)?;
            peer.wait_until_idle(bench.time(IDLE_SECONDS));
        }
        stored = until;
        for (kind, what) in [
            (Kind::Flat, "5000"),
            (Kind::Prefix, "100 by prefix"),
            (Kind::Delimiter, "by delimiter"),
        ] {
            let plan = Plan::new(
                format!("blob list {what} of {name}"),
                Service::Blob,
                |scene| list(scene, kind, pages),
            );
            bench.repeat(&plan.at(&[4]), &peers)?;
        }
        peers.retain(|peer| peer.peer() == Peer::Lazurite);
    }
    Ok(())
}

/// The number of items on a page of each kind.
#[derive(Clone, Copy)]
struct Pages {
    flat: u64,
    prefix: u64,
}

fn directory(number: u64) -> String {
    format!("directory-{:03}/", number % DIRECTORIES)
}

/// Puts the blobs with these numbers, of 16 bytes each.
fn fill(account: &Account, mut numbers: Range<u64>) -> impl Load + use<> {
    let path = format!("/{CONTAINER}/{}", Template::mark(0));
    let put = Request::new(Service::Blob, "PUT", path);
    let mut template = Template::new(account, put.header("x-ms-blob-type", "BlockBlob"));
    let content = noise(16);
    let next = move |out: &mut Outgoing| {
        let number = numbers.next()?;
        let name = format!("{}b{number:09}", directory(number));
        template.write(out, &[&name], &content);
        Some(Expected::status(201))
    };
    repeated(next, any)
}

/// A kind of listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The first 5,000 blobs of the container.
    Flat,
    /// The first hundred blobs of a directory.
    Prefix,
    /// The names of the directories.
    Delimiter,
}

/// Repeats one listing.
fn list(scene: &Scene, kind: Kind, pages: Pages) -> impl Load + use<> {
    let list = Request::new(Service::Blob, "GET", format!("/{CONTAINER}"))
        .query("restype", "container")
        .query("comp", "list")
        .header("accept", "application/xml")
        .header("user-agent", "lazurite-bench");
    let (list, items) = match kind {
        Kind::Flat => (list.query("maxresults", pages.flat), pages.flat),
        Kind::Prefix => {
            let list = list.query("prefix", Template::mark(0));
            (list.query("maxresults", pages.prefix), pages.prefix)
        }
        Kind::Delimiter => (list.query("delimiter", "/"), DIRECTORIES),
    };
    let mut template = Template::new(scene.account, list);
    let mut random = Random::new(scene.serial);
    let next = move |out: &mut Outgoing| {
        let prefix = match kind {
            Kind::Prefix => directory(random.below(DIRECTORIES)),
            Kind::Flat | Kind::Delimiter => String::new(),
        };
        template.write(out, &[&prefix], b"");
        Some(Expected::status(200))
    };
    repeated(next, move |answer| {
        if answer.body_bytes as u64 > items * ITEM_BYTES {
            Ok(())
        } else {
            let bytes = answer.body_bytes;
            Err(format!("{items} items came in {bytes} bytes"))
        }
    })
}
