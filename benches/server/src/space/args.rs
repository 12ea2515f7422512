//! The arguments of `space`.

use std::path::PathBuf;

use tempfile::TempDir;

use lazurite_bench_common::{Outcome, ReportFiles, share};

use crate::space::case::Case;

#[derive(clap::Args)]
pub(crate) struct SpaceArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(super) spawn: PathBuf,
    /// Run only these cases
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) only: Vec<Case>,
    /// Gigabytes of blobs that are written in each case on our server
    #[arg(long, default_value_t = 5.0, value_parser = gigabytes)]
    pub(super) gigabytes: f64,
    /// Gigabytes of blobs that are written on Azurite
    #[arg(long, default_value_t = 1.0, value_parser = gigabytes)]
    pub(super) azurite_gigabytes: f64,
    /// Seconds after which Azurite is given no more to write or to delete
    #[arg(long, default_value_t = 300)]
    pub(super) azurite_seconds: u64,
    /// Write this share of the gigabytes
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(super) scale: f64,
    /// Seed of the sizes and contents of the blobs
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Directory in which the servers keep their data, removed again [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) files: ReportFiles,
}

impl SpaceArgs {
    /// Bytes that are written in a case.
    pub(super) fn bytes(&self, case: Case) -> u64 {
        let gigabytes = match case {
            Case::Azurite => self.azurite_gigabytes,
            _ => self.gigabytes,
        };
        (gigabytes * self.scale * 1e9) as u64
    }

    /// A new directory for a case.
    pub(super) fn scratch(&self) -> Outcome<TempDir> {
        Ok(match &self.dir {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        }?)
    }
}

fn gigabytes(text: &str) -> Result<f64, String> {
    let gigabytes: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_valid = gigabytes > 0.0 && gigabytes <= 10_000.0;
    is_valid
        .then_some(gigabytes)
        .ok_or_else(|| "must be above 0 and at most 10000".into())
}
