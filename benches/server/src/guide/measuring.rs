//! Runs patterns on a server: builds each design, asks its questions, and compares its answers with
//! the right ones, which follow from the data.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use lazurite_bench_common::{Outcome, median};

use crate::client::{Client, Error};
use crate::guide::advice::{self, Advice, Prefix};
use crate::guide::args::GuideArgs;
use crate::guide::data::Data;
use crate::guide::finding::{Finding, Measured, Tried, TriedRun};
use crate::guide::lab::Lab;
use crate::guide::pattern::{Answers, Design, Pattern, Trial, TrialRun};
use crate::guide::patterns::PATTERNS;
use crate::guide::prices::Stored;
use crate::guide::server::GuideServer;
use crate::guide::usage::Meter;

/// The runs of each pattern.
pub(super) struct Runs {
    /// Number of runs with all of the data.
    pub(super) whole: u16,
    /// The divisors of the data for further runs, one run each, largest first. The growth of the
    /// queries is fitted to these runs.
    pub(super) parts: &'static [f64],
}

impl Runs {
    /// One run without a fit, so nothing is priced.
    pub(super) const ONCE: Runs = Runs {
        whole: 1,
        parts: &[],
    };

    pub(super) fn fitted(whole: u16) -> Runs {
        Runs {
            whole,
            parts: &[4.0, 2.0],
        }
    }
}

/// The requested patterns.
pub(super) fn chosen(args: &GuideArgs) -> Vec<&'static Pattern> {
    lazurite_bench_common::chosen(&args.only, PATTERNS.iter().copied())
}

/// Runs the requested patterns. After an error, which ends the run, `findings` has the patterns
/// before it.
pub(super) fn run_patterns(
    args: &GuideArgs,
    runs: &Runs,
    server: &GuideServer,
    interrupted: &Arc<AtomicBool>,
    findings: &mut Vec<Finding>,
) -> Outcome<()> {
    let data = Data::new(args.seed, args.scale);
    let smaller = runs.parts.iter();
    let smaller = smaller.map(|part| Data::new(args.seed, args.scale / part));
    let smaller: Vec<Data> = smaller.collect();
    let client = Client::new(server.account.clone()).backing_off();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let run = format!("g{:x}", now.unwrap_or_default().as_secs());
    let has_advisor = advice::fetch(&client).is_some();
    for pattern in chosen(args) {
        let began = Instant::now();
        let meter = Arc::new(Meter::new(interrupted.clone()));
        let bench = Bench {
            client: &client,
            meter: &meter,
            data: &data,
            server,
            run: &run,
            keep: args.keep,
            serial: Cell::new(0),
            prefixes: RefCell::default(),
            is_priced: !runs.parts.is_empty(),
        };
        let mut finding = match bench.run_repeatedly(pattern, runs.whole, &smaller) {
            Err(error @ Error::Refused { status: 507, .. }) => {
                return Err(format!("the disk of the server is full: {error}").into());
            }
            // The server does not have an operation, or gives an answer that no design expects.
            // Other patterns may work.
            Err(error @ (Error::Refused { .. } | Error::Malformed(_))) => {
                bench.failure(pattern, &error)
            }
            finding => finding?,
        };
        if has_advisor {
            finding.advice = bench.advice();
        }
        let seconds = began.elapsed().as_secs_f64();
        eprintln!("{:28} {seconds:6.1} s", pattern.name);
        findings.push(finding);
    }
    Ok(())
}

/// The state that all designs of a run share.
struct Bench<'a> {
    client: &'a Client,
    meter: &'a Arc<Meter>,
    data: &'a Data,
    server: &'a GuideServer,
    run: &'a str,
    keep: bool,
    /// The number of the next run. It distinguishes the runs of a pattern.
    serial: Cell<usize>,
    /// The prefixes of all designs and runs of the pattern.
    prefixes: RefCell<Vec<Prefix>>,
    /// Whether the stored bytes are needed. Reading them counts against the limits of the server.
    is_priced: bool,
}

