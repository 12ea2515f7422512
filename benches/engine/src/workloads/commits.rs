//! Synced commits of one row: by threads that wait, and by tasks that await.

use std::io::{Seek, Write};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;
use std::time::Instant;

use lazurite_engine::Ticket;

use lazurite_bench_common::Outcome;

use crate::context::{Context, VALUE_BYTES};
use crate::data::key;
use crate::engine::{Engine, Setup};
use crate::usage::{Latencies, Usage};

const SECONDS: f64 = 4.0;
/// Distance between the first rows of two writers, so that their rows do not meet.
const WRITER_ROWS: u64 = 50_000_000;
/// Number of commits that one thread keeps under way.
const AWAITED: usize = 64;

pub(super) fn run(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup {
        is_synced: true,
        ..Setup::hot()
    })?;
    let mut first_row = 0;
    for writers in [1, 8, 64] {
        wait(context, &*engine, writers, first_row)?;
        first_row += writers * WRITER_ROWS;
    }
    if await_tickets(context, &*engine, first_row)? {
        write_and_sync(context)?;
    }
    engine.close()
}

/// Measures what the disk alone needs: sequential writes into allocated blocks, each followed by a
/// sync.
fn write_and_sync(context: &Context) -> Outcome<()> {
    const RECORD: [u8; 140] = [7; 140];
    const BYTES: usize = 8 << 20;
    let mut file = tempfile::tempfile_in(&context.directory)?;
    file.write_all(&vec![0; BYTES])?;
    file.rewind()?;
    file.sync_all()?;
    let (limit, started) = (context.limit(SECONDS / 2.0), Instant::now());
    let (mut latencies, mut writes) = (Latencies::new(), 0);
    let before = Usage::now();
    while started.elapsed() < limit && writes < (BYTES / RECORD.len()) as u64 {
        latencies.time(|| {
            file.write_all(&RECORD)?;
            file.sync_data()
        })?;
        writes += 1;
    }
    context.phase("bare_", writes, &before.since(), Some(&latencies));
    Ok(())
}

/// Every writer is a thread that commits a row, waits for the disk, and commits the next.
fn wait(context: &Context, engine: &dyn Engine, writers: u64, first_row: u64) -> Outcome<()> {
    let limit = context.limit(SECONDS);
    let write = |first: u64| {
        let (mut latencies, started, mut row) = (Latencies::new(), Instant::now(), first);
        while started.elapsed() < limit {
            let value = context.values.make(row, 0, VALUE_BYTES);
            latencies.time(|| engine.put(&key(row), &value))?;
            row += 1;
        }
        Outcome::Ok((first..row, latencies))
    };
    let (before, syncs) = (Usage::now(), engine.syncs());
    let done: Vec<_> = thread::scope(|scope| {
        let start = |writer| scope.spawn(move || write(first_row + writer * WRITER_ROWS));
        let threads: Vec<_> = (0..writers).map(start).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|done| done.expect("a writer does not panic"))
            .collect()
    });
    let (used, synced) = (before.since(), engine.syncs());
    let (mut all, mut commits) = (Latencies::new(), 0);
    for writer in done {
        let (rows, latencies) = writer?;
        commits += rows.end - rows.start;
        all.add(&latencies);
        verify(context, engine, rows)?;
    }
    context.phase(&format!("w{writers}_"), commits, &used, Some(&all));
    set_syncs(context, &format!("w{writers}_"), [syncs, synced], commits);
    Ok(())
}

/// Sets how many syncs a commit took, if the engine says.
fn set_syncs(context: &Context, prefix: &str, [before, after]: [Option<u64>; 2], commits: u64) {
    if let (Some(before), Some(after)) = (before, after) {
        let syncs = after.saturating_sub(before) as f64 / commits.max(1) as f64;
        context.figure(format!("{prefix}syncs_per_commit"), syncs);
    }
}

/// Compares some of the rows that were committed.
fn verify(context: &Context, engine: &dyn Engine, rows: std::ops::Range<u64>) -> Outcome<()> {
    for row in rows.step_by(97) {
        let mut right = false;
        let mut see =
            |value: &[u8]| right = context.values.check(row, value, VALUE_BYTES) == Some(0);
        engine.get(&key(row), &mut see)?;
        context.check(right, || format!("committed row {row} is missing or wrong"));
    }
    Ok(())
}

