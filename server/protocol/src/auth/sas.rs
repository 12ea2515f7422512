//! Shared access signatures: account, service and user delegation; the strings they sign, and the
//! checks they share. Source: Create an account SAS, Create a service SAS, Create a user delegation
//! SAS; "Construct the signature string".

use crate::auth::bearer::Bearer;
use crate::auth::delegation::DelegationKey;
use crate::auth::signature::{failed, verify as signature_is_good};
use crate::date;
use crate::request::blob_names::{blob_names, blob_names_as_sent};
use crate::request::context::{ApiVersion, Context, Query, ServiceKind, decode};
use crate::request::data_lake::normalized;
use crate::response::error::{Failure, Result, common};
use axum::http::Method;
use lazurite_base::policies::StoredPolicy;
use lazurite_blob::Guid;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

/// The kind of a SAS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Account,
    Service,
    UserDelegation,
}

/// The SAS of a request, parsed but not verified.
#[derive(Debug)]
pub struct Sas<'a> {
    query: &'a Query,
    pub kind: Kind,
    version: ApiVersion,
}

/// The grants of a verified SAS. `policy.rs` checks whether they cover an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub account_wide: bool,
    /// True if an account key signed the SAS, rather than a user delegation key.
    pub by_account_key: bool,
    /// The letters of the permissions, in any order.
    pub permissions: String,
    /// Account SAS: the letters of `ss`.
    pub services: String,
    /// Account SAS: the letters of `srt`.
    pub resource_types: String,
    /// Blob SAS: true if it covers one blob (or snapshot or version), not a container or directory.
    pub one_blob: bool,
    /// The object id of the user whose rights on paths are checked: `suoid`.
    pub checked_user: Option<String>,
    /// The object id of the user whom the signer has authorized: `saoid`. New paths belong to this
    /// user.
    pub authorized_user: Option<String>,
    /// The object id of the user that the user delegation key was issued to, unless as to a data
    /// owner of the account: the rights of this user limit the SAS.
    pub key_user: Option<String>,
    /// Whether the signature covers the parameters that override response headers.
    pub signs_response_headers: bool,
    /// Table service SAS: `tn`, in lower case.
    pub table_name: String,
    /// Table service SAS: the rows from (spk, srk) to (epk, erk), both inclusive.
    pub key_range: TableKeyRange,
}

/// The rows that a table SAS covers. An absent bound is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableKeyRange {
    pub start_partition_key: Option<String>,
    pub start_row_key: Option<String>,
    pub end_partition_key: Option<String>,
    pub end_row_key: Option<String>,
}

/// The first API version with account SAS. Source: Create an account SAS, "Construct an account SAS
/// URI", `sv`.
const ACCOUNT_VERSION_MIN: &str = "2015-04-05";

/// The first API version whose signatures cover `sr`.
const RESOURCE_VERSION_MIN: &str = "2018-11-09";
/// The first API version with SAS for directories.
const DIRECTORY_VERSION_MIN: &str = "2020-02-10";
/// The first API version whose signatures cover the overrides of response headers.
const OVERRIDES_VERSION_MIN: &str = "2013-08-15";

/// The parameters of all kinds of SAS. Each may be given only once: otherwise the value that is
/// verified could differ from the value that is used.
const PARAMETERS: [&str; 36] = [
    "sv", "ss", "srt", "sp", "st", "se", "sip", "spr", "ses", "sig", "sr", "si", "sdd", "skoid",
    "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid", "sduoid", "skdutid", "srh",
    "srq", "tn", "spk", "srk", "epk", "erk", "rscc", "rscd", "rsce", "rscl", "rsct",
];

/// The greatest number of lines in a string to sign, that of a user delegation SAS.
const SIGNED_LINES_MAX: usize = 32;

/// Maximum number of names in `srh` or `srq`. Each is looked up and copied before the signature is
/// verified.
const SIGNED_NAMES_MAX: usize = 32;

