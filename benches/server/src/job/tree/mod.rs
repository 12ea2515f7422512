//! The blob part: a directory tree uploaded file by file, listed flat, by prefix and by directory,
//! and downloaded byte for byte.

mod walk;

use std::collections::BTreeSet;
use std::fs;

use lazurite_bench_common::Outcome;

use crate::client::{BlobPage, Client, Error, ListBlobs, Outage, Service};
use crate::job::args::JobArgs;
use crate::job::context::Job;
use crate::job::ledger::{Found, Ledger};
use crate::job::stage::Stage;

pub(super) use walk::File;

const UPLOAD: &str = "blob: upload";
const DOWNLOAD: &str = "blob: download";
const FLAT: &str = "blob: list flat";
const BY_PREFIX: &str = "blob: list by prefix";
const BY_DIRECTORY: &str = "blob: list by directory";

/// The phases of this part in order, the writing one first.
pub(super) const PHASES: &[&str] = &[UPLOAD, DOWNLOAD, FLAT, BY_PREFIX, BY_DIRECTORY];

/// Files above this size go up in blocks.
const BLOCK_BYTES: usize = 4 * 1024 * 1024;
/// Small pages, so that there are many.
const FLAT_RESULTS_MAX: u32 = 500;
const RESULTS_MAX: u32 = 37;

/// The files this run is about.
pub(super) fn walk_input(args: &JobArgs) -> Outcome<Vec<File>> {
    if !args.only.contains(&Service::Blob) {
        return Ok(Vec::new());
    }
    let root = args.tree.clone().map_or_else(walk::standard_library, Ok)?;
    let mut files = walk::walk(&root)?;
    if files.is_empty() {
        return Err(format!("{}: there are no files", root.display()).into());
    }
    let keep = ((files.len() as f64 * args.scale) as usize).max(1);
    // Every directory keeps some of its files, and one large file stays in.
    let mut chosen: BTreeSet<usize> = (0..keep).map(|index| index * files.len() / keep).collect();
    chosen.extend(
        files
            .iter()
            .enumerate()
            .max_by_key(|(_, file)| file.length)
            .map(|(index, _)| index),
    );
    let mut index = 0..;
    files.retain(|_| index.next().is_some_and(|index| chosen.contains(&index)));
    Ok(files)
}

/// Uploads `files` into a new container, lists and downloads them. Returns the container's name.
pub(super) fn run(job: &mut Job, files: &[File]) -> Outcome<String> {
    let container = format!("stdlib-{}", job.run);
    job.client
        .patiently(|| match job.client.create_container(&container) {
            Err(error) if error.is("ContainerAlreadyExists") => Ok(()),
            answer => answer,
        })?;
    upload(job, files, &container)?;
    download(job, files, &container)?;
    list_flat(job, files, &container, FLAT)?;
    list_by_prefix(job, files, &container)?;
    list_by_directory(job, files, &container)?;
    Ok(container)
}

/// After the last restart: exactly these blobs are there, with their lengths and every byte.
pub(super) fn verify(job: &mut Job, files: &[File], container: &str) -> Outcome<()> {
    list_flat(job, files, container, "blob: after all")?;
    download_as(job, files, container, "blob: bytes after all")
}

fn upload(job: &mut Job, files: &[File], container: &str) -> Outcome<()> {
    let ledger = Ledger::new("blobs put");
    job.phase(UPLOAD, "files", files.len(), |job, stage| {
        stage.in_parallel(job.connections, files, |file| {
            put(&job.client, stage, &ledger, container, file)?;
            stage.add_bytes(file.length);
            stage.done(1);
            Ok(())
        })
    })?;
    job.remark_ledger(&ledger);
    Ok(())
}

/// Puts a file for certain: when the answer is lost, looks what is there, and sends the file again
/// unless it is there whole.
fn put(
    client: &Client,
    stage: &Stage,
    ledger: &Ledger,
    container: &str,
    file: &File,
) -> Result<(), Error> {
    let content = read(file)?;
    let mut outage = Outage::default();
    loop {
        match put_once(client, stage, container, file, &content) {
            Ok(()) => {
                ledger.acknowledged();
                return Ok(());
            }
            Err(Error::InDoubt(reason)) => {
                let found = look(client, container, file)?;
                ledger.settled(found);
                stage.check(found != Found::Half, || {
                    format!("{}: half a blob is there", file.name)
                });
                match found {
                    Found::Done => return Ok(()),
                    Found::NotDone | Found::Half => outage.wait(Error::InDoubt(reason))?,
                }
            }
            Err(error) if error.is_outage() => outage.wait(error)?,
            Err(error) => return Err(error),
        }
    }
}

/// One Put Blob, or for a large file blocks and their list. Blocks may be sent twice; only the list
/// makes them a blob.
fn put_once(
    client: &Client,
    stage: &Stage,
    container: &str,
    file: &File,
    content: &[u8],
) -> Result<(), Error> {
    if content.len() <= BLOCK_BYTES {
        return stage.time(|| client.put_blob(container, &file.name, content));
    }
    let blocks = content.chunks(BLOCK_BYTES);
    let count = blocks.len();
    for (index, block) in blocks.enumerate() {
        let put = || client.put_block(container, &file.name, index, block);
        client.patiently(|| stage.time(put))?;
    }
    stage.time(|| client.put_block_list(container, &file.name, count))
}

