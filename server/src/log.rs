//! The log of `--debug`; without the flag, warnings on standard error, or more with `--log-level`.

use crate::cli::{Cli, LogFormat, LogLevel};
use crate::output::{LineWriter, Output};
use crate::private_files;
use std::backtrace::Backtrace;
use std::fs::File;
use std::path::Path;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts the log, which ends when the output is closed. The error is a sentence.
pub fn start(cli: &Cli) -> Result<Output, String> {
    let default = if cli.debug.is_some() {
        LogLevel::Debug
    } else {
        LogLevel::Warn
    };
    let level = match cli.log_level.unwrap_or(default) {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let is_stderr = |path: &Path| path == Path::new("-") || path == Path::new("/dev/stderr");
    let file = cli.debug.as_ref().filter(|path| !is_stderr(path));
    let output = match file {
        Some(path) => Output::start("the log", open(path)?),
        None => Output::stderr(),
    };
    let output = output.map_err(|error| format!("cannot start the log: {error}"))?;
    let writer = output.writer();
    // A prefix of the names of all our crates.
    let ours = Targets::new().with_target("lazurite", level);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || -> LineWriter { writer.clone() })
        .with_ansi(false);
    let subscriber = tracing_subscriber::registry().with(ours);
    match cli.log_format {
        LogFormat::Text => subscriber.with(lines).init(),
        LogFormat::Json => subscriber.with(lines.json()).init(),
    }
    log_panics();
    Ok(output)
}

/// Opens the file of `--debug`. The error is a sentence.
pub fn open(path: &Path) -> Result<File, String> {
    private_files::append_to(path)
        .map_err(|error| format!("--debug {}: cannot open it: {error}", path.display()))
}

/// Logs panics. The standard library would write them to standard error, and wait while that pipe
/// is full.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        // Only a warning: anyone who may query a blob can cause this as often as they like.
        if lazurite_query::is_decoding() {
            let place = panic.location().map_or(String::new(), ToString::to_string);
            tracing::warn!("a Parquet file cannot be decoded: the decoder stopped at {place}");
            return;
        }
        let backtrace = Backtrace::capture();
        tracing::error!(thread, %backtrace, "{panic}");
    }));
}
