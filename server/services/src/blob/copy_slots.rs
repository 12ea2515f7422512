//! Slots for copies from other servers. Such a copy continues after its request has ended, so only
//! the slots limit their number. When no slot is free, the copy is refused with `ServerBusy` before
//! it sends or changes anything.

use lazurite_base::locks::lock;
use lazurite_blob::Guid;
use lazurite_protocol::response::error::{Failure, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum number of copies from other servers under way at once, for all accounts together. Each
/// has a connection and at most a few pieces of content in memory.
pub const COPIES_MAX: usize = 64;

/// The slots for copies from other servers, and the copies that hold one.
#[derive(Debug)]
pub struct CopySlots {
    free: Arc<Semaphore>,
    /// The channels that stop copies, by copy id. At most one for each slot.
    stops: Mutex<HashMap<Guid, Arc<Notify>>>,
}

/// The slot of one copy, released on drop.
#[derive(Debug)]
pub struct CopySlot {
    slots: Arc<CopySlots>,
    copy_id: Option<Guid>,
    stop: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl CopySlots {
    pub fn new() -> CopySlots {
        CopySlots {
            free: Arc::new(Semaphore::new(COPIES_MAX)),
            stops: Mutex::default(),
        }
    }

    /// Takes a slot. Error: `ServerBusy` if none is free.
    pub fn take(self: &Arc<Self>) -> Result<CopySlot> {
        let permit = self.free.clone().try_acquire_owned().map_err(|_| full())?;
        Ok(CopySlot {
            slots: self.clone(),
            copy_id: None,
            stop: Arc::default(),
            _permit: permit,
        })
    }

    /// Stops the copy with this id, if it holds a slot.
    pub fn stop(&self, copy_id: Guid) {
        if let Some(stop) = self.stops().get(&copy_id) {
            stop.notify_one();
        }
    }

    fn stops(&self) -> MutexGuard<'_, HashMap<Guid, Arc<Notify>>> {
        lock(&self.stops)
    }
}

fn full() -> Failure {
    let message = format!(
        "{COPIES_MAX} copies from other servers are under way, and more there may not be at once. Please retry your request."
    );
    Failure::new(503, "ServerBusy", message)
}

impl CopySlot {
    /// Assigns the slot to the copy with this id, so that [`CopySlots::stop`] can stop it.
    pub fn assign(&mut self, copy_id: Guid) {
        self.slots.stops().insert(copy_id, self.stop.clone());
        self.copy_id = Some(copy_id);
    }

    /// Waits until the copy must stop. Returns at once if that was requested before.
    pub async fn stopped(&self) {
        self.stop.notified().await;
    }
}

impl Drop for CopySlot {
    fn drop(&mut self) {
        if let Some(copy_id) = self.copy_id {
            self.slots.stops().remove(&copy_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn places_are_counted_and_come_back_when_they_are_left() {
        let slots = Arc::new(CopySlots::new());
        let mut taken: Vec<_> = (0..COPIES_MAX).map(|_| slots.take().unwrap()).collect();
        let refused = slots.take().unwrap_err();
        assert_eq!(
            (refused.status.as_u16(), &*refused.code),
            (503, "ServerBusy")
        );
        assert!(refused.message.contains("64 copies"), "{}", refused.message);
        taken.pop();
        let mut place = slots.take().unwrap();
        assert!(slots.take().is_err());
        place.assign(Guid(1));
        drop(place);
        assert!(slots.stops().is_empty());
    }

    #[test]
    fn a_panic_under_the_lock_leaves_places_for_others() {
        let slots = Arc::new(CopySlots::new());
        let panicked = std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let _stops = slots.stops();
                panic!("as an allocation may");
            });
            panicking.join().is_err()
        });
        assert!(panicked && slots.stops.is_poisoned());
        let mut place = slots.take().unwrap();
        place.assign(Guid(1));
        slots.stop(Guid(1));
    }

    #[tokio::test]
    async fn a_copy_is_stopped_by_its_id_alone_even_before_it_waits() {
        let slots = Arc::new(CopySlots::new());
        let (mut one, mut two) = (slots.take().unwrap(), slots.take().unwrap());
        one.assign(Guid(1));
        two.assign(Guid(2));
        slots.stop(Guid(3));
        slots.stop(Guid(2));
        tokio::select! {
            biased;
            () = one.stopped() => panic!("the other one was meant"),
            () = two.stopped() => {}
        }
    }
}
