//! Tables in the console: JSON files, and transactions on selected rows.

use super::*;

fn with_orders() -> Server {
    let server = Server::fresh();
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Orders"}"#)
        .send(&server)
        .is(201);
    server
}

fn table_page(more: &str) -> String {
    format!("tables/{ACCOUNT}/Orders{more}")
}

fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The boxes of a page, encoded as a browser sends them.
fn boxes(server: &Server) -> Vec<String> {
    let grid = html(&table_page("")).send(server).is(200).text();
    let boxes = grid.split("name=\"item\" value=\"").skip(1);
    let value = |rest: &str| {
        let value = rest.split('"').next().unwrap();
        let value = value.replace("&quot;", "\"").replace("&amp;", "&");
        format!("item={}", encode(&value))
    };
    boxes.map(value).collect()
}

fn stored(server: &Server) -> Value {
    of(Service::Table, "GET", "/Orders()")
        .header("Accept", "application/json;odata=nometadata")
        .send(server)
        .json()["value"]
        .clone()
}

#[test]
fn json_goes_out_and_in_with_all_types() {
    let server = with_orders();
    let entity = r#"[{"PartitionKey":"p","RowKey":"1","Small":1,"Large@odata.type":"Edm.Int64","Large":"9007199254740993",
        "At@odata.type":"Edm.DateTime","At":"2026-11-25T19:00:00.1234567Z","Whole@odata.type":"Edm.Double","Whole":3,
        "Bytes@odata.type":"Edm.Binary","Bytes":"AAH/","Id@odata.type":"Edm.Guid","Id":"c9da6455-213d-42c9-9a79-3e9149a57833",
        "Yes":true,"Note":"<b>\"x\"</b>"},{"PartitionKey":"q","RowKey":"2"}]"#;
    submit(
        &server,
        &table_page("/import"),
        &format!("text={}", encode(entity)),
    )
    .is(303);
    let exported = page("GET", &table_page("/export.json"))
        .send(&server)
        .is(200)
        .json();
    let entities = exported.as_array().unwrap();
    assert_eq!(entities.len(), 2);
    assert_eq!(entities[0]["Large"], "9007199254740993");
    assert_eq!(entities[0]["Large@odata.type"], "Edm.Int64");
    assert_eq!(entities[0]["At"], "2026-11-25T19:00:00.1234567Z");
    assert_eq!(entities[0]["Whole@odata.type"], "Edm.Double");
    let before = stored(&server);
    submit(
        &server,
        &table_page("/import"),
        &format!("text={}", encode(&exported.to_string())),
    )
    .is(303);
    for name in [
        "Small", "Large", "At", "Whole", "Bytes", "Id", "Yes", "Note",
    ] {
        assert_eq!(stored(&server)[0][name], before[0][name], "{name}");
    }
    let filter = encode("PartitionKey eq 'none'");
    let none = page("GET", &table_page(&format!("/export.json?filter={filter}")));
    assert_eq!(none.send(&server).json(), serde_json::json!([]));
    page(
        "GET",
        &table_page("/export.json?filter=PartitionKey%20eq%20Sales"),
    )
    .send(&server)
    .is(501);
    let wrong = submit(&server, &table_page("/import"), "text=%5B%7B%7D%5D");
    assert!(wrong.is(400).text().contains("Entity 1 of the JSON"));
}

