//! `lazurite export` and `lazurite import`: everything that an account stores, as files that people
//! can read and edit. `lazurite copy`: the same between two servers, without files (`copy/`).
//!
//! The layout, which `docs/export.md` describes for users:
//!
//! ```text
//! lazurite-export.json          the version of the layout; written last
//! services/blob.xml             service properties, as the service shows them; also queue.xml, table.xml
//! blobs/photos.json             a container: public access, metadata, stored access policies
//! blobs/photos.blobs.jsonl      its blobs, one JSON object a line
//! blobs/photos/2026/lake.jpg    their content
//! queues/work.json              a queue: metadata, stored access policies
//! queues/work.messages.jsonl    its messages, the next one first
//! tables/Customers.json         a table: stored access policies
//! tables/Customers.entities.jsonl
//! ```
//!
//! An archive is the same as a tar file, compressed by Zstandard. An export is written under a
//! temporary name next to its path, and renamed. Directories and archives are not trusted: paths
//! stay inside, links are refused, lines and settings have limits.

mod archive;
pub mod azurite;
mod blobs;
mod checks;
mod content;
mod copy;
mod declaration;
mod error;
mod export;
mod files;
mod import;
mod key_hashes;
mod parallel;
mod policies;
mod progress;
mod queues;
mod resource_kind;
mod scratch;
mod tables;

pub use archive::{UnpackLimits, is_name as is_archive_name, pack_into};
pub use copy::{Options as CopyOptions, run as run_copy};
pub use error::{Error, Result};
pub use import::{Existing, Imported, unpack};
pub use scratch::scratch_in;

use crate::codec::xml::Element;
use crate::commands::client::{Call, Client, Reply};
use crate::commands::request_error::RequestError;
use crate::commands::{plain, print_line};
use crate::http_client::Upload;
use crate::resource_names;
use crate::service_kind::ServiceKind;
use export::properties_path;
use files::Source;
use progress::Progress;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The version of the layout.
const FORMAT: u64 = 1;
const MANIFEST: &str = "lazurite-export.json";
/// Containers that the service refuses to make for clients.
const SYSTEM_CONTAINERS: [&str; 2] = ["$logs", "$blobchangefeed"];
/// How often a request is sent again that was answered 503.
const BUSY_TRIES_MAX: u32 = 30;
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// The wait before a request is sent again after its connection broke; it doubles each time.
const BROKEN_WAIT: Duration = Duration::from_millis(100);
const BROKEN_WAIT_MAX: Duration = Duration::from_secs(5);

/// The name of a container, a queue or a table, with its settings.
type Resource = (String, Map<String, Value>);

/// Why not everything was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportError {
    /// What is to be imported has a fault. Nothing was imported.
    Content(Error),
    /// This container, queue or table holds something. Nothing was imported.
    InUse(String),
    /// Another failure before the first write. Nothing was imported.
    NotBegun(Error),
    /// A failure after the first write. What came before it is imported.
    Begun(Error),
}

impl ImportError {
    /// The error of an archive, with its path.
    fn of(self, path: &Path) -> ImportError {
        match self {
            ImportError::Content(error) => ImportError::Content(error.within(path.display())),
            other => other,
        }
    }
}

impl From<Error> for ImportError {
    fn from(error: Error) -> ImportError {
        ImportError::NotBegun(error)
    }
}

impl From<String> for ImportError {
    fn from(error: String) -> ImportError {
        ImportError::NotBegun(error.into())
    }
}

/// A clause, without a full stop, with the choices that a user has about existing items. `option`
/// precedes the value of the option.
pub fn choices_about_existing(option: &str) -> String {
    format!(
        "With {option}skip it stays as it is; with {option}replace, blobs and entities of the same names are replaced, and the messages of \
         queues are deleted first"
    )
}

/// The sentence that the commands print.
impl From<ImportError> for String {
    fn from(error: ImportError) -> String {
        match error {
            ImportError::InUse(name) => format!(
                "{name} is there and holds something. Nothing was imported. {}",
                choices_about_existing("--existing ")
            ),
            ImportError::Content(error)
            | ImportError::NotBegun(error)
            | ImportError::Begun(error) => error.to_string(),
        }
    }
}

