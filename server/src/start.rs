//! Runs the server, from flags to listening sockets and back: opens the store, reports when it is
//! ready, waits for a signal, closes.
//!
//! Standard output has the lines that tools wait for and the access log; all other messages go to
//! standard error.

use crate::access_log::{AccessLog, Form};
use crate::announce;
use crate::app::App;
use crate::blob::Fetcher;
use crate::cli::{Cli, LogFormat};
use crate::connection::{ConnectionThreads, Connections, Endpoint, Opening};
use crate::faults::Faults;
use crate::local_services::LocalServices;
use crate::output::{self, LineWriter, Output};
use crate::pages::{Address, Addresses, Pages};
use crate::pipeline;
use crate::program::Program;
use crate::requests::Ring;
use crate::seed::Flag;
use crate::state::{self, DataDirectory, ForkSettings, Shared, Stores};
use crate::stop::{Control, Signals, no_threads};
use crate::tls::Tls;
use crate::{
    adoption, data_directory, leases, limits, log, platform, port_holder, private_files, seed,
};
use lazurite_base::wall_clock::{SystemWallClock, WallClock};
use lazurite_console::{Console, Settings, router};
use lazurite_engine::fs::MemoryFs;
use lazurite_engine::{Config, Durability, Environment, IdSource, RandomIds};
use lazurite_mover::Transfers;
use lazurite_protocol::accounts::Accounts;
use lazurite_protocol::date;
use lazurite_protocol::request::context::{RequestIds, ServiceKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// Maximum number of threads, for all connections together, on which requests wait for the disk;
/// further requests wait for a thread. Machines with many processors may have more.
const BLOCKING_THREADS_MAX: usize = 64;

/// Number of threads that serve connections, beyond one for each processor. Short operations run on
/// them. While one thread waits for a page of a file, the spare thread keeps the processor busy.
/// Each further spare thread costs thread switches.
const THREADS_SPARE: usize = 1;

/// Maximum time for the connection threads to end once their requests had their time.
const THREADS_END_MAX: Duration = Duration::from_secs(1);

/// Maximum time for ending the forks and removing replaced stores.
const CLOSE_OTHERS_MAX: Duration = Duration::from_secs(2);

/// Maximum time for closing the store.
const CLOSE_MAX: Duration = Duration::from_secs(3);

/// Serves until a signal arrives. The error is a sentence for the user who started the program.
pub fn run(mut cli: Cli, program: &Program) -> Result<(), String> {
    cli.is_azurite = program.is_azurite;
    settle_location(&mut cli, program)?;
    note_database();
    for flag in &cli.without_effect {
        output::say(format!(
            "lazurite: --{flag} has no effect: the environment sets --inMemoryPersistence"
        ));
    }
    let cli = &cli;
    let accounts = cli.accounts()?;
    let tls = Tls::new(cli, &accounts)?;
    let runtime = runtime()?;
    let log = log::start(cli)?;
    let out = Output::stdout().map_err(no_threads)?;
    let host = Host::Program(program);
    let served = runtime.block_on(serve_until_stopped(cli, accounts, tls, &out.writer(), host));
    // Writes the last lines, or gives up if the pipe stays full.
    out.close();
    log.close();
    // Does not wait for work that a disk delays: the store is closed.
    runtime.shutdown_background();
    served
}

/// Replaces the directory that was named with the one that holds the store, and prints a note if
/// they differ. The error is a sentence.
fn settle_location(cli: &mut Cli, program: &Program) -> Result<(), String> {
    if !cli.in_memory {
        data_directory::check(&cli.location)?;
        cli.azurite = data_directory::of_azurite(&cli.location, program.is_azurite);
        let choice = data_directory::choose(&cli.location, cli.debug.as_deref());
        if let Some(note) = choice.note {
            output::say(format!("lazurite: {note}"));
        }
        cli.location = choice.path;
    }
    Ok(())
}

/// Reports that `AZURITE_DB`, the SQL database of Azurite, has no effect.
fn note_database() {
    if std::env::var_os("AZURITE_DB").is_some_and(|value| !value.is_empty()) {
        output::say(
            "lazurite: AZURITE_DB is ignored: data is kept in Lazurite's own engine, not in a SQL database",
        );
    }
}

/// Serves in this process, on this thread, until it is asked to stop. Writes neither to standard
/// output nor to a log. The error is a sentence.
pub fn run_embedded(cli: &Cli, guest: Guest) -> Result<(), String> {
    cli.check(&ServiceKind::ALL)?;
    if !cli.in_memory {
        data_directory::check(&cli.location)?;
    }
    let accounts = cli.accounts()?;
    let tls = Tls::new(cli, &accounts)?;
    let runtime = runtime()?;
    let out = Output::start("nothing", std::io::sink()).map_err(no_threads)?;
    let host = Host::Process(guest);
    let served = runtime.block_on(serve_until_stopped(cli, accounts, tls, &out.writer(), host));
    out.close();
    runtime.shutdown_background();
    served
}

/// The runtime of the thread that starts the server and stops it.
fn runtime() -> Result<Runtime, String> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let builder = builder.enable_all();
    let builder = builder.max_blocking_threads(BLOCKING_THREADS_MAX);
    builder.build().map_err(no_threads)
}

