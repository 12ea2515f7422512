//! Threads that flush, merge, sync, read, and fork the store while the writers run.

use crate::access;
use crate::finding::Checked;
use crate::settings;
use crate::threads::opened::open_with;
use crate::threads::session::Session;
use lazurite_engine::Choices;
use lazurite_engine::fs::Fs;
use lazurite_engine::remove_store;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Number of these threads.
const OTHERS: usize = 2;

/// Starts the other threads of a session.
pub fn start(session: &Arc<Session>, choices: &mut Choices) -> Vec<JoinHandle<()>> {
    let start_one = |other| {
        let session = session.clone();
        let mut choices = Choices::new(choices.next());
        thread::spawn(move || session.note(|| run(&session, other, &mut choices)))
    };
    (0..OTHERS).map(start_one).collect()
}

fn run(session: &Session, other: usize, choices: &mut Choices) -> Checked {
    while !session.is_over.load(Ordering::SeqCst) {
        // The name is new, because an earlier session may have left a fork behind.
        let fork_name = format!("fork-{other}-{:016x}", choices.next());
        act(session, &fork_name, choices)?;
        thread::sleep(Duration::from_micros(300));
    }
    Ok(())
}

fn act(session: &Session, fork_name: &str, choices: &mut Choices) -> Checked {
    let opened = &session.opened;
    let keyspace = &opened.keyspaces[choices.index(opened.keyspaces.len())];
    match choices.below(7) {
        0 => {
            let compacted = opened.db.compact(keyspace);
            session.checked("compact", compacted).map(|_| ())
        }
        1 | 2 => {
            let flushed = opened.db.flush(keyspace);
            session.checked("flush", flushed).map(|_| ())
        }
        3 => sync(session),
        4 => read(session),
        _ => fork(session, fork_name, choices),
    }
}

fn sync(session: &Session) -> Checked {
    let written = session.ledgers.written();
    let synced = session.opened.db.sync();
    if session.checked("sync", synced)?.is_some() {
        let counts = written.into_iter().enumerate();
        counts.for_each(|(writer, count)| session.ledgers.is_durable(writer, count));
    }
    Ok(())
}

/// Checks that readers see at least what was written before, and no batch in part.
fn read(session: &Session) -> Checked {
    let written = session.ledgers.written();
    let dumped = access::dump(&session.opened.db, &session.opened.keyspaces)?;
    match session.checked("scan everything", dumped)? {
        Some(rows) => session.ledgers.check(&rows, written).map(|_| ()),
        None => Ok(()),
    }
}

/// Makes a fork, checks it, sometimes merges it, and removes it.
fn fork(session: &Session, name: &str, choices: &mut Choices) -> Checked {
    let path = session.path.with_file_name(name);
    let written = session.ledgers.written();
    let made = session.opened.db.checkpoint(&path);
    if session.checked("checkpoint", made)?.is_none() {
        return Ok(());
    }
    let durability = settings::durability(choices);
    let config = settings::config(choices, durability);
    let opened = open_with(&path, &session.disk, &config, choices);
    let Some(fork) = session.checked("open a fork", opened)? else {
        return Ok(());
    };
    let dumped = access::dump(&fork.db, &fork.keyspaces)?;
    if let Some(rows) = session.checked("scan a fork", dumped)? {
        let checked = session.ledgers.check(&rows, written);
        checked.map_err(|finding| finding.within("a fork"))?;
    }
    if choices.one_in(2) {
        let compacted = fork.db.compact(&fork.keyspaces[0]);
        session.checked("compact a fork", compacted)?;
    }
    if choices.one_in(2) {
        fork.db.abandon();
    }
    drop(fork);
    let fs: Arc<dyn Fs> = Arc::new(session.disk.clone());
    let removed = remove_store(&fs, &path);
    session.checked("remove a fork", removed).map(|_| ())
}
