//! Exports and imports over HTTP: `lazurite export` and `lazurite import` within the running
//! server, by the same requests.
//!
//! An export reads a fork, which shows the store at one moment and ends with the export. The files
//! of an export, and those of an imported archive, are in a directory `.transfer-…`, which is
//! removed afterwards. It is below the data directory, where the next start removes it after a
//! kill. For a store in memory, it is below the system's temporary directory.
//!
//! An export ends when its client leaves. An import continues without its client once the archive
//! has arrived, and can be stopped.

use crate::archive::{UnpackLimits, pack_into};
use crate::client::Client;
use crate::error::Error as TransferError;
use crate::existing::{Existing, choices_about_existing};
use crate::export::export_directory;
use crate::files::Source;
use crate::formats::unpack;
use crate::import::import_directory;
use crate::import_error::ImportError;
use crate::progress::{LEFT_OUT_KEPT, Progress};
use crate::scratch::scratch_in;
use axum::body::Body;
use bytes::{Buf, Bytes};
use lazurite_base::locks::lock;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_services::connection::on_blocking_pool;
use lazurite_services::local_services::{LocalAccount, LocalServices, Stopping};
use lazurite_services::platform::patiently;
use lazurite_services::request::body::RequestBody;
use lazurite_services::response::written::written_by;
use lazurite_services::state::{ForkSource, HeldFork, Stores, bytes_below, fork_not_found};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How to repeat an import without `replace` that ended early.
const REPEATED: &str = "To repeat it, delete what is there in part, or import with existing=replace, which also replaces what was there \
     before.";
/// How to repeat an import with `replace` that ended early.
const REPEATED_REPLACING: &str =
    "It can be repeated as it is. A lease, legal hold or policy on what is there must end before.";

/// How to repeat an import that ended early.
fn repeated(existing: Existing) -> &'static str {
    match existing {
        Existing::Replace => REPEATED_REPLACING,
        Existing::Refuse | Existing::Skip => REPEATED,
    }
}

/// Maximum number of exports at a time. Each holds a copy of its content on the disk.
const EXPORTS_MAX: usize = 2;
const EXPORTS_UNDER_WAY: &str =
    "Two exports are under way. Send this one again when one of them has ended.";
/// Maximum number of imports at a time. A second one could find resources of the first.
const IMPORTS_MAX: usize = 1;
const IMPORT_UNDER_WAY: &str = "Another import is under way. Send this one again when it has ended, or end that with \
     DELETE /_lazurite/state/import.";
/// Maximum size of an archive and of its unpacked content. The commands have no such limit.
pub const ARCHIVE_BYTES_MAX: u64 = 256 << 30;
/// Maximum number of files and directories in an archive, where each may take only a few bytes.
const ENTRIES_MAX: u64 = 1 << 20;
/// Number of bytes that unpacking leaves free on the disk, for the store.
const SPARE_BYTES: u64 = 256 << 20;
/// The prefix of directories with intermediate files.
const SCRATCH: &str = ".transfer-";
/// Number of bytes of an archive that are sent at a time, and maximum number of such pieces that
/// wait for the network or the disk.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 4;
/// Interval at which a connection checks whether its client is still there.
const TICK: Duration = Duration::from_millis(100);

/// The state that exports and imports share.
pub struct Transfers {
    services: LocalServices,
    /// The data directory; `None` for a store in memory.
    directory: Option<PathBuf>,
    /// Maximum number of bytes of the data directory on disk.
    quota: Option<u64>,
    exports: Arc<Semaphore>,
    imports: Arc<Semaphore>,
    /// Stops the import under way.
    stop: Mutex<Weak<Stop>>,
}

/// A request to stop an import.
#[derive(Debug, Default)]
struct Stop {
    is_wanted: AtomicBool,
    wanted: Notify,
}

impl Stop {
    fn stop(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
        self.wanted.notify_waiters();
        self.wanted.notify_one();
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }
}

/// Drop guard: ends the unpacking of an archive if the client disconnects.
struct StopOnDrop(Option<Arc<Stop>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.stop();
        }
    }
}

/// The content of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exported {
    /// A fork, which may change during the export.
    Fork(String),
    /// A fork of this source, made for the export.
    Source(ForkSource),
}

/// An export that is ready to be packed. Its drop removes the files.
pub struct Export {
    files: TempDir,
    /// Sentences about items that were left out.
    pub left_out: Vec<String>,
    /// Number of blobs exported without their immutability policy or legal hold.
    pub unprotected: u64,
    turn: OwnedSemaphorePermit,
}