/// What runs the server: the program `lazurite`, or another program.
enum Host<'a> {
    /// The program `lazurite`, which signals stop.
    Program(&'a Program),
    /// Another program, with the server in its process.
    Process(Guest),
}

/// The interface to a program that runs the server in its process.
pub struct Guest {
    pub ready: std::sync::mpsc::Sender<Vec<Address>>,
    /// The clock of the services.
    pub clock: Arc<dyn WallClock>,
    /// The environment of the store; `None` chooses by the flags.
    pub environment: Option<Environment>,
    /// Completes when the server should stop, also if the sender is dropped.
    pub stop: oneshot::Receiver<()>,
}

impl Host<'_> {
    fn services(&self) -> Vec<ServiceKind> {
        match self {
            Host::Program(program) => program.services.clone(),
            Host::Process(_) => ServiceKind::ALL.to_vec(),
        }
    }

    /// The clock that the services follow.
    fn clock(&self) -> Arc<dyn WallClock> {
        match self {
            Host::Program(_) => Arc::new(SystemWallClock::default()),
            Host::Process(guest) => guest.clock.clone(),
        }
    }

    /// The environment of the store; `None` chooses by the flags.
    fn take_environment(&mut self) -> Option<Environment> {
        match self {
            Host::Program(_) => None,
            Host::Process(guest) => guest.environment.take(),
        }
    }
}

async fn serve_until_stopped(
    cli: &Cli,
    accounts: Accounts,
    tls: Option<Tls>,
    out: &LineWriter,
    mut host: Host<'_>,
) -> Result<(), String> {
    let services = host.services();
    let listeners = match listen_all(cli, &services).await {
        Ok(listeners) => listeners,
        Err(refusal) => return attach(cli, &host, &services, refusal, out),
    };
    let addresses = listeners
        .iter()
        .map(|(service, listener)| announce::address_of(*service, listener));
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    announce::check_exposure(cli, &accounts, &addresses)?;
    let (app, console) = open_app(cli, accounts, &mut host, out)?;
    let threads = connection_threads()?;
    fill(cli, &app, &host, &threads).await?;
    if let Some(seconds) = cli.secondary_lag {
        let lag = Duration::from_secs(seconds.into());
        app.stores.keep_secondary(lag)?;
    }
    app.pages.addresses.set(addresses.clone());
    let control = host.ready(cli, &app, tls.as_ref(), &addresses, out)?;
    // Before the first request, because the account may have logging enabled.
    app.stores.start_housekeeping();
    let serving = Serving::start(cli, &app, &console, tls.as_ref(), threads, listeners);
    let reload = || reload(cli, app.stores.accounts(), &addresses, tls.as_ref());
    control.wait_for_stop(&cli.location, reload).await;
    announce::remove_port_file(cli, &addresses);
    app.stores.stop_sweeping();
    announce::closing(&services, "service is closing...", out);
    console.close();
    serving.stop().await;
    let exported = export_on_exit(cli, &app).await;
    // The next start removes what was not removed in time.
    let _ = tokio::time::timeout(CLOSE_OTHERS_MAX, app.stores.close_others()).await;
    close(app).await?;
    announce::closing(&services, "service successfully closed", out);
    exported
}

