//! The announcement that the server is ready: the port file, the lines that tools wait for, a
//! banner, and warnings about its exposure.

use crate::auth::identity;
use crate::cli::Cli;
use crate::output::{self, LineWriter};
use crate::pages::Address;
use crate::platform::patiently;
use crate::private_files;
use crate::program::Program;
use lazurite_engine::Durability;
use lazurite_engine::Recovered;
use lazurite_protocol::accounts::{Accounts, DEVELOPMENT_KEY};
use lazurite_protocol::request::context::ServiceKind;
use std::net::IpAddr;
use std::path::Path;
use tokio::net::TcpListener;

/// The address of a service's listener.
pub fn address_of(service: ServiceKind, listener: &TcpListener) -> Result<Address, String> {
    let address = listener.local_addr();
    let address = address.map_err(|error| format!("cannot find out where it listens: {error}"))?;
    Ok(Address {
        service,
        ip: address.ip(),
        port: address.port(),
    })
}

/// Refuses to open the store to every client of a network, unless a flag allows it. Under the names
/// of Azurite it only warns, because command lines for Azurite in containers listen on all
/// addresses. Checks the addresses of the listeners, not the flags, because `0`, `[::]` and host
/// names can be public too. The error is a sentence.
pub fn check_exposure(cli: &Cli, accounts: &Accounts, addresses: &[Address]) -> Result<(), String> {
    let public = addresses.iter().find(|address| !is_loopback(address.ip));
    if let Some(name) = accounts.with_weak_key() {
        tracing::warn!("account {name} has a key of less than 16 bytes, which can be guessed");
    }
    let Some(public) = public else {
        return Ok(());
    };
    let Some((risk, advice)) = exposure(cli, accounts) else {
        return Ok(());
    };
    let title = public.service.title();
    let authority = public.authority();
    if cli.is_azurite {
        output::say(format!(
            "WARNING: the {title} service listens on {authority}, where other machines may reach it, {risk}.\n\
             Azurite listens so, too. {advice}; --host 127.0.0.1 keeps it on this machine."
        ));
        return Ok(());
    }
    Err(format!(
        "the {title} service would listen on {authority}, where other machines may reach it, {risk}. {advice}; --host 127.0.0.1 keeps it on \
         this machine"
    ))
}

/// The risk of a server that others on the network can reach, and advice; `None` if there is none.
fn exposure(cli: &Cli, accounts: &Accounts) -> Option<(String, &'static str)> {
    if let Some(name) = accounts.with_weak_key().filter(|_| !cli.i_know) {
        let risk =
            format!("and account {name} has a key of less than 16 bytes, which can be guessed");
        let advice = "Give it a longer one, or --i-know (or LAZURITE_I_KNOW=1) if something else keeps others out";
        return Some((risk, advice));
    }
    if accounts.has_development_key() && !cli.i_know {
        let risk =
            "with a key that is public: every client that reaches it reads and changes everything";
        let advice = "Give --i-know (or LAZURITE_I_KNOW=1) if something else keeps others out, or accounts of your own with --accounts-file";
        return Some((risk.to_owned(), advice));
    }
    if cli.oauth.is_some() && !cli.accept_forged_tokens {
        let risk = "and takes bearer tokens that any client can write (--oauth basic checks no signature): they open everything, whatever \
                    the accounts' keys are";
        let advice = "Give --accept-forged-tokens if something else keeps others out";
        return Some((risk.to_owned(), advice));
    }
    None
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Announces that the server is ready. Writes the port file first, so that it is complete when the
/// lines appear. The error is a sentence.
pub fn ready(
    cli: &Cli,
    program: &Program,
    accounts: &Accounts,
    addresses: &[Address],
    authority: Option<&Path>,
    out: &LineWriter,
) -> Result<(), String> {
    if let Some(path) = &cli.port_file {
        write_port_file(path, addresses)?;
    }
    let scheme = cli.scheme();
    for address in addresses {
        let title = address.service.title();
        let authority = address.authority();
        listening(scheme, address.service, &authority, out);
        // The words of azurite-blob, azurite-queue and azurite-table. The line above has those of
        // azurite. Scripts wait for either line.
        if program.stands_alone() {
            out.line(format!(
                "Azurite {title} service successfully listens on {scheme}://{authority}"
            ));
        }
    }
    output::say(banner(cli, accounts, addresses, authority));
    Ok(())
}

/// Replaces the port file, even one that a killed server left. The error is a sentence.
pub fn write_port_file(path: &Path, addresses: &[Address]) -> Result<(), String> {
    let cannot =
        |reason: String| format!("--port-file {}: cannot write it: {reason}", path.display());
    // A rename would replace a device such as /dev/null with a file.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(cannot("it is not a regular file".to_owned()));
    }
    private_files::write_whole(path, &ports(addresses)).map_err(|error| cannot(error.to_string()))
}

/// Removes the port file if it has the ports of this server. Call it before the ports are free:
/// until then no other server can have written the same text, so another server's file at this path
/// stays.
pub fn remove_port_file(cli: &Cli, addresses: &[Address]) {
    let Some(path) = &cli.port_file else {
        return;
    };
    let found = patiently(|| std::fs::read_to_string(path));
    let is_own = found.is_ok_and(|text| text == ports(addresses));
    if is_own && let Err(error) = patiently(|| std::fs::remove_file(path)) {
        tracing::warn!("the port file {} is left: {error}", path.display());
    }
}

/// The content of the port file, in JSON.
fn ports(addresses: &[Address]) -> String {
    let ports: serde_json::Map<_, _> = addresses
        .iter()
        .map(|address| (address.service.label().to_owned(), address.port.into()))
        .collect();
    serde_json::Value::from(ports).to_string()
}

