//! The command line: every flag, its default and its help. Azurite's flags keep their names and
//! meanings; ours are added.

mod command;
#[cfg(test)]
mod flag_tests;
mod help;
mod values;

pub use command::{
    ClockAction, Command, CopyArguments, CopyPathsArguments, CreateArguments, CreateKind,
    DeleteArguments, DeleteKind, DesignAction, EntityAction, EntityPutArguments, FaultsAction,
    GetArguments, Language, PutArguments, QueryFormat, ResetArguments, RmArguments, ServiceAction,
    ShimAction, StateAction, StoreArguments, WhatIfArguments,
};

use crate::initial_resources::InitialResources;
use crate::state::{ForkSource, is_snapshot_name};
use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};
use lazurite_engine::Durability;
use lazurite_mover::is_archive_name;
use lazurite_protocol::accounts::Accounts;
use lazurite_protocol::properties::cors;
use lazurite_protocol::service_kind::ServiceKind;
use std::fmt;
use std::path::{Path, PathBuf};

/// The default port of the Blob service. The other services have the next two.
const PORT_DEFAULT: u16 = 10_000;

/// Maximum time that flags accept, in seconds: a year. Larger values could overflow the clock.
const SECONDS_MAX: u64 = 365 * 24 * 60 * 60;

/// Maximum `--disk-quota` in megabytes, so that its number of bytes fits into 64 bits.
const DISK_QUOTA_MAX: u64 = 1 << 40;

