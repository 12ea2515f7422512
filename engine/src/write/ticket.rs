//! Ticket: how a thread or a task waits until its write is durable.

use crate::Result;
use crate::base::config::Durability;
use crate::base::key::SequenceNumber;
use crate::base::mutex::lock;
use crate::write::shared_sync::{End, SharedSync, Waiter};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Completes when a write has reached its durability level. A thread waits on it, a task awaits it.
/// Errors: the failure of the store; `Closed` if it was abandoned before the write was durable.
#[must_use = "a write is acknowledged only once its ticket has completed"]
pub struct Ticket(Option<Awaited>);

/// The sync that a ticket waits for.
struct Awaited {
    sync: Arc<SharedSync>,
    sequence: SequenceNumber,
    /// The registered waker of the task that polls the ticket.
    registered: Option<Waker>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("is_ready", &self.0.is_none())
            .finish()
    }
}

impl Ticket {
    /// A ticket for a write that changed nothing.
    pub fn ready() -> Ticket {
        Ticket(None)
    }

    /// Blocks until the write is durable.
    pub fn wait(self) -> Result<()> {
        match self.0 {
            None => Ok(()),
            Some(awaited) => awaited.sync.sync_through(awaited.sequence),
        }
    }
}

impl Future for Ticket {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.get_mut().0 {
            None => Poll::Ready(Ok(())),
            Some(awaited) => {
                let Awaited {
                    sync,
                    sequence,
                    registered,
                } = awaited;
                sync.poll_sync(registered, *sequence, context.waker())
            }
        }
    }
}

impl SharedSync {
    /// The ticket of the batch whose last sequence number this is.
    pub(crate) fn ticket(self: &Arc<Self>, sequence: SequenceNumber) -> Ticket {
        match self.config.durability {
            Durability::Memory | Durability::Process => Ticket::ready(),
            Durability::Disk => Ticket(Some(Awaited {
                sync: self.clone(),
                sequence,
                registered: None,
            })),
        }
    }

    fn poll_sync(
        &self,
        registered: &mut Option<Waker>,
        sequence: SequenceNumber,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        if self.durable() >= sequence {
            return Poll::Ready(Ok(()));
        }
        if self.background.is_stepped() {
            return Poll::Ready(self.sync_through(sequence));
        }
        let mut progress = lock(&self.progress);
        if progress.durable >= sequence {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = self.is_over(&progress) {
            return Poll::Ready(Err(error));
        }
        if progress.end != End::Open {
            // The sync thread may have ended already, so this thread syncs.
            drop(progress);
            return Poll::Ready(self.sync_through(sequence));
        }
        // The task stays registered until the sync that it waits for has ended, however often it is
        // polled.
        let is_known = |known: &Waker| known.will_wake(waker);
        if !registered.as_ref().is_some_and(is_known) {
            *registered = Some(waker.clone());
            progress.waiters.push(Waiter {
                sequence,
                waker: waker.clone(),
                thread: None,
            });
            self.changed.notify_all();
        }
        Poll::Pending
    }
}
