//! Finds the caller of a request.

use crate::auth::stored_policy::stored_policy;
use crate::services::Services;
use axum::http::header::AUTHORIZATION;
use lazurite_base::policies::StoredPolicy;
use lazurite_protocol::auth::signature::failed;
use lazurite_protocol::auth::{Caller, bearer, sas, shared_key};
use lazurite_protocol::request::context::{Context, read};
use lazurite_protocol::response::error::{Failure, Result, common};
use std::sync::Arc;
use std::time::Duration;

/// Finds callers by the keys and stored access policies of their accounts.
#[derive(Debug)]
pub struct Authenticator {
    pub services: Arc<Services>,
    /// Whether bearer tokens are accepted (`--oauth basic`).
    pub accepts_bearer_tokens: bool,
    /// Whether account keys, and signatures made with them, are accepted. On the hosted service,
    /// each account has this setting; here it applies to all accounts.
    pub accepts_account_keys: bool,
    /// Maximum validity of a SAS, from its start to its expiry; `None`: no limit.
    pub sas_duration_max: Option<Duration>,
}

impl Authenticator {
    /// Finds the caller of a request. If its SAS names a stored access policy, reads the policy
    /// first, because it may hold the times and permissions of the SAS.
    pub fn authenticate(&self, context: &Context) -> Result<Caller> {
        let sas = sas_of(context)?;
        if let Some(sas) = &sas {
            sas.check_life(self.sas_duration_max)?;
        }
        let policy = match sas.as_ref().and_then(|sas| sas.policy_name()) {
            Some(name) => stored_policy(&self.services, context, &name)?,
            None => None,
        };
        let caller = authenticate(
            context,
            &self.services.accounts.keys(&context.account),
            sas,
            policy.as_ref(),
            self.accepts_bearer_tokens,
        )?;
        if !self.accepts_account_keys && caller.has_key() {
            return Err(common::KEYS_NOT_PERMITTED.into());
        }
        match context.query.contradicted() {
            Some(name) => {
                let value = context.query.get(name).unwrap_or_default();
                let reason = "It is given more than once, with different values.";
                Err(Failure::parameter(name, value, reason))
            }
            None => Ok(caller),
        }
    }
}

/// Reads the credentials of a request. `policy` is the stored access policy that a SAS names,
/// already looked up; `takes_tokens` says whether the server was started with `--oauth`.
pub fn authenticate(
    context: &Context,
    keys: &[Vec<u8>],
    sas: Option<sas::Sas<'_>>,
    policy: Option<&StoredPolicy>,
    takes_tokens: bool,
) -> Result<Caller> {
    let mut authorizations = context.headers.get_all(AUTHORIZATION).iter();
    let authorization = authorizations.next().map(read);
    if authorizations.next().is_some() {
        let detail = "The request has more than one Authorization header.";
        return Err(common::INVALID_AUTHENTICATION_INFO.with("AuthenticationErrorDetail", detail));
    }
    let authorization = authorization.filter(|text| !text.is_empty());
    let token = authorization
        .as_deref()
        .and_then(|text| text.strip_prefix("Bearer "));
    let bearer = match token {
        Some(_) if !takes_tokens => {
            return Err(failed(
                "This server takes no bearer tokens. Start it with --https, and use https://localhost:10000/ACCOUNT: clients send tokens over \
                 HTTPS only. --oauth basic takes tokens too, with a certificate of your own or from clients that send them over HTTP.",
            ));
        }
        Some(token) => Some(bearer::verify(context, token)?),
        None => None,
    };
    match (sas, bearer, authorization) {
        // Only bearers of tokens get user delegation keys. A server that accepts no tokens must not
        // accept keys that were issued earlier either.
        (Some(sas), _, _) if sas.kind == sas::Kind::UserDelegation && !takes_tokens => Err(failed(
            "A user delegation SAS is taken by a server that was started with --oauth basic.",
        )),
        (Some(sas), bearer, _) => {
            let grant = sas.verify(context, keys, policy, bearer.as_ref())?;
            Ok(Caller::Sas(Box::new(grant)))
        }
        (None, Some(bearer), _) => Ok(Caller::Bearer(bearer)),
        (None, None, Some(authorization)) => {
            shared_key::verify(&shared_key::SignedRequest { context }, &authorization, keys)?;
            Ok(Caller::Owner)
        }
        (None, None, None) => Ok(Caller::Anonymous),
    }
}

/// The SAS that authorizes a request. An `Authorization` header takes precedence: the result is
/// then `None`. The exception is a SAS for a single user (`sduoid`): it needs the header, with a
/// token of that user. Source: Create a user delegation SAS, "Specify a signed delegated user
/// object ID".
pub fn sas_of(context: &Context) -> Result<Option<sas::Sas<'_>>> {
    let authorization = context.headers.get_hashed(&AUTHORIZATION);
    let is_given = authorization.is_some_and(|value| !value.as_bytes().trim_ascii().is_empty());
    if is_given && !context.query.has("sduoid") {
        return Ok(None);
    }
    sas::Sas::parse(context)
}
