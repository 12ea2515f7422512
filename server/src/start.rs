//! From flags to listening sockets and back: opens the store, says when it is ready, waits for a signal, closes.
//!
//! Standard output holds the lines that tools wait for and the access log; what is meant for people goes to standard
//! error.

use crate::access_log::AccessLog;
use crate::accounts::Accounts;
use crate::analytics::Analytics;
use crate::cli::{Cli, LogFormat, LogLevel, is_public};
use crate::http::context::{RequestIds, ServiceKind};
use crate::http::properties::PropertiesStore;
use crate::http::{App, Carriers, Endpoint, Fetcher, cross, serve};
use crate::tls;
use lazurite_blob::{AccountPolicy, BlobService};
use lazurite_engine::fs::MemoryFs;
use lazurite_engine::{
    Config, Db, Durability, Environment, IdSource, RandomIds, SystemWallClock, WallClock,
};
use lazurite_queue::QueueService;
use lazurite_table::TableService;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Threads that wait for the disk on behalf of requests, of all connections together unless there are many processors; more
/// requests than that wait for a thread.
const BLOCKING_THREADS_MAX: usize = 64;

/// Threads that serve connections beyond one for each processor: short operations run on them, and while one waits for a page
/// of a file the others are to keep the processors busy. Each more costs, by taking turns with the others.
const CARRIERS_SPARE: usize = 1;

/// Steps of bounded size that a sweep of blobs takes at a time.
const SWEEP_STEPS_MAX: u32 = 64;

/// What is said of a copy from another server that ended with the one before: going on would take the source's credentials,
/// which are not kept.
const COPY_CUT_OFF: &str =
    "500 OperationCancelled \"The server was restarted before the copy had ended.\"";

/// How often what has expired is looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Serves until a signal comes. The error is a sentence for the person who started the program.
pub fn run(cli: &Cli, services: &[ServiceKind]) -> Result<(), String> {
    cli.check()?;
    let tls = tls::acceptor(cli)?;
    let accounts = cli.accounts()?;
    start_log(cli)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(|error| format!("cannot start its threads: {error}"))?;
    runtime.block_on(run_until_signal(cli, services, accounts, tls))
}

async fn run_until_signal(
    cli: &Cli,
    services: &[ServiceKind],
    accounts: Accounts,
    tls: Option<TlsAcceptor>,
) -> Result<(), String> {
    let mut listeners = Vec::new();
    for &service in services {
        listeners.push((service, listen(cli, service).await?));
    }
    let db = open_store(cli)?;
    let (access_log, writer) = match cli.silent {
        true => (AccessLog::silent(), None),
        false => {
            let (log, writer) = AccessLog::start();
            (log, Some(writer))
        }
    };
    let app = Arc::new(App::open(cli, accounts, db.clone(), access_log)?);
    let (stop, stopped) = watch::channel(false);
    let mut signals = Signals::watch()?;
    announce(cli, &app.accounts, &listeners)?;
    // Before the first request, which the account may want logged.
    let interval = Duration::from_secs(cli.log_interval.into());
    let logs = Analytics::start(&app, interval);
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let carriers = Carriers::start(processors + CARRIERS_SPARE, BLOCKING_THREADS_MAX)
        .map_err(|error| format!("cannot start its threads: {error}"))?;
    let carriers = Arc::new(carriers);
    let mut serving = tokio::task::JoinSet::new();
    for (service, listener) in listeners {
        let keep_alive = Duration::from_secs(cli.keep_alive_seconds(service).max(1));
        let endpoint = Endpoint {
            service,
            listener,
            keep_alive,
            tls: tls.clone(),
        };
        serving.spawn(serve(
            app.clone(),
            endpoint,
            carriers.clone(),
            stopped.clone(),
        ));
    }
    let sweeper = tokio::spawn(sweep(app.clone()));
    signals.wait().await;
    sweeper.abort();
    say(services, "service is closing...");
    let _ = stop.send(true);
    while serving.join_next().await.is_some() {}
    drop(carriers);
    app.analytics.close().await;
    let _ = logs.await;
    app.access_log.close();
    if let Some(writer) = writer {
        let _ = writer.join();
    }
    db.close().map_err(|error| error.to_string())?;
    say(services, "service successfully closed");
    Ok(())
}

async fn listen(cli: &Cli, service: ServiceKind) -> Result<TcpListener, String> {
    let (host, port) = cli.address(service);
    let title = service.title();
    let flag = service.label();
    if is_public(&host) {
        eprintln!(
            "Warning: the {title} service listens on {host}. Whoever can reach that address can read and change \
             everything: the key of the development account is public."
        );
    }
    let host_text = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    TcpListener::bind((host_text.as_str(), port)).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "cannot listen on {host}:{port} for the {title} service: the port is in use. Stop the program that has it, \
             or choose another with --{flag}Port or --port"
        ),
        _ => format!("cannot listen on {host}:{port} for the {title} service: {error}; see --{flag}Host and --{flag}Port"),
    })
}

