//! The operations of Blob that the workloads use.

use crate::client::account::Service;
use crate::client::error::Error;
use crate::client::http::Client;
use crate::client::request::{Request, escape_path};
use crate::client::xml::{self, Element};

/// The parameters of List Blobs; empty strings are left out.
#[derive(Clone, Default)]
pub(crate) struct ListBlobs {
    pub(crate) prefix: String,
    pub(crate) delimiter: String,
    pub(crate) results_max: u32,
}

/// One page of a listing, in the order of the answer.
#[derive(Default)]
pub(crate) struct BlobPage {
    /// The name and the content length of each blob.
    pub(crate) blobs: Vec<(String, u64)>,
    pub(crate) prefixes: Vec<String>,
    /// The marker of the next page; empty after the last page.
    pub(crate) next_marker: String,
}

impl Client {
    /// Create Container.
    pub(crate) fn create_container(&self, container: &str) -> Result<(), Error> {
        self.send(on_container("PUT", container)).map(|_| ())
    }

    /// Delete Container.
    pub(crate) fn delete_container(&self, container: &str) -> Result<(), Error> {
        self.send(on_container("DELETE", container)).map(|_| ())
    }

    /// Put Blob of a block blob with all its content.
    pub(crate) fn put_blob(
        &self,
        container: &str,
        name: &str,
        content: &[u8],
    ) -> Result<(), Error> {
        let put = on_blob("PUT", container, name).header("x-ms-blob-type", "BlockBlob");
        self.send(put.body(content)).map(|_| ())
    }

    /// Put Blob of an empty append blob.
    pub(crate) fn put_append_blob(&self, container: &str, name: &str) -> Result<(), Error> {
        let put = on_blob("PUT", container, name).header("x-ms-blob-type", "AppendBlob");
        self.send(put).map(|_| ())
    }

    /// Append Block.
    pub(crate) fn append_block(
        &self,
        container: &str,
        name: &str,
        content: &[u8],
    ) -> Result<(), Error> {
        let append = on_blob("PUT", container, name).query("comp", "appendblock");
        self.send(append.body(content)).map(|_| ())
    }

    /// Put Blob of a page blob with `bytes` zeros.
    pub(crate) fn put_page_blob(
        &self,
        container: &str,
        name: &str,
        bytes: usize,
    ) -> Result<(), Error> {
        let put = on_blob("PUT", container, name)
            .header("x-ms-blob-type", "PageBlob")
            .header("x-ms-blob-content-length", bytes);
        self.send(put).map(|_| ())
    }

    /// Put Page of whole pages at `offset`.
    pub(crate) fn put_page(
        &self,
        container: &str,
        name: &str,
        offset: usize,
        content: &[u8],
    ) -> Result<(), Error> {
        let last = offset + content.len() - 1;
        let put = on_blob("PUT", container, name)
            .query("comp", "page")
            .header("x-ms-page-write", "update")
            .header("x-ms-range", format!("bytes={offset}-{last}"));
        self.send(put.body(content)).map(|_| ())
    }

    /// Delete Blob.
    pub(crate) fn delete_blob(&self, container: &str, name: &str) -> Result<(), Error> {
        self.send(on_blob("DELETE", container, name)).map(|_| ())
    }

    /// Snapshot Blob.
    pub(crate) fn snapshot_blob(&self, container: &str, name: &str) -> Result<(), Error> {
        let snapshot = on_blob("PUT", container, name).query("comp", "snapshot");
        self.send(snapshot).map(|_| ())
    }

    /// Copy Blob from another blob of the container.
    pub(crate) fn copy_blob(
        &self,
        container: &str,
        source: &str,
        destination: &str,
    ) -> Result<(), Error> {
        let endpoint = self.account.endpoint(Service::Blob);
        let source = format!("{endpoint}/{container}/{}", escape_path(source));
        let copy = on_blob("PUT", container, destination).header("x-ms-copy-source", source);
        self.send(copy).map(|_| ())
    }

    /// Get Blob of the range of `bytes` bytes from `offset`.
    pub(crate) fn get_blob_range(
        &self,
        container: &str,
        name: &str,
        offset: usize,
        bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        let last = offset + bytes - 1;
        let get = on_blob("GET", container, name);
        let get = get.header("x-ms-range", format!("bytes={offset}-{last}"));
        Ok(self.send(get)?.body)
    }

    /// Get Blob of the whole content; `None` if the blob does not exist.
    pub(crate) fn get_blob(&self, container: &str, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match self.send(on_blob("GET", container, name)) {
            Ok(answer) => Ok(Some(answer.body)),
            Err(error) if error.is("BlobNotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// List Blobs: the page at `marker`; the first page if `marker` is empty.
    pub(crate) fn list_blobs(
        &self,
        container: &str,
        list: &ListBlobs,
        marker: &str,
    ) -> Result<BlobPage, Error> {
        let mut get = on_container("GET", container).query("comp", "list");
        for (name, value) in [
            ("prefix", &*list.prefix),
            ("delimiter", &list.delimiter),
            ("marker", marker),
        ] {
            if !value.is_empty() {
                get = get.query(name, value);
            }
        }
        let answer = self.send(get.query("maxresults", list.results_max))?;
        let root = xml::parse(&answer.body)?;
        let mut page = BlobPage {
            next_marker: root.text_of("NextMarker").to_owned(),
            ..BlobPage::default()
        };
        for item in root.child("Blobs").map_or(&[][..], |blobs| &blobs.children) {
            match &*item.name {
                "Blob" => page
                    .blobs
                    .push((item.text_of("Name").to_owned(), content_length(item)?)),
                "BlobPrefix" => page.prefixes.push(item.text_of("Name").to_owned()),
                other => return Err(Error::Malformed(format!("<{other}> in a listing"))),
            }
        }
        Ok(page)
    }
}

fn on_container<'a>(method: &'static str, container: &str) -> Request<'a> {
    Request::new(Service::Blob, method, format!("/{container}")).query("restype", "container")
}

fn on_blob<'a>(method: &'static str, container: &str, name: &str) -> Request<'a> {
    Request::new(
        Service::Blob,
        method,
        format!("/{container}/{}", escape_path(name)),
    )
}

fn content_length(blob: &Element) -> Result<u64, Error> {
    let text = blob
        .child("Properties")
        .map_or("", |properties| properties.text_of("Content-Length"));
    let malformed = |_| Error::Malformed(format!("a listed Content-Length is `{text}`"));
    text.parse().map_err(malformed)
}
