//! Writer: writes the batches of its ledger, and awaits some of them, until a call fails.

use crate::access;
use crate::finding::{Checked, Finding, Symptom};
use crate::model::Change;
use crate::threads::ledger::WRITERS;
use crate::threads::session::Session;
use lazurite_engine::Choices;
use lazurite_engine::{Batch, Durability, Result, Ticket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Starts the writers of a session.
pub fn start(session: &Arc<Session>, choices: &mut Choices) -> Vec<JoinHandle<()>> {
    let batches = 20 + choices.below(120);
    let start_one = |writer| {
        let session = session.clone();
        let mut choices = Choices::new(choices.next());
        thread::spawn(move || session.note(|| run(&session, writer, batches, &mut choices)))
    };
    (0..WRITERS).map(start_one).collect()
}

fn run(session: &Session, writer: usize, batches: u64, choices: &mut Choices) -> Checked {
    let (db, ledgers) = (&session.opened.db, &session.ledgers);
    for _ in 0..batches {
        let was_failed = db.failure().is_some();
        let (number, changes) = ledgers.begin(writer);
        let Some(ticket) = session.checked("write", write(session, &changes))? else {
            return Ok(());
        };
        Finding::unless(!was_failed, Symptom::NotRefused, || {
            "a store that has failed takes a write".into()
        })?;
        ledgers.wrote(writer, number);
        if !choices.one_in(3) {
            continue;
        }
        if session
            .checked("wait for a ticket", ticket.wait())?
            .is_none()
        {
            return Ok(());
        }
        if db.durability() == Durability::Disk {
            ledgers.is_durable(writer, number);
        }
    }
    Ok(())
}

fn write(session: &Session, changes: &[Change]) -> Result<Ticket> {
    let (db, keyspaces) = (&session.opened.db, &session.opened.keyspaces);
    let mut batch = Batch::new();
    access::add_to(&mut batch, db, keyspaces, changes)?;
    db.write(batch)
}