/// Azure-compatible Blob, Queue and Table storage on your own machine.
#[derive(Parser)]
#[command(
    name = "lazurite",
    version,
    disable_version_flag = true,
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "`lazurite COMMAND -h` explains a command, `lazurite --help` every flag.",
    after_long_help = "Started under the name azurite, azurite-blob, azurite-queue or azurite-table (`lazurite shim install` makes \
                  these), it serves what the name says.\n\nEvery flag can be set in the environment: --blobPort as \
                  LAZURITE_BLOB_PORT or AZURITE_BLOB_PORT, --silent as LAZURITE_SILENT=1. A flag on the command line takes \
                  precedence; if one is given twice, the last one counts.\n\nExamples:\n  lazurite                              all three \
                  services, data in ./.lazurite\n  lazurite --port 20000                 ports 20000, 20001, 20002\n  lazurite \
                  --port 0 --port-file ports.json   free ports, written to a file: for tests\n  lazurite \
                  --inMemoryPersistence         nothing is kept"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Print the version. Under the name azurite, the version of Azurite that it stands in for comes
    /// first
    #[arg(short = 'v', short_alias = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// Directory that holds everything; created if absent
    #[arg(
        short,
        long,
        value_name = "DIR",
        default_value = ".lazurite",
        help_heading = "Storage"
    )]
    pub location: PathBuf,

    /// The directory of Azurite next to the store. Set at start.
    #[arg(skip)]
    pub azurite: Option<PathBuf>,

    /// Flags of the command line that have no effect because the environment sets
    /// `--inMemoryPersistence`.
    #[arg(skip)]
    pub without_effect: Vec<&'static str>,

    /// What an acknowledged write survives: the process (kill -9), or the power as well
    #[arg(long, value_enum, default_value_t = DurabilityFlag::Process, help_heading = "Storage")]
    pub durability: DurabilityFlag,

    /// Keep everything in memory and nothing on disk
    #[arg(long = "inMemoryPersistence", help_heading = "Storage")]
    pub in_memory: bool,

    /// Keep overwritten and deleted states of blobs as versions
    #[arg(long = "blob-versioning", help_heading = "Storage")]
    pub blob_versioning: bool,

    /// Days, 1 to 365, for which deleted containers are kept and can be restored
    #[arg(long = "container-retention", value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..=365), help_heading = "Storage")]
    pub container_retention: Option<u16>,

    /// Seconds between writes of the logs and metrics that Set Service Properties enables, to $logs
    /// and $Metrics...
    #[arg(long = "log-interval", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600), help_heading = "Storage")]
    pub log_interval: u32,

    /// Most that --inMemoryPersistence keeps, in megabytes (default: half of the machine's memory)
    #[arg(
        long = "extentMemoryLimit",
        value_name = "MB",
        requires = "in_memory",
        value_parser = values::memory_limit,
        help_heading = "Storage"
    )]
    pub memory_limit_bytes: Option<u64>,

    /// Accounts and keys, as name:key1[:key2];name2:key1 (instead of devstoreaccount1)
    #[arg(long, value_name = "LIST", value_parser = NonEmptyStringValueParser::new(), help_heading = "Storage")]
    pub accounts: Option<String>,

    /// Read the accounts from a file, one or several accounts a line, # for comments, so that no
    /// key is on a command line; read again on SIGHUP
    #[arg(
        long = "accounts-file",
        value_name = "FILE",
        conflicts_with = "accounts",
        help_heading = "Storage"
    )]
    pub accounts_file: Option<PathBuf>,

    /// Give all accounts, or those named, a hierarchical namespace: directories that are real, and
    /// Data Lake Storage
    #[arg(long, alias = "enableHierarchicalNamespace", value_name = "ACCOUNTS", num_args = 0..=1, default_missing_value = "true", require_equals = true, help_heading = "Storage")]
    pub hns: Option<String>,

    /// Containers to make at start in the first account, if they are not there
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "Storage"
    )]
    pub containers: Vec<String>,

    /// Queues to make at start in the first account, if they are not there
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "Storage"
    )]
    pub queues: Vec<String>,

    /// Tables to make at start in the first account, if they are not there
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "Storage"
    )]
    pub tables: Vec<String>,

    /// Import this directory or archive in the layout of `lazurite export`, or create what this
    /// .toml file declares, before the server is ready; existing containers, queues and tables stay
    /// as they are
    #[arg(long, value_name = "PATH", help_heading = "Storage")]
    pub seed: Option<PathBuf>,

    /// Import this archive of an earlier run before the server is ready, if it exists; existing
    /// containers, queues and tables stay as they are
    #[arg(long = "import", value_name = "FILE", help_heading = "Storage")]
    pub import: Option<PathBuf>,

    /// Export everything in the first account to the archive of --import when the server stops. The
    /// archive is replaced once the new one is whole; an incomplete one is kept as FILE.incomplete
    #[arg(long = "export-on-exit", requires = "import", help_heading = "Storage")]
    pub export_on_exit: bool,

    /// Most that the data directory may take, in megabytes: writes beyond it are answered 507,
    /// reads continue
    #[arg(
        long = "disk-quota",
        value_name = "MB",
        conflicts_with = "in_memory",
        value_parser = clap::value_parser!(u64).range(256..=DISK_QUOTA_MAX),
        help_heading = "Storage"
    )]
    pub disk_quota: Option<u64>,

    /// Make a fork of the store, or of a snapshot, when a request with credentials first names it
    /// as ACCOUNT--FORK. See docs/testing.md
    #[arg(long, value_name = "SNAPSHOT", num_args = 0..=1, require_equals = true, default_missing_value = "now", value_parser = fork_source, help_heading = "Storage")]
    pub forks: Option<ForkSource>,

    /// Seconds after which an unused fork ends
    #[arg(long = "fork-lifetime", value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Storage")]
    pub fork_lifetime: u32,

    /// Most forks at a time
    #[arg(long = "forks-max", value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Storage")]
    pub forks_max: u32,

    /// Address to listen on, for all three services
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1",
        value_parser = values::listen_address,
        help_heading = "Network"
    )]
    pub host: String,

    /// First of three consecutive ports: blob, queue, table; 0 takes any free ones
    #[arg(long, value_name = "PORT", help_heading = "Network")]
    pub port: Option<u16>,

    /// Copy from URLs of this other server too (repeatable), on any port: clients that may write
    /// can then make this machine send requests to it. If a name leads to private addresses, name
    /// those too, or write private:HOST
    #[arg(
        long = "allow-copy-from",
        value_name = "HOST",
        value_parser = values::copy_source,
        value_delimiter = ',',
        help_heading = "Network"
    )]
    pub copy_hosts: Vec<String>,

    /// Write the ports in use to this file as JSON, once ready:
    /// {"blob":10000,"queue":10001,"table":10002}. It is removed when the server stops
    #[arg(long = "port-file", value_name = "FILE", help_heading = "Network")]
    pub port_file: Option<PathBuf>,

    #[arg(
        long = "blobHost",
        value_name = "ADDRESS",
        value_parser = values::listen_address,
        help_heading = "Network",
        help = "Address of the Blob service"
    )]
    pub blob_host: Option<String>,
    #[arg(
        long = "queueHost",
        value_name = "ADDRESS",
        value_parser = values::listen_address,
        help_heading = "Network",
        help = "Address of the Queue service"
    )]
    pub queue_host: Option<String>,
    #[arg(
        long = "tableHost",
        value_name = "ADDRESS",
        value_parser = values::listen_address,
        help_heading = "Network",
        help = "Address of the Table service"
    )]
    pub table_host: Option<String>,
    #[arg(
        long = "blobPort",
        value_name = "PORT",
        help_heading = "Network",
        help = "Port of the Blob service [default: 10000]"
    )]
    pub blob_port: Option<u16>,
    #[arg(
        long = "queuePort",
        value_name = "PORT",
        help_heading = "Network",
        help = "Port of the Queue service [default: 10001]"
    )]
    pub queue_port: Option<u16>,
    #[arg(
        long = "tablePort",
        value_name = "PORT",
        help_heading = "Network",
        help = "Port of the Table service [default: 10002]"
    )]
    pub table_port: Option<u16>,

    #[arg(
        long = "blobKeepAliveTimeout",
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX),
        help_heading = "Network",
        help = "Seconds an idle connection of the Blob service stays open"
    )]
    pub blob_keep_alive: u64,
    #[arg(
        long = "queueKeepAliveTimeout",
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX),
        help_heading = "Network",
        help = "Seconds an idle connection of the Queue service stays open"
    )]
    pub queue_keep_alive: u64,
    #[arg(
        long = "tableKeepAliveTimeout",
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX),
        help_heading = "Network",
        help = "Seconds an idle connection of the Table service stays open"
    )]
    pub table_keep_alive: u64,

    /// The account is always the first path segment, never a label of the host name
    #[arg(long = "disableProductStyleUrl", help_heading = "Network")]
    pub path_style_only: bool,

    /// A host name that web browsers may use, besides localhost and IP addresses, and that copies
    /// take for this server (repeatable). Clients other than browsers may use any name
    #[arg(
        long = "allowed-host",
        value_name = "HOST",
        value_parser = values::host,
        value_delimiter = ',',
        help_heading = "Network"
    )]
    pub allowed_hosts: Vec<String>,

    /// Let web pages of this origin use all services, as a CORS rule after those that are set
    /// (repeatable): http://localhost:3000, or
    /// * for pages of any origin
    #[arg(
        long,
        value_name = "ORIGIN",
        value_delimiter = ',',
        help_heading = "Network"
    )]
    pub cors: Vec<String>,

    /// Most connections at a time (default: three quarters of the open files that the system
    /// allows, 65536 at most)
    #[arg(long = "max-connections", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Network")]
    pub connections_max: Option<u32>,

    /// Most connections of one other machine at a time (default: half of all)
    #[arg(long = "max-connections-per-address", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Network")]
    pub connections_per_address_max: Option<u32>,

    /// Longest time from the start of a request, body included, to the start of its response
    /// (default: no limit but the pace of its body)
    #[arg(long = "request-timeout", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX), help_heading = "Network")]
    pub request_timeout: Option<u64>,

    /// Seconds that running requests have to end when the server is asked to stop
    #[arg(long = "shutdown-timeout", value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=3600), help_heading = "Network")]
    pub shutdown_timeout: u32,

    /// Started under a name of Azurite
    #[arg(skip)]
    pub is_azurite: bool,

    /// Listen where other machines may reach it although the key of the account is public
    #[arg(long = "i-know", value_name = "true|false", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value = "false", help_heading = "Rights")]
    pub i_know: bool,

    /// Accept bearer tokens (--oauth basic) from other machines too, although any client can write
    /// one
    #[arg(long = "accept-forged-tokens", help_heading = "Rights")]
    pub accept_forged_tokens: bool,

    /// Refuse anonymous requests, whatever the access level of a container
    #[arg(long = "no-public-access", help_heading = "Rights")]
    pub no_public_access: bool,

    /// Users who may do everything in a hierarchical namespace, by the object ids of users or groups
    /// (* for all bearers of tokens); for others, the access control lists of paths decide
    #[arg(
        long = "data-owners",
        value_name = "IDS",
        value_delimiter = ',',
        help_heading = "Rights"
    )]
    pub data_owners: Vec<String>,

    /// Refuse account keys and what is signed with them: only bearer tokens and their SAS are taken
    #[arg(long = "no-shared-key", requires = "oauth", help_heading = "Rights")]
    pub no_shared_key: bool,

    /// Most hours that a SAS may be valid, from its start; a longer one, or one without a start, is
    /// refused
    #[arg(long = "max-sas-hours", value_name = "HOURS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Rights")]
    pub sas_hours_max: Option<u32>,

    /// No web console at /_lazurite/; the pages for programs stay
    #[arg(long = "no-console", help_heading = "Console")]
    pub no_console: bool,

    /// Ask visitors of the web console for this password, and open it beyond this machine, for all
    /// accounts. It travels in clear without HTTPS; better set in the environment than on a command
    /// line
    #[arg(
        long = "console-password",
        value_name = "PASSWORD",
        conflicts_with = "no_console",
        help_heading = "Console"
    )]
    pub console_password: Option<String>,

    /// Accept the header x-lazurite-fault from clients of other machines, too: it asks for an
    /// error, latency or a lost response
    #[arg(long = "faults", help_heading = "Console")]
    pub faults: bool,

    /// Most requests that are kept in memory for the console and `lazurite requests`; 0 keeps none
    #[arg(long = "requests-kept", value_name = "NUMBER", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(0..=100_000), help_heading = "Console")]
    pub requests_kept: u32,

    /// Most memory for the kept requests, in megabytes
    #[arg(long = "requests-megabytes", value_name = "MB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Console")]
    pub requests_megabytes: u32,

    /// Most of each body that is kept with a request, in KiB; 0 keeps none
    #[arg(long = "requests-body-kib", value_name = "KIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=1024), help_heading = "Console")]
    pub requests_body_kib: u32,

    /// Apply the limits of Azure Storage: its scalability targets, with 503 ServerBusy beyond them,
    /// and names of deleted containers, queues and tables that stay taken for a while. `PUT
    /// /_lazurite/faults` sets each of them
    #[arg(long = "as-azure", help_heading = "Protocol")]
    pub as_azure: bool,

    /// Let the secondary endpoint (ACCOUNT-secondary) read the store as it was that many seconds
    /// ago (default: as it is)
    #[arg(long = "secondary-lag", value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400), help_heading = "Protocol")]
    pub secondary_lag: Option<u32>,

    /// Ignore the headers and parameters that an operation does not read, instead of refusing some
    /// of them
    #[arg(short = 'L', long, help_heading = "Protocol")]
    pub loose: bool,

    /// Accepted for Azurite's sake: there is nothing to skip, any well-formed version is served
    #[arg(long = "skipApiVersionCheck", value_name = "true|false", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value = "false", help_heading = "Protocol")]
    pub skip_api_version_check: bool,

    /// Accepted for Azurite's sake: there is no telemetry
    #[arg(
        long = "disableTelemetry",
        alias = "azurite.disableTelemetry",
        help_heading = "Protocol"
    )]
    pub disable_telemetry: bool,

    /// No access log on standard output
    #[arg(short, long, help_heading = "Logs")]
    pub silent: bool,

    /// If a Lazurite already serves this directory on these ports, say so and end with status 0.
    /// That server then stays up until the program that started this one has ended. Always on under
    /// the name azurite
    #[arg(long, help_heading = "Network")]
    pub attach: bool,

    /// Stop when standard input ends. The program that starts the server holds its standard input
    /// open, so when that program ends, the server stops too
    #[arg(long = "until-stdin-ends", help_heading = "Network")]
    pub until_stdin_ends: bool,

    /// Write a log of what the services and the engine do to this file (- is standard error);
    /// missing directories are created
    #[arg(short, long, value_name = "FILE", help_heading = "Logs")]
    pub debug: Option<PathBuf>,

    /// Level of the log of --debug (default: debug); without --debug, of standard error (default:
    /// warn)
    #[arg(long = "log-level", value_enum, help_heading = "Logs")]
    pub log_level: Option<LogLevel>,

    /// Format of the access log and of the log of --debug
    #[arg(long = "log-format", value_enum, default_value_t = LogFormat::Text, help_heading = "Logs")]
    pub log_format: LogFormat,

    /// Accept bearer tokens: issuer, audience and times are checked, the signature is not, so that
    /// any client can write one; without --cert only from this machine
    #[arg(long, value_enum, value_name = "LEVEL", help_heading = "HTTPS")]
    pub oauth: Option<OauthLevel>,

    /// Serve HTTPS with this certificate: a PEM file, with its chain if it has one, or a PFX file
    #[arg(long, value_name = "FILE", help_heading = "HTTPS")]
    pub cert: Option<PathBuf>,

    /// The key of --cert in PEM form
    #[arg(long, value_name = "FILE", help_heading = "HTTPS")]
    pub key: Option<PathBuf>,

    /// The password of --cert in PFX form
    #[arg(long, value_name = "PASSWORD", help_heading = "HTTPS")]
    pub pwd: Option<String>,

    /// Read the password of --cert from the first line of this file
    #[arg(
        long = "pwd-file",
        value_name = "FILE",
        conflicts_with = "pwd",
        help_heading = "HTTPS"
    )]
    pub pwd_file: Option<PathBuf>,

    /// Serve HTTPS and HTTP on the same ports, with a certificate for localhost and other names of
    /// this machine. A certificate authority is made for it once, in the user's configuration
    /// directory; how to trust it is printed at start
    #[arg(long, conflicts_with_all = ["cert", "client_ca"], help_heading = "HTTPS")]
    pub https: bool,

    /// Do not start without a certificate (--cert or --https), so that nothing is ever served in
    /// clear
    #[arg(long = "https-only", help_heading = "HTTPS")]
    pub https_only: bool,

    /// Oldest version of TLS that is accepted
    #[arg(long = "tls-min-version", value_enum, default_value_t = TlsVersion::Tls12, help_heading = "HTTPS")]
    pub tls_min_version: TlsVersion,

    /// Serve only clients whose certificate is signed by one in this PEM file
    #[arg(
        long = "client-ca",
        value_name = "FILE",
        requires = "cert",
        help_heading = "HTTPS"
    )]
    pub client_ca: Option<PathBuf>,
}

