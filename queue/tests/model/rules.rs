//! Single rules of the protocol, one sentence each.

use crate::store::{ACCOUNT, QUEUE, Store, acknowledged, done};
use lazurite_base::wall_clock::{ClockSteps, ManualWallClock, SystemWallClock, WallClock};
use lazurite_engine::fs::{Failure, Fault, Keep, Operation};
use lazurite_engine::{CountingIds, Durability, IdSource};
use lazurite_queue::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

#[test]
fn text_of_any_characters_round_trips() {
    let store = Store::with_queue();
    let texts = ["", " \t\r\n ", "<&>", "👋🏽 ünïcödé", "\u{0}"];
    for text in texts {
        store.put(text);
    }
    let got: Vec<_> = store.get(32, 30).into_iter().map(|m| m.text).collect();
    assert_eq!(got, texts);
}

#[test]
fn text_of_64_kib_is_accepted_and_one_byte_more_is_refused() {
    let store = Store::with_queue();
    let most = "x".repeat(65_536);
    let put = store.put(&most);
    let over = "x".repeat(65_537);
    for refused in [
        store.put_with(&over, None, None).map(drop),
        store
            .update(&put.message_id, &put.pop_receipt, 0, Some(&over))
            .map(drop),
    ] {
        assert!(matches!(
            refused,
            Err(Error::RequestBodyTooLarge { limit: 65_536 })
        ));
    }
    assert_eq!(store.peek(1)[0].text, most);
    let other = "y".repeat(65_536);
    let updated = store.update(&put.message_id, &put.pop_receipt, 0, Some(&other));
    updated.unwrap();
    assert_eq!(store.peek(1)[0].text, other);
}

#[test]
fn receipt_of_put_is_valid_until_a_consumer_takes_the_message() {
    let store = Store::with_queue();
    let hidden = store.put_with("a", None, Some(60)).unwrap();
    assert!(
        store
            .delete(&hidden.message_id, &hidden.pop_receipt)
            .is_ok()
    );
    let taken = store.put("b");
    let got = store.get(1, 5);
    let old = store.delete(&taken.message_id, &taken.pop_receipt);
    assert!(matches!(old, Err(Error::PopReceiptMismatch)));
    store.pass(6);
    assert!(
        store
            .delete(&got[0].message_id, &got[0].pop_receipt)
            .is_ok(),
        "no other consumer took it"
    );
    assert_eq!(store.count(), 0);
}

#[test]
fn late_delete_with_an_old_receipt_leaves_the_message_to_its_new_consumer() {
    let store = Store::with_queue();
    store.put("a");
    let first = store.get(1, 10).remove(0);
    store.pass(11);
    let second = store.get(1, 10).remove(0);
    assert_eq!(second.dequeue_count, 2);
    let late = store.delete(&first.message_id, &first.pop_receipt);
    assert!(matches!(late, Err(Error::PopReceiptMismatch)));
    assert!(
        store
            .delete(&second.message_id, &second.pop_receipt)
            .is_ok()
    );
    let gone = store.delete(&second.message_id, &second.pop_receipt);
    assert!(matches!(gone, Err(Error::MessageNotFound)));
}

#[test]
fn malformed_receipts_and_wrong_receipts_get_different_errors() {
    let store = Store::with_queue();
    let put = store.put("a");
    for receipt in [
        "",
        "AgAAAAMAAAAAAAAALNdCOVDq2AE=",
        "a0",
        "a00000000000000zz",
    ] {
        assert!(matches!(
            store.delete(&put.message_id, receipt),
            Err(Error::InvalidQueryParameterValue { name: "popreceipt", value, reason: "Invalid pop receipt format." })
                if value == receipt
        ));
    }
    let unknown = "00000000-0000-7000-8000-000000000000";
    for id in [unknown, "not-a-guid", ""] {
        let refused = store.delete(id, &put.pop_receipt);
        assert!(matches!(refused, Err(Error::MessageNotFound)));
    }
    assert!(
        store
            .delete(&put.message_id.to_uppercase(), &put.pop_receipt)
            .is_ok()
    );
}

