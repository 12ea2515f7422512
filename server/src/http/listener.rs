//! Listeners and connections, from the socket to one request after the other, and their end.

use super::carriers::Carriers;
use super::context::ServiceKind;
use super::head_case::{HeadNotes, HeadTap};
use super::send_deadline::SendDeadline;
use super::{App, answer, lookout};
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// What the library may hold of a connection's bytes: a target, the headers, and room to tell which of them is too long.
const BUFFER_BYTES_MAX: usize = 160 * 1024;
/// How long a client may take to agree on encryption.
const HANDSHAKE_SECONDS_MAX: u64 = 30;
/// How long requests under way may take to end once the server is asked to stop.
const DRAIN_SECONDS_MAX: u64 = 3;

/// Where a service listens, and how.
pub struct Endpoint {
    pub service: ServiceKind,
    pub listener: TcpListener,
    /// How long a connection may be idle between requests.
    pub keep_alive: Duration,
    /// HTTPS, if that is what is spoken.
    pub tls: Option<TlsAcceptor>,
}

/// Serves one service on one listener until `stop` turns true, then lets requests under way end.
pub async fn serve(
    app: Arc<App>,
    endpoint: Endpoint,
    carriers: Arc<Carriers>,
    mut stop: watch::Receiver<bool>,
) {
    let Endpoint {
        service,
        listener,
        keep_alive,
        tls,
    } = endpoint;
    let (open, mut all_closed) = tokio::sync::mpsc::channel::<Infallible>(1);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((socket, peer)) => {
                let _ = socket.set_nodelay(true);
                let client = Client {
                    service,
                    peer,
                    secure: tls.is_some(),
                    keep_alive,
                };
                let (app, tls, stop) = (app.clone(), tls.clone(), stop.clone());
                let open = open.clone();
                carriers.carry(socket, move |socket| async move {
                    match tls {
                        None => connection(app, client, socket, stop).await,
                        Some(tls) => encrypted(app, client, socket, tls, stop).await,
                    }
                    drop(open);
                });
            }
            Err(error) => {
                // Out of file handles, most likely: others may close theirs meanwhile.
                tracing::warn!(service = service.title(), %error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop((open, listener));
    let _ = tokio::time::timeout(Duration::from_secs(DRAIN_SECONDS_MAX), all_closed.recv()).await;
}

/// Returns once the server is asked to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    pub service: ServiceKind,
    pub peer: SocketAddr,
    pub secure: bool,
    keep_alive: Duration,
}

async fn encrypted(
    app: Arc<App>,
    client: Client,
    socket: TcpStream,
    tls: TlsAcceptor,
    stop: watch::Receiver<bool>,
) {
    let patience = Duration::from_secs(HANDSHAKE_SECONDS_MAX);
    match tokio::time::timeout(patience, tls.accept(socket)).await {
        Ok(Ok(socket)) => connection(app, client, socket, stop).await,
        Ok(Err(error)) => {
            let (service, peer) = (client.service.title(), client.peer);
            tracing::debug!(service, %peer, %error, "a TLS handshake failed");
        }
        Err(_) => {}
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    app: Arc<App>,
    client: Client,
    socket: S,
    mut stop: watch::Receiver<bool>,
) {
    let Client { service, peer, .. } = client;
    let notes = HeadNotes::default();
    let tap = HeadTap::new(SendDeadline::new(socket), notes.clone());
    let answer = service_fn(move |request: Request<Incoming>| {
        let (app, notes) = (app.clone(), notes.clone());
        #[cfg(debug_assertions)]
        let what = format!("{} {}", request.method(), request.uri().path());
        let answering = async move {
            lookout::begun();
            let answer = answer(app, client, request, notes).await;
            lookout::answered();
            Ok::<_, Infallible>(answer)
        };
        #[cfg(debug_assertions)]
        let answering = super::held_thread::Measured::new(answering, what);
        answering
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(client.keep_alive)
        .max_buf_size(BUFFER_BYTES_MAX)
        .half_close(true)
        .serve_connection(TokioIo::new(tap), answer);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(service = service.title(), %peer, %error, "a connection ended early");
    }
}
