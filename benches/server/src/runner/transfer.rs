//! Export, import, copy and adoption of a store: their times beside that of the services for as
//! much, and their memory.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;
use lazurite_bench_common::process::Process;

use crate::azurite::{self, Azurite};
use crate::client::Client;
use crate::runner::Workload;
use crate::runner::bench::{Bench, megabytes};
use crate::runner::filling::{self, Amounts};
use crate::server::Server;

pub(super) const TRANSFER: Workload = Workload {
    name: "transfer",
    help: "Export, import and copy of a large store beside the time of the services for it; their memory",
    run: transfer,
    bars: &[],
};
pub(super) const ADOPTION: Workload = Workload {
    name: "adoption",
    help: "Start on the directory of an Azurite with 50,000 entities, 5,000 blobs and 5,000 messages; memory",
    run: adopt,
    bars: &[],
};

/// The share of the store that is written to Azurite.
const AZURITE_SHARE: f64 = 0.05;
/// The longest start of a server that adopts a directory.
const ADOPTION_MAX: Duration = Duration::from_secs(3600);
/// Between two looks at the memory and the state of a process.
const POLL: Duration = Duration::from_millis(2);

/// Moves the contents of a store in every way between servers of ours.
fn transfer(bench: &mut Bench) -> Outcome<()> {
    let amounts = Amounts::LARGE.scaled(bench.args.scale);
    let source = bench.start(&[])?;
    let services = filling::fill(&source.client(), amounts)?;
    bench.set("transfer: services", "seconds", services.as_secs_f64());
    let from = source.account().connection_string();
    for (kind, file) in [("directory", "export"), ("archive", "export.tar.zst")] {
        let scratch = bench.scratch()?;
        let path = scratch.path().join(file);
        let path = path.to_str().ok_or("the path of a directory is no text")?;
        let case = format!("transfer: export, {kind}");
        run_command(
            bench,
            &case,
            &["export", path, "--connection-string", &from],
            services,
        )?;
        let case = format!("transfer: import, {kind}");
        let import = ["import", path, "--connection-string"];
        run_into_new_server(bench, &case, &import, amounts, services)?;
    }
    run_into_new_server(bench, "transfer: copy", &["copy", &from], amounts, services)
}

/// Runs a command whose last argument is the connection string of a new server, and counts what
/// arrives there.
fn run_into_new_server(
    bench: &mut Bench,
    case: &str,
    arguments: &[&str],
    amounts: Amounts,
    services: Duration,
) -> Outcome<()> {
    let destination = bench.start(&[])?;
    let to = destination.account().connection_string();
    run_command(bench, case, &[arguments, &[&to]].concat(), services)?;
    check(bench, case, amounts, &destination.client())
}

/// Fills Azurite, ends it, and starts our server on its directory.
fn adopt(bench: &mut Bench) -> Outcome<()> {
    azurite::install()?;
    let amounts = Amounts::LARGE.scaled(bench.args.scale * AZURITE_SHARE);
    let scratch = bench.scratch()?;
    let data = scratch.path().join("data");
    std::fs::create_dir(&data)?;
    let azurite = Azurite::start(&data)?;
    filling::fill(&Client::new(azurite.account()), amounts)?;
    azurite.stop()?;
    let server = Server::start_within(&bench.args.spawn, &data, &[], ADOPTION_MAX)?;
    let (case, peak) = ("adoption: start", server.memory().peak_kib << 10);
    bench.set(case, "seconds", server.ready_after().as_secs_f64());
    bench.set(case, "peak_mb", megabytes(peak));
    check(bench, case, amounts, &Client::new(server.account()))
}

/// Compares the numbers of things at the destination.
fn check(bench: &mut Bench, case: &str, amounts: Amounts, client: &Client) -> Outcome<()> {
    let found = filling::count(client)?;
    bench.check(case, found == amounts, || {
        format!("{} arrived of {}", found.text(), amounts.text())
    });
    Ok(())
}

/// Runs a command of our program in a process of its own: its time, also as a multiple of that of
/// the services, and its highest resident memory. Its progress and its errors go to standard error.
fn run_command(
    bench: &mut Bench,
    case: &str,
    arguments: &[&str],
    services: Duration,
) -> Outcome<()> {
    let started = Instant::now();
    let mut child = Command::new(&bench.args.spawn)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let (process, mut peak_kib) = (Process(child.id()), 0);
    let status = loop {
        peak_kib = process.memory().peak_kib.max(peak_kib);
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(POLL),
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("`lazurite {}` failed ({status})", arguments[0]).into());
    }
    bench.set(case, "seconds", seconds);
    bench.set(case, "of_services", seconds / services.as_secs_f64());
    bench.set(case, "peak_mb", megabytes(peak_kib << 10));
    Ok(())
}
