//! The commands of the program besides serving, with their help.

use crate::cli::values;
use crate::state::diff::LIMIT_DEFAULT;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use lazurite_mover::Existing;
use lazurite_protocol::service_kind::ServiceKind;
use std::path::PathBuf;

/// A command, instead of serving.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Check checksums, order of keys and references of a store that no server has open, and of its
    /// snapshots
    ///
    /// Prints one line for each damage, with its file and offset, and one for each store. The exit
    /// status is 0 only if there is none. Changes nothing.
    Verify {
        /// The directory of the store
        #[arg(value_name = "DIR", default_value = ".lazurite")]
        directory: PathBuf,
        #[command(flatten)]
        output: OutputArguments,
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
    /// Ask a server whether it serves requests: for health checks of containers
    ///
    /// Prints one line for each service. The exit status is 0 only if all of them answer.
    Health {
        /// Ports of this machine to ask (default: those in the file that LAZURITE_PORT_FILE names;
        /// 10000 if it names none)
        #[arg(
            value_name = "PORT",
            conflicts_with_all = ["connection_string", "server_host", "server_port"]
        )]
        ports: Vec<u16>,
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        output: OutputArguments,
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
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Record the requests to the tables of an account: for `lazurite what-if`
    ///
    /// Prints a JSON object for each request: keys, filter and sizes, but no values of properties.
    /// The server keeps nothing while no command records.
    Record {
        /// End after this many seconds (default: until Ctrl-C)
        #[arg(long, value_name = "SECONDS")]
        seconds: Option<u64>,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Compare a recorded workload of a table with the same workload under other keys
    ///
    /// Copies the table in a fork, with its new keys, and repeats the recorded queries there.
    /// Prints requests, rows that Azure would examine, the hottest partition and when it would be
    /// throttled, storage and price. Without --partition-key, prints keys to try. See
    /// docs/what-if.md.
    WhatIf(WhatIfArguments),
    /// Check a design of tables from a file
    Design {
        #[command(subcommand)]
        action: DesignAction,
    },
    /// Print advice on the workload that a running server has seen
    ///
    /// The rules are those of the table design guide: see docs/advisor.md.
    Advice {
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        output: OutputArguments,
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
    /// Print the last requests to a running server, with the reason of each refusal
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
        #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
        filter: Option<String>,
        /// Only requests that were refused or failed
        #[arg(long)]
        errors: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Show whether a server runs, its addresses, directory, version, disk space and memory
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
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Show, set or remove the faults that a running server injects into requests
    ///
    /// Without an action it shows them. `lazurite faults set rules.json` reads a document such as
    /// {"rules": [{"operation": "GetBlob", "fault": "503", "count": 3}]}. LAZURITE_CONSOLE_PASSWORD
    /// is sent if it is set and a console asks for it. See docs/testing.md.
    Faults {
        #[command(subcommand)]
        action: Option<FaultsAction>,
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Reset the store of a running server, save it as a snapshot, restore it, or fork it for a
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
    /// Download a blob to a file, or all blobs of a directory
    Get(GetArguments),
    /// Upload a file as a block blob, or all files of a directory
    Put(PutArguments),
    /// Delete a blob, all blobs of a directory, or all whose names begin with a prefix
    ///
    /// With -r or --prefix it counts first, and asks. It then deletes the blobs that it counted:
    /// those that were changed since stay, and new ones are not touched.
    Rm(RmArguments),
    /// Copy blobs between containers, accounts, forks and servers
    ///
    /// The server copies by itself where both places are in one of its stores. Otherwise the content
    /// passes through this program. Metadata, tags and tier are copied too. The flags that begin with
    /// --to- name the other server or account; without them both places are in the same account.
    Cp(CopyPathsArguments),
    /// Move blobs: copy them, and delete the originals that were not changed since
    Mv(CopyPathsArguments),
    /// Create containers, queues or tables
    Create {
        #[command(subcommand)]
        kind: CreateKind,
    },
    /// Delete a container, a queue or a table with its contents
    Delete {
        #[command(subcommand)]
        kind: DeleteKind,
    },
    /// Read, write or delete entities of a table
    Entity {
        #[command(subcommand)]
        action: EntityAction,
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Print the next messages of a queue, without receiving them
    Peek {
        /// The queue
        #[arg(value_name = "QUEUE")]
        queue: String,
        /// Maximum number of messages
        #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=32))]
        count: u32,
        /// Decode messages that are Base64 of a text, as Azure Functions writes them
        #[arg(long)]
        decode: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Send a message to a queue
    Send {
        /// The queue
        #[arg(value_name = "QUEUE")]
        queue: String,
        /// The message; - reads standard input
        #[arg(value_name = "TEXT", allow_hyphen_values = true)]
        text: String,
        /// Encode it as Base64, as Azure Functions expects it
        #[arg(long)]
        base64: bool,
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Print the entities of a table that match a filter
    Query {
        /// The table
        #[arg(value_name = "TABLE")]
        table: String,
        /// As in $filter: "PartitionKey eq 'Sales' and Age gt 30" (default: all entities)
        #[arg(value_name = "FILTER", default_value = "", hide_default_value = true)]
        filter: String,
        /// Maximum number of entities
        #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
        top: u32,
        /// The form of the output; json is one object a line
        #[arg(long, value_enum, default_value_t = QueryFormat::Table)]
        format: QueryFormat,
        /// The same as --format json
        #[arg(long, conflicts_with = "format")]
        json: bool,
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
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Read an export, or a directory of the same layout, into a store
    ///
    /// Everything is checked before anything is written. See docs/export.md.
    Import {
        /// A directory; an archive that an export has written; or a .toml file, as --seed takes it
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// What happens to containers, queues and tables that exist
        #[arg(long, value_enum, default_value_t = Existing::Refuse)]
        existing: Existing,
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        output: OutputArguments,
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
        #[arg(long = "from-account", value_name = "NAME")]
        account: Option<String>,
        /// What happens to containers, queues and tables that exist
        #[arg(long, value_enum, default_value_t = Existing::Refuse)]
        existing: Existing,
        #[command(flatten)]
        store: StoreArguments,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Serve the store to a coding assistant: the Model Context Protocol over standard input and
    /// output
    ///
    /// The tools are those of the commands; docs/console.md lists them.
    Mcp {
        /// Offer tools that write, too
        #[arg(long = "allow-writes")]
        allow_writes: bool,
        #[command(flatten)]
        store: StoreArguments,
    },
    /// Start the server when you log in: with systemd on Linux, with launchd on macOS
    ///
    /// A service of the user, in the user's own directories: it needs no administrator rights.
    /// Windows has none: see docs/install.md.
    Service {
        #[command(subcommand)]
        action: ServiceAction,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Make or remove the commands azurite, azurite-blob, azurite-queue and azurite-table
    ///
    /// They are links to this program. A file that is not such a link stays as it is, and the
    /// command fails.
    Shim {
        #[command(subcommand)]
        action: ShimAction,
        #[command(flatten)]
        output: OutputArguments,
    },
}

/// The arguments of `lazurite get`.
#[derive(Debug, Clone, Args)]
pub struct GetArguments {
    /// CONTAINER/NAME, or with -r CONTAINER/DIRECTORY
    #[arg(value_name = "BLOB")]
    pub path: String,
    /// The file, or with -r the directory (default: the name of the blob; with -r, this directory)
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// All blobs of the directory
    #[arg(short, long)]
    pub recursive: bool,
    /// Do not overwrite existing files
    #[arg(short, long = "no-clobber")]
    pub no_clobber: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The arguments of `lazurite put`.
#[derive(Debug, Clone, Args)]
pub struct PutArguments {
    /// The file, or with -r the directory; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// CONTAINER/NAME; after a container or a slash, the blob has the name of the file. With -r
    /// CONTAINER/DIRECTORY
    #[arg(value_name = "BLOB")]
    pub path: String,
    /// All files of the directory and of those in it
    #[arg(short, long)]
    pub recursive: bool,
    /// The Content-Type (default: the one for the name)
    #[arg(long = "type", value_name = "TYPE")]
    pub content_type: Option<String>,
    /// Do not overwrite existing blobs
    #[arg(short, long = "no-clobber")]
    pub no_clobber: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The arguments of `lazurite rm`.
#[derive(Debug, Clone, Args)]
pub struct RmArguments {
    /// CONTAINER/NAME; with -r CONTAINER or CONTAINER/DIRECTORY
    #[arg(value_name = "BLOB")]
    pub path: String,
    /// All blobs of the directory
    #[arg(short, long)]
    pub recursive: bool,
    /// All blobs whose names begin with NAME
    #[arg(long, conflicts_with = "recursive")]
    pub prefix: bool,
    /// Delete the snapshots of blobs too
    #[arg(long)]
    pub snapshots: bool,
    /// Do not ask for a confirmation
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The arguments of `lazurite cp` and `mv`.
#[derive(Debug, Clone, Args)]
pub struct CopyPathsArguments {
    /// CONTAINER/NAME; with -r CONTAINER or CONTAINER/DIRECTORY
    #[arg(value_name = "FROM")]
    pub from: String,
    /// CONTAINER/NAME; with -r CONTAINER or CONTAINER/DIRECTORY
    ///
    /// After a container or a slash, the copy has the last part of the name.
    #[arg(value_name = "TO")]
    pub to: String,
    /// All blobs of the directory
    #[arg(short, long)]
    pub recursive: bool,
    /// Do not overwrite existing blobs
    #[arg(short, long = "no-clobber")]
    pub no_clobber: bool,
    /// The connection string of TO; env:NAME reads it from this variable
    #[arg(
        long = "to-connection-string",
        value_name = "CONNECTION STRING",
        conflicts_with_all = ["to_host", "to_port"],
        help_heading = "Server of TO"
    )]
    pub to_connection_string: Option<String>,
    /// The host of TO (default: 127.0.0.1)
    #[arg(long = "to-host", value_name = "HOST", value_parser = values::host, help_heading = "Server of TO")]
    pub to_host: Option<String>,
    /// The first port of TO (default: 10000)
    #[arg(long = "to-port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65533), help_heading = "Server of TO")]
    pub to_port: Option<u16>,
    /// The account of TO; ACCOUNT--FORK is the account in a fork
    #[arg(
        long = "to-account",
        value_name = "NAME",
        help_heading = "Server of TO"
    )]
    pub to_account: Option<String>,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `lazurite create` creates.
#[derive(Debug, Clone, Subcommand)]
pub enum CreateKind {
    /// Create containers
    Container {
        /// What anonymous clients may read: blobs, or blobs and the list of them
        #[arg(long, value_name = "ACCESS", value_parser = ["blob", "container"])]
        public: Option<String>,
        #[command(flatten)]
        arguments: CreateArguments,
    },
    /// Create queues
    Queue(CreateArguments),
    /// Create tables
    Table(CreateArguments),
}

/// The arguments of `lazurite create`.
#[derive(Debug, Clone, Args)]
pub struct CreateArguments {
    /// Their names
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Take those that are there for created
    #[arg(long = "ignore-existing")]
    pub ignore_existing: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `lazurite delete` deletes.
#[derive(Debug, Clone, Subcommand)]
pub enum DeleteKind {
    /// Delete a container with its blobs
    Container(DeleteArguments),
    /// Delete a queue with its messages
    Queue(DeleteArguments),
    /// Delete a table with its entities
    Table(DeleteArguments),
}

/// The arguments of `lazurite delete`.
#[derive(Debug, Clone, Args)]
pub struct DeleteArguments {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Do not ask for a confirmation
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// An action of `lazurite entity`.
#[derive(Debug, Clone, Subcommand)]
pub enum EntityAction {
    /// Print an entity with its ETag
    Get {
        /// The table
        #[arg(value_name = "TABLE")]
        table: String,
        /// Its PartitionKey
        #[arg(value_name = "PARTITION_KEY")]
        partition_key: String,
        /// Its RowKey
        #[arg(value_name = "ROW_KEY")]
        row_key: String,
    },
    /// Insert an entity, or replace the one with the same keys
    ///
    /// Values are written as in $filter: 34, 34L, 1.5, true, "Name='Anna'",
    /// "Due=datetime'2026-11-30'", "Id=guid'...'", "Photo=binary'00ff'". A word without quotes is a
    /// text.
    Put(EntityPutArguments),
    /// Delete an entity, or all that match a filter
    ///
    /// With --filter it counts first, and asks. It then deletes the entities that it counted: those
    /// that were changed since stay.
    Delete {
        /// The table
        #[arg(value_name = "TABLE")]
        table: String,
        /// Its PartitionKey
        #[arg(
            value_name = "PARTITION_KEY",
            required_unless_present = "filter",
            requires = "row_key",
            conflicts_with = "filter"
        )]
        partition_key: Option<String>,
        /// Its RowKey
        #[arg(value_name = "ROW_KEY")]
        row_key: Option<String>,
        /// All entities that match this filter, as in $filter
        #[arg(long, value_name = "FILTER", value_parser = NonEmptyStringValueParser::new())]
        filter: Option<String>,
        /// Delete only if the entity has this ETag
        #[arg(
            long = "if-match",
            value_name = "ETAG",
            default_value = "*",
            hide_default_value = true,
            conflicts_with = "filter"
        )]
        if_match: String,
        /// Do not ask for a confirmation
        #[arg(short, long, requires = "filter")]
        yes: bool,
    },
}

/// The arguments of `lazurite entity put`.
#[derive(Debug, Clone, Args)]
pub struct EntityPutArguments {
    /// The table
    #[arg(value_name = "TABLE")]
    pub table: String,
    /// Its PartitionKey
    #[arg(value_name = "PARTITION_KEY")]
    pub partition_key: String,
    /// Its RowKey
    #[arg(value_name = "ROW_KEY")]
    pub row_key: String,
    /// Its properties
    #[arg(value_name = "NAME=VALUE")]
    pub properties: Vec<String>,
    /// Keep the properties that are not named
    #[arg(long)]
    pub merge: bool,
    /// Fail if the entity exists
    #[arg(long, conflicts_with_all = ["merge", "if_match"])]
    pub insert: bool,
    /// Write only if the entity has this ETag; with *, only if it exists
    #[arg(long = "if-match", value_name = "ETAG")]
    pub if_match: Option<String>,
}

/// The form of what a command prints.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputArguments {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
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
    /// The new PartitionKey: names of properties, PartitionKey, RowKey and 'texts', joined by +
    ///
    /// Also month(P), day(P), hour(P), inverted(P) of an instant, start(P, 3), pad(P, 10), hash(P,
    /// 16).
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
    #[arg(long, hide_short_help = true)]
    pub copy: bool,
    /// Properties whose values clients know when they read or change an entity by its keys
    #[arg(
        long,
        hide_short_help = true,
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub known: Vec<String>,
    /// A price file, as `lazurite-bench guide --print-prices` prints it
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Entities per second that one server of Azure serves; Azure publishes no number
    #[arg(long, hide_short_help = true, value_name = "NUMBER", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    pub server_target: u32,
    /// Seconds until Azure splits the load of a server; Azure publishes no number
    #[arg(
        long,
        hide_short_help = true,
        value_name = "SECONDS",
        default_value_t = 30
    )]
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
    /// Maximum number of requests at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub parallel: u8,
    /// Record in this file what was copied, and continue from there if it exists
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Seconds for which a request is retried after its connection broke
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(0..=3600))]
    pub retry: u16,
    /// Copy the first 32 messages of queues whose server shows no more, rather than none
    #[arg(long = "first-messages")]
    pub first_messages: bool,
    /// Do not read copied blobs again from the destination to compare them
    #[arg(long = "no-read-back")]
    pub no_read_back: bool,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The server and the account that a command is for.
///
/// The names differ from those of the flags of a start, whose values a global argument of the same
/// name would take over.
#[derive(Debug, Clone, Args)]
pub struct StoreArguments {
    /// A connection string; env:NAME reads it from this variable
    ///
    /// Of a running server or of Azure. The default is AZURE_STORAGE_CONNECTION_STRING or
    /// AzureWebJobsStorage, else the development account at 127.0.0.1:10000.
    #[arg(
        long = "connection-string",
        value_name = "CONNECTION STRING",
        conflicts_with_all = ["server_host", "server_port"],
        global = true,
        help_heading = "Server"
    )]
    pub connection_string: Option<String>,
    /// The host of the server (default: LAZURITE_HOST, else 127.0.0.1)
    #[arg(long = "host", value_name = "HOST", value_parser = values::host, global = true, help_heading = "Server")]
    pub server_host: Option<String>,
    /// The port of its Blob service (default: LAZURITE_PORT, else 10000)
    ///
    /// Queue and Table have the next two.
    #[arg(long = "port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65533), global = true, help_heading = "Server")]
    pub server_port: Option<u16>,
    /// Another account of the server; ACCOUNT--FORK is the account in a fork
    ///
    /// AZURE_STORAGE_KEY has its key; without that variable, the key of the connection string is used.
    #[arg(
        long = "account",
        value_name = "NAME",
        global = true,
        help_heading = "Server"
    )]
    pub server_account: Option<String>,
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
    /// The exit status is 1 if a pattern does not meet what the file demands, or if the load exceeds
    /// a published target of Azure. For CI: a change that turns a pattern into a table scan fails.
    /// See docs/what-if.md.
    Check {
        /// The design: TOML, or JSON if the name ends in .json
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
        /// A duration: 30s, 5m, 2h, 7d, or PT30S
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
    /// Start a stopped clock again, from the time that it shows
    Run,
    /// Set the clock to the machine's time, unless that is earlier
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

/// The part of a store that `lazurite state reset` deletes; everything if nothing is named, and no
/// --account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ResetArguments {
    /// The --account of the command, if it is given.
    #[arg(skip)]
    pub account: Option<String>,
    /// blob, queue or table
    #[arg(long, value_name = "SERVICE")]
    pub service: Option<String>,
    /// Only this container
    #[arg(long, value_name = "NAME")]
    pub container: Option<String>,
    /// Only this queue
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Only this table
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
}

/// An action of `lazurite state`.
#[derive(Debug, Clone, Subcommand)]
pub enum StateAction {
    /// Delete everything in the store, or in the part that --account and the flags below name
    Reset(ResetArguments),
    /// Save the store as it is now as a snapshot
    Snapshot {
        /// 1 to 64 letters, digits, dots, hyphens and underscores
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print the snapshots and the forks
    List,
    /// Replace the contents of the store by those of a snapshot
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
        /// Maximum number of changes to print, up to 10000
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
