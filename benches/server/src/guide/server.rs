//! The server that the patterns run against: one that is up, one that is spawned, or one in this process.

use lazurite::{Lazurite, Store};
use lazurite_bench_common::Outcome;
use tempfile::TempDir;

use super::args::GuideArgs;
use crate::client::Account;
use crate::server::Server;

/// A server that is ended when dropped, unless it was there before.
pub(super) struct GuideServer {
    pub(super) account: Account,
    pub(super) description: String,
    _running: Running,
}

#[expect(dead_code, reason = "held until the end of the run")]
enum Running {
    Elsewhere,
    Spawned(Server, TempDir),
    Here(Store, TempDir),
}

impl GuideServer {
    pub(super) fn start(args: &GuideArgs) -> Outcome<GuideServer> {
        if let Some(connection_string) = &args.connection_string {
            let account = Account::parse(connection_string)?;
            let description = account.endpoint(crate::client::Service::Table).to_owned();
            return Ok(GuideServer {
                account,
                description,
                _running: Running::Elsewhere,
            });
        }
        let scratch = tempfile::tempdir()?;
        if let Some(binary) = &args.spawn {
            let server = Server::start(binary, &scratch.path().join("data"))?;
            return Ok(GuideServer {
                account: server.account(),
                description: "a server of its own process".into(),
                _running: Running::Spawned(server, scratch),
            });
        }
        GuideServer::in_process(scratch)
    }

    fn in_process(scratch: TempDir) -> Outcome<GuideServer> {
        let store = Lazurite::at(scratch.path().join("data")).start()?;
        Ok(GuideServer {
            account: Account::parse(&store.connection_string())?,
            description: "a server in this process".into(),
            _running: Running::Here(store, scratch),
        })
    }

    /// For tests.
    #[cfg(test)]
    pub(super) fn for_test() -> GuideServer {
        GuideServer::in_process(tempfile::tempdir().unwrap()).unwrap()
    }
}