/// The target of an import.
pub struct Destination {
    pub account: String,
    /// Held to the end of the import: the upload may take longer than a fork lives without
    /// requests.
    pub fork: Option<HeldFork>,
    pub existing: Existing,
}

impl Transfers {
    /// `directory` is the data directory; `None` for a store in memory.
    pub fn new(
        services: LocalServices,
        directory: Option<PathBuf>,
        quota: Option<u64>,
    ) -> Transfers {
        Transfers {
            services,
            directory,
            quota,
            stop: Mutex::default(),
            exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
            imports: Arc::new(Semaphore::new(IMPORTS_MAX)),
        }
    }

    /// Writes everything that an account stores to files. Ends if the future is dropped. Errors:
    /// `ForkNotFound`; `SnapshotNotFound`; `409` if too many are under way; `507`.
    pub async fn export(
        &self,
        stores: &Arc<Stores>,
        account: String,
        exported: Exported,
    ) -> Result<Export> {
        let turn = turn(&self.exports, EXPORTS_UNDER_WAY)?;
        let fork = ExportedFork::of(stores, exported).await?;
        let directory = self.directory.clone();
        let name = fork.name.clone();
        let services = self.services.clone();
        let exporting = services.while_served(move |accounts: &[LocalAccount]| {
            let account = find(accounts, &account)?;
            let files = scratch(directory.as_deref())?;
            let client = Client::new(Some(&account.connection_string_in(&name)))?;
            let progress = Progress::silent();
            let exported = export_directory(&client, files.path(), progress, LEFT_OUT_KEPT)?;
            Ok::<_, TransferError>((files, exported))
        });
        let exported = with_ticks(exporting).await;
        let (files, exported) = exported
            .map_err(|Stopping| Failure::busy("The server is stopping."))?
            .map_err(export_failure)?;
        Ok(Export {
            files,
            left_out: exported.left_out,
            unprotected: exported.unprotected,
            turn,
        })
    }

    /// Imports an archive, which is unpacked as it arrives. Once the last byte has arrived, it is
    /// imported even if the future is dropped. Returns the counts, and sentences about what already
    /// existed. Errors: `400`; `404` if the fork was released meanwhile; `409` if something exists
    /// or another import is under way; `413`; `507`.
    pub async fn import(
        &self,
        stores: &Stores,
        destination: Destination,
        body: RequestBody,
    ) -> Result<Value> {
        let turn = turn(&self.imports, IMPORT_UNDER_WAY)?;
        let stop = Arc::<Stop>::default();
        *lock(&self.stop) = Arc::downgrade(&stop);
        let (files, turn) = self.receive(body, stop.clone(), turn).await?;
        if let Some(fork) = &destination.fork {
            stores.check_held(fork)?;
        }
        let existing = destination.existing;
        let services = self.services.clone();
        let is_stopped = stop.clone();
        let importing = services.while_served(move |accounts: &[LocalAccount]| {
            // Held until the work has ended, even if the import is stopped.
            let _turn = turn;
            let account = find(accounts, &destination.account)?;
            let connection_string = match &destination.fork {
                Some(fork) => account.connection_string_in(&fork.name),
                None => account.connection_string(),
            };
            let client = Client::new(Some(&connection_string))?;
            let source = Source::stoppable(files.path(), &is_stopped.is_wanted);
            let progress = Progress::silent();
            let imported = import_directory(&client, &source, existing, progress, &|| Ok(()))?;
            Ok::<_, ImportError>(json!({"imported": imported.json, "notes": imported.notes}))
        });
        let stopping = stop.clone();
        let imported = tokio::spawn(async move {
            tokio::select! {
                imported = importing => Some(imported),
                // Dropping the import closes its services, so that its next request fails.
                () = stopping.wanted.notified() => None,
            }
        });
        match imported.await {
            Ok(None) => Err(stopped("A part of the archive may have been imported.")),
            Ok(Some(_)) if stop.is_wanted() => {
                Err(stopped("A part of the archive may have been imported."))
            }
            Ok(Some(imported)) => imported
                .map_err(|Stopping| {
                    // It is not known how much was imported.
                    let part = "A part of the archive may have been imported.";
                    let repeated = repeated(existing);
                    Failure::busy(format!("The server is stopping. {part} {repeated}"))
                })?
                .map_err(|error| import_failure(error, existing)),
            Err(panic) => {
                tracing::error!(%panic, "an import stopped on an assertion");
                Err(common::INTERNAL_ERROR.into())
            }
        }
    }
}