/// Shows no values: keys and passwords must not appear in logs.
impl fmt::Debug for Cli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cli").finish_non_exhaustive()
    }
}

/// The refusal of a certificate without a key, or with both forms of one.
pub fn key_or_password(cert: &Path) -> String {
    format!(
        "--cert {} needs --key (PEM) or --pwd (PFX), and not both",
        cert.display()
    )
}

/// Parses the value of `--forks`.
fn fork_source(text: &str) -> Result<ForkSource, String> {
    match text {
        "now" => Ok(ForkSource::Now),
        name if is_snapshot_name(name) => Ok(ForkSource::Snapshot(name.to_owned())),
        _ => Err("no snapshot has such a name".to_owned()),
    }
}

/// Values of `--tls-min-version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

/// Values of `--durability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DurabilityFlag {
    /// Acknowledged when the operating system has the write: kill -9 loses nothing, a power cut at
    /// most the last 250 ms
    Process,
    /// Acknowledged when the write is on the disk: a power cut loses nothing
    Disk,
}

/// Values of `--oauth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OauthLevel {
    /// The claims of a token are checked, its signature is not
    Basic,
}

/// Values of `--log-level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Values of `--log-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

impl Cli {
    /// The parser of the command line. It takes `-1` as a value, so that the refusal names the flag
    /// and the values that it takes.
    pub fn parser() -> clap::Command {
        help::grouped(Cli::command()).mut_args(|arg| {
            let takes_values = arg.get_action().takes_values();
            arg.allow_negative_numbers(takes_values)
        })
    }

