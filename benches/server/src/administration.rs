//! Requests to the pages of our server that administer it, below `/_lazurite/`. They need no signature from this machine.

use std::time::Duration;

use lazurite_bench_common::Outcome;
use serde_json::Value;
use ureq::http;

use crate::client::{Account, Service};

/// The longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// Sends a request to a page and returns its answer: JSON, or null without a body. Errors name the page and show the answer.
pub(crate) fn ask(account: &Account, method: &str, page: &str, body: &str) -> Outcome<Value> {
    let (authority, _) = account.address(Service::Blob);
    let url = format!("http://{authority}/_lazurite/{page}");
    let request = http::Request::builder().method(method).uri(url);
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(ANSWER_MAX));
    let agent = config.build().new_agent();
    let mut answer = agent.run(request.body(body.to_owned())?)?;
    let text = answer.body_mut().read_to_string()?;
    if !answer.status().is_success() {
        return Err(format!("{method} /_lazurite/{page}: {} {text}", answer.status()).into());
    }
    Ok(serde_json::from_str(&text).unwrap_or_default())
}