impl Transfers {
    /// Stops the import under way. Error: `404` if there is none.
    pub fn stop_import(&self) -> Result<()> {
        match lock(&self.stop).upgrade() {
            Some(stop) if self.imports.available_permits() < IMPORTS_MAX => {
                stop.stop();
                Ok(())
            }
            _ => Err(Failure::new(
                404,
                "ImportNotFound",
                "No import is under way.",
            )),
        }
    }

    /// Unpacks an archive as it arrives, and returns its files with the turn. Removes the files
    /// after an error.
    async fn receive(
        &self,
        mut body: RequestBody,
        stop: Arc<Stop>,
        turn: OwnedSemaphorePermit,
    ) -> Result<(TempDir, OwnedSemaphorePermit)> {
        if body.length_at_least() > ARCHIVE_BYTES_MAX {
            return Err(too_large());
        }
        body.reserve_chunks(PIECES * PIECE_BYTES).await?;
        let (sender, pieces) = channel(PIECES);
        let directory = self.directory.clone();
        let quota = self.quota;
        let mut leaving = StopOnDrop(Some(stop.clone()));
        let unpacking = stop.clone();
        let unpacking = on_blocking_pool(move || {
            let limits = UnpackLimits {
                bytes_max: ARCHIVE_BYTES_MAX,
                entries_max: ENTRIES_MAX,
                room: room(directory.as_deref(), quota),
                spare: SPARE_BYTES,
                stop: &unpacking.is_wanted,
            };
            let unpacked = scratch(directory.as_deref()).map_err(ImportError::from);
            let unpacked = unpacked.and_then(|files| {
                unpack(Pieces::new(pieces), files.path(), &limits).map(|()| files)
            });
            // Nothing was imported yet, so the treatment of existing items does not matter.
            let unpacked = unpacked.map_err(|error| import_failure(error, Existing::Refuse));
            let files = unpacked?;
            Ok((files, turn))
        });
        let handed = hand_on(body, sender, &stop).await;
        let unpacked = unpacking.await;
        leaving.0 = None;
        if stop.is_wanted() {
            return Err(stopped("Nothing was imported."));
        }
        // Prefers the error of the upload: an incomplete archive cannot be unpacked either.
        handed.and(unpacked)
    }
}

/// Number of bytes that the files of an archive may take: half of what the quota leaves, because
/// the store needs as much again for the imported contents.
fn room(directory: Option<&Path>, quota: Option<u64>) -> u64 {
    match (directory, quota) {
        (Some(directory), Some(quota)) => quota.saturating_sub(bytes_below(directory)) / 2,
        _ => u64::MAX,
    }
}

fn stopped(so_far: &str) -> Failure {
    Failure::new(
        409,
        "ImportStopped",
        format!("The import was stopped. {so_far}"),
    )
}

/// Removes intermediate files that a killed server left in the data directory. Blocks for the disk.
pub fn remove_left_overs(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(SCRATCH.as_bytes())
    }) {
        if let Err(error) = patiently(|| fs::remove_dir_all(entry.path())) {
            tracing::warn!(%error, path = %entry.path().display(), "files of a transfer are left");
        }
    }
}

/// Creates an empty directory for intermediate files, on the store's disk if it has one.
fn scratch(directory: Option<&Path>) -> std::result::Result<TempDir, TransferError> {
    let temporary = std::env::temp_dir();
    scratch_in(directory.unwrap_or(&temporary), SCRATCH)
}

/// A permit to run. Error: `refusal` if all are taken.
fn turn(turns: &Arc<Semaphore>, refusal: &'static str) -> Result<OwnedSemaphorePermit> {
    let turn = turns.clone().try_acquire_owned();
    turn.map_err(|_| Failure::new(409, "TransferUnderWay", refusal))
}

fn find<'a>(
    accounts: &'a [LocalAccount],
    name: &str,
) -> std::result::Result<&'a LocalAccount, String> {
    let mut accounts = accounts.iter();
    let found = accounts.find(|account| account.name == name);
    found.ok_or_else(|| format!("the account {name} has no key"))
}

/// The fork that an export reads.
struct ExportedFork {
    stores: Arc<Stores>,
    name: String,
    /// Whether the fork was made for the export and ends with it.
    is_own: bool,
}

impl ExportedFork {
    async fn of(stores: &Arc<Stores>, exported: Exported) -> Result<ExportedFork> {
        let (name, is_own) = match exported {
            Exported::Fork(name) => {
                stores.fork(&name).ok_or_else(|| fork_not_found(&name))?;
                (name, false)
            }
            Exported::Source(source) => (stores.fork_from(None, source).await?.name, true),
        };
        Ok(ExportedFork {
            stores: stores.clone(),
            name,
            is_own,
        })
    }
}

