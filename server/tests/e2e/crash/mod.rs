//! `kill -9` under load, again and again on one directory: acknowledged writes survive, and writes
//! under way are there whole or not at all. Some restarts are killed too, while they recover. Each
//! restart may be at another level of durability. A stop by signal under the same load loses
//! nothing either.
//!
//! `LAZURITE_KILLS` sets the number of kills in a run (2 by default), `LAZURITE_TEST_SEED` repeats
//! a run.
//!
//! Each writer is a thread with a connection of its own. It sets `pending` before a request and
//! moves it to its expected state once the answer arrives. So after a kill at most one request of
//! each writer is in doubt.

mod blobs;
mod paths;
mod queues;
mod tables;

use std::io::Result;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::http::{Connection, Response};
use crate::random::{Random, environment_number, test_seeds};
use crate::server::{Launch, Ports, Server, Service};

/// How long a stop may take while requests come in and other tests keep the processors busy.
/// Without other tests, a stop takes far less than the five seconds that are promised.
const STOPPING_TIME_MAX: Duration = Duration::from_secs(10);

/// One kind of work, with the state that its acknowledged requests imply.
trait Writer: Send {
    fn service(&self) -> Service;

    /// Creates the table, queue or container. Called once.
    fn prepare(&mut self, connection: &mut Connection) -> Result<()>;

    /// Sends one request. An error means that the server is gone.
    fn step(&mut self, connection: &mut Connection) -> Result<()>;

    /// Compares the store with the expected state, and settles whether the pending request counts.
    fn verify(&mut self, connection: &mut Connection) -> Result<()>;
}

#[test]
fn nothing_acknowledged_is_lost_to_kill_9() {
    let kills = environment_number("LAZURITE_KILLS", 2);
    for seed in test_seeds() {
        kill_again_and_again(Random(seed), kills, Writers::all(), &[]);
    }
}

#[test]
fn renames_and_deletions_of_directories_are_whole_after_kill_9() {
    let kills = environment_number("LAZURITE_KILLS", 2);
    for seed in test_seeds() {
        kill_again_and_again(Random(seed), kills, Writers::of_paths(), &["--hns"]);
    }
}

/// `flags` are those that the server needs for these writers.
fn kill_again_and_again(mut random: Random, kills: u64, mut writers: Writers, flags: &[&str]) {
    let location = TempDir::new().unwrap();
    let mut ports = Ports::default();
    for round in 0..=kills {
        let durability = random.one_of(&["--durability=process", "--durability=disk"]);
        let launch = || {
            let launch = Launch::on(location.path())
                .ports(ports)
                .argument(durability);
            flags
                .iter()
                .fold(launch, |launch, flag| launch.argument(flag))
        };
        if round > 0 && random.below(4) == 0 {
            launch().killed_after(random.below(6) as usize);
        }
        let server = launch().start();
        ports = server.ports;
        writers.verify(&server);
        if round < kills {
            let acknowledgements = 1000 + random.below(4000);
            writers.work_until(server, acknowledgements, Server::kill);
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_to_a_stop_under_load() {
    let location = TempDir::new().unwrap();
    let mut writers = Writers::all();
    let server = Launch::on(location.path()).start();
    writers.verify(&server);
    writers.work_until(server, 1000, |server| {
        let asked = Instant::now();
        let (status, _) = server.signal("TERM");
        assert_eq!(status.code(), Some(0));
        assert!(asked.elapsed() < STOPPING_TIME_MAX, "{:?}", asked.elapsed());
    });
    writers.verify(&Launch::on(location.path()).start());
}

/// One writer of each kind.
struct Writers {
    writers: Vec<Box<dyn Writer>>,
    prepared: bool,
}

impl Writers {
    fn all() -> Writers {
        let writers: Vec<Box<dyn Writer>> = vec![
            Box::new(tables::Inserts::default()),
            Box::new(tables::Transactions::default()),
            Box::new(tables::Counter::default()),
            Box::new(queues::Producer::default()),
            Box::new(queues::Consumer::default()),
            Box::new(blobs::Overwrites::default()),
            Box::new(blobs::Blocks::default()),
        ];
        Writers::of(writers)
    }

    fn of_paths() -> Writers {
        Writers::of(vec![
            Box::new(paths::Renames::default()),
            Box::new(paths::Flushes::default()),
            Box::new(paths::Deletions::default()),
        ])
    }

    fn of(writers: Vec<Box<dyn Writer>>) -> Writers {
        Writers {
            writers,
            prepared: false,
        }
    }

    /// Compares the store with the expected state. The first call creates the resources first.
    fn verify(&mut self, server: &Server) {
        for writer in &mut self.writers {
            let mut connection = Connection::open(server, writer.service()).unwrap();
            if !self.prepared {
                writer.prepare(&mut connection).unwrap();
            }
            writer.verify(&mut connection).unwrap();
        }
        self.prepared = true;
    }

    /// Runs all writers in parallel, and calls `end` after this number of acknowledgements.
    fn work_until(&mut self, server: Server, acknowledgements: u64, end: impl FnOnce(Server)) {
        let (sender, receiver) = channel();
        let mut threads = Vec::new();
        for writer in self.writers.drain(..) {
            let connection = Connection::open(&server, writer.service()).unwrap();
            let sender = sender.clone();
            threads.push(std::thread::spawn(move || {
                work(writer, connection, &sender)
            }));
        }
        drop(sender);
        for _ in 0..acknowledgements {
            let acknowledged = receiver.recv();
            acknowledged.expect("writers work until the server is gone");
        }
        end(server);
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        self.writers.extend(joined);
    }
}

fn work(
    mut writer: Box<dyn Writer>,
    mut connection: Connection,
    acknowledged: &Sender<()>,
) -> Box<dyn Writer> {
    while writer.step(&mut connection).is_ok() {
        // Fails once the kill is decided, because the receiver is gone.
        let _ = acknowledged.send(());
    }
    writer
}

/// The texts of one element in all messages of a response.
fn each(answer: &Response, element: &str) -> Vec<String> {
    let text = answer.text();
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    text.split(&open)
        .skip(1)
        .map(|rest| rest.split(&close).next().unwrap().to_string())
        .collect()
}
