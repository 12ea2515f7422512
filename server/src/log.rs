//! The log of `--debug`; without the flag, warnings on standard error.

use crate::cli::{Cli, LogFormat, LogLevel};
use crate::output::{LineWriter, Output};
use crate::private_files;
use std::backtrace::Backtrace;
use std::path::Path;
use tracing_subscriber::EnvFilter;

/// Starts the log, which is written until the output is closed. The error is a sentence.
pub fn start(cli: &Cli) -> Result<Output, String> {
    let level = match (&cli.debug, cli.log_level) {
        (None, _) => "warn",
        (_, LogLevel::Error) => "error",
        (_, LogLevel::Warn) => "warn",
        (_, LogLevel::Info) => "info",
        (_, LogLevel::Debug) => "debug",
        (_, LogLevel::Trace) => "trace",
    };
    let is_stderr = |path: &Path| path == Path::new("-") || path == Path::new("/dev/stderr");
    let file = cli.debug.as_ref().filter(|path| !is_stderr(path));
    let output = match file {
        Some(path) => {
            let file = private_files::append_to(path)
                .map_err(|error| format!("cannot open the log {}: {error}", path.display()))?;
            Output::start("the log", file)
        }
        None => Output::stderr(),
    };
    let output = output.map_err(|error| format!("cannot start the log: {error}"))?;
    let writer = output.writer();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!(
            "off,lazurite={level},lazurite_engine={level}"
        )))
        .with_writer(move || -> LineWriter { writer.clone() })
        .with_ansi(false);
    match cli.log_format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().init(),
    }
    log_panics();
    Ok(output)
}

/// The standard library would write an assertion to standard error and wait there if nobody reads it.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let backtrace = Backtrace::capture();
        tracing::error!(thread, %backtrace, "{panic}");
    }));
}
