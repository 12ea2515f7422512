//! Which requests the account's log and metrics cover.

use crate::analytics::{Access, Entry};
use crate::auth::Caller;
use crate::properties::ServiceProperties;
use crate::request::context::Context;
use crate::request::operation::Logged;

/// The entry of a request, if the account's log or metrics cover it.
pub fn log_entry(
    context: &Context,
    operation: Option<Logged>,
    caller: &Caller,
    properties: &ServiceProperties,
) -> Option<Entry> {
    if !properties.logging.is_on() && !properties.keeps_metrics() {
        return None;
    }
    let operation = operation?;
    let wanted = properties.logging.covers(operation.class);
    let begin = || Entry::begin(context, operation, Access::of(caller), wanted);
    (wanted || properties.keeps_metrics()).then(begin)
}
