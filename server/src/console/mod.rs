//! Everything below `/_lazurite/`: the web console with its JSON, and the pages for programs
//! (health, advice, heat map, identity).
//!
//! One axum router serves all of it. Each file here is one page with its routes; `guard.rs` is the
//! layer that decides who may open the console, and `layout.rs` has what the pages share. Pages
//! call the service crates directly and never hold more than one page of what is stored.

mod advisor;
mod blobs;
mod connect;
pub mod csv;
mod diff;
mod engine;
mod entity_json;
mod fault_section;
mod filter;
mod filter_builder;
mod form;
mod guard;
mod health;
mod home;
mod layout;
mod lists;
mod names;
mod open_pages;
mod preview;
mod queues;
pub mod requests;
mod respond;
mod rows;
mod sas;
mod state;
mod state_pages;
mod tables;
mod test_pages;
mod test_section;
mod transfer_pages;
mod undo;
pub mod value_text;

pub use crate::pages::PREFIX;
pub use layout::{duration as layout_duration, size as layout_size};

use crate::accounts::Accounts;
use crate::pages::{Address, Addresses};
use crate::response::error::{Failure, Result};
use crate::services::Services;
use crate::state::{Stores, fork_not_found};
use crate::transfers::Transfers;
use axum::Router;
use axum::routing::get;
use lazurite_advisor::Advisor;
use requests::Ring;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What the console shows and how far it may be reached, from the flags.
#[derive(Default)]
pub struct Settings {
    /// Whether there is a console; the pages for programs are always served.
    pub is_on: bool,
    /// Asked of every visitor if it is set. Without one, only programs on this machine are served.
    pub password: Option<String>,
    /// Host names besides those that only lead to this machine.
    pub allowed_hosts: Vec<String>,
    /// `None` for a store in memory.
    pub directory: Option<PathBuf>,
    pub durability: &'static str,
    /// Whether `/_lazurite/identity` hands out tokens.
    pub accepts_bearer_tokens: bool,
}

/// The state of the router.
pub struct Console {
    stores: Arc<Stores>,
    advisor: Arc<Advisor>,
    requests: Arc<Ring>,
    edits: undo::Edits,
    settings: Settings,
    started: Instant,
    guesses: guard::Guesses,
    /// Proves that a write comes from a page of this console. Random, for as long as the process
    /// lives.
    token: String,
    addresses: Addresses,
    transfers: OnceLock<Transfers>,
    is_closing: AtomicBool,
}

impl Console {
    /// Errors: the system has no randomness.
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
            edits: undo::Edits::default(),
            settings,
            guesses: guard::Guesses::default(),
            started: Instant::now(),
            token: format!("{:032x}", u128::from_le_bytes(random)),
            addresses,
            transfers: OnceLock::new(),
            is_closing: AtomicBool::new(false),
        })
    }

    /// Makes exports and imports possible, once the services are about to be served.
    pub fn set_transfers(&self, transfers: Transfers) {
        let _ = self.transfers.set(transfers);
    }

    fn transfers(&self) -> Result<&Transfers> {
        let transfers = self.transfers.get();
        transfers.ok_or_else(|| Failure::busy("The server is starting."))
    }

    /// Ends the pages that are sent for as long as a visitor watches.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Where the services listen; nothing until that is known.
    pub fn addresses(&self) -> &[Address] {
        self.addresses.all()
    }

    /// The services of the current store.
    fn services(&self) -> Arc<Services> {
        self.stores.current().services.clone()
    }

    /// The services of a fork, or of the current store if none is named.
    fn services_of(&self, fork: &str) -> Result<Arc<Services>> {
        if fork.is_empty() {
            return Ok(self.services());
        }
        let store = self.stores.fork(fork);
        let store = store.ok_or_else(|| fork_not_found(fork))?;
        Ok(store.services.clone())
    }

    fn all_accounts(&self) -> &Accounts {
        self.stores.accounts()
    }

    /// The accounts that the console shows. Without a password any program on this machine may open
    /// it, so it shows the accounts that the public key can read.
    fn accounts(&self) -> impl Iterator<Item = &str> {
        let accounts = self.all_accounts();
        accounts.names().filter(|name| self.shows(name))
    }

    fn shows(&self, account: &str) -> bool {
        self.settings.password.is_some() || self.all_accounts().is_well_known(account)
    }

    fn shows_all(&self) -> bool {
        let mut names = self.all_accounts().names();
        names.all(|name| self.shows(name))
    }

    /// Refuses accounts that do not exist or are not shown.
    fn check_account(&self, account: &str) -> Result<()> {
        if self.accounts().any(|name| name == account) {
            return Ok(());
        }
        let message = format!(
            "The console shows no account '{account}'. It shows accounts with a key of their own only if Lazurite was started with --console-password."
        );
        Err(Failure::new(404, "AccountNotFound", message))
    }
}

/// Nothing of it: password and token are not for logs.
impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

/// The routes of the pages for programs, and of the console if it is on.
pub fn router(console: Arc<Console>) -> Router {
    let mut routes = open_pages::routes();
    if console.settings.is_on {
        let layer = axum::middleware::from_fn_with_state(console.clone(), guard::guard);
        let pages = Router::new()
            .route("/_lazurite/", get(home::page))
            .route("/_lazurite/connect/{account}", get(connect::page))
            .route("/_lazurite/engine", get(engine::page))
            .route("/_lazurite/sas/{account}", get(sas::page))
            .route("/_lazurite/api/engine", get(engine::figures))
            .route("/_lazurite/api/status", get(home::status))
            .route("/_lazurite/api/names", get(names::names))
            .merge(tables::routes())
            .merge(queues::routes())
            .merge(blobs::routes())
            .merge(requests::routes())
            .merge(advisor::routes())
            .merge(state::routes());
        routes = routes
            .merge(layout::assets())
            .merge(pages.route_layer(layer));
    }
    routes
        .merge(test_pages::routes(&console))
        .merge(state_pages::routes(&console))
        .merge(transfer_pages::routes(&console))
        .fallback(open_pages::unknown)
        .layer(axum::middleware::map_response(guard::protect))
        .layer(axum::middleware::from_fn(respond::rendered))
        .with_state(console)
}
