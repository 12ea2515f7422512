//! Options of the sockets of this server: those of its clients, and those to servers that copies
//! are fetched from.

use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;
use tokio::net::TcpStream;

/// Time without data after which the other end of a connection is probed.
pub const PROBED_AFTER: Duration = Duration::from_secs(60);
/// Time to wait for an answer to a probe.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(15);
/// Number of unanswered probes in a row after which the connection is closed.
pub const PROBES_MAX: u32 = 4;

/// Sets a socket to send written bytes at once, and to probe a silent client: a client whose
/// machine is gone, or whose network has forgotten the connection, is noticed after two minutes. If
/// that fails, the client is served nevertheless.
pub fn prepare(socket: &TcpStream) {
    let probes = TcpKeepalive::new()
        .with_time(PROBED_AFTER)
        .with_interval(PROBE_INTERVAL)
        .with_retries(PROBES_MAX);
    let set = socket
        .set_nodelay(true)
        .and_then(|()| SockRef::from(socket).set_tcp_keepalive(&probes));
    if let Err(error) = set {
        tracing::debug!(%error, "cannot set the options of a socket");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_prepared_socket_probes_its_silent_client() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (_client, accepted) = tokio::join!(client, listener.accept());
        let (socket, _) = accepted.unwrap();
        prepare(&socket);
        let options = SockRef::from(&socket);
        assert!(options.keepalive().unwrap() && socket.nodelay().unwrap());
        assert_eq!(options.tcp_keepalive_time().unwrap(), PROBED_AFTER);
        assert_eq!(options.tcp_keepalive_interval().unwrap(), PROBE_INTERVAL);
        assert_eq!(options.tcp_keepalive_retries().unwrap(), PROBES_MAX);
    }
}
