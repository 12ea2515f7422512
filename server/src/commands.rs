//! What the program does instead of serving: it looks at a store without changing it, asks a server for its health, and makes the
//! names of Azurite.

mod advice;
mod doctor;
mod health;
mod shim;

use clap::Subcommand;
use lazurite_engine::{Config, Db, Durability, Environment, dump_file};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to do instead of serving.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Check every checksum, every order and every reference of a store that no server has open
    ///
    /// Prints one line for each damage, with its file and offset. The exit status is 0 only if there is none. Changes nothing.
    Verify {
        /// The directory of the store
        #[arg(value_name = "DIR", default_value = ".lazurite")]
        directory: PathBuf,
    },
    /// Show one file of a store as text: what it holds, where, and whether its checksums are right
    ///
    /// The name of the file says what it is: 000007.wal, 000007.sst, 000007.vlog, MANIFEST-000007, CURRENT. Keys and values of users stand in
    /// what it prints. The exit status is 0 only if nothing is damaged. Changes nothing.
    Dump {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Ask a server on this machine whether it serves requests: for health checks of containers
    ///
    /// Prints one line for each service. The exit status is 0 only if all of them answer.
    Health {
        /// Ports to ask (default: those in the file that LAZURITE_PORT_FILE names, else 10000)
        #[arg(value_name = "PORT")]
        ports: Vec<u16>,
    },
    /// Find out why a client cannot use a connection string
    ///
    /// Looks for the known mistakes: a name that leads nowhere, nothing that listens, one service missing, the wrong scheme, another
    /// program on the port, a wrong account or key, clocks that differ, a proxy. One line each; the exit status is 0 only if there is none.
    Doctor {
        /// The connection string (default: the one in AZURE_STORAGE_CONNECTION_STRING or AzureWebJobsStorage, else UseDevelopmentStorage=true)
        #[arg(value_name = "CONNECTION STRING")]
        connection_string: Option<String>,
    },
    /// Print what a running server would change about the workload it sees
    ///
    /// The rules are those of the table design guide: see docs/advisor.md.
    Advice {
        /// The connection string, with the account's key (default: as for `doctor`)
        #[arg(value_name = "CONNECTION STRING")]
        connection_string: Option<String>,
    },
    /// Make or remove the commands azurite, azurite-blob, azurite-queue and azurite-table
    ///
    /// They are links to this program. A file that is not such a link stays as it is, and the command fails.
    Shim {
        #[command(subcommand)]
        action: ShimAction,
    },
}

/// What `lazurite shim` does.
#[derive(Debug, Clone, Subcommand)]
pub enum ShimAction {
    /// Make the four commands
    Install {
        /// Where (default: beside this program)
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Remove them
    Remove {
        /// Where (default: beside this program)
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

impl Command {
    /// Runs the command. The error is a sentence.
    pub fn run(&self) -> Result<ExitCode, String> {
        match self {
            Command::Verify { directory } => verify(directory),
            Command::Dump { file } => dump(file),
            Command::Health { ports } => health::run(ports),
            Command::Doctor { connection_string } => doctor::run(connection_string.as_deref()),
            Command::Advice { connection_string } => advice::run(connection_string.as_deref()),
            Command::Shim { action } => match action {
                ShimAction::Install { directory } => shim::install(directory.as_deref()),
                ShimAction::Remove { directory } => shim::remove(directory.as_deref()),
            },
        }
    }
}

fn verify(directory: &Path) -> Result<ExitCode, String> {
    let durability = Durability::Process;
    let config = Config {
        durability,
        ..Config::default()
    };
    let verified = Db::verify_directory(directory, config, Environment::system(durability))
        .map_err(|error| error.to_string())?;
    let mut out = std::io::stdout().lock();
    let written: std::io::Result<()> = (|| {
        for damage in &verified.damages {
            writeln!(out, "{damage}")?;
        }
        writeln!(
            out,
            "{}: {} rows with {} bytes of values in {} SSTables and {} sealed value-log segments; {}",
            directory.display(),
            verified.rows,
            verified.value_bytes,
            verified.sstables,
            verified.value_segments,
            match verified.damages.len() {
                0 => "nothing is damaged".to_owned(),
                1 => "1 place is damaged".to_owned(),
                count => format!("{count} places are damaged"),
            }
        )
    })();
    finish(written, verified.damages.is_empty())
}

fn dump(file: &Path) -> Result<ExitCode, String> {
    let fs = Environment::system(Durability::Process).fs;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match dump_file(&fs, file, &mut out) {
        Ok(damages) => finish(out.flush(), damages == 0),
        Err(lazurite_engine::Error::Io { source, .. })
            if source.kind() == ErrorKind::BrokenPipe =>
        {
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The exit status. A reader that has seen enough, such as `head`, closes the pipe: that is no failure.
fn finish(written: std::io::Result<()>, is_sound: bool) -> Result<ExitCode, String> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ if is_sound => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::FAILURE),
    }
}
