//! What stops a running server: signals, the end of standard input, or the program around it.

use crate::{leases, platform};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;

/// Interval at which lease holders are looked for when the server would otherwise stop.
const LEASE_INTERVAL: Duration = Duration::from_millis(500);

/// The meaning of a signal.
enum Signal {
    Stop,
    /// Standard input ended: the program that started this one is gone, so the server stops too.
    EndOfInput,
    Reload,
}

/// The source of requests to stop or to reload.
pub enum Control {
    Signals(Signals),
    Guest(oneshot::Receiver<()>),
}

impl Control {
    /// Waits for a request to stop, and reloads when asked to until then. Serves on for lease
    /// holders of the directory, whichever way the request came. A second signal to stop ends the
    /// process at once.
    pub async fn wait_for_stop(mut self, directory: &Path, reload: impl Fn()) {
        while let Signal::Reload = self.wait().await {
            reload();
        }
        let Control::Signals(mut signals) = self else {
            return;
        };
        signals.outlast_leases(directory).await;
        // The program that started this one may end after its signal. That is no second signal.
        signals.input_end = None;
        tokio::spawn(async move {
            while let Signal::Reload = signals.wait().await {}
            std::process::exit(1);
        });
    }

    async fn wait(&mut self) -> Signal {
        match self {
            Control::Signals(signals) => signals.wait().await,
            Control::Guest(stop) => {
                let _ = stop.await;
                Signal::Stop
            }
        }
    }
}

/// The signals of the system, and the end of standard input.
pub struct Signals {
    system: platform::Signals,
    /// Completes when standard input ends; `None` if that does not stop the program.
    input_end: Option<oneshot::Receiver<()>>,
}

impl Signals {
    /// From this call on, signals no longer kill the program.
    pub fn watch(until_stdin_ends: bool) -> Result<Signals, String> {
        let system = platform::Signals::watch();
        Ok(Signals {
            system: system.map_err(|error| format!("cannot watch for signals: {error}"))?,
            input_end: until_stdin_ends.then(input_end).transpose()?,
        })
    }

    /// Waits until no lease holder is left, or for a second signal. The end of standard input is
    /// none: the program that started this one may have sent the first signal and ended.
    async fn outlast_leases(&mut self, directory: &Path) {
        let mut is_said = false;
        loop {
            let holders = leases::holders(directory);
            if holders.is_empty() {
                return;
            }
            if !is_said {
                let names = holders
                    .iter()
                    .map(|holder| format!("{} (process {})", holder.name, holder.process_id));
                // Not written to standard error directly, because a full pipe would delay the stop.
                tracing::warn!(
                    "serves on for {}, which attached; the next signal stops it at once",
                    names.collect::<Vec<_>>().join(", ")
                );
                is_said = true;
            }
            tokio::select! {
                () = tokio::time::sleep(LEASE_INTERVAL) => {}
                Signal::Stop = self.wait() => return,
            }
        }
    }

    async fn wait(&mut self) -> Signal {
        let input_end = async {
            match &mut self.input_end {
                Some(end) => drop(end.await),
                None => std::future::pending().await,
            }
        };
        let signal = tokio::select! {
            () = input_end => Signal::EndOfInput,
            signal = self.system.next() => match signal {
                platform::Signal::Stop => Signal::Stop,
                platform::Signal::Reload => Signal::Reload,
            },
        };
        if let Signal::EndOfInput = signal {
            self.input_end = None;
        }
        signal
    }
}

/// Reads standard input to its end on a thread of its own, because no read of a terminal or a pipe
/// can be cancelled.
fn input_end() -> Result<oneshot::Receiver<()>, String> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            let _ = sender.send(());
        })
        .map_err(no_threads)?;
    Ok(receiver)
}

/// The error of a thread that the system does not start.
pub fn no_threads(error: io::Error) -> String {
    format!("cannot start its threads: {error}")
}