impl Bench<'_> {
    /// Runs a pattern once with each of the smaller data, smallest first, then `runs` times with
    /// all data, and its trials once. Counts are those of the first run with all data. Times are
    /// medians over all runs with all data.
    fn run_repeatedly(
        &self,
        pattern: &'static Pattern,
        runs: u16,
        smaller: &[Data],
    ) -> Result<Finding, Error> {
        let smaller = smaller.iter().map(|data| self.run(pattern, data));
        let smaller: Vec<Finding> = smaller.collect::<Result<_, _>>()?;
        let mut all = self.run(pattern, self.data)?;
        all.fit_growth(&smaller);
        for trial in pattern.trials {
            all.add_trial(self.run_trial(pattern, trial)?);
        }
        for finding in smaller {
            all.wrong.extend(finding.wrong);
        }
        for _ in 1..runs {
            let again = self.run(pattern, self.data)?;
            for (design, repeated) in all.designs.iter_mut().zip(again.designs) {
                design.build_seconds.push(repeated.build.seconds);
                design.ask_seconds.push(repeated.ask.seconds);
            }
            all.wrong.extend(again.wrong);
        }
        for design in &mut all.designs {
            design.build.seconds = median(&design.build_seconds).unwrap_or_default();
            design.ask.seconds = median(&design.ask_seconds).unwrap_or_default();
        }
        Ok(all)
    }

    fn run(&self, pattern: &'static Pattern, data: &Data) -> Result<Finding, Error> {
        let truth = (pattern.truth)(data);
        let mut finding = Finding::new(pattern, (pattern.writes)(data), (pattern.questions)(data));
        for design in pattern.designs {
            let measure = |lab: &Lab| self.measure(lab, design);
            let (measured, answers) = self.in_lab(pattern, design.name, data, measure)?;
            finding.designs.push(measured);
            if let Some(wrong) = difference(&truth, &answers) {
                finding.wrong.push(format!("{}: {wrong}", design.name));
            }
        }
        Ok(finding)
    }

    fn run_trial(&self, pattern: &Pattern, trial: &'static Trial) -> Result<Tried, Error> {
        let run = |run: &TrialRun| {
            let (tally, usage) = self.in_lab(pattern, run.name, self.data, |lab| {
                (run.build)(lab)?;
                self.meter.take(Duration::ZERO);
                let began = Instant::now();
                let tally = (run.run)(lab)?;
                Ok((tally, self.meter.take(began.elapsed())))
            })?;
            Ok(TriedRun {
                name: run.name,
                tally,
                usage,
            })
        };
        let runs = trial.runs.iter().map(run);
        Ok(Tried {
            trial,
            runs: runs.collect::<Result<_, Error>>()?,
        })
    }

    /// Calls `work` with tables, containers and queues of its own. Removes them at the end, unless
    /// they are to be kept.
    fn in_lab<T>(
        &self,
        pattern: &Pattern,
        design: &'static str,
        data: &Data,
        work: impl Fn(&Lab) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let letters = pattern.name.replace('-', "");
        // Each run needs new names: a hosted service takes a while to delete a table, and the name
        // is not free until then.
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        let prefix = format!("{}x{serial}{letters}", self.run);
        self.prefixes.borrow_mut().push(Prefix {
            text: prefix.clone(),
            design,
        });
        let client = self.client.observed(self.meter.clone());
        let lab = Lab::new(client, data, self.server, prefix);
        let done = work(&lab);
        if !self.keep {
            lab.remove(self.client);
        }
        done
    }

    /// The advice of the server's advisor on the designs that ran.
    fn advice(&self) -> Vec<Advice> {
        let all = advice::fetch(self.client).unwrap_or_default();
        advice::of_designs(&all, &self.prefixes.borrow())
    }

    /// The finding for a pattern that this server cannot run.
    fn failure(&self, pattern: &'static Pattern, error: &Error) -> Finding {
        self.meter.take(Duration::ZERO);
        Finding {
            wrong: vec![error.to_string()],
            ..Finding::new(pattern, 0, 0)
        }
    }

    fn measure(&self, lab: &Lab, design: &Design) -> Result<(Measured, Answers), Error> {
        let began = Instant::now();
        (design.build)(lab)?;
        let build = self.meter.take(began.elapsed());
        let stored = if self.is_priced {
            lab.stored(self.client)?
        } else {
            Stored::default()
        };
        let began = Instant::now();
        let answers = (design.ask)(lab)?;
        let ask = self.meter.take(began.elapsed());
        Ok((Measured::new(design.name, build, ask, stored), answers))
    }
}

