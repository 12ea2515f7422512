//! Runs the patterns one after the other, verifies the answers of every design, and reports.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use lazurite_bench_common::report::write;
use lazurite_bench_common::{OldRun, Outcome, measurements, median};

use crate::client::{Account, Client, Error, Service};
use crate::guide::advice::{self, Advice, Prefix};
use crate::guide::args::GuideArgs;
use crate::guide::azurite;
use crate::guide::data::Data;
use crate::guide::docs;
use crate::guide::html;
use crate::guide::lab::Lab;
use crate::guide::pattern::{Answers, Design, Pattern};
use crate::guide::patterns::PATTERNS;
use crate::guide::prices::{Prices, Stored};
use crate::guide::report::{self, Report};
use crate::guide::server::GuideServer;
use crate::guide::usage::{Meter, Usage};

/// The measurements of one design.
pub(super) struct Measured {
    pub(super) design: &'static str,
    pub(super) build: Usage,
    pub(super) ask: Usage,
    pub(super) stored: Stored,
    /// Seconds of each run to build and to ask. The usage above is that of the first run with the
    /// medians of these.
    pub(super) build_seconds: Vec<f64>,
    pub(super) ask_seconds: Vec<f64>,
}

/// The results of one pattern.
pub(super) struct Finding {
    pub(super) pattern: &'static Pattern,
    pub(super) designs: Vec<Measured>,
    /// The wrong answers; empty if every design gave the right ones.
    pub(super) wrong: Vec<String>,
    /// The advice of the server's advisor; empty if it has none.
    pub(super) advice: Vec<Advice>,
    pub(super) writes: usize,
    pub(super) questions: usize,
}

/// Runs the requested patterns. Prints the results up to an error.
pub(crate) fn run(args: &GuideArgs) -> Outcome<usize> {
    if args.print_prices {
        println!("{:#}", Prices::default().to_json());
        return Ok(0);
    }
    let prices = match &args.prices {
        Some(path) => Prices::read(path)?,
        None => Prices::default(),
    };
    if args.azurite {
        crate::azurite::install()?;
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    watch_interrupts(interrupted.clone())?;
    let server = GuideServer::start(args)?;
    check_connection(&server.account)?;
    let old = args.compare.as_deref().map(OldRun::read).transpose()?;
    let mut report = Report::new(server.description.clone(), prices, args.scale, args.seed);
    let watch = server.watch_machine();
    let ended = run_patterns(args, args.runs, &server, &interrupted, &mut report);
    report.error = match &ended {
        Ok(()) => None,
        // An interrupt ends the server that we started too, so the error of the request does not
        // matter.
        Err(_) if interrupted.load(Ordering::Relaxed) => Some("interrupted".into()),
        Err(error) => Some(error.to_string()),
    };
    report.noisy = watch.end(&server.children()).reasons();
    report
        .noisy
        .extend(measurements::spread_reason(&report.measurements()));
    report.comparison = old.map_or_else(Vec::new, |old| old.compare(&report.measurements()));
    if args.azurite && report.error.is_none() {
        report.azurite = Some(azurite::run(args, &interrupted, &report)?);
    }
    report::print(&report);
    write_files(args, &report)?;
    match &report.error {
        None => Ok(report.wrongs()),
        Some(error) => Err(format!(
            "{error}; {} of {} patterns ran",
            report.findings.len(),
            chosen(args).len()
        )
        .into()),
    }
}

/// Writes JSON, page and figures of documentation where they are asked for. One that cannot be
/// written does not keep the others from being written.
fn write_files(args: &GuideArgs, report: &Report) -> Outcome<()> {
    let json = write(args.json.as_deref(), || format!("{:#}\n", report.to_json()));
    let html = write(args.html.as_deref(), || html::page(report));
    // A page with the figures of a broken or partial run would be wrong.
    let docs = if report.error.is_none() && report.wrongs() == 0 {
        let mut targets = args.write_docs.iter();
        targets.try_for_each(|target| docs::write(target, report))
    } else {
        Ok(())
    };
    json.and(html).and(docs)
}

fn chosen(args: &GuideArgs) -> Vec<&'static Pattern> {
    lazurite_bench_common::chosen(&args.only, PATTERNS.iter().copied())
}

