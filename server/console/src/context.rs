//! The state that every page receives.

use crate::edits::Edits;
use crate::guesses::Guesses;
use crate::jobs::Jobs;
use lazurite_advisor::Advisor;
use lazurite_mover::Transfers;
use lazurite_protocol::accounts::{Accounts, FORK_SEPARATOR};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::clock::{self, Clock};
use lazurite_services::pages::{Address, Addresses};
use lazurite_services::requests::{Record, Ring};
use lazurite_services::services::Services;
use lazurite_services::state::{Stores, fork_not_found};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The settings of the console, from the flags.
#[derive(Default)]
pub struct Settings {
    /// Whether there is a console. The pages for programs are served anyway.
    pub is_on: bool,
    /// The password of all visitors. Without one, only programs on this machine are served.
    pub password: Option<String>,
    /// Host names that requests may use, besides names that can only lead to this machine.
    pub allowed_hosts: Vec<String>,
    /// The data directory; `None` for a store in memory.
    pub directory: Option<PathBuf>,
    /// The value of `--durability`, for readers.
    pub durability: &'static str,
    /// Whether `/_lazurite/identity` issues tokens.
    pub accepts_bearer_tokens: bool,
}

/// The state of the router.
pub struct Console {
    pub(super) stores: Arc<Stores>,
    pub(super) advisor: Arc<Advisor>,
    pub(super) requests: Arc<Ring>,
    pub(super) edits: Edits,
    pub(super) jobs: Arc<Jobs>,
    pub(super) settings: Settings,
    pub(super) started: Instant,
    pub(super) guesses: Guesses,
    /// Proves that a write comes from a page of this console. Random, and constant while the
    /// process lives.
    pub(super) token: String,
    pub(super) addresses: Addresses,
    transfers: OnceLock<Transfers>,
    pub(super) is_closing: AtomicBool,
}

impl Console {
    /// Error: the system provides no random numbers.
    pub fn new(
        stores: Arc<Stores>,
        advisor: Arc<Advisor>,
        requests: Arc<Ring>,
        addresses: Addresses,
        settings: Settings,
    ) -> std::result::Result<Console, String> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| format!("no random numbers: {error}"))?;
        Ok(Console {
            stores,
            advisor,
            requests,
            edits: Edits::default(),
            jobs: Arc::default(),
            settings,
            guesses: Guesses::default(),
            started: Instant::now(),
            token: format!("{:032x}", u128::from_le_bytes(random)),
            addresses,
            transfers: OnceLock::new(),
            is_closing: AtomicBool::new(false),
        })
    }

    /// Enables exports and imports, just before the services are served.
    pub fn set_transfers(&self, transfers: Transfers) {
        let _ = self.transfers.set(transfers);
    }

    pub(super) fn transfers(&self) -> Result<&Transfers> {
        let transfers = self.transfers.get();
        transfers.ok_or_else(|| Failure::busy("The server is starting."))
    }

    /// Ends jobs, and the pages that stream for as long as a visitor watches.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.jobs.close();
    }

    /// The addresses of the services; empty until they are known.
    pub fn addresses(&self) -> &[Address] {
        self.addresses.all()
    }

    /// The services of the current store.
    pub(super) fn services(&self) -> Arc<Services> {
        self.stores.current().services.clone()
    }

    /// The services that a page about this account reads, and the account's name in their store.
    /// `ACCOUNT--FORK` is an account of a fork, as in URLs of the services. Error: there is no such
    /// fork.
    pub(super) fn at<'a>(&self, account: &'a str) -> Result<(Arc<Services>, &'a str)> {
        Ok((self.services_of(fork_of(account))?, stored(account)))
    }

    /// The services of the fork with this name, or of the current store if it is empty.
    pub(super) fn services_of(&self, fork: &str) -> Result<Arc<Services>> {
        if fork.is_empty() {
            return Ok(self.services());
        }
        let store = self.stores.fork(fork);
        let store = store.ok_or_else(|| fork_not_found(fork))?;
        Ok(store.services.clone())
    }

    pub(super) fn all_accounts(&self) -> &Accounts {
        self.stores.accounts()
    }

    /// The accounts that the console shows. Without a password any program on this machine may open
    /// it, so it shows only accounts with the well-known key.
    pub(super) fn accounts(&self) -> impl Iterator<Item = &str> {
        let accounts = self.all_accounts();
        accounts.names().filter(|name| self.shows(name))
    }

    pub(super) fn shows(&self, account: &str) -> bool {
        self.settings.password.is_some() || self.all_accounts().is_well_known(account)
    }

    pub(super) fn shows_all(&self) -> bool {
        let mut names = self.all_accounts().names();
        names.all(|name| self.shows(name))
    }

    /// True if a request may be shown, because its account is shown. A request that was refused
    /// before its account was known could be for any account, so all accounts must be shown.
    pub(super) fn shows_request(&self, record: &Record) -> bool {
        match &record.account {
            Some(account) => self.shows(account),
            None => self.shows_all(),
        }
    }

    /// Fails unless the account exists and is shown, and its fork, if the name has one, exists.
    pub(super) fn check_account(&self, account: &str) -> Result<()> {
        let name = stored(account);
        if self.accounts().any(|known| known == name) {
            return self.services_of(fork_of(account)).map(|_| ());
        }
        let message = if self.all_accounts().names().any(|known| known == name) {
            format!(
                "The console does not show the account '{name}', which has a key of its own. Start Lazurite with --console-password to see it."
            )
        } else {
            let names: Vec<&str> = self.accounts().take(10).collect();
            format!(
                "There is no account '{name}'. There are: {}.",
                names.join(", ")
            )
        };
        Err(Failure::new(404, "AccountNotFound", message))
    }

    /// Moves the clock of the fork with this name, or of the current store. Waits for the disk.
    pub(super) fn move_clock(&self, clock: &Clock, fork: &str, body: &[u8]) -> Result<Value> {
        if fork.is_empty() {
            self.stores.note_for_secondary()?;
        }
        clock::page::change(clock, body)
    }
}

/// The name of an account in its store, without the name of a fork.
pub fn stored(account: &str) -> &str {
    account
        .split_once(FORK_SEPARATOR)
        .map_or(account, |(name, _)| name)
}

/// The name of the fork in the name of an account; empty for the current store.
pub fn fork_of(account: &str) -> &str {
    account
        .split_once(FORK_SEPARATOR)
        .map_or("", |(_, fork)| fork)
}

/// Shows no fields: password and token must not appear in logs.
impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}
