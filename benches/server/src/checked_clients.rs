//! Well-behaved clients, whose rate and latencies are measured while others burden the server.

use std::net::SocketAddr;
use std::time::Duration;

use lazurite_bench_common::{Outcome, Random};

use crate::client::{Account, Client, Error, Outgoing, Request, Service, Template};
use crate::load::{Driver, Expected, Limit, Load, Observations};
use crate::server::Server;

/// The container that [`store`] creates.
pub(crate) const CONTAINER: &str = "crowd";
/// The blob of a kibibyte that well-behaved clients get.
pub(crate) const SMALL: &str = "small";
const SMALL_BYTES: usize = 1 << 10;
/// Connections of the well-behaved clients.
pub(crate) const CONNECTIONS: usize = 16;

/// Stores what [`get`] reads.
pub(crate) fn store(client: &Client) -> Result<(), Error> {
    client.create_container(CONTAINER)?;
    client.put_blob(CONTAINER, SMALL, &noise(SMALL_BYTES))
}

/// Gets a blob of a kibibyte on each of 16 connections, again and again for `time`.
pub(crate) fn get(server: &Server, time: Duration) -> Outcome<Observations> {
    let account = server.account();
    let address = address(&account)?.to_string();
    let mut driver = Driver::connect(&address, CONNECTIONS)?;
    let get = Request::new(Service::Blob, "GET", format!("/{CONTAINER}/{SMALL}"));
    let mut load = Get(Template::new(&account, get));
    let observed = driver.run(&mut load, Limit::time(time))?;
    for wrong in &observed.wrong {
        eprintln!("  mismatch: {wrong}");
    }
    Ok(observed)
}

/// Requests per second.
pub(crate) fn rate(observed: &Observations) -> f64 {
    observed.count(0) as f64 / observed.elapsed.as_secs_f64().max(1e-3)
}

/// Where the Blob service of `account` listens.
pub(crate) fn address(account: &Account) -> Outcome<SocketAddr> {
    let endpoint = account.endpoint(Service::Blob);
    let rest = endpoint.strip_prefix("http://").unwrap_or(endpoint);
    let host = rest.split('/').next().unwrap_or_default();
    Ok(host.parse()?)
}

/// Random bytes, the same each time.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Random::new(1).fill(&mut content);
    content
}

struct Get(Template);

impl Load for Get {
    fn next(&mut self, _connection: usize, out: &mut Outgoing) -> Option<Expected> {
        self.0.write(out, &[], b"");
        Some(Expected::status(200))
    }
}
