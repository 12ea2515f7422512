//! The main job: three parts, one per service, each loading real input and checking every answer
//! against it, with or without kills.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use lazurite_bench_common::{
    MachineWatch, Outcome, Random, RunReport, counted, median_time, thousands,
};

use crate::client::{Account, Client, Service};
use crate::job::args::JobArgs;
use crate::job::context::Job;
use crate::job::kills::Kills;
use crate::job::report::Report;
use crate::job::{flights, messages, tree};
use crate::server::Server;

/// Runs the job the requested number of times, prints and writes the reports, and returns the
/// number of wrong answers.
pub(crate) fn run(args: &JobArgs) -> Outcome<usize> {
    let old = args.files.old()?;
    // The CPU time of a server that is killed is lost with it.
    let watch = MachineWatch::start_beside_unknown();
    let mut reports = Vec::new();
    for _ in 0..args.runs {
        let report = run_once(args)?;
        report.print();
        reports.push(report);
    }
    let mismatches = reports.iter().map(Report::mismatches).sum();
    let verdict = match mismatches {
        0 => format!(
            "{} of the job, every answer was right",
            counted(args.runs.into(), "run")
        ),
        wrong => format!(
            "{wrong} wrong answers in {} of the job",
            counted(args.runs.into(), "run")
        ),
    };
    let report = RunReport {
        title: "lazurite-bench job".into(),
        verdict,
        noisy: watch.end(&[]).reasons(),
        measurements: Report::measurements(&reports),
        ..RunReport::default()
    };
    args.files.finish(report, old.as_ref())?;
    Ok(mismatches)
}

/// Runs the job. The report holds every mismatch; an error means that the job could not be carried
/// through.
fn run_once(args: &JobArgs) -> Outcome<Report> {
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
    let has = |service| args.only.contains(&service);
    let table = has(Service::Table)
        .then(|| flights::run(&mut job, &flights))
        .transpose()?;
    let container = has(Service::Blob)
        .then(|| tree::run(&mut job, &files))
        .transpose()?;
    let queue = has(Service::Queue)
        .then(|| messages::run(&mut job, args, &flights))
        .transpose()?;
    let restarts = job.kills.wait_for_restarts()?;
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

/// A server of our own, if one is requested, and its temporary directory, if none was named.
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
    let phases = |service: &Service| match service {
        Service::Table => flights::PHASES,
        Service::Blob => tree::PHASES,
        Service::Queue => messages::PHASES,
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
        median_time(restarts).as_secs_f64() * 1e3,
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
