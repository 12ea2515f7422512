//! The server to run against: one that is up, or one to start.

use std::path::PathBuf;

/// Which server.
#[derive(clap::Args)]
pub(crate) struct Target {
    /// Account and endpoints of a running server, in Azure's format
    #[arg(long, default_value = "UseDevelopmentStorage=true")]
    pub(crate) connection_string: String,
    /// Start this server binary instead, on free ports
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: Option<PathBuf>,
    /// Data directory for the spawned server, kept afterwards [default: a temporary one]
    #[arg(long, value_name = "DIR", requires = "spawn")]
    pub(crate) data: Option<PathBuf>,
}
