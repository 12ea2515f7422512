//! The properties of one service of one account, as plain data.

use crate::properties::cors::CorsRule;
use crate::request::context::ApiVersion;
use std::borrow::Cow;

/// The container that logs are written to.
pub const LOGS_CONTAINER: &str = "$logs";
/// The container that websites are served from.
pub const WEBSITE_CONTAINER: &str = "$web";

/// The properties of one service of one account. Source: Set Blob Service Properties.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceProperties {
    pub logging: Logging,
    pub hour_metrics: Metrics,
    pub minute_metrics: Metrics,
    /// The CORS rules, in the order in which they are tried.
    pub cors: Vec<CorsRule>,
    /// The API version for requests that name none; Blob service only.
    pub default_service_version: Option<ApiVersion>,
    pub delete_retention: DeleteRetention,
    pub static_website: StaticWebsite,
    /// The rule of `--cors`, which is neither stored nor returned.
    pub cors_at_start: Option<CorsRule>,
}

impl ServiceProperties {
    /// The CORS rules in the order in which they are tried: the stored ones, then that of the
    /// command line.
    pub fn cors_rules(&self) -> Cow<'_, [CorsRule]> {
        match &self.cors_at_start {
            None => Cow::Borrowed(&self.cors),
            Some(last) => self.cors.iter().chain([last]).cloned().collect(),
        }
    }

    /// Whether requests are counted.
    pub fn keeps_metrics(&self) -> bool {
        self.hour_metrics.enabled || self.minute_metrics.enabled
    }
}

/// Which requests are logged, and how long the logs are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logging {
    pub version: LogVersion,
    pub delete: bool,
    pub read: bool,
    pub write: bool,
    /// Days for which logs are kept; `None`: the retention policy is disabled, and they stay.
    pub retention_days: Option<u16>,
}

impl Logging {
    /// Whether anything is logged.
    pub fn is_on(&self) -> bool {
        self.delete || self.read || self.write
    }

    /// Whether operations of this class are logged.
    pub fn covers(&self, class: LogClass) -> bool {
        match class {
            LogClass::Read => self.read,
            LogClass::Write => self.write,
            LogClass::Delete => self.delete,
        }
    }
}

/// The two forms of a line in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogVersion {
    #[default]
    One,
    /// Adds the ids of a bearer and further fields to the line.
    Two,
}

impl LogVersion {
    pub fn text(self) -> &'static str {
        match self {
            LogVersion::One => "1.0",
            LogVersion::Two => "2.0",
        }
    }
}

/// Which metrics are kept, and for how long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    pub enabled: bool,
    /// Whether metrics are also kept for each operation.
    pub include_apis: bool,
    /// Days for which metrics are kept; `None`: the retention policy is disabled, and they stay.
    pub retention_days: Option<u16>,
}

/// How long deleted blobs are kept. If `days` is `None`, they are removed at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteRetention {
    pub days: Option<u16>,
    pub allow_permanent_delete: bool,
}

/// Settings of the static website in the container `$web`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StaticWebsite {
    pub enabled: bool,
    /// The name of the index page in each directory.
    pub index_document: Option<String>,
    /// The path of one index page for all directories. Excludes `index_document`.
    pub default_index_document_path: Option<String>,
    pub error_document_404_path: Option<String>,
}

/// The class of an operation, which the account's settings may exclude from logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogClass {
    Read,
    Write,
    Delete,
}

impl LogClass {
    /// The name of the class in the metadata of a log, `LogType`.
    pub fn name(self) -> &'static str {
        match self {
            LogClass::Read => "read",
            LogClass::Write => "write",
            LogClass::Delete => "delete",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_logged_by_its_own_flag() {
        let classes = [LogClass::Read, LogClass::Write, LogClass::Delete];
        for on in classes {
            let logging = Logging {
                read: on == LogClass::Read,
                write: on == LogClass::Write,
                delete: on == LogClass::Delete,
                ..Logging::default()
            };
            assert!(logging.is_on());
            for class in classes {
                assert_eq!(logging.covers(class), class == on);
            }
        }
        assert!(!Logging::default().is_on());
        assert_eq!(classes.map(LogClass::name), ["read", "write", "delete"]);
    }

    #[test]
    fn requests_are_counted_by_the_hour_or_by_the_minute() {
        let metrics = |enabled| Metrics {
            enabled,
            ..Metrics::default()
        };
        for (hour, minute) in [(false, false), (true, false), (false, true), (true, true)] {
            let properties = ServiceProperties {
                hour_metrics: metrics(hour),
                minute_metrics: metrics(minute),
                ..ServiceProperties::default()
            };
            assert_eq!(properties.keeps_metrics(), hour | minute);
        }
    }

    #[test]
    fn the_rule_of_the_command_line_is_tried_last() {
        let rule = |origin: &str| CorsRule {
            allowed_origins: vec![origin.to_owned()],
            allowed_methods: Vec::new(),
            allowed_headers: Vec::new(),
            exposed_headers: Vec::new(),
            max_age_seconds: 0,
        };
        let mut properties = ServiceProperties {
            cors: vec![rule("a")],
            ..ServiceProperties::default()
        };
        assert_eq!(*properties.cors_rules(), [rule("a")]);
        properties.cors_at_start = Some(rule("b"));
        assert_eq!(*properties.cors_rules(), [rule("a"), rule("b")]);
    }
}
