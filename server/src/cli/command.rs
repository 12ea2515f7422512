//! The commands of the program besides serving, with their help.

use crate::cli::values;
use crate::state::diff::LIMIT_DEFAULT;
use clap::{Args, Subcommand, ValueEnum};
use lazurite_mover::Existing;
use lazurite_protocol::service_kind::ServiceKind;
use std::path::PathBuf;

/// A command, instead of serving.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Check every checksum, every order and every reference of a store that no server has open,
    /// and of its snapshots
    ///
    /// Prints one line for each damage, with its file and offset, and one for each store. The exit
    /// status is 0 only if there is none. Changes nothing.
    Verify {
        /// The directory of the store
        #[arg(value_name = "DIR", default_value = ".lazurite")]
        directory: PathBuf,
    },
    /// Show one file of a store as text: what it holds, where, and whether its checksums are right
    ///
    /// The name of the file says what it is: 000007.wal, 000007.sst, 000007.vlog, MANIFEST-000007,
    /// CURRENT. The output contains keys and values of users. The exit status is 0 only if nothing
    /// is damaged. Changes nothing.
    Dump {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Ask a server on this machine whether it serves requests: for health checks of containers
    ///
    /// Prints one line for each service. The exit status is 0 only if all of them answer.
    Health {
        /// Ports to ask (default: those in the file that LAZURITE_PORT_FILE names; 10000 if it
        /// names none)
        #[arg(value_name = "PORT")]
        ports: Vec<u16>,
    },
    /// Find out why a client cannot use a connection string
    ///
    /// Looks for the known mistakes: a name that does not resolve, a port without a server, a
    /// missing service, the wrong scheme, another program on the port, a wrong account or key,
    /// clocks that differ, a proxy. One line each; the exit status is 0 only if there is none.
    Doctor {
        /// The connection string, as --connection-string takes it
        #[arg(
            value_name = "CONNECTION STRING",
            conflicts_with_all = ["connection_string", "server_host", "server_port"]
        )]
        subject: Option<String>,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Record what is asked of the tables of an account: for `lazurite what-if`
    ///
    /// Prints one JSON object a request: keys, filter, sizes, but no values of properties. While
    /// no client records, the server keeps nothing.
    Record {
        /// End after so many seconds (default: until Ctrl-C)
        #[arg(long, value_name = "SECONDS")]
        seconds: Option<u64>,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Compare a recorded workload of a table with the same workload under other keys
    ///
    /// Copies the table in a fork, with its new keys, and asks the recorded queries there:
    /// requests, rows that Azure would examine, the hottest partition and when it would be
    /// throttled, storage and price. Without --partition-key, keys to try are printed. See
    /// docs/what-if.md.
    WhatIf(WhatIfArguments),
    /// Check a design of tables that is described in a file
    Design {
        #[command(subcommand)]
        action: DesignAction,
    },
    /// Print what a running server would change about the workload it sees
    ///
    /// The rules are those of the table design guide: see docs/advisor.md.
    Advice {
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Print the table design cookbook: all pages, a page, or its program
    ///
    /// The console shows the same pages at /_lazurite/guide.
    Guide {
        /// The page, as the list of pages names it
        #[arg(value_name = "PAGE")]
        page: Option<String>,
        /// Print the whole program of the page in this language instead
        #[arg(long, value_enum, value_name = "LANGUAGE", requires = "page")]
        program: Option<Language>,
        /// Run the program of the page in a fork of a running server, in Python unless --program
        /// names another language. It needs the packages of Azure, here or in the directory above
        #[arg(long, requires = "page")]
        run: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Print the last requests that a running server had, with the reason of each refusal
    ///
    /// The server keeps them in memory: see docs/console.md.
    Requests {
        /// Print requests as they come, until the server ends
        #[arg(short, long)]
        follow: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        /// Only requests with all these words in path, operation, status, error code, client or id
        #[arg(long, value_name = "WORDS")]
        filter: Option<String>,
        /// Only requests that were refused or failed
        #[arg(long)]
        errors: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Say whether a server runs, where and on which directory; its version, disk and memory
    ///
    /// LAZURITE_CONSOLE_PASSWORD is sent if it is set and a console asks for it. The exit status is
    /// 1 if no server answers.
    Status {
        /// Print the answer of the server
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Show the clock of a running server, or move it: for tests of expiry, retention, leases and
    /// hidden messages
    ///
    /// The clock never goes back. LAZURITE_CONSOLE_PASSWORD is sent if it is set and a console asks
    /// for it. See docs/testing.md.
    Clock {
        #[command(subcommand)]
        action: Option<ClockAction>,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Show, set or remove the faults that a running server injects into requests
    ///
    /// LAZURITE_CONSOLE_PASSWORD is sent if it is set and a console asks for it. See
    /// docs/testing.md.
    Faults {
        #[command(subcommand)]
        action: Option<FaultsAction>,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Reset the store of a running server, keep it as a snapshot, restore it, or fork it for a
    /// test
    ///
    /// LAZURITE_CONSOLE_PASSWORD is sent if it is set and a console asks for it. See
    /// docs/testing.md.
    State {
        #[command(subcommand)]
        action: StateAction,
        #[command(flatten)]
        store: StoreArguments,
        /// Print the answer of the server
        #[arg(long, global = true)]
        json: bool,
    },
    /// List containers, queues and tables; or the blobs of a container, one level of directories at
    /// a time
    Ls {
        /// A container, with the directory to list: photos/2026/
        #[arg(value_name = "PATH", default_value = "", hide_default_value = true)]
        path: String,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// List all blobs of a container or below a directory as a tree
    Tree {
        /// A container, with the beginning of the names: photos/2026/
        #[arg(value_name = "PATH")]
        path: String,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Write the content of a blob to standard output
    Cat {
        /// CONTAINER/NAME
        #[arg(value_name = "BLOB")]
        path: String,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Put a file as a block blob, in place of one that has the name
    Put {
        /// The file; - reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// CONTAINER/NAME
        #[arg(value_name = "BLOB")]
        path: String,
        /// Its Content-Type
        #[arg(
            long = "type",
            value_name = "TYPE",
            default_value = "application/octet-stream"
        )]
        content_type: String,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Delete a blob
    Rm {
        /// CONTAINER/NAME
        #[arg(value_name = "BLOB")]
        path: String,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Print the next messages of a queue, without taking them
    Peek {
        /// The queue
        #[arg(value_name = "QUEUE")]
        queue: String,
        /// Most messages
        #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=32))]
        count: u32,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Put a message into a queue
    Send {
        /// The queue
        #[arg(value_name = "QUEUE")]
        queue: String,
        /// The message; - reads standard input
        #[arg(value_name = "TEXT")]
        text: String,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Print the entities of a table that a filter finds
    Query {
        /// The table
        #[arg(value_name = "TABLE")]
        table: String,
        /// As in $filter: "PartitionKey eq 'Sales' and Age gt 30" (default: all entities)
        #[arg(value_name = "FILTER", default_value = "", hide_default_value = true)]
        filter: String,
        /// Most entities
        #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
        top: u32,
        /// How the entities are printed; json is one object a line
        #[arg(long, value_enum, default_value_t = QueryFormat::Table)]
        format: QueryFormat,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Write everything that an account stores to a directory or an archive
    ///
    /// Files that people can read and edit: see docs/export.md. The exit status is 0 only if
    /// nothing was left out.
    Export {
        /// A directory, or an archive if it ends with .tar.zst; it must not exist
        #[arg(value_name = "PATH")]
        path: PathBuf,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Read an export, or a directory of the same layout, into a store
    ///
    /// Everything is checked before anything is written. See docs/export.md.
    Import {
        /// A directory; an archive that an export has written; or a .toml file, as --seed takes it
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// What happens to containers, queues and tables that are there
        #[arg(long, value_enum, default_value_t = Existing::Refuse)]
        existing: Existing,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Copy blobs, queues and tables from one server to another: Lazurite, Azurite or Azure
    ///
    /// The exit status is 0 only if all contents were copied. See docs/copy.md.
    Copy(CopyArguments),
    /// Read the data directory of Azurite into a store, without running Azurite
    ///
    /// Azurite must not be running. Its files are only read. What cannot be imported is named: see
    /// docs/from-azurite.md. The exit status is 0 only if nothing was left out.
    ImportAzurite {
        /// The directory that Azurite was started with as --location
        #[arg(value_name = "DIR")]
        path: PathBuf,
        /// The account of Azurite's to import (default: the account of the connection string)
        #[arg(long, value_name = "NAME")]
        account: Option<String>,
        /// What happens to containers, queues and tables that are there
        #[arg(long, value_enum, default_value_t = Existing::Refuse)]
        existing: Existing,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Serve the store to a coding assistant: the Model Context Protocol over standard input and
    /// output
    ///
    /// Tools: list, read_blob, query_entities, peek_messages, requests, request, advice. See
    /// docs/console.md.
    Mcp {
        /// Offer tools that write, too: put_blob, delete_blob, send_message, put_entity,
        /// delete_entity, create
        #[arg(long = "allow-writes")]
        allow_writes: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Start the server when you log in: with systemd on Linux, with launchd on macOS
    ///
    /// It is a service of the user, in the user's own directories, and needs no rights of an
    /// administrator. Windows has none: see docs/install.md.
    Service {
        #[command(subcommand)]
        action: ServiceAction,
    },
    /// Make or remove the commands azurite, azurite-blob, azurite-queue and azurite-table
    ///
    /// They are links to this program. A file that is not such a link stays as it is, and the
    /// command fails.
    Shim {
        #[command(subcommand)]
        action: ShimAction,
    },
}

/// The arguments of `lazurite what-if`.
#[derive(Debug, Clone, Args)]
pub struct WhatIfArguments {
    /// The table
    #[arg(value_name = "TABLE")]
    pub table: String,
    /// A record of `lazurite record`; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub record: PathBuf,
    /// The new PartitionKey: names of properties, PartitionKey, RowKey and 'texts', joined by +.
    /// Also month(P), day(P), hour(P), inverted(P) of an instant, start(P, 3), pad(P, 10),
    /// hash(P, 16)
    #[arg(long, value_name = "EXPRESSION")]
    pub partition_key: Option<String>,
    /// The new RowKey
    #[arg(
        long,
        value_name = "EXPRESSION",
        default_value = "PartitionKey + '_' + RowKey"
    )]
    pub row_key: String,
    /// Keep the entities as they are, and store copies under the new keys
    #[arg(long)]
    pub copy: bool,
    /// Properties whose values clients know when they read or change an entity by its keys
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub known: Vec<String>,
    /// A price file, as `lazurite-bench guide --print-prices` prints it
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Entities a second that a server of Azure bears: not published
    #[arg(long, value_name = "NUMBER", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    pub server_target: u32,
    /// Seconds after which an overloaded server is relieved: not published
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub split_after: u32,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the comparison as a page, with pictures of the simulation
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArguments,
}

/// The arguments of `lazurite copy`.
#[derive(Debug, Clone, Args)]
pub struct CopyArguments {
    /// The connection string of the source; env:NAME reads it from this variable
    #[arg(value_name = "FROM")]
    pub from: String,
    /// The connection string of the destination; env:NAME reads it from this variable
    #[arg(value_name = "TO")]
    pub to: String,
    /// Only these services
    #[arg(long, value_parser = values::service(), value_delimiter = ',', value_name = "SERVICES")]
    pub services: Vec<ServiceKind>,
    /// Only these containers; queues and tables then only if they are named
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub containers: Vec<String>,
    /// Only these queues
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub queues: Vec<String>,
    /// Only these tables
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub tables: Vec<String>,
    /// What happens to containers, queues and tables that the destination has
    #[arg(long, value_enum, default_value_t = Existing::Refuse)]
    pub existing: Existing,
    /// Requests at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub parallel: u8,
    /// Note in this file what was copied, and go on from there if it exists
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Seconds for which a request is sent again after its connection broke
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(0..=3600))]
    pub retry: u16,
    /// Copy the first 32 messages of queues whose server shows no more, rather than none
    #[arg(long = "first-messages")]
    pub first_messages: bool,
    /// Do not read copied blobs again from the destination to compare them
    #[arg(long = "no-read-back")]
    pub no_read_back: bool,
}

/// The store that a command is for.
///
/// The names differ from those of the flags of a start, whose values a global argument of the same
/// name would take over.
#[derive(Debug, Clone, Args)]
pub struct StoreArguments {
    /// The connection string: of a running server or of Azure (default: the one in
    /// AZURE_STORAGE_CONNECTION_STRING or AzureWebJobsStorage, else UseDevelopmentStorage=true)
    #[arg(
        long = "connection-string",
        value_name = "CONNECTION STRING",
        conflicts_with_all = ["server_host", "server_port"],
        global = true
    )]
    pub connection_string: Option<String>,
    /// The host of a running server that has the development account (default: 127.0.0.1)
    #[arg(long = "host", value_name = "HOST", value_parser = values::host, global = true)]
    pub server_host: Option<String>,
    /// The --port of that server: of Blob; Queue and Table have the next two (default: 10000)
    #[arg(long = "port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65533), global = true)]
    pub server_port: Option<u16>,
}

/// Values of `lazurite query --format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueryFormat {
    Table,
    Json,
    Csv,
}

/// An action of `lazurite design`.
#[derive(Debug, Clone, Subcommand)]
pub enum DesignAction {
    /// Build the tables of a file in a fork, run its access patterns there, and print plans, rows,
    /// requests, heat and prices
    ///
    /// The exit status is 1 if a pattern fails what the file demands of it, or if the load is above
    /// a published target of Azure. For CI: a change that makes a pattern a table scan fails. See
    /// docs/what-if.md.
    Check {
        /// The design, as TOML, or as JSON if its name ends so
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// A price file, as `lazurite-bench guide --print-prices` prints it
        #[arg(long, value_name = "FILE")]
        prices: Option<PathBuf>,
        /// Print the outcome as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
}

/// An action of `lazurite clock`.
#[derive(Debug, Clone, Subcommand)]
pub enum ClockAction {
    /// Print the time, the distance from the machine's clock, and whether the clock is frozen
    Show,
    /// Move the clock forward
    Advance {
        /// How far: 30s, 5m, 2h, 7d, or PT30S
        #[arg(value_name = "DURATION")]
        by: String,
    },
    /// Set the clock to a later time
    Set {
        /// In UTC, as 2030-01-31T12:00:00Z
        #[arg(value_name = "TIME")]
        time: String,
    },
    /// Stop the clock
    Freeze,
    /// Let a stopped clock go on from where it is
    Run,
    /// Show the machine's time again, unless that is earlier
    Reset,
}

/// An action of `lazurite faults`.
#[derive(Debug, Clone, Subcommand)]
pub enum FaultsAction {
    /// Print the rules with the number of their hits, as JSON
    Show,
    /// Replace the rules by those of a file
    Set {
        /// A JSON document {"rules": [...]}; - reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove all rules
    Clear,
}

/// The part of a store that `lazurite state reset` deletes; everything if nothing is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ResetArguments {
    /// An account; ACCOUNT--FORK is the account in a fork
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// blob, queue or table
    #[arg(long, value_name = "SERVICE")]
    pub service: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub container: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
}

/// An action of `lazurite state`.
#[derive(Debug, Clone, Subcommand)]
pub enum StateAction {
    /// Delete everything in the store, or in the part of it that is named
    Reset(ResetArguments),
    /// Keep the store as it is now
    Snapshot {
        /// 1 to 64 letters, digits, dots, hyphens and underscores
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print the snapshots and the forks
    List,
    /// Put a snapshot in the place of the store and drop the present contents
    Restore {
        /// The snapshot
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete a snapshot
    Delete {
        /// The snapshot
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print what differs between two snapshots, or a snapshot and the store
    Diff {
        /// The older side: a snapshot, or now, which is the store as it is (default: the source of
        /// the fork)
        #[arg(value_name = "FROM", required_unless_present = "fork")]
        from: Option<String>,
        /// The newer side (default: the fork, or now)
        #[arg(value_name = "TO")]
        to: Option<String>,
        /// Compare this fork with its source
        #[arg(long, value_name = "NAME")]
        fork: Option<String>,
        /// Most changes to print, up to 10000
        #[arg(long, value_name = "COUNT", default_value_t = LIMIT_DEFAULT)]
        limit: usize,
    },
    /// Make a fork and print its connection string
    Fork {
        /// The snapshot that it begins as (default: the store as it is now)
        #[arg(value_name = "SNAPSHOT")]
        from: Option<String>,
        /// Its name: 1 to 40 lower-case letters, digits and hyphens (default: a random one)
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// End a fork
    Release {
        /// The fork
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// An action of `lazurite service`.
#[derive(Debug, Clone, Subcommand)]
pub enum ServiceAction {
    /// Write the service and start it; one that is installed is replaced
    Install {
        /// Print the file and the commands, and change nothing
        #[arg(long)]
        print: bool,
        /// Flags of the server, after --. Without --location, data is kept in the user's directory
        /// for data: ~/.local/share/lazurite, or ~/Library/Application Support/lazurite
        #[arg(last = true, value_name = "FLAGS")]
        flags: Vec<String>,
    },
    /// Stop and remove the service. The data stays
    Uninstall,
    /// Say whether a service is installed and runs: the exit status is 0 if it runs
    Status,
}

/// An action of `lazurite shim`.
#[derive(Debug, Clone, Subcommand)]
pub enum ShimAction {
    /// Make the four commands
    Install {
        /// Where (default: next to this program)
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Remove the four commands
    Remove {
        /// Where (default: next to this program)
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// The languages of the programs of the cookbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Python,
    Javascript,
}

impl Language {
    /// The file extension of programs in the language.
    pub fn file_end(self) -> &'static str {
        match self {
            Language::Python => "py",
            Language::Javascript => "mjs",
        }
    }

    /// The programs that run its files, the preferred one first.
    pub fn interpreters(self) -> &'static [&'static str] {
        match self {
            Language::Python => &["python3", "python"],
            Language::Javascript => &["node"],
        }
    }

    /// What its files import.
    pub fn packages(self) -> &'static str {
        match self {
            Language::Python => {
                "azure-data-tables, azure-storage-blob, azure-storage-queue and cryptography (pip install)"
            }
            Language::Javascript => {
                "@azure/data-tables, @azure/storage-blob and @azure/storage-queue (npm install)"
            }
        }
    }
}
