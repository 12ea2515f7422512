//! Rename of a file or directory. Source: Path - Create, `x-ms-rename-source`.

use crate::blob::block_blob::conditions_of_new_blob;
use crate::blob::conditions::{conditions_named, optional_id};
use crate::blob::lake::inputs::properties;
use crate::blob::lake::paths::refuse_root;
use crate::blob::lake::rename_source::RenameSource;
use crate::blob::request::Request;
use crate::blob::validators::with_validators;
use crate::blob::write::refuse_overwrite;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{BlobAddress, BlobService, Conditions, RenameMode, RenamePath};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::empty;

pub async fn rename_path(request: Box<Request>) -> Result<Response<Body>> {
    refuse_root(&request, "A path cannot be renamed to the root directory.")?;
    let context = &request.context;
    refuse_access(context)?;
    let rename = RenamePath {
        mode: mode(context)?,
        source_conditions: Conditions {
            lease_id: optional_id(context, "x-ms-source-lease-id")?,
            ..conditions_named(context, "x-ms-source-")?
        },
        conditions: conditions_of_new_blob(&request)?,
        metadata: properties(context)?,
    };
    let source = RenameSource::of(&request)?;
    let rights = source.authorize(&request)?;
    let create_only = request.is_create_only();
    let call = move |blobs: &BlobService, r: &Request| {
        let address = BlobAddress {
            container: &source.container,
            blob: &source.path,
            caller: rights.user.as_ref(),
            ..r.address()
        };
        blobs.rename_path(&address, &r.address(), &rename)
    };
    let outcome = request.change(call).await;
    let (written, ticket) = outcome.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    Ok(with_validators(empty(201), &written))
}

/// Refuses headers of access control, which a rename leaves as it is.
fn refuse_access(context: &Context) -> Result<()> {
    let names = [
        "x-ms-owner",
        "x-ms-group",
        "x-ms-permissions",
        "x-ms-umask",
        "x-ms-acl",
    ];
    let sent = names.iter().find(|name| context.header(name).is_some());
    sent.map_or(Ok(()), |name| {
        let detail = "A rename keeps owner, group and rights of the path. Set them with \
                      action=setAccessControl afterwards.";
        let message = "One of the HTTP headers specified in the request is not supported.";
        let refused = Failure::new(400, "UnsupportedHeader", message);
        Err(refused
            .with("HeaderName", *name)
            .with("ExtendedErrorDetail", detail))
    })
}

/// Official clients send `legacy`; Hadoop sends no mode.
fn mode(context: &Context) -> Result<RenameMode> {
    let text = context.query.get("mode").unwrap_or_default();
    match text.to_ascii_lowercase().as_str() {
        "" | "posix" => Ok(RenameMode::Posix),
        "legacy" => Ok(RenameMode::Legacy),
        _ => {
            let reason = "It is neither legacy nor posix.";
            Err(Failure::parameter("mode", text, reason))
        }
    }
}