/// Writes the archive of `--import` for `--export-on-exit`, when no request can change the store.
async fn export_on_exit(cli: &Cli, app: &Arc<App>) -> Result<(), String> {
    let Some(path) = cli.import.clone().filter(|_| cli.export_on_exit) else {
        return Ok(());
    };
    let threads = connection_threads()?;
    let exported = seed::export(app, &threads, path).await;
    if let Some(threads) = Arc::into_inner(threads) {
        threads.close(THREADS_END_MAX).await;
    }
    output::say(format!("lazurite: {}", exported?));
    Ok(())
}

/// The listeners of all services. Error: one of the ports cannot be used.
async fn listen_all(
    cli: &Cli,
    services: &[ServiceKind],
) -> Result<Vec<(ServiceKind, TcpListener)>, Refusal> {
    let mut listeners = Vec::new();
    for &service in services {
        listeners.push((service, listen(cli, service).await?));
    }
    Ok(listeners)
}

fn open_app(
    cli: &Cli,
    accounts: Accounts,
    host: &mut Host<'_>,
    out: &LineWriter,
) -> Result<(Arc<App>, Arc<Console>), String> {
    let directory = open_directory(cli, host.take_environment())?;
    let access_log = if cli.silent {
        AccessLog::silent()
    } else {
        let form = match cli.log_format {
            LogFormat::Json => Form::Json,
            LogFormat::Text if output::shows_colour() => Form::Coloured,
            LogFormat::Text => Form::Text,
        };
        AccessLog::new(out.clone(), form)
    };
    let (app, console) = assemble(cli, accounts, directory, host.clock(), access_log)?;
    if let Err(error) = app.stores.remove_checkpoints() {
        tracing::warn!("checkpoints of the secondary endpoint are left: {error}");
    }
    Ok((Arc::new(app), console))
}

/// Fills the store before the first request, in this order: Azurite's data in the directory,
/// `--import`, the containers, queues and tables that flags name, `--seed`. `--import` precedes the
/// names because it skips resources that exist.
async fn fill(
    cli: &Cli,
    app: &Arc<App>,
    host: &Host<'_>,
    threads: &Arc<ConnectionThreads>,
) -> Result<(), String> {
    let mut done = Vec::new();
    done.extend(adoption::adopt(cli, app, threads).await?);
    let import = async |name, path: Option<&PathBuf>, is_carried| {
        let Some(path) = path.cloned() else {
            return Ok::<_, String>(Vec::new());
        };
        let mark = (!cli.in_memory).then(|| cli.location.join(format!(".{name}-begun")));
        let flag = Flag {
            name,
            path,
            mark,
            is_carried,
        };
        let begun = format!("{name}: imported {}", flag.path.display());
        let sentences = seed::seed(app, threads, flag).await?;
        let sentences = sentences.into_iter();
        let lines = sentences.map(|sentence| format!("{name}: {sentence}"));
        Ok(std::iter::once(begun).chain(lines).collect())
    };
    let is_there = |path: &&PathBuf| {
        let there = path.try_exists();
        there.map_err(|error| format!("--import {}: cannot read it: {error}", path.display()))
    };
    let (carried, absent) = match &cli.import {
        Some(path) if is_there(&path)? => (Some(path), None),
        other => (None, other.as_ref()),
    };
    // Reported, so that a mistake in the path is noticed.
    done.extend(absent.map(|path| format!("import: {} is not there", path.display())));
    done.extend(import("import", carried, cli.export_on_exit).await?);
    let account = app.stores.accounts().first().0;
    let services = app.stores.current().services.clone();
    done.extend(cli.initial_resources().make(&services, account)?);
    done.extend(import("seed", cli.seed.as_ref(), false).await?);
    if matches!(host, Host::Program(_)) {
        for line in done {
            output::say(format!("lazurite: {line}"));
        }
    }
    Ok(())
}

/// Starts the threads that serve connections.
fn connection_threads() -> Result<Arc<ConnectionThreads>, String> {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let threads = processors + THREADS_SPARE;
    let threads = ConnectionThreads::start(threads, BLOCKING_THREADS_MAX);
    Ok(Arc::new(threads.map_err(no_threads)?))
}

