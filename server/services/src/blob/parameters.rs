//! Query parameters that several listings share.

use crate::blob::request::Request;
use lazurite_protocol::response::error::{Failure, Result};

/// The items of `include`, in lower case. Error: an unknown item.
pub fn include(request: &Request, known: &[&str]) -> Result<Vec<String>> {
    let text = request.context.query.joined("include").to_ascii_lowercase();
    let items: Vec<_> = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect();
    match items.iter().find(|item| !known.contains(&item.as_str())) {
        Some(unknown) => Err(Failure::parameter(
            "include",
            unknown,
            "There is nothing of that name to include.",
        )),
        None => Ok(items),
    }
}

/// Reads `maxresults`. The service refuses numbers below 1, and treats numbers above the maximum as
/// the maximum.
pub fn max_results(request: &Request) -> Result<Option<u32>> {
    let Some(number) = request.context.integer("maxresults")? else {
        return Ok(None);
    };
    Ok(Some(u32::try_from(number.max(0)).unwrap_or(u32::MAX)))
}
