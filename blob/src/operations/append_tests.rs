//! Append blobs: offsets, conditions and limits of appends.

use crate::operations::tests::*;
use crate::*;

impl Store {
    pub(super) fn put_append_blob(&self, name: &str) -> Written {
        let request = PutAppendBlob::default();
        let put = self.at(at(0)).put_append_blob(&address(name), request);
        let (written, ticket) = put.unwrap();
        ticket.wait().unwrap();
        written
    }

    pub(super) fn append(&self, name: &str, body: &[u8]) -> Result<AppendBlockOutcome> {
        self.append_with(name, body, None, None)
    }

    fn append_with(
        &self,
        name: &str,
        body: &[u8],
        append_position: Option<u64>,
        max_size: Option<u64>,
    ) -> Result<AppendBlockOutcome> {
        let request = AppendBlock {
            upload: self.upload(UploadKind::AppendBlock, body),
            max_size,
            append_position,
            conditions: Conditions::default(),
        };
        let (outcome, ticket) = self.at(at(1)).append_block(&address(name), request)?;
        ticket.wait()?;
        Ok(outcome)
    }
}

#[test]
fn appends_return_their_offsets_in_order() {
    let store = store();
    store.put_append_blob("log");
    assert_eq!(store.read("log").unwrap(), b"");
    let bodies = [pattern(10, 1), pattern(40_000, 2), pattern(300, 3)];
    let mut all = Vec::new();
    for (i, body) in bodies.iter().enumerate() {
        let outcome = store.append("log", body).unwrap();
        assert_eq!(outcome.offset, all.len() as u64);
        assert_eq!(outcome.committed_block_count, i as u32 + 1);
        assert!(outcome.checksums.crc64.is_some());
        all.extend_from_slice(body);
    }
    assert_eq!(store.read("log").unwrap(), all);
    let range = ByteRange {
        first: 5,
        last: Some(40_100),
    };
    let part = store.open("log", Some(range)).unwrap();
    assert_eq!(drain(part.body, 999), all[5..=40_100]);
    let blob = store.properties("log").unwrap();
    assert_eq!(
        (blob.blob_type(), blob.committed_block_count()),
        (BlobType::AppendBlob, Some(3))
    );
    store.delete("log").unwrap();
    assert_eq!(store.filed(), (0, 0));
}

#[test]
fn appends_meet_their_conditions() {
    let store = store();
    store.put_append_blob("log");
    store.append("log", b"12345").unwrap();
    let wrong = store.append_with("log", b"6", Some(4), None);
    assert_err!(wrong, Error::AppendPositionConditionNotMet);
    let long = store.append_with("log", b"67", None, Some(6));
    assert_err!(long, Error::MaxBlobSizeConditionNotMet);
    store.append_with("log", b"6", Some(5), Some(6)).unwrap();
    assert_err!(store.append("log", b""), Error::InvalidHeaderValue { .. });
    assert_err!(store.append("none", b"1"), Error::BlobNotFound);
    store.put("block", b"").unwrap();
    assert_err!(store.append("block", b"1"), Error::InvalidBlobType);
    assert_err!(store.put_block("log", "a", b"1"), Error::InvalidBlobType);
    assert_err!(store.commit("log", latest(&[])), Error::InvalidBlobType);
}

#[test]
fn sealed_blob_takes_no_more() {
    let store = store();
    store.put_append_blob("log");
    store.append("log", b"1").unwrap();
    let none = Conditions::default();
    let seal = |position| {
        let sealed = store
            .at(at(2))
            .append_blob_seal(&address("log"), position, &none);
        sealed.map(|(_, ticket)| ticket.wait().unwrap())
    };
    assert_err!(seal(Some(2)), Error::AppendPositionConditionNotMet);
    seal(Some(1)).unwrap();
    seal(None).unwrap();
    assert!(store.properties("log").unwrap().is_sealed());
    assert_err!(store.append("log", b"2"), Error::BlobIsSealed);
    assert_eq!(store.read("log").unwrap(), b"1");
}

#[test]
fn snapshot_of_an_append_blob_does_not_grow() {
    let store = store();
    store.put_append_blob("log");
    let mut snapshots = Vec::new();
    let mut all = Vec::new();
    for i in 0..4 {
        store.append("log", &[i; 3]).unwrap();
        all.extend([i; 3]);
        snapshots.push((store.snapshot("log").unwrap(), all.clone()));
    }
    store.append("log", b"end").unwrap();
    for (moment, body) in &snapshots {
        let state = BlobState::Snapshot(*moment);
        assert_eq!(&store.read_state("log", state).unwrap(), body);
    }
    assert_eq!(store.filed(), (5, 5));
    store.put("log", b"").unwrap();
    assert_eq!(store.filed(), (4, 4), "what no snapshot has is gone");
    for (moment, _) in snapshots {
        let state = BlobState::Snapshot(moment);
        store
            .delete_with("log", state, DeleteBlob::default())
            .unwrap();
    }
    assert_eq!(store.filed(), (0, 0));
}

#[test]
fn append_costs_the_same_however_long_the_blob_is() {
    let store = store();
    store.put_append_blob("log");
    let changes = || store.service.db.stats().last_sequence;
    // These appends move the recorded bound of ETags ahead, which happens once a second.
    for _ in 0..2 {
        store.append("log", b"line\n").unwrap();
    }
    let mut costs = Vec::new();
    for _ in 0..200 {
        let before = changes();
        store.append("log", b"line\n").unwrap();
        costs.push(changes() - before);
    }
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
}

/// Source: Append Block, "Remarks": fifty thousand blocks.
#[test]
fn append_blob_takes_fifty_thousand_blocks_and_no_more() {
    let store = store();
    store.put_append_blob("log");
    for _ in 0..50_000 {
        store.append("log", b"x").unwrap();
    }
    let full = store.append("log", b"x");
    assert_err!(
        full,
        Error::BlockCountExceedsLimit {
            which: "committed",
            limit: 50_000
        }
    );
    assert_eq!(store.read("log").unwrap().len(), 50_000);
}

#[test]
fn appends_between_snapshots_leave_few_layers_and_every_snapshot_as_it_was() {
    let store = store();
    store.put_append_blob("log");
    let mut all = Vec::new();
    let mut snapshots = Vec::new();
    let mut most = 0;
    for number in 0..1500_usize {
        // Some of the bodies lie in the value log.
        let body = pattern([3, 5000, 40][number % 3], number as u8);
        store.append("log", &body).unwrap();
        all.extend(body);
        snapshots.push((store.snapshot("log").unwrap(), all.len()));
        most = most.max(store.properties("log").unwrap().layers.len());
    }
    assert!(most <= 40, "{most}");
    assert_eq!(store.read("log").unwrap(), all);
    for (moment, length) in snapshots.iter().step_by(97) {
        let state = BlobState::Snapshot(*moment);
        assert_eq!(store.read_state("log", state).unwrap(), &all[..*length]);
    }
    for (moment, _) in snapshots {
        let state = BlobState::Snapshot(moment);
        store
            .delete_with("log", state, DeleteBlob::default())
            .unwrap();
    }
    assert_eq!(
        store.filed(),
        (1500, 1500),
        "nothing is left of what was copied"
    );
    assert_eq!(store.read("log").unwrap(), all);
    store.delete("log").unwrap();
    store.at(at(9)).sweep(10_000).unwrap();
    store.empty();
}
