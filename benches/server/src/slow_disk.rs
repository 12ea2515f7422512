//! Reads beside a disk with slow syncs, at the default durability: other resources must stay about as fast to read.
//!
//! Spans with slow syncs alternate with spans without, so that what else the machine does meets both alike. The writers go on in both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use lazurite::Lazurite;
use lazurite_base::wall_clock::SystemWallClock;
use lazurite_bench_common::{Outcome, number, thousands};
use lazurite_engine::fs::{FaultFs, Operation};
use lazurite_engine::{Config, Environment};
use serde_json::json;

use crate::client::{Account, Change, Client, Error, Write};
use crate::report::Report;

/// How long each sync takes in a slow span.
const SLOW_SYNC: Duration = Duration::from_millis(300);
/// The p99 beside slow syncs may be this multiple of the p99 without.
const SLOWDOWN_MAX: f64 = 2.0;
/// Spans of each kind.
const ROUNDS: u32 = 4;
/// Of each kind of request.
const THREADS: usize = 2;
/// Between two requests of a writer, so that the readers have processors to run on.
const WRITER_PAUSE: Duration = Duration::from_millis(2);

const TABLE: &str = "Slow";
const CONTAINER: &str = "slow";
const READ_QUEUE: &str = "read";
const WRITTEN_QUEUE: &str = "written";
const BODY: &[u8] = &[7; 1024];
const READS: [Request; 3] = [
    Request {
        name: "get entity",
        send: |client, _| {
            let found = client.get_entity(TABLE, "read", "0")?;
            found.map(drop).ok_or_else(|| missing("entity"))
        },
    },
    Request {
        name: "get blob",
        send: |client, _| {
            let content = client.get_blob_range(CONTAINER, "read", 0, BODY.len())?;
            (content == BODY)
                .then_some(())
                .ok_or_else(|| missing("blob"))
        },
    },
    Request {
        name: "peek messages",
        send: |client, _| {
            let texts = client.peek_messages(READ_QUEUE, 1)?;
            (texts == ["read"])
                .then_some(())
                .ok_or_else(|| missing("message"))
        },
    },
];
const WRITES: [Request; 3] = [
    Request {
        name: "insert or replace entity",
        send: |client, number| {
            let row = format!("{}", number % 1000);
            let entity = json!({ "PartitionKey": "written", "RowKey": row, "Number": number });
            client.write_entity(TABLE, &Change::new(Write::Replace, entity))
        },
    },
    Request {
        name: "put blob",
        send: |client, number| {
            client.put_blob(CONTAINER, &format!("written {}", number % 1000), BODY)
        },
    },
    Request {
        name: "put message",
        send: |client, _| client.put_message(WRITTEN_QUEUE, "written").map(drop),
    },
];

/// A request that threads repeat. Writes are numbered.
struct Request {
    name: &'static str,
    send: fn(&Client, usize) -> Result<(), Error>,
}

#[derive(clap::Args)]
pub(crate) struct SlowDiskArgs {
    /// How long, in equal spans with slow syncs and without
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
}

/// Latencies of one request in nanoseconds: without and with slow syncs.
type Latencies = [Histogram<u64>; 2];

/// The state that all threads share.
struct Bench {
    client: Client,
    is_slow: AtomicBool,
    is_over: AtomicBool,
    writes: AtomicUsize,
}

/// Measures, and compares. An error is the verdict of a run in which reads were too slow.
pub(crate) fn run(args: &SlowDiskArgs) -> Outcome<Report> {
    let measured = measure(Duration::from_secs(args.seconds))?;
    let mut report = Report::default();
    match judge(&measured, &mut report) {
        Ok(verdict) => {
            report.remark(verdict);
            Ok(report)
        }
        Err(verdict) => {
            report.print();
            Err(verdict.into())
        }
    }
}

/// The latencies of all requests, reads first.
fn measure(time: Duration) -> Outcome<Vec<(&'static str, Latencies)>> {
    let scratch = tempfile::tempdir()?;
    let durability = Config::default().durability;
    let system = Environment::system(durability);
    let fault = FaultFs::new(system.fs.clone());
    let environment = Environment {
        fs: Arc::new(fault.clone()),
        ..system
    };
    let clock = Arc::new(SystemWallClock::default());
    let server = Lazurite::at(scratch.path().join("data")).start_on(environment, clock)?;
    let bench = Bench {
        client: Client::new(Account::parse(&server.connection_string())?),
        is_slow: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        writes: AtomicUsize::new(0),
    };
    prepare(&bench.client)?;
    let measured = thread::scope(|scope| {
        let start = |request: &'static Request, pause: Duration| {
            let bench = &bench;
            let repeat = move || bench.repeat(request, pause);
            let threads = (0..THREADS).map(|_| scope.spawn(repeat));
            (request.name, threads.collect::<Vec<_>>())
        };
        let reads = READS.iter().map(|read| start(read, Duration::ZERO));
        let writes = WRITES.iter().map(|write| start(write, WRITER_PAUSE));
        let started: Vec<_> = reads.chain(writes).collect();
        bench.alternate(&fault, time);
        let ended = started.into_iter().map(|(name, threads)| {
            let parts = threads.into_iter().map(|thread| {
                let ended = thread.join().expect("no request panics");
                ended.map_err(|error| format!("{name}: {error}"))
            });
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            Ok((name, merge(&parts)))
        });
        ended.collect::<Result<Vec<_>, String>>()
    })?;
    server.stop()?;
    Ok(measured)
}

