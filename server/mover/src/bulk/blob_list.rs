//! The blobs that a work was confirmed for, in a temporary file.

use crate::blobs::container::{pages, property};
use crate::blobs::line::line_of;
use crate::blobs::listed::Listed;
use crate::client::{Client, encode};
use crate::error::{Error, Result};
use crate::fields::in_query;
use lazurite_protocol::xml::Element;
use serde_json::Map;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};

/// Names, ETags and sizes of blobs of one container, and with datasets their properties.
pub struct BlobList {
    pub container: String,
    file: File,
    pub count: u64,
    pub bytes: u64,
}

/// Lists the blobs whose names begin with `prefix`, and that `is_wanted`. With `datasets`, such as
/// `metadata,tags`, the list has the properties of the blobs too; empty for none.
pub fn list_blobs(
    client: &Client,
    container: &str,
    prefix: &str,
    datasets: &str,
    is_wanted: &mut dyn FnMut(&Element) -> bool,
) -> Result<BlobList> {
    let unwritten = |error: std::io::Error| Error::of_file(&std::env::temp_dir(), error);
    let mut file = BufWriter::new(tempfile::tempfile().map_err(unwritten)?);
    let (mut count, mut bytes) = (0, 0);
    let include = match datasets {
        "" => String::new(),
        datasets => format!("&include={datasets}"),
    };
    let base = format!(
        "{}?restype=container&comp=list{include}&prefix={}",
        encode(container),
        in_query(prefix)
    );
    pages(client, &base, |page| {
        let blobs = page.child("Blobs");
        for blob in blobs.into_iter().flat_map(|blobs| blobs.all("Blob")) {
            if !is_wanted(blob) {
                continue;
            }
            let listed = listed_of(blob, !datasets.is_empty());
            count += 1;
            bytes += listed.bytes;
            let line = serde_json::to_string(&listed).map_err(|error| error.to_string())?;
            writeln!(file, "{line}").map_err(unwritten)?;
        }
        Ok(())
    })?;
    let file = file.into_inner();
    Ok(BlobList {
        container: container.to_owned(),
        file: file.map_err(|error| unwritten(error.into_error()))?,
        count,
        bytes,
    })
}

fn listed_of(blob: &Element, has_fields: bool) -> Listed {
    let name = blob.child_name("Name");
    Listed {
        etag: property(blob, "Etag").to_owned(),
        bytes: property(blob, "Content-Length").parse().unwrap_or(0),
        fields: if has_fields {
            line_of(blob, &name, &name)
        } else {
            Map::new()
        },
        name,
    }
}

impl BlobList {
    /// Passes each blob to `take`, in the order of the listing.
    pub(crate) fn each(&mut self, take: &mut dyn FnMut(Listed) -> Result<()>) -> Result<()> {
        let unread = |error: std::io::Error| Error::of_file(&std::env::temp_dir(), error);
        self.file.rewind().map_err(unread)?;
        for line in BufReader::new(&self.file).lines() {
            let line = line.map_err(unread)?;
            take(serde_json::from_str(&line).map_err(|error| error.to_string())?)?;
        }
        Ok(())
    }
}
