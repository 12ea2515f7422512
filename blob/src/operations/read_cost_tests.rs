//! Costs of reading blobs of many small parts, compared with one body.

use crate::operations::page_model_tests::random;
use crate::operations::tests::*;
use lazurite_engine::{Config, Db, RandomIds};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PART: usize = 512;

/// Makes blobs of the same bytes: put whole, appended, as a block list, and as pages written in any
/// order.
fn four_blobs(store: &Store, parts: usize) {
    let body = pattern(parts * PART, 3);
    store.put("whole", &body).unwrap();
    store.put_append_blob("appended");
    let id = |part: usize| format!("{part:08}");
    for (part, bytes) in body.chunks(PART).enumerate() {
        store.append("appended", bytes).unwrap();
        store.put_block("blocks", &id(part), bytes).unwrap();
    }
    let ids: Vec<String> = (0..parts).map(id).collect();
    let ids: Vec<&str> = ids.iter().map(|id| &id[..]).collect();
    store.commit("blocks", latest(&ids)).unwrap();
    store.put_page_blob("pages", body.len() as u64);
    let (mut order, mut seed): (Vec<usize>, _) = ((0..parts).collect(), 1);
    for left in (1..parts).rev() {
        order.swap(left, random(&mut seed, left as u64 + 1) as usize);
    }
    for part in order {
        let start = part * PART;
        let bytes = &body[start..start + PART];
        store.put_page("pages", start as u64, bytes).unwrap();
    }
}

fn store_with_random_ids() -> Store {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let store = Store::over_with(&db, directory, Arc::new(RandomIds));
    store.create(CONTAINER).unwrap();
    store
}

#[test]
fn small_parts_are_read_together_from_wherever_the_read_begins() {
    let store = store_with_random_ids();
    let parts = 1500;
    four_blobs(&store, parts);
    let body = store.read("whole").unwrap();
    let mut seed = 5;
    for name in ["appended", "blocks", "pages"] {
        assert!(store.read(name).unwrap() == body, "{name}");
        let mut chunks = Vec::new();
        let mut reader = store.open(name, None).unwrap().body;
        while let Some(chunk) = reader.next_chunk(1 << 20).unwrap() {
            chunks.push(chunk.len());
        }
        assert_eq!(chunks, [256 << 10, 256 << 10, parts * PART - (512 << 10)]);
        for _ in 0..50 {
            let first = random(&mut seed, body.len() as u64);
            let last = first + random(&mut seed, 70_000);
            let part = store.open(name, range(first, Some(last))).unwrap();
            let end = body.len().min(last as usize + 1);
            let bytes_max = 1 + random(&mut seed, 5000) as usize;
            assert!(drain(part.body, bytes_max) == body[first as usize..end]);
            let mut slow = store.open(name, range(first, Some(last))).unwrap().body;
            let mut read = Vec::new();
            while let Some(chunk) = slow.next_chunk(bytes_max * 7).unwrap() {
                read.extend_from_slice(&chunk);
                slow.release();
            }
            assert!(read == body[first as usize..end]);
        }
    }
}

/// Run with `cargo test -p lazurite-blob reading_blobs_of_small_parts -- --ignored --nocapture`.
#[test]
#[ignore = "it measures, and asserts nothing"]
fn reading_blobs_of_small_parts() {
    let store = store_with_random_ids();
    four_blobs(&store, 20_000);
    let read = |name: &str| -> Duration {
        let start = Instant::now();
        let mut body = store.open(name, None).unwrap().body;
        while body.next_chunk(512 << 10).unwrap().is_some() {}
        start.elapsed()
    };
    for name in ["whole", "appended", "blocks", "pages"] {
        let best = (0..20).map(|_| read(name)).min().unwrap();
        println!("{name:10} {best:?}");
    }
}