impl Host<'_> {
    /// Announces that the server is ready. Returns the source of requests to stop.
    fn ready(
        self,
        cli: &Cli,
        app: &App,
        tls: Option<&Tls>,
        addresses: &[Address],
        out: &LineWriter,
    ) -> Result<Control, String> {
        match self {
            Host::Program(program) => {
                let signals = Signals::watch(cli.until_stdin_ends)?;
                let authority = tls.and_then(Tls::authority);
                let accounts = app.stores.accounts();
                announce::ready(cli, program, accounts, addresses, authority, out)?;
                announce::recovered(app.stores.current().services.recovered());
                Ok(Control::Signals(signals))
            }
            Host::Process(guest) => {
                // Ignored: the caller may no longer wait for the start.
                let _ = guest.ready.send(addresses.to_vec());
                Ok(Control::Guest(guest.stop))
            }
        }
    }
}

/// The tasks that accept connections, and the threads that serve them.
struct Serving {
    stop: watch::Sender<bool>,
    accepting: JoinSet<()>,
    threads: Arc<ConnectionThreads>,
}

impl Serving {
    fn start(
        cli: &Cli,
        app: &Arc<App>,
        console: &Console,
        tls: Option<&Tls>,
        threads: Arc<ConnectionThreads>,
        listeners: Vec<(ServiceKind, TcpListener)>,
    ) -> Serving {
        let (stop, stopped) = watch::channel(false);
        let services = LocalServices::of(app, &threads, stopped.clone());
        let directory = (!cli.in_memory).then(|| cli.location.clone());
        let quota = cli.disk_quota.map(|megabytes| megabytes << 20);
        console.set_transfers(Transfers::new(services, directory, quota));
        let mut accepting = JoinSet::new();
        for (service, listener) in listeners {
            let keep_alive = Duration::from_secs(cli.keep_alive_seconds(service).max(1));
            let endpoint = Endpoint {
                service,
                listener,
                keep_alive,
                drain: Duration::from_secs(cli.shutdown_timeout.into()),
                opening: tls.map_or(Opening::Plain, Tls::opening),
                is_own: false,
            };
            pipeline::serve_in(
                app,
                &mut accepting,
                endpoint,
                threads.clone(),
                stopped.clone(),
            );
        }
        Serving {
            stop,
            accepting,
            threads,
        }
    }

    /// Stops accepting connections, and ends them after requests under way had their time.
    async fn stop(mut self) {
        let _ = self.stop.send(true);
        while self.accepting.join_next().await.is_some() {}
        if let Some(threads) = Arc::into_inner(self.threads) {
            threads.close(THREADS_END_MAX).await;
        }
    }
}

/// Closes the store, waiting at most [`CLOSE_MAX`]. The error is a sentence.
async fn close(app: Arc<App>) -> Result<(), String> {
    match tokio::time::timeout(CLOSE_MAX, app.stores.close()).await {
        Ok(closed) => closed.map_err(|error| error.to_string()),
        Err(_) => {
            // Leaked, because a drop would wait for the disk.
            std::mem::forget(app);
            Err(format!(
                "ended without the disk, which did not answer for {} s: a power cut now takes the last writes",
                CLOSE_MAX.as_secs()
            ))
        }
    }
}

/// Reads keys and certificate again. Does not change the keys if they cannot be read, or if the
/// server would refuse them at start on these addresses. Does not change the certificate if it
/// cannot be read.
fn reload(cli: &Cli, accounts: &Accounts, addresses: &[Address], tls: Option<&Tls>) {
    let keys = cli.accounts().and_then(|newer| {
        announce::check_exposure(cli, &newer, addresses)?;
        accounts.replace_keys(&newer)
    });
    let certificate = tls.map(|tls| tls.reload(cli));
    for (what, reloaded) in [("accounts", Some(keys)), ("certificate", certificate)] {
        match reloaded {
            Some(Ok(())) => tracing::warn!("reloaded: {what}"),
            Some(Err(sentence)) => tracing::error!("not reloaded: {what}: {sentence}"),
            None => {}
        }
    }
}

