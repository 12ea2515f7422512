//! Finds the host that the request names. Refuses browsers that name a host which may not be this
//! server: see `browser_guard.rs`.

use crate::browser_guard;
use crate::pipeline::exchange::{Exchange, Step};
use lazurite_protocol::request::context;

pub fn check(exchange: &mut Exchange<'_>) -> Step {
    let parts = &exchange.parts;
    exchange.host = context::host(parts)?;
    browser_guard::check_host(&exchange.host, &parts.headers, &exchange.app.allowed_hosts)?;
    Ok(())
}
