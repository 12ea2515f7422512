//! The arguments of `transfer`.

use std::path::PathBuf;

use tempfile::TempDir;

use lazurite_bench_common::{Outcome, ReportFiles, share};

use crate::filling::Amounts;

#[derive(clap::Args)]
pub(crate) struct TransferArgs {
    /// The server binary, which also exports, imports and copies
    #[arg(long, value_name = "BINARY")]
    pub(super) spawn: PathBuf,
    /// Entities of the store
    #[arg(long, default_value_t = 1_000_000)]
    entities: usize,
    /// Blobs of the store
    #[arg(long, default_value_t = 100_000)]
    blobs: usize,
    /// Bytes of each blob
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=(64 << 20)))]
    blob_bytes: u32,
    /// Messages of the store
    #[arg(long, default_value_t = 100_000)]
    messages: usize,
    /// Run with this share of the store
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(super) scale: f64,
    /// Share of the store that is written to Azurite, whose directory our server then adopts; 0 leaves Azurite out
    #[arg(long, default_value_t = 0.05, value_parser = share_or_none)]
    pub(super) azurite_scale: f64,
    /// Directory in which the servers keep their data, removed again [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) files: ReportFiles,
}

impl TransferArgs {
    /// The whole store at the scale of this run.
    pub(super) fn amounts(&self) -> Amounts {
        let amounts = Amounts {
            entities: self.entities,
            blobs: self.blobs,
            blob_bytes: self.blob_bytes as usize,
            messages: self.messages,
        };
        amounts.scaled(self.scale)
    }

    /// A new directory.
    pub(super) fn scratch(&self) -> Outcome<TempDir> {
        Ok(match &self.dir {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        }?)
    }
}

fn share_or_none(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(0.0) => Ok(0.0),
        _ => share(text),
    }
}
