//! `x-ms-lease-action` of appends and flushes: a lease that is acquired before the write, and
//! renewed or released after it. Source: Path - Update, "Request headers".

use crate::blob::conditions::{optional_id, parse_id};
use crate::blob::request::Request;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{BlobService, Conditions, Guid, LeaseAction, LeaseDuration, Ticket};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{put, put_static};

const ACTION: &str = "x-ms-lease-action";

/// The lease that a write needs, and what it does with the lease.
pub struct LeaseSteps {
    acquire: Option<(LeaseDuration, Guid)>,
    after: After,
    /// The lease that the write is made under.
    pub lease_id: Option<Guid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    Renew,
    Release,
}

impl LeaseSteps {
    /// The steps that a request asks for. Error: headers that the action needs are missing or
    /// malformed.
    pub fn of(context: &Context) -> Result<LeaseSteps> {
        let Some(action) = context.header(ACTION) else {
            return Ok(LeaseSteps {
                acquire: None,
                after: After::Nothing,
                lease_id: optional_id(context, "x-ms-lease-id")?,
            });
        };
        let (acquires, after) = match action.to_ascii_lowercase().as_str() {
            "acquire" => (true, After::Nothing),
            "acquire-release" => (true, After::Release),
            "auto-renew" => (false, After::Renew),
            "release" => (false, After::Release),
            _ => return Err(Failure::header(ACTION, action)),
        };
        let id = |name| parse_id(name, context.required_header(name)?);
        if !acquires {
            return Ok(LeaseSteps {
                acquire: None,
                after,
                lease_id: Some(id("x-ms-lease-id")?),
            });
        }
        let name = "x-ms-lease-duration";
        let text = context.required_header(name)?;
        let seconds = text.parse().map_err(|_| Failure::header(name, text))?;
        let proposed = id("x-ms-proposed-lease-id")?;
        Ok(LeaseSteps {
            acquire: Some((LeaseDuration::new(seconds)?, proposed)),
            after,
            lease_id: Some(proposed),
        })
    }

    /// Makes a write under the lease: acquires it before, and renews or releases it after. Returns
    /// the ticket of the last step, which is logged after the others. A lease that was acquired for
    /// a write that fails is released.
    pub fn around<T>(
        &self,
        blobs: &BlobService,
        request: &Request,
        write: impl FnOnce() -> lazurite_blob::Result<(T, Ticket)>,
    ) -> lazurite_blob::Result<(T, Ticket)> {
        let apply = |action| {
            let applied = blobs.lease_blob(&request.address(), action, &Conditions::default());
            applied.map(|(_, _, ticket)| ticket)
        };
        if let Some((duration, proposed)) = self.acquire {
            // Logged before the write, whose ticket covers it.
            let acquired = apply(LeaseAction::Acquire {
                duration,
                proposed: Some(proposed),
            });
            drop(acquired?);
        }
        let outcome = write();
        let after = match (&outcome, self.lease_id) {
            (Ok(_), Some(id)) if self.after == After::Renew => Some(LeaseAction::Renew(id)),
            (Ok(_), Some(id)) if self.after == After::Release => Some(LeaseAction::Release(id)),
            (Err(_), Some(id)) if self.acquire.is_some() => Some(LeaseAction::Release(id)),
            _ => None,
        };
        let (written, ticket) = match (outcome, after) {
            (Ok((written, _)), Some(action)) => (written, apply(action)?),
            (Ok(done), None) => done,
            (Err(error), after) => {
                // The failure of the write is the one that the client needs to know.
                drop(after.map(apply));
                return Err(error);
            }
        };
        Ok((written, ticket))
    }

    /// Adds the headers about the lease to the response of the write.
    pub fn put(&self, response: &mut Response<Body>) {
        if self.after == After::Renew {
            put_static(response, "x-ms-lease-renewed", "true");
        }
        if let Some((_, id)) = self.acquire {
            put(response, "x-ms-lease-id", id.to_string());
        }
    }
}
