//! `lazurite health`: asks services for their health, like a health check inside a container.

use crate::commands::outcome::say;
use crate::http_client::{self, Reply, Upload};
use crate::signed_request::Headers;
use axum::http::StatusCode;
use lazurite_mover::target::{HTTPS_REQUIRED, PATIENCE, Target};
use serde_json::json;
use std::io::{self, Read};
use std::net::ToSocketAddrs;
use std::process::ExitCode;

/// Maximum length of a response. Those of our server are shorter.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
const PORT_DEFAULT: u16 = 10000;
const PORT_FILE: &str = "LAZURITE_PORT_FILE";

/// Checks the ports of this machine in turn, or the services of a connection string. The error is a
/// sentence.
pub fn run(ports: &[u16], target: Option<&Target>, as_json: bool) -> Result<ExitCode, String> {
    let places: Vec<(String, u16)> = match target {
        Some(target) => {
            let endpoints = target.endpoints.iter();
            endpoints
                .map(|(_, endpoint)| (endpoint.host.clone(), endpoint.port))
                .collect()
        }
        None => {
            let ports = if ports.is_empty() {
                ports_in_use()?
            } else {
                ports.to_vec()
            };
            ports
                .into_iter()
                .map(|port| ("127.0.0.1".to_owned(), port))
                .collect()
        }
    };
    let mut status = ExitCode::SUCCESS;
    for (host, port) in places {
        let asked = ask(&host, port);
        let (is_healthy, text) = match asked {
            Ok(text) => (true, text),
            Err(reason) => (false, reason),
        };
        if !is_healthy {
            status = ExitCode::FAILURE;
        }
        let fact = json!({"host": host, "port": port, "healthy": is_healthy, "health": text});
        say(as_json, fact, &format!("{port}: {text}"));
    }
    Ok(status)
}

/// The ports in the port file, if the environment names one, otherwise the default port. If the
/// named file is missing, there is no default: a server removes its file when it stops, and another
/// server may use the default port by then. The error is a sentence.
fn ports_in_use() -> Result<Vec<u16>, String> {
    let Some(path) = std::env::var_os(PORT_FILE).filter(|path| !path.is_empty()) else {
        return Ok(vec![PORT_DEFAULT]);
    };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let path = path.display();
        format!("no server is ready: the port file {path} ({PORT_FILE}) cannot be read: {error}")
    })?;
    let ports: std::collections::BTreeMap<String, u16> = serde_json::from_str(&text)
        .map_err(|error| format!("the file that {PORT_FILE} names is no port file: {error}"))?;
    Ok(ports.into_values().collect())
}

/// Returns the text of the health page, or a note if the service takes only HTTPS, which counts as
/// healthy. The error says why the service is not healthy.
fn ask(host: &str, port: u16) -> Result<String, String> {
    let no_answer = |error: io::Error| format!("no answer: {error}");
    let addresses = (host, port).to_socket_addrs().map_err(no_answer)?;
    let address = addresses.into_iter().next();
    let address = address.ok_or_else(|| format!("the name {host} leads nowhere"))?;
    let target = ("GET", "/_lazurite/health");
    let authority = address.to_string();
    let request = http_client::request(&authority, target, &Headers::new(), Upload::empty());
    let request = request.map_err(no_answer)?;
    let runtime = http_client::runtime().map_err(no_answer)?;
    let response = runtime.block_on(async {
        let stream = http_client::connect(address, PATIENCE).await;
        let stream = stream.map_err(|error| format!("nothing answers: {error}"))?;
        let response = http_client::send(Box::new(stream), request, PATIENCE).await;
        response.map_err(no_answer)
    })?;
    let mut reply = Reply::new(runtime, response, PATIENCE);
    let header = |name| {
        reply
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    if header("x-ms-error-code") == Some(HTTPS_REQUIRED) {
        return Ok("serves HTTPS; its health was not asked".to_owned());
    }
    let status = reply.status();
    let is_ours = header("server").is_some_and(|server| server.starts_with("Lazurite/"));
    let mut text = String::new();
    let read = (&mut reply)
        .take(ANSWER_BYTES_MAX)
        .read_to_string(&mut text);
    read.map_err(no_answer)?;
    if status == StatusCode::OK && is_ours {
        Ok(text.trim().to_owned())
    } else {
        Err(format!("not healthy: {status} {}", text.trim()))
    }
}