/// Why a service cannot listen.
struct Refusal {
    /// The process that uses the port, if that is the reason and the system shows it.
    holder: Option<port_holder::Holder>,
    sentence: String,
}

/// Succeeds if a running server has all ports and the data directory, and if the caller accepts
/// that server: with `--attach`, or under a name of Azurite. Otherwise the error is a sentence
/// about the port or that server.
fn attach(
    cli: &Cli,
    host: &Host<'_>,
    services: &[ServiceKind],
    refusal: Refusal,
    out: &LineWriter,
) -> Result<(), String> {
    let own = private_files::lock_holder(&cli.location).filter(|_| !cli.in_memory);
    let is_running = |holder: &&port_holder::Holder| Some(holder.process_id) == own;
    let Some(running) = refusal.holder.as_ref().filter(is_running) else {
        return Err(refusal.sentence);
    };
    let since = private_files::locked_since(&cli.location);
    let since = since.map_or_else(String::new, |time| {
        format!(" since {}", date::iso8601_seconds(time))
    });
    let sentence = format!(
        "already running: process {} serves {}{since}",
        running.process_id,
        cli.location.display()
    );
    let serves = |service: &ServiceKind| {
        let holder = port_holder::of(cli.address(*service).1);
        holder.is_some_and(|holder| Some(holder.process_id) == own)
    };
    let wants = match host {
        Host::Program(program) => cli.attach || program.is_azurite,
        Host::Process(_) => false,
    };
    if !wants || !services.iter().all(serves) {
        return Err(format!(
            "{sentence}. Use that one, stop it with `kill {}`, or start with --attach, which ends well in this case",
            running.process_id
        ));
    }
    for service in services {
        let (host, port) = cli.address(*service);
        announce::listening(cli.scheme(), *service, &format!("{host}:{port}"), out);
    }
    leases::take(&cli.location);
    output::say(format!("lazurite: {sentence}"));
    Ok(())
}

async fn listen(cli: &Cli, service: ServiceKind) -> Result<TcpListener, Refusal> {
    let (host, port) = cli.address(service);
    let title = service.title();
    let (host_flag, port_flag) = cli.address_flags(service);
    let host_text = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let error = match TcpListener::bind((host_text.as_str(), port)).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    let cannot = format!("cannot listen on {host}:{port} for the {title} service");
    if error.kind() != std::io::ErrorKind::AddrInUse {
        return Err(Refusal {
            holder: None,
            sentence: format!("{cannot}: {error}; see {host_flag} and {port_flag}"),
        });
    }
    let holder = port_holder::of(port);
    let who = match &holder {
        Some(holder) => format!(
            "the port is in use by {} (process {})",
            holder.name, holder.process_id
        ),
        None => "the port is in use".to_owned(),
    };
    let sentence = format!(
        "{cannot}: {who}. Stop the program that has it, or choose another with --{}Port or --port",
        service.label()
    );
    Err(Refusal { holder, sentence })
}

fn open_directory(cli: &Cli, environment: Option<Environment>) -> Result<DataDirectory, String> {
    let durability = cli.durability();
    let config = Config {
        durability,
        quota_bytes: cli.disk_quota.map(|megabytes| megabytes << 20),
        ..Config::default()
    };
    let mut environment = environment.unwrap_or_else(|| Environment::system(durability));
    if cli.in_memory {
        environment.fs = Arc::new(MemoryFs::volatile_up_to(memory_limit(cli)));
    } else {
        private_files::check_directory(&cli.location)?;
        private_files::warn_if_shared(&cli.location);
    }
    let directory = DataDirectory::open(&cli.location, config, environment)
        .map_err(|error| cannot_open(&cli.location, &error))?;
    if !cli.in_memory {
        data_directory::hide_from_version_control(&cli.location);
        leases::clear(&cli.location);
        lazurite_mover::remove_left_overs(&cli.location);
    }
    Ok(directory)
}

fn cannot_open(location: &Path, error: &lazurite_engine::Error) -> String {
    let text = format!("cannot open the store: {error}");
    match private_files::missing_right(location) {
        Some(reason) => format!("{text}. {reason}"),
        None => text,
    }
}

