//! Workloads on blobs, except listing and history.

use std::sync::Arc;

use lazurite_bench_common::{Findings, Outcome};

use crate::client::Service;
use crate::load::{Limit, Load};
use crate::runner::bench::Bench;
use crate::runner::disk;
use crate::runner::measure::{measure, megabytes};
use crate::runner::peers::{Peer, Running};
use crate::runner::plan::{Plan, Scene};
use crate::runner::workloads::blob_loads::{
    self as loads, Append, Blocks, CONTAINER, InParts, Names, PartKind, WritePages, noise,
};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Number of small blobs that exist before operations on them.
const BLOBS: f64 = 10_000.0;
/// Sizes of a large blob and of its blocks, at scale 1.
const LARGE_BYTES: f64 = (64 * MIB) as f64;
const BLOCK_BYTES: f64 = (8 * MIB) as f64;
/// Number of bytes in a ranged read.
const RANGE_BYTES: usize = 64 * KIB;
/// Number of MiB written to measure the speed of the disk.
const DISK_MIB: f64 = 2048.0;
/// Number of parts of a blob that is written in small parts, and the size of each: one page.
const PARTS: f64 = 50_000.0;
const PART_BYTES: usize = 512;
/// Size of the writes that fill a page blob.
const FILL_BYTES: usize = 64 * KIB;
/// Number of blobs that are deleted before the same number is put again.
const DELETED_TOGETHER: u64 = 64;
/// Number of uploads at a time when their memory is measured.
const UPLOADS: usize = 64;

pub(super) fn small(bench: &mut Bench) -> Outcome<()> {
    put_and_get(bench, "1 KiB", KIB, &[16])?;
    put_and_get(bench, "4 KiB", 4 * KIB, &[1, 16, 64])?;
    put_and_get(bench, "1 MiB", MIB, &[1, 16])
}

fn put_and_get(bench: &mut Bench, size: &str, bytes: usize, connections: &[usize]) -> Outcome<()> {
    let content = noise(bytes);
    let put = plan(format!("blob put {size}"), |scene| {
        let names = Names::new(scene.serial, u64::MAX);
        loads::put(scene.account, names, &content)
    });
    bench.compare(&put.at(connections))?;
    let blobs = BLOBS.min((256 * MIB / bytes) as f64);
    let names = Names::new(0, bench.scaled_small(blobs, 20));
    let get = plan(format!("blob get {size}"), |scene| {
        loads::get(scene, names, bytes)
    });
    let get = get.filled(|peer| fill(peer, names, &content));
    bench.compare(&get.at(connections))
}

/// Puts a blob in blocks, compared with the disk alone; gets the blob and ranges of it.
pub(super) fn large(bench: &mut Bench) -> Outcome<()> {
    let blob = noise(bench.scaled(LARGE_BYTES, 256 << 10) as usize);
    let block = noise(bench.scaled(BLOCK_BYTES, 32 << 10) as usize);
    let put = plan("blob put in blocks, MiB", |scene| {
        Blocks::new(scene, &block)
    });
    let put = put.at(&[1, 4]).kinds(&["block", "list"]);
    bench.compare(&put.items(block.len() as f64 / MIB as f64))?;
    beside_the_disk(bench)?;
    let one = Names::new(0, 1);
    let get = plan("blob get 64 MiB, MiB", |scene| {
        loads::get(scene, one, blob.len())
    });
    let get = get.filled(|peer| fill(peer, one, &blob));
    let get = get.items(blob.len() as f64 / MIB as f64).at(&[1, 4]);
    bench.compare(&get)?;
    let range = plan("blob get 64 KiB of 64 MiB", |scene| {
        loads::get_range(scene, blob.len(), RANGE_BYTES)
    });
    let range = range.filled(|peer| fill(peer, one, &blob));
    bench.compare(&range.at(&[1, 16]))
}