/// Exports, and says what. The exit status is a failure if anything was left out.
pub fn run_export(client: &Client, path: &Path) -> Result<ExitCode, String> {
    let exported = export::export(client, path)?;
    for sentence in &exported.left_out {
        eprintln!("not exported: {}", plain(sentence));
    }
    if exported.unprotected > 0 {
        eprintln!(
            "exported without immutability policies and legal holds: {} blobs",
            exported.unprotected
        );
    }
    print_line(format_args!("{}: {}", path.display(), exported.counts));
    Ok(if exported.left_out.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Imports, and says what.
pub fn run_import(client: &Client, path: &Path, existing: Existing) -> Result<ExitCode, String> {
    let imported = import::import(client, path, existing, &|| Ok(()))?;
    for sentence in &imported.notes {
        print_line(plain(sentence));
    }
    print_line(format_args!("{}: {}", path.display(), imported.counts));
    Ok(ExitCode::SUCCESS)
}

/// What [`seed`] has done.
pub struct Seeded {
    pub sentences: Vec<String>,
    /// The first container, queue or table that was there already and stayed as it was.
    pub skipped: Option<String>,
}

/// Imports into the server of a connection string, and skips what exists. Calls `begin` after all
/// checks and before the first write.
pub fn seed(
    connection_string: &str,
    path: &Path,
    begin: &dyn Fn() -> Result<(), String>,
) -> Result<Seeded, String> {
    let client = Client::new(Some(connection_string))?;
    let imported = import::import(&client, path, Existing::Skip, begin)?;
    let mut sentences = imported.notes;
    sentences.push(format!("{}: {}", path.display(), imported.counts));
    Ok(Seeded {
        sentences,
        skipped: imported.skipped,
    })
}

/// Exports the store of a connection string to an archive, which replaces an earlier one. Returns a
/// sentence. Fails if something was left out; then the earlier archive stays.
pub fn carry(connection_string: &str, path: &Path) -> Result<String, String> {
    let client = Client::new(Some(connection_string))?;
    let exported = export::replace(&client, path)?;
    Ok(format!(
        "exported to {}: {}",
        path.display(),
        exported.counts
    ))
}

/// Exports the store of a connection string to an empty directory, for [`pack_into`]. Returns
/// sentences about what was left out, and the number of blobs that are exported without their
/// immutability policy or legal hold.
pub fn export_to(connection_string: &str, root: &Path) -> Result<(Vec<String>, u64)> {
    export::write_to(&Client::new(Some(connection_string))?, root)
}

/// Imports a directory that [`unpack`] has made into the store of a connection string. Ends early
/// once `stop` is true.
pub fn import_unpacked(
    connection_string: &str,
    root: &Path,
    existing: Existing,
    stop: &AtomicBool,
) -> Result<Imported, ImportError> {
    let client = Client::new(Some(connection_string))?;
    let source = Source::stoppable(root, stop);
    import::import_directory(&client, &source, existing, Progress::silent(), &|| Ok(()))
}

/// Sends a request without a body, again while the service is busy.
fn ask(client: &Client, service: ServiceKind, method: &str, resource: &str) -> Result<Reply> {
    patiently(client, || client.ask(service, method, resource.to_owned()))
}

/// Asks for a document.
fn ask_xml(client: &Client, service: ServiceKind, resource: &str) -> Result<Element> {
    patiently(client, || {
        client.ask(service, "GET", resource.to_owned())?.xml()
    })
}

/// Sends a request with a body from memory, again while the service is busy.
fn send(
    client: &Client,
    service: ServiceKind,
    method: &str,
    resource: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Reply> {
    let open = || Ok(Upload::of(body.to_vec()));
    send_opened(client, service, method, resource, headers, open)
}

/// Sends a request whose body `open` opens anew for each try.
fn send_opened(
    client: &Client,
    service: ServiceKind,
    method: &str,
    resource: &str,
    headers: &[(String, String)],
    open: impl Fn() -> Result<Upload>,
) -> Result<Reply> {
    // The values come from unchecked files.
    let is_plain = |text: &str| !text.chars().any(cannot_be_sent);
    let mut broken = headers
        .iter()
        .filter(|(name, value)| !is_plain(name) || !is_plain(value));
    if let Some((name, _)) = broken.next() {
        let reason = format!("{}: it holds a control character", name.escape_default());
        return Err(RequestError::Unsent(reason).into());
    }
    patiently(client, || {
        let body = open()?;
        let call = Call {
            service,
            method,
            resource: resource.to_owned(),
            headers: headers.to_vec(),
        };
        client.send(call, body).map_err(Error::from)
    })
}

/// Repeats a request with growing waits: while the service is busy, and after a broken connection
/// for as long as the client says.
fn patiently<T, E: Into<Error>>(client: &Client, send: impl Fn() -> Result<T, E>) -> Result<T> {
    let mut tries = 1;
    let mut wait = BROKEN_WAIT;
    let mut broken_since = None;
    loop {
        let error = match send() {
            Ok(done) => return Ok(done),
            Err(error) => error.into(),
        };
        if error.is_busy() && tries < BUSY_TRIES_MAX {
            tries += 1;
            std::thread::sleep(BUSY_WAIT);
        } else if error.is_broken() {
            let since = *broken_since.get_or_insert_with(Instant::now);
            if since.elapsed() + wait > client.retry {
                return Err(error);
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(BROKEN_WAIT_MAX);
        } else {
            return Err(error);
        }
    }
}

/// Error: no container of that name can be made by an import.
fn check_container_name(name: &str) -> Result<(), String> {
    resource_names::check_container_name(name)?;
    if SYSTEM_CONTAINERS.contains(&name) {
        return Err("only the service itself makes this container and writes to it".to_owned());
    }
    Ok(())
}

/// Text in a query.
fn in_query(text: &str) -> String {
    crate::commands::client::encode(text).replace('/', "%2F")
}

/// A header with its value.
fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The text of a field of a JSON object; `None` if it is absent.
fn text_field<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{name}: {other} is no text")),
    }
}

/// The texts of a field that is a JSON object of texts; none if it is absent.
fn texts_field<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
) -> Result<Vec<(&'a str, &'a str)>, String> {
    let texts = match fields.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(texts)) => texts,
        Some(other) => return Err(format!("{name}: {other} is no JSON object")),
    };
    let text = |(key, value): (&'a String, &'a Value)| match value {
        Value::String(value) => Ok((key.as_str(), value.as_str())),
        other => Err(format!("{name}.{key}: {other} is no text")),
    };
    texts.iter().map(text).collect()
}

