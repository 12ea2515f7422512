//! Reads for tools: all messages of a queue in pages, hidden ones included, and their number by
//! state.

use crate::store::{ACCOUNT, QUEUE, Store};
use lazurite_queue::*;
use std::time::Duration;

/// A queue with messages in this order of delivery:
/// - `brief`: visible; expires after 10 seconds,
/// - `plain`: visible,
/// - `hidden`: visible after 30 seconds; expires after 100,
/// - `taken`: put first; a consumer has hidden it for 60 seconds.
fn mixed_queue() -> Store {
    let store = Store::with_queue();
    store.put("taken");
    assert_eq!(store.get(1, 60).len(), 1);
    store.put_with("brief", Some(10), None).unwrap();
    store.put("plain");
    store.put_with("hidden", Some(100), Some(30)).unwrap();
    store
}

const IN_ORDER_OF_DELIVERY: [&str; 4] = ["brief", "plain", "hidden", "taken"];
const IN_ORDER_OF_IDS: [&str; 4] = ["taken", "brief", "plain", "hidden"];

fn texts(messages: &[StoredMessage]) -> Vec<&str> {
    messages.iter().map(|m| m.text.as_str()).collect()
}

fn browse(store: &Store, from: BrowseFrom<'_>, count: usize) -> Result<BrowsedMessages> {
    let request = BrowseMessages { from, count };
    let service = &store.service;
    service.browse_messages(ACCOUNT, QUEUE, &request, &|_| true, &|| false)
}

fn tally(store: &Store, soon: u64, is_over: bool) -> MessageTally {
    let soon = Duration::from_secs(soon);
    let tally = store
        .service
        .tally_messages(ACCOUNT, QUEUE, soon, &|| is_over);
    tally.unwrap()
}

/// Reads all pages with `read`, which gets the marker of a page. Every page but the last must be
/// full.
fn all_pages(count: usize, read: impl Fn(Option<&str>) -> BrowsedMessages) -> Vec<StoredMessage> {
    let mut page = read(None);
    let mut all = page.messages;
    while let Some(marker) = page.next {
        assert_eq!(all.len() % count, 0, "the page before was not full");
        page = read(Some(&marker));
        all.extend(page.messages);
    }
    all
}

#[test]
fn pages_hold_all_messages_in_order() {
    let store = mixed_queue();
    for count in 1..=5 {
        let by_delivery = all_pages(count, |marker| {
            browse(
                &store,
                marker.map_or(BrowseFrom::Start, BrowseFrom::Next),
                count,
            )
            .unwrap()
        });
        assert_eq!(
            texts(&by_delivery),
            IN_ORDER_OF_DELIVERY,
            "pages of {count}"
        );
        let by_id = all_pages(count, |marker| {
            let service = &store.service;
            let page = service.list_messages_by_id(ACCOUNT, QUEUE, marker, count);
            page.unwrap()
        });
        assert_eq!(texts(&by_id), IN_ORDER_OF_IDS, "pages of {count}");
        let mut exported = Vec::new();
        let mut from = Some(String::new());
        while let Some(marker) = from {
            let page = store.service.list_messages(ACCOUNT, QUEUE, &marker, count);
            let page = page.unwrap();
            assert!(page.messages.len() == count || page.next.is_none());
            exported.extend(page.messages.into_iter().map(|message| message.text));
            from = page.next;
        }
        assert_eq!(exported, IN_ORDER_OF_DELIVERY, "pages of {count}");
    }
}

#[test]
fn stored_messages_show_times_receipt_and_deliveries() {
    let store = Store::with_queue();
    let put = store.put_with("a", Some(100), Some(30)).unwrap();
    let of_put = StoredMessage {
        message_id: put.message_id.clone(),
        inserted_at: store.now(),
        expires_at: store.now() + Duration::from_secs(100),
        visible_at: store.now() + Duration::from_secs(30),
        pop_receipt: put.pop_receipt,
        dequeue_count: 0,
        text: "a".into(),
    };
    let stored = || {
        let service = &store.service;
        service.stored_message(ACCOUNT, QUEUE, &put.message_id)
    };
    assert_eq!(stored().unwrap(), of_put);
    let browsed = browse(&store, BrowseFrom::Hidden, 9).unwrap();
    assert_eq!(browsed.messages, std::slice::from_ref(&of_put));
    store.pass(30);
    let taken = store.get(1, 40).remove(0);
    let of_consumer = StoredMessage {
        visible_at: store.now() + Duration::from_secs(40),
        pop_receipt: taken.pop_receipt,
        dequeue_count: 1,
        ..of_put
    };
    assert_eq!(stored().unwrap(), of_consumer);
    store.pass(70);
    assert!(
        matches!(stored(), Err(Error::MessageNotFound)),
        "it has expired"
    );
}

