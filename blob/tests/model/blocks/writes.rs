//! Writes to block blobs, in the service and in the model.

use super::evaluator::*;
use super::*;

impl Run {
    /// Whether a conditional write to a blob should succeed, and its conditions.
    pub(super) fn demand(
        &mut self,
        container: &str,
        name: &str,
        creates: bool,
    ) -> (Result<(), &'static str>, Conditions) {
        use EtagRequirement::*;
        let demands = [Nothing, Nothing, Nothing, IsCurrent, IsStale, IsMissing];
        let demand = *self.random.one(&demands);
        let current = self.blob(container, name).ok().map(|blob| blob.etag);
        let expected = if self.containers.contains_key(container) {
            demand.expect(current.is_some(), creates)
        } else {
            Err("ContainerNotFound")
        };
        (expected, demand.headers(current))
    }

    pub(super) fn upload(&mut self, kind: UploadKind, body: &[u8]) -> Upload {
        let piece_bytes = 1 + self.random.below(30_000);
        let mut upload = self
            .service()
            .begin_upload(kind, Checksums::default())
            .unwrap();
        for piece in body.chunks(piece_bytes) {
            upload.write(piece).unwrap();
        }
        upload
    }

    pub(super) fn put_blob(&mut self) {
        let (container, name, body) = (self.container(), self.name(), self.random.body());
        let (expected, conditions) = self.demand(&container, &name, true);
        let metadata = self.metadata();
        let request = PutBlob {
            upload: self.upload(UploadKind::PutBlob, &body),
            headers: BlobHeaders::default(),
            metadata: metadata.clone(),
            settings: BlobSettings::default(),
            conditions,
        };
        let actual = self
            .at(self.now)
            .put_blob(&address(&container, &name), request);
        if let Some(outcome) = agree(expected, actual) {
            let content = ModelContent::Whole(body);
            self.made(&container, &name, outcome.written, content, metadata);
        }
    }

    /// Notes that a blob was made or made anew.
    pub(super) fn made(
        &mut self,
        container: &str,
        name: &str,
        written: Written,
        content: ModelContent,
        metadata: Metadata,
    ) {
        self.fresh(written.etag);
        let before = self.blob(container, name).map(|blob| blob.created_at);
        let blob = ModelBlob {
            etag: written.etag,
            created_at: before.unwrap_or(written.last_modified),
            last_modified: written.last_modified,
            content,
            metadata,
        };
        let entry = ModelEntry {
            blob: Some(blob),
            uncommitted: BTreeMap::new(),
        };
        let blobs = self.containers.get_mut(container).unwrap();
        blobs.insert(name.to_string(), entry);
    }

    pub(super) fn put_block(&mut self) {
        let (container, name) = (self.container(), self.name());
        let most = if self.random.below(20) == 0 { 2 } else { 1 };
        let id = self.random.word(&BLOCK_IDS, 1, most).into_bytes();
        let mut body = self.random.body();
        body.push(1);
        let expected = match self.entry(&container, &name) {
            Ok(entry) if !entry.takes_block_id(&id) => Err("InvalidBlobOrBlock"),
            Ok(_) | Err("BlobNotFound") => Ok(()),
            Err(code) => Err(code),
        };
        let upload = self.upload(UploadKind::PutBlock, &body);
        let address = address(&container, &name);
        let actual = self
            .at(self.now)
            .put_block(&address, &id, upload, &Conditions::default());
        if agree(expected, actual).is_some() {
            let blobs = self.containers.get_mut(&container).unwrap();
            blobs.entry(name).or_default().uncommitted.insert(id, body);
        }
    }

    pub(super) fn block_choice(&mut self) -> BlockChoice {
        let sources = [
            BlockSource::Latest,
            BlockSource::Committed,
            BlockSource::Uncommitted,
        ];
        let which = if self.random.below(3) == 0 { 3 } else { 1 };
        BlockChoice {
            source: *self.random.one(&sources[..which]),
            id: self.random.word(&BLOCK_IDS, 1, 1).into_bytes(),
        }
    }

    pub(super) fn put_block_list(&mut self) {
        let (container, name) = (self.container(), self.name());
        let count = self.random.below(3);
        let blocks: Vec<_> = (0..count).map(|_| self.block_choice()).collect();
        let entry = self.entry(&container, &name).cloned().unwrap_or_default();
        let resolved = entry.resolve(&blocks);
        let (expected, conditions) = self.demand(&container, &name, true);
        let expected = expected.and(resolved.as_ref().map(|_| ()).map_err(|code| *code));
        let metadata = self.metadata();
        let request = PutBlockList {
            blocks,
            headers: BlobHeaders::default(),
            metadata: metadata.clone(),
            settings: BlobSettings::default(),
            conditions,
        };
        let address = address(&container, &name);
        let actual = self.at(self.now).put_block_list(&address, request);
        if let Some(written) = agree(expected, actual) {
            let content = ModelContent::Blocks(resolved.unwrap());
            self.made(&container, &name, written, content, metadata);
        }
    }

    pub(super) fn delete_blob(&mut self) {
        let (container, name) = (self.container(), self.name());
        let (expected, conditions) = self.demand(&container, &name, false);
        let request = DeleteBlob {
            conditions,
            ..DeleteBlob::default()
        };
        let actual = self
            .at(self.now)
            .delete_blob(&address(&container, &name), &request);
        if agree(expected, actual).is_some() {
            self.containers.get_mut(&container).unwrap().remove(&name);
        }
    }

    pub(super) fn set_metadata(&mut self) {
        let (container, name, metadata) = (self.container(), self.name(), self.metadata());
        let (expected, conditions) = self.demand(&container, &name, false);
        let address = address(&container, &name);
        let actual = self
            .at(self.now)
            .set_blob_metadata(&address, metadata.clone(), &conditions);
        if let Some(written) = agree(expected, actual) {
            self.fresh(written.etag);
            let blobs = self.containers.get_mut(&container).unwrap();
            let blob = blobs.get_mut(&name).unwrap().blob.as_mut().unwrap();
            blob.etag = written.etag;
            blob.last_modified = written.last_modified;
            blob.metadata = metadata;
        }
    }
}
