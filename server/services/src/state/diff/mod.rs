//! Compares two stores, each of which is the current one, a fork or a snapshot.
//!
//! Both are copied by hard links first, like forks, so that a comparison sees each at one moment
//! while requests continue. The copies are read side by side in key order, through the operations
//! of the services. Only data that clients store is compared. ETags, times of the last change,
//! leases, properties of the services, and deleted data that can be restored are left out.

mod blobs;
mod changes;
mod queues;
mod tables;
mod walk;

pub use changes::{Change, Changes, Kind, LIMIT_DEFAULT, LIMIT_MAX, Shown};

use crate::connection::on_blocking_pool;
use crate::services::Services;
use crate::state::forks::fork_not_found;
use crate::state::settings::ForkSource;
use crate::state::store::Store;
use crate::state::stores::Stores;
use crate::state::stores_file::StoresFile;
use changes::{Fact, Resource};
use lazurite_base::policies::StoredPolicy;
use lazurite_protocol::response::error::{Failure, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use walk::Pair;

/// A comparison that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedDiff {
    /// The older side; `None`: the source of the fork, or the current store if there is no fork.
    pub from: Option<ForkSource>,
    /// The newer side; `None`: the fork, or the current store if there is no fork.
    pub to: Option<ForkSource>,
    pub fork: Option<String>,
    /// Maximum number of changes to list.
    pub limit: usize,
    /// The names of the accounts to compare.
    pub accounts: Vec<String>,
}

/// A side of a comparison.
#[derive(Debug)]
enum Side {
    Source(ForkSource),
    Fork(Arc<Store>),
}

/// A copy of a store. Its drop removes it.
struct Copied {
    stores: Arc<Stores>,
    store: Arc<Store>,
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.store.services.ending().abandon();
        self.stores.directories.remove(self.store.number);
    }
}

impl Stores {
    /// Compares two stores. Errors: `SnapshotNotFound`; `ForkNotFound`; `503` while the server
    /// stops.
    pub async fn diff(self: &Arc<Stores>, wanted: WantedDiff) -> Result<Changes> {
        // One comparison at a time, because each opens two stores.
        let turn = self.comparing.clone().lock_owned().await;
        let sides = self.sides(&wanted)?;
        let [old, new] = self
            .exclusively(move |stores, file| {
                let [old, new] = sides;
                Ok([stores.copied(file, &old)?, stores.copied(file, &new)?])
            })
            .await?;
        on_blocking_pool(move || {
            let _turn = turn;
            let mut changes = Changes::new(wanted.limit);
            for account in &wanted.accounts {
                let comparison = Comparison {
                    old: &old.store.services,
                    new: &new.store.services,
                    account,
                    is_closing: &old.stores.is_closing,
                };
                comparison.blobs(&mut changes)?;
                comparison.queues(&mut changes)?;
                comparison.tables(&mut changes)?;
            }
            Ok(changes)
        })
        .await
    }

    /// The older and the newer side. Error: `ForkNotFound`.
    fn sides(&self, wanted: &WantedDiff) -> Result<[Side; 2]> {
        let given = |side: &Option<ForkSource>| side.clone().map(Side::Source);
        let now = Side::Source(ForkSource::Now);
        let Some(name) = &wanted.fork else {
            let present = Side::Source(ForkSource::Now);
            return Ok([
                given(&wanted.from).unwrap_or(now),
                given(&wanted.to).unwrap_or(present),
            ]);
        };
        let (store, source) = self
            .forks
            .with_source(name)
            .ok_or_else(|| fork_not_found(name))?;
        Ok([
            given(&wanted.from).unwrap_or(Side::Source(source)),
            given(&wanted.to).unwrap_or(Side::Fork(store)),
        ])
    }

    /// Copies a side and opens the copy with the settings of a fork.
    fn copied(self: &Arc<Stores>, file: &StoresFile, side: &Side) -> Result<Copied> {
        let directories = &self.directories;
        let number = directories.next_number(file)?;
        let made = match side {
            Side::Source(source) => self.copy_for_fork(file, source, number),
            Side::Fork(store) => Ok(store.services.checkpoint(&directories.path(number))?),
        };
        let opened = made
            .and_then(|()| Ok(self.opener.open_fork(directories, number)?))
            .and_then(|db| self.services_on(db, number, None));
        let store = opened.inspect_err(|_| directories.remove(number))?;
        Ok(Copied {
            stores: self.clone(),
            store,
        })
    }
}

/// The services of two stores for the comparison of one account.
struct Comparison<'a> {
    old: &'a Services,
    new: &'a Services,
    account: &'a str,
    is_closing: &'a AtomicBool,
}

impl Comparison<'_> {
    /// Fails if the server is stopping, to end a long comparison.
    fn check(&self) -> Result<()> {
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(Failure::busy("The server stops."));
        }
        Ok(())
    }

    /// Adds the differences between a resource's facts, if there are any.
    fn note(
        &self,
        changes: &mut Changes,
        kind: &'static str,
        names: Vec<(&'static str, String)>,
        facts: Pair<Vec<Fact>>,
    ) {
        let resource = Resource {
            account: self.account.to_owned(),
            kind,
            names,
        };
        if let Some(change) = Change::of(resource, facts) {
            changes.add(change);
        }
    }
}

impl<T> Pair<T> {
    /// Applies `facts` to each side that is present, with the services of its store.
    fn facts(
        &self,
        comparison: &Comparison<'_>,
        facts: impl Fn(&Services, &T) -> Result<Vec<Fact>>,
    ) -> Result<Pair<Vec<Fact>>> {
        Ok(match self {
            Pair::Old(item) => Pair::Old(facts(comparison.old, item)?),
            Pair::New(item) => Pair::New(facts(comparison.new, item)?),
            Pair::Both(old, new) => {
                Pair::Both(facts(comparison.old, old)?, facts(comparison.new, new)?)
            }
        })
    }
}

/// A fact for each stored access policy, named by its id.
fn policies(all: &[StoredPolicy]) -> impl Iterator<Item = Fact> + '_ {
    all.iter().map(|policy| {
        let permission = policy.permission.as_deref().unwrap_or("-");
        let (start, expiry) = (shown_time(policy.start), shown_time(policy.expiry));
        let value = format!("{permission} from {start} to {expiry}");
        Fact::new("policies", &policy.id, value)
    })
}

fn shown_time(time: Option<SystemTime>) -> String {
    time.map_or_else(|| "-".to_owned(), lazurite_protocol::date::iso8601)
}
