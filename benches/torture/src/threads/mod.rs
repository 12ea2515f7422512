//! Threads: several threads write, while others flush, merge, fork and sync, beside the engine's
//! own threads. Calls on the disk may fail. The machine schedules the threads, so a seed does not
//! repeat a life exactly.

mod fault;
mod ledger;
mod opened;
mod others;
mod session;
mod writer;

use crate::access;
use crate::finding::Checked;
use crate::settings;
use fault::Fault;
use lazurite_engine::Choices;
use lazurite_engine::fs::{DiskFs, FaultFs, Keep, MemoryFs};
use ledger::{Counts, Ledgers};
use opened::{Opened, open_with};
use session::Session;
use std::path::Path;
use std::sync::Arc;

/// Number of sessions of a life.
const SESSIONS: u64 = 2;

/// Runs a life on a disk in memory. Each session has a fault. Then each of the four kinds of crash
/// is tried on a copy of the disk, and the life continues from one of them.
pub fn in_memory(seed: u64) -> Checked {
    const KEEPS: [Keep; 4] = [Keep::Nothing, Keep::Prefix, Keep::Sectors, Keep::Everything];
    let mut choices = Choices::child(seed, "memory");
    let ledgers = Arc::new(Ledgers::new(seed));
    let path = Path::new("/data");
    let mut memory = MemoryFs::crashable();
    let mut floors = Counts::default();
    for _ in 0..SESSIONS {
        let disk = FaultFs::new(Arc::new(memory.clone()));
        let opened = open(path, &disk, &mut choices, &ledgers, floors)?;
        let fault = Some(Fault::random(&mut choices));
        let session = Session::begin(opened, path, disk, ledgers.clone(), fault);
        let ended = session.run(writer::start, others::start, &mut choices)?;
        let left = KEEPS.map(|keep| (keep, memory.crash(choices.next(), keep)));
        ended.abandon();
        for (keep, left) in &left {
            let copy = left.crash(0, Keep::Everything);
            let disk = FaultFs::new(Arc::new(copy));
            let checked = check_left(path, &disk, &mut choices, &ledgers, ended.floors(*keep));
            checked.map_err(|finding| finding.within(format!("{keep:?} after {}", ended.words)))?;
        }
        let (keep, next) = &left[choices.index(left.len())];
        memory = next.clone();
        floors = ended.floors(*keep);
    }
    Ok(())
}

/// Runs a life on a real disk, without faults: the store is closed, abandoned or dropped, and
/// opened again.
pub fn in_directory(seed: u64) -> Checked {
    let mut choices = Choices::child(seed, "directory");
    let ledgers = Arc::new(Ledgers::new(seed));
    let place = tempfile::tempdir().expect("the directory of temporary files takes one more");
    let path = place.path().join("data");
    let disk = FaultFs::new(Arc::new(DiskFs::default()));
    let mut floors = Counts::default();
    for _ in 0..SESSIONS {
        let opened = open(&path, &disk, &mut choices, &ledgers, floors)?;
        let session = Session::begin(opened, &path, disk.clone(), ledgers.clone(), None);
        let ended = session.run(writer::start, others::start, &mut choices)?;
        floors = ended.close(&mut choices)?;
    }
    check_left(&path, &disk, &mut choices, &ledgers, floors)
}

/// Opens the store with new settings, checks that it holds at least `floors` batches of each
/// writer, and continues from there.
fn open(
    path: &Path,
    disk: &FaultFs,
    choices: &mut Choices,
    ledgers: &Ledgers,
    floors: Counts,
) -> Checked<Opened> {
    let (opened, counts) = open_checked(path, disk, choices, ledgers, floors)?;
    ledgers.go_on(counts);
    Ok(opened)
}

/// Checks a store like [`open_checked`], and abandons it: the life does not continue from it.
fn check_left(
    path: &Path,
    disk: &FaultFs,
    choices: &mut Choices,
    ledgers: &Ledgers,
    floors: Counts,
) -> Checked {
    let (opened, _) = open_checked(path, disk, choices, ledgers, floors)?;
    opened.db.abandon();
    Ok(())
}

fn open_checked(
    path: &Path,
    disk: &FaultFs,
    choices: &mut Choices,
    ledgers: &Ledgers,
    floors: Counts,
) -> Checked<(Opened, Counts)> {
    let durability = settings::durability(choices);
    let config = settings::config(choices, durability);
    let opened = open_with(path, disk, &config, choices)
        .map_err(|error| access::does_not_open(&format!("{durability:?}"), &error))?;
    let found = access::dump(&opened.db, &opened.keyspaces)?;
    let found = found.map_err(|error| access::unexpected("scan after a reopening", &error))?;
    let counts = ledgers.check(&found, floors)?;
    let verified = opened.db.verify();
    let verified = verified.map_err(|error| access::unexpected("verify", &error))?;
    access::expect_whole(&verified.damages)?;
    Ok((opened, counts))
}