/// Whether no header can have the character. A tab can stand in one.
fn cannot_be_sent(character: char) -> bool {
    character.is_control() && character != '\t'
}

/// Header lines of metadata.
fn metadata_headers(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let metadata = texts_field(fields, "metadata")?;
    let headers = metadata.into_iter().map(|(name, value)| {
        let is_plain = |text: &str| !text.chars().any(cannot_be_sent);
        if is_plain(name) && is_plain(value) && !name.contains(':') {
            Ok((format!("x-ms-meta-{name}"), value.to_owned()))
        } else {
            Err(format!("metadata.{name}: it holds a control character"))
        }
    });
    headers.collect()
}

/// Error: the service refuses such metadata, or a value cannot stand in the header of a request.
fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), String> {
    let pairs: Vec<_> = metadata.clone().into_iter().collect();
    checks::check_pairs(&pairs)?;
    check_texts(metadata)
}

/// Error: a text cannot stand in the header of a request.
fn check_texts(texts: &BTreeMap<String, String>) -> Result<(), String> {
    let mut broken = texts
        .iter()
        .filter(|(_, text)| text.chars().any(cannot_be_sent));
    match broken.next() {
        Some((name, _)) => Err(format!("{name}: it holds a control character")),
        None => Ok(()),
    }
}

/// As [`io::Error`], with the path of the file.
fn at(path: &std::path::Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}