    /// Reads the arguments that [`Cli::parser`] has parsed. Refuses `--location` or `--durability`
    /// beside `--inMemoryPersistence` if both are on the command line. If the environment sets one
    /// of the two, the store is in memory, and flags of the command line without effect are noted.
    pub fn read(matches: &ArgMatches) -> Result<Cli, clap::Error> {
        let mut cli = Cli::from_arg_matches(matches)?;
        let is_typed = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
        // Azurite refuses --location with --inMemoryPersistence too.
        for flag in ["location", "durability"] {
            if !cli.in_memory || !is_typed(flag) {
                continue;
            }
            if !is_typed("in_memory") {
                cli.without_effect.push(flag);
                continue;
            }
            let value = matches.get_raw(flag).and_then(Iterator::last);
            let value = value.unwrap_or_default().display();
            let message = format!(
                "--{flag} {value} cannot be used with --inMemoryPersistence, which keeps nothing when the server stops"
            );
            return Err(Cli::command().error(ErrorKind::ArgumentConflict, message));
        }
        Ok(cli)
    }

    /// Refuses flags that are not supported or contradict each other. The error is a sentence.
    pub fn check(&self, services: &[ServiceKind]) -> Result<(), String> {
        let protected = self.key.is_some() || self.pwd.is_some() || self.pwd_file.is_some();
        if self.cert.is_none() && protected {
            return Err("--key and --pwd belong to a certificate: name it with --cert".to_owned());
        }
        let has_password = self.pwd.is_some() || self.pwd_file.is_some();
        if let Some(cert) = &self.cert
            && self.key.is_some() == has_password
        {
            return Err(key_or_password(cert));
        }
        if self.console_password.as_deref() == Some("") {
            return Err("--console-password needs a password that is not empty".to_owned());
        }
        if self.https_only && self.cert.is_none() && !self.https {
            return Err("--https-only needs a certificate: --cert, or --https".to_owned());
        }
        let is_archive = self.import.as_deref().is_none_or(is_archive_name);
        if self.export_on_exit && !is_archive {
            return Err("--export-on-exit needs an --import that ends with .tar.zst".to_owned());
        }
        if !self.data_owners.is_empty() && self.oauth.is_none() && !self.https {
            return Err("--data-owners are bearers of tokens: add --oauth basic".to_owned());
        }
        self.with_hierarchy(self.listed_accounts()?)?;
        cors::rule_at_start(&self.cors)?;
        self.check_ports(services)?;
        self.initial_resources().check()
    }