#[test]
fn browsing_begins_at_hidden_messages_filters_and_counts_what_it_read() {
    let store = mixed_queue();
    let hidden = browse(&store, BrowseFrom::Hidden, 9).unwrap();
    assert_eq!(texts(&hidden.messages), ["hidden", "taken"]);
    let request = BrowseMessages {
        from: BrowseFrom::Start,
        count: 1,
    };
    let before = store.service.rows_examined();
    let is_taken = |message: &StoredMessage| message.dequeue_count > 0;
    let page = store
        .service
        .browse_messages(ACCOUNT, QUEUE, &request, &is_taken, &|| false)
        .unwrap();
    assert_eq!(texts(&page.messages), ["taken"]);
    assert_eq!((page.examined, page.next), (4, None));
    assert_eq!(store.service.rows_examined() - before, 4);
}

#[test]
fn a_page_whose_time_is_up_holds_a_message_and_names_the_next() {
    let store = mixed_queue();
    let page = |from| {
        let request = BrowseMessages { from, count: 9 };
        let service = &store.service;
        let page = service.browse_messages(ACCOUNT, QUEUE, &request, &|_| true, &|| true);
        page.unwrap()
    };
    let first = page(BrowseFrom::Start);
    assert_eq!(texts(&first.messages), ["brief"]);
    let second = page(BrowseFrom::Next(&first.next.unwrap()));
    assert_eq!(texts(&second.messages), ["plain"]);
}

#[test]
fn expired_messages_are_in_no_page_from_the_instant_of_their_expiry() {
    let store = mixed_queue();
    for (seconds, is_there) in [(9, true), (1, false)] {
        store.pass(seconds);
        let is_brief = |text: &str| text == "brief";
        let browsed = browse(&store, BrowseFrom::Start, 9).unwrap();
        assert_eq!(texts(&browsed.messages).into_iter().any(is_brief), is_there);
        assert_eq!(browsed.examined, 4);
        let service = &store.service;
        let by_id = service.list_messages_by_id(ACCOUNT, QUEUE, None, 9);
        let by_id = by_id.unwrap().messages;
        assert_eq!(texts(&by_id).into_iter().any(is_brief), is_there);
        let exported = service.list_messages(ACCOUNT, QUEUE, "", 9).unwrap();
        let exported = exported.messages;
        assert_eq!(exported.iter().any(|m| is_brief(&m.text)), is_there);
    }
}

#[test]
fn tally_counts_visible_hidden_and_soon_expiring_messages() {
    let store = mixed_queue();
    let of = |visible, hidden, expiring| MessageTally {
        visible,
        hidden,
        expiring,
        is_partial: false,
    };
    let before = store.service.rows_examined();
    assert_eq!(tally(&store, 9, false), of(2, 2, 0));
    assert_eq!(store.service.rows_examined() - before, 4);
    assert_eq!(tally(&store, 10, false), of(2, 2, 1));
    assert_eq!(
        tally(&store, 100, true),
        of(2, 2, 2),
        "few are counted at once"
    );
    store.pass(10);
    assert_eq!(tally(&store, 0, false), of(1, 2, 0), "one has expired");
    store.pass(20);
    assert_eq!(
        tally(&store, 0, false),
        of(2, 1, 0),
        "one has become visible"
    );
}

#[test]
fn tally_whose_time_is_up_is_partial() {
    let store = Store::with_queue();
    for _ in 0..257 {
        store.put("");
    }
    let full = tally(&store, 0, false);
    assert_eq!((full.visible, full.is_partial), (257, false));
    let partial = tally(&store, 0, true);
    assert_eq!((partial.visible, partial.is_partial), (255, true));
}

#[test]
fn markers_and_names_that_no_page_had_are_refused() {
    let store = mixed_queue();
    let zeros = "0".repeat(47);
    for marker in [
        "",
        "0",
        "é",
        &zeros[..15],
        &format!("{zeros}x"),
        &format!("{}é{zeros}", &zeros[..15]),
    ] {
        let refused = browse(&store, BrowseFrom::Next(marker), 9);
        assert!(
            matches!(
                &refused,
                Err(Error::InvalidQueryParameterValue { name: "marker", value, .. }) if value == marker
            ),
            "{marker:?}: {refused:?}"
        );
        let refused = store
            .service
            .list_messages_by_id(ACCOUNT, QUEUE, Some(marker), 9);
        assert!(matches!(refused, Err(Error::InvalidMarker)), "{marker:?}");
        if !marker.is_empty() {
            let refused = store.service.list_messages(ACCOUNT, QUEUE, marker, 9);
            assert!(matches!(refused, Err(Error::InvalidMarker)), "{marker:?}");
        }
    }
    let service = &store.service;
    let all = BrowseMessages {
        from: BrowseFrom::Start,
        count: 9,
    };
    for refused in [
        service
            .browse_messages(ACCOUNT, "Orders", &all, &|_| true, &|| false)
            .map(drop),
        service
            .list_messages_by_id(ACCOUNT, "Orders", None, 9)
            .map(drop),
        service.list_messages(ACCOUNT, "Orders", "", 9).map(drop),
        service
            .tally_messages(ACCOUNT, "Orders", Duration::ZERO, &|| false)
            .map(drop),
    ] {
        assert!(
            matches!(refused, Err(Error::InvalidResourceName)),
            "{refused:?}"
        );
    }
}
