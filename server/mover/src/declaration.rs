//! A short TOML file for `--seed`: names of containers, queues and tables with their settings, and
//! CORS rules.
//!
//! ```toml
//! [containers.photos]
//! access = "blob"
//! metadata = { owner = "anna" }
//!
//! [queues.work]
//! [tables.Customers]
//!
//! [[cors]]
//! services = ["blob", "table"]
//! origins = ["http://localhost:3000"]
//! methods = ["GET", "PUT"]
//! ```
//!
//! The file becomes a directory in the layout of an export. Before that it is checked as a whole,
//! so that errors name its lines.

use crate::checks::{check_container_name, check_metadata_texts, check_service_properties};
use crate::fields::{at, properties_path};
use crate::files::Target;
use lazurite_protocol::properties::cors;
use lazurite_protocol::resource_names::{check_queue_name, check_table_name};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::platform::patiently;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

const BYTES_MAX: u64 = 1 << 20;
const MAX_AGE_SECONDS_DEFAULT: u32 = 3600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declaration {
    #[serde(default)]
    containers: BTreeMap<Spanned<String>, Container>,
    #[serde(default)]
    queues: BTreeMap<Spanned<String>, Queue>,
    #[serde(default)]
    tables: BTreeMap<Spanned<String>, Table>,
    #[serde(default)]
    cors: Vec<Spanned<CorsRule>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Container {
    access: Option<Access>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Access {
    Blob,
    Container,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CorsRule {
    /// The services that the rule applies to; all three if absent.
    services: Option<Vec<Service>>,
    origins: Vec<String>,
    methods: Vec<String>,
    #[serde(default)]
    headers: Vec<String>,
    #[serde(default)]
    exposed_headers: Vec<String>,
    max_age_seconds: Option<u32>,
}

impl CorsRule {
    fn rule(&self) -> cors::CorsRule {
        let age = self.max_age_seconds.unwrap_or(MAX_AGE_SECONDS_DEFAULT);
        cors::CorsRule {
            allowed_origins: self.origins.clone(),
            allowed_methods: self.methods.clone(),
            allowed_headers: self.headers.clone(),
            exposed_headers: self.exposed_headers.clone(),
            max_age_seconds: age.into(),
        }
    }
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Service {
    Blob,
    Queue,
    Table,
}

impl Service {
    fn kind(&self) -> ServiceKind {
        match self {
            Service::Blob => ServiceKind::Blob,
            Service::Queue => ServiceKind::Queue,
            Service::Table => ServiceKind::Table,
        }
    }
}

/// Whether a path is that of a declaration.
pub fn is_name(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

/// Writes the layout for a declaration. The error gives the line.
pub fn convert(path: &Path, target: &Target<'_>) -> Result<(), String> {
    let mut bytes = Vec::new();
    let file = patiently(|| File::open(path)).map_err(|error| at(path, error))?;
    let read = file.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(|error| at(path, error))? as u64 > BYTES_MAX {
        return Err(format!("it has more than {BYTES_MAX} bytes"));
    }
    let text = text_of(bytes)?;
    let file = Checked { text: &text };
    let declaration: Declaration = toml::from_str(&text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        file.error(&span, &error.message())
    })?;
    file.write_settings(&declaration, target)?;
    for (path, document) in file.properties(&declaration.cors)? {
        target.write(&path, document.as_bytes())?;
    }
    Ok(())
}

fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let wrong = error.utf8_error();
        let before = &error.as_bytes()[..wrong.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: {wrong}")
    })
}

/// The text of the file, from which errors compute the line.
struct Checked<'a> {
    text: &'a str,
}

impl Checked<'_> {
    fn error(&self, span: &Range<usize>, reason: &dyn std::fmt::Display) -> String {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        format!("line {}: {reason}", before.matches('\n').count() + 1)
    }

    /// Writes the settings of all declared containers, queues and tables.
    fn write_settings(&self, declaration: &Declaration, target: &Target<'_>) -> Result<(), String> {
        for (name, container) in &declaration.containers {
            let checked = check_container_name(name.as_ref());
            checked.map_err(|error| self.error(&name.span(), &error))?;
            let mut settings = self.metadata(name, &container.metadata)?;
            let access = container.access.as_ref().map(|access| match access {
                Access::Blob => "blob",
                Access::Container => "container",
            });
            settings.extend(access.map(|access| ("publicAccess".to_owned(), json!(access))));
            target.write_settings(&format!("blobs/{}.json", name.as_ref()), settings)?;
        }
        for (name, queue) in &declaration.queues {
            let checked = check_queue_name(name.as_ref());
            checked.map_err(|error| self.error(&name.span(), &error))?;
            let settings = self.metadata(name, &queue.metadata)?;
            target.write_settings(&format!("queues/{}.json", name.as_ref()), settings)?;
        }
        let mut tables = HashSet::new();
        for name in declaration.tables.keys() {
            let checked = check_table_name(name.as_ref());
            checked.map_err(|error| self.error(&name.span(), &error))?;
            if !tables.insert(name.as_ref().to_ascii_lowercase()) {
                let reason = "two tables have this name, as case does not matter";
                return Err(self.error(&name.span(), &reason));
            }
            target.write_settings(&format!("tables/{}.json", name.as_ref()), Map::new())?;
        }
        Ok(())
    }

    fn metadata(
        &self,
        of: &Spanned<String>,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Map<String, Value>, String> {
        let checked = check_metadata_texts(metadata);
        checked.map_err(|reason| {
            let reason = format!("metadata of {}: {reason}", of.as_ref());
            self.error(&of.span(), &reason)
        })?;
        Ok(Map::from_iter([("metadata".to_owned(), json!(metadata))]))
    }

    /// The path and the document of each service's properties.
    fn properties(&self, rules: &[Spanned<CorsRule>]) -> Result<Vec<(String, String)>, String> {
        let mut all = Vec::new();
        for service in [Service::Blob, Service::Queue, Service::Table] {
            let is_of_service = |rule: &&Spanned<CorsRule>| {
                let services = rule.as_ref().services.as_ref();
                services.is_none_or(|services| services.contains(&service))
            };
            let mut of_service = Vec::new();
            for rule in rules.iter().filter(is_of_service) {
                of_service.push(rule.as_ref().rule());
                // Checked after each rule, so that the error points to the invalid one.
                let document = cors::document(&of_service);
                let checked = check_service_properties(service.kind(), document.as_bytes());
                checked.map_err(|reason| {
                    self.error(&rule.span(), &format!("the CORS rule is refused: {reason}"))
                })?;
            }
            if !of_service.is_empty() {
                let path = properties_path(service.kind());
                all.push((path, cors::document(&of_service)));
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(text: &str) -> Result<tempfile::TempDir, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seed.toml");
        std::fs::write(&path, text).unwrap();
        let root = directory.path().join("layout");
        let target = Target::new(&root);
        convert(&path, &target).map(|()| directory)
    }

    #[test]
    fn declared_names_become_the_layout_of_an_export() {
        let text = r#"
            [containers.photos]
            access = "blob"
            metadata = { owner = "anna" }
            [containers."$web"]
            [queues.work]
            [tables.Customers]
            [[cors]]
            services = ["blob", "table"]
            origins = ["http://localhost:3000"]
            methods = ["GET", "PUT"]
        "#;
        let directory = converted(text).unwrap();
        let read = |path: &str| {
            std::fs::read_to_string(directory.path().join("layout").join(path)).unwrap_or_default()
        };
        assert!(read("blobs/photos.json").contains(r#""publicAccess": "blob""#));
        assert!(read("blobs/photos.json").contains(r#""owner": "anna""#));
        for path in [
            "blobs/$web.json",
            "queues/work.json",
            "tables/Customers.json",
        ] {
            assert!(!read(path).is_empty(), "{path}");
        }
        assert!(read("services/blob.xml").contains("<AllowedMethods>GET,PUT<"));
        assert_eq!(read("services/queue.xml"), "");
        assert_eq!(read("services/table.xml"), read("services/blob.xml"));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, line, reason) in [
            ("[containers.photos]\naccess = \"all\"", 2, "all"),
            ("[containers.photos]\n[containers.Lake]", 2, "name"),
            ("[queues.work]\n\nmetadta = 1", 3, "metadta"),
            ("[tables.Customers]\nx = 1", 2, "x"),
            ("[tables.1st]", 1, "name"),
            (
                "[queues.work]\n[containers.\"$logs\"]",
                2,
                "the service itself",
            ),
            ("[queues.work]\n[queues.work]", 2, "duplicate"),
            (
                "[queues.work]\nmetadata = { \"a b\" = \"c\" }",
                1,
                "metadata of work",
            ),
            ("[queues.work]\nmetadata = { a = \"c\\n\" }", 1, "control"),
            ("\n[[cors]]\norigins = [\"*\"]", 2, "methods"),
            (
                "[[cors]]\norigins=[\"*\"]\nmethods=[\"GET\"]\n[[cors]]\norigins=[\"*\"]\nmethods=[\"FLY\"]",
                4,
                "FLY",
            ),
            ("[tables.Tab]\n[tables.tab]", 2, "case does not matter"),
            ("[queues.q1]", 1, "the name of a queue has 3 to 63"),
            ("[queues", 1, ""),
            ("blobs = 1", 1, "blobs"),
        ] {
            let error = converted(text).map(drop).unwrap_err();
            let place = format!("line {line}: ");
            assert!(
                error.starts_with(&place) && error.contains(reason),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn line_that_is_no_text_is_named() {
        let reason = text_of(b"[queues.work]\n# \xff\n".to_vec()).unwrap_err();
        assert!(reason.starts_with("line 2: "), "{reason}");
    }

    #[test]
    fn deep_and_long_files_are_errors() {
        for text in [
            "a = ".to_owned() + &"[".repeat(500_000),
            "#".repeat(2 << 20),
        ] {
            assert!(converted(&text).is_err());
        }
    }
}