fn is_parameter(name: &str) -> bool {
    PARAMETERS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns the first repeated parameter that belongs to a SAS or is listed in its `srq`. Call
/// [`check_signed_names`] first, which limits that list.
fn repeated(query: &Query) -> Option<&str> {
    let covered = query.get_literal("srq").unwrap_or_default();
    let is_covered = |name: &str| covered.split(',').any(|one| one.eq_ignore_ascii_case(name));
    let mut names = query.repeated().map(|(name, ..)| name);
    names.find(|name| is_parameter(name) || is_covered(name))
}

/// The name of the first SAS parameter whose value has a control character.
fn with_control(query: &Query) -> Option<&str> {
    let unclear = query
        .decoded_pairs()
        .filter(|(_, value)| has_control(value));
    let mut names = unclear.map(|(name, _)| name);
    names.find(|name| is_parameter(name))
}

/// Checks that `srh` and `srq` list a limited number of valid names, each once: each mention copies
/// a value into the string to sign. Also checks that no parameter in `srq` has a control character,
/// which could make that string ambiguous.
fn check_signed_names(query: &Query) -> Result<()> {
    let is_name = |name: &str| {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.$".contains(&byte);
        name.bytes().all(is_legal)
    };
    for list in ["srh", "srq"] {
        let Some(names) = query.get_literal(list) else {
            continue;
        };
        if names.split(',').count() > SIGNED_NAMES_MAX {
            return Err(failed(format!(
                "{list} has more than {SIGNED_NAMES_MAX} names."
            )));
        }
        if !names.split(',').all(is_name) {
            return Err(failed(format!("{list} '{names}' is not a list of names.")));
        }
        let mut sorted: Vec<_> = names.split(',').map(str::to_ascii_lowercase).collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(failed(format!("{list} lists a name more than once.")));
        }
    }
    let parameters = query.get_literal("srq").unwrap_or_default();
    let mut parameters = parameters.split(',');
    match parameters.find(|name| query.get_literal(name).is_some_and(has_control)) {
        Some(name) => Err(failed(format!("{name} has a control character."))),
        None => Ok(()),
    }
}

fn has_control(text: impl AsRef<str>) -> bool {
    let text = text.as_ref();
    // Tests the bytes first: most values are printable ASCII.
    !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.chars().any(char::is_control)
}

impl<'a> Sas<'a> {
    /// `None` if the query has no signature. Errors: a parameter is missing, repeated or ambiguous.
    pub fn parse(context: &'a Context) -> Result<Option<Sas<'a>>> {
        let query = &context.query;
        if !query.has("sig") {
            return Ok(None);
        }
        check_signed_names(query)?;
        if let Some(name) = repeated(query) {
            return Err(failed(format!("{name} is given more than once.")));
        }
        // A line feed would let one field pass for two in the string to sign.
        if let Some(name) = with_control(query) {
            return Err(failed(format!("{name} has a control character.")));
        }
        let version = query.get_literal("sv").unwrap_or_default();
        let version = ApiVersion::parse(&version)
            .ok_or_else(|| failed("sv is mandatory. Cannot be empty"))?;
        let kind = if query.has("ss") || query.has("srt") {
            Kind::Account
        } else if query.has("skoid") {
            Kind::UserDelegation
        } else {
            Kind::Service
        };
        if kind == Kind::Account && !version.is_at_least(ACCOUNT_VERSION_MIN) {
            return Err(failed(format!(
                "An account SAS needs sv {ACCOUNT_VERSION_MIN} or newer."
            )));
        }
        Ok(Some(Sas {
            query,
            kind,
            version,
        }))
    }

    /// Refuses a SAS if its `se` is later than `longest` after its `st`, or if one of the two is
    /// absent. Exempts a SAS whose expiry is in a stored access policy: the account's owner has set
    /// that expiry. Source: Configure an expiration policy for shared access signatures.
    pub fn check_life(&self, longest: Option<Duration>) -> Result<()> {
        let ends_with_policy = self.policy_name().is_some() && self.optional("se").is_none();
        let Some(longest) = longest.filter(|_| !ends_with_policy) else {
            return Ok(());
        };
        let time = |name: &str| self.either_time(name, None);
        match (time("st")?, time("se")?) {
            (Some(start), Some(expiry)) if expiry <= start + longest => Ok(()),
            _ => Err(failed(format!(
                "The account takes no SAS that is good for more than {} hours from its st.",
                longest.as_secs() / 3600
            ))),
        }
    }

    /// The name of the stored access policy that this SAS refers to. Only a service SAS can refer
    /// to one: the signatures of other SAS do not cover `si`.
    pub fn policy_name(&self) -> Option<Cow<'a, str>> {
        match self.kind {
            Kind::Service => self.optional("si"),
            Kind::Account | Kind::UserDelegation => None,
        }
    }

