//! A small client of the three services, with the operations that the benchmarks need.

mod account;
mod answer;
mod back_off;
mod blob;
mod error;
mod http;
mod queue;
mod request;
mod shared_key;
mod table;
mod template;
mod xml;

pub(crate) use account::{Account, Service};
pub(crate) use answer::{Answer, Reader};
pub(crate) use blob::ListBlobs;
pub(crate) use error::Error;
pub(crate) use http::{Client, Observer, Outage, SasRange};
pub(crate) use queue::Message;
pub(crate) use request::{Request, escape_path};
pub(crate) use table::{Change, Continuation, Entity, Query, Write, batch_statuses};
pub(crate) use template::{Outgoing, Template};
