//! Workloads on blobs, but for listing.

use lazurite_bench_common::{Findings, Outcome};

use crate::client::Service;
use crate::load::{Limit, Load};
use crate::services::bench::Bench;
use crate::services::disk;
use crate::services::measure::{measure, megabytes};
use crate::services::peers::{Peer, Running};
use crate::services::plan::Plan;
use crate::services::workloads::blob_loads::{
    self as loads, Append, AppendAndSnapshot, Blocks, CONTAINER, DeleteAndPut, InParts, Names,
    PartKind, WritePages, noise,
};
use crate::services::workloads::history;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Small blobs that are there before the operations of which they are the object.
const BLOBS: f64 = 10_000.0;
/// Sizes of a large blob and of its blocks, at scale 1.
const LARGE_BYTES: f64 = (64 * MIB) as f64;
const BLOCK_BYTES: f64 = (8 * MIB) as f64;
/// Bytes of a ranged read.
const RANGE_BYTES: usize = 64 * KIB;
/// The bytes that measure the speed of the disk.
const DISK_MIB: f64 = 2048.0;
/// Parts of a blob that is written in small ones, and their size: one page.
const PARTS: f64 = 50_000.0;
const PART_BYTES: usize = 512;
/// Size of the writes that fill a page blob.
const FILL_BYTES: usize = 64 * KIB;
/// Uploads at once where the memory that they take is looked at.
const UPLOADS: usize = 64;

pub(super) fn small(bench: &mut Bench) -> Outcome<()> {
    put_and_get(bench, "1 KiB", KIB, &[16])?;
    put_and_get(bench, "4 KiB", 4 * KIB, &[1, 16, 64])?;
    put_and_get(bench, "1 MiB", MIB, &[1, 16])
}

fn put_and_get(bench: &mut Bench, size: &str, bytes: usize, connections: &[usize]) -> Outcome<()> {
    let content = noise(bytes);
    let put = Plan::new(
        format!("blob put {size}"),
        Service::Blob,
        create_container,
        |scene| {
            let names = Names::new(scene.serial, u64::MAX);
            loads::put(scene.account, names, &content)
        },
    );
    bench.compare(&put.at(connections))?;
    let blobs = BLOBS.min((256 * MIB / bytes) as f64);
    let names = Names::new(0, bench.scaled_small(blobs, 20));
    let get = Plan::new(
        format!("blob get {size}"),
        Service::Blob,
        |peer| fill(peer, &mut loads::put(peer.account(), names, &content)),
        |scene| loads::get(scene, names, bytes),
    );
    bench.compare(&get.at(connections))
}

/// A blob put in blocks, compared with the disk; the blob and ranges of it got.
pub(super) fn large(bench: &mut Bench) -> Outcome<()> {
    let blob = noise(bench.scaled(LARGE_BYTES, 256 << 10) as usize);
    let block = noise(bench.scaled(BLOCK_BYTES, 32 << 10) as usize);
    let put = Plan::new(
        "blob put in blocks, MiB",
        Service::Blob,
        create_container,
        |scene| Blocks::new(scene, &block),
    );
    let put = put.at(&[1, 4]).kinds(&["block", "list"]);
    bench.compare(&put.items(block.len() as f64 / MIB as f64))?;
    beside_the_disk(bench)?;
    let one = Names::new(0, 1);
    let prepare = |peer: &Running| fill(peer, &mut loads::put(peer.account(), one, &blob));
    let get = Plan::new("blob get 64 MiB, MiB", Service::Blob, prepare, |scene| {
        loads::get(scene, one, blob.len())
    });
    let get = get.items(blob.len() as f64 / MIB as f64).at(&[1, 4]);
    bench.compare(&get)?;
    let range = Plan::new(
        "blob get 64 KiB of 64 MiB",
        Service::Blob,
        prepare,
        |scene| loads::get_range(scene, blob.len(), RANGE_BYTES),
    );
    bench.compare(&range.at(&[1, 16]))
}

/// How fast the disk is, for the cases of putting in blocks.
fn beside_the_disk(bench: &mut Bench) -> Outcome<()> {
    if !bench.peers.contains(&Peer::Disk) {
        return Ok(());
    }
    for _ in 0..bench.runs {
        let directory = bench.launch.scratch()?;
        let mib = bench.scaled(DISK_MIB, 4);
        let mut findings = Findings::default();
        findings.set("per_s", disk::sequential_write(directory.path(), mib)?);
        for case in ["blob put in blocks, MiB @1", "blob put in blocks, MiB @4"] {
            bench.add(case, Peer::Disk, findings.clone());
        }
    }
    Ok(())
}

pub(super) fn append(bench: &mut Bench) -> Outcome<()> {
    let block = noise(4 * KIB);
    let plan = Plan::new(
        "blob append 4 KiB",
        Service::Blob,
        create_container,
        |scene| Append::new(scene, &block),
    );
    bench.compare(&plan.at(&[1, 16]).kinds(&["append", "create"]))
}

/// Appends to one blob a connection, of which every append has a snapshot: thousands in the end.
pub(super) fn history(bench: &mut Bench) -> Outcome<()> {
    let block = noise(KIB);
    let plan = Plan::new(
        "blob append and snapshot",
        Service::Blob,
        create_container,
        |scene| AppendAndSnapshot::new(scene, &block),
    );
    bench.compare(&plan.at(&[1, 16]).kinds(&["append", "create", "snapshot"]))?;
    history::run(bench)
}

