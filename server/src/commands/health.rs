//! `lazurite health`: asks the services on this machine for their health, as a health check inside a container does.

use crate::commands::doctor::HTTPS_REQUIRED;
use crate::commands::print_line;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for a connection and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// More is no answer of ours.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// What a service answers over HTTP when it speaks only HTTPS: an alert, whose record type is 21.
const TLS_ALERT: u8 = 21;
const PORT_DEFAULT: u16 = 10000;
const PORT_FILE: &str = "LAZURITE_PORT_FILE";

/// Asks each port in turn. The error is a sentence.
pub fn run(ports: &[u16]) -> Result<ExitCode, String> {
    let ports = if ports.is_empty() {
        ports_in_use()?
    } else {
        ports.to_vec()
    };
    let mut status = ExitCode::SUCCESS;
    for port in ports {
        match ask(port) {
            Ok(text) => print_line(format_args!("{port}: {text}")),
            Err(reason) => {
                print_line(format_args!("{port}: {reason}"));
                status = ExitCode::FAILURE;
            }
        }
    }
    Ok(status)
}

/// Those of the port file, if the environment names one and it is there.
fn ports_in_use() -> Result<Vec<u16>, String> {
    let text = std::env::var_os(PORT_FILE).map(std::fs::read_to_string);
    let Some(Ok(text)) = text else {
        return Ok(vec![PORT_DEFAULT]);
    };
    let ports: std::collections::BTreeMap<String, u16> = serde_json::from_str(&text)
        .map_err(|error| format!("the file that {PORT_FILE} names is no port file: {error}"))?;
    Ok(ports.into_values().collect())
}

/// What the service says; the error is why it is not healthy.
fn ask(port: u16) -> Result<String, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)
        .map_err(|error| format!("nothing answers: {error}"))?;
    let answer = exchange(&mut stream).map_err(|error| format!("no answer: {error}"))?;
    let is_alert = answer.first() == Some(&TLS_ALERT);
    let answer = String::from_utf8_lossy(&answer);
    if is_alert || answer.contains(HTTPS_REQUIRED) {
        return Ok("serves HTTPS; its health was not asked".to_owned());
    }
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    if answer.starts_with("HTTP/1.1 200 ") && answer.contains("Lazurite/") {
        Ok(body.trim().to_owned())
    } else {
        let first = answer.lines().next().unwrap_or("an empty answer");
        Err(format!("not healthy: {first} {}", body.trim()))
    }
}

fn exchange(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(
        b"GET /_lazurite/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    // A TLS listener may reset the connection behind its alert.
    if answer.is_empty() {
        read?;
    }
    Ok(answer)
}
