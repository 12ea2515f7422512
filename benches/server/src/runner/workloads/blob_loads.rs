//! Loads on blobs: the requests, and the checks of their responses.

use std::sync::Arc;

use base64::prelude::*;

use lazurite_bench_common::Random;

use crate::client::{Account, Answer, Outgoing, Request, Service, Template};
use crate::load::{Expected, Load, any, repeated};
pub(super) use crate::runner::peers::RESOURCE as CONTAINER;
use crate::runner::plan::Scene;

/// Number of blocks of a blob that is put in blocks.
const BLOCKS: usize = 8;
/// Number of appends after which a new blob is begun. The limit is 50,000. Source: Append Block.
const APPENDS_MAX: u64 = 40_000;

/// Random content, which cannot be compressed.
pub(super) fn noise(bytes: usize) -> Arc<Vec<u8>> {
    let mut content = vec![0; bytes];
    Random::new(2).fill(&mut content);
    Arc::new(content)
}

/// The names of blobs, numbered from 0 to `count`, exclusive.
#[derive(Clone, Copy)]
pub(super) struct Names {
    /// Distinguishes the names of different data sets.
    data: u64,
    pub(super) count: u64,
}

impl Names {
    pub(super) fn new(data: u64, count: u64) -> Names {
        Names { data, count }
    }

    pub(super) fn name(&self, number: u64) -> String {
        format!("{}/b{number:09}", self.directory())
    }

    /// The directory of the blobs.
    pub(super) fn directory(&self) -> String {
        format!("d{:04}", self.data)
    }
}

