//! The commands that the program runs instead of serving.

mod advice;
mod blobs;
mod clock;
mod confirm;
mod copies;
mod create;
mod design_check;
mod doctor;
mod entity;
mod faults;
mod grid;
mod guide;
mod health;
mod list;
mod listing;
mod mcp;
mod messages;
mod nearest;
mod outcome;
mod query;
mod record;
mod requests;
mod service;
mod shim;
mod state;
mod status;
mod transfer;
mod what_if;

use crate::cli::{
    Command, CopyArguments, CopyPathsArguments, CreateKind, DeleteKind, DesignAction, QueryFormat,
    ShimAction, StateAction, StoreArguments, WhatIfArguments,
};
use crate::state::Directories;
use lazurite_design::Rules;
use lazurite_engine::{Config, Db, Durability, Environment, Verified, dump_file};
use lazurite_mover::target::{PORT_DEFAULT, Target, connection_string, development_string};
use lazurite_mover::{Client, CopyOptions, ResourceKind};
use serde_json::json;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The variable with the key of the account that --account names, as the Azure CLI has it.
const ACCOUNT_KEY: &str = "AZURE_STORAGE_KEY";

impl Command {
    /// Runs the command and returns the exit status. The error is a sentence.
    pub fn run(&self) -> Result<ExitCode, String> {
        match self {
            Command::Verify { directory, output } => verify(directory, output.json),
            Command::Dump { file } => dump(file),
            Command::Health {
                ports,
                store,
                output,
            } => {
                let target = store.is_given().then(|| store.target()).transpose()?;
                health::run(ports, target.as_ref(), output.json)
            }
            Command::Doctor {
                subject,
                store,
                output,
            } => {
                let (origin, target) = store.find(subject.as_deref())?;
                doctor::run(origin, &target, output.json)
            }
            Command::Advice { store, output } => advice::run(&store.client()?, output.json),
            Command::Requests {
                follow,
                json,
                filter,
                errors,
                store,
            } => {
                let options = requests::Options {
                    follow: *follow,
                    json: *json,
                    filter: filter.as_deref(),
                    errors: *errors,
                };
                requests::run(&store.target()?, &options)
            }
            Command::Guide {
                page: Some(page),
                program,
                run: true,
                store,
            } => guide::run_program(&store.client()?, page, *program),
            Command::Guide { page, program, .. } => guide::print(page.as_deref(), *program),
            Command::Status { json, store } => status::run(&store.target()?, *json),
            Command::Clock {
                action,
                store,
                output,
            } => clock::run(action.as_ref(), &store.target()?, output.json),
            Command::Faults {
                action,
                store,
                output,
            } => faults::run(action.as_ref(), &store.target()?, output.json),
            Command::State {
                action,
                json,
                store,
            } => state::run(&with_account(action, store), &store.target()?, *json),
            Command::Ls { path, json, store } => list::run(&store.client()?, path, false, *json),
            Command::Tree { path, json, store } => list::run(&store.client()?, path, true, *json),
            Command::Cat { path, store } => blobs::cat(&store.client()?, path),
            Command::Get(arguments) => blobs::get(&arguments.store.client()?, arguments),
            Command::Put(arguments) => blobs::put(&arguments.store.client()?, arguments),
            Command::Rm(arguments) => blobs::remove(&arguments.store.client()?, arguments),
            Command::Cp(arguments) => copies::run(arguments, false),
            Command::Mv(arguments) => copies::run(arguments, true),
            Command::Create { kind } => {
                let (kind, public, arguments) = match kind {
                    CreateKind::Container { public, arguments } => {
                        (ResourceKind::Container, public.as_deref(), arguments)
                    }
                    CreateKind::Queue(arguments) => (ResourceKind::Queue, None, arguments),
                    CreateKind::Table(arguments) => (ResourceKind::Table, None, arguments),
                };
                create::create(&arguments.store.client()?, kind, public, arguments)
            }
            Command::Delete { kind } => {
                let (kind, arguments) = match kind {
                    DeleteKind::Container(arguments) => (ResourceKind::Container, arguments),
                    DeleteKind::Queue(arguments) => (ResourceKind::Queue, arguments),
                    DeleteKind::Table(arguments) => (ResourceKind::Table, arguments),
                };
                create::delete(&arguments.store.client()?, kind, arguments)
            }
            Command::Entity {
                action,
                store,
                output,
            } => entity::run(&store.client()?, action, output.json),
            Command::Peek {
                queue,
                count,
                decode,
                json,
                store,
            } => messages::peek(&store.client()?, queue, *count, *decode, *json),
            Command::Send {
                queue,
                text,
                base64,
                store,
                output,
            } => messages::send(&store.client()?, queue, text, *base64, output.json),
            Command::Query {
                table,
                filter,
                top,
                format,
                json,
                store,
            } => {
                let format = if *json { QueryFormat::Json } else { *format };
                query::run(&store.client()?, table, filter, *top as usize, format)
            }
            Command::Record { seconds, store } => record::run(&store.client()?, *seconds),
            Command::WhatIf(arguments) => {
                what_if::run(&arguments.store.client()?, &arguments.options())
            }
            Command::Design { action } => match action {
                DesignAction::Check {
                    file,
                    prices,
                    json,
                    store,
                } => {
                    let prices = what_if::prices(prices.as_deref())?;
                    design_check::run(&store.client()?, file, &prices, *json)
                }
            },
            Command::Export {
                path,
                store,
                output,
            } => transfer::run_export(&store.client()?, path, output.json),
            Command::Import {
                path,
                existing,
                store,
                output,
            } => transfer::run_import(&store.client()?, path, *existing, output.json),
            Command::Copy(arguments) => {
                let options = arguments.options();
                let as_json = arguments.output.json;
                transfer::run_copy(&arguments.from, &arguments.to, &options, as_json)
            }
            Command::ImportAzurite {
                path,
                account,
                existing,
                store,
                output,
            } => {
                let (client, account) = (store.client()?, account.as_deref());
                transfer::run_import_azurite(&client, path, account, *existing, output.json)
            }
            Command::Mcp {
                allow_writes,
                store,
            } => mcp::run(store.client()?, *allow_writes),
            Command::Service { action, output } => service::run(action, output.json),
            Command::Shim { action, output } => match action {
                ShimAction::Install { directory } => {
                    shim::install(directory.as_deref(), output.json)
                }
                ShimAction::Remove { directory } => shim::remove(directory.as_deref(), output.json),
            },
        }
    }
}