#[test]
fn update_without_text_keeps_the_text_and_with_empty_text_clears_it() {
    let store = Store::with_queue();
    let put = store.put("a");
    let update = store
        .update(&put.message_id, &put.pop_receipt, 0, None)
        .unwrap();
    assert_eq!(store.peek(1)[0].text, "a");
    store
        .update(&put.message_id, &update.pop_receipt, 0, Some(""))
        .unwrap();
    assert_eq!(store.peek(1)[0].text, "");
    let dead = store.update(&put.message_id, &update.pop_receipt, 0, None);
    assert!(matches!(dead, Err(Error::PopReceiptMismatch)));
}

#[test]
fn message_released_by_update_is_visible_at_once_and_its_receipt_stays_valid() {
    let store = Store::with_queue();
    store.put("a");
    let got = store.get(1, 600).remove(0);
    assert!(store.peek(1).is_empty());
    let back = store
        .update(&got.message_id, &got.pop_receipt, 0, None)
        .unwrap();
    assert_eq!(store.peek(1)[0].dequeue_count, 1);
    assert!(store.delete(&got.message_id, &back.pop_receipt).is_ok());
}

#[test]
fn expired_message_disappears_from_every_operation_at_the_same_instant() {
    for swept in [false, true] {
        let store = Store::with_queue();
        store.put_with("a", Some(10), None).unwrap();
        store.put_with("b", Some(10), None).unwrap();
        let held = store.get(1, 5).remove(0);
        store.clock.advance(Duration::from_nanos(9_999_999_900));
        assert_eq!((store.count(), store.peek(32).len()), (2, 2));
        store.clock.advance(Duration::from_nanos(100));
        if swept {
            assert_eq!(store.sweep(), 2);
        }
        assert_eq!(
            (store.count(), store.peek(32).len(), store.get(32, 1).len()),
            (0, 0, 0)
        );
        let late = store.delete(&held.message_id, &held.pop_receipt);
        assert!(matches!(late, Err(Error::MessageNotFound)));
        let late = store.update(&held.message_id, &held.pop_receipt, 0, None);
        assert!(matches!(late, Err(Error::MessageNotFound)));
        assert_eq!(store.sweep(), if swept { 0 } else { 2 });
        assert_eq!(store.count(), 0);
    }
}

#[test]
fn get_may_hide_a_message_beyond_its_expiry() {
    let store = Store::with_queue();
    store.put_with("a", Some(10), None).unwrap();
    let got = store.get(1, 604_800).remove(0);
    assert!(got.visible_at > got.expires_at);
    store.pass(10);
    assert_eq!(store.count(), 0);
}

#[test]
fn messages_put_at_one_instant_keep_their_order_across_a_restart() {
    let mut store = Store::with_queue();
    for text in ["0", "1", "2"] {
        store.put(text);
    }
    store.reopen();
    store.put("3");
    let texts = |store: &Store| -> Vec<String> {
        store
            .get(32, 7)
            .into_iter()
            .map(|message| message.text)
            .collect()
    };
    assert_eq!(texts(&store), ["0", "1", "2", "3"]);
    store.pass(7);
    assert_eq!(
        texts(&store),
        ["0", "1", "2", "3"],
        "all became visible at one instant"
    );
}

#[test]
fn invisibility_receipts_and_counts_survive_a_restart() {
    let mut store = Store::with_queue();
    store.put("a");
    store.put("b");
    let got = store.get(1, 30).remove(0);
    store.reopen();
    assert_eq!(store.count(), 2);
    assert_eq!(store.peek(32).len(), 1);
    store.pass(30);
    assert_eq!(
        store.peek(32).iter().map(|m| m.dequeue_count).max(),
        Some(1)
    );
    assert!(store.delete(&got.message_id, &got.pop_receipt).is_ok());
    assert_eq!(store.count(), 1);
}

#[test]
fn recreated_queue_is_empty_and_refuses_old_messages() {
    let store = Store::with_queue();
    let put = store.put("a");
    drop(store.service.delete_queue(ACCOUNT, QUEUE).unwrap());
    assert!(matches!(
        store.put_with("b", None, None),
        Err(Error::QueueNotFound)
    ));
    assert_eq!(store.create(QUEUE).unwrap(), Creation::Created);
    assert_eq!(store.count(), 0);
    let old = store.delete(&put.message_id, &put.pop_receipt);
    assert!(matches!(old, Err(Error::MessageNotFound)));
}

