//! Writes of content of all types, in the service and in the model.

use super::*;

impl Walk {
    pub(super) fn upload(&mut self, kind: UploadKind, body: &[u8]) -> Upload {
        let mut upload = self
            .store
            .service
            .begin_upload(kind, Checksums::default())
            .unwrap();
        for piece in body.chunks(1 + self.random.below(30_000)) {
            upload.write(piece).unwrap();
        }
        upload
    }

    pub(super) fn put_blob(&mut self, at: At) {
        let bytes = self.random.body();
        let request = PutBlob {
            upload: self.upload(UploadKind::PutBlob, &bytes),
            headers: BlobHeaders::default(),
            metadata: Metadata::new(),
            settings: BlobSettings::default(),
            conditions: Conditions::default(),
        };
        let put = self
            .at(self.now)
            .put_blob(&address(at, BlobState::Current), request);
        if let Some(outcome) = agree(self.may_replace(at), put) {
            let known = known(BlobType::BlockBlob, bytes, outcome.written);
            self.replace(at, Some(known), false);
        }
    }

    pub(super) fn put_block(&mut self, at: At) {
        let id = self.random.one(&IDS).to_string();
        let mut body = self.random.body();
        body.push(1);
        let expected = match self.kind(at) {
            None | Some(BlobType::BlockBlob) => Ok(()),
            Some(_) => Err("InvalidBlobType"),
        };
        let upload = self.upload(UploadKind::PutBlock, &body);
        let to = address(at, BlobState::Current);
        let put = self
            .at(self.now)
            .put_block(&to, id.as_bytes(), upload, &Conditions::default());
        if agree(expected, put).is_some() {
            let now = self.now;
            let name = self.name(at);
            name.staged.insert(id, body);
            // The clock may have been set back since an earlier block was put.
            name.staged_at = name.staged_at.max(Some(now));
        }
    }

    pub(super) fn put_block_list(&mut self, at: At) {
        let count = self.random.below(4);
        let ids: Vec<String> = (0..count)
            .map(|_| self.random.one(&IDS).to_string())
            .collect();
        let name = self.name(at).clone();
        let find = |id: &String| {
            let committed = || {
                let blocks = &name.current.as_ref()?.blocks;
                Some(&blocks.iter().find(|(other, _)| other == id)?.1)
            };
            let found = name.staged.get(id).or_else(committed);
            found.map(|bytes| (id.clone(), bytes.clone()))
        };
        let blocks: Option<Vec<_>> = ids.iter().map(find).collect();
        let expected = match (self.kind(at), &blocks) {
            (Some(BlobType::AppendBlob | BlobType::PageBlob), _) => Err("InvalidBlobType"),
            (_, Some(_)) => self.may_replace(at),
            (_, None) => self.may_replace(at).and(Err("InvalidBlockList")),
        };
        let choice = |id: &String| BlockChoice {
            source: BlockSource::Latest,
            id: id.as_bytes().to_vec(),
        };
        let request = PutBlockList {
            blocks: ids.iter().map(choice).collect(),
            ..PutBlockList::default()
        };
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).put_block_list(&to, request);
        if let Some(written) = agree(expected, put) {
            let blocks = blocks.unwrap();
            let bytes = blocks.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            let mut known = known(BlobType::BlockBlob, bytes, written);
            known.blocks = blocks;
            self.replace(at, Some(known), false);
        }
    }

    pub(super) fn put_append_blob(&mut self, at: At) {
        let request = PutAppendBlob::default();
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).put_append_blob(&to, request);
        if let Some(written) = agree(self.may_replace(at), put) {
            let known = known(BlobType::AppendBlob, Vec::new(), written);
            self.replace(at, Some(known), false);
        }
    }

    pub(super) fn append(&mut self, at: At) {
        let mut body = self.random.body();
        body.push(2);
        let request = AppendBlock {
            upload: self.upload(UploadKind::AppendBlock, &body),
            max_size: None,
            append_position: None,
            conditions: Conditions::default(),
        };
        let expected = self.needs(at, BlobType::AppendBlob);
        let expected = expected.and_then(|()| self.may_change(at));
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).append_block(&to, request);
        if let Some(outcome) = agree(expected, put) {
            let known = self.name(at).current.as_mut().unwrap();
            assert_eq!(outcome.offset, known.bytes.len() as u64);
            known.bytes.extend(body);
        }
    }

    pub(super) fn put_page_blob(&mut self, at: At) {
        let pages = 1 + self.random.below(1200) as u64;
        let request = PutPageBlob {
            length: pages * 512,
            ..PutPageBlob::default()
        };
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).put_page_blob(&to, request);
        if let Some(written) = agree(self.may_replace(at), put) {
            let known = known(BlobType::PageBlob, vec![0; pages as usize * 512], written);
            self.replace(at, Some(known), false);
        }
    }

    pub(super) fn put_page(&mut self, at: At) {
        let length = self.known(at).map_or(0, |known| known.bytes.len());
        let start = self.random.below(length / 512 + 1) * 512;
        let end = start + 512 * (1 + self.random.below(300));
        let byte = self.random.below(5) as u8;
        let needs = self.needs(at, BlobType::PageBlob);
        let expected = match needs.and_then(|()| self.may_change(at)) {
            Ok(()) if end > length => Err("InvalidPageRange"),
            other => other,
        };
        let update = match byte {
            0 => PageUpdate::Clear,
            _ => {
                let kind = UploadKind::PutPage {
                    start: start as u64,
                };
                PageUpdate::Update(self.upload(kind, &vec![byte; end - start]))
            }
        };
        let request = PutPage {
            range: start as u64..end as u64,
            update,
            sequence: SequenceConditions::default(),
            conditions: Conditions::default(),
        };
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).put_page(&to, request);
        if agree(expected, put).is_some() {
            let known = self.name(at).current.as_mut().unwrap();
            known.bytes[start..end].fill(byte);
        }
    }

    pub(super) fn resize(&mut self, at: At) {
        let length = self.random.below(1200) * 512;
        let expected = self.needs(at, BlobType::PageBlob);
        let expected = expected.and_then(|()| self.may_change(at));
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let set =
            self.at(self.now)
                .set_page_blob_properties(&to, Some(length as u64), None, None, &none);
        let set = set.map(|(written, _, ticket)| (written, ticket));
        if agree(expected, set).is_some() {
            let known = self.name(at).current.as_mut().unwrap();
            known.bytes.resize(length, 0);
        }
    }
}