fn open_store(cli: &Cli) -> Result<Db, String> {
    let durability = cli.durability();
    let config = Config {
        durability,
        ..Config::default()
    };
    let mut environment = Environment::system(durability);
    if cli.in_memory {
        environment.fs = Arc::new(MemoryFs::volatile_up_to(memory_limit(cli)?));
    }
    Db::open_with(&cli.location, config, environment)
        .map_err(|error| format!("cannot open the store: {error}"))
}

/// Bytes that a store in memory may hold: as the flag says, else half of the machine's.
fn memory_limit(cli: &Cli) -> Result<u64, String> {
    match cli.memory_limit {
        Some(megabytes) if megabytes > 0.0 && megabytes.is_finite() => {
            Ok((megabytes * 1048576.0) as u64)
        }
        Some(megabytes) => Err(format!(
            "--extentMemoryLimit {megabytes}: it takes a number of megabytes above 0"
        )),
        None => Ok(machine_memory().map_or(u64::MAX, |bytes| bytes / 2)),
    }
}

/// Bytes of memory of the machine, where the system tells.
fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

impl App {
    /// The services on an open store.
    fn open(cli: &Cli, accounts: Accounts, db: Db, access_log: AccessLog) -> Result<App, String> {
        let durability = match cli.durability() {
            Durability::Memory => "memory",
            Durability::Process => "process",
            Durability::Disk => "disk",
        };
        let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
        let request_ids = RequestIds::new(ids.next_id());
        let clock: Arc<dyn WallClock> = Arc::new(SystemWallClock::default());
        let blobs = BlobService::open(&db, ids.clone(), clock.clone())
            .map_err(|error| error.to_string())?;
        let tables = TableService::open(&db, clock.clone()).map_err(|error| error.to_string())?;
        let queues = QueueService::open(&db, ids.clone(), clock.clone())
            .map_err(|error| error.to_string())?;
        let cut_off = blobs.fail_interrupted_copies(COPY_CUT_OFF);
        cut_off.map_err(|error| error.to_string())?;
        keep_account_policies(cli, &accounts, &blobs).map_err(|error| error.to_string())?;
        let properties = PropertiesStore::read(&accounts, &blobs, &queues, &tables)?;
        let fetcher = match cli.copy_hosts.is_empty() {
            false => Some(Arc::new(Fetcher::new(&cli.copy_hosts)?)),
            true => None,
        };
        Ok(App {
            accounts,
            db,
            blobs,
            queues,
            tables,
            properties,
            durability,
            takes_tokens: cli.oauth.is_some(),
            loose: cli.loose,
            allowed_hosts: cli.allowed_hosts.clone(),
            access_log,
            analytics: Analytics::default(),
            fetcher,
            request_ids,
        })
    }
}

/// What Azure sets in its management plane is set by flags here, for all accounts, and holds until the next start.
fn keep_account_policies(
    cli: &Cli,
    accounts: &Accounts,
    blobs: &BlobService,
) -> lazurite_blob::Result<()> {
    for account in accounts.names() {
        let before = blobs.get_account_policy(account)?;
        let policy = AccountPolicy {
            versioning: cli.blob_versioning,
            container_retention_days: cli.container_retention,
            ..before
        };
        if policy != before {
            blobs.set_account_policy(account, policy, None)?.wait()?;
        }
    }
    Ok(())
}

/// Removes, now and then, what nobody sees any more but takes space: expired messages, forgotten blocks, what was deleted
/// and is no longer kept.
async fn sweep(app: Arc<App>) {
    let mut more = false;
    loop {
        if !more {
            tokio::time::sleep(SWEEP_INTERVAL).await;
        }
        // What is swept is written under locks that consumers wait for.
        if app.db.makes_writers_wait() {
            more = false;
            continue;
        }
        let (queues, blobs) = (app.clone(), app.clone());
        let messages = cross(move || Ok(queues.queues.sweep()?)).await;
        let due = cross(move || Ok(blobs.blobs.sweep(SWEEP_STEPS_MAX)?)).await;
        // Failures of the store are told to whoever writes next; the sweep comes round again.
        more = match messages {
            Ok((swept, ticket)) => ticket.await.is_ok() && swept.more,
            Err(_) => false,
        };
        more |= due.is_ok_and(|swept| swept.steps == SWEEP_STEPS_MAX);
    }
}

