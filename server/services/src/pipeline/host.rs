//! The host that the request names. Hosts that do not lead to this server are refused: the page of
//! a browser would name them.

use crate::browser_guard;
use crate::pipeline::exchange::{Exchange, Step};
use crate::request::context;

pub fn check(exchange: &mut Exchange<'_>) -> Step {
    let parts = &exchange.parts;
    exchange.host = context::host(parts)?;
    browser_guard::check_host(&exchange.host, &parts.headers, &exchange.app.allowed_hosts)?;
    Ok(())
}
