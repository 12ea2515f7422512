//! The rules of containers and blobs.

use crate::advice::Finding;
use crate::bounded::BoundedMap;
use crate::request::Request;
use crate::rules::{LISTING_BYTES, LISTINGS, Rule, UPLOAD_BYTES, UPLOAD_PERCENT, UPLOADS};
use crate::tally::Tally;
use crate::watch::{Contention, Window};

/// Maximum number of blobs of a container whose uploads are counted.
const UPLOADS_WATCHED: usize = 32;

#[derive(Debug)]
pub(crate) struct ContainerWatch {
    window: Window,
    listings: Tally,
    /// Reads of blobs and of their properties.
    reads: u64,
    uploads: BoundedMap<String, Uploads>,
    contention: Contention,
}

impl Default for ContainerWatch {
    fn default() -> ContainerWatch {
        ContainerWatch {
            window: Window::default(),
            listings: Tally::new(LISTINGS),
            reads: 0,
            uploads: BoundedMap::new(UPLOADS_WATCHED),
            contention: Contention::default(),
        }
    }
}

impl ContainerWatch {
    pub(crate) fn see(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        if self.window.begins(request.at) {
            *self = ContainerWatch {
                window: std::mem::take(&mut self.window),
                ..ContainerWatch::default()
            };
        }
        match request.operation {
            "ListBlobs" if request.is_success() && request.response_bytes >= LISTING_BYTES => {
                self.listings.add(request, weight);
            }
            "GetBlob" | "GetBlobProperties" | "GetBlobMetadata" => {
                self.reads += weight;
                self.find(request, findings);
            }
            "PutBlob" => {
                self.contention.write(request, weight, findings);
                if let (Some(blob), true) = (&request.blob, request.is_success()) {
                    let uploads = self.uploads.entry(blob.clone());
                    findings.extend(uploads.see(request, weight));
                }
            }
            "PutBlockList" | "SetBlobMetadata" | "SetBlobProperties" => {
                self.contention.write(request, weight, findings);
            }
            _ => {}
        }
    }

    /// Fires if there is about one read for each listing: from half as many to one and a half times
    /// as many.
    fn find(&mut self, request: &Request, findings: &mut Vec<Finding>) {
        let listings = self.listings.count;
        let one_each = self.reads * 2 >= listings && self.reads * 2 <= listings * 3;
        if one_each && self.listings.fires() {
            let text = format!(
                "{listings} listings were followed by {} reads of a blob",
                self.reads
            );
            findings.push(Finding::of(Rule::ListToFind, request, &self.listings, text));
        }
    }
}

/// Uploads of one blob.
#[derive(Debug)]
struct Uploads {
    bytes: u64,
    alike: Tally,
}

impl Default for Uploads {
    fn default() -> Uploads {
        Uploads {
            bytes: 0,
            alike: Tally::new(UPLOADS),
        }
    }
}

impl Uploads {
    fn see(&mut self, request: &Request, weight: u64) -> Option<Finding> {
        let bytes = request.request_bytes;
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes < UPLOAD_BYTES || bytes.abs_diff(before) * 100 > before * UPLOAD_PERCENT {
            return None;
        }
        self.alike.add(request, weight);
        if !self.alike.fires() {
            return None;
        }
        let text = format!(
            "The blob was replaced {} times, each time with about as many bytes as before: {bytes} the last time",
            self.alike.count
        );
        let mut finding = Finding::of(Rule::WholeUpload, request, &self.alike, text);
        if let Some(blob) = &request.blob {
            finding.resource = format!("{}/{blob}", request.resource);
        }
        Some(finding)
    }
}
