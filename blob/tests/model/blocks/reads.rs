//! Compares reads and listings with the model.

use super::evaluator::*;
use super::*;

impl Run {
    pub(super) fn get_blob(&mut self) {
        let (container, name) = (self.container(), self.name());
        let first = self.random.below(300) as u64;
        let last = match self.random.below(3) {
            0 => None,
            _ => Some(first + self.random.below(300) as u64),
        };
        let range = (self.random.below(2) == 0).then_some(ByteRange { first, last });
        let chunk_bytes = 1 + self.random.below(9000);
        self.compare_blob(&container, &name, range, chunk_bytes);
    }

    pub(super) fn compare_blob(
        &self,
        container: &str,
        name: &str,
        range: Option<ByteRange>,
        chunk_bytes: usize,
    ) {
        let none = Conditions::default();
        let actual = self
            .at(self.now)
            .get_blob(&address(container, name), range, &none);
        let blob = match self.blob(container, name) {
            Ok(blob) => blob,
            Err(missing) => return assert_eq!(code(actual.unwrap_err()), missing),
        };
        let bytes = blob.bytes();
        let expected = match range {
            None => &bytes[..],
            Some(ByteRange { first, .. }) if first as usize >= bytes.len() => {
                return assert_eq!(code(actual.unwrap_err()), "InvalidRange");
            }
            Some(ByteRange { first, last }) => {
                let end = last.map_or(bytes.len(), |last| bytes.len().min(last as usize + 1));
                &bytes[first as usize..end]
            }
        };
        let mut download = actual.unwrap();
        let mut read = Vec::new();
        while let Some(piece) = download.body.next_chunk(chunk_bytes).unwrap() {
            read.extend_from_slice(&piece);
        }
        assert!(read == expected, "content of {container}/{name}");
        let found = download.blob;
        assert_eq!(found.length, bytes.len() as u64);
        assert_eq!((found.etag, &found.metadata), (blob.etag, &blob.metadata));
        assert_eq!(found.created_at, blob.created_at);
        assert_eq!(found.last_modified, blob.last_modified);
    }

    pub(super) fn get_block_list(&mut self) {
        let (container, name) = (self.container(), self.name());
        let address = address(&container, &name);
        let actual =
            self.at(self.now)
                .get_block_list(&address, BlockListType::All, &Conditions::default());
        let entry = match self.entry(&container, &name) {
            Ok(entry) => entry,
            Err(missing) => return assert_eq!(code(actual.unwrap_err()), missing),
        };
        let found = |blocks: Vec<BlobBlock>| -> Vec<(Vec<u8>, usize)> {
            let found = |block: BlobBlock| (block.id, block.length as usize);
            blocks.into_iter().map(found).collect()
        };
        let actual = actual.unwrap();
        let etag = actual.blob.map(|blob| blob.etag);
        assert_eq!(etag, entry.blob.as_ref().map(|blob| blob.etag));
        let committed = entry.committed_blocks().iter();
        let committed: Vec<_> = committed
            .map(|(id, bytes)| (id.clone(), bytes.len()))
            .collect();
        assert_eq!(found(actual.committed), committed);
        let uncommitted = entry.uncommitted.iter();
        let uncommitted: Vec<_> = uncommitted
            .map(|(id, bytes)| (id.clone(), bytes.len()))
            .collect();
        assert_eq!(found(actual.uncommitted), uncommitted);
    }

    pub(super) fn list_blobs(&mut self) {
        let container = self.container();
        let delimiters = ["", "", "/", "--", "a/", "b", "é", "none"];
        let request = ListBlobs {
            prefix: self.random.word(&NAME_PARTS, 0, 2),
            delimiter: self.random.one(&delimiters).to_string(),
            marker: None,
            max_results: Some(1 + self.random.below(7) as u32),
            metadata: true,
            uncommitted: self.random.below(3) == 0,
            ..ListBlobs::default()
        };
        self.compare_listing(&container, request);
    }

    /// Compares all pages of a listing, and sometimes reopens the store between two of them.
    pub(super) fn compare_listing(&mut self, container: &str, mut request: ListBlobs) {
        let page_entries = request.max_results.unwrap() as usize;
        let Some(blobs) = self.containers.get(container) else {
            let error = self
                .at(self.now)
                .list_blobs(ACCOUNT, container, &request)
                .unwrap_err();
            return assert_eq!(code(error), "ContainerNotFound");
        };
        let expected = listing(blobs, &request);
        let mut actual = Vec::new();
        loop {
            let page = self
                .at(self.now)
                .list_blobs(ACCOUNT, container, &request)
                .unwrap();
            let count = page.entries.len();
            actual.extend(page.entries.into_iter().map(shown));
            request.marker = page.next_marker;
            if request.marker.is_none() {
                assert!(count <= page_entries);
                break;
            }
            assert_eq!(count, page_entries, "a page with others after it is full");
            assert!(
                actual.len() < expected.len(),
                "something is behind the marker"
            );
            if self.random.below(100) == 0 {
                self.reopen();
            }
        }
        assert_eq!(actual, expected, "{request:?}");
    }

    pub(super) fn compare_everything(&mut self) {
        for (container, blobs) in &self.containers {
            for name in blobs.keys() {
                self.compare_blob(container, name, None, 10_000);
            }
        }
        for container in CONTAINERS {
            let request = ListBlobs {
                max_results: Some(3),
                metadata: true,
                uncommitted: true,
                ..ListBlobs::default()
            };
            self.compare_listing(container, request);
        }
    }
}
