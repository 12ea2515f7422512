//! How quiet the machine was during a run: a figure that was measured beside other work is not to be quoted.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Process, machine_busy, machine_stolen};

/// Cores that other processes may keep busy, on average.
const OTHER_CORES_MAX: f64 = 0.25;
/// The share of all processors' time that the host may give to other machines.
const STOLEN_MAX: f64 = 0.02;
/// The load per processor when the run begins.
const LOAD_MAX: f64 = 0.5;
/// The spread of repeated measurements: the median distance from their median, as a share of it.
pub(crate) const SPREAD_MAX: f64 = 0.15;

/// Watches the machine from `start` to `end`.
pub struct MachineWatch {
    began: Instant,
    /// Processes of the bench, with their CPU time so far.
    processes: Vec<(Process, Duration)>,
    busy: Duration,
    stolen: Duration,
    load: f64,
}

/// How busy the machine was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineUse {
    /// The load of the last minute when the run began.
    pub load: f64,
    /// Cores that other processes kept busy.
    pub other_cores: f64,
    /// The share of all processors' time that the host gave to others.
    pub stolen: f64,
    processors: f64,
}

impl MachineWatch {
    /// Begins. The CPU time of this process and of `others`, such as a server that was started, is our own.
    pub fn start(others: &[Process]) -> MachineWatch {
        let own = [Process::own()];
        let processes = own.iter().chain(others);
        MachineWatch {
            began: Instant::now(),
            processes: processes.map(|process| (*process, process.cpu())).collect(),
            busy: machine_busy(),
            stolen: machine_stolen(),
            load: load(),
        }
    }

    /// How busy the machine was since the start.
    pub fn end(&self) -> MachineUse {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-3);
        let since = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64();
        let own: f64 = self
            .processes
            .iter()
            .map(|(process, before)| since(process.cpu(), *before))
            .sum();
        let stolen = since(machine_stolen(), self.stolen);
        let busy = since(machine_busy(), self.busy) - stolen;
        let processors = processors();
        MachineUse {
            load: self.load,
            other_cores: (busy - own).max(0.0) / seconds,
            stolen: stolen / seconds / processors,
            processors,
        }
    }
}

impl MachineUse {
    /// Why the figures of the run are not to be quoted; empty on a quiet machine.
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
    fn own_work_is_no_foreign_work() {
        let watch = MachineWatch::start(&[]);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            std::hint::black_box(began.elapsed());
        }
        let busy = watch.end();
        assert!(busy.other_cores <= busy.processors - 0.5, "{busy:?}");
    }
}
