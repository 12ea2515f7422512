//! The body of Set Container ACL, Set Queue ACL and Set Table ACL.

use crate::request::body::{RequestBody, SMALL_DOCUMENT_BYTES_MAX, collect};
use lazurite_base::policies::StoredPolicy;
use lazurite_protocol::policies;
use lazurite_protocol::response::error::{Result, common};
use lazurite_protocol::response::headers::parse_xml;

/// Reads the stored access policies in a body. An empty body has none. Source: Set Container ACL,
/// "Request body".
pub async fn collect_policies(body: RequestBody) -> Result<Vec<StoredPolicy>> {
    // Five policies need a tenth of this limit.
    let document = collect(body, SMALL_DOCUMENT_BYTES_MAX).await?;
    if document.is_empty() {
        return Ok(Vec::new());
    }
    policies::read(&parse_xml(&document)?).ok_or_else(|| common::INVALID_XML_DOCUMENT.into())
}