    /// The table that `tn` names, in lower case.
    pub fn table_name(&self) -> String {
        self.field("tn").to_lowercase()
    }

    /// Checks, in this order: resource, signature, stored access policy, user delegation, times,
    /// address, protocol. Returns the grants.
    pub fn verify(
        self,
        context: &Context,
        keys: &[Vec<u8>],
        policy: Option<&StoredPolicy>,
        bearer: Option<&Bearer>,
    ) -> Result<Grant> {
        let names = Names::of(context)?;
        self.check_resource(context, &names)?;
        let of_data_owner = self.check_signature(context, &names, keys)?;
        if self.policy_name().is_some() && policy.is_none() {
            return Err(failed(
                "The stored access policy that si names does not exist.",
            ));
        }
        let policy = policy.cloned().unwrap_or_default();
        if self.kind == Kind::UserDelegation {
            self.check_delegation(context, bearer)?;
        }
        let permissions = self.either("sp", policy.permission)?;
        let start = self.either_time("st", policy.start)?;
        let expiry = self.either_time("se", policy.expiry)?;
        let permissions = permissions.ok_or_else(|| failed("sp is mandatory. Cannot be empty"))?;
        let expiry = expiry.ok_or_else(|| failed("se is mandatory. Cannot be empty"))?;
        check_times(start, expiry, context.sas_now)?;
        self.check_address(context)?;
        self.check_protocol(context)?;
        let grant = self.grant(context, permissions)?;
        Ok(Grant {
            key_user: grant.key_user.filter(|_| !of_data_owner),
            ..grant
        })
    }

    /// Returns whether the SAS is signed with a user delegation key of a data owner.
    fn check_signature(&self, context: &Context, names: &Names, keys: &[Vec<u8>]) -> Result<bool> {
        let text = self.string_to_sign(context, names);
        // Some hand-made URLs have an unencoded plus, which was decoded to a space.
        let signature = self.field("sig").replace(' ', "+");
        let delegated = |of_data_owner| -> Vec<Vec<u8>> {
            let delegated = DelegationKey {
                of_data_owner,
                ..self.delegation_key()
            };
            keys.iter().map(|key| delegated.value(key)).collect()
        };
        let (keys, keys_of_owner): (Cow<'_, [Vec<u8>]>, _) = match self.kind {
            Kind::UserDelegation => (delegated(false).into(), delegated(true)),
            Kind::Account | Kind::Service => (keys.into(), Vec::new()),
        };
        // Whether the key is one of a data owner; `None` if no key made the signature.
        let signer = |text: &str| {
            let is_good = |keys: &[Vec<u8>]| signature_is_good(keys, text.as_bytes(), &signature);
            is_good(&keys_of_owner)
                .then_some(true)
                .or_else(|| is_good(&keys).then_some(false))
        };
        let mut of_data_owner = signer(&text);
        if of_data_owner.is_none() {
            let as_sent = Names::as_sent(context)?;
            if as_sent != *names {
                of_data_owner = signer(&self.string_to_sign(context, &as_sent));
            }
        }
        of_data_owner.ok_or_else(|| {
            let refusal = failed(format!(
                "Signature did not match. String to sign used was {text}"
            ));
            let advice = "The SAS was changed after it was signed, or signed with a key that the account does not have.";
            refusal.with("ExtendedErrorDetail", advice)
        })
    }

    /// The key that a user delegation SAS claims to be signed with.
    fn delegation_key(&self) -> DelegationKey {
        DelegationKey {
            object_id: self.field("skoid").into_owned(),
            tenant_id: self.field("sktid").into_owned(),
            start: self.field("skt").into_owned(),
            expiry: self.field("ske").into_owned(),
            service: self.field("sks").into_owned(),
            version: self.field("skv").into_owned(),
            delegated_tenant_id: self.field("skdutid").into_owned(),
            of_data_owner: false,
        }
    }