/// The port file, the lines that tools wait for, and a banner for people. The file comes first: whoever has seen the
/// lines may read it.
fn announce(
    cli: &Cli,
    accounts: &Accounts,
    listeners: &[(ServiceKind, TcpListener)],
) -> Result<(), String> {
    let addresses: Vec<_> = listeners
        .iter()
        .map(|(service, listener)| (*service, host_and_port(listener)))
        .collect();
    if let Some(path) = &cli.port_file {
        let ports: serde_json::Map<_, _> = addresses
            .iter()
            .map(|(service, (_, port))| (service.label().to_owned(), (*port).into()))
            .collect();
        write_whole(path, &serde_json::Value::from(ports).to_string())
            .map_err(|error| format!("cannot write the port file {}: {error}", path.display()))?;
    }
    let scheme = cli.scheme();
    let mut out = std::io::stdout().lock();
    for (service, (host, port)) in &addresses {
        let title = service.title();
        let _ = writeln!(
            out,
            "Azurite {title} service is starting at {scheme}://{host}:{port}"
        );
        let _ = writeln!(
            out,
            "Azurite {title} service is successfully listening at {scheme}://{host}:{port}"
        );
    }
    let _ = out.flush();
    drop(out);
    banner(cli, accounts, &addresses);
    Ok(())
}

fn host_and_port(listener: &TcpListener) -> (String, u16) {
    match listener.local_addr() {
        Ok(address) if address.is_ipv6() => (format!("[{}]", address.ip()), address.port()),
        Ok(address) => (address.ip().to_string(), address.port()),
        Err(_) => (String::new(), 0),
    }
}

/// Readers of the file see nothing or all of it.
fn write_whole(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    let temporary = path.with_extension("partial");
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, path)
}

fn banner(cli: &Cli, accounts: &Accounts, addresses: &[(ServiceKind, (String, u16))]) {
    let (name, key) = accounts.first();
    let scheme = cli.scheme();
    let endpoints: String = addresses
        .iter()
        .map(|(service, (host, port))| {
            format!(
                "{}Endpoint={scheme}://{host}:{port}/{name};",
                service.title()
            )
        })
        .collect();
    let place = match cli.in_memory {
        true => "in memory, gone when it stops".to_owned(),
        false => format!(
            "{} (durability: {})",
            cli.location.display(),
            durability_words(cli.durability())
        ),
    };
    eprintln!(
        "\nLazurite {} keeps its data in {place}.\n\nConnection string:\n  DefaultEndpointsProtocol={scheme};AccountName={name};\
         AccountKey={key};{endpoints}\n\nStop with Ctrl-C. `lazurite --help` tells the rest.\n",
        env!("CARGO_PKG_VERSION")
    );
}

fn durability_words(durability: Durability) -> &'static str {
    match durability {
        Durability::Memory => "memory",
        Durability::Process => "process: kill -9 loses nothing acknowledged",
        Durability::Disk => "disk: a power cut loses nothing acknowledged",
    }
}

fn say(services: &[ServiceKind], what: &str) {
    let mut out = std::io::stdout().lock();
    for service in services {
        let _ = writeln!(out, "Azurite {} {what}", service.title());
    }
    let _ = out.flush();
}

/// The signals that end the program in good order.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on a signal no longer kills the program.
    fn watch() -> Result<Signals, String> {
        let handler =
            |kind| signal(kind).map_err(|error| format!("cannot watch for signals: {error}"));
        Ok(Signals {
            interrupt: handler(SignalKind::interrupt())?,
            terminate: handler(SignalKind::terminate())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The log of `--debug`. Without the flag nothing is logged but warnings, to standard error.
fn start_log(cli: &Cli) -> Result<(), String> {
    use tracing_subscriber::fmt::writer::BoxMakeWriter;
    let level = match (&cli.debug, cli.log_level) {
        (None, _) => "warn",
        (_, LogLevel::Error) => "error",
        (_, LogLevel::Warn) => "warn",
        (_, LogLevel::Info) => "info",
        (_, LogLevel::Debug) => "debug",
        (_, LogLevel::Trace) => "trace",
    };
    let writer = match &cli.debug {
        Some(path) if path.as_os_str() != "-" => {
            let file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path);
            BoxMakeWriter::new(
                file.map_err(|error| format!("cannot open the log {}: {error}", path.display()))?,
            )
        }
        _ => BoxMakeWriter::new(std::io::stderr),
    };
    let filter =
        tracing_subscriber::EnvFilter::new(format!("off,lazurite={level},lazurite_engine={level}"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false);
    match cli.log_format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().init(),
    }
    Ok(())
}
