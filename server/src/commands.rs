//! The commands that the program runs instead of serving.

mod advice;
mod clock;
mod design_check;
mod doctor;
mod faults;
mod files;
mod guide;
mod health;
mod mcp;
mod messages;
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
    Command, CopyArguments, DesignAction, ShimAction, StoreArguments, WhatIfArguments,
};
use crate::state::Directories;
use lazurite_design::Rules;
use lazurite_engine::{Config, Db, Durability, Environment, Verified, dump_file};
use lazurite_mover::target::{PORT_DEFAULT, Target, connection_string, development_string};
use lazurite_mover::{Client, CopyOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

impl Command {
    /// Runs the command and returns the exit status. The error is a sentence.
    pub fn run(&self) -> Result<ExitCode, String> {
        match self {
            Command::Verify { directory } => verify(directory),
            Command::Dump { file } => dump(file),
            Command::Health { ports } => health::run(ports),
            Command::Doctor { subject, store } => doctor::run(subject.clone().or(store.text())),
            Command::Advice { store } => advice::run(&store.client()?),
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
            Command::Clock { action, store } => clock::run(action.as_ref(), &store.target()?),
            Command::Faults { action, store } => faults::run(action.as_ref(), &store.target()?),
            Command::State {
                action,
                json,
                store,
            } => state::run(action, &store.target()?, *json),
            Command::Ls { path, json, store } => files::list(&store.client()?, path, false, *json),
            Command::Tree { path, json, store } => files::list(&store.client()?, path, true, *json),
            Command::Cat { path, store } => files::cat(&store.client()?, path),
            Command::Put {
                file,
                path,
                content_type,
                store,
            } => files::put(&store.client()?, file, path, content_type),
            Command::Rm { path, store } => files::remove(&store.client()?, path),
            Command::Peek {
                queue,
                count,
                json,
                store,
            } => messages::peek(&store.client()?, queue, *count, *json),
            Command::Send { queue, text, store } => messages::send(&store.client()?, queue, text),
            Command::Query {
                table,
                filter,
                top,
                format,
                store,
            } => query::run(&store.client()?, table, filter, *top as usize, *format),
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
            Command::Export { path, store } => transfer::run_export(&store.client()?, path),
            Command::Import {
                path,
                existing,
                store,
            } => transfer::run_import(&store.client()?, path, *existing),
            Command::Copy(arguments) => {
                transfer::run_copy(&arguments.from, &arguments.to, &arguments.options())
            }
            Command::ImportAzurite {
                path,
                account,
                existing,
                store,
            } => {
                transfer::run_import_azurite(&store.client()?, path, account.as_deref(), *existing)
            }
            Command::Mcp {
                allow_writes,
                store,
            } => mcp::run(store.client()?, *allow_writes),
            Command::Service { action } => service::run(action),
            Command::Shim { action } => match action {
                ShimAction::Install { directory } => shim::install(directory.as_deref()),
                ShimAction::Remove { directory } => shim::remove(directory.as_deref()),
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

impl StoreArguments {
    fn client(&self) -> Result<Client, String> {
        Client::new(self.text().as_deref())
    }

    fn target(&self) -> Result<Target, String> {
        let (_, text) = connection_string(self.text().as_deref());
        Target::read(&text)
    }

    /// The connection string that the command line gives.
    fn text(&self) -> Option<String> {
        if self.server_host.is_none() && self.server_port.is_none() {
            return self.connection_string.clone();
        }
        let host = self.server_host.as_deref().unwrap_or("127.0.0.1");
        let port = self.server_port.unwrap_or(PORT_DEFAULT);
        Some(development_string(host, port))
    }
}

fn verify(directory: &Path) -> Result<ExitCode, String> {
    let durability = Durability::Process;
    let config = Config {
        durability,
        ..Config::default()
    };
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
        match print_verified(&path, &label, &verified) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written.map_err(cannot_print)?,
        }
    }
    finish(Ok(()), is_sound)
}

fn print_verified(path: &Path, label: &str, verified: &Verified) -> io::Result<()> {
    let mut out = io::stdout().lock();
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