/// A request for the blob whose name is value 0, with the headers that SDKs send.
fn request(method: &'static str) -> Request<'static> {
    let path = format!("/{CONTAINER}/{}", Template::mark(0));
    Request::new(Service::Blob, method, path)
        .header("accept", "application/xml")
        .header("user-agent", "lazurite-bench")
}

/// Puts the blobs one after another.
pub(super) fn put(account: &Account, names: Names, content: &Arc<Vec<u8>>) -> impl Load + use<> {
    put_numbers(account, names, 0..names.count, content)
}

fn put_numbers<I: Iterator<Item = u64>>(
    account: &Account,
    names: Names,
    mut numbers: I,
    content: &Arc<Vec<u8>>,
) -> impl Load + use<I> {
    let put = request("PUT")
        .header("content-type", "application/octet-stream")
        .header("x-ms-blob-type", "BlockBlob");
    let (mut template, content) = (Template::new(account, put), content.clone());
    let next = move |out: &mut Outgoing| {
        let name = names.name(numbers.next()?);
        template.write_long(out, &[&name], &content, 0..content.len());
        Some(Expected::status(201))
    };
    repeated(next, any)
}

/// Gets random blobs.
pub(super) fn get(scene: &Scene, names: Names, bytes: usize) -> impl Load + use<> {
    let mut template = Template::new(scene.account, request("GET"));
    let mut random = Random::new(scene.serial);
    let next = move |out: &mut Outgoing| {
        let name = names.name(random.below(names.count));
        template.write(out, &[&name], b"");
        Some(Expected::status(200))
    };
    repeated(next, has_length(bytes))
}

/// Gets random ranges of one blob.
pub(super) fn get_range(scene: &Scene, blob_bytes: usize, bytes: usize) -> impl Load + use<> {
    let range = format!("bytes={}-{}", Template::mark(1), Template::mark(2));
    let mut template = Template::new(scene.account, request("GET").header("x-ms-range", range));
    let mut random = Random::new(scene.serial);
    let (name, length) = (Names::new(0, 1).name(0), bytes as u64);
    let next = move |out: &mut Outgoing| {
        let first = random.below(blob_bytes as u64 - length + 1);
        let [from, to] = [first, first + length - 1].map(|at| at.to_string());
        template.write(out, &[&name, &from, &to], b"");
        Some(Expected::status(206))
    };
    repeated(next, has_length(bytes))
}

/// A check that the body has this length.
fn has_length(bytes: usize) -> impl FnMut(&Answer) -> Result<(), String> {
    move |answer| {
        if answer.body_bytes == bytes {
            Ok(())
        } else {
            Err(format!("{} bytes came, not {bytes}", answer.body_bytes))
        }
    }
}

/// Puts blobs of eight blocks. On each connection, puts one block after another and then the list.
pub(super) struct Blocks {
    block: Template,
    list: Template,
    content: Arc<Vec<u8>>,
    names: Names,
    /// By connection: the number of its current blob, and its next block.
    state: Vec<(u64, usize)>,
    next: u64,
}

impl Blocks {
    pub(super) fn new(scene: &Scene, content: &Arc<Vec<u8>>) -> Blocks {
        let block = request("PUT")
            .query("comp", "block")
            .query("blockid", Template::mark(1))
            .header("content-type", "application/octet-stream");
        let list = request("PUT")
            .query("comp", "blocklist")
            .header("content-type", "application/xml");
        Blocks {
            block: Template::new(scene.account, block),
            list: Template::new(scene.account, list),
            content: content.clone(),
            names: Names::new(scene.serial, u64::MAX),
            state: (0..scene.connections as u64).map(|n| (n, 0)).collect(),
            next: scene.connections as u64,
        }
    }
}

/// The body of Put Block List for the blocks from 0 to `count`, exclusive.
fn list_body(count: usize) -> String {
    let items = (0..count).map(|index| format!("<Latest>{}</Latest>", block_id(index)));
    let items: String = items.collect();
    format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{items}</BlockList>")
}

/// All ids of a blob must have the same length. Source: Put Block, "URI parameters".
fn block_id(index: usize) -> String {
    BASE64_STANDARD.encode(format!("{index:08}"))
}

impl Load for Blocks {
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected> {
        let (number, block) = &mut self.state[connection];
        let name = self.names.name(*number);
        if *block < BLOCKS {
            let whole = 0..self.content.len();
            let values = [&*name, &*block_id(*block)];
            self.block.write_long(out, &values, &self.content, whole);
            *block += 1;
            return Some(Expected::status(201));
        }
        self.list.write(out, &[&name], list_body(BLOCKS).as_bytes());
        (*number, *block) = (self.next, 0);
        self.next += 1;
        Some(Expected::status(201).kind(1))
    }
}

/// Creates an append blob on each connection, and appends to it.
pub(super) struct Append {
    create: Template,
    append: Template,
    content: Arc<Vec<u8>>,
    names: Names,
    /// By connection: the number of its blob, and of the appends left; 0 before the first blob.
    state: Vec<(u64, u64)>,
    next: u64,
}

impl Append {
    pub(super) fn new(scene: &Scene, content: &Arc<Vec<u8>>) -> Append {
        let create = request("PUT").header("x-ms-blob-type", "AppendBlob");
        let append = request("PUT")
            .query("comp", "appendblock")
            .header("content-type", "application/octet-stream");
        Append {
            create: Template::new(scene.account, create),
            append: Template::new(scene.account, append),
            content: content.clone(),
            names: Names::new(scene.serial, u64::MAX),
            state: vec![(0, 0); scene.connections],
            next: 0,
        }
    }
}

impl Load for Append {
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected> {
        let (number, left) = &mut self.state[connection];
        if *left == 0 {
            (*number, *left) = (self.next, APPENDS_MAX);
            self.next += 1;
            self.create.write(out, &[&self.names.name(*number)], b"");
            return Some(Expected::status(201).kind(1));
        }
        *left -= 1;
        let name = self.names.name(*number);
        let whole = 0..self.content.len();
        self.append.write_long(out, &[&name], &self.content, whole);
        Some(Expected::status(201))
    }
}

/// The kind of small parts in which a blob is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Appends,
    Blocks,
    Pages,
}

/// Pages are written in the order of the multiples of this prime, so that neighbours are written at
/// different times.
const PAGE_STRIDE: usize = 7919;

/// Writes one blob in parts of one size, on one connection.
pub(super) struct InParts {
    kind: PartKind,
    create: Template,
    part: Template,
    list: Template,
    name: String,
    content: Arc<Vec<u8>>,
    part_bytes: usize,
    /// Requests so far. The first creates the blob, the last writes the block list, where there is
    /// one.
    sent: usize,
}

impl InParts {
    pub(super) fn new(
        account: &Account,
        kind: PartKind,
        names: Names,
        content: &Arc<Vec<u8>>,
        part_bytes: usize,
    ) -> InParts {
        let put = |comp| {
            request("PUT")
                .query("comp", comp)
                .header("content-type", "application/octet-stream")
        };
        let part = match kind {
            PartKind::Appends => put("appendblock"),
            PartKind::Blocks => put("block").query("blockid", Template::mark(1)),
            PartKind::Pages => put_page(),
        };
        let create = match kind {
            PartKind::Pages => create_page_blob(content.len()),
            _ => request("PUT").header("x-ms-blob-type", "AppendBlob"),
        };
        InParts {
            kind,
            create: Template::new(account, create),
            part: Template::new(account, part),
            list: Template::new(account, put("blocklist")),
            name: names.name(0),
            content: content.clone(),
            part_bytes,
            sent: 0,
        }
    }
}