/// Reports what was recovered from the log of a store that was not closed; silent if it was closed.
pub fn recovered(found: &Recovered) {
    if found.batches > 0 {
        output::say(format!(
            "Writes recovered from the log of a server that was not stopped in order: {}.",
            found.batches
        ));
    }
    for cut in &found.cut_off {
        output::say(format!(
            "Cut off the end of the log: {} records ({} bytes) at offset {} of {}, because {}. Nothing says that they were synced.",
            cut.batches,
            cut.bytes,
            cut.offset,
            cut.path.display(),
            cut.reason
        ));
    }
}

/// Writes the lines that scripts and tools wait for.
pub fn listening(scheme: &str, service: ServiceKind, authority: &str, out: &LineWriter) {
    let title = service.title();
    for state in ["is starting", "is successfully listening"] {
        out.line(format!(
            "Azurite {title} service {state} at {scheme}://{authority}"
        ));
    }
}

/// Writes a line for each service that ends.
pub fn closing(services: &[ServiceKind], what: &str, out: &LineWriter) {
    for service in services {
        out.line(format!("Azurite {} {what}", service.title()));
    }
}

fn banner(
    cli: &Cli,
    accounts: &Accounts,
    addresses: &[Address],
    authority: Option<&Path>,
) -> String {
    let (name, key) = accounts.first();
    // The banner ends up in logs that others read, so it shows only the well-known key.
    let key = if key == DEVELOPMENT_KEY {
        DEVELOPMENT_KEY
    } else {
        "…"
    };
    let scheme = cli.scheme();
    let endpoint = |address: &Address| {
        let title = address.service.title();
        let authority = address.authority();
        format!("{title}Endpoint={scheme}://{authority}/{name};")
    };
    let endpoints: String = addresses.iter().map(endpoint).collect();
    let place = if cli.in_memory {
        "memory, and loses it when it stops".to_owned()
    } else {
        let durability = durability_words(cli.durability());
        format!("{} (durability: {durability})", cli.location.display())
    };
    let tokens = tokens(cli, accounts, addresses);
    let https = authority.map_or_else(String::new, trust);
    let identity = match addresses.first() {
        Some(address) if cli.takes_tokens(accounts) && cli.scheme() == "https" => {
            identity(address.port)
        }
        _ => String::new(),
    };
    let console = match addresses.first() {
        Some(address) if !cli.no_console => console(scheme, *address),
        _ => String::new(),
    };
    format!(
        "\nLazurite {} keeps its data in {place}.\n\nConnection string:\n  DefaultEndpointsProtocol={scheme};AccountName={name};\
         AccountKey={key};{endpoints}\n{https}{tokens}{identity}\nStop with Ctrl-C. `lazurite --help` lists all options.\n{console}",
        env!("CARGO_PKG_VERSION")
    )
}

/// The line about bearer tokens; empty if they are not accepted.
fn tokens(cli: &Cli, accounts: &Accounts, addresses: &[Address]) -> &'static str {
    if !cli.takes_tokens(accounts) {
        ""
    } else if addresses.iter().all(|address| is_loopback(address.ip)) {
        "\nBearer tokens are taken without a check of their signature: any program on this machine can write one.\n"
    } else {
        "\nBearer tokens are taken without a check of their signature: every client that reaches this machine can write one.\n"
    }
}

/// The line about the web console.
fn console(scheme: &str, address: Address) -> String {
    let ip = match address.ip {
        ip if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        ip => ip,
    };
    let authority = Address { ip, ..address }.authority();
    format!("Console: {scheme}://{authority}{}\n", crate::pages::PREFIX)
}

/// The advice on how to trust the certificate of the user's own authority.
fn trust(authority: &Path) -> String {
    let path = authority.display();
    format!(
        "\nHTTP and HTTPS are served on the same ports. The certificate is signed by an authority of your own; programs trust it with\n  \
         Node.js       NODE_EXTRA_CA_CERTS={path}\n  \
         Python        REQUESTS_CA_BUNDLE={path} SSL_CERT_FILE={path}\n  \
         Go, .NET      SSL_CERT_FILE={path}\n  \
         Java          keytool -importcert -noprompt -alias lazurite -keystore TRUSTSTORE -file {path}\n  \
         all programs  sudo cp {path} /usr/local/share/ca-certificates/lazurite.crt && sudo update-ca-certificates\n"
    )
}

/// The environment in which `DefaultAzureCredential` gets its tokens from this server: as an
/// application with a secret, as a workload, or as a managed identity.
fn identity(port: u16) -> String {
    let tenant = identity::TENANT;
    let path = identity::APP_SERVICE_PATH;
    format!(
        "\nDefaultAzureCredential works without Azure in this environment; one of the three will do:\n  \
         AZURE_AUTHORITY_HOST=https://localhost:{port} AZURE_TENANT_ID={tenant} AZURE_CLIENT_ID=any AZURE_CLIENT_SECRET=any\n  \
         AZURE_AUTHORITY_HOST=https://localhost:{port} AZURE_TENANT_ID={tenant} AZURE_CLIENT_ID=any AZURE_FEDERATED_TOKEN_FILE=FILE\n  \
         IDENTITY_ENDPOINT=http://localhost:{port}{path} IDENTITY_HEADER=any\n"
    )
}

fn durability_words(durability: Durability) -> &'static str {
    match durability {
        Durability::Memory => "memory",
        Durability::Process => "process: kill -9 loses nothing acknowledged",
        Durability::Disk => "disk: a power cut loses nothing acknowledged",
    }
}