/// Maximum number of bytes of a store in memory: by the flag, else half of the machine's memory.
fn memory_limit(cli: &Cli) -> u64 {
    let half = || platform::memory_bytes().map_or(u64::MAX, |bytes| bytes / 2);
    cli.memory_limit_bytes.unwrap_or_else(half)
}

/// Assembles the services of an open data directory, and their console.
fn assemble(
    cli: &Cli,
    accounts: Accounts,
    directory: DataDirectory,
    clock: Arc<dyn WallClock>,
    access_log: AccessLog,
) -> Result<(App, Arc<Console>), String> {
    let durability = match cli.durability() {
        Durability::Memory => "memory",
        Durability::Process => "process",
        Durability::Disk => "disk",
    };
    let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
    let shared = Arc::new(Shared {
        access_log,
        requests: requests_kept(cli),
        advisor: Arc::new(lazurite_advisor::Advisor::default()),
        request_ids: Arc::new(RequestIds::new(ids.next_id())),
    });
    let store_settings = store_settings(cli, Arc::new(accounts), clock)?;
    let accepts_bearer_tokens = store_settings.accepts_bearer_tokens;
    let stores = Arc::new(Stores::open(directory, store_settings, shared.clone())?);
    let settings = Settings {
        is_on: !cli.no_console,
        password: cli.console_password.clone(),
        allowed_hosts: cli.allowed_hosts.clone(),
        directory: (!cli.in_memory).then(|| cli.location.clone()),
        durability,
        accepts_bearer_tokens,
    };
    let addresses = Addresses::default();
    let console = Console::new(
        stores.clone(),
        shared.advisor.clone(),
        shared.requests.clone(),
        addresses.clone(),
        settings,
    )?;
    let console = Arc::new(console);
    let app = App {
        stores,
        shared,
        pages: Pages {
            router: router(console.clone()),
            has_console: !cli.no_console,
            addresses,
        },
        durability,
        allowed_hosts: cli.allowed_hosts.clone(),
        connections: Arc::new(connections(cli)),
        request_timeout: cli.request_timeout.map(Duration::from_secs),
    };
    Ok((app, console))
}

fn requests_kept(cli: &Cli) -> Arc<Ring> {
    let bytes_max = cli.requests_megabytes as usize * 1_000_000;
    let requests = Ring::new(cli.requests_kept as usize, bytes_max);
    Arc::new(requests.with_bodies(cli.requests_body_kib as usize * 1024))
}

fn store_settings(
    cli: &Cli,
    accounts: Arc<Accounts>,
    clock: Arc<dyn WallClock>,
) -> Result<state::Settings, String> {
    let fetcher = if cli.copy_hosts.is_empty() {
        None
    } else {
        Some(Arc::new(Fetcher::new(&cli.copy_hosts)?))
    };
    let sas_hours_max = cli.sas_hours_max.map(u64::from);
    Ok(state::Settings {
        accepts_bearer_tokens: cli.takes_tokens(&accounts),
        accounts,
        clock,
        faults: Arc::new(Faults::new(cli.faults, cli.as_azure)),
        cors: cli.cors.clone(),
        fetcher,
        accepts_account_keys: !cli.no_shared_key,
        sas_duration_max: sas_hours_max.map(|hours| Duration::from_secs(hours * 60 * 60)),
        allowed_hosts: cli.allowed_hosts.clone(),
        loose: cli.loose,
        public_access: !cli.no_public_access,
        data_owners: cli.data_owners.clone(),
        blob_versioning: cli.blob_versioning,
        container_retention_days: cli.container_retention,
        log_interval: Duration::from_secs(cli.log_interval.into()),
        forks: ForkSettings {
            at_first_use: cli.forks.clone(),
            lifetime: Duration::from_secs(cli.fork_lifetime.into()),
            count_max: cli.forks_max as usize,
        },
    })
}

fn connections(cli: &Cli) -> Connections {
    let max = cli.connections_max.map_or_else(
        || limits::connections_max(cli.forks_max as usize),
        |max| max as usize,
    );
    let per_address = cli
        .connections_per_address_max
        .map_or(max.div_ceil(2), |max| max as usize);
    Connections::new(max, per_address)
}