#[test]
fn clear_removes_hidden_messages_and_keeps_metadata_and_policies() {
    let store = Store::new();
    let metadata: Metadata = vec![("Color".into(), "red".into())];
    drop(
        store
            .service
            .create_queue(ACCOUNT, QUEUE, metadata.clone())
            .unwrap(),
    );
    let policies = vec![StoredPolicy {
        id: "pol".into(),
        start: Some(store.now()),
        expiry: None,
        permission: Some("ra".into()),
    }];
    drop(
        store
            .service
            .set_queue_acl(ACCOUNT, QUEUE, policies.clone())
            .unwrap(),
    );
    store.put("a");
    store.put("b");
    store.get(1, 60);
    drop(store.service.clear_messages(ACCOUNT, QUEUE).unwrap());
    assert_eq!(store.get(32, 1), []);
    let properties = store.service.get_queue_metadata(ACCOUNT, QUEUE).unwrap();
    assert_eq!(
        properties,
        QueueProperties {
            metadata,
            approximate_message_count: 0
        }
    );
    assert_eq!(
        store.service.get_queue_acl(ACCOUNT, QUEUE).unwrap(),
        policies
    );
}

#[test]
fn accounts_are_isolated() {
    let store = Store::with_queue();
    store.put("a");
    assert!(matches!(
        store.service.peek_messages("other", QUEUE, None),
        Err(Error::QueueNotFound)
    ));
    let page = store
        .service
        .list_queues("devstoreaccount", ListQueues::default())
        .unwrap();
    assert!(page.queues.is_empty());
}

#[test]
fn marker_of_another_account_is_refused_and_marker_past_the_end_lists_nothing() {
    let store = Store::with_queue();
    let list = |marker: &str| {
        let request = ListQueues {
            marker,
            ..ListQueues::default()
        };
        store.service.list_queues(ACCOUNT, request)
    };
    for marker in ["orders", "/other/orders", "/devstoreaccount1"] {
        assert!(
            matches!(list(marker), Err(Error::InvalidMarker)),
            "{marker}"
        );
    }
    assert_eq!(list("/devstoreaccount1/orders").unwrap().queues.len(), 1);
    assert!(list("/devstoreaccount1/z").unwrap().queues.is_empty());
    let request = ListQueues {
        maxresults: Some(5001),
        ..ListQueues::default()
    };
    assert!(matches!(
        store.service.list_queues(ACCOUNT, request),
        Err(Error::OutOfRangeQueryParameterValue {
            name: "maxresults",
            maximum: 5000,
            ..
        })
    ));
}

#[test]
fn every_operation_checks_the_queue_name() {
    let store = Store::new();
    let long = "q".repeat(70_000);
    assert!(matches!(
        store.create("Capital"),
        Err(Error::InvalidResourceName)
    ));
    assert!(matches!(
        store.service.peek_messages(ACCOUNT, &long, None),
        Err(Error::OutOfRangeInput)
    ));
    assert!(matches!(
        store.service.get_queue_acl(ACCOUNT, "a"),
        Err(Error::OutOfRangeInput)
    ));
    let request = ListQueues {
        prefix: &long,
        ..ListQueues::default()
    };
    assert!(
        store
            .service
            .list_queues(ACCOUNT, request)
            .unwrap()
            .queues
            .is_empty()
    );
}

#[test]
fn service_properties_are_kept_by_account_across_a_restart() {
    let mut store = Store::new();
    assert_eq!(store.service.get_service_properties(ACCOUNT).unwrap(), None);
    drop(
        store
            .service
            .set_service_properties(ACCOUNT, b"<xml/>")
            .unwrap(),
    );
    store.reopen();
    let read = |account| store.service.get_service_properties(account).unwrap();
    assert_eq!(read(ACCOUNT).as_deref(), Some(&b"<xml/>"[..]));
    assert_eq!(read("other"), None);
}