/// Measures the speed of the disk, for comparison with putting in blocks.
fn beside_the_disk(bench: &mut Bench) -> Outcome<()> {
    if !bench.peers.contains(&Peer::Disk) {
        return Ok(());
    }
    for _ in 0..bench.settings.runs {
        let directory = bench.settings.launch.scratch()?;
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
    let plan = plan("blob append 4 KiB", |scene| Append::new(scene, &block));
    bench.compare(&plan.at(&[1, 16]).kinds(&["append", "create"]))
}

/// Gets a blob that was written in 50,000 parts of 512 bytes, and a blob with the same bytes that
/// was put at once. Pages are written out of order.
pub(super) fn parts(bench: &mut Bench) -> Outcome<()> {
    let content = noise(bench.scaled(PARTS, 20) as usize * PART_BYTES);
    let kinds = [
        ("flat", None),
        ("appends", Some(PartKind::Appends)),
        ("blocks", Some(PartKind::Blocks)),
        ("pages", Some(PartKind::Pages)),
    ];
    let peers = bench.start_all(&[Peer::Lazurite], Service::Blob)?;
    for (number, (name, kind)) in (0..).zip(kinds) {
        let names = Names::new(number, 1);
        for peer in &peers {
            match kind {
                None => fill(peer, names, &content)?,
                Some(kind) => fill_in_parts(peer, kind, names, &content, PART_BYTES)?,
            }
            check_content(peer, names, &content)?;
        }
        let get = plan(format!("blob get 25 MB {name}"), |scene| {
            loads::get(scene, names, content.len())
        });
        bench.repeat(&get.at(&[1]), &peers)?;
    }
    Ok(())
}

/// Fails unless the content of the first blob is `content`.
fn check_content(peer: &Running, names: Names, content: &[u8]) -> Outcome<()> {
    let found = peer.client().get_blob(CONTAINER, &names.name(0))?;
    if found.as_deref() == Some(content) {
        Ok(())
    } else {
        Err("the blob is not what was written".into())
    }
}

/// Random writes of 4 KiB to a full page blob, alone and during reads of another blob.
pub(super) fn pages(bench: &mut Bench) -> Outcome<()> {
    let bytes = bench.scaled(LARGE_BYTES, 256 << 10) as usize;
    let content = noise(bytes / FILL_BYTES * FILL_BYTES);
    let (page, small) = (noise(4 * KIB), noise(4 * KIB));
    let [written, read] = [0, 1].map(|data| Names::new(data, 1));
    let fill_both = |peer: &Running| {
        fill(peer, read, &small)?;
        fill_in_parts(peer, PartKind::Pages, written, &content, FILL_BYTES)
    };
    let alone = plan("blob page write 4 KiB", |scene| {
        WritePages::new(scene, written, content.len(), &page, None)
    });
    let alone = alone.filled(fill_both).at(&[1, 64]);
    bench.compare(&alone.on(&[Peer::Lazurite]))?;
    let beside = plan("blob page write during reads", |scene| {
        let reader = Some((read, small.len()));
        WritePages::new(scene, written, content.len(), &page, reader)
    });
    let beside = beside.filled(fill_both).at(&[2, 65]);
    bench.compare(&beside.kinds(&["write", "get"]).on(&[Peer::Lazurite]))
}

/// Deletes blobs. They are put again, so that the number of blobs stays the same.
pub(super) fn delete(bench: &mut Bench) -> Outcome<()> {
    let content = noise(KIB);
    let names = Names::new(0, bench.scaled_small(BLOBS, 100));
    let plan = plan("blob delete of 10k", |scene| {
        loads::delete_in_turn(scene.account, names)
    });
    let plan = plan.filled(|peer| fill(peer, names, &content));
    let plan = plan.restored(DELETED_TOGETHER, |scene| {
        loads::put_in_turn(scene.account, names, &content)
    });
    bench.compare(&plan.at(&[1, 16]))
}

/// Uploads one whole blob on each connection.
pub(super) fn uploads(bench: &mut Bench) -> Outcome<()> {
    let content = noise(bench.scaled(LARGE_BYTES, 256 << 10) as usize);
    let names = Names::new(0, UPLOADS as u64);
    let plan = plan("blob 64 uploads", |scene| {
        loads::put(scene.account, names, &content)
    });
    let plan = plan.items(content.len() as f64 / MIB as f64);
    for _ in 0..bench.settings.runs {
        for peer in bench.start_all(&[Peer::Lazurite], Service::Blob)? {
            let mut load = loads::put(peer.account(), names, &content);
            let mut driver = peer.connect(Service::Blob, UPLOADS)?;
            let run = || driver.run(&mut load, Limit::NONE);
            let mut findings = measure(&peer, &plan, run)?;
            findings.set("peak_mb", megabytes(peer.memory().peak_kib << 10));
            bench.add("blob 64 uploads at once", peer.peer(), findings);
        }
    }
    Ok(())
}

fn plan<'a, L: Load + 'static>(
    name: impl Into<String>,
    load: impl Fn(&Scene) -> L + 'a,
) -> Plan<'a> {
    Plan::new(name, Service::Blob, load)
}

/// Puts the blobs with these names.
fn fill(peer: &Running, names: Names, content: &Arc<Vec<u8>>) -> Outcome<()> {
    let mut load = loads::put(peer.account(), names, content);
    peer.fill(Service::Blob, 16, &mut load)
}

/// Writes the first blob in parts of this size.
fn fill_in_parts(
    peer: &Running,
    kind: PartKind,
    names: Names,
    content: &Arc<Vec<u8>>,
    part_bytes: usize,
) -> Outcome<()> {
    let mut load = InParts::new(peer.account(), kind, names, content, part_bytes);
    peer.fill(Service::Blob, 1, &mut load)
}
