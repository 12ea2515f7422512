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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::context::ServiceKind;
    use lazurite_base::wall_clock::SystemWallClock;
    use lazurite_blob::{
        BlobAddress, BlobEntry, BlobService, Checksums, Conditions, ContainerSettings, ListBlobs,
        PutBlob, UploadKind,
    };
    use lazurite_engine::{Config, Db, Durability, Environment, RandomIds};
    use std::sync::Arc;

    fn of(version: &str) -> ListedUrls {
        let headers = [("x-ms-version", version)];
        let service = ServiceKind::Blob;
        ListedUrls::of(&crate::testing::request(
            service,
            "GET",
            "/c",
            "myaccount",
            &headers,
        ))
    }

    fn listed(name: &str) -> ListedBlob {
        ListedBlob {
            name: name.to_owned(),
            blob: None,
            is_current: true,
            deletion_id: None,
            has_versions_only: false,
        }
    }

    /// Source: List Containers and List Blobs, "Response body", for both ranges of versions.
    #[test]
    fn only_versions_before_2013_08_15_list_urls() {
        let (old, new) = (of("2012-02-12"), of("2013-08-15"));
        let endpoint = "http://myaccount.blob.core.windows.net/";
        assert_eq!(old.of_resource("c").unwrap(), format!("{endpoint}c"));
        let url = old.of_blob("c", &listed("dir/a b.txt")).unwrap();
        assert_eq!(url, format!("{endpoint}c/dir/a%20b.txt"));
        let url = old.of_blob("$root", &listed("a")).unwrap();
        assert_eq!(url, format!("{endpoint}a"));
        assert_eq!(new.of_resource("c"), None);
        assert_eq!(new.of_blob("c", &listed("a")), None);
        let opened = |urls: &ListedUrls, container| {
            let mut document = Writer::new();
            urls.open(&mut document, container);
            let document = document.finish();
            document[document.find("<EnumerationResults").unwrap()..].to_owned()
        };
        let results = "<EnumerationResults";
        let expected = format!("{results} AccountName=\"{endpoint}\">");
        assert_eq!(opened(&old, None), expected);
        let expected = format!("{results} ContainerName=\"{endpoint}c\">");
        assert_eq!(opened(&old, Some("c")), expected);
        let expected = format!("{results} ServiceEndpoint=\"{endpoint}\">");
        assert_eq!(opened(&new, None), expected);
        let expected = format!("{results} ServiceEndpoint=\"{endpoint}\" ContainerName=\"c\">");
        assert_eq!(opened(&new, Some("c")), expected);
    }

    /// A blob `b` and its snapshot, as a listing of their container shows them.
    fn listed_with_snapshot() -> Vec<ListedBlob> {
        let durability = Durability::Memory;
        let config = Config {
            durability,
            ..Config::default()
        };
        let environment = Environment::system(durability);
        let db = Db::open_with("nowhere".as_ref(), config, environment).unwrap();
        let clock = Arc::new(SystemWallClock::default());
        let blobs = BlobService::open(&db, Arc::new(RandomIds), clock).unwrap();
        let made = blobs.create_container_with("a", "con", ContainerSettings::default());
        drop(made.unwrap());
        let upload = blobs.begin_upload(UploadKind::PutBlob, Checksums::default());
        let blob = BlobAddress::current("a", "con", "b");
        drop(blobs.put_blob(&blob, PutBlob::of(upload.unwrap())).unwrap());
        let taken = blobs.snapshot_blob(&blob, Vec::new(), &Conditions::default());
        drop(taken.unwrap());
        let request = ListBlobs {
            snapshots: true,
            ..ListBlobs::default()
        };
        let page = blobs.list_blobs("a", "con", &request).unwrap();
        let blob = |entry| match entry {
            BlobEntry::Blob(listed) => listed,
            other => panic!("{other:?}"),
        };
        page.entries.into_iter().map(blob).collect()
    }

    #[test]
    fn the_url_of_a_snapshot_names_its_moment() {
        let listed = listed_with_snapshot();
        let [snapshot, blob] = &listed[..] else {
            panic!("{listed:?}");
        };
        let moment = snapshot.blob.as_ref().unwrap().snapshot.unwrap();
        let url = "http://myaccount.blob.core.windows.net/c/b";
        let old = of("2012-02-12");
        assert_eq!(old.of_blob("c", blob).unwrap(), url);
        let expected = format!("{url}?snapshot={moment}");
        assert_eq!(old.of_blob("c", snapshot).unwrap(), expected);
        assert_eq!(of("2013-08-15").of_blob("c", snapshot), None);
    }
}