#[test]
fn restart_with_an_earlier_clock_hides_no_message_for_good() {
    let mut store = Store::with_queue();
    let noon = store.now();
    store.put("a");
    assert_eq!(store.get(1, 30).len(), 1);
    assert!(store.get(1, 30).is_empty());
    store.reopen_at(noon - Duration::from_secs(3600));
    store.put("b");
    assert_eq!(store.get(32, 30)[0].text, "b");
    store.pass(30);
    assert_eq!(
        store.get(32, 30)[0].text,
        "b",
        "its hour passes on the clock as it is now"
    );
    store.clock.set(noon + Duration::from_secs(31));
    assert_eq!(store.get(32, 30).len(), 2);
    assert_eq!(store.count(), 2);
}

#[test]
fn restart_with_a_clock_before_an_expiry_keeps_all_operations_consistent() {
    let mut store = Store::with_queue();
    let noon = store.now();
    let hour = Duration::from_secs(3600);
    let count_and_peek = |store: &Store| (store.count(), store.peek(32).len());
    store.put_with("a", Some(7200), None).unwrap();
    store.clock.set(noon + 2 * hour);
    assert_eq!(count_and_peek(&store), (0, 0));
    store.reopen_at(noon);
    assert_eq!(count_and_peek(&store), (1, 1), "not expired any more");
    store.reopen_at(noon - hour);
    store.put_with("b", Some(3601), None).unwrap();
    assert_eq!(count_and_peek(&store), (2, 1), "a is visible from noon on");
    store.clock.set(noon);
    assert_eq!(count_and_peek(&store), (2, 2));
    store.pass(1);
    assert_eq!(count_and_peek(&store), (1, 1), "b expired");
}

/// Ids that are produced only while the test does not hold the gate.
#[derive(Debug, Default)]
struct GatedIds {
    ids: CountingIds,
    gate: Mutex<()>,
    asked: AtomicU64,
}

impl IdSource for GatedIds {
    fn next_id(&self) -> u128 {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let _open = self.gate.lock().unwrap();
        self.ids.next_id()
    }
}

/// Wraps a clock or a source of ids, and panics at its next use when armed.
#[derive(Debug)]
struct PanicOnDemand<T> {
    inner: T,
    is_armed: AtomicBool,
}

impl<T> PanicOnDemand<T> {
    fn new(inner: T) -> Arc<PanicOnDemand<T>> {
        let is_armed = AtomicBool::new(false);
        Arc::new(PanicOnDemand { inner, is_armed })
    }

    fn inner(&self) -> &T {
        assert!(!self.is_armed.swap(false, Ordering::SeqCst), "armed");
        &self.inner
    }

    /// Runs an operation that must panic because it uses the wrapped value.
    fn panics_in<R>(&self, operation: impl FnOnce() -> R) {
        self.is_armed.store(true, Ordering::SeqCst);
        let outcome = catch_unwind(AssertUnwindSafe(operation));
        assert!(
            outcome.is_err(),
            "the operation does not use the wrapped value"
        );
    }
}

impl IdSource for PanicOnDemand<CountingIds> {
    fn next_id(&self) -> u128 {
        self.inner().next_id()
    }
}

impl WallClock for PanicOnDemand<Arc<ManualWallClock>> {
    fn now(&self) -> SystemTime {
        self.inner().now()
    }
}

#[test]
fn panics_under_a_lock_do_not_corrupt_later_results() {
    let ids = PanicOnDemand::new(CountingIds::default());
    let mut store = Store::with_ids(ids.clone());
    let clock = PanicOnDemand::new(store.clock.clone());
    store.open_with_clock(clock.clone());
    store.create(QUEUE).unwrap();
    for text in ["a", "b", "c"] {
        store.put(text);
    }
    let held = store.get(1, 600).remove(0);
    let (id, receipt) = (&held.message_id, &held.pop_receipt);
    for _ in 0..10 {
        ids.panics_in(|| store.put("lost"));
        clock.panics_in(|| store.put("lost"));
        ids.panics_in(|| store.get(1, 600));
        clock.panics_in(|| store.get(1, 600));
        clock.panics_in(|| store.peek(1));
        ids.panics_in(|| store.update(id, receipt, 600, None));
        clock.panics_in(|| store.update(id, receipt, 600, None));
        clock.panics_in(|| store.delete(id, receipt));
        clock.panics_in(|| store.count());
        clock.panics_in(|| store.sweep());
        ids.panics_in(|| store.service.clear_messages(ACCOUNT, QUEUE));
        ids.panics_in(|| store.create("another"));
    }
    assert_eq!(store.count(), 3);
    let texts: Vec<_> = store.get(32, 600).into_iter().map(|m| m.text).collect();
    assert_eq!(texts, ["b", "c"]);
    store.delete(id, receipt).unwrap();
    assert_eq!(store.count(), 2);
    assert_eq!(store.create("another").unwrap(), Creation::Created);
}

