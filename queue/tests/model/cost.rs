//! The work per operation, counted in rows, does not grow with the number of messages that a queue
//! holds or has held.

use crate::store::{ACCOUNT, QUEUE, Store, scale};
use lazurite_queue::GetMessages;

/// Number of rows that `operation` examines.
fn rows<T>(store: &Store, operation: impl FnOnce(&Store) -> T) -> u64 {
    let before = store.service.rows_examined();
    operation(store);
    store.service.rows_examined() - before
}

#[test]
fn get_examines_only_the_rows_that_it_returns_at_any_depth() {
    let depth = scale("LAZURITE_QUEUE_DEPTH", 5_000);
    let store = Store::with_queue();
    for number in 0..depth {
        store.put(&number.to_string());
    }
    for _ in 0..depth / 4 {
        let one = rows(&store, |store| {
            let got = store.get(1, 604_800).remove(0);
            store.delete(&got.message_id, &got.pop_receipt).unwrap();
        });
        assert_eq!(one, 1);
        assert_eq!(rows(&store, |store| store.peek(2)), 2);
    }
    assert_eq!(rows(&store, |store| store.get(32, 604_800)), 32);
    assert_eq!(
        rows(&store, |store| assert_eq!(store.count(), depth - depth / 4)),
        0
    );
}

#[test]
fn polling_a_queue_where_nothing_is_due_reads_nothing() {
    let store = Store::with_queue();
    for _ in 0..100 {
        store.put_with("later", None, Some(600)).unwrap();
    }
    for _ in 0..10 {
        store.pass(1);
        assert_eq!(rows(&store, |store| (store.get(1, 30), store.peek(32))), 0);
    }
    store.pass(590);
    assert_eq!(
        rows(&store, |store| assert_eq!(store.get(5, 30).len(), 5)),
        5
    );
}

#[test]
fn get_does_not_read_hidden_messages() {
    let store = Store::with_queue();
    for number in 0..100 {
        store.put(&number.to_string());
    }
    while !store.get(32, 600).is_empty() {}
    for _ in 0..10 {
        store.pass(1);
        store.put("due");
        let got = rows(&store, |store| assert_eq!(store.get(32, 600).len(), 1));
        assert_eq!(got, 1);
    }
}

#[test]
fn expired_messages_are_skipped_once_and_subtracted_until_they_are_swept() {
    let expired = 2_000;
    let store = Store::with_queue();
    for _ in 0..expired {
        store.put_with("short", Some(10), None).unwrap();
    }
    store.put("long");
    store.pass(10);
    assert_eq!(rows(&store, |store| store.peek(1)), expired + 1);
    assert_eq!(rows(&store, |store| store.peek(1)), 1);
    assert_eq!(rows(&store, |store| assert_eq!(store.count(), 1)), expired);
    assert_eq!(
        rows(&store, |store| assert_eq!(store.get(32, 30).len(), 1)),
        1
    );
    assert_eq!(store.sweep(), expired);
    assert_eq!(rows(&store, |store| assert_eq!(store.count(), 1)), 0);
    assert!(rows(&store, |store| store.sweep()) <= 1);
}

#[test]
fn clear_costs_the_same_for_a_queue_of_any_size() {
    let store = Store::with_queue();
    for _ in 0..1_000 {
        store.put("x");
    }
    assert_eq!(
        rows(&store, |store| store
            .service
            .clear_messages(ACCOUNT, QUEUE)
            .unwrap()),
        0
    );
    assert_eq!(
        rows(&store, |store| assert!(store.get(32, 30).is_empty())),
        0
    );
}

#[test]
fn expired_messages_are_skipped_in_bounded_steps() {
    let (step, expired) = (4_000, 14_000);
    let store = Store::with_queue();
    for _ in 0..expired {
        store.put_with("short", Some(10), None).unwrap();
    }
    store.put("long");
    store.pass(10);
    let peek = |store: &Store| {
        let peeked = store.service.peek_messages_step(ACCOUNT, QUEUE, Some(1));
        peeked.unwrap().map(|messages| messages.len())
    };
    let get = |store: &Store| {
        let wanted = GetMessages::default();
        let got = store.service.get_messages_step(ACCOUNT, QUEUE, wanted);
        got.unwrap().map(|(messages, _)| messages.len())
    };
    assert_eq!(rows(&store, |store| assert_eq!(peek(store), None)), step);
    assert_eq!(rows(&store, |store| assert_eq!(get(store), None)), step);
    // A message that is put between two steps is found.
    let put = store.put("meanwhile");
    assert_eq!(rows(&store, |store| assert_eq!(get(store), None)), step);
    assert_eq!(rows(&store, |store| assert_eq!(get(store), Some(1))), 2_001);
    assert_eq!(store.get(32, 30)[0].message_id, put.message_id);
    assert_eq!(rows(&store, |store| assert_eq!(get(store), Some(0))), 0);
}

#[test]
fn sweep_leaves_no_tombstones_before_the_head() {
    let expired = 12_000;
    let store = Store::with_queue();
    for _ in 0..expired {
        store.put_with("short", Some(10), None).unwrap();
    }
    store.put("long");
    store.pass(10);
    assert_eq!(store.sweep(), expired);
    assert_eq!(
        rows(&store, |store| assert_eq!(store.get(1, 30).len(), 1)),
        1
    );
}