/// A sentence about the first wrong answer.
fn difference(truth: &Answers, answers: &Answers) -> Option<String> {
    let pairs = truth.iter().zip(answers).enumerate();
    for (number, (right, found)) in pairs {
        if right != found {
            return Some(format!("answer {number} is `{found}`, not `{right}`"));
        }
    }
    (truth.len() != answers.len())
        .then(|| format!("{} answers instead of {}", answers.len(), truth.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::html;
    use crate::guide::pattern::Harm;
    use lazurite_engine::fs::{Failure, Fault, FaultFs, Operation};
    use lazurite_engine::{Durability, Environment};
    use std::thread;

    fn each_pattern(server: &GuideServer, look: impl Fn(&Bench, &'static Pattern)) {
        let client = Client::new(server.account.clone()).backing_off();
        let meter = Arc::new(Meter::new(Arc::default()));
        let data = Data::new(7, 0.05);
        for pattern in PATTERNS {
            let bench = Bench {
                client: &client,
                meter: &meter,
                data: &data,
                server,
                run: "gt",
                keep: false,
                serial: Cell::new(0),
                prefixes: RefCell::default(),
                is_priced: true,
            };
            look(&bench, pattern);
        }
    }

    fn run(bench: &Bench, pattern: &'static Pattern) -> Finding {
        let found = bench.run_repeatedly(pattern, 1, &[]);
        found.unwrap_or_else(|error| panic!("{}: {error}", pattern.name))
    }

    #[test]
    fn every_design_gives_the_right_answers_and_the_advice_reaches_its_goal() {
        each_pattern(&GuideServer::for_test(), |bench, pattern| {
            let finding = run(bench, pattern);
            let (name, wrong) = (pattern.name, &finding.wrong);
            assert!(wrong.is_empty(), "{name}: {wrong:?}");
            // Time has no meaning in a test, and races need more threads than a test has.
            if finding.depends_on_machine() {
                return;
            }
            let figures = finding.designs.iter().map(|design| {
                let figure = design.figure(pattern.goal);
                figure.unwrap_or_else(|| panic!("{name}: no {:?}", pattern.goal))
            });
            let figures: Vec<f64> = figures.collect();
            let (naive, advised) = (figures[0], figures[figures.len() - 1]);
            assert!(naive > advised, "{name}: {figures:?}");
            let chart = html::bars(pattern.goal, &finding.designs);
            let bars = chart.matches("<rect").count();
            assert_eq!(bars, finding.designs.len(), "{name}: {chart}");
        });
    }

    #[test]
    fn each_trial_harms_the_runs_without_the_remedy_and_no_other() {
        let server = GuideServer::for_test();
        let found = RefCell::new(Vec::new());
        each_pattern(&server, |bench, pattern| {
            for trial in pattern.trials {
                let tried = bench.run_trial(pattern, trial).unwrap();
                let harmed = tried.runs.iter().map(|run| run.tally.harmed);
                let harmed: Vec<usize> = harmed.collect();
                let mut found = found.borrow_mut();
                found.push((pattern.name, trial.harm, harmed));
            }
        });
        let found = found.into_inner();
        let found = found
            .iter()
            .map(|(name, harm, harmed)| (*name, *harm, &harmed[..]));
        assert_eq!(found.collect::<Vec<_>>(), TRIALS);
    }

    /// The objects that each run of each trial harms, with a twentieth of the data.
    const TRIALS: &[(&str, Harm, &[usize])] = &[
        // One customer of five is not yet changed; each of the others in part.
        ("partition-key", Harm::HalfDone, &[4, 0, 0]),
        ("entity-group-transactions", Harm::HalfDone, &[13, 0]),
        // Of the four moves of a round, one has an effect.
        ("entity-group-transactions", Harm::Lost, &[15, 0, 0]),
        // Of three programs in turn, one dies between the two writes.
        ("inter-partition-index", Harm::HalfDone, &[13, 0]),
        ("inter-partition-index", Harm::Wrong, &[0, 0]),
        ("eventual-transactions", Harm::HalfDone, &[13, 0]),
        ("eventual-transactions", Harm::SeenTwice, &[40, 40, 0]),
        ("materialised-view", Harm::Miscounted, &[13, 0]),
        ("materialised-view", Harm::Outdated, &[0, 17, 0, 0]),
        ("denormalisation", Harm::Outdated, &[0, 0]),
        ("client-side-joins", Harm::Outdated, &[20, 0]),
        ("wide-entities", Harm::HalfDone, &[1, 0]),
        ("merge-or-replace", Harm::Lost, &[19, 0, 0]),
        ("sas-key-range", Harm::Exposed, &[4, 0, 0]),
    ];

    #[test]
    fn every_design_gives_the_right_answers_under_the_limits_of_azure() {
        let server = GuideServer::limited_for_test("azure".into());
        each_pattern(&server, |bench, pattern| {
            let (name, wrong) = (pattern.name, run(bench, pattern).wrong);
            assert!(wrong.is_empty(), "{name}: {wrong:?}");
        });
    }

    #[test]
    fn every_verification_fails_when_its_design_is_broken() {
        each_pattern(&GuideServer::for_test(), |bench, pattern| {
            let truth = (pattern.truth)(bench.data);
            for design in pattern.designs {
                let answers = bench.in_lab(pattern, design.name, bench.data, |lab| {
                    (design.build)(lab)?;
                    (design.sabotage)(lab).expect("a design can be broken");
                    (design.ask)(lab)
                });
                // A broken design may fail to answer at all.
                let wrong = answers.map(|answers| difference(&truth, &answers));
                let (pattern, design) = (pattern.name, design.name);
                assert!(!matches!(wrong, Ok(None)), "{pattern}, {design}");
            }
        });
    }

    #[test]
    fn run_on_a_full_disk_keeps_the_patterns_before_it() {
        let fault = FaultFs::new(Environment::system(Durability::Process).fs);
        let server = GuideServer::on_disk_for_test(&fault);
        let args = |pattern: &Pattern| {
            let words = ["guide", "--runs=1", "--scale=0.05", "--only", pattern.name];
            GuideArgs::of(words)
        };
        let mut findings = Vec::new();
        let mut run = |pattern| {
            let args = args(pattern);
            let ended = run_patterns(
                &args,
                &Runs::fitted(args.runs),
                &server,
                &Arc::default(),
                &mut findings,
            );
            (ended, findings.len())
        };
        assert!(run(PATTERNS[0]).0.is_ok());
        fault.set(Some(Fault {
            operation: Some(Operation::Write),
            path: String::new(),
            nth: 3,
            failure: Failure::Error(std::io::ErrorKind::StorageFull),
            sticky: true,
        }));
        let (ended, count) = run(PATTERNS[1]);
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("disk of the server is full"), "{error}");
        assert_eq!(count, 1);
    }

    #[test]
    fn server_that_dies_in_the_middle_ends_the_run_and_the_patterns_before_it_are_kept() {
        let server = GuideServer::for_test();
        let first = PATTERNS[0].name;
        let args = |only: &str, scale: &str| {
            let words = ["guide", "--runs=100", "--only", only, "--scale", scale];
            GuideArgs::of(words)
        };
        let mut findings = Vec::new();
        let mut run = |args: &GuideArgs, runs| {
            let ended = run_patterns(
                args,
                &Runs::fitted(runs),
                &server,
                &Arc::default(),
                &mut findings,
            );
            (ended, findings.len())
        };
        assert!(run(&args(first, "0.05"), 1).0.is_ok());
        // A hundred runs take much longer than the server lives.
        let (ended, count) = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(200));
                server.stop_for_test();
            });
            run(&args("query-kinds,log-tail", "1"), 100)
        });
        let error = ended.unwrap_err().to_string();
        let is_clear = ["cannot be reached", "answer was lost"]
            .iter()
            .any(|words| error.contains(words));
        assert!(is_clear && !error.contains('\n'), "{error}");
        assert_eq!(count, 1);
    }

    #[test]
    fn interrupted_run_sends_no_further_request() {
        let server = GuideServer::for_test();
        let interrupted = Arc::new(AtomicBool::new(true));
        let meter = Arc::new(Meter::new(interrupted));
        let client = Client::new(server.account.clone()).observed(meter.clone());
        let refused = client.create_table("interrupted");
        assert!(matches!(refused, Err(Error::Interrupted)));
        assert_eq!(meter.take(Default::default()).requests, 0);
    }
}
