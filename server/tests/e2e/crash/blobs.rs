//! The work on blobs: overwriting whole blobs, and staging and committing blocks.

use std::collections::BTreeMap;
use std::io::Result;

use super::{Writer, each};
use crate::http::{Connection, Request};
use crate::random::Random;
use crate::server::Service;

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

/// Content that differs for each version, of up to 300,000 bytes.
fn content(version: u64) -> Vec<u8> {
    let mut random = Random(version);
    let length = 1 + random.below(300_000) as usize;
    version
        .to_be_bytes()
        .into_iter()
        .cycle()
        .take(length)
        .collect()
}

/// Overwrites five blobs in turn.
#[derive(Default)]
pub(super) struct Overwrites {
    acknowledged: BTreeMap<u64, u64>,
    last: u64,
    pending: bool,
}

impl Writer for Overwrites {
    fn service(&self) -> Service {
        Service::Blob
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection
            .send(&blob("PUT", "/overwrites?restype=container"))?
            .is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        self.last += 1;
        self.pending = true;
        let put = blob("PUT", &format!("/overwrites/{}", self.last % 5))
            .header("x-ms-blob-type", "BlockBlob");
        connection.send(&put.body(content(self.last)))?.is(201);
        self.acknowledged.insert(self.last % 5, self.last);
        self.pending = false;
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        for name in 0..5 {
            let found = connection.send(&blob("GET", &format!("/overwrites/{name}")))?;
            let is = |version: u64| found.status == 200 && found.body == content(version);
            let in_doubt = self.pending && self.last % 5 == name;
            let right = match self.acknowledged.get(&name) {
                Some(version) => is(*version),
                None => found.status == 404,
            };
            assert!(
                right || in_doubt && is(self.last),
                "{name}: {} bytes, {}",
                found.body.len(),
                found.status
            );
            if !right {
                self.acknowledged.insert(name, self.last);
            }
        }
        self.pending = false;
        Ok(())
    }
}

/// Repeatedly stages three blocks of one blob and commits them.
#[derive(Default)]
pub(super) struct Blocks {
    /// Number of acknowledged requests: of each four, three stage a block and one commits.
    acknowledged: u64,
    pending: bool,
}

impl Blocks {
    /// A base64 text of eight digits, so that each id has six bytes.
    fn id(number: u64) -> String {
        format!("{:08}", number % 4)
    }

    fn committed(generation: u64) -> Vec<u8> {
        (0..3)
            .flat_map(|number| content(4 * generation + number))
            .collect()
    }
}

impl Writer for Blocks {
    fn service(&self) -> Service {
        Service::Blob
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection
            .send(&blob("PUT", "/blocks?restype=container"))?
            .is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        let number = self.acknowledged;
        let request = if number % 4 < 3 {
            let target = format!("/blocks/b?comp=block&blockid={}", Blocks::id(number));
            blob("PUT", &target).body(content(number))
        } else {
            let ids: String = (0..3)
                .map(|block| format!("<Uncommitted>{}</Uncommitted>", Blocks::id(block)))
                .collect();
            blob("PUT", "/blocks/b?comp=blocklist").body(format!("<BlockList>{ids}</BlockList>"))
        };
        self.pending = true;
        connection.send(&request)?.is(201);
        (self.acknowledged, self.pending) = (number + 1, false);
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let found = connection.send(&blob("GET", "/blocks/b"))?;
        let is = |requests: u64| match requests / 4 {
            0 => found.status == 404,
            commits => found.status == 200 && found.body == Blocks::committed(commits - 1),
        };
        let next = self.acknowledged + 1;
        let committed_in_doubt = self.pending && next.is_multiple_of(4) && is(next);
        assert!(
            is(self.acknowledged) || committed_in_doubt,
            "{} bytes, {}",
            found.body.len(),
            found.status
        );
        if committed_in_doubt {
            self.acknowledged = next;
        }
        if self.acknowledged > 0 {
            let list = connection.send(&blob(
                "GET",
                "/blocks/b?comp=blocklist&blocklisttype=uncommitted",
            ))?;
            let staged = each(list.is(200), "Name");
            for number in 0..self.acknowledged % 4 {
                assert!(
                    staged.contains(&Blocks::id(number)),
                    "block {number} is missing from {staged:?}"
                );
            }
        }
        self.pending = false;
        Ok(())
    }
}