#[test]
fn timeout_starts_after_the_wait_for_another_operation() {
    let ids = Arc::new(GatedIds::default());
    let store = Store::with_ids(ids.clone());
    store.create(QUEUE).unwrap();
    let put = store.put("held");
    store.put("taken");
    std::thread::scope(|scope| {
        // The closed gate delays a consumer that holds the lock of the queue.
        let closed = ids.gate.lock().unwrap();
        let asked = ids.asked.load(Ordering::SeqCst);
        let taking = scope.spawn(|| store.get(1, 600));
        while ids.asked.load(Ordering::SeqCst) == asked {
            std::thread::yield_now();
        }
        let waiting = scope.spawn(|| store.get(1, 5));
        std::thread::sleep(Duration::from_millis(50));
        store.pass(60);
        let now = store.now();
        drop(closed);
        assert_eq!(taking.join().unwrap()[0].message_id, put.message_id);
        let late = waiting.join().unwrap().remove(0);
        assert_eq!(late.visible_at, now + Duration::from_secs(5));
    });
}

#[test]
fn range_delete_over_consumed_messages_spares_the_remaining_ones() {
    let mut store = Store::with_queue();
    for number in 0..10_040 {
        store
            .put_with(&number.to_string(), Some(600), None)
            .unwrap();
    }
    let kept = store.get(20, 30);
    for _ in 0..500 {
        for message in store.get(20, 60) {
            store
                .delete(&message.message_id, &message.pop_receipt)
                .unwrap();
        }
    }
    assert_eq!(store.sweep(), 0);
    store.reopen();
    assert_eq!(store.count(), 40);
    assert_eq!(store.get(32, 30)[0].text, "10020", "the first never taken");
    store.pass(30);
    let again: Vec<_> = store
        .get(20, 30)
        .into_iter()
        .map(|m| m.message_id)
        .collect();
    let before: Vec<_> = kept.into_iter().map(|m| m.message_id).collect();
    assert_eq!(again, before, "the messages whose visibility timeout ended");
    store.pass(600);
    assert_eq!(store.sweep(), 40);
    assert_eq!(store.count(), 0);
}

#[test]
fn range_delete_over_consumed_rows_keeps_expired_messages_whole() {
    let mut store = Store::with_queue();
    let start = store.now();
    for _ in 0..12_000 {
        store.put_with("x", Some(10), None).unwrap();
    }
    store.pass(10);
    assert!(store.get(1, 30).is_empty());
    let mut removed = 0;
    while removed < 10_500 {
        removed += acknowledged(store.service.sweep()).unwrap().removed;
    }
    assert!(removed < 12_000, "some are left for the next call");
    store.reopen_at(start);
    let mut delivered = 0;
    loop {
        let messages = store.get(32, 9).len() as u64;
        if messages == 0 {
            break;
        }
        delivered += messages;
    }
    assert_eq!(
        (store.count(), delivered),
        (12_000 - removed, 12_000 - removed)
    );
    store.check_rows();
}

/// Puts a message into `queue` that expires after `ttl_seconds`.
fn put_expiring(store: &Store, queue: &str, ttl_seconds: i64) {
    let request = PutMessage {
        ttl_seconds: Some(ttl_seconds),
        ..PutMessage::default()
    };
    drop(store.service.put_message(ACCOUNT, queue, request).unwrap());
}

