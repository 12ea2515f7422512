//! Limits on connections: in all, so that file handles are left for the store, and from one
//! address, so that one client leaves room for others.

use lazurite_base::locks::lock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long a connection that exceeds the limit waits before idle connections are asked again to
/// close.
const CROWDED_STEP: Duration = Duration::from_millis(200);

/// Counts the open connections of all services, and limits them.
#[derive(Debug)]
pub struct Connections {
    max: usize,
    max_per_address: usize,
    open: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    /// Changes when there is no room for another connection. Idle connections then close.
    crowded: watch::Sender<u64>,
    freed: Notify,
}

/// The place of a connection, freed on drop.
#[derive(Debug)]
pub struct ConnectionPermit {
    connections: Arc<Connections>,
    address: Option<IpAddr>,
}

impl Connections {
    pub fn new(max: usize, max_per_address: usize) -> Connections {
        Connections {
            max,
            max_per_address,
            open: AtomicUsize::new(0),
            by_address: Mutex::default(),
            crowded: watch::Sender::new(0),
            freed: Notify::new(),
        }
    }

    /// True if an address may have another connection. Loopback addresses have no limit of their
    /// own, because all programs of this machine share them.
    pub fn has_room_for(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let open = self.lock().get(&address).copied();
        address.is_loopback() || open.unwrap_or(0) < self.max_per_address
    }

    /// Waits until another connection may be admitted.
    pub async fn room(&self) {
        while self.open.load(Ordering::Relaxed) >= self.max {
            self.crowded.send_modify(|count| *count += 1);
            // If a notification comes before this wait, the next step notices.
            let _ = tokio::time::timeout(CROWDED_STEP, self.freed.notified()).await;
        }
    }

    /// Takes a place for a connection, even if none is free.
    pub fn admit(self: &Arc<Connections>, address: IpAddr) -> ConnectionPermit {
        let address = address.to_canonical();
        self.open.fetch_add(1, Ordering::Relaxed);
        let counted = !address.is_loopback();
        if counted {
            *self.lock().entry(address).or_default() += 1;
        }
        ConnectionPermit {
            connections: self.clone(),
            address: counted.then_some(address),
        }
    }

    /// Changes when idle connections should make room for waiting ones.
    pub fn crowding(&self) -> watch::Receiver<u64> {
        self.crowded.subscribe()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
        // A panic leaves the counts consistent: each is changed in one step.
        lock(&self.by_address)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        if let Some(address) = self.address {
            let mut by_address = self.connections.lock();
            if let Some(count) = by_address.get_mut(&address) {
                *count -= 1;
                if *count == 0 {
                    by_address.remove(&address);
                }
            }
        }
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
        self.connections.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections_and_this_machine_all() {
        let connections = Arc::new(Connections::new(100, 2));
        let near: IpAddr = "127.0.0.1".parse().unwrap();
        let far: IpAddr = "10.1.2.3".parse().unwrap();
        let mapped: IpAddr = "::ffff:10.1.2.3".parse().unwrap();
        let first = connections.admit(far);
        let _second = connections.admit(mapped);
        assert!(!connections.has_room_for(far) && !connections.has_room_for(mapped));
        assert!(connections.has_room_for("10.1.2.4".parse().unwrap()));
        let _local: Vec<_> = (0..10).map(|_| connections.admit(near)).collect();
        assert!(connections.has_room_for(near));
        drop(first);
        assert!(connections.has_room_for(far));
    }

    #[tokio::test]
    async fn a_connection_waits_for_room_until_another_leaves() {
        let connections = Arc::new(Connections::new(1, 1));
        let address: IpAddr = "127.0.0.1".parse().unwrap();
        connections.room().await;
        let admitted = connections.admit(address);
        let mut crowding = connections.crowding();
        let waiting = tokio::spawn({
            let connections = connections.clone();
            async move { connections.room().await }
        });
        // The open connections are asked to make room.
        crowding.changed().await.unwrap();
        assert!(!waiting.is_finished());
        drop(admitted);
        waiting.await.unwrap();
    }
}
