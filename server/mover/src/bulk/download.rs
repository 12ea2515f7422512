//! Writes the blobs of a list to files.

use crate::asking::patiently;
use crate::blobs::container::resource;
use crate::blobs::export::quoted;
use crate::blobs::listed::Listed;
use crate::bulk::blob_list::BlobList;
use crate::bulk::work::{Outcome, Work};
use crate::client::{Call, Client, Reply};
use crate::error::{Error, Result};
use crate::fields::header;
use crate::files::BlobFiles;
use crate::parallel::{Hand, in_parallel};
use crate::progress::LEFT_OUT_SHOWN;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::http_client::Upload;
use lazurite_services::platform::patiently as patiently_renamed;
use lazurite_services::signed_request::Headers;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Writes each blob to the file of its name, without `prefix`, below a directory. With
/// `keeps_existing`, files that are there stay. A name that files cannot have is written in another
/// way, which a note says.
pub fn download(
    client: &Client,
    mut list: BlobList,
    prefix: &str,
    directory: &Path,
    keeps_existing: bool,
    work: Work,
) -> Outcome {
    let container = list.container.clone();
    let (mut files, mut renamed, mut renamed_count) = (BlobFiles::default(), Vec::new(), 0);
    let produce = |hand: &mut Hand<'_, (Listed, PathBuf)>| {
        list.each(&mut |blob| {
            work.check()?;
            let name = blob.name.strip_prefix(prefix).unwrap_or(&blob.name);
            let file = files.choose(name);
            if file != name {
                renamed_count += 1;
                if renamed.len() < LEFT_OUT_SHOWN {
                    renamed.push(format!("files cannot have the name {name}: it is {file}"));
                }
            }
            hand((blob, directory.join(file)))
        })
    };
    let written = in_parallel(produce, |(blob, path): (Listed, PathBuf)| {
        work.check()?;
        if keeps_existing && path.exists() {
            work.skip();
            return Ok(());
        }
        match download_one(client, &container, &blob.name, Some(&blob.etag), &path) {
            Ok(bytes) => work.add(bytes),
            Err(error) => {
                let error = match error.code() {
                    "ConditionNotMet" | "BlobNotFound" => "changed since it was listed".into(),
                    _ => error,
                };
                work.fail(&format!("{container}/{}", blob.name), error)?;
            }
        }
        Ok(())
    });
    let more = renamed_count - renamed.len();
    if more > 0 {
        renamed.push(format!("and {more} more names"));
    }
    work.end(written, renamed)
}

/// Writes a blob to a file, which has the content of the blob or is as it was. With an ETag, only
/// in that state of the blob. Returns the number of bytes.
pub fn download_one(
    client: &Client,
    container: &str,
    name: &str,
    etag: Option<&str>,
    path: &Path,
) -> Result<u64> {
    let headers: Headers = etag
        .map(|etag| header("If-Match", &quoted(etag)))
        .into_iter()
        .collect();
    let resource = resource(container, name);
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|error| Error::of_file(parent, error))?;
    let part = PartFile(parent.join(format!(
        ".lazurite-{}-{:032x}",
        std::process::id(),
        crate::files::hash(&path.to_string_lossy())
    )));
    let bytes = patiently(client, || {
        let call = Call {
            service: ServiceKind::Blob,
            method: "GET",
            resource: resource.clone(),
            headers: headers.clone(),
        };
        let mut reply = client.send(call, Upload::empty())?;
        part.write(&mut reply)
    })?;
    let renamed = patiently_renamed(|| fs::rename(&part.0, path));
    renamed.map_err(|error| Error::of_file(path, error))?;
    Ok(bytes)
}

/// A file that is not whole yet. Its drop removes it.
struct PartFile(PathBuf);

impl PartFile {
    /// Writes the body of an answer. Error: the connection broke before its end.
    fn write(&self, reply: &mut Reply) -> Result<u64> {
        let unwritten = |error: io::Error| Error::of_file(&self.0, error);
        let announced: Option<u64> = reply
            .header("content-length")
            .and_then(|length| length.parse().ok());
        let mut file = File::create(&self.0).map_err(unwritten)?;
        let mut buffer = vec![0; 64 << 10];
        let mut bytes = 0;
        loop {
            let read = reply.body().read(&mut buffer);
            let read =
                read.map_err(|error| Error::broken(format!("the connection broke: {error}")))?;
            if read == 0 {
                break;
            }
            file.write_all(&buffer[..read]).map_err(unwritten)?;
            bytes += read as u64;
        }
        match announced {
            Some(announced) if announced != bytes => {
                let reason = format!("it ended after {bytes} of {announced} bytes");
                Err(Error::broken(reason))
            }
            _ => Ok(bytes),
        }
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // It is not there once it was renamed.
        let _ = fs::remove_file(&self.0);
    }
}
