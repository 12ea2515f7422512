//! The operation Get Account Information, for the Blob service.

use crate::response::{ResponseFuture, ready_response};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::headers::{empty, put, put_static};

/// Answers Get Account Information. Source: Get Account Information, "Response headers".
pub fn get_account_information(context: &Context) -> ResponseFuture {
    let mut response = empty(200);
    put_static(&mut response, "x-ms-sku-name", "Standard_LRS");
    put_static(&mut response, "x-ms-account-kind", "StorageV2");
    let hierarchical = context.hierarchical.to_string();
    put(&mut response, "x-ms-is-hns-enabled", hierarchical);
    ready_response(response)
}