#[test]
fn selected_rows_are_changed_in_one_transaction_or_not_at_all() {
    let server = with_orders();
    for row in 1..=3 {
        of(Service::Table, "POST", "/Orders")
            .json(format!(
                r#"{{"PartitionKey":"p","RowKey":"{row}","Note":"old"}}"#
            ))
            .send(&server)
            .is(201);
    }
    let rows = boxes(&server);
    assert_eq!(rows.len(), 3);
    let change = |rows: &[String], fields: &str| {
        submit(
            &server,
            &table_page("/rows/change"),
            &format!("{}&{fields}", rows.join("&")),
        )
    };
    change(&rows[..2], "name=Paid&type=Boolean&value=true").is(303);
    let after = stored(&server);
    assert_eq!(
        (&after[0]["Paid"], &after[0]["Note"]),
        (&true.into(), &"old".into())
    );
    assert_eq!(after[1]["Paid"], true);
    assert_eq!(after[2]["Paid"], Value::Null);
    // Two of the three rows were changed since, so none of the three is changed.
    change(&rows, "name=Paid&type=Boolean&value=false").is(412);
    assert_eq!(stored(&server)[2]["Paid"], Value::Null);
    change(&rows, "name=Paid&type=Boolean&value=maybe").is(400);
    change(&rows, "name=&type=String&value=x").is(400);
}

/// The id of the edit, from the redirect after it.
fn edit_of(answer: &Response) -> String {
    let place = answer.is(303).header("location").unwrap();
    let (_, rest) = place.split_once("edit=").unwrap();
    rest.split('&').next().unwrap().to_owned()
}

#[test]
fn an_edit_is_undone_unless_a_row_was_changed_since() {
    let server = with_orders();
    for row in 1..=2 {
        let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}","Note":"old"}}"#);
        of(Service::Table, "POST", "/Orders")
            .json(entity)
            .send(&server)
            .is(201);
    }
    let before = stored(&server);
    let undo = |edit: &str| submit(&server, &table_page("/undo"), &format!("edit={edit}"));
    let rows = format!("act=delete&{}", boxes(&server).join("&"));
    let deleted = edit_in(&confirmed(&server, &table_page("/rows"), &rows));
    assert_eq!(stored(&server), serde_json::json!([]));
    let shown = html(&table_page(&format!("/undo?edit={deleted}"))).send(&server);
    assert!(shown.is(200).text().contains("p / 1 deleted"));
    let restored = undo(&deleted);
    assert_eq!(stored(&server)[1]["Note"], before[1]["Note"]);
    // An undo can be undone.
    let again = undo(&edit_of(&restored));
    assert_eq!(stored(&server), serde_json::json!([]));
    undo(&edit_of(&again)).is(303);
    let fields = format!(
        "{}&name=Note&type=String&value=new",
        boxes(&server).join("&")
    );
    let changed = submit(&server, &table_page("/rows/change"), &fields);
    submit(
        &server,
        &table_page("/rows/change"),
        &format!("{}&name=Note&type=String&value=newer", boxes(&server)[0]),
    )
    .is(303);
    undo(&edit_of(&changed)).is(412);
    assert_eq!(
        (&stored(&server)[0]["Note"], &stored(&server)[1]["Note"]),
        (&"newer".into(), &"new".into())
    );
    undo("999").is(404);
}

