//! The services on ports of this machine, for work of the server itself before it is ready.
//!
//! The listeners are not those of the server, which may speak HTTPS alone, and they close before anybody else is served.

use crate::app::App;
use crate::connection::tls::Opening;
use crate::connection::{ConnectionThreads, Endpoint, serve};
use crate::service_kind::ServiceKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// An account, and the connection string of its services.
pub struct LocalAccount {
    pub name: String,
    pub connection_string: String,
}

/// Serves while `work` runs on a thread that may block. It is handed all accounts, the first one first. The error is a sentence.
pub async fn while_served<T: Send + 'static>(
    app: &Arc<App>,
    threads: &Arc<ConnectionThreads>,
    work: impl FnOnce(&[LocalAccount]) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (stop, stopped) = watch::channel(false);
    let mut serving = JoinSet::new();
    let mut ports = Vec::new();
    for service in ServiceKind::ALL {
        let cannot = |error| format!("cannot listen on this machine: {error}");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot)?;
        ports.push((service, listener.local_addr().map_err(cannot)?.port()));
        let endpoint = Endpoint {
            service,
            listener,
            keep_alive: KEEP_ALIVE,
            opening: Opening::Plain,
        };
        let (app, threads) = (app.clone(), threads.clone());
        serving.spawn(serve(app, endpoint, threads, stopped.clone()));
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
        let key = STANDARD.encode(keys.first()?);
        let mut connection_string = format!("AccountName={name};AccountKey={key}");
        for (service, port) in ports {
            let title = service.title();
            let _ = write!(
                connection_string,
                ";{title}Endpoint=http://127.0.0.1:{port}/{name}"
            );
        }
        Some(LocalAccount {
            name: name.to_owned(),
            connection_string,
        })
    };
    accounts.names().filter_map(account).collect()
}
