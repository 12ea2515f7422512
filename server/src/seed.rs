//! `--seed`: imports a directory or an archive before the server says that it is ready.
//!
//! The import is that of `lazurite import`, by the same requests. They come over listeners of their own on this machine, which close
//! before anybody else is served: those of the server may speak HTTPS alone.

use crate::app::App;
use crate::commands::{Existing, seed as import};
use crate::connection::tls::Opening;
use crate::connection::{ConnectionThreads, Endpoint, serve};
use crate::service_kind::ServiceKind;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Imports what `path` holds into the first account. What is there stays as it is, so that a seed does nothing at the second start.
/// Sentences about what was done; the error is a sentence.
pub async fn seed(
    app: &Arc<App>,
    threads: &Arc<ConnectionThreads>,
    path: PathBuf,
) -> Result<Vec<String>, String> {
    let (account, key) = app.stores.accounts().first();
    let mut connection_string = format!("AccountName={account};AccountKey={key}");
    let (stop, stopped) = watch::channel(false);
    let mut serving = JoinSet::new();
    for service in ServiceKind::ALL {
        let cannot = |error| format!("cannot listen for the seed: {error}");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let title = service.title();
        let _ = write!(
            connection_string,
            ";{title}Endpoint=http://127.0.0.1:{port}/{account}"
        );
        let endpoint = Endpoint {
            service,
            listener,
            keep_alive: KEEP_ALIVE,
            opening: Opening::Plain,
        };
        let (app, threads) = (app.clone(), threads.clone());
        serving.spawn(serve(app, endpoint, threads, stopped.clone()));
    }
    let imported = tokio::task::spawn_blocking(move || run(&connection_string, &path)).await;
    let _ = stop.send(true);
    while serving.join_next().await.is_some() {}
    imported.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

fn run(connection_string: &str, path: &Path) -> Result<Vec<String>, String> {
    import(connection_string, path, Existing::Skip)
        .map_err(|error| format!("--seed {}: {error}", path.display()))
}