/// Keeps many commits under way on one thread, which is woken when some complete, like a server's
/// thread. Returns whether the engine has tickets to await.
fn await_tickets(context: &Context, engine: &dyn Engine, first_row: u64) -> Outcome<bool> {
    let probe = context.values.make(first_row, 0, VALUE_BYTES);
    let Some(ticket) = engine.submit(&key(first_row), &probe) else {
        return Ok(false);
    };
    ticket?.wait()?;
    let mut latencies = Latencies::new();
    let (before, syncs) = (Usage::now(), engine.syncs());
    let next_row = keep_under_way(context, engine, first_row, &mut latencies)?;
    let commits = next_row - first_row;
    context.phase("tickets_", commits, &before.since(), Some(&latencies));
    set_syncs(context, "tickets_", [syncs, engine.syncs()], commits);
    verify(context, engine, first_row..next_row)?;
    Ok(true)
}

/// Commits rows from `first_row` on, many at a time, until the time is over. Returns the first row
/// that was not committed.
fn keep_under_way(
    context: &Context,
    engine: &dyn Engine,
    first_row: u64,
    latencies: &mut Latencies,
) -> Outcome<u64> {
    let woken = Arc::new(Woken::default());
    let mut slots: Vec<Slot> = (0..AWAITED)
        .map(|number| Slot::new(number, &woken))
        .collect();
    let (limit, started, mut row) = (context.limit(SECONDS), Instant::now(), first_row);
    let mut due: Vec<usize> = (0..AWAITED).collect();
    while !due.is_empty() {
        for number in due.drain(..) {
            let mut submit = || {
                if started.elapsed() >= limit {
                    return Ok(None);
                }
                let value = context.values.make(row, 0, VALUE_BYTES);
                row += 1;
                engine.submit(&key(row - 1), &value).transpose()
            };
            slots[number].advance(&mut submit, latencies)?;
        }
        if slots.iter().any(|slot| slot.under_way.is_some()) {
            due = woken.take();
        }
    }
    Ok(row)
}

/// A place for one commit at a time.
struct Slot {
    waker: Waker,
    under_way: Option<(Ticket, Instant)>,
}

impl Slot {
    fn new(number: usize, woken: &Arc<Woken>) -> Slot {
        let woken = woken.clone();
        Slot {
            waker: Arc::new(SlotWaker { number, woken }).into(),
            under_way: None,
        }
    }

    /// Takes the outcome of each complete commit and begins the next, until a commit is incomplete
    /// or nothing is left to submit. The waker announces the end of an incomplete commit.
    fn advance(
        &mut self,
        submit: &mut dyn FnMut() -> Outcome<Option<Ticket>>,
        latencies: &mut Latencies,
    ) -> Outcome<()> {
        loop {
            if let Some((ticket, since)) = &mut self.under_way {
                let mut context = TaskContext::from_waker(&self.waker);
                let Poll::Ready(outcome) = Pin::new(ticket).poll(&mut context) else {
                    return Ok(());
                };
                outcome?;
                latencies.record(since.elapsed());
            }
            let since = Instant::now();
            self.under_way = submit()?.map(|ticket| (ticket, since));
            if self.under_way.is_none() {
                return Ok(());
            }
        }
    }
}

/// The slots whose commits may be complete.
#[derive(Default)]
struct Woken {
    slots: Mutex<Vec<usize>>,
    changed: Condvar,
}

impl Woken {
    /// Takes the slots that are woken, and waits until there is one.
    fn take(&self) -> Vec<usize> {
        let slots = self.slots.lock().unwrap();
        let some = self.changed.wait_while(slots, |slots| slots.is_empty());
        std::mem::take(&mut *some.unwrap())
    }
}

struct SlotWaker {
    number: usize,
    woken: Arc<Woken>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        let mut slots = self.woken.slots.lock().unwrap();
        slots.push(self.number);
        // The thread that takes the slots sleeps only while there are none.
        if slots.len() == 1 {
            self.woken.changed.notify_one();
        }
    }
}
