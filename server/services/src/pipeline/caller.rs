//! Authenticates the request. Refuses pages of other origins unless a CORS rule allows them.

use crate::browser_guard;
use crate::pipeline::call::Call;
use crate::pipeline::exchange::Step;
use crate::state::Store;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::properties::{ServiceProperties, cors};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::Result;

pub fn authenticate(call: &mut Call<'_, '_>) -> Step {
    let (properties, host) = (call.properties(), &call.exchange.host);
    let changes_state = call.operation.changes_state;
    call.caller = find(
        call.store(),
        &call.context,
        &properties,
        host,
        changes_state,
    )?;
    Ok(())
}

/// Finds the caller of a request.
pub fn find(
    store: &Store,
    context: &Context,
    properties: &ServiceProperties,
    host: &str,
    changes_state: bool,
) -> Result<Caller> {
    let is_covered = cors::allows(&properties.cors_rules(), context);
    if changes_state && !is_covered {
        browser_guard::check_origin(&context.headers, host)?;
    }
    let caller = store.authenticator.authenticate(context)?;
    let has_credentials = !matches!(caller, Caller::Anonymous);
    if !is_covered && has_credentials && store.services.accounts.is_well_known(&context.account) {
        browser_guard::check_page(&context.headers)?;
    }
    Ok(caller)
}
