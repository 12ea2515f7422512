//! The main job: three parts, one per service, each loading real input and checking every answer against it, with or without kills.

mod flights;
mod messages;
mod stage;
mod tree;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::cli::{JobArgs, Part};
use crate::client::{Account, Client, Error};
use crate::kills::Kills;
use crate::ledger::Ledger;
use crate::random::Random;
use crate::report::{Outcome, Report, median, thousands};
use crate::server::Server;

use stage::Stage;

/// What all parts share.
struct Job {
    client: Client,
    connections: usize,
    scale: f64,
    seed: u64,
    /// Distinguishes the names of this run from those of others on the same server: digits.
    run: String,
    kills: Kills,
    report: Report,
}

impl Job {
    /// Runs one phase of about `expected` items, with its share of the kills, and keeps its figures. An error means that the server
    /// stayed away; every other failure is a mismatch.
    fn phase(
        &mut self,
        name: &'static str,
        unit: &'static str,
        expected: usize,
        work: impl FnOnce(&Job, &Stage) -> Result<(), Error>,
    ) -> Outcome<()> {
        let stage = Stage::start(name, unit, expected, &self.kills);
        let result = stage.absorb(work(self, &stage));
        let phase = stage.into_phase();
        self.report.finish(phase);
        Ok(result?)
    }

    /// A generator for the samples of one phase.
    fn random(&self, phase: &str) -> Random {
        let salt = phase
            .bytes()
            .fold(0u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        Random::new(self.seed ^ salt)
    }

    /// `count` at this run's scale, at least one.
    fn scaled(&self, count: usize) -> usize {
        ((count as f64 * self.scale) as usize).max(1)
    }

    fn remark_ledger(&mut self, ledger: &Ledger) {
        self.report.remark(ledger.to_string());
    }
}

/// Runs the job as `args` say. The report holds every mismatch; an error means that the job could not be carried through.
pub(crate) fn run(args: &JobArgs) -> Outcome<Report> {
    let flights = flights::Flights::read(args)?;
    let files = tree::walk_input(args)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let seed = args.seed.unwrap_or(now.subsec_nanos().into());
    // In this order, so that the server is gone before its directory is.
    let (_scratch, server) = spawn(args)?;
    let mut job = Job {
        client: Client::new(account(args, server.as_deref())?),
        connections: args.connections.into(),
        scale: args.scale,
        seed,
        run: now.as_secs().to_string(),
        kills: plan_kills(args, seed, server.clone()),
        report: Report::default(),
    };
    job.report
        .remark(format!("seed {seed}, {} connections", args.connections));
    let has = |part| args.only.contains(&part);
    let table = has(Part::Table)
        .then(|| flights::run(&mut job, &flights))
        .transpose()?;
    let container = has(Part::Blob)
        .then(|| tree::run(&mut job, &files))
        .transpose()?;
    let queue = has(Part::Queue)
        .then(|| messages::run(&mut job, args, &flights))
        .transpose()?;
    let restarts = job.kills.settle()?;
    if let Some(server) = &server {
        report_restarts(&mut job.report, &restarts);
        restart_cleanly(&mut job.report, &mut server.lock().unwrap())?;
    }
    if let Some(table) = &table {
        flights::verify(&mut job, &flights, table)?;
    }
    if let Some(container) = &container {
        tree::verify(&mut job, &files, container)?;
    }
    if let Some(queue) = &queue {
        messages::verify(&mut job, queue)?;
    }
    if !args.keep && args.target.spawn.is_none() {
        let client = &job.client;
        table.map(|name| client.delete_table(&name)).transpose()?;
        container
            .map(|name| client.delete_container(&name))
            .transpose()?;
        queue.map(|name| client.delete_queue(&name)).transpose()?;
    }
    if let Some(server) = &server {
        report_memory(&mut job.report, &server.lock().unwrap());
    }
    Ok(job.report)
}

type SharedServer = Arc<Mutex<Server>>;

/// The server of our own, if one is asked for, behind the temporary directory it lives in, if none was named.
fn spawn(args: &JobArgs) -> Outcome<(Option<TempDir>, Option<SharedServer>)> {
    let Some(binary) = &args.target.spawn else {
        return Ok((None, None));
    };
    let start = |data: &Path| -> Outcome<_> {
        let server = Server::start(binary, data)?;
        Ok(Some(Arc::new(Mutex::new(server))))
    };
    match &args.target.data {
        Some(data) => Ok((None, start(data)?)),
        None => {
            let scratch = tempfile::tempdir()?;
            let server = start(&scratch.path().join("data"))?;
            Ok((Some(scratch), server))
        }
    }
}

fn account(args: &JobArgs, server: Option<&Mutex<Server>>) -> Outcome<Account> {
    match server {
        Some(server) => Ok(server.lock().unwrap().account()),
        None => Ok(Account::parse(&args.target.connection_string)?),
    }
}

fn plan_kills(args: &JobArgs, seed: u64, server: Option<SharedServer>) -> Kills {
    let phases = |part: &Part| match part {
        Part::Table => flights::PHASES,
        Part::Blob => tree::PHASES,
        Part::Queue => messages::PHASES,
    };
    let services: Vec<_> = args.only.iter().map(phases).collect();
    Kills::plan(
        args.kills.unwrap_or(3),
        &services,
        &mut Random::new(seed),
        server,
    )
}

fn report_restarts(report: &mut Report, restarts: &[Duration]) {
    let longest = restarts.iter().max().copied().unwrap_or_default();
    report.remark(format!(
        "server killed {} times with SIGKILL; ready again after {:.0} ms (median), {:.0} ms at most",
        restarts.len(),
        median(restarts).as_secs_f64() * 1e3,
        longest.as_secs_f64() * 1e3
    ));
}

/// Before the last look at the data: what was acknowledged must also survive a clean stop.
fn restart_cleanly(report: &mut Report, server: &mut Server) -> Outcome<()> {
    let status = server.stop_and_restart()?;
    if !status.success() {
        return Err(format!("the server ended with {status} on SIGTERM").into());
    }
    let ready = server.ready_after().as_secs_f64() * 1e3;
    report.remark(format!(
        "server stopped with SIGTERM, exit status 0, ready again after {ready:.0} ms"
    ));
    Ok(())
}

fn report_memory(report: &mut Report, server: &Server) {
    let memory = server.memory();
    report.remark(format!(
        "server memory: {} KiB resident at the end, {} KiB at its peak",
        thousands(memory.resident_kib),
        thousands(memory.peak_kib)
    ));
}