    /// Checks the ids that the SAS names. With `saoid`, the signer vouches for the user's rights.
    /// With `suoid`, the rights that the user has on the path are checked too. `scid` is for the
    /// logs of the signer. Source: Create a user delegation SAS, "Specify a signed object ID".
    fn check_agent(&self, context: &Context) -> Result<()> {
        for name in ["saoid", "suoid", "scid"] {
            let id = self.optional(name);
            if id.is_some_and(|id| Guid::parse(&id).is_none()) {
                return Err(failed(format!("{name} is not a GUID.")));
            }
        }
        match (self.optional("saoid"), self.optional("suoid")) {
            (Some(_), Some(_)) => Err(failed("saoid and suoid exclude each other.")),
            (None, Some(_)) if !context.hierarchical => Err(failed(
                "suoid asks for a check of the user's POSIX rights, which blobs have only in a hierarchical namespace: start Lazurite with --hns.",
            )),
            _ => Ok(()),
        }
    }

    /// Checks a user delegation SAS: no stored access policy, a version that has such SAS, the
    /// service and the lifetime of the key, and the user.
    fn check_delegation(&self, context: &Context, bearer: Option<&Bearer>) -> Result<()> {
        if self.optional("si").is_some() {
            return Err(failed(
                "A user delegation SAS cannot name a stored access policy.",
            ));
        }
        let since = match context.service {
            ServiceKind::Blob => "2018-11-09",
            ServiceKind::Queue | ServiceKind::Table => "2025-07-05",
        };
        if !self.version.is_at_least(since) {
            return Err(failed(format!(
                "A user delegation SAS for this service needs sv {since} or newer."
            )));
        }
        if !context.service.label().starts_with(&*self.field("sks")) || self.field("sks").len() != 1
        {
            return Err(failed("sks is not the service of this request."));
        }
        let time = |name: &str| {
            self.either_time(name, None)?
                .ok_or_else(|| failed(format!("{name} is mandatory. Cannot be empty")))
        };
        let (start, expiry) = (time("skt")?, time("ske")?);
        // User delegation keys are dated by the machine's clock, not by the store's. No SAS is
        // valid after its key expires. Source: Create a user delegation SAS for a container or
        // blob.
        check_times(Some(start), expiry, context.system_now)?;
        self.check_agent(context)?;
        let user = self.optional("sduoid");
        let tenant = self.optional("skdutid");
        let is_user = |bearer: &Bearer| {
            user.as_ref().is_none_or(|id| *id == bearer.object_id)
                && tenant.as_ref().is_none_or(|id| *id == bearer.tenant_id)
        };
        if user.is_none() || bearer.is_some_and(is_user) {
            Ok(())
        } else {
            Err(failed(
                "The SAS is for one user, and no bearer token of that user is shown.",
            ))
        }
    }

    fn grant(&self, context: &Context, permissions: String) -> Result<Grant> {
        let owned = |name: &str| self.optional(name).map(Cow::into_owned);
        let key_range = TableKeyRange {
            start_partition_key: owned("spk"),
            start_row_key: owned("srk"),
            end_partition_key: owned("epk"),
            end_row_key: owned("erk"),
        };
        if self.kind != Kind::Account && context.service == ServiceKind::Table {
            let orphan = (key_range.start_row_key.is_some()
                && key_range.start_partition_key.is_none())
                || (key_range.end_row_key.is_some() && key_range.end_partition_key.is_none());
            if orphan {
                return Err(failed("srk needs spk, and erk needs epk."));
            }
        }
        Ok(Grant {
            account_wide: self.kind == Kind::Account,
            by_account_key: self.kind != Kind::UserDelegation,
            permissions,
            services: self.field("ss").into_owned(),
            resource_types: self.field("srt").into_owned(),
            one_blob: matches!(&*self.field("sr"), "b" | "bs" | "bv"),
            checked_user: owned("suoid").filter(|_| self.kind == Kind::UserDelegation),
            authorized_user: owned("saoid").filter(|_| self.kind == Kind::UserDelegation),
            key_user: owned("skoid").filter(|_| self.kind == Kind::UserDelegation),
            signs_response_headers: match self.kind {
                Kind::Account => false,
                Kind::Service => self.version.is_at_least(OVERRIDES_VERSION_MIN),
                Kind::UserDelegation => true,
            },
            table_name: self.table_name(),
            key_range,
        })
    }

