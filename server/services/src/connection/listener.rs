//! Listeners and connections: from accepting a socket through its requests to its end.

use crate::connection::head_stream::{HeadStream, HeaderNames};
use crate::connection::limits::Connections;
use crate::connection::reset::{Aborted, OnTcp, ResetOnDrop};
use crate::connection::send_deadline::SendDeadline;
use crate::connection::socket;
use crate::connection::threads::ConnectionThreads;
use crate::connection::wrong_scheme;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lazurite_protocol::service_kind::ServiceKind;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// The protocol with which a connection begins.
#[derive(Clone)]
pub enum Opening {
    Plain,
    Encrypted(TlsAcceptor),
    /// HTTP or HTTPS: the first byte of a TLS handshake begins no HTTP request.
    Either(TlsAcceptor),
}

/// Maximum number of bytes of a connection that hyper buffers: a target and headers of the allowed
/// sizes, and some more to determine which of them is too long.
const BUFFER_BYTES_MAX: usize = 160 * 1024;
/// The first byte of a TLS connection. Source: RFC 8446, section 5.1, `ContentType`.
const TLS_HANDSHAKE: u8 = 22;
/// Maximum duration of the TLS handshake.
const HANDSHAKE_SECONDS_MAX: u64 = 30;

/// Idle time after which a connection makes room for waiting ones.
const REST_MIN: Duration = Duration::from_secs(1);
/// Interval at which connections with half a head are looked for while the server stops.
const HALF_HEAD_STEP: Duration = Duration::from_millis(50);

/// Answers the requests of connections.
pub trait Server: Send + Sync + 'static {
    /// Counts and limits the connections that are open.
    fn connections(&self) -> &Arc<Connections>;

    /// The response to one request, errors included. `notes` has the facts of its head that hyper
    /// does not keep.
    fn respond<'a>(
        self: &'a Arc<Self>,
        client: Client,
        request: Request<Incoming>,
        notes: &'a HeaderNames,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// The bytes of the answer to a head that the HTTP library refuses with this status. The
    /// connection closes after it.
    fn refuse(&self, client: &Client, status: StatusCode) -> Vec<u8>;
}

/// A listener of a service, and how its connections are served.
pub struct Endpoint {
    pub service: ServiceKind,
    pub listener: TcpListener,
    /// Maximum time for which a connection may be idle between requests.
    pub keep_alive: Duration,
    /// Maximum time for which requests under way may continue once the server is asked to stop.
    pub drain: Duration,
    pub opening: Opening,
    /// Whether this port is for requests of the server to itself.
    pub is_own: bool,
}

