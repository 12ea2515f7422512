//! The operation Get User Delegation Key.

use crate::request::body::{self, RequestBody};
use crate::services::Services;
use axum::body::Body;
use axum::http::Response;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::auth::delegation::DelegationKey;
use lazurite_protocol::auth::signature::failed;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::Result;
use lazurite_protocol::response::headers::{parse_xml, xml};
use std::sync::Arc;

/// Answers Get User Delegation Key. Only bearers of tokens may ask: the key contains their ids.
/// `of_data_owner`: whether the bearer may do everything in a hierarchical namespace.
pub async fn get_user_delegation_key(
    services: Arc<Services>,
    context: Box<Context>,
    caller: Caller,
    of_data_owner: bool,
    body: RequestBody,
) -> Result<Response<Body>> {
    let Caller::Bearer(bearer) = caller else {
        let detail = "Only authentication scheme Bearer is supported, and this request has no bearer token. Start Lazurite with --https, \
                      and use https://localhost:10000/ACCOUNT with a credential that gets tokens, such as DefaultAzureCredential.";
        return Err(failed(detail));
    };
    let document = body::collect(body, body::SMALL_DOCUMENT_BYTES_MAX).await?;
    let key = DelegationKey::read(&parse_xml(&document)?, context.system_now)?;
    let key = DelegationKey {
        object_id: bearer.object_id.clone(),
        tenant_id: bearer.tenant_id.clone(),
        service: context.service.label()[..1].to_owned(),
        version: context.version.as_str().to_owned(),
        of_data_owner,
        ..key
    };
    let account_key = &services.accounts.keys(&context.account)[0];
    Ok(xml(200, key.write(account_key)))
}