    /// Checks that the version of the SAS supports its `sr`, and that the request is for a resource
    /// of that kind. Source: Create a service SAS, "Specify the signed resource field".
    fn check_resource(&self, context: &Context, names: &Names) -> Result<()> {
        if self.kind == Kind::Account || context.service != ServiceKind::Blob {
            return Ok(());
        }
        let sr = self.field("sr");
        let since = match &*sr {
            "" => return Err(failed("sr is mandatory. Cannot be empty")),
            "b" | "c" => "2009-09-19",
            "bs" => RESOURCE_VERSION_MIN,
            "bv" => "2019-12-12",
            "d" => DIRECTORY_VERSION_MIN,
            _ => return Err(failed(format!("sr '{sr}' is not b, bs, bv, c or d."))),
        };
        if !self.version.is_at_least(since) {
            return Err(failed(format!("sr '{sr}' needs sv {since} or newer.")));
        }
        let snapshot = context.query.get("snapshot").is_some_and(is_given);
        let version = context.query.get("versionid").is_some_and(is_given);
        let fits = match &*sr {
            "c" => true,
            "d" => {
                let depth = self.field("sdd").parse().ok();
                depth.is_some_and(|depth: usize| names.blob.split('/').count() >= depth)
            }
            // Before this version a SAS for a blob covered its snapshots too.
            "b" if !self.version.is_at_least(RESOURCE_VERSION_MIN) => !names.blob.is_empty(),
            "b" => !names.blob.is_empty() && !snapshot && !version,
            "bs" => !names.blob.is_empty() && snapshot && !version,
            _ => !names.blob.is_empty() && version && !snapshot,
        };
        if fits {
            Ok(())
        } else {
            let detail =
                format!("The request is for more, or for something else, than sr '{sr}' names.");
            Err(failed(detail))
        }
    }

    /// `/blob/account/container/name`, decoded: the resource that a service SAS is bound to.
    fn canonicalized_resource(&self, context: &Context, names: &Names) -> String {
        let account = context.account_of_client();
        let prefix = if self.version.is_at_least("2015-02-21") {
            format!("/{}/{account}", context.service.label())
        } else {
            format!("/{account}")
        };
        match context.service {
            ServiceKind::Table => format!("{prefix}/{}", self.table_name()),
            ServiceKind::Queue => format!("{prefix}/{}", names.container),
            ServiceKind::Blob => {
                let Names { container, blob } = names;
                match &*self.field("sr") {
                    "c" => format!("{prefix}/{container}"),
                    "d" => {
                        let depth = self.field("sdd").parse().unwrap_or(0);
                        let directory = blob.split('/').take(depth).collect::<Vec<_>>().join("/");
                        format!("{prefix}/{container}/{directory}")
                    }
                    _ => format!("{prefix}/{container}/{blob}"),
                }
            }
        }
    }

    fn string_to_sign(&self, context: &Context, names: &Names) -> String {
        let resource = || self.canonicalized_resource(context, names);
        match self.kind {
            Kind::Account => self.account_string(&context.account_of_client()),
            Kind::Service => self.service_string(context.service, &resource()),
            Kind::UserDelegation => self.user_delegation_string(context, &resource()),
        }
    }

    fn account_string(&self, account: &str) -> String {
        let mut lines = Vec::with_capacity(SIGNED_LINES_MAX);
        lines.push(account.into());
        lines.extend(self.fields(&["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"]));
        if self.version.is_at_least("2020-12-06") {
            lines.push(self.field("ses"));
        }
        lines.push(Cow::default());
        lines.join("\n")
    }