impl CopyArguments {
    fn options(&self) -> CopyOptions {
        CopyOptions {
            services: self.services.clone(),
            containers: self.containers.clone(),
            queues: self.queues.clone(),
            tables: self.tables.clone(),
            existing: self.existing,
            parallel: self.parallel.into(),
            journal: self.resume.clone(),
            retry: Duration::from_secs(self.retry.into()),
            takes_first_messages: self.first_messages,
            reads_back: !self.no_read_back,
        }
    }
}

impl WhatIfArguments {
    fn options(&self) -> what_if::Options<'_> {
        what_if::Options {
            table: &self.table,
            partition_key: self.partition_key.as_deref(),
            row_key: &self.row_key,
            copy: self.copy,
            known: &self.known,
            record: &self.record,
            prices: self.prices.as_deref(),
            rules: Rules {
                server_target: self.server_target.into(),
                split_after: self.split_after,
                ..Rules::default()
            },
            json: self.json,
            html: self.html.as_deref(),
        }
    }
}

/// The action, with the account of the command if it is a reset of a part.
fn with_account(action: &StateAction, store: &StoreArguments) -> StateAction {
    let mut action = action.clone();
    if let StateAction::Reset(part) = &mut action {
        part.account.clone_from(&store.server_account);
    }
    action
}

impl StoreArguments {
    fn client(&self) -> Result<Client, String> {
        self.target().map(Client::of)
    }

    fn target(&self) -> Result<Target, String> {
        self.find(None).map(|(_, target)| target)
    }

    /// Whether the command line says anything about the server.
    fn is_given(&self) -> bool {
        let names = [
            &self.connection_string,
            &self.server_host,
            &self.server_account,
        ];
        self.server_port.is_some() || names.iter().any(|name| name.is_some())
    }

    /// The server and the account, and where they are named. `subject` is a connection string that
    /// counts more than those of the flags.
    fn find(&self, subject: Option<&str>) -> Result<(&'static str, Target), String> {
        let given = subject.or(self.connection_string.as_deref());
        let (origin, text) = store_named(given, self.server_host.as_deref(), self.server_port)?;
        let target = of_account(Target::read(&text)?, self.server_account.as_deref())?;
        Ok((origin, target))
    }
}

