//! Ordinary clients whose rate and latencies are measured while others do what hurts.

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::{Account, Client, Error, Outgoing, Request, Service, Template};
use crate::load::{Driver, Expected, Limit, Load, Met};
use crate::random::Random;
use crate::report::Outcome;
use crate::server::Server;

/// The container that [`store`] creates.
pub(crate) const CONTAINER: &str = "crowd";
/// The blob of a kibibyte that ordinary clients get.
pub(crate) const SMALL: &str = "small";
const SMALL_BYTES: usize = 1 << 10;
const CONNECTIONS: usize = 16;

/// Stores what [`get`] reads.
pub(crate) fn store(client: &Client) -> Result<(), Error> {
    client.create_container(CONTAINER)?;
    client.put_blob(CONTAINER, SMALL, &noise(SMALL_BYTES))
}

/// Gets a blob of a kibibyte on each of 16 connections, again and again for `time`.
pub(crate) fn get(server: &Server, time: Duration) -> Outcome<Met> {
    let account = server.account();
    let address = address(&account)?.to_string();
    let mut driver = Driver::connect(&address, CONNECTIONS)?;
    let get = Request::new(Service::Blob, "GET", format!("/{CONTAINER}/{SMALL}"));
    let mut load = Get(Template::new(&account, get));
    let met = driver.run(&mut load, Limit::time(time))?;
    for wrong in &met.wrong {
        eprintln!("  mismatch: {wrong}");
    }
    Ok(met)
}

/// Requests per second.
pub(crate) fn rate(met: &Met) -> f64 {
    met.count(0) as f64 / met.elapsed.as_secs_f64().max(1e-3)
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