    /// Refuses ports out of range, and a port for two services.
    fn check_ports(&self, services: &[ServiceKind]) -> Result<(), String> {
        if let Some(service) = services
            .iter()
            .find(|service| self.port_of(**service).is_none())
        {
            return Err(format!(
                "--port {}: it is the first of three ports, for Blob, Queue and Table, and there is none above {} for the {} service. \
                 Give a lower one, or --{}Port as well",
                self.first_port(),
                u16::MAX,
                service.title(),
                service.label()
            ));
        }
        for (at, first) in services.iter().enumerate() {
            let (host, port) = self.address(*first);
            let same =
                |other: &&ServiceKind| port != 0 && self.address(**other) == (host.clone(), port);
            if let Some(second) = services[at + 1..].iter().find(same) {
                return Err(format!(
                    "the {} and the {} service cannot both listen on {host}:{port}: give each a port of its own with --{}Port and --{}Port",
                    first.title(),
                    second.title(),
                    first.label(),
                    second.label()
                ));
            }
        }
        Ok(())
    }

    /// The resources to create at start.
    pub fn initial_resources(&self) -> InitialResources<'_> {
        InitialResources {
            containers: &self.containers,
            queues: &self.queues,
            tables: &self.tables,
        }
    }

    /// The scheme in the services' URLs.
    pub fn scheme(&self) -> &'static str {
        if self.cert.is_some() || self.https {
            "https"
        } else {
            "http"
        }
    }

    /// True if bearer tokens are accepted: with `--oauth`, or with `--https` if all accounts have
    /// the well-known key, because tokens then give access to no more than that key does.
    pub fn takes_tokens(&self, accounts: &Accounts) -> bool {
        let all_known = || accounts.names().all(|name| accounts.is_well_known(name));
        self.oauth.is_some() || self.https && all_known()
    }

    pub fn durability(&self) -> Durability {
        match self.durability {
            _ if self.in_memory => Durability::Memory,
            DurabilityFlag::Process => Durability::Process,
            DurabilityFlag::Disk => Durability::Disk,
        }
    }

    /// The configured accounts. Reads the file of `--accounts-file` again at each call. The error
    /// is a sentence.
    pub fn accounts(&self) -> Result<Accounts, String> {
        if let Some(path) = &self.accounts_file {
            let at = |reason: String| format!("--accounts-file {}: {reason}", path.display());
            let text = std::fs::read_to_string(path)
                .map_err(|error| at(format!("cannot read it: {error}")))?;
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let accounts = Accounts::parse(&lines.collect::<Vec<_>>().join(";")).map_err(at)?;
            return self.with_hierarchy(accounts);
        }
        self.with_hierarchy(self.listed_accounts()?)
    }

    /// The accounts with the settings that other flags give them. The error is a sentence.
    fn with_hierarchy(&self, accounts: Accounts) -> Result<Accounts, String> {
        let accounts = accounts.path_style_only(self.path_style_only);
        let Some(names) = self.hns.as_deref().map(str::trim) else {
            return Ok(accounts);
        };
        let names: Vec<_> = match names.to_ascii_lowercase().as_str() {
            "false" | "0" | "no" | "off" => return Ok(accounts),
            "true" | "1" | "yes" | "on" => Vec::new(),
            _ => names
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect(),
        };
        let at = |reason| format!("--hns: {reason}");
        accounts.with_hierarchy(&names).map_err(at)
    }

    /// The accounts of `--accounts`, or the well-known one. The error is a sentence.
    fn listed_accounts(&self) -> Result<Accounts, String> {
        match self.accounts.as_deref().map(str::trim) {
            None => Ok(Accounts::development()),
            Some(list) => Accounts::parse(list)
                .map_err(|reason| format!("{}: {reason}", self.accounts_origin())),
        }
    }

    /// The origin of `--accounts` for messages: a variable with the same text, or the command line.
    fn accounts_origin(&self) -> &'static str {
        let is_origin = |name: &&str| std::env::var(name).ok() == self.accounts;
        let variables = ["LAZURITE_ACCOUNTS", "AZURITE_ACCOUNTS"];
        variables
            .into_iter()
            .find(is_origin)
            .unwrap_or("--accounts")
    }

    /// Host and port of a service. Ports follow `--port` unless the service's own flag says
    /// otherwise. Call [`Cli::check`] first, which refuses ports that do not exist.
    pub fn address(&self, service: ServiceKind) -> (String, u16) {
        let host = self.own_address(service).0.unwrap_or(&self.host);
        (host.clone(), self.port_of(service).unwrap_or_default())
    }

    /// The flags that set host and port of a service.
    pub fn address_flags(&self, service: ServiceKind) -> (String, String) {
        let label = service.label();
        let (host, port) = self.own_address(service);
        let host = host.map_or_else(|| "--host".to_owned(), |_| format!("--{label}Host"));
        let port = port.map_or_else(|| "--port".to_owned(), |_| format!("--{label}Port"));
        (host, port)
    }

    /// The host and the port from the flags of a service itself.
    fn own_address(&self, service: ServiceKind) -> (Option<&String>, Option<u16>) {
        match service {
            ServiceKind::Blob => (self.blob_host.as_ref(), self.blob_port),
            ServiceKind::Queue => (self.queue_host.as_ref(), self.queue_port),
            ServiceKind::Table => (self.table_host.as_ref(), self.table_port),
        }
    }

    fn first_port(&self) -> u16 {
        self.port.unwrap_or(PORT_DEFAULT)
    }

    /// The port of a service; 0 for any free port. `None` if it would exceed 65535.
    fn port_of(&self, service: ServiceKind) -> Option<u16> {
        let offset = match service {
            ServiceKind::Blob => 0,
            ServiceKind::Queue => 1,
            ServiceKind::Table => 2,
        };
        match (self.own_address(service).1, self.first_port()) {
            (Some(own), _) => Some(own),
            (None, 0) => Some(0),
            (None, first) => first.checked_add(offset),
        }
    }

    pub fn keep_alive_seconds(&self, service: ServiceKind) -> u64 {
        match service {
            ServiceKind::Blob => self.blob_keep_alive,
            ServiceKind::Queue => self.queue_keep_alive,
            ServiceKind::Table => self.table_keep_alive,
        }
    }
}
