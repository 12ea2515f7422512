//! Well-behaved clients, whose rate and latencies are measured while others burden the server.

use std::time::Duration;

use lazurite_bench_common::{Outcome, Random};

use crate::client::{Account, Client, Error, Outgoing, Request, Service, Template};
use crate::load::{Driver, Expected, Limit, Observations, any, repeated};

/// The container that [`store`] creates.
pub(super) const CONTAINER: &str = "crowd";
/// The blob of a kibibyte that well-behaved clients get.
pub(super) const SMALL: &str = "small";
pub(super) const CONNECTIONS: usize = 16;

/// Stores what [`get`] reads.
pub(super) fn store(client: &Client) -> Result<(), Error> {
    client.create_container(CONTAINER)?;
    client.put_blob(CONTAINER, SMALL, &noise(1 << 10))
}

/// Gets a blob of a kibibyte on each of 16 connections, again and again for `time`.
pub(super) fn get(account: &Account, time: Duration) -> Outcome<Observations> {
    let mut driver = Driver::connect(account.address(Service::Blob).0, CONNECTIONS)?;
    let get = Request::new(Service::Blob, "GET", format!("/{CONTAINER}/{SMALL}"));
    let mut template = Template::new(account, get);
    let next = move |out: &mut Outgoing| {
        template.write(out, &[], b"");
        Some(Expected::status(200))
    };
    driver.run(&mut repeated(next, any), Limit::time(time))
}

/// Random bytes, the same each time.
pub(super) fn noise(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Random::new(1).fill(&mut content);
    content
}