    fn service_string(&self, service: ServiceKind, resource: &str) -> String {
        let mut lines = Vec::with_capacity(SIGNED_LINES_MAX);
        lines.extend(self.fields(&["sp", "st", "se"]));
        lines.push(resource.into());
        lines.push(self.field("si"));
        if self.version.is_at_least("2015-04-05") {
            lines.extend(self.fields(&["sip", "spr"]));
        }
        if self.version.is_at_least("2012-02-12") {
            lines.push(self.field("sv"));
        }
        match service {
            ServiceKind::Queue => {}
            ServiceKind::Table => lines.extend(self.fields(&["spk", "srk", "epk", "erk"])),
            ServiceKind::Blob => self.push_blob_tail(&mut lines),
        }
        lines.join("\n")
    }

    fn user_delegation_string(&self, context: &Context, resource: &str) -> String {
        let mut lines = Vec::with_capacity(SIGNED_LINES_MAX);
        lines.extend(self.fields(&["sp", "st", "se"]));
        lines.push(resource.into());
        lines.extend(self.fields(&["skoid", "sktid", "skt", "ske", "sks", "skv"]));
        let blob = context.service == ServiceKind::Blob;
        if blob && self.version.is_at_least("2020-02-10") {
            lines.extend(self.fields(&["saoid", "suoid", "scid"]));
        }
        if self.version.is_at_least("2025-07-05") {
            lines.extend(self.fields(&["skdutid", "sduoid"]));
        }
        lines.extend(self.fields(&["sip", "spr", "sv"]));
        if context.service == ServiceKind::Table {
            lines.extend(self.fields(&["spk", "srk", "epk", "erk"]));
        }
        if blob {
            lines.extend(self.fields(&["sr"]));
            lines.push(self.time_of_resource());
            if self.version.is_at_least("2020-12-06") {
                lines.push(self.field("ses"));
            }
            if self.version.is_at_least("2026-04-06") {
                lines.push(self.signed_headers(context).into());
                lines.push(self.signed_parameters().into());
            }
            lines.extend(self.fields(&["rscc", "rscd", "rsce", "rscl", "rsct"]));
        }
        lines.join("\n")
    }

    fn push_blob_tail(&self, lines: &mut Vec<Cow<'a, str>>) {
        if self.version.is_at_least(RESOURCE_VERSION_MIN) {
            lines.push(self.field("sr"));
            lines.push(self.time_of_resource());
        }
        if self.version.is_at_least("2020-12-06") {
            lines.push(self.field("ses"));
        }
        if self.version.is_at_least(OVERRIDES_VERSION_MIN) {
            lines.extend(self.fields(&["rscc", "rscd", "rsce", "rscl", "rsct"]));
        }
    }

