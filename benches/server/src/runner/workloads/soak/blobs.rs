//! The threads that write and read blobs, one for each kind of history: overwrites, snapshots,
//! appends, pages, copies.

use std::thread::Scope;

use lazurite_bench_common::Random;

use crate::client::{Client, Error};
use crate::runner::workloads::soak::ledger::Kind;
use crate::runner::workloads::soak::possible::Possible;
use crate::runner::workloads::soak::services::{CONTAINER, Services, on_blob, put_page};
use crate::runner::workloads::soak::state::Soak;

const UPLOADERS: u64 = 2;
const SNAPSHOTS_MAX: usize = 16;
/// Length at which an append blob is created anew.
const APPENDED_BYTES_MAX: usize = 64 << 10;
const PAGE: u64 = 512;
const PAGES: u64 = 64;
const STILL: &str = "still";
const STILL_BYTES: usize = 4096;

type Content = Option<Vec<u8>>;

/// Creates the container, and the blob that no thread writes.
pub(super) fn prepare(services: &Services) -> Result<(), Error> {
    let client = &services.client;
    client.create_container(CONTAINER)?;
    client.put_blob(CONTAINER, STILL, &[7; STILL_BYTES])
}

pub(super) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    soak: &'scope Soak,
    random: impl Fn(u64) -> Random,
) {
    for number in 0..UPLOADERS {
        let random = random(number);
        scope.spawn(move || overwrite(soak, number, random));
    }
    let kinds: [fn(&Soak, Random); 4] = [snapshots, appends, pages, copies];
    for (number, kind) in (UPLOADERS..).zip(kinds) {
        let random = random(number);
        scope.spawn(move || kind(soak, random));
    }
}

/// A blob that only one thread writes.
struct Subject<'a> {
    soak: &'a Soak,
    name: String,
    possible: Possible<Content>,
}

