//! How quiet the machine was during a run. Figures that were measured beside other work should not
//! be quoted.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Process, machine_busy, machine_stolen};

/// Maximum number of cores that other processes may keep busy, on average.
const OTHER_CORES_MAX: f64 = 0.25;
/// Maximum share of all processors' time that the host may give to other machines.
const STOLEN_MAX: f64 = 0.02;
/// Maximum load per processor when the run begins.
const LOAD_MAX: f64 = 0.5;
/// Maximum spread of repeated measurements: the median distance from their median, as a share of
/// the median.
pub(crate) const SPREAD_MAX: f64 = 0.15;

/// Watches the machine from `start` to `end`.
pub struct MachineWatch {
    began: Instant,
    /// CPU time that the bench had used at the start.
    own: Duration,
    busy: Duration,
    stolen: Duration,
    load: f64,
    knows_all: bool,
}

/// The load of the machine during a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineUse {
    /// The load of the last minute when the run began.
    pub load: f64,
    /// Cores that other processes kept busy; 0 if the server's process is unknown.
    pub other_cores: f64,
    /// The share of all processors' time that the host gave to other machines.
    pub stolen: f64,
    processors: f64,
}

impl MachineWatch {
    /// Starts a watch for a server whose process is unknown and may run on another machine. CPU
    /// time of other processes is not reported, because it would include the server's.
    pub fn start_beside_unknown() -> MachineWatch {
        MachineWatch {
            knows_all: false,
            ..MachineWatch::start(&[])
        }
    }

    /// Starts a watch. The CPU time of this process and of its children, such as a started server,
    /// counts as our own. `children` are the children that run now.
    pub fn start(children: &[Process]) -> MachineWatch {
        MachineWatch {
            began: Instant::now(),
            own: own_cpu(children),
            busy: machine_busy(),
            stolen: machine_stolen(),
            load: load(),
            knows_all: true,
        }
    }

    /// Returns how busy the machine was since the start. `children` are the children that run now;
    /// they differ from those at the start if a server was restarted.
    pub fn end(&self, children: &[Process]) -> MachineUse {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-3);
        let since = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64();
        let machine = Spent {
            seconds,
            busy: since(machine_busy(), self.busy),
            stolen: since(machine_stolen(), self.stolen),
            own: since(own_cpu(children), self.own),
        };
        let used = machine.used(processors());
        MachineUse {
            load: self.load,
            other_cores: if self.knows_all {
                used.other_cores
            } else {
                0.0
            },
            ..used
        }
    }
}

/// Elapsed seconds, and processor seconds, summed over all processors: busy (including stolen),
/// stolen, and used by our processes.
struct Spent {
    seconds: f64,
    busy: f64,
    stolen: f64,
    own: f64,
}

impl Spent {
    fn used(&self, processors: f64) -> MachineUse {
        MachineUse {
            load: 0.0,
            other_cores: (self.busy - self.stolen - self.own).max(0.0) / self.seconds,
            stolen: self.stolen / self.seconds / processors,
            processors,
        }
    }
}

impl MachineUse {
    /// The reasons why the figures of the run are not to be quoted; empty on a quiet machine.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.load > LOAD_MAX * self.processors {
            reasons.push(format!(
                "the load was {:.1} on {} processors when the run began",
                self.load, self.processors
            ));
        }
        if self.other_cores > OTHER_CORES_MAX {
            reasons.push(format!(
                "other processes kept {:.1} cores busy",
                self.other_cores
            ));
        }
        if self.stolen > STOLEN_MAX {
            reasons.push(format!(
                "the host took {:.0} % of the processors' time away",
                self.stolen * 100.0
            ));
        }
        reasons
    }

    /// The figures, for a report.
    pub fn to_json(&self) -> Value {
        json!({ "load": self.load, "other_cores": self.other_cores, "stolen": self.stolen, "processors": self.processors })
    }
}

/// CPU time so far of this process, of its children that ended, and of those that run.
fn own_cpu(children: &[Process]) -> Duration {
    let own = Process::own();
    let running: Duration = children.iter().map(|child| child.cpu()).sum();
    own.cpu() + own.cpu_of_ended_children() + running
}

fn processors() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

/// The load of the last minute; 0 where the system does not say.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|load| load.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_foreign_work_is_a_reason() {
        let quiet = MachineUse {
            load: 0.9,
            other_cores: 0.2,
            stolen: 0.01,
            processors: 2.0,
        };
        assert!(quiet.reasons().is_empty());
        let reason = |busy: MachineUse| {
            let reasons = busy.reasons();
            assert_eq!(reasons.len(), 1);
            reasons[0].clone()
        };
        let load = reason(MachineUse {
            load: 1.1,
            ..quiet.clone()
        });
        assert!(load.contains("load was 1.1 on 2 processors"), "{load}");
        let others = reason(MachineUse {
            other_cores: 0.3,
            ..quiet.clone()
        });
        assert!(others.contains("0.3 cores"), "{others}");
        let stolen = reason(MachineUse {
            stolen: 0.05,
            ..quiet
        });
        assert!(stolen.contains("5 %"), "{stolen}");
    }

    #[test]
    fn work_of_a_server_that_was_restarted_is_our_own() {
        use std::process::Command;
        let work = Duration::from_millis(50);
        let before = own_cpu(&[]);
        let mut server = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let process = Process(server.id());
        while process.cpu() < work {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(own_cpu(&[process]) >= before + work);
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(own_cpu(&[]) >= before + work);
    }

    #[test]
    fn own_work_and_stolen_time_are_no_work_of_other_processes() {
        let spent = Spent {
            seconds: 10.0,
            busy: 15.0,
            stolen: 2.0,
            own: 8.0,
        };
        let used = spent.used(2.0);
        assert_eq!((used.other_cores, used.stolen), (0.5, 0.1));
        let clocks_differ = Spent { own: 14.0, ..spent };
        assert_eq!(clocks_differ.used(2.0).other_cores, 0.0);
    }
}
