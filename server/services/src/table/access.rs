//! Access to tables: permissions, metrics tables, and the rows that a SAS is limited to.

use crate::request::operation::Operation;
use crate::table::request::Request;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::auth::policy::authorize;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Result, common};
use lazurite_table::{AccessRange, is_metrics_table};

/// Checks that the caller may perform the operation. The server owns the tables of metrics: clients
/// may only read them and delete from them. Source: Storage Analytics metrics.
pub fn check_access(
    operation: &Operation<Request>,
    context: &Context,
    caller: &Caller,
    table: &str,
) -> Result<()> {
    if let Some(needs) = operation.needs(context) {
        authorize(caller, context, &needs)?;
    }
    if !operation.on_analytics_data && is_metrics_table(table) {
        return Err(common::AUTHORIZATION_FAILURE.into());
    }
    Ok(())
}

/// The rows that a SAS is limited to. Refuses a SAS for another table, except in a batch.
pub fn sas_key_range(caller: &Caller, table: &str, batch: bool) -> Result<Option<AccessRange>> {
    let grant = match caller {
        Caller::Sas(grant) if !grant.account_wide => grant,
        _ => return Ok(None),
    };
    if !batch && table.to_lowercase() != grant.table_name {
        let detail = format!("The SAS is for table '{}'.", grant.table_name);
        return Err(common::AUTHORIZATION_FAILURE.with("AuthenticationErrorDetail", detail));
    }
    let range = grant.key_range.clone();
    Ok(Some(AccessRange {
        start_partition_key: range.start_partition_key,
        start_row_key: range.start_row_key,
        end_partition_key: range.end_partition_key,
        end_row_key: range.end_row_key,
    }))
}
