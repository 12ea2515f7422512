//! URLs in listings. API versions before 2013-08-15 have the URL of each listed resource, and of
//! the container. Later versions have only the endpoint of the service. Source: List Containers,
//! List Blobs and List Queues, "Remarks" and "Response body".

use crate::request::context::Context;
use crate::xml::Writer;
use lazurite_blob::ListedBlob;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The first API version whose listings have no URLs.
const VERSION_WITHOUT: &str = "2013-08-15";

/// The bytes that are percent-encoded in a path.
const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b'$');

/// The URLs in a listing, for API versions that have them.
pub struct ListedUrls {
    /// The URL of the service, with a final slash.
    endpoint: String,
    are_listed: bool,
}

impl ListedUrls {
    pub fn of(context: &Context) -> ListedUrls {
        ListedUrls {
            endpoint: format!("{}/", context.base_url),
            are_listed: !context.version.is_at_least(VERSION_WITHOUT),
        }
    }

    /// Opens the document of a listing of the account, or of `container`.
    pub fn open(&self, document: &mut Writer, container: Option<&str>) {
        let endpoint = ("ServiceEndpoint", self.endpoint.as_str());
        let name = "EnumerationResults";
        match (container, self.are_listed) {
            (None, false) => document.open_with(name, &[endpoint]),
            (None, true) => document.open_with(name, &[("AccountName", endpoint.1)]),
            (Some(container), false) => {
                document.open_with(name, &[endpoint, ("ContainerName", container)]);
            }
            (Some(container), true) => {
                let url = self.url(container);
                document.open_with(name, &[("ContainerName", &url)]);
            }
        }
    }

    /// The URL of a container or queue; `None` if the API version has none.
    pub fn of_resource(&self, name: &str) -> Option<String> {
        self.are_listed.then(|| self.url(name))
    }

    /// The URL of a blob or snapshot; `None` if the API version has none.
    pub fn of_blob(&self, container: &str, listed: &ListedBlob) -> Option<String> {
        if !self.are_listed {
            return None;
        }
        let mut url = match container {
            "$root" => self.url(&listed.name),
            container => self.url(&format!("{container}/{}", listed.name)),
        };
        let blob = listed.blob.as_ref();
        if let Some(moment) = blob.and_then(|blob| blob.snapshot) {
            url.push_str(&format!("?snapshot={moment}"));
        }
        Some(url)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{}", self.endpoint, utf8_percent_encode(path, IN_PATHS))
    }
}