impl<'a> Subject<'a> {
    fn new(soak: &'a Soak, name: impl Into<String>) -> Subject<'a> {
        Subject {
            soak,
            name: name.into(),
            possible: Possible::new(None),
        }
    }

    /// Sends a write after which the blob has `content`. If the write fails, waits until the store
    /// is reopened and reads which content survived.
    fn write(
        &mut self,
        name: &'static str,
        content: Content,
        write: impl FnOnce(&Client, &str) -> Result<(), Error>,
    ) -> Option<()> {
        let outcome = self.soak.request(Kind::Write, name, |services| {
            write(&services.client, &self.name)
        });
        self.possible.wrote(outcome, content);
        if outcome.is_none() {
            self.soak.wait_for_store();
            self.check();
        }
        outcome
    }

    fn put(&mut self, body: Vec<u8>) -> Option<()> {
        let content = Some(body.clone());
        self.write("put blob", content, |client, name| {
            client.put_blob(CONTAINER, name, &body)
        })
    }

    /// Reads the blob and checks that one of the possible writes left this content.
    fn check(&mut self) {
        let found = self.soak.request(Kind::Read, "get blob", |services| {
            services.client.get_blob(CONTAINER, &self.name)
        });
        if let Some(found) = found
            && !self.possible.observed(&found)
        {
            let length = found.map_or(-1, |content| content.len() as i64);
            self.soak.ledger.wrong(format!(
                "{} of {length} bytes is none of what was written",
                self.name
            ));
        }
    }

    /// The content of the latest write; empty if the blob does not exist.
    fn content(&self) -> Vec<u8> {
        self.possible.latest().clone().unwrap_or_default()
    }
}

fn noise(random: &mut Random, bytes: usize) -> Vec<u8> {
    let mut body = vec![0; bytes];
    random.fill(&mut body);
    body
}

fn overwrite(soak: &Soak, number: u64, mut random: Random) {
    let mut blob = Subject::new(soak, format!("overwritten {number}"));
    while !soak.is_over() {
        let bytes = [100, 10_000, 300_000][random.below(3) as usize];
        blob.put(noise(&mut random, bytes));
        blob.check();
    }
}

/// Takes a snapshot after each overwrite, and checks that snapshots keep their content.
fn snapshots(soak: &Soak, mut random: Random) {
    let mut blob = Subject::new(soak, "with snapshots");
    let mut taken: Vec<(String, Content)> = Vec::new();
    while !soak.is_over() {
        let body = noise(&mut random, 2000);
        if blob.put(body).is_none() {
            continue;
        }
        let moment = soak.request(Kind::Write, "snapshot blob", |services| {
            let snapshot = on_blob("PUT", &blob.name).query("comp", "snapshot");
            let answer = services.client.send(snapshot)?;
            let time = answer.header("x-ms-snapshot").map(str::to_owned);
            time.ok_or_else(|| Error::Malformed("a snapshot has no time".into()))
        });
        match moment {
            Some(moment) => taken.push((moment, blob.possible.latest().clone())),
            None => soak.wait_for_store(),
        }
        blob.check();
        if let Some((moment, content)) = taken.get(random.below(taken.len() as u64) as usize) {
            check_snapshot(soak, &blob.name, moment, content);
        }
        if taken.len() > SNAPSHOTS_MAX {
            let (moment, _) = taken.remove(random.below(SNAPSHOTS_MAX as u64) as usize);
            let deleted = soak.request(Kind::Write, "delete snapshot", |services| {
                let delete = on_blob("DELETE", &blob.name).query("snapshot", &moment);
                services.client.send(delete).map(drop)
            });
            match deleted {
                Some(()) => check_snapshot(soak, &blob.name, &moment, &None),
                None => soak.wait_for_store(),
            }
        }
    }
}

fn check_snapshot(soak: &Soak, name: &str, moment: &str, expected: &Content) {
    let found = soak.request(Kind::Read, "get snapshot", |services| {
        match services
            .client
            .send(on_blob("GET", name).query("snapshot", moment))
        {
            Ok(answer) => Ok(Some(answer.body)),
            Err(error) if error.is("BlobNotFound") => Ok(None),
            Err(error) => Err(error),
        }
    });
    if found.is_some_and(|found| found != *expected) {
        soak.ledger.wrong(format!(
            "a snapshot of {name} is not as it was taken, or is back"
        ));
    }
}

fn appends(soak: &Soak, mut random: Random) {
    let mut blob = Subject::new(soak, "appended");
    while !soak.is_over() {
        let mut content = blob.content();
        if blob.possible.latest().is_none() || content.len() > APPENDED_BYTES_MAX {
            blob.write("put append blob", Some(Vec::new()), |client, name| {
                client.put_append_blob(CONTAINER, name)
            });
            continue;
        }
        let length = 1 + random.below(700) as usize;
        let block = noise(&mut random, length);
        content.extend_from_slice(&block);
        blob.write("append block", Some(content), |client, name| {
            client.append_block(CONTAINER, name, &block)
        });
        if random.below(4) == 0 {
            blob.check();
        }
    }
}

fn pages(soak: &Soak, mut random: Random) {
    let mut blob = Subject::new(soak, "of pages");
    let bytes = PAGE * PAGES;
    while !soak.is_over() {
        if blob.possible.latest().is_none() {
            let zeros = Some(vec![0; bytes as usize]);
            blob.write("put page blob", zeros, |client, name| {
                client.put_page_blob(CONTAINER, name, bytes as usize)
            });
            continue;
        }
        let first = random.below(PAGES);
        let count = 1 + random.below(4.min(PAGES - first));
        let range = first * PAGE..(first + count) * PAGE;
        let is_cleared = random.below(4) == 0;
        let part = if is_cleared {
            vec![0; (count * PAGE) as usize]
        } else {
            noise(&mut random, (count * PAGE) as usize)
        };
        let mut content = blob.content();
        content[range.start as usize..range.end as usize].copy_from_slice(&part);
        blob.write("put page", Some(content), |client, name| {
            let written = (!is_cleared).then_some(&part[..]);
            client.send(put_page(name, range, written)).map(drop)
        });
        if random.below(4) == 0 {
            blob.check();
        }
    }
}

/// Copies a blob to another, changes the copy, and copies it back. Each blob must stay as it was
/// when the other blob changes.
fn copies(soak: &Soak, mut random: Random) {
    let mut blobs = [
        Subject::new(soak, "copied to"),
        Subject::new(soak, "copied fro"),
    ];
    while !soak.is_over() {
        let [source, destination] = &mut blobs;
        source.put(noise(&mut random, 3000));
        source.check();
        if source.possible.latest().is_some() {
            let (name, content) = (source.name.clone(), source.possible.latest().clone());
            destination.write("copy blob", content, |client, destination| {
                client.copy_blob(CONTAINER, &name, destination)
            });
            destination.check();
        }
        blobs.swap(0, 1);
    }
}

/// Reads the blob that no thread writes.
pub(super) fn read_still(services: &Services) -> Result<(), Error> {
    match services.client.get_blob(CONTAINER, STILL)? {
        Some(content) if content == [7; STILL_BYTES] => Ok(()),
        _ => Err(Error::Malformed("the still blob has changed".into())),
    }
}
