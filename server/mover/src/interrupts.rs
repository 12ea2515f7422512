//! Ctrl-C, and other signals that end a command.

use lazurite_services::platform::{Signal, Signals};

/// Calls `act` at each such signal, on a thread of its own. Without the thread, Ctrl-C ends the
/// process at once.
pub fn on_interrupt(mut act: impl FnMut() + Send + 'static) {
    let wait = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime else {
            return;
        };
        runtime.block_on(async {
            let Ok(mut signals) = Signals::watch() else {
                return;
            };
            loop {
                if signals.next().await != Signal::Reload {
                    act();
                }
            }
        });
    };
    let _ = std::thread::Builder::new().spawn(wait);
}
