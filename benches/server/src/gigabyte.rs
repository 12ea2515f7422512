//! One blob of a gibibyte: up in blocks and as one stream, down each time, compared by SHA-256, with the server's memory watched.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sha2::{Digest, Sha256};

use lazurite_bench_common::{Outcome, Random};

use crate::client::{Account, Client, Error};
use crate::report::{Phase, Report};
use crate::server::Server;
use crate::target::Target;

/// The server's memory must stay below this for blobs of any size.
const PEAK_GOAL_MB: f64 = 150.0;
const MIB: u64 = 1024 * 1024;
const CONTAINER: &str = "gigabyte";

/// Noise of a given length: the same bytes each time, block by block, so that any thread can make any block.
struct Content {
    blocks: usize,
    block_bytes: usize,
    bytes: u64,
}

impl Content {
    fn new(args: &GigabyteArgs) -> Content {
        let (bytes, block_bytes) = (args.mib * MIB, args.block_mib * MIB);
        Content {
            blocks: bytes.div_ceil(block_bytes) as usize,
            block_bytes: block_bytes as usize,
            bytes,
        }
    }

    fn block(&self, index: usize) -> Vec<u8> {
        let start = index as u64 * self.block_bytes as u64;
        let length = (self.bytes - start).min(self.block_bytes as u64);
        let mut block = vec![0; length as usize];
        Random::new(index as u64).fill(&mut block);
        block
    }

    fn hash(&self) -> Vec<u8> {
        let mut hash = Sha256::new();
        (0..self.blocks).for_each(|index| hash.update(self.block(index)));
        hash.finalize().to_vec()
    }
}

/// Reads the content from front to back.
struct ContentReader<'a> {
    content: &'a Content,
    next: usize,
    block: Vec<u8>,
    read: usize,
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.read == self.block.len() && self.next < self.content.blocks {
            self.block = self.content.block(self.next);
            (self.next, self.read) = (self.next + 1, 0);
        }
        let count = (&self.block[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

#[derive(clap::Args)]
pub(crate) struct GigabyteArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Size of the blob in MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=4000))]
    pub(crate) mib: u64,
    /// Size of one block in MiB
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) block_mib: u64,
    /// Connections that upload blocks at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) connections: u16,
}

/// Runs the round trips.
pub(crate) fn run(args: &GigabyteArgs) -> Outcome<Report> {
    let scratch = tempfile::tempdir()?;
    let data = args
        .target
        .data
        .clone()
        .unwrap_or_else(|| scratch.path().join("data"));
    let server = args
        .target
        .spawn
        .as_deref()
        .map(|binary| Server::start(binary, &data))
        .transpose()?;
    let account = match &server {
        Some(server) => server.account(),
        None => Account::parse(&args.target.connection_string)?,
    };
    let client = Client::new(account);
    let content = Content::new(args);
    let hash = content.hash();
    let mut report = Report::default();
    create_container(&client)?;
    let phase = Phase::start("blocks up", "blocks", content.blocks);
    put_blocks(&client, &phase, &content, args.connections.into())?;
    report.finish(phase);
    get(&client, &mut report, "blocks down", &hash, &content)?;
    let phase = Phase::start("stream up", "blobs", 1);
    let mut reader = ContentReader {
        content: &content,
        next: 0,
        block: Vec::new(),
        read: 0,
    };
    phase.time(|| client.put_blob_from(CONTAINER, "stream", content.bytes, &mut reader))?;
    phase.add_bytes(content.bytes);
    phase.add(1);
    report.finish(phase);
    get(&client, &mut report, "stream down", &hash, &content)?;
    client.delete_container(CONTAINER)?;
    if let Some(server) = &server {
        report_memory(&mut report, server);
    }
    Ok(report)
}

fn create_container(client: &Client) -> Result<(), Error> {
    match client.create_container(CONTAINER) {
        Err(error) if error.is("ContainerAlreadyExists") => Ok(()),
        answer => answer,
    }
}

fn put_blocks(
    client: &Client,
    phase: &Phase,
    content: &Content,
    connections: usize,
) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let put = || -> Result<(), Error> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= content.blocks {
                return Ok(());
            }
            let block = content.block(index);
            phase.time(|| client.put_block(CONTAINER, "blocks", index, &block))?;
            phase.add_bytes(block.len() as u64);
            phase.add(1);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(put)).collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().expect("an uploader does not panic"));
        results
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Result<(), Error>>()
    })?;
    client.put_block_list(CONTAINER, "blocks", content.blocks)
}

/// Downloads the blob that the phase of that name uploaded, and compares its length and hash.
fn get(
    client: &Client,
    report: &mut Report,
    name: &'static str,
    hash: &[u8],
    content: &Content,
) -> Outcome<()> {
    let blob = name.split(' ').next().unwrap_or(name);
    let phase = Phase::start(name, "blobs", 1);
    let (found, bytes) = phase.time(|| -> Outcome<_> {
        let mut body = client
            .get_blob(CONTAINER, blob)?
            .ok_or("the blob is missing")?;
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        let mut buffer = vec![0; 256 * 1024];
        loop {
            match body.read(&mut buffer)? {
                0 => return Ok((hash.finalize().to_vec(), bytes)),
                count => {
                    hash.update(&buffer[..count]);
                    bytes += count as u64;
                }
            }
        }
    })?;
    phase.add_bytes(bytes);
    phase.add(1);
    phase.check(bytes == content.bytes, || {
        format!("{bytes} bytes came back, not {}", content.bytes)
    });
    phase.check(found == hash, || "other bytes came back".into());
    report.finish(phase);
    Ok(())
}

fn report_memory(report: &mut Report, server: &Server) {
    let memory = server.memory();
    let megabytes = |kib: u64| kib as f64 * 1024.0 / 1e6;
    let peak = megabytes(memory.peak_kib);
    let verdict = if peak <= PEAK_GOAL_MB {
        "met"
    } else {
        "missed"
    };
    report.remark(format!(
        "server memory: {peak:.1} MB at its peak, {:.1} MB at the end (goal: at most {PEAK_GOAL_MB} MB, {verdict})",
        megabytes(memory.resident_kib)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_blocks_in_order() {
        let content = Content {
            blocks: 3,
            block_bytes: 10,
            bytes: 25,
        };
        let mut streamed = Vec::new();
        let mut reader = ContentReader {
            content: &content,
            next: 0,
            block: Vec::new(),
            read: 0,
        };
        reader.read_to_end(&mut streamed).unwrap();
        assert_eq!(streamed.len(), 25);
        assert_eq!(streamed[20..], content.block(2));
        assert_eq!(Sha256::digest(&streamed).to_vec(), content.hash());
    }
}
