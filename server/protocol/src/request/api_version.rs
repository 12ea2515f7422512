//! API versions: dates that requests name and responses follow.

/// A REST API version: a date, valid if well-formed and not before the first version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion(String);

impl ApiVersion {
    const OLDEST: &'static str = "2009-04-14";
    pub const NEWEST: &'static str = "2026-10-06";

    /// The version for requests that name none.
    pub fn newest() -> ApiVersion {
        ApiVersion(Self::NEWEST.to_owned())
    }

    /// `None` unless `text` is `YYYY-MM-DD`, a real date, and not before the first version.
    pub fn parse(text: &str) -> Option<ApiVersion> {
        let valid = text.len() == 10 && crate::date::is_date(text) && text >= Self::OLDEST;
        valid.then(|| ApiVersion(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_at_least(&self, text: &str) -> bool {
        self.0.as_str() >= text
    }
}
