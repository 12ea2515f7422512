//! Everything below `/_lazurite/`: the web console with its JSON, and the pages for programs
//! (health, advice, heat map, identity).
//!
//! [`router`] is the interface: one HTTP router for a [`Console`], whose pages call the public
//! operations of the services. Flags and listeners are left to the program, exports and imports to
//! the mover. [`cookbook`] has the pages of the guide, for the console and for `lazurite guide`.
//!
//! Imports point one way: the router, in this file and in the `mod.rs` of each folder, imports
//! pages; pages import parts; no part imports a page. A section of a page that has a file of its
//! own is a part, too.
//!
//! Pages share these parts:
//! - `context.rs` has the state that each page receives.
//! - `guard.rs` decides who may open the console.
//! - `layout.rs` has the frame of a page.
//! - `form.rs` reads forms, and `respond.rs` makes responses.
//! - `lists.rs`, `format.rs` and `links.rs` make lists, texts and links.
//!
//! Pages call the service crates directly and never hold more than one page of what is stored.

mod advisor;
mod banner;
mod blobs;
mod connect;
mod context;
pub mod cookbook;
mod cors;
mod csv;
mod destination;
mod diff;
mod documents;
mod edits;
mod endpoints;
mod engine;
mod fault_section;
mod form;
mod format;
mod guard;
mod guesses;
mod guide;
mod health;
mod home;
mod job_pages;
mod jobs;
mod layout;
mod links;
mod lists;
mod names;
pub mod nearest;
mod open_pages;
mod preview;
mod proposals;
mod queues;
mod refusals;
mod requests;
mod resource_tree;
mod respond;
mod sample;
mod sas;
mod selection;
mod settings;
mod state;
mod state_pages;
mod tables;
mod test_pages;
mod test_section;
mod transfer_pages;
mod transfer_section;
mod value_text;

pub use context::{Console, Settings};

use axum::Router;
use axum::routing::get;
use std::sync::Arc;

/// The routes of the pages for programs, and of the console if it is on.
pub fn router(console: Arc<Console>) -> Router {
    let mut routes = open_pages::routes();
    if console.settings.is_on {
        let layer = axum::middleware::from_fn_with_state(console.clone(), guard::guard);
        let pages = Router::new()
            .route("/_lazurite/", get(home::page))
            .route("/_lazurite/connect/{account}", get(connect::page))
            .route(
                "/_lazurite/sample/{account}",
                axum::routing::post(sample::create),
            )
            .route("/_lazurite/engine", get(engine::page))
            .route("/_lazurite/sas/{account}", get(sas::page))
            .route("/_lazurite/api/engine", get(engine::figures))
            .route("/_lazurite/api/status", get(home::status))
            .route("/_lazurite/api/names", get(names::names))
            .route("/_lazurite/api/tree/{account}", get(resource_tree::tree))
            .merge(job_pages::routes())
            .route(
                "/_lazurite/cors/{account}",
                get(cors::page).post(cors::save),
            )
            .merge(settings::routes())
            .merge(tables::routes())
            .merge(queues::routes())
            .merge(blobs::routes())
            .merge(requests::routes())
            .merge(advisor::routes())
            .merge(guide::routes())
            .merge(documents::routes())
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
        .layer(axum::middleware::from_fn(refusals::rendered))
        .with_state(console)
}