/// The first Ctrl-C ends the run before its next request.
fn watch_interrupts(interrupted: Arc<AtomicBool>) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::spawn(move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            interrupted.store(true, Ordering::Relaxed);
        }
    });
    Ok(())
}

/// One sentence if the endpoint does not answer or refuses the key.
fn check_connection(account: &Account) -> Outcome<()> {
    let client = Client::new(account.clone());
    let endpoint = account.endpoint(Service::Table);
    match client.get_entity("GuideProbe", "p", "r") {
        Ok(_) => Ok(()),
        Err(error) if error.is("TableNotFound") => Ok(()),
        Err(Error::Refused { status: 403, .. }) => {
            Err(format!("{endpoint} refuses the key of account {}", account.name).into())
        }
        Err(Error::Unreachable(reason) | Error::InDoubt(reason)) => {
            Err(format!("{endpoint} does not answer: {reason}").into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs the patterns that were asked for, each so many times. Errors: there is no going on;
/// `report` holds the findings up to then.
pub(super) fn run_patterns(
    args: &GuideArgs,
    runs: u16,
    server: &GuideServer,
    interrupted: &Arc<AtomicBool>,
    report: &mut Report,
) -> Outcome<()> {
    let data = Data::new(args.seed, args.scale);
    let client = Client::new(server.account.clone());
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
            is_sabotaged: false,
        };
        let mut finding = match bench.run_repeatedly(pattern, runs) {
            Err(error @ Error::Refused { status: 507, .. }) => {
                return Err(format!("the disk of the server is full: {error}").into());
            }
            // The server does not know an operation, or answers what no design expects: the other
            // patterns may do.
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
        report.findings.push(finding);
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
    /// Distinguishes the runs of a pattern.
    serial: Cell<usize>,
    /// Of all designs and runs of the pattern.
    prefixes: RefCell<Vec<Prefix>>,
    /// Whether the advised design is broken before it is asked.
    is_sabotaged: bool,
}

impl Bench<'_> {
    /// Runs a pattern several times. What is counted is that of the first run, times are medians.
    fn run_repeatedly(&self, pattern: &'static Pattern, runs: u16) -> Result<Finding, Error> {
        let mut all = self.run(pattern)?;
        for _ in 1..runs {
            let again = self.run(pattern)?;
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

    fn run(&self, pattern: &'static Pattern) -> Result<Finding, Error> {
        let truth = (pattern.truth)(self.data);
        let mut finding = Finding {
            pattern,
            designs: Vec::new(),
            wrong: Vec::new(),
            advice: Vec::new(),
            writes: (pattern.writes)(self.data),
            questions: (pattern.questions)(self.data),
        };
        for (number, design) in pattern.designs.iter().enumerate() {
            let letters = pattern.name.replace('-', "");
            // A hosted service takes a while to delete a table, whose name is not free until then.
            let serial = self.serial.get();
            self.serial.set(serial + 1);
            let prefix = format!("{}x{serial}{letters}{number}", self.run);
            self.prefixes.borrow_mut().push(Prefix {
                text: prefix.clone(),
                design: design.name,
            });
            let lab = Lab::new(
                self.client.observed(self.meter.clone()),
                self.data,
                self.server,
                prefix,
            );
            let is_last = number + 1 == pattern.designs.len();
            let measured = self.measure(&lab, pattern, design, is_last);
            if !self.keep {
                lab.remove(self.client);
            }
            let (measured, answers) = measured?;
            finding.designs.push(measured);
            if let Some(wrong) = difference(&truth, &answers) {
                finding.wrong.push(format!("{}: {wrong}", design.name));
            }
        }
        Ok(finding)
    }

    /// The advice of the server's advisor on the designs that ran.
    fn advice(&self) -> Vec<Advice> {
        let all = advice::fetch(self.client).unwrap_or_default();
        advice::of_designs(&all, &self.prefixes.borrow())
    }

    /// A pattern that this server cannot run.
    fn failure(&self, pattern: &'static Pattern, error: &Error) -> Finding {
        self.meter.take(Duration::ZERO);
        Finding {
            pattern,
            designs: Vec::new(),
            wrong: vec![error.to_string()],
            advice: Vec::new(),
            writes: 0,
            questions: 0,
        }
    }

    fn measure(
        &self,
        lab: &Lab,
        pattern: &Pattern,
        design: &Design,
        is_last: bool,
    ) -> Result<(Measured, Answers), Error> {
        let began = Instant::now();
        (design.build)(lab)?;
        let build = self.meter.take(began.elapsed());
        let stored = lab.stored(self.client)?;
        if self.is_sabotaged && is_last {
            self.sabotage(lab, pattern)?;
        }
        let began = Instant::now();
        let answers = (design.ask)(lab)?;
        let ask = self.meter.take(began.elapsed());
        let measured = Measured {
            design: design.name,
            build_seconds: vec![build.seconds],
            ask_seconds: vec![ask.seconds],
            build,
            ask,
            stored,
        };
        Ok((measured, answers))
    }

    #[cfg(test)]
    fn sabotage(&self, lab: &Lab, pattern: &Pattern) -> Result<(), Error> {
        (pattern.sabotage)(lab)
    }

    #[cfg(not(test))]
    fn sabotage(&self, _lab: &Lab, _pattern: &Pattern) -> Result<(), Error> {
        Ok(())
    }
}

/// The first answer that is not the right one.
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
    use crate::guide::pattern::Measure;
    use clap::Parser;
    use lazurite_engine::fs::{Failure, Fault, FaultFs, Operation};
    use lazurite_engine::{Durability, Environment};
    use std::fs;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: GuideArgs,
    }

    fn each_pattern(is_sabotaged: bool, look: impl Fn(&Finding)) {
        let server = GuideServer::for_test();
        let client = Client::new(server.account.clone());
        let meter = Arc::new(Meter::new(Arc::default()));
        let data = Data::new(7, 0.05);
        let run = if is_sabotaged { "gs" } else { "gt" };
        for pattern in PATTERNS {
            let bench = Bench {
                client: &client,
                meter: &meter,
                data: &data,
                server: &server,
                run,
                keep: false,
                serial: Cell::new(0),
                prefixes: RefCell::default(),
                is_sabotaged,
            };
            match bench.run(pattern) {
                Ok(finding) => look(&finding),
                // A broken pattern may fail to answer at all.
                Err(error) => assert!(is_sabotaged, "{}: {error}", pattern.name),
            }
        }
    }

    #[test]
    fn every_design_gives_the_right_answers_and_the_advice_reaches_its_goal() {
        each_pattern(false, |finding| {
            let pattern = finding.pattern;
            assert!(
                finding.wrong.is_empty(),
                "{}: {:?}",
                pattern.name,
                finding.wrong
            );
            // Time says nothing in a test, races need more than a test's threads, and safety has
            // its price.
            let is_exempt = matches!(
                pattern.goal,
                Measure::Seconds | Measure::Refused | Measure::Safety
            );
            if is_exempt {
                return;
            }
            let figures = finding.designs.iter().map(|design| {
                let figure = pattern.goal.of(&design.build, &design.ask);
                figure.unwrap_or_else(|| panic!("{}: no {:?}", pattern.name, pattern.goal))
            });
            let figures: Vec<f64> = figures.collect();
            let (naive, advised) = (figures[0], figures[figures.len() - 1]);
            assert!(naive > advised, "{}: {figures:?}", pattern.name);
        });
    }

    #[test]
    fn every_verification_fails_when_its_pattern_is_broken() {
        each_pattern(true, |finding| {
            let name = finding.pattern.name;
            let advised = finding.designs.last().unwrap().design;
            assert_eq!(finding.wrong.len(), 1, "{name}: {:?}", finding.wrong);
            assert!(
                finding.wrong[0].starts_with(advised),
                "{name}: {:?}",
                finding.wrong
            );
        });
    }

    #[test]
    fn run_on_a_full_disk_keeps_the_patterns_before_it() {
        let fault = FaultFs::new(Environment::system(Durability::Process).fs);
        let server = GuideServer::on_disk_for_test(&fault);
        let args = |pattern: &Pattern| {
            let words = ["guide", "--runs=1", "--scale=0.05", "--only", pattern.name];
            TestCli::try_parse_from(words).unwrap().args
        };
        let mut report = Report::new(String::new(), Prices::default(), 1.0, 1);
        let mut run = |pattern| {
            let args = args(pattern);
            let ended = run_patterns(&args, args.runs, &server, &Arc::default(), &mut report);
            (ended, report.findings.len())
        };
        assert!(run(PATTERNS[0]).0.is_ok());
        fault.set(Some(Fault {
            operation: Some(Operation::Write),
            path: String::new(),
            nth: 3,
            failure: Failure::Error(std::io::ErrorKind::StorageFull),
            sticky: true,
        }));
        let (ended, findings) = run(PATTERNS[1]);
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("disk of the server is full"), "{error}");
        assert_eq!(findings, 1);
    }

    #[test]
    fn server_that_dies_in_the_middle_ends_the_run_and_the_patterns_before_it_are_kept() {
        let server = GuideServer::for_test();
        let first = PATTERNS[0].name;
        let args = |only: &str, scale: &str| {
            let words = ["guide", "--runs=100", "--only", only, "--scale", scale];
            TestCli::try_parse_from(words).unwrap().args
        };
        let mut report = Report::new(String::new(), Prices::default(), 1.0, 1);
        let mut run = |args: &GuideArgs, runs| {
            let ended = run_patterns(args, runs, &server, &Arc::default(), &mut report);
            (ended, report.findings.len())
        };
        assert!(run(&args(first, "0.05"), 1).0.is_ok());
        // A hundred runs take much longer than the server lives.
        let (ended, findings) = thread::scope(|scope| {
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
        assert_eq!(findings, 1);
    }

    #[test]
    fn report_that_cannot_be_written_is_one_sentence_and_the_other_is_written() {
        let scratch = tempfile::tempdir().unwrap();
        let page = scratch.path().join("guide.html");
        let words = [
            "guide",
            "--runs=1",
            "--scale=0.05",
            "--only=query-kinds",
            "--json=/dev/full",
        ];
        let page_flag = format!("--html={}", page.display());
        let words = words.into_iter().chain([&*page_flag]);
        let error = run(&TestCli::try_parse_from(words).unwrap().args).unwrap_err();
        assert!(
            error.to_string().starts_with("/dev/full cannot be written"),
            "{error}"
        );
        assert!(fs::read_to_string(page).unwrap().contains("Query kinds"));
    }

    #[test]
    fn repeated_runs_are_compared_with_their_own_json() {
        let scratch = tempfile::tempdir().unwrap();
        let json = scratch.path().join("guide.json").display().to_string();
        let words = ["guide", "--runs=3", "--scale=0.05", "--only=query-kinds"];
        let write = format!("--json={json}");
        let parse = |flag: &str| {
            TestCli::try_parse_from(words.into_iter().chain([flag]))
                .unwrap()
                .args
        };
        run(&parse(&write)).unwrap();
        let old = OldRun::read(std::path::Path::new(&json)).unwrap();
        let written: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let seconds = written["measurements"].as_array().unwrap().iter();
        let mut seconds = seconds.filter(|one| one["unit"] == "ms");
        assert!(seconds.all(|one| one["values"].as_array().unwrap().len() == 3));
        drop(old);
        run(&parse(&format!("--compare={json}"))).unwrap();
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

    #[test]
    fn dead_endpoint_and_wrong_key_are_one_sentence() {
        let dead = Account::development(1, 1, 1);
        let error = check_connection(&dead).unwrap_err().to_string();
        assert!(
            error.contains("127.0.0.1:1/devstoreaccount1 does not answer"),
            "{error}"
        );
        let server = GuideServer::for_test();
        let mut account = server.account.clone();
        account.key = vec![1; 64];
        let error = check_connection(&account).unwrap_err().to_string();
        assert!(
            error.contains("refuses the key of account devstoreaccount1"),
            "{error}"
        );
    }
}
