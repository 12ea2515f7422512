//! The plan of kills: moments drawn from the seed, spread over the three services, each a share of
//! a phase's work.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lazurite_bench_common::{Outcome, Random};

use crate::server::Server;

/// One planned kill: in the phase called `phase`, when `share` of its items are done.
#[derive(Clone, Debug)]
struct Kill {
    phase: &'static str,
    share: f64,
    timing: KillTiming,
}

/// The delays of a kill.
#[derive(Clone, Copy, Debug)]
struct KillTiming {
    /// So that a kill does not always fall right behind an acknowledgement.
    delay: Duration,
    /// Kill the server once more, this long after its start. One kill in four does.
    again_after: Option<Duration>,
}

/// The plan, the server it is carried out on, and the restarts under way.
#[derive(Default)]
pub(super) struct Kills {
    plan: Vec<Kill>,
    server: Option<Arc<Mutex<Server>>>,
    running: Mutex<Vec<JoinHandle<Outcome<Duration>>>>,
}

/// The kills of one phase, as numbers of items done at which they fall due. Sorted.
pub(super) struct Due {
    at: Mutex<Vec<(u64, KillTiming)>>,
}

impl Kills {
    /// Plans `count` kills of `server`; none if there is no server of our own.
    pub(super) fn plan(
        count: usize,
        services: &[&[&'static str]],
        random: &mut Random,
        server: Option<Arc<Mutex<Server>>>,
    ) -> Kills {
        let plan = match server {
            Some(_) => plan(count, services, random),
            None => Vec::new(),
        };
        Kills {
            plan,
            server,
            running: Mutex::default(),
        }
    }

    /// The kills that fall into `phase`, which has `total` items.
    pub(super) fn due_in(&self, phase: &str, total: usize) -> Due {
        let mine = self.plan.iter().filter(|kill| kill.phase == phase);
        let at = |kill: &Kill| ((total as f64 * kill.share) as u64, kill.timing);
        let mut at: Vec<_> = mine.map(at).collect();
        at.sort_unstable_by_key(|(items, _)| *items);
        Due { at: Mutex::new(at) }
    }

    /// Kills the server in the background, and starts it again, for every kill due now that `done`
    /// items are done.
    pub(super) fn kill_due(&self, due: &Due, done: u64) {
        let mut at = due.at.lock().unwrap();
        while let Some((_, timing)) = at.first().copied().filter(|(items, _)| *items <= done) {
            at.remove(0);
            if let Some(server) = self.server.clone() {
                let restart = thread::spawn(move || timing.carry_out(&server));
                self.running.lock().unwrap().push(restart);
            }
        }
    }

    /// Waits until the server is up again after every kill so far; how long each start took.
    pub(super) fn wait_for_restarts(&self) -> Outcome<Vec<Duration>> {
        let running = std::mem::take(&mut *self.running.lock().unwrap());
        let joined = running.into_iter().map(|restart| restart.join());
        joined
            .map(|result| result.map_err(|_| "a restart panicked")?)
            .collect()
    }
}

impl KillTiming {
    /// How long the last start took.
    fn carry_out(self, server: &Mutex<Server>) -> Outcome<Duration> {
        thread::sleep(self.delay);
        let mut server = server.lock().unwrap();
        server.kill_and_restart(self.again_after)?;
        Ok(server.ready_after())
    }
}

/// `services` names each service's phases, the one that writes first: each service is hit in that
/// phase before any is hit again.
fn plan(count: usize, services: &[&[&'static str]], random: &mut Random) -> Vec<Kill> {
    let mut kill = |index: usize| {
        let phases = services[index % services.len()];
        let any = random.below(phases.len() as u64) as usize;
        Kill {
            phase: phases[if index < services.len() { 0 } else { any }],
            share: 0.05 + 0.9 * random.unit(),
            timing: KillTiming {
                delay: Duration::from_micros(random.below(20_000)),
                again_after: (random.below(4) == 0)
                    .then(|| Duration::from_micros(random.below(10_000))),
            },
        }
    };
    (0..count).map(&mut kill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICES: &[&[&str]] = &[&["a write", "a read"], &["b write"]];

    #[test]
    fn each_service_is_killed_during_writes_first() {
        let plan = plan(4, SERVICES, &mut Random::new(5));
        let phases: Vec<_> = plan.iter().map(|kill| kill.phase).collect();
        assert_eq!(phases[..2], ["a write", "b write"]);
        assert!(SERVICES[0].contains(&phases[2]));
        assert!(plan.iter().all(|kill| kill.share < 1.0));
    }

    #[test]
    fn kill_is_due_once_at_its_share_of_the_items() {
        let plan = plan(1, SERVICES, &mut Random::new(5));
        let expected = (plan[0].share * 1000.0) as u64;
        let kills = Kills {
            plan,
            ..Kills::default()
        };
        let due = kills.due_in("a write", 1000);
        kills.kill_due(&due, expected - 1);
        assert_eq!(due.at.lock().unwrap().len(), 1);
        kills.kill_due(&due, expected + 1);
        assert!(due.at.lock().unwrap().is_empty());
        assert!(kills.due_in("a read", 1000).at.lock().unwrap().is_empty());
    }

    #[test]
    fn no_kill_is_planned_without_an_own_server() {
        let kills = Kills::plan(3, &[&["a"]], &mut Random::new(1), None);
        assert!(kills.plan.is_empty());
        kills.kill_due(&kills.due_in("a", 10), 10);
        assert!(kills.wait_for_restarts().unwrap().is_empty());
    }
}