/// The id after `edit=` in a text.
fn edit_in(text: &str) -> String {
    let (_, rest) = text.split_once("undo?edit=").unwrap();
    rest.chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn an_edit_that_a_later_partition_refused_is_undone_as_far_as_it_went() {
    let server = with_orders();
    for partition in ["p", "q"] {
        let entity = format!(r#"{{"PartitionKey":"{partition}","RowKey":"1","Note":"old"}}"#);
        of(Service::Table, "POST", "/Orders")
            .json(entity)
            .send(&server)
            .is(201);
    }
    let rows = boxes(&server).join("&");
    of(
        Service::Table,
        "MERGE",
        "/Orders(PartitionKey='q',RowKey='1')",
    )
    .header("If-Match", "*")
    .json(r#"{"Note":"of another"}"#)
    .send(&server)
    .is(204);
    let notes = || {
        let stored = stored(&server);
        [0, 1].map(|row: usize| stored[row]["Note"].as_str().unwrap().to_owned())
    };
    let fields = format!("{rows}&name=Note&type=String&value=new");
    let refused = submit(&server, &table_page("/rows/change"), &fields);
    let refused = refused.is(412).text();
    assert_eq!(notes(), ["new", "of another"]);
    let edit = edit_in(&refused);
    let shown = html(&table_page(&format!("/undo?edit={edit}"))).send(&server);
    let shown = shown.is(200).text();
    assert!(
        shown.contains("p / 1") && !shown.contains("q / 1"),
        "{shown}"
    );
    submit(&server, &table_page("/undo"), &format!("edit={edit}")).is(303);
    assert_eq!(notes(), ["old", "of another"]);
}

#[test]
fn the_plan_of_a_filter_is_a_document() {
    let server = with_orders();
    let plan = |more: &str| page("GET", &table_page(&format!("/plan.json?{more}"))).send(&server);
    let found = plan(&format!(
        "filter={}&p=RowKey&joint=and&o=eq&t=String&v=it%27s",
        encode("PartitionKey eq 'a' or PartitionKey eq 'b'")
    ));
    let found = found.is(200).json();
    assert_eq!(
        found["filter"],
        "(PartitionKey eq 'a' or PartitionKey eq 'b') and RowKey eq 'it''s'"
    );
    assert_eq!(
        (&found["plan"], &found["terms"][1]),
        (&"points".into(), &"RowKey eq 'it''s'".into())
    );
    plan("filter=PartitionKey%20eq%20Sales").is(501);
    plan("p=Age&o=eq&t=Int32&v=x").is(400);
}

#[test]
fn a_form_of_252_properties_comes_in_pages_and_keeps_those_of_the_others() {
    let server = with_orders();
    let name = |number: usize| format!("{}{number:03}", "Long".repeat(50));
    let mut entity = serde_json::json!({"PartitionKey": "p", "RowKey": "r"});
    for number in 0..252 {
        entity[name(number)] = "<&\">".repeat(100).into();
    }
    of(Service::Table, "POST", "/Orders")
        .json(entity.to_string())
        .send(&server)
        .is(201);
    let before = stored(&server);
    let path = table_page("/entity?pk=p&rk=r");
    let (mut from, mut shown, mut pages) = (Some(0), 0, 0);
    while let Some(at) = from {
        let text = html(&format!("{path}&from={at}")).send(&server).text();
        assert!(text.len() < 150 << 10, "{} bytes", text.len());
        shown += text.matches("aria-label=\"Value of Long").count();
        pages += 1;
        let next = text.split_once("rel=\"next\" href=\"");
        from = next.map(|(_, rest)| {
            let (_, rest) = rest.split_once("from=").unwrap();
            rest.split('"').next().unwrap().parse::<usize>().unwrap()
        });
    }
    assert!(shown == 252 && pages > 1, "{shown} in {pages} pages");
    let text = html(&format!("{path}&from=100")).send(&server).text();
    let value_of = |field: &str| {
        let (_, rest) = text
            .split_once(&format!("name=\"{field}\" value=\""))
            .unwrap();
        rest.split('"').next().unwrap().replace("&quot;", "\"")
    };
    let until: usize = value_of("until").parse().unwrap();
    let mut fields = format!(
        "pk=p&rk=r&etag={}&from=100&until={until}",
        encode(&value_of("etag"))
    );
    for number in 100..until {
        fields += &format!("&name={}&type=Int32&value={number}", name(number));
    }
    submit(&server, &table_page("/entity"), &fields).is(303);
    let after = stored(&server);
    for number in 0..252 {
        let name = name(number);
        if (100..until).contains(&number) {
            assert_eq!(after[0][&name], number);
        } else {
            assert_eq!(after[0][&name], before[0][&name]);
        }
    }
}

#[test]
fn a_grid_names_its_properties_for_the_completion() {
    let server = with_orders();
    of(Service::Table, "POST", "/Orders")
        .json(r#"{"PartitionKey":"p","RowKey":"1","Age":3}"#)
        .send(&server)
        .is(201);
    let text = html(&table_page("")).send(&server).text();
    assert!(
        text.contains("<option value=\"Age\" data-types=\"Int32\">"),
        "{text}"
    );
}