impl Drop for ExportedFork {
    fn drop(&mut self) {
        if self.is_own {
            // A client may have ended it already, which also ended the export.
            let _ = self.stores.release_fork(&self.name);
        }
    }
}

/// Awaits work, and wakes the task now and then: a connection notices that its client has left only
/// when its task runs.
async fn with_ticks<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = tick.tick() => {}
        }
    }
}

fn export_failure(error: TransferError) -> Failure {
    if error.is_no_space() {
        let message = format!("There is no space left for the files of the export: {error}.");
        return Failure::new(507, "InsufficientStorage", message);
    }
    failed("ExportFailed", &error, "")
}

/// The failure of a request that the server sent to itself, or of the work around it.
fn failed(code: &'static str, error: &TransferError, advice: &str) -> Failure {
    let reason = error.to_string();
    let message = format!("{}.{advice}", reason.trim_end_matches('.'));
    match error.status() {
        Some(507) => Failure::new(507, "InsufficientStorage", message),
        Some(503) => Failure::busy(message),
        Some(409) => Failure::new(409, code, message),
        Some(400..500) => Failure::new(400, code, message),
        _ => {
            tracing::error!(%error, code);
            Failure::new(500, code, message)
        }
    }
}

fn import_failure(error: ImportError, existing: Existing) -> Failure {
    match error {
        ImportError::Content(reason) => {
            let message =
                format!("The archive cannot be imported: {reason}. Nothing was imported.");
            Failure::new(400, "InvalidArchive", message)
        }
        ImportError::InUse(name) => {
            let message = format!(
                "{name} is there and holds something. Nothing was imported. {}.",
                choices_about_existing("existing=")
            );
            Failure::new(409, "DestinationNotEmpty", message)
        }
        ImportError::NotBegun(error) if error.is_no_space() => {
            let message = format!(
                "There is no space left for the files of the archive: {error}. Nothing was imported."
            );
            Failure::new(507, "InsufficientStorage", message)
        }
        ImportError::NotBegun(error) => failed("ImportFailed", &error, " Nothing was imported."),
        ImportError::Begun(error) => {
            let repeated = repeated(existing);
            let advice = format!(" What came before it is imported. {repeated}");
            failed("ImportFailed", &error, &advice)
        }
    }
}

/// Passes a body to `pieces`, and an empty piece at its end. Ends early if the receiver wants no
/// more pieces.
async fn hand_on(mut body: RequestBody, pieces: Sender<Bytes>, stop: &Stop) -> Result<()> {
    let mut left = ARCHIVE_BYTES_MAX;
    loop {
        let next = tokio::select! {
            next = body.next_chunk() => next?,
            () = stop.wanted.notified() => return Ok(()),
        };
        let Some(piece) = next else { break };
        left = left.checked_sub(piece.len() as u64).ok_or_else(too_large)?;
        if pieces.send(piece).await.is_err() {
            return Ok(());
        }
    }
    let _ = pieces.send(Bytes::new()).await;
    Ok(())
}

fn too_large() -> Failure {
    let message = format!(
        "An archive that is imported over HTTP has at most {ARCHIVE_BYTES_MAX} bytes. `lazurite import` has no such limit."
    );
    Failure::new(413, "RequestBodyTooLarge", message)
}

/// A reader of pieces. An empty piece marks the end. If the pieces stop without one, reading fails,
/// because the rest is missing.
struct Pieces {
    pieces: Receiver<Bytes>,
    piece: Bytes,
    is_ended: bool,
}

impl Pieces {
    fn new(pieces: Receiver<Bytes>) -> Pieces {
        Pieces {
            pieces,
            piece: Bytes::new(),
            is_ended: false,
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && !self.is_ended {
            let next = self.pieces.blocking_recv();
            self.piece = next.ok_or(ErrorKind::ConnectionAborted)?;
            self.is_ended = self.piece.is_empty();
        }
        let count = room.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut room[..count]);
        Ok(count)
    }
}

impl Export {
    /// Packs the files while they are sent. They are removed at the end, or when the client leaves.
    pub fn into_body(self) -> Body {
        let Export { files, turn, .. } = self;
        written_by(move |target| {
            let packed = pack_into(files.path(), target).map(drop);
            drop((files, turn));
            packed.map_err(|error| io::Error::other(error.to_string()))
        })
    }
}
