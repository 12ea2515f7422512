//! The Queue service. A consumer takes messages, which hides them for a while; then it deletes
//! them, or they reappear.
//!
//! Synchronous and free of HTTP. Supported: every operation on queues and messages, stored access
//! policies, and storage of the service properties. Left to the server: the meaning of the
//! properties, statistics, signatures, CORS.
//!
//! # Storage of a queue in a log-structured store
//!
//! Pushing at one end and deleting at the other is the worst case of an LSM tree: every consumed
//! row leaves a tombstone in front of the head. Each message therefore has four small rows under
//! the id of its queue (`keys.rs`): its place in the order of delivery (time of next visibility,
//! then insertion); by id, that place and the receipt; its text, which deliveries do not rewrite;
//! and its place in the order of expiry. The operations use them as follows:
//!
//! - **Get** scans the order of delivery from the *frontier*, before which no message can be
//!   delivered (`frontier.rs`), up to the present, and moves the messages it returns to their new
//!   time of visibility. At any depth it reads only the rows it returns and rows of expired
//!   messages. It steps over neither the tombstones behind the frontier nor those ahead of the
//!   present, which consumers leave when they delete in time. When nothing is due it reads nothing.
//!   After a restart the first scan finds the frontier; an occasional range delete covers the rows
//!   behind it, so that this scan is short, too.
//! - **Put** only writes: it reads no row and takes no lock that a consumer holds.
//! - **Update** and **Delete** find the message by its id, and check the receipt in that row.
//! - **Clear** and **Delete Queue** write one range delete. A queue that is cleared or created
//!   again gets a new id: no operation waits for the removal of the rows or scans the range where
//!   they were.
//! - **Expiry** is not an event. Delivery and peek skip expired messages, a few thousand per step
//!   so that the locks are held only briefly, and the frontier moves past them. A message
//!   disappears from delivery, peek and count at the same instant; [`QueueService::sweep`] removes
//!   its rows later.
//! - The **count** is the number of messages added, less those removed, less the expired ones that
//!   still have rows, all from one snapshot and without a lock. The first two numbers are counters
//!   that each Put and Delete writes in its batch. The third is counted from the rows in the order
//!   of expiry that the sweep has not reached.
//!
//! # Time
//!
//! The service reads its own clock, which never goes back within a process, once for each
//! operation. A write reads it under the lock that orders the write. So a message that has expired
//! does not reappear within a process. If the machine's clock is set back between two runs, expired
//! messages whose rows were not yet removed reappear.
//!
//! # Durability and locks
//!
//! Each write is one batch and returns its [`Ticket`](lazurite_engine::Ticket): the change is
//! visible at once and may be acknowledged when the ticket completes. An operation with nothing to
//! write also returns a ticket, which completes once every change its answer depends on is durable.
//! Reads (Peek, List, count, metadata, policies) return the visible state and never wait for the
//! disk: at `Durability::Disk` they may show a change that is not acknowledged yet and that a power
//! cut undoes.
//!
//! Every write has one shape, in `QueueService::with_queue` for messages and
//! `QueueService::with_exclusive_queue` for queues: begin a transaction, which waits to be
//! admitted -> lock (`live.rs`) -> read and check -> fill the transaction's batch -> commit ->
//! change the state in memory -> unlock. Only [`QueueService::set_service_properties`] writes
//! blindly.
//!
//! The locks are not those of the engine's transactions. Each guards a copy in memory of state in
//! the store: a counter, which is written without being read, or whether a queue exists. Readers
//! take them too, even when the store accepts no writes and admits no transaction. A producer takes
//! any free one of several locks; a transaction would have to name its keys.
//!
//! Memory is bounded: a few hundred bytes for each recently used queue of any depth.

mod check;
mod codec;
mod error;
mod frontier;
mod keys;
mod live;
mod model;
mod operations;
mod receipt;
mod rows;
mod service;
mod sweep;

mod visibility;

pub use check::{POLICY_PERMISSIONS, queue_name as check_queue_name};
pub use error::{Error, Result};
pub use lazurite_base::policies::StoredPolicy;
pub use model::*;
pub use operations::message::check_message;
pub use service::QueueService;