/// A blob in 50,000 parts of 512 bytes got, and the same bytes put at once. Pages are written in no
/// order.
pub(super) fn parts(bench: &mut Bench) -> Outcome<()> {
    let content = noise(bench.scaled(PARTS, 20) as usize * PART_BYTES);
    let kinds = [
        ("flat", None),
        ("appends", Some(PartKind::Appends)),
        ("blocks", Some(PartKind::Blocks)),
        ("pages", Some(PartKind::Pages)),
    ];
    let peers = bench.start(&[Peer::Lazurite])?;
    for peer in &peers {
        create_container(peer)?;
    }
    for (number, (name, kind)) in (0..).zip(kinds) {
        let names = Names::new(number, 1);
        for peer in &peers {
            let account = peer.account();
            match kind {
                None => peer.fill(Service::Blob, 1, &mut loads::put(account, names, &content))?,
                Some(kind) => {
                    let mut load = InParts::new(account, kind, names, &content, PART_BYTES);
                    peer.fill(Service::Blob, 1, &mut load)?;
                }
            }
            check_content(peer, names, &content)?;
        }
        let name = format!("blob get 25 MB {name}");
        let get = Plan::new(
            name,
            Service::Blob,
            |_| Ok(()),
            |scene| loads::get(scene, names, content.len()),
        );
        bench.repeat(&get.at(&[1]), &peers)?;
    }
    Ok(())
}

/// Errors unless the first of the blobs is `content`.
fn check_content(peer: &Running, names: Names, content: &[u8]) -> Outcome<()> {
    let found = peer.client().get_blob(CONTAINER, &names.name(0))?;
    if found.as_deref() == Some(content) {
        Ok(())
    } else {
        Err("the blob is not what was written".into())
    }
}

/// Writes of 4 KiB at random to a page blob that is full, alone and during reads of another blob.
pub(super) fn pages(bench: &mut Bench) -> Outcome<()> {
    let bytes = bench.scaled(LARGE_BYTES, 256 << 10) as usize;
    let content = noise(bytes / FILL_BYTES * FILL_BYTES);
    let (page, small) = (noise(4 * KIB), noise(4 * KIB));
    let [written, read] = [0, 1].map(|data| Names::new(data, 1));
    let prepare = |peer: &Running| {
        fill(peer, &mut loads::put(peer.account(), read, &small))?;
        let mut load = InParts::new(
            peer.account(),
            PartKind::Pages,
            written,
            &content,
            FILL_BYTES,
        );
        peer.fill(Service::Blob, 1, &mut load)
    };
    let alone = Plan::new("blob page write 4 KiB", Service::Blob, prepare, |scene| {
        WritePages::new(scene, written, content.len(), &page, None)
    });
    bench.compare(&alone.at(&[1, 64]).on(&[Peer::Lazurite]))?;
    let beside = Plan::new(
        "blob page write during reads",
        Service::Blob,
        prepare,
        |scene| {
            let reader = Some((read, small.len()));
            WritePages::new(scene, written, content.len(), &page, reader)
        },
    );
    let beside = beside.at(&[2, 65]).kinds(&["write", "get"]);
    bench.compare(&beside.on(&[Peer::Lazurite]))
}

/// Deleted blobs are put again, so that their number stays the same.
pub(super) fn delete(bench: &mut Bench) -> Outcome<()> {
    let content = noise(KIB);
    let names = Names::new(0, bench.scaled_small(BLOBS, 100));
    let plan = Plan::new(
        "blob delete of 10k",
        Service::Blob,
        |peer| fill(peer, &mut loads::put(peer.account(), names, &content)),
        |scene| DeleteAndPut::new(scene, names, &content),
    );
    bench.compare(&plan.at(&[1, 16]).kinds(&["delete", "put"]))
}

/// Each connection sends one blob whole.
pub(super) fn uploads(bench: &mut Bench) -> Outcome<()> {
    let content = noise(bench.scaled(LARGE_BYTES, 256 << 10) as usize);
    let plan = Plan::new(
        "blob 64 uploads",
        Service::Blob,
        |_| Ok(()),
        |scene| loads::put(scene.account, Names::new(0, 1), &content),
    );
    let plan = plan.items(content.len() as f64 / MIB as f64);
    for _ in 0..bench.runs {
        for peer in bench.start(&[Peer::Lazurite])? {
            create_container(&peer)?;
            let names = Names::new(0, UPLOADS as u64);
            let mut load = loads::put(peer.account(), names, &content);
            let mut driver = peer.connect(Service::Blob, UPLOADS)?;
            let mut findings = measure(&peer, &mut driver, &mut load, Limit::NONE, &plan)?;
            findings.set("peak_mb", megabytes(peer.process().memory().peak_kib));
            bench.add("blob 64 uploads at once", peer.peer(), findings);
        }
    }
    Ok(())
}

pub(super) fn create_container(peer: &Running) -> Outcome<()> {
    if peer.is_a_store() {
        Ok(peer.client().create_container(CONTAINER)?)
    } else {
        Ok(())
    }
}

/// Creates the container and puts the blobs of `load`.
fn fill(peer: &Running, load: &mut dyn Load) -> Outcome<()> {
    create_container(peer)?;
    if peer.is_a_store() {
        peer.fill(Service::Blob, 16, load)
    } else {
        Ok(())
    }
}
