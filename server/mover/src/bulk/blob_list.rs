//! The blobs that a work was confirmed for.

use crate::blobs::container::{pages, property};
use crate::blobs::line::line_of;
use crate::blobs::listed::Listed;
use crate::bulk::spool::Spool;
use crate::client::{Client, encode};
use crate::error::Result;
use crate::fields::in_query;
use lazurite_protocol::xml::Element;
use serde_json::Map;

/// Names, ETags and sizes of blobs of one container, and with datasets their properties.
pub struct BlobList {
    pub container: String,
    blobs: Spool<Listed>,
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
    let mut listed_blobs = Spool::new()?;
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
            listed_blobs.add(&listed)?;
        }
        Ok(())
    })?;
    Ok(BlobList {
        container: container.to_owned(),
        blobs: listed_blobs,
        count,
        bytes,
    })
}

/// Whether a listed blob is a directory of a hierarchical container.
pub fn is_directory(blob: &Element) -> bool {
    property(blob, "ResourceType") == "directory"
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
        self.blobs.each(take)
    }
}
