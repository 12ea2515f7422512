//! Everything below `/_lazurite/`: the web console with its JSON, and the pages for programs (health, advice, heat map, identity).
//!
//! One axum router serves all of it. Each file here is one page with its routes; `guard.rs` is the layer that decides who may open the
//! console, and `layout.rs` has what the pages share. Pages call the service crates directly and never hold more than one page of
//! what is stored.

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
mod home;
mod layout;
mod lists;
mod names;
mod open_pages;
mod openapi;
mod preview;
mod queues;
pub mod requests;
mod respond;
mod routing;
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

pub use layout::{duration as layout_duration, size as layout_size};

use crate::accounts::Accounts;
use crate::announce::Address;
use crate::request::body::RequestBody;
use crate::request::context::RequestOrigin;
use crate::response::error::{Failure, Result};
use crate::services::Services;
use crate::state::{Stores, fork_not_found};
use crate::transfers::Transfers;
use axum::Router;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, Request, Response};
use lazurite_advisor::Advisor;
use requests::Ring;
use respond::{Connection, HandedBody, Refused};
use routing::{any_handler, get};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tower_service::Service as _;

/// What all paths of the router begin with. No container, queue or table has such a name.
pub const PREFIX: &str = "/_lazurite/";

/// What the console shows and how far it may be reached, from the flags.
#[derive(Default)]
pub struct Settings {
    /// Whether there is a console; the pages for programs are always served.
    pub is_on: bool,
    /// Asked of every visitor if it is set. Without one, only programs on this machine are served.
    pub password: Option<String>,
    /// Host names beside those that only lead to this machine.
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
    /// Proves that a write comes from a page of this console. Random, for as long as the process lives.
    token: String,
    addresses: OnceLock<Vec<Address>>,
    transfers: OnceLock<Transfers>,
    is_closing: AtomicBool,
}

impl Console {
    /// Errors: the system has no randomness.
    pub fn new(
        stores: Arc<Stores>,
        advisor: Arc<Advisor>,
        requests: Arc<Ring>,
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
            guesses: guard::Guesses::new(),
            started: Instant::now(),
            token: format!("{:032x}", u128::from_le_bytes(random)),
            addresses: OnceLock::new(),
            transfers: OnceLock::new(),
            is_closing: AtomicBool::new(false),
        })
    }

    /// Where the services listen, once that is known.
    pub fn set_addresses(&self, addresses: Vec<Address>) {
        let _ = self.addresses.set(addresses);
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

    /// Whether a browser asks for the root of a port, where no service has anything to show.
    pub fn is_wanted_by(&self, parts: &Parts) -> bool {
        let is_root = parts.uri.path() == "/" && parts.uri.query().is_none();
        self.settings.is_on
            && is_root
            && parts.method == Method::GET
            && respond::accepts_html(&parts.headers)
    }

    /// Where the services listen; nothing until that is known.
    pub fn addresses(&self) -> &[Address] {
        self.addresses.get().map_or(&[], Vec::as_slice)
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

    /// The accounts that the console shows. Without a password, any program of this machine may come: it sees the accounts that it could
    /// read with the public key.
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
            .route("/_lazurite/openapi.json", get(openapi::document))
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
        .fallback(any_handler(open_pages::unknown))
        .layer(axum::middleware::map_response(guard::protect))
        .with_state(console)
}

/// Whether a page writes to the store that the request found. Operations on whole stores choose theirs themselves.
pub fn changes_store(parts: &Parts) -> bool {
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    !is_read && !parts.uri.path().starts_with(state_pages::PREFIX)
}

/// Whether the response to a page is not worth making once the client has closed its end of the connection.
pub fn ends_with_client(path: &str) -> bool {
    path == transfer_pages::EXPORT
}

/// Serves a request whose path begins with [`PREFIX`]. Errors: those of the pages for programs, to be rendered as the service does.
pub async fn answer(
    router: &Router,
    origin: &RequestOrigin,
    host: &str,
    parts: Parts,
    body: RequestBody,
) -> Result<Response<Body>> {
    let wants_html = respond::accepts_html(&parts.headers);
    let mut request = Request::from_parts(parts, Body::empty());
    request.extensions_mut().insert(Connection {
        origin: origin.clone(),
        host: host.to_owned(),
    });
    request.extensions_mut().insert(HandedBody::new(body));
    let mut response = router
        .clone()
        .call(request)
        .await
        .unwrap_or_else(|never| match never {});
    match response.extensions_mut().remove::<Refused>() {
        Some(Refused::AsService(failure)) => Err(failure),
        Some(Refused::AsPage(failure)) => Ok(respond::render(response, &failure, wants_html)),
        None => Ok(response),
    }
}
