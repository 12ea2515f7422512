//! Deletes the blobs of a list, in batches. Source: Blob Batch.

use crate::asking::send;
use crate::blobs::container::resource;
use crate::blobs::export::quoted;
use crate::blobs::listed::Listed;
use crate::bulk::blob_list::BlobList;
use crate::bulk::work::{Outcome, Work};
use crate::client::{Call, Client, encode};
use crate::error::{Error, Result};
use crate::fields::header;
use crate::parallel::{Hand, in_parallel};
use crate::request_error::Refusal;
use lazurite_base::locks::lock;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::signed_request::Headers;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// Maximum number of requests in a batch. Source: Blob Batch, "Remarks".
const BATCH_MAX: usize = 256;
const BOUNDARY: &str = "batch_lazurite";
/// The code for a directory of a hierarchical container that has something in it.
const NOT_EMPTY: &str = "DirectoryIsNotEmpty";

/// Deletes the blobs of the list that were not changed since it was made. Blobs with snapshots
/// stay, unless `with_snapshots`.
pub fn delete_blobs(
    client: &Client,
    mut list: BlobList,
    with_snapshots: bool,
    work: Work,
) -> Outcome {
    let container = list.container.clone();
    // A directory is listed before what is in it, and deleted after it.
    let directories = Mutex::new(Vec::new());
    let produce = |hand: &mut Hand<'_, Vec<Listed>>| {
        let mut batch = Vec::new();
        list.each(&mut |blob| {
            work.check()?;
            batch.push(blob);
            if batch.len() == BATCH_MAX {
                hand(std::mem::take(&mut batch))?;
            }
            Ok(())
        })?;
        hand(batch)
    };
    let deleted = in_parallel(produce, |blobs: Vec<Listed>| {
        work.check()?;
        let deletion = Deletion {
            client,
            container: &container,
            with_snapshots,
        };
        let results = deletion.run(&blobs)?;
        for (blob, deleted) in blobs.into_iter().zip(results) {
            match deleted {
                Err(error) if error.code() == NOT_EMPTY => {
                    let mut directories = lock(&directories);
                    directories.push(blob);
                }
                deleted => settle(&work, &container, &blob, deleted)?,
            }
        }
        Ok(())
    });
    let deleted = deleted.and_then(|()| {
        let mut directories = directories
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        directories.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        for directory in directories {
            work.check()?;
            let deleted = delete_one(client, &container, &directory, with_snapshots);
            settle(&work, &container, &directory, deleted)?;
        }
        Ok(())
    });
    work.end(deleted, Vec::new())
}

/// Counts a blob that was deleted, or notes why it stays.
fn settle(work: &Work, container: &str, blob: &Listed, deleted: Result<()>) -> Result<()> {
    let item = format!("{container}/{}", blob.name);
    match deleted {
        Ok(()) => work.add(blob.bytes),
        Err(error) if error.status() == Some(404) => work.skip(),
        Err(error) => match reason_to_stay(&error) {
            Some(reason) => work.leave_out(format!("{item}: {reason}")),
            None => work.fail(&item, error)?,
        },
    }
    Ok(())
}

/// Why a blob of a list is not deleted, if the command has better words than the service.
pub fn reason_to_stay(error: &Error) -> Option<&'static str> {
    match error.code() {
        "ConditionNotMet" => Some("changed since it was counted, and stays"),
        "SnapshotsPresent" => Some("it has snapshots, and stays: --snapshots deletes them too"),
        NOT_EMPTY => Some("something is in it that was not counted, and it stays"),
        "LeaseIdMissing" => Some("somebody holds a lease on it, and it stays"),
        _ => None,
    }
}

/// The headers that delete a blob in the state of the listing.
pub fn headers(blob: &Listed, with_snapshots: bool) -> Headers {
    let mut headers = vec![header("If-Match", &quoted(&blob.etag))];
    if with_snapshots {
        headers.push(header("x-ms-delete-snapshots", "include"));
    }
    headers
}

/// Deletes one blob in the state of the listing.
pub fn delete_one(
    client: &Client,
    container: &str,
    blob: &Listed,
    with_snapshots: bool,
) -> Result<()> {
    let (resource, headers) = (
        resource(container, &blob.name),
        headers(blob, with_snapshots),
    );
    send(
        client,
        ServiceKind::Blob,
        "DELETE",
        &resource,
        &headers,
        b"",
    )
    .map(drop)
}

