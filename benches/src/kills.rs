//! When the server is killed: at moments drawn from the seed, spread over the three services, each given as a share of a phase's work.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::random::Random;
use crate::report::Outcome;
use crate::server::Server;

/// One planned kill: in the phase called `phase`, when `share` of its items are done.
#[derive(Clone, Debug, PartialEq)]
struct Kill {
    phase: &'static str,
    share: f64,
    /// So that a kill does not always fall right behind an acknowledgement.
    delay: Duration,
}

/// The plan, the server it is carried out on, and the restarts under way.
#[derive(Default)]
pub(crate) struct Kills {
    plan: Vec<Kill>,
    server: Option<Arc<Mutex<Server>>>,
    running: Mutex<Vec<JoinHandle<Outcome<Duration>>>>,
}

/// The kills of one phase, as numbers of items done at which they fall due. Sorted.
pub(crate) struct Due {
    at: Mutex<Vec<(u64, Duration)>>,
}

impl Kills {
    /// Plans `count` kills. `services` names each service's phases, the one that writes first: each service is hit in that phase
    /// before any other phase is.
    pub(crate) fn plan(
        count: usize,
        services: &[&[&'static str]],
        random: &mut Random,
        server: Option<Arc<Mutex<Server>>>,
    ) -> Kills {
        let mut kill = |index: usize| {
            let phases = services[index % services.len()];
            let any = random.below(phases.len() as u64) as usize;
            Kill {
                phase: phases[if index < services.len() { 0 } else { any }],
                share: 0.05 + 0.9 * random.unit(),
                delay: Duration::from_micros(random.below(20_000)),
            }
        };
        let count = if server.is_some() && !services.is_empty() {
            count
        } else {
            0
        };
        let plan = (0..count).map(&mut kill).collect();
        Kills {
            plan,
            server,
            running: Mutex::default(),
        }
    }

    /// The kills that fall into `phase`, which has `total` items.
    pub(crate) fn due_in(&self, phase: &str, total: usize) -> Due {
        let mine = self.plan.iter().filter(|kill| kill.phase == phase);
        let at = |kill: &Kill| ((total as f64 * kill.share) as u64, kill.delay);
        let mut at: Vec<_> = mine.map(at).collect();
        at.sort_unstable();
        Due { at: Mutex::new(at) }
    }

    /// Kills the server in the background, and starts it again, for every kill due now that `done` items are done.
    pub(crate) fn strike(&self, due: &Due, done: u64) {
        let mut at = due.at.lock().unwrap();
        while let Some((_, delay)) = at.first().copied().filter(|(items, _)| *items <= done) {
            at.remove(0);
            if let Some(server) = self.server.clone() {
                let strike = thread::spawn(move || {
                    thread::sleep(delay);
                    let mut server = server.lock().unwrap();
                    server.kill_and_restart()?;
                    Ok(server.ready_after())
                });
                self.running.lock().unwrap().push(strike);
            }
        }
    }

    /// Waits until the server is up again after every kill so far; how long each start took.
    pub(crate) fn settle(&self) -> Outcome<Vec<Duration>> {
        let running = std::mem::take(&mut *self.running.lock().unwrap());
        let joined = running.into_iter().map(|strike| strike.join());
        joined
            .map(|result| result.map_err(|_| "a restart panicked")?)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_planned_without_a_server_of_our_own() {
        let kills = Kills::plan(3, &[&["a"]], &mut Random::new(1), None);
        assert!(kills.plan.is_empty());
        kills.strike(&kills.due_in("a", 10), 10);
        assert!(kills.settle().unwrap().is_empty());
    }
}