    /// The snapshot or version that a SAS with `sr=bs` or `sr=bv` is bound to.
    fn time_of_resource(&self) -> Cow<'a, str> {
        match &*self.field("sr") {
            "bs" => self.field("snapshot"),
            "bv" => self.field("versionid"),
            _ => Cow::default(),
        }
    }

    fn signed_headers(&self, context: &Context) -> String {
        let names = self.field("srh");
        let lines = names.split(',').filter(|name| !name.is_empty());
        lines
            .map(|name| format!("{name}:{}\n", context.header(name).unwrap_or_default()))
            .collect()
    }

    fn signed_parameters(&self) -> String {
        let names = self.field("srq");
        let lines = names.split(',').filter(|name| !name.is_empty());
        lines
            .map(|name| format!("\n{name}:{}", self.field(name)))
            .collect()
    }

    fn field(&self, name: &str) -> Cow<'a, str> {
        self.query.get_literal(name).unwrap_or_default()
    }

    fn fields(&self, names: &[&str]) -> impl Iterator<Item = Cow<'a, str>> {
        names.iter().map(|name| self.field(name))
    }

    fn optional(&self, name: &str) -> Option<Cow<'a, str>> {
        let value = self.query.get_literal(name);
        value.filter(|value| !value.is_empty())
    }

    /// A field that either the SAS or its policy may set. Error: both set it.
    fn either(&self, name: &str, stored: Option<String>) -> Result<Option<String>> {
        match (self.optional(name), stored) {
            (Some(_), Some(_)) => Err(failed(format!(
                "{name} is given both in the SAS and in its stored access policy."
            ))),
            (own, stored) => Ok(own.map(Cow::into_owned).or(stored)),
        }
    }

    fn either_time(&self, name: &str, stored: Option<SystemTime>) -> Result<Option<SystemTime>> {
        let Some(text) = self.optional(name) else {
            return Ok(stored);
        };
        if stored.is_some() {
            return Err(failed(format!(
                "{name} is given both in the SAS and in its stored access policy."
            )));
        }
        let time = date::parse_iso8601(&text);
        time.map(Some)
            .ok_or_else(|| failed(format!("{name} '{text}' is not in the correct format")))
    }

    fn check_address(&self, context: &Context) -> Result<()> {
        let Some(range) = self.optional("sip") else {
            return Ok(());
        };
        let (first, last) = range.split_once('-').unwrap_or((&range, &range));
        let bounds = first
            .parse::<Ipv4Addr>()
            .ok()
            .zip(last.parse::<Ipv4Addr>().ok());
        let (first, last) =
            bounds.ok_or_else(|| failed(format!("sip '{range}' is not in the correct format")))?;
        let peer = match context.peer.ip() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(address) => address.to_ipv4_mapped(),
        };
        if peer.is_some_and(|peer| first <= peer && peer <= last) {
            return Ok(());
        }
        let ip = context.peer.ip();
        let message = format!(
            "This request is not authorized to perform this operation using this source IP {ip}."
        );
        Err(Failure::new(403, "AuthorizationSourceIPMismatch", message)
            .with("SourceIP", ip.to_string()))
    }

    fn check_protocol(&self, context: &Context) -> Result<()> {
        match &*self.field("spr") {
            "" | "https,http" | "http,https" => Ok(()),
            "https" if context.secure => Ok(()),
            "https" => Err(common::PROTOCOL_MISMATCH.into()),
            other => Err(failed(format!(
                "spr '{other}' is not in the correct format"
            ))),
        }
    }
}

/// The names that a service SAS is bound to. A queue's name is in `container`.
#[derive(PartialEq, Eq)]
struct Names {
    container: String,
    blob: String,
}

impl Names {
    /// The decoded names of the request's resource, as the service reads them.
    fn of(context: &Context) -> Result<Names> {
        Names::read(context, blob_names)
    }

    /// The names as sent. The service treats a backslash in a blob's name as a slash, but some
    /// clients sign the name with the backslash.
    fn as_sent(context: &Context) -> Result<Names> {
        Names::read(context, blob_names_as_sent)
    }

    fn read(
        context: &Context,
        of_blob: impl Fn(&Context) -> Result<(String, String)>,
    ) -> Result<Names> {
        let (container, blob) = match context.service {
            ServiceKind::Blob => {
                let (container, blob) = of_blob(context)?;
                match listed_directory(context) {
                    Some(directory) if blob.is_empty() => (container, directory),
                    _ => (container, blob),
                }
            }
            ServiceKind::Queue => {
                let path = decode(&context.resource);
                let queue = path.split('/').next().unwrap_or_default();
                (queue.to_owned(), String::new())
            }
            ServiceKind::Table => Default::default(),
        };
        Ok(Names { container, blob })
    }
}

/// The directory whose paths a request lists: a SAS for the directory covers the listing, and no
/// other operation on the file system. Source: Create a service SAS, "Specify the directory depth".
fn listed_directory(context: &Context) -> Option<String> {
    let resource = context.query.get("resource")?;
    let lists = context.method == Method::GET && resource.eq_ignore_ascii_case("filesystem");
    let directory = context.query.get("directory").filter(|_| lists)?;
    Some(normalized(&directory))
}

fn is_given(text: impl AsRef<str>) -> bool {
    !text.as_ref().is_empty()
}

fn check_times(start: Option<SystemTime>, expiry: SystemTime, now: SystemTime) -> Result<()> {
    if start.is_none_or(|start| start <= now) && now < expiry {
        return Ok(());
    }
    let start = start.map_or(String::new(), date::rfc1123);
    Err(failed(format!(
        "Signature not valid in the specified time frame: Start [{start}] - Expiry [{}] - Current [{}]",
        date::rfc1123(expiry),
        date::rfc1123(now)
    )))
}

#[cfg(test)]
#[path = "sas_tests.rs"]
mod tests;