/// Whether the blob is there, whole.
fn look(client: &Client, container: &str, file: &File) -> Result<Found, Error> {
    let content = read(file)?;
    client.patiently(|| {
        let found = client.get_blob(container, &file.name)?;
        Ok(match found {
            None => Found::NotDone,
            Some(found) if found == content => Found::Done,
            Some(_) => Found::Half,
        })
    })
}

fn download(job: &mut Job, files: &[File], container: &str) -> Outcome<()> {
    download_as(job, files, container, DOWNLOAD)
}

fn download_as(job: &mut Job, files: &[File], container: &str, name: &'static str) -> Outcome<()> {
    job.phase(name, "files", files.len(), |job, stage| {
        stage.in_parallel(job.connections, files, |file| {
            let content = read(file)?;
            let get = || job.client.get_blob(container, &file.name);
            let found = job.client.patiently(|| stage.time(get))?;
            stage.check(found.is_some(), || {
                format!("{}: the blob is missing", file.name)
            });
            stage.check(found.is_none_or(|found| found == content), || {
                format!("{}: other bytes came back", file.name)
            });
            stage.add_bytes(file.length);
            stage.done(1);
            Ok(())
        })
    })
}

/// Whether `body` is `content`, byte for byte and to its end.
fn read(file: &File) -> Result<Vec<u8>, Error> {
    let unreadable = |error| Error::Usage(format!("{}: {error}", file.path.display()));
    fs::read(&file.path).map_err(unreadable)
}

fn list_flat(job: &mut Job, files: &[File], container: &str, name: &'static str) -> Outcome<()> {
    job.phase(name, "names", files.len(), |job, stage| {
        let list = ListBlobs {
            results_max: FLAT_RESULTS_MAX,
            ..ListBlobs::default()
        };
        let listing = list_all(&job.client, stage, container, &list)?;
        check_blobs(stage, "/", &listing, files.iter());
        Ok(())
    })
}

/// Every directory as a prefix, without delimiter: everything below it, at any depth.
fn list_by_prefix(job: &mut Job, files: &[File], container: &str) -> Outcome<()> {
    let prefixes = walk::directories(files);
    let expected: usize = prefixes
        .iter()
        .map(|prefix| walk::below(files, prefix).len())
        .sum();
    job.phase(BY_PREFIX, "names", expected, |job, stage| {
        stage.in_parallel(job.connections, &prefixes, |prefix| {
            let list = ListBlobs {
                prefix: prefix.clone(),
                results_max: RESULTS_MAX * 3,
                ..ListBlobs::default()
            };
            let listing = list_all(&job.client, stage, container, &list)?;
            check_blobs(stage, prefix, &listing, walk::below(files, prefix).iter());
            Ok(())
        })
    })
}

/// Every directory with the delimiter `/`: its own files, and its subdirectories as prefixes.
fn list_by_directory(job: &mut Job, files: &[File], container: &str) -> Outcome<()> {
    let directories = walk::directories(files);
    job.phase(
        BY_DIRECTORY,
        "names",
        files.len() + directories.len() - 1,
        |job, stage| {
            stage.in_parallel(job.connections, &directories, |directory| {
                let list = ListBlobs {
                    prefix: directory.clone(),
                    delimiter: "/".into(),
                    results_max: RESULTS_MAX,
                };
                let listing = list_all(&job.client, stage, container, &list)?;
                let (blobs, prefixes) = walk::children(files, directory);
                check_blobs(stage, directory, &listing, blobs.into_iter());
                stage.check(listing.prefixes == prefixes, || {
                    format!(
                        "{directory}: the directories are {:?}, not {prefixes:?}",
                        listing.prefixes
                    )
                });
                Ok(())
            })?;
            Ok(())
        },
    )?;
    Ok(())
}

/// All pages of a listing as one.
fn list_all(
    client: &Client,
    stage: &Stage,
    container: &str,
    list: &ListBlobs,
) -> Result<BlobPage, Error> {
    let mut all = BlobPage::default();
    loop {
        let get = || client.list_blobs(container, list, &all.next_marker);
        let page = client.patiently(|| stage.time(get))?;
        let count = page.blobs.len() + page.prefixes.len();
        stage.check(count <= list.results_max as usize, || {
            format!("{count} results on a page of {}", list.results_max)
        });
        stage.done(count);
        all.blobs.extend(page.blobs);
        all.prefixes.extend(page.prefixes);
        all.next_marker = page.next_marker;
        if all.next_marker.is_empty() {
            return Ok(all);
        }
    }
}

/// Names and lengths must be those of `files`, in this order.
fn check_blobs<'f>(
    stage: &Stage,
    prefix: &str,
    listing: &BlobPage,
    files: impl Iterator<Item = &'f File>,
) {
    let expected: Vec<_> = files.map(|file| (file.name.clone(), file.length)).collect();
    let first = expected
        .iter()
        .zip(&listing.blobs)
        .find(|(file, blob)| file != blob);
    stage.check(expected == listing.blobs, || {
        let (expected, found) = (expected.len(), listing.blobs.len());
        format!("{prefix}: {found} blobs instead of {expected}; the first difference is {first:?}")
    });
}