struct Deletion<'a> {
    client: &'a Client,
    container: &'a str,
    with_snapshots: bool,
}

impl Deletion<'_> {
    /// Deletes the blobs in one batch, or one by one if the server refuses batches. Returns what
    /// happened to each. Error: one that ends the work.
    fn run(&self, blobs: &[Listed]) -> Result<Vec<Result<()>>> {
        if blobs.is_empty() {
            return Ok(Vec::new());
        }
        let single = |blob| delete_one(self.client, self.container, blob, self.with_snapshots);
        let results = match self.batch(blobs) {
            Ok(results) => results,
            Err(error) if error.ends_all() => return Err(error),
            Err(_) => return Ok(blobs.iter().map(single).collect()),
        };
        let retried = blobs
            .iter()
            .zip(results)
            .map(|(blob, result)| match result {
                Err(error) if error.is_busy() => single(blob),
                result => result,
            });
        Ok(retried.collect())
    }

    fn batch(&self, blobs: &[Listed]) -> Result<Vec<Result<()>>> {
        let mut body = String::new();
        for (index, blob) in blobs.iter().enumerate() {
            let call = Call {
                service: ServiceKind::Blob,
                method: "DELETE",
                resource: resource(self.container, &blob.name),
                headers: headers(blob, self.with_snapshots),
            };
            let head = self.client.head_in_batch(call)?;
            let _ = write!(
                body,
                "--{BOUNDARY}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: {index}\r\n\r\n{head}"
            );
        }
        let _ = write!(body, "--{BOUNDARY}--\r\n");
        let kind = header(
            "Content-Type",
            &format!("multipart/mixed; boundary={BOUNDARY}"),
        );
        let path = format!("{}?restype=container&comp=batch", encode(self.container));
        let reply = send(
            self.client,
            ServiceKind::Blob,
            "POST",
            &path,
            &[kind],
            body.as_bytes(),
        )?;
        results_of(&reply.text()?, blobs.len())
    }
}

/// The result of each request of a batch. Error: the answer lacks one.
fn results_of(answer: &str, count: usize) -> Result<Vec<Result<()>>> {
    let mut results: Vec<Option<Refusal>> = vec![None; count];
    let mut index = None;
    for line in answer.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.trim();
        if name.eq_ignore_ascii_case("Content-ID") {
            index = value.parse::<usize>().ok();
        } else if let Some(status) = line.strip_prefix("HTTP/1.1 ") {
            let (status, phrase) = status.split_once(' ').unwrap_or((status, ""));
            let place = index.and_then(|index| results.get_mut(index));
            if let Some(place) = place {
                *place = Some(Refusal {
                    status: status.trim().parse().unwrap_or(0),
                    code: phrase.trim().to_owned(),
                    message: String::new(),
                });
            }
        } else if let Some(Some(refusal)) = index.and_then(|index| results.get_mut(index)) {
            if name.eq_ignore_ascii_case("x-ms-error-code") {
                value.clone_into(&mut refusal.code);
            } else if let Some((_, message)) = line.split_once("<Message>") {
                let message = message.split("</Message>").next().unwrap_or_default();
                message.clone_into(&mut refusal.message);
            }
        }
    }
    let results = results.into_iter().map(|result| match result {
        Some(refusal) if (200..300).contains(&refusal.status) => Some(Ok(())),
        refusal => refusal.map(|refusal| Err(refusal.into())),
    });
    let results: Option<Vec<_>> = results.collect();
    results.ok_or_else(|| Error::broken("the answer to a batch is not whole".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_of_a_batch_has_its_result() {
        let answer = "--b\r\nContent-Type: application/http\r\nContent-ID: 1\r\n\r\n\
             HTTP/1.1 412 The condition\r\nx-ms-error-code: ConditionNotMet\r\n\r\n\
             <Error><Code>ConditionNotMet</Code><Message>No.\r\n</Message></Error>\r\n\
             --b\r\nContent-ID: 0\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n--b--";
        let results = results_of(answer, 2).unwrap();
        assert!(results[0].is_ok());
        let error = results[1].as_ref().unwrap_err();
        assert_eq!(
            (error.status(), error.code()),
            (Some(412), "ConditionNotMet")
        );
        assert!(results_of(answer, 3).unwrap_err().is_broken());
    }
}
