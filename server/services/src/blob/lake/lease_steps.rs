//! `x-ms-lease-action` of appends and flushes: a lease that is acquired before the write, and
//! renewed or released after it, in one step with the write. Source: Path - Update, "Request
//! headers".

use crate::blob::conditions::{optional_id, parse_id};
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{AfterWrite, Guid, LeaseDuration, LeaseSteps as Steps};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{put, put_static};

const ACTION: &str = "x-ms-lease-action";

/// The lease that a write needs, and what it does with the lease.
pub struct LeaseSteps {
    pub steps: Steps,
    /// The lease that the write is made under.
    pub lease_id: Option<Guid>,
}

impl LeaseSteps {
    /// The steps that a request asks for. Error: headers that the action needs are missing or
    /// malformed.
    pub fn of(context: &Context) -> Result<LeaseSteps> {
        let Some(action) = context.header(ACTION) else {
            let of_action = ["x-ms-lease-duration", "x-ms-proposed-lease-id"];
            if of_action.iter().any(|name| context.header(name).is_some()) {
                return Err(Failure::missing_header(ACTION));
            }
            return Ok(LeaseSteps {
                steps: Steps::NONE,
                lease_id: optional_id(context, "x-ms-lease-id")?,
            });
        };
        let id = |name| parse_id(name, context.required_header(name)?);
        let own = || id("x-ms-lease-id");
        let proposed = || id("x-ms-proposed-lease-id");
        let (acquires, after) = match action.to_ascii_lowercase().as_str() {
            "acquire" => (true, AfterWrite::Keep),
            "acquire-release" => (true, AfterWrite::Release(proposed()?)),
            "auto-renew" => (false, AfterWrite::Renew(own()?)),
            "release" => (false, AfterWrite::Release(own()?)),
            _ => return Err(Failure::header(ACTION, action)),
        };
        if !acquires {
            return Ok(LeaseSteps {
                steps: Steps {
                    acquire: None,
                    after,
                },
                lease_id: Some(own()?),
            });
        }
        let name = "x-ms-lease-duration";
        let text = context.required_header(name)?;
        let seconds = text.parse().map_err(|_| Failure::header(name, text))?;
        let (duration, id) = (LeaseDuration::new(seconds)?, proposed()?);
        Ok(LeaseSteps {
            steps: Steps {
                acquire: Some((duration, id)),
                after,
            },
            lease_id: Some(id),
        })
    }

    /// Adds the headers about the lease to the response of the write.
    pub fn put(&self, response: &mut Response<Body>) {
        if let AfterWrite::Renew(_) = self.steps.after {
            put_static(response, "x-ms-lease-renewed", "true");
        }
        if let Some((_, id)) = self.steps.acquire {
            put(response, "x-ms-lease-id", id.to_string());
        }
    }
}
