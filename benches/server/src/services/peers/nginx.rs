//! nginx serving files, the reference for reads of large blobs: one worker, `sendfile`, no log.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::client::Account;
use lazurite_bench_common::process::Process;

const READY_MAX: Duration = Duration::from_secs(10);

/// A running nginx, ended when dropped.
pub(super) struct Nginx {
    child: Child,
    port: u16,
}

/// Whether there is one on the PATH.
pub(super) fn is_installed() -> bool {
    let version = Command::new("nginx")
        .arg("-v")
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

impl Nginx {
    /// Starts it on the directory `data`, serves `data/files`, and waits until it listens.
    pub(super) fn start(data: &Path) -> Outcome<Nginx> {
        let port = free_port()?;
        fs::create_dir_all(data.join("files"))?;
        let config = data.join("nginx.conf");
        fs::write(&config, config_text(data, port))?;
        let child = Command::new("nginx")
            .arg("-p")
            .arg(data)
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let nginx = Nginx { child, port };
        nginx.wait_ready()?;
        Ok(nginx)
    }

    fn wait_ready(&self) -> Outcome<()> {
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if started.elapsed() > READY_MAX {
                return Err("nginx does not listen".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The development account, whose blobs are the files.
    pub(super) fn account(&self) -> Account {
        Account::development(self.port, self.port, self.port)
    }

    pub(super) fn process(&self) -> Process {
        Process(self.child.id())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // An error means that the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago; nginx does not choose one itself.
fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// One process does all the work, so that its CPU time is that of nginx.
fn config_text(data: &Path, port: u16) -> String {
    let data = data.display();
    format!(
        "daemon off; master_process off; pid {data}/nginx.pid; error_log {data}/error.log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000;\n\
         client_body_temp_path {data}/body; proxy_temp_path {data}/proxy; fastcgi_temp_path {data}/fastcgi;\n\
         uwsgi_temp_path {data}/uwsgi; scgi_temp_path {data}/scgi;\n\
         server {{ listen 127.0.0.1:{port}; root {data}/files; }} }}\n"
    )
}