/// Sweeps as the server does, about once a second and again at once while more is left, until
/// `messages` were removed. Checks that this takes at most five seconds, and returns the number of
/// sweeps.
fn sweep_within_five_seconds(store: &Store, messages: u64) -> usize {
    let (mut removed, mut seconds, mut sweeps) = (0, 0, 0);
    while removed < messages {
        let sweep = acknowledged(store.service.sweep()).unwrap();
        removed += sweep.removed;
        sweeps += 1;
        if !sweep.more {
            seconds += 1;
            store.pass(1);
        }
        assert!(seconds <= 5, "{removed} of {messages} removed");
    }
    sweeps
}

#[test]
fn expired_messages_of_many_queues_are_removed_as_fast_as_those_of_one() {
    let mut store = Store::new();
    let queues: Vec<_> = (0..640).map(|number| format!("queue-{number}")).collect();
    for queue in &queues {
        store.create(queue).unwrap();
    }
    for restart in [false, true] {
        for number in 0..20_000 {
            // Most of the messages are in one queue.
            let queue = if number % 4 == 0 { number % 640 } else { 77 };
            put_expiring(&store, &queues[queue], 1);
        }
        store.pass(2);
        if restart {
            store.reopen();
        }
        // The server calls again at once while more is left, and a call takes some tens of
        // milliseconds at most.
        let sweeps = sweep_within_five_seconds(&store, 20_000);
        assert!(sweeps <= 120, "{sweeps} sweeps");
    }
}

#[test]
fn expired_messages_of_more_queues_than_fit_in_memory_are_removed_at_once() {
    let store = Store::new();
    let queues: Vec<_> = (0..20_000)
        .map(|number| format!("queue-{number}"))
        .collect();
    for queue in &queues {
        store.create(queue).unwrap();
        put_expiring(&store, queue, 1);
    }
    store.pass(2);
    sweep_within_five_seconds(&store, 20_000);
    // The sweeps before the expiry find nothing, and look at each queue only a little ahead.
    for queue in &queues {
        put_expiring(&store, queue, 60);
    }
    for _ in 0..59 {
        assert_eq!(store.sweep(), 0);
        store.pass(1);
    }
    store.pass(2);
    sweep_within_five_seconds(&store, 20_000);
}

/// A store whose clock is the system's, with steps that the test makes.
fn with_stepped_clock() -> (Store, Arc<ClockSteps>) {
    let steps = Arc::new(ClockSteps::default());
    let mut store = Store::new();
    store.open_with_clock(Arc::new(SystemWallClock::with_steps(steps.clone())));
    store.create(QUEUE).unwrap();
    // The clock is now in use: what follows is a step, not its initial time.
    assert!(store.get(1, 1).is_empty());
    (store, steps)
}

