//! The services on private ports of this machine, for the server's own requests: before the server
//! is ready, and for exports and imports over HTTP.
//!
//! These listeners are separate from the server's, which may speak only HTTPS, and close when the
//! work ends.

use crate::app::App;
use crate::connection::{ConnectionThreads, Endpoint, Opening};
use crate::own_requests::{OWN_SECRET, SECRET};
use crate::pipeline;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::accounts::name_of_fork;
use lazurite_protocol::service_kind::ServiceKind;
use std::fmt::Write;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The work was ended because the server is stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopping;

const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Rarely used up: when the work ends, it has no request under way.
const DRAIN: Duration = Duration::from_secs(3);

/// An account and the ports on which this server serves it.
pub struct LocalAccount {
    pub name: String,
    key: String,
    ports: Vec<(ServiceKind, u16)>,
}

impl LocalAccount {
    pub fn connection_string(&self) -> String {
        self.connection_string_as(&self.name)
    }

    /// The connection string of a fork of the account.
    pub fn connection_string_in(&self, fork: &str) -> String {
        self.connection_string_as(&name_of_fork(&self.name, fork))
    }

    fn connection_string_as(&self, name: &str) -> String {
        let (key, secret) = (&self.key, &*SECRET);
        let mut text = format!("AccountName={name};AccountKey={key};{OWN_SECRET}={secret}");
        for (service, port) in &self.ports {
            let title = service.title();
            let _ = write!(text, ";{title}Endpoint=http://127.0.0.1:{port}/{name}");
        }
        text
    }
}

/// The services of the running server. Holding this does not keep the server alive.
#[derive(Clone)]
pub struct LocalServices {
    app: Weak<App>,
    threads: Weak<ConnectionThreads>,
    stopped: watch::Receiver<bool>,
}

impl LocalServices {
    /// `stopped` becomes true when the server is asked to stop.
    pub fn of(
        app: &Arc<App>,
        threads: &Arc<ConnectionThreads>,
        stopped: watch::Receiver<bool>,
    ) -> LocalServices {
        LocalServices {
            app: Arc::downgrade(app),
            threads: Arc::downgrade(threads),
            stopped,
        }
    }

    /// Like [`while_served`]. When the server stops or the future is dropped, the listeners close,
    /// so that the next request of the work fails.
    pub async fn while_served<T: Send + 'static, E: From<String> + Send + 'static>(
        mut self,
        work: impl FnOnce(&[LocalAccount]) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<T, E>, Stopping> {
        let (Some(app), Some(threads)) = (self.app.upgrade(), self.threads.upgrade()) else {
            return Err(Stopping);
        };
        tokio::select! {
            done = while_served(&app, &threads, work) => Ok(done),
            _ = self.stopped.wait_for(|stopped| *stopped) => Err(Stopping),
        }
    }
}

/// Serves while `work` runs on a thread that may block. `work` gets all accounts, in order. Error:
/// that of the work, or a sentence about the listeners.
pub async fn while_served<T: Send + 'static, E: From<String> + Send + 'static>(
    app: &Arc<App>,
    threads: &Arc<ConnectionThreads>,
    work: impl FnOnce(&[LocalAccount]) -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let (stop, stopped) = watch::channel(false);
    let mut serving = JoinSet::new();
    let mut ports = Vec::new();
    for service in ServiceKind::ALL {
        let cannot = |error| E::from(format!("cannot listen on this machine: {error}"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot)?;
        ports.push((service, listener.local_addr().map_err(cannot)?.port()));
        let endpoint = Endpoint {
            service,
            listener,
            keep_alive: KEEP_ALIVE,
            drain: DRAIN,
            opening: Opening::Plain,
            is_own: true,
        };
        pipeline::serve_in(
            app,
            &mut serving,
            endpoint,
            threads.clone(),
            stopped.clone(),
        );
    }
    let accounts = accounts(app, &ports);
    let done = tokio::task::spawn_blocking(move || work(&accounts)).await;
    let _ = stop.send(true);
    while serving.join_next().await.is_some() {}
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

fn accounts(app: &App, ports: &[(ServiceKind, u16)]) -> Vec<LocalAccount> {
    let accounts = app.stores.accounts();
    let account = |name: &str| {
        let keys = accounts.keys(name);
        Some(LocalAccount {
            name: name.to_owned(),
            key: STANDARD.encode(keys.first()?),
            ports: ports.to_vec(),
        })
    };
    accounts.names().filter_map(account).collect()
}
