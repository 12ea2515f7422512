//! Queues in the console: hidden messages, search, and actions on one message.

use super::*;

fn put(server: &Server, queue: &str, text: &str) {
    of(Service::Queue, "POST", &format!("/{queue}/messages"))
        .body(format!(
            "<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"
        ))
        .send(server)
        .is(201);
}

fn with_queues(names: &[&str]) -> Server {
    let server = Server::fresh();
    for name in names {
        of(Service::Queue, "PUT", &format!("/{name}"))
            .send(&server)
            .is(201);
    }
    server
}

fn queue_page(server: &Server, queue: &str, query: &str) -> String {
    let path = format!("queues/{ACCOUNT}/{queue}{query}");
    html(&path).send(server).is(200).text()
}

/// The id and the receipt of the first message on a page: of a list, or of one message.
fn first_message(text: &str) -> (String, String) {
    let value = |name: &str| {
        let (_, rest) = text.split_once(&format!("name=\"{name}\" value=\""))?;
        Some(rest.split('"').next()?.replace("&quot;", "\""))
    };
    match value("item") {
        Some(keys) => serde_json::from_str(&keys).unwrap(),
        None => (value("id").unwrap(), value("receipt").unwrap()),
    }
}

fn act(server: &Server, queue: &str, message: &(String, String), fields: &str) -> Response {
    let (id, receipt) = message;
    let path = format!("queues/{ACCOUNT}/{queue}/message");
    submit(
        server,
        &path,
        &format!("id={id}&receipt={receipt}&{fields}"),
    )
}

fn peeked(server: &Server, queue: &str) -> String {
    let target = format!("/{queue}/messages?peekonly=true&numofmessages=32");
    of(Service::Queue, "GET", &target)
        .send(server)
        .is(200)
        .text()
}

#[test]
fn hidden_messages_are_shown_with_their_return_and_made_visible() {
    let server = with_queues(&["orders"]);
    put(&server, "orders", "first");
    let taken = of(
        Service::Queue,
        "GET",
        "/orders/messages?visibilitytimeout=600",
    )
    .send(&server);
    assert!(taken.is(200).text().contains("first"));
    let text = queue_page(&server, "orders", "");
    assert!(
        text.contains("returns in <span data-until=") && text.contains("<dt>Hidden</dt><dd>1</dd>"),
        "{text}"
    );
    assert!(!peeked(&server, "orders").contains("first"));
    let message = first_message(&queue_page(&server, "orders", "?show=hidden"));
    act(&server, "orders", &message, "act=show").is(303);
    let text = peeked(&server, "orders");
    assert!(text.contains("first") && text.contains("<DequeueCount>1</DequeueCount>"));
    // The receipt on the page is no longer valid.
    act(&server, "orders", &message, "act=delete").is(400);
}

#[test]
fn a_search_finds_a_message_behind_thousands() {
    let server = with_queues(&["orders"]);
    for number in 0..300 {
        put(&server, "orders", &format!("order {number}"));
    }
    put(&server, "orders", &STANDARD.encode("the needle"));
    let next = |text: &str| {
        let (_, rest) = text.split_once("rel=\"next\" href=\"")?;
        let path = rest.split('"').next()?.replace("&amp;", "&");
        let page = Request::exactly(Service::Blob, "GET", &path).unsigned();
        let page = page.header("Accept", "text/html").send(&server);
        Some(page.is(200).text())
    };
    // The first answer comes soon, and has searched as many messages as that allows.
    let mut text = queue_page(&server, "orders", "?filter=needle");
    while !text.contains("The search is complete: 301 messages searched.") {
        assert!(
            text.contains("Found 0. Searched") && text.contains("of 301 messages."),
            "{text}"
        );
        text = next(&text).expect("a link to go on with the search");
    }
    assert_eq!(text.matches("<td class=\"message\"").count(), 1, "{text}");
    assert!(text.contains("Base64") && text.contains("the needle"));
    let all = queue_page(&server, "orders", "");
    let shown = all.matches("<td class=\"message\"").count();
    assert!((50..=100).contains(&shown), "{shown}");
    assert!(next(&all).unwrap().contains("order 120"));
    html(&format!("queues/{ACCOUNT}/orders?from=nowhere"))
        .send(&server)
        .is(400);
}

#[test]
fn a_message_is_edited_on_its_way_to_another_queue() {
    let server = with_queues(&["orders", "orders-poison"]);
    put(&server, "orders-poison", "{\"total\":1}");
    let text = queue_page(&server, "orders-poison", "");
    let message = first_message(&text);
    let one = html(&format!(
        "queues/{ACCOUNT}/orders-poison/message?id={}",
        message.0
    ))
    .send(&server)
    .is(200)
    .text();
    assert!(one.contains("Pop receipt") && one.contains("{&quot;total&quot;:1}</textarea>"));
    act(
        &server,
        "orders-poison",
        &message,
        "act=move&to=none&text=x",
    )
    .is(404);
    act(
        &server,
        "orders-poison",
        &message,
        "act=move&to=orders&text=%7B%22total%22%3A2%7D&base64=yes",
    )
    .is(303);
    let moved = peeked(&server, "orders");
    assert!(
        moved.contains(&STANDARD.encode("{\"total\":2}")) && moved.contains("<DequeueCount>0<"),
        "{moved}"
    );
    assert!(!peeked(&server, "orders-poison").contains("QueueMessage>"));
    let message = first_message(&queue_page(&server, "orders", ""));
    act(&server, "orders", &message, "act=save&text=plain").is(303);
    assert!(peeked(&server, "orders").contains("<MessageText>plain</MessageText>"));
    let message = first_message(&queue_page(&server, "orders", ""));
    act(&server, "orders", &message, "act=dance").is(400);
    act(&server, "orders", &message, "act=delete").is(303);
    html(&format!("queues/{ACCOUNT}/orders/message?id={}", message.0))
        .send(&server)
        .is(404);
}

#[test]
fn taking_a_message_is_an_act_of_its_own() {
    let server = with_queues(&["orders"]);
    put(&server, "orders", "first");
    let text = queue_page(&server, "orders", "");
    assert!(text.contains("Receiving counts a delivery"), "{text}");
    assert!(peeked(&server, "orders").contains("<DequeueCount>0<"));
    let taken = submit(
        &server,
        &format!("queues/{ACCOUNT}/orders/take"),
        "seconds=60",
    );
    let place = taken.is(303).header("location").unwrap().to_owned();
    assert!(!peeked(&server, "orders").contains("first"));
    let one = Request::exactly(Service::Blob, "GET", &place)
        .unsigned()
        .header("Accept", "text/html")
        .send(&server);
    let text = one.is(200).text();
    assert!(text.contains("<dt>Dequeue count</dt><dd>1</dd>"), "{text}");
    let nothing = submit(&server, &format!("queues/{ACCOUNT}/orders/take"), "");
    nothing
        .is(303)
        .has_header("location", &format!("/_lazurite/queues/{ACCOUNT}/orders"));
}