/// Gets a message, waiting long enough for a timeout of one second to end, even on a clock at half
/// speed.
fn get_soon(store: &Store) -> Option<DequeuedMessage> {
    for _ in 0..50 {
        if let Some(message) = store.get(1, 30).pop() {
            return Some(message);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    None
}

#[test]
fn system_clock_set_back_loses_no_message_and_shows_no_hidden_one() {
    for seconds in [-40, 40] {
        let (store, steps) = with_stepped_clock();
        store.put("renewed");
        let held = store.get(1, 30).remove(0);
        steps.step(seconds);
        store.put_with("hidden", None, Some(20)).unwrap();
        assert!(
            store.get(32, 30).is_empty(),
            "{seconds}: shown while hidden"
        );
        let (id, receipt) = (&held.message_id, &held.pop_receipt);
        let renewed = store.update(id, receipt, 30, None).unwrap();
        assert!(store.get(32, 30).is_empty(), "{seconds}: delivered twice");
        store.put_with("short", Some(15), None).unwrap();
        assert_eq!(store.count(), 3, "{seconds}");
        assert_eq!(store.peek(32)[0].text, "short", "{seconds}");
        assert_eq!(store.get(32, 1)[0].text, "short", "{seconds}: lost");
        assert!(store.get(32, 1).is_empty(), "{seconds}: delivered twice");
        // A step forward that lasts for ten seconds is followed.
        steps.step(-seconds.max(0));
        assert_eq!(get_soon(&store).unwrap().text, "short", "{seconds}");
        store.delete(id, &renewed.pop_receipt).unwrap();
        store.put_with("later", None, Some(1)).unwrap();
        assert_eq!(get_soon(&store).unwrap().text, "later", "{seconds}");
        assert_eq!(store.count(), 3, "{seconds}");
    }
}

#[test]
fn system_clock_that_is_ahead_for_a_moment_hides_messages_no_longer() {
    let (store, steps) = with_stepped_clock();
    store.put("a");
    steps.step(50);
    assert_eq!(store.get(1, 1).len(), 1);
    steps.step(-50);
    assert_eq!(get_soon(&store).unwrap().text, "a");
}

#[test]
fn counts_and_receipts_stay_correct_after_the_disk_was_full() {
    let mut store = Store::crashable(Durability::Disk);
    store.create(QUEUE).unwrap();
    let kept = store.put("a");
    store.faults.as_ref().unwrap().set(Some(Fault {
        operation: Some(Operation::Write),
        path: String::new(),
        nth: 1,
        failure: Failure::Error(std::io::ErrorKind::StorageFull),
        sticky: true,
    }));
    for _ in 0..3 {
        assert!(matches!(
            store.put_with("b", None, None),
            Err(Error::Engine(_))
        ));
        let delete = store.delete(&kept.message_id, &kept.pop_receipt);
        assert!(matches!(delete, Err(Error::Engine(_))));
        assert_eq!(store.peek(32).len(), 1);
        assert_eq!(store.count(), 1);
    }
    store.crash(1, Keep::Prefix);
    assert_eq!((store.count(), store.peek(32).len()), (1, 1));
    store.delete(&kept.message_id, &kept.pop_receipt).unwrap();
    store.put("c");
    assert_eq!((store.count(), store.peek(32)[0].text.as_str()), (1, "c"));
}

#[test]
fn operations_that_found_the_disk_full_left_the_queue_as_it_was() {
    let store = Store::crashable(Durability::Process);
    store.create(QUEUE).unwrap();
    store.put("a");
    store.put_with("short", Some(100), None).unwrap();
    let taken = store.get(1, 60).remove(0);
    let disk = store.faults.as_ref().unwrap();
    let full = Fault {
        operation: Some(Operation::Write),
        path: ".wal".into(),
        nth: 1,
        failure: Failure::Error(std::io::ErrorKind::StorageFull),
        sticky: true,
    };
    let service = &store.service;
    let (id, receipt) = (&taken.message_id, &taken.pop_receipt);
    let operations: [(&str, &dyn Fn() -> Result<()>); 9] = [
        ("put", &|| store.put_with("b", None, None).map(drop)),
        ("get", &|| {
            acknowledged(service.get_messages(ACCOUNT, QUEUE, GetMessages::default())).map(drop)
        }),
        ("update", &|| store.update(id, receipt, 5, None).map(drop)),
        ("delete", &|| store.delete(id, receipt)),
        ("clear", &|| done(service.clear_messages(ACCOUNT, QUEUE))),
        ("create", &|| store.create("another").map(drop)),
        ("set", &|| {
            let metadata = vec![("name".to_owned(), "value".to_owned())];
            done(service.set_queue_metadata(ACCOUNT, QUEUE, metadata))
        }),
        ("delete the queue", &|| {
            done(service.delete_queue(ACCOUNT, QUEUE))
        }),
        ("create again", &|| store.create("another").map(drop)),
    ];
    for (name, operation) in operations {
        disk.set(Some(full.clone()));
        let refused = operation();
        assert!(matches!(refused, Err(Error::Engine(_))), "{name}");
        assert_eq!((store.peek(32).len(), store.count()), (1, 2), "{name}");
        disk.set(None);
        assert_eq!((store.peek(32).len(), store.count()), (1, 2), "{name}");
    }
    assert_eq!(store.create("another").unwrap(), Creation::Created);
    store.delete(id, receipt).unwrap();
    store.pass(101);
    disk.set(Some(full));
    assert_eq!(store.sweep(), 0);
    assert_eq!(store.count(), 0);
    disk.set(None);
    store.pass(61);
    assert_eq!(store.sweep(), 1);
    store.put("c");
    assert_eq!((store.count(), store.get(32, 1).len()), (1, 1));
    store.check_rows();
}