fn prepare(client: &Client) -> Result<(), Error> {
    client.create_table(TABLE)?;
    let entity = json!({ "PartitionKey": "read", "RowKey": "0" });
    client.write_entity(TABLE, &Change::new(Write::Insert, entity))?;
    client.create_container(CONTAINER)?;
    client.put_blob(CONTAINER, "read", BODY)?;
    client.create_queue(READ_QUEUE)?;
    client.put_message(READ_QUEUE, "read")?;
    client.create_queue(WRITTEN_QUEUE)
}

impl Bench {
    /// Sends a request until it is over. A request that saw the disk change is left out.
    fn repeat(&self, request: &Request, pause: Duration) -> Result<Latencies, Error> {
        let mut latencies = [(); 2].map(|()| Histogram::new(3).expect("three digits"));
        while !self.is_over.load(Ordering::Relaxed) {
            let is_slow = self.is_slow.load(Ordering::Relaxed);
            let sent = Instant::now();
            (request.send)(&self.client, self.writes.fetch_add(1, Ordering::Relaxed))?;
            let took = sent.elapsed().as_nanos() as u64;
            if is_slow == self.is_slow.load(Ordering::Relaxed) {
                latencies[usize::from(is_slow)]
                    .record(took)
                    .expect("the histogram grows");
            }
            if !pause.is_zero() {
                thread::sleep(pause);
            }
        }
        Ok(latencies)
    }

    /// Makes syncs slow in every other span, and ends the threads.
    fn alternate(&self, fault: &FaultFs, time: Duration) {
        for span in 0..2 * ROUNDS {
            let is_slow = span % 2 == 1;
            fault.slow(is_slow.then_some((Operation::Sync, SLOW_SYNC)));
            self.is_slow.store(is_slow, Ordering::Relaxed);
            thread::sleep(time / (2 * ROUNDS));
        }
        fault.slow(None);
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn missing(what: &str) -> Error {
    Error::Malformed(format!(
        "the {what} that no writer changes is not as it was"
    ))
}

fn merge(parts: &[Latencies]) -> Latencies {
    let mut all = [(); 2].map(|()| Histogram::new(3).expect("three digits"));
    for part in parts {
        for (all, one) in all.iter_mut().zip(part) {
            all.add(one).expect("the histogram grows");
        }
    }
    all
}

/// Adds the figures, and ends in one sentence: `Err` if a read became more than twice as slow.
fn judge(measured: &[(&str, Latencies)], report: &mut Report) -> Result<String, String> {
    report.remark(format!(
        "{:26} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "request", "count", "p50 ms", "p99 ms", "slow: p50", "p99 ms", "most ms", "p99"
    ));
    let mut worst = ("", 0.0);
    for (name, [usual, slow]) in measured {
        let millis = |nanos: u64| number(nanos as f64 / 1e6);
        let p99 = |latencies: &Histogram<u64>| latencies.value_at_quantile(0.99);
        let ratio = p99(slow) as f64 / p99(usual).max(1) as f64;
        report.remark(format!(
            "{name:26} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}x",
            thousands(usual.len() + slow.len()),
            millis(usual.value_at_quantile(0.5)),
            millis(p99(usual)),
            millis(slow.value_at_quantile(0.5)),
            millis(p99(slow)),
            millis(slow.max()),
            number(ratio)
        ));
        if READS.iter().any(|read| read.name == *name) && ratio > worst.1 {
            worst = (name, ratio);
        }
    }
    let (name, ratio) = (worst.0, number(worst.1));
    if worst.1 <= SLOWDOWN_MAX {
        Ok(format!(
            "slow-disk passed: no read's p99 exceeds {ratio}x that without slow syncs ({name})"
        ))
    } else {
        Err(format!(
            "slow-disk failed: with slow syncs the p99 of {name} is {ratio}x that without, more than {SLOWDOWN_MAX}x"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(usual: u64, slow: u64) -> Latencies {
        [usual, slow].map(|nanos| {
            let mut latencies = Histogram::new(3).unwrap();
            latencies.record(nanos).unwrap();
            latencies
        })
    }

    #[test]
    fn read_whose_p99_more_than_doubles_fails_the_verdict_and_a_write_does_not() {
        let judge = |read, write| {
            let measured = [("get blob", read), ("put blob", write)];
            judge(&measured, &mut Report::default())
        };
        let passed = judge(latencies(1000, 1900), latencies(1000, 9000)).unwrap();
        assert!(passed.contains("1.90x"), "{passed}");
        let failed = judge(latencies(1000, 2100), latencies(1000, 1000)).unwrap_err();
        assert!(failed.contains("the p99 of get blob is 2.1"), "{failed}");
    }

    #[test]
    fn short_run_measures_each_request_with_and_without_slow_syncs() {
        let measured = measure(Duration::from_secs(4)).unwrap();
        assert_eq!(measured.len(), READS.len() + WRITES.len());
        for (name, [usual, slow]) in measured {
            assert!(!usual.is_empty() && !slow.is_empty(), "{name}");
        }
    }
}