impl CopyPathsArguments {
    /// The client of the destination; `None` if no flag names it, so that it is that of the source.
    fn to_client(&self) -> Result<Option<Client>, String> {
        let given = self.to_connection_string.as_deref();
        let account = self.to_account.as_deref();
        if given.is_none() && self.to_host.is_none() && self.to_port.is_none() {
            return match account {
                None => Ok(None),
                Some(_) => of_account(self.store.target()?, account).map(|to| Some(Client::of(to))),
            };
        }
        let (_, text) = store_named(given, self.to_host.as_deref(), self.to_port)?;
        let target = of_account(Target::read(&text)?, account)?;
        Ok(Some(Client::of(target)))
    }
}

/// The connection string that flags give, or that of the environment, and where it is from.
fn store_named(
    given: Option<&str>,
    host: Option<&str>,
    port: Option<u16>,
) -> Result<(&'static str, String), String> {
    if host.is_some() || port.is_some() {
        let text = development_string(host.unwrap_or("127.0.0.1"), port.unwrap_or(PORT_DEFAULT));
        return Ok(("the command line", text));
    }
    match given.and_then(|text| text.strip_prefix("env:")) {
        None => connection_string(given),
        Some(name) => {
            let text = std::env::var(name);
            let text = text.map_err(|_| format!("the environment has no variable {name}"))?;
            connection_string(Some(&text))
        }
    }
}

/// The same services for another account, if one is named.
fn of_account(target: Target, account: Option<&str>) -> Result<Target, String> {
    let key = std::env::var(ACCOUNT_KEY)
        .ok()
        .filter(|key| !key.is_empty());
    match account {
        None => Ok(target),
        Some(account) => target.for_account(account, key),
    }
}

fn verify(directory: &Path, as_json: bool) -> Result<ExitCode, String> {
    let durability = Durability::Process;
    let config = Config {
        durability,
        ..Config::default()
    };
    let shown = directory.display();
    match directory.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!("there is no directory {shown}"));
        }
        Err(error) => return Err(format!("cannot read {shown}: {error}")),
        Ok(found) if !found.is_dir() => {
            return Err(format!("{shown} is a file: name the directory of a store"));
        }
        Ok(_) => {}
    }
    let environment = Environment::system(durability);
    let text = |error: lazurite_engine::Error| error.to_string();
    let stores = Directories::list(environment.fs.clone(), directory).map_err(text)?;
    let (current, snapshots) = stores;
    let snapshots = snapshots.into_iter();
    let snapshots = snapshots.map(|(name, path)| (format!(" (snapshot {name})"), path));
    let mut is_sound = true;
    for (label, path) in [(String::new(), current)].into_iter().chain(snapshots) {
        let verified = Db::verify_directory(&path, config.clone(), environment.clone());
        let verified = verified.map_err(text)?;
        is_sound &= verified.damages.is_empty();
        match print_verified(&path, &label, &verified, as_json) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written.map_err(cannot_print)?,
        }
    }
    finish(Ok(()), is_sound)
}

fn print_verified(path: &Path, label: &str, verified: &Verified, as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        let damages: Vec<_> = verified.damages.iter().map(ToString::to_string).collect();
        let fact = json!({
            "directory": path.display().to_string(), "rows": verified.rows, "value_bytes": verified.value_bytes, "sstables": verified.sstables,
            "value_segments": verified.value_segments, "damages": damages,
        });
        return writeln!(out, "{fact}");
    }
    for damage in &verified.damages {
        writeln!(out, "{damage}")?;
    }
    writeln!(
        out,
        "{}{label}: {} rows with {} bytes of values in {} SSTables and {} sealed value-log segments; {}",
        path.display(),
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

/// The exit status. A closed pipe is not a failure: readers such as `head` stop early.
fn finish(written: std::io::Result<()>, is_sound: bool) -> Result<ExitCode, String> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(cannot_print(error)),
        _ if is_sound => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::FAILURE),
    }
}

fn cannot_print(error: io::Error) -> String {
    format!("cannot write to standard output: {error}")
}