impl Load for InParts {
    fn next(&mut self, _connection: usize, out: &mut Outgoing) -> Option<Expected> {
        let count = self.content.len() / self.part_bytes;
        let is_list = self.kind == PartKind::Blocks;
        // Block blobs are created by their list, so begin with the parts.
        let sent = self.sent.max(usize::from(is_list));
        self.sent = sent + 1;
        match sent.checked_sub(1) {
            None => self.create.write(out, &[&self.name], b""),
            Some(index) if index < count => {
                let place = match self.kind {
                    PartKind::Pages => index * PAGE_STRIDE % count,
                    _ => index,
                };
                let range = place * self.part_bytes..(place + 1) * self.part_bytes;
                let second = match self.kind {
                    PartKind::Blocks => block_id(index),
                    _ => range.start.to_string(),
                };
                let last = (range.end - 1).to_string();
                let values = [&*self.name, &second, &last];
                self.part.write_long(out, &values, &self.content, range);
            }
            Some(index) if index == count && is_list => {
                let body = list_body(count);
                self.list.write(out, &[&self.name], body.as_bytes());
            }
            Some(_) => return None,
        }
        Some(Expected::status(201))
    }
}

fn create_page_blob(bytes: usize) -> Request<'static> {
    request("PUT")
        .header("x-ms-blob-type", "PageBlob")
        .header("x-ms-blob-content-length", bytes)
}

/// Put Page of the bytes from value 1 to value 2, inclusive.
fn put_page() -> Request<'static> {
    let range = format!("bytes={}-{}", Template::mark(1), Template::mark(2));
    request("PUT")
        .query("comp", "page")
        .header("content-type", "application/octet-stream")
        .header("x-ms-page-write", "update")
        .header("x-ms-range", range)
}

/// Writes pages at random to one blob. With a reader, the last connection gets another blob
/// meanwhile.
pub(super) struct WritePages {
    write: Template,
    random: Random,
    name: String,
    content: Arc<Vec<u8>>,
    blob_bytes: u64,
    /// The reader's connection and load.
    reader: Option<(usize, Box<dyn Load>)>,
}

impl WritePages {
    pub(super) fn new(
        scene: &Scene,
        names: Names,
        blob_bytes: usize,
        content: &Arc<Vec<u8>>,
        read: Option<(Names, usize)>,
    ) -> WritePages {
        let reader =
            read.map(|(names, bytes)| -> Box<dyn Load> { Box::new(get(scene, names, bytes)) });
        WritePages {
            write: Template::new(scene.account, put_page()),
            random: Random::new(scene.serial),
            name: names.name(0),
            content: content.clone(),
            blob_bytes: blob_bytes as u64,
            reader: reader.map(|get| (scene.connections - 1, get)),
        }
    }
}

impl Load for WritePages {
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected> {
        if let Some((reader, get)) = &mut self.reader
            && *reader == connection
        {
            return get.next(connection, out).map(|expected| expected.kind(1));
        }
        let length = self.content.len() as u64;
        let first = self.random.below(self.blob_bytes / length) * length;
        let [from, to] = [first, first + length - 1].map(|at| at.to_string());
        let whole = 0..self.content.len();
        let values = [&*self.name, &from, &to];
        self.write.write_long(out, &values, &self.content, whole);
        Some(Expected::status(201))
    }

    fn answered(&mut self, connection: usize, answer: &Answer) -> Result<(), String> {
        match &mut self.reader {
            Some((reader, get)) if *reader == connection => get.answered(connection, answer),
            _ => Ok(()),
        }
    }
}

/// Deletes the blobs one after another, in an endless cycle.
pub(super) fn delete_in_turn(account: &Account, names: Names) -> impl Load + use<> {
    let mut template = Template::new(account, request("DELETE"));
    let mut numbers = (0..names.count).cycle();
    let next = move |out: &mut Outgoing| {
        template.write(out, &[&names.name(numbers.next()?)], b"");
        Some(Expected::status(202))
    };
    repeated(next, any)
}

/// Puts the blobs in the same endless cycle.
pub(super) fn put_in_turn(
    account: &Account,
    names: Names,
    content: &Arc<Vec<u8>>,
) -> impl Load + use<> {
    put_numbers(account, names, (0..names.count).cycle(), content)
}
