//! Runs the requested patterns, and shows the results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lazurite_bench_common::report::write;
use lazurite_bench_common::{OldRun, Outcome, measurements};
use lazurite_cost::Prices;

use crate::client::{Account, Client, Error, Service};
use crate::guide::args::{GuideArgs, Limits};
use crate::guide::azurite;
use crate::guide::docs;
use crate::guide::html;
use crate::guide::limits;
use crate::guide::measuring::{Runs, chosen, run_patterns};
use crate::guide::prices;
use crate::guide::report::Report;
use crate::guide::server::GuideServer;
use crate::guide::terminal;

/// Runs the requested patterns. Prints the results up to an error.
pub(crate) fn run(args: &GuideArgs) -> Outcome<usize> {
    if args.print_prices {
        println!("{}", Prices::default().to_json());
        return Ok(0);
    }
    let prices = match &args.prices {
        Some(path) => prices::read(path)?,
        None => Prices::default(),
    };
    if args.azurite {
        crate::azurite::install()?;
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    watch_interrupts(interrupted.clone())?;
    let server = GuideServer::start(&args.server)?;
    check_connection(&server.account)?;
    let old = args.compare.as_deref().map(OldRun::read).transpose()?;
    let mut report = Report::new(server.description.clone(), prices, args.scale, args.seed);
    let watch = server.watch_machine();
    let runs = Runs::fitted(args.runs);
    let ended = run_patterns(args, &runs, &server, &interrupted, &mut report.findings);
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
    let is_limited = args.limits == Limits::Azure && args.server.is_ours();
    if is_limited && report.error.is_none() {
        let limited = limits::run(args, &interrupted)?;
        let error = limited.error();
        report.error = error.map(|error| format!("under Azure's limits: {error}"));
        report.limited = Some(limited);
    }
    if args.azurite && report.error.is_none() {
        report.azurite = Some(azurite::run(args, &interrupted, &report.findings)?);
    }
    terminal::print(&report);
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

/// Writes JSON, page and figures of documentation, as far as they are requested. If one of the
/// three cannot be written, the other two are written nevertheless.
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

/// Ends the run before its next request at the first Ctrl-C.
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

/// Checks that the endpoint answers and accepts the key. The error is a sentence.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        let error = run(&GuideArgs::of(words)).unwrap_err();
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
        let parse = |flag: &str| GuideArgs::of(words.into_iter().chain([flag]));
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
    fn report_says_when_each_pattern_pays_and_links_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        let [json, html] = ["guide.json", "guide.html"].map(|name| scratch.path().join(name));
        let [json_flag, html_flag] = [("json", &json), ("html", &html)]
            .map(|(flag, path)| format!("--{flag}={}", path.display()));
        let words = [
            "guide",
            "--runs=1",
            "--scale=0.05",
            "--limits=none",
            "--only=inter-partition-index,projection",
            &json_flag,
            &html_flag,
        ];
        run(&GuideArgs::of(words)).unwrap();
        let written: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        // A write takes 6 requests: a message, the original, the copy between two reads, and the
        // end of the message. A table and a queue are created once.
        let index = &written["patterns"][0];
        let writes = index["writes"].as_u64().unwrap();
        assert_eq!(index["designs"][2]["write_requests"], 6 * writes + 2);
        // Without the queue, the original and the copy.
        assert_eq!(index["designs"][1]["write_requests"], 2 * writes + 1);
        let sentence = |at: usize| written["patterns"][at]["break_even"].as_str().unwrap();
        // A write costs 6 requests instead of 1, two of which go to a queue and cost more. A scan
        // costs 1,000 pages instead of a request. The tests of `lazurite-cost` compute crossings by
        // hand.
        let begin = "With 10,000,000 items, the advised design pays from 1 question for each ";
        assert!(sentence(0).starts_with(begin), "{}", sentence(0));
        for part in ["no reason to choose", "fewer bytes received"] {
            assert!(sentence(1).contains(part), "{}", sentence(1));
        }
        let page = fs::read_to_string(html).unwrap();
        for text in [
            "<a href=\"#inter-partition-index\">",
            "<section id=\"inter-partition-index\"",
            sentence(0),
            "id=\"model\">{",
            " USD</td>",
        ] {
            assert!(page.contains(text), "no {text}");
        }
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
