//! The other servers that copies may come from, and their permitted addresses. Allowing a name does
//! not allow every address it may resolve to: addresses are checked when the name is resolved, and
//! the connection uses only addresses that passed. So a name that later resolves differently (DNS
//! rebinding) gains nothing.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

/// The prefix of a host that may have any address.
const PRIVATE: &str = "private:";

/// The hosts of `--allow-copy-from`.
#[derive(Debug, Default)]
pub struct CopyAllowList {
    names: Vec<AllowedName>,
    addresses: Vec<IpAddr>,
}

#[derive(Debug)]
struct AllowedName {
    name: String,
    /// Whether the host may have any address, private ones included.
    private: bool,
}

impl CopyAllowList {
    /// Each host is an address, a name, or `private:` and a name.
    pub fn new(hosts: &[String]) -> CopyAllowList {
        let mut reach = CopyAllowList::default();
        for host in hosts {
            let (name, private) = match host.strip_prefix(PRIVATE) {
                Some(name) => (name, true),
                None => (host.as_str(), false),
            };
            match address_of(name) {
                Some(address) => reach.addresses.push(address),
                None => reach.names.push(AllowedName {
                    name: name.to_ascii_lowercase(),
                    private,
                }),
            }
        }
        reach
    }

    /// Whether the list has this host of a URL. The addresses of a name are checked later.
    pub fn names(&self, host: &str) -> bool {
        match address_of(host) {
            Some(address) => self.addresses.contains(&address),
            None => self.allowed(host).is_some(),
        }
    }

    fn allowed(&self, host: &str) -> Option<&AllowedName> {
        let same = |allowed: &&AllowedName| allowed.name.eq_ignore_ascii_case(host);
        self.names.iter().find(same)
    }

    /// Whether requests to the host may go to this address.
    fn covers(&self, host: &str, address: IpAddr) -> bool {
        let private = self.allowed(host).is_some_and(|allowed| allowed.private);
        private || is_public(address) || self.addresses.contains(&address.to_canonical())
    }
}

/// Parses a host that is an IP address; `None` for a name. IPv6 addresses may be in brackets.
fn address_of(host: &str) -> Option<IpAddr> {
    let inner = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address: IpAddr = inner.unwrap_or(host).parse().ok()?;
    Some(address.to_canonical())
}

/// True for the usual names and addresses of this machine. Other loopback addresses may belong to
/// other servers.
pub fn is_this_machine(host: &str) -> bool {
    let usual = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    let is_usual = |address| usual.contains(&address);
    let host_lower = host.to_ascii_lowercase();
    let is_usual_name = matches!(&*host_lower, "localhost" | "host.docker.internal");
    is_usual_name || host_lower.ends_with(".localhost") || address_of(host).is_some_and(is_usual)
}

/// True if an address is outside this machine and its networks, judged by the address alone.
/// Source: the IANA special-purpose address registries (RFC 6890).
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let shared = first == 100 && second & 0xc0 == 64;
    let assignments = (first, second, third) == (192, 0, 0);
    let benchmarks = first == 198 && second & 0xfe == 18;
    let inside = address.is_private() || address.is_loopback() || address.is_link_local();
    let unassigned =
        first == 0 || first >= 240 || address.is_multicast() || address.is_documentation();
    !(inside || unassigned || shared || assignments || benchmarks)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Addresses that embed an IPv4 address: translated (RFC 6052) and 6to4 (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        // Excludes Teredo, documentation and other special blocks.
        [0x2001, second, ..] => second >= 0x0200 && second != 0x0db8,
        [0x3fff, second, ..] => second >= 0x1000,
        // Global unicast (2000::/3). Everything else is loopback, local, multicast or unassigned.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// None of a name's addresses may be contacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateAddress;

impl fmt::Display for PrivateAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "its name leads to no public address, and --allow-copy-from names neither the address nor private:HOST",
        )
    }
}

impl std::error::Error for PrivateAddress {}

/// Finds the addresses of a name.
pub type Lookup = dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>
    + Send
    + Sync;

/// Looks addresses up as the system does.
pub fn system_lookup() -> Arc<Lookup> {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.collect())
        })
    })
}

/// Resolves names to the addresses that may be contacted.
#[derive(Clone)]
pub struct Resolver {
    pub reach: Arc<CopyAllowList>,
    pub lookup: Arc<Lookup>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("reach", &self.reach)
            .finish_non_exhaustive()
    }
}

impl Resolver {
    /// Resolves a host to its permitted addresses, with port 0. An IP literal is returned
    /// unchecked: `CopyAllowList::names` must have checked it. If every address is forbidden, the
    /// I/O error wraps [`PrivateAddress`].
    pub async fn addresses(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        if let Some(address) = address_of(host) {
            return Ok(vec![SocketAddr::new(address, 0)]);
        }
        let mut found = (self.lookup)(host.to_owned()).await?;
        let any = !found.is_empty();
        found.retain(|socket| self.reach.covers(host, socket.ip()));
        if found.is_empty() && any {
            let denied = io::ErrorKind::PermissionDenied;
            return Err(io::Error::new(denied, PrivateAddress));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_inside_are_not_public() {
        let inside = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
        ];
        for address in inside {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        let outside = [
            "1.1.1.1",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::",
            "2001:4860::8888",
            "2606:4700::1111",
        ];
        for address in outside {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn hosts_are_compared_as_names_or_as_addresses() {
        let hosts = [
            "Example.org",
            "private:inner",
            "127.0.0.1",
            "[::1]",
            "fd00::7",
        ];
        let reach = CopyAllowList::new(&hosts.map(str::to_owned));
        for host in [
            "example.ORG",
            "INNER",
            "127.0.0.1",
            "[::ffff:127.0.0.1]",
            "[::1]",
            "[fd00:0::7]",
        ] {
            assert!(reach.names(host), "{host}");
        }
        for host in [
            "example.org.",
            "a.example.org",
            "private:inner",
            "127.0.0.2",
            "2130706433",
            "[::2]",
        ] {
            assert!(!reach.names(host), "{host}");
        }
    }

    #[test]
    fn inner_addresses_are_covered_if_they_or_their_name_are_listed() {
        let hosts = ["outer", "private:inner", "10.0.0.7"];
        let reach = CopyAllowList::new(&hosts.map(str::to_owned));
        let covers = |host: &str, address: &str| reach.covers(host, address.parse().unwrap());
        assert!(covers("outer", "1.1.1.1"));
        assert!(covers("outer", "10.0.0.7"));
        assert!(covers("outer", "::ffff:10.0.0.7"));
        assert!(!covers("outer", "10.0.0.8"));
        assert!(!covers("outer", "::ffff:10.0.0.8"));
        assert!(covers("INNER", "10.0.0.8"));
        assert!(covers("inner", "::1"));
    }
}