/// Serves one service on one listener until `stop` becomes true, then lets requests under way end.
pub async fn serve<S: Server>(
    server: Arc<S>,
    endpoint: Endpoint,
    threads: Arc<ConnectionThreads>,
    mut stop: watch::Receiver<bool>,
) {
    let Endpoint {
        service,
        listener,
        keep_alive,
        drain,
        opening,
        is_own,
    } = endpoint;
    let (open, mut all_closed) = tokio::sync::mpsc::channel::<Infallible>(1);
    loop {
        let accepted = async {
            server.connections().room().await;
            listener.accept().await
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((_, peer)) if !server.connections().has_room_for(peer.ip()) => {
                tracing::debug!(service = service.title(), %peer, "has too many connections");
            }
            Ok((socket, peer)) => {
                let admitted = server.connections().admit(peer.ip());
                socket::prepare(&socket);
                let client = Client {
                    service,
                    peer,
                    secure: matches!(opening, Opening::Encrypted(_)),
                    is_own,
                    keep_alive,
                };
                let (server, opening, stop) = (server.clone(), opening.clone(), stop.clone());
                let open = open.clone();
                threads.spawn(socket, move |socket| async move {
                    match opening {
                        Opening::Plain => connection(server, client, Box::new(socket), stop).await,
                        // Boxed, so that the futures of plain connections stay small.
                        Opening::Encrypted(tls) => {
                            Box::pin(encrypted(server, client, socket, tls, stop)).await;
                        }
                        Opening::Either(tls) => {
                            Box::pin(either(server, client, socket, tls, stop)).await;
                        }
                    }
                    drop((open, admitted));
                });
            }
            Err(error) => {
                // Most likely the process is out of file handles: other connections may close
                // meanwhile.
                tracing::warn!(service = service.title(), %error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop((open, listener));
    let _ = tokio::time::timeout(drain, all_closed.recv()).await;
}

/// Returns once the server is asked to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The client of a connection, and how it connected.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    pub service: ServiceKind,
    pub peer: SocketAddr,
    pub secure: bool,
    /// The connection came to a port for the server's own requests. Other programs can connect
    /// there too: see [`is_own_request`](crate::own_requests::is_own_request).
    pub is_own: bool,
    keep_alive: Duration,
}

/// Serves HTTP or HTTPS, depending on the first byte from the client.
async fn either<S: Server>(
    server: Arc<S>,
    client: Client,
    socket: TcpStream,
    tls: TlsAcceptor,
    mut stop: watch::Receiver<bool>,
) {
    let mut crowding = server.connections().crowding();
    // A client that sends nothing makes room for others.
    let crowded = async {
        tokio::time::sleep(REST_MIN).await;
        let _ = crowding.changed().await;
    };
    let mut first = [0];
    let begun = tokio::select! {
        begun = tokio::time::timeout(client.keep_alive, socket.peek(&mut first)) => begun,
        () = stopped(&mut stop) => return,
        () = crowded => return,
    };
    match begun {
        Ok(Ok(1)) if first[0] == TLS_HANDSHAKE => {
            let client = Client {
                secure: true,
                ..client
            };
            encrypted(server, client, socket, tls, stop).await;
        }
        Ok(Ok(_)) => connection(server, client, Box::new(socket), stop).await,
        Ok(Err(_)) | Err(_) => {}
    }
}

async fn encrypted<S: Server>(
    server: Arc<S>,
    client: Client,
    socket: TcpStream,
    tls: TlsAcceptor,
    mut stop: watch::Receiver<bool>,
) {
    let patience = Duration::from_secs(HANDSHAKE_SECONDS_MAX);
    let shaking = async {
        if wrong_scheme::is_plain(&socket).await {
            wrong_scheme::refuse_plain(socket).await;
            return None;
        }
        Some(tls.accept(socket).await)
    };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(patience, shaking) => shaken,
        () = stopped(&mut stop) => return,
    };
    match shaken {
        Ok(None) => {}
        Ok(Some(Ok(socket))) => connection(server, client, Box::new(socket), stop).await,
        Ok(Some(Err(error))) => {
            let (service, peer) = (client.service.title(), client.peer);
            tracing::debug!(service, %peer, %error, "a TLS handshake failed");
        }
        Err(_) => {}
    }
}

/// The activity of a connection, for deciding whether it is idle.
struct Activity {
    opened: Instant,
    /// Number of requests whose responses have not begun.
    under_way: AtomicUsize,
    /// When the last response began, in milliseconds after `opened`.
    last_answer: AtomicU64,
}

impl Default for Activity {
    fn default() -> Activity {
        Activity {
            opened: Instant::now(),
            under_way: AtomicUsize::new(0),
            last_answer: AtomicU64::new(0),
        }
    }
}

impl Activity {
    fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self) {
        let milliseconds = self.opened.elapsed().as_millis() as u64;
        self.last_answer.store(milliseconds, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }

    /// The time since the last response began.
    fn rested(&self) -> Duration {
        let last = Duration::from_millis(self.last_answer.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(last)
    }
}

/// State that the requests of a connection share. Requests refer to it instead of the server, whose
/// reference count all connections would write to.
struct ConnectionState<S> {
    server: Arc<S>,
    client: Client,
    notes: HeaderNames,
    activity: Activity,
    /// Whether the connection will be closed with a reset.
    resets: Arc<AtomicBool>,
}

/// Answers a request. Error: the connection is to be reset instead.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn would keep its arguments twice, which each connection pays for"
)]
fn respond<S: Server>(
    state: Arc<ConnectionState<S>>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Body>, &'static str>> {
    async move {
        state.activity.begin();
        let answering = state.server.respond(state.client, request, &state.notes);
        let response = answering.await;
        state.activity.end();
        if response.extensions().get::<Aborted>().is_some() {
            state.resets.store(true, Ordering::Relaxed);
            return Err("reset as a fault asked for");
        }
        Ok(response)
    }
}

/// Returns once no request is under way and the client is within the head of the next one. hyper
/// would wait for the rest of the head, but while the server stops only requests with a whole head
/// get time to end.
async fn half_a_head(seen: &HeaderNames, activity: &Activity) {
    while !(activity.is_idle() && seen.is_within_head()) {
        tokio::time::sleep(HALF_HEAD_STEP).await;
    }
}

async fn connection<S: Server>(
    server: Arc<S>,
    client: Client,
    socket: Box<dyn OnTcp>,
    mut stop: watch::Receiver<bool>,
) {
    let Client { service, peer, .. } = client;
    let mut crowding = server.connections().crowding();
    let state = Arc::new(ConnectionState {
        server,
        client,
        notes: HeaderNames::default(),
        activity: Activity::default(),
        resets: Arc::default(),
    });
    let (seen, activity) = (&state.notes, &state.activity);
    let socket = ResetOnDrop::new(socket, state.resets.clone(), seen.clone());
    let refuse = |status| state.server.refuse(&state.client, status);
    let tap = HeadStream::new(SendDeadline::new(socket), seen.clone(), refuse);
    let answer = service_fn(|request: Request<Incoming>| {
        #[cfg(debug_assertions)]
        let what = format!("{} {}", request.method(), request.uri().path());
        let answering = respond(state.clone(), request);
        #[cfg(debug_assertions)]
        let answering = crate::connection::slow_handler::Measured::new(answering, what);
        answering
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(client.keep_alive)
        .max_buf_size(BUFFER_BYTES_MAX)
        .half_close(true)
        .serve_connection(TokioIo::new(tap), answer);
    tokio::pin!(connection);
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = stopped(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => break ended,
                    () = half_a_head(seen, activity) => return,
                }
            }
            Ok(()) = crowding.changed() => {
                // An idle client can connect again, but one that has just connected is about to
                // send a request.
                if activity.is_idle() && activity.rested() >= REST_MIN {
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    };
    if let Err(error) = ended {
        if error.is_parse() && seen.first_byte() == Some(TLS_HANDSHAKE) {
            wrong_scheme::note_tls(service.title(), peer);
        }
        tracing::debug!(service = service.title(), %peer, %error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_idle_once_all_its_requests_are_answered() {
        let activity = Activity::default();
        assert!(activity.is_idle());
        activity.begin();
        activity.begin();
        activity.end();
        assert!(!activity.is_idle(), "another request is under way");
        activity.end();
        assert!(activity.is_idle());
    }
}
