//! ConnectionThreads: the threads that serve connections. A connection stays on its thread.
//!
//! Serving a request therefore wakes no other thread: waking one would often take longer than the
//! request. Requests that arrive together are served together. Work that may take long, or wait,
//! runs elsewhere ([`crate::connection::blocking_pool`]), so that a connection waits for its
//! neighbours only while they read or write a few rows.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

/// Minimum number of blocking threads of one connection thread: long work of one connection must
/// leave threads for its neighbours.
const BLOCKING_THREADS_MIN: usize = 16;

/// The threads that serve connections. They end when this value is dropped.
#[derive(Debug)]
pub struct ConnectionThreads {
    threads: Vec<ConnectionThread>,
    /// Closed when the last thread has ended.
    ended: Receiver<Infallible>,
}

#[derive(Debug)]
struct ConnectionThread {
    runtime: Handle,
    /// Number of connections that the thread serves.
    load: Arc<AtomicUsize>,
    /// Its drop ends the thread.
    _end: oneshot::Sender<()>,
}

impl ConnectionThreads {
    /// Starts `threads` threads, which together have at least `blocking_threads` others for long
    /// work. Errors: those of the operating system if it has no more threads.
    pub fn start(threads: usize, blocking_threads: usize) -> io::Result<ConnectionThreads> {
        let blocking_threads = blocking_threads.div_ceil(threads).max(BLOCKING_THREADS_MIN);
        let (running, ended) = channel(1);
        let threads: io::Result<_> = (0..threads)
            .map(|number| ConnectionThread::start(number, blocking_threads, running.clone()))
            .collect();
        let threads = threads?;
        Ok(ConnectionThreads { threads, ended })
    }

    /// Ends the threads, which cuts off their requests. Waits at most `patience` for that.
    pub async fn close(mut self, patience: Duration) {
        self.threads.clear();
        let _ = tokio::time::timeout(patience, self.ended.recv()).await;
    }

    /// Serves a connection on the thread with the fewest connections.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(
        &self,
        socket: TcpStream,
        serve: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) {
        let load = |thread: &&ConnectionThread| thread.load.load(Ordering::Relaxed);
        let least = self.threads.iter().min_by_key(load);
        least.expect("there is a thread").spawn(socket, serve);
    }
}

impl ConnectionThread {
    fn start(
        number: usize,
        blocking_threads: usize,
        running: Sender<Infallible>,
    ) -> io::Result<ConnectionThread> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(blocking_threads)
            .build()?;
        let handle = runtime.handle().clone();
        let (sender, end) = oneshot::channel::<()>();
        let run = move || {
            let _ = runtime.block_on(end);
            // Requests still running after their time to end are cut off.
            runtime.shutdown_background();
            drop(running);
        };
        std::thread::Builder::new()
            .name(format!("connections {number}"))
            .spawn(run)?;
        Ok(ConnectionThread {
            runtime: handle,
            load: Arc::default(),
            _end: sender,
        })
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(
        &self,
        socket: TcpStream,
        serve: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) {
        let guard = LoadGuard::take(&self.load);
        // Registers the socket with the runtime of the thread that serves it.
        let handed_over = socket.into_std();
        self.runtime.spawn(async move {
            match handed_over.and_then(TcpStream::from_std) {
                Ok(socket) => serve(socket).await,
                Err(error) => tracing::warn!(%error, "cannot serve a connection"),
            }
            drop(guard);
        });
    }
}

/// Drop guard: counts a connection among those of a thread.
struct LoadGuard(Arc<AtomicUsize>);

impl LoadGuard {
    fn take(load: &Arc<AtomicUsize>) -> LoadGuard {
        load.fetch_add(1, Ordering::Relaxed);
        LoadGuard(load.clone())
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    /// Connects a client, which `threads` serves until the client closes the connection. Sends the
    /// name of its thread to `names`, then returns the client.
    async fn connect(
        threads: &ConnectionThreads,
        listener: &TcpListener,
        names: &mpsc::Sender<String>,
    ) -> TcpStream {
        let client = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (socket, _) = listener.accept().await.unwrap();
        let sender = names.clone();
        threads.spawn(socket, move |mut socket| async move {
            let name = std::thread::current().name().unwrap().to_owned();
            sender.send(name).await.unwrap();
            socket.write_all(b"hello").await.unwrap();
            let _ = socket.read(&mut [0]).await;
        });
        let mut client = client.unwrap();
        client.read_exact(&mut [0; 5]).await.unwrap();
        client
    }

    #[tokio::test]
    async fn connections_go_to_the_thread_that_has_the_fewest_and_stay_there() {
        let threads = ConnectionThreads::start(3, 3).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (sender, mut receiver) = mpsc::channel(8);
        let mut clients = Vec::new();
        for number in 0..6 {
            clients.push(connect(&threads, &listener, &sender).await);
            assert_eq!(
                receiver.recv().await.unwrap(),
                format!("connections {}", number % 3)
            );
        }
        let loads = || {
            let load = |thread: &ConnectionThread| thread.load.load(Ordering::Relaxed);
            threads.threads.iter().map(load).collect::<Vec<_>>()
        };
        assert_eq!(loads(), [2, 2, 2]);
        drop(clients.remove(1));
        while loads() != [2, 1, 2] {
            tokio::task::yield_now().await;
        }
        let _client = connect(&threads, &listener, &sender).await;
        assert_eq!(receiver.recv().await.unwrap(), "connections 1");
    }
}
