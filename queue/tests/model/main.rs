//! The Queue service against plain models of the protocol, from one thread and from many.

mod browse;
mod concurrency;
mod cost;
mod held;
mod reference;
mod rules;
mod store;
mod walk;
