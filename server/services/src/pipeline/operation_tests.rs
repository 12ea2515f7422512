//! Compares the rows of all services with the published specification of the protocol, and with the
//! list in the documentation.

use crate::request::operation::{BodyRule, Operation};
use crate::{blob, queue, table};
use lazurite_protocol::properties::LogClass;
use lazurite_protocol::request::inputs::{HEADERS, Input, Inputs, PARAMETERS, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Service, `operationId`, method and path of every operation in the published specifications.
const PUBLISHED: &str = include_str!("../../../tests/published_operations.txt");
/// Service and `operationId` of every operation, followed by its headers, in lower case, and its
/// parameters, which begin with `?`.
const PUBLISHED_INPUTS: &str = include_str!("../../../tests/published_inputs.txt");
const DIFFERENCES: &str = include_str!("../../../docs/differences.md");
const LIST: &str = include_str!("../../../docs/operations.md");

/// Operations whose path in the specification is invented, only to differ from the paths of other
/// operations with the same method.
const PATHS_MADE_UP: [&str; 8] = [
    "Blob_StartCopyFromURL",
    "Blob_CopyFromURL",
    "Table_GetAccessPolicy",
    "Table_SetAccessPolicy",
    "Service_SetProperties",
    "Service_GetProperties",
    "Service_GetStatistics",
    "Table_Batch",
];

/// The part of a row that these tests read, independent of the service's request type.
struct Row {
    service: &'static str,
    name: &'static str,
    published: &'static [&'static str],
    methods: &'static [&'static str],
    restype: &'static str,
    comp: &'static str,
    changes_state: bool,
    reads: Inputs,
    unsupported: &'static [(&'static str, &'static str)],
    body: BodyRule,
    log_class: LogClass,
}

fn rows_of<R>(service: &'static str, operations: &'static [Operation<R>]) -> Vec<Row> {
    let rows = operations.iter().map(|row| Row {
        service,
        name: row.name,
        published: row.published,
        methods: row.methods,
        restype: row.restype,
        comp: row.comp,
        changes_state: row.changes_state,
        reads: row.reads,
        unsupported: row.unsupported,
        body: row.body,
        log_class: row.log_class,
    });
    rows.collect()
}

fn rows() -> Vec<Row> {
    let mut rows = rows_of("Blob", blob::operations::OPERATIONS);
    rows.extend(rows_of("DataLake", blob::lake::operations::OPERATIONS));
    rows.extend(rows_of("Queue", queue::operations::OPERATIONS));
    rows.extend(rows_of("Table", table::operations::OPERATIONS));
    rows
}

/// The value of a query parameter in a path of the specification, in lower case.
fn parameter(path: &str, name: &str) -> String {
    let (_, query) = path.split_once('?').unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(found, _)| *found == name);
    let value = values.next().map(|(_, value)| value.to_ascii_lowercase());
    value.unwrap_or_default()
}

#[test]
fn every_published_operation_has_exactly_one_row() {
    let rows = rows();
    let mut known = BTreeSet::new();
    for line in PUBLISHED.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("four words a line");
        let (service, id, method, path) = (word(), word(), word(), word());
        known.insert((service, id));
        let serving = |row: &&Row| row.service == service && row.published.contains(&id);
        let serving: Vec<_> = rows.iter().filter(serving).collect();
        let [row] = serving[..] else {
            panic!("{} rows for {line}", serving.len());
        };
        assert!(row.methods.contains(&method), "{line}");
        let comp = match service {
            "DataLake" => parameter(path, "action"),
            _ => parameter(path, "comp"),
        };
        if !PATHS_MADE_UP.contains(&id) {
            assert_eq!(row.comp, comp, "{line}");
        }
    }
    for row in &rows {
        for id in row.published {
            assert!(known.contains(&(row.service, *id)), "{}: {id}", row.name);
        }
    }
}

#[test]
fn rows_of_one_name_are_of_one_service_and_complete() {
    let mut services = BTreeMap::new();
    for row in rows() {
        assert!(!row.name.is_empty() && !row.methods.is_empty());
        let lower = |text: &str| text.bytes().all(|byte| !byte.is_ascii_uppercase());
        assert!(lower(row.comp) && lower(row.restype), "{}", row.name);
        services
            .entry(row.name)
            .or_insert(BTreeSet::new())
            .insert(row.service);
    }
    services.retain(|_, services| services.len() > 1);
    let shared: Vec<_> = services.into_keys().collect();
    assert_eq!(shared, ["Batch", "GetUserDelegationKey"]);
}

#[test]
fn methods_match_effects_with_named_exceptions() {
    let exceptions = |is_one: fn(&Row) -> bool| -> BTreeSet<_> {
        let exceptions = rows().into_iter().filter(is_one);
        exceptions.map(|row| row.name).collect()
    };
    // Get Messages is a GET that changes messages; Query Blob Contents is a POST that only reads.
    let other_effect = exceptions(|row| {
        let reads = row
            .methods
            .iter()
            .all(|method| ["GET", "HEAD"].contains(method));
        reads == row.changes_state
    });
    assert_eq!(
        other_effect,
        BTreeSet::from(["GetMessages", "QueryBlobContents"])
    );
    let deletes_otherwise =
        exceptions(|row| (row.methods == ["DELETE"]) != (row.log_class == LogClass::Delete));
    assert_eq!(deletes_otherwise, BTreeSet::new());
    let body_of_a_read = exceptions(|row| !row.changes_state && row.body != BodyRule::Empty);
    assert_eq!(body_of_a_read, BTreeSet::from(["QueryBlobContents"]));
}

/// Inputs that every operation takes: routing, the version, the client's own id, the framing of the
/// body.
const COMMON_INPUTS: [&str; 8] = [
    "?action",
    "?comp",
    "?resource",
    "?restype",
    "content-length",
    "content-type",
    "x-ms-client-request-id",
    "x-ms-version",
];

/// Documented inputs, by operation, that a read ignores although a write would refuse them.
const UNREAD_BY_READS: [(&str, &str); 1] = [
    // The result has only names of tables, so there is nothing to select.
    ("Table_Query", "?$select"),
];

/// Rows that serve a part of a published operation which has another row.
const ROWS_OF_PARTS: [(&str, &str); 1] = [("Path_Create", "PathRename")];

/// Whether a published operation's row determines the treatment of an input.
fn is_decided(row: &Row, id: &str, name: &str) -> bool {
    if COMMON_INPUTS.contains(&name) || row.reads.contains(name) {
        return true;
    }
    let (inputs, name_in_table) = match name.strip_prefix('?') {
        Some(parameter) => (PARAMETERS, parameter),
        None => (HEADERS, name),
    };
    if row
        .unsupported
        .iter()
        .any(|(name, _)| *name == name_in_table)
    {
        return true;
    }
    match inputs.iter().find(|input| input.name == name_in_table) {
        Some(input) if matches!(input.unread, Unread::Ignored(_) | Unread::Checked) => true,
        Some(_) => UNREAD_BY_READS.contains(&(id, name)) && !row.changes_state,
        None => false,
    }
}

#[test]
fn every_published_input_is_read_or_listed_as_without_effect() {
    let rows = rows();
    for line in PUBLISHED_INPUTS.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("two words a line");
        let (service, id) = (word(), word());
        let serving = |row: &&Row| row.service == service && row.published.contains(&id);
        let row = rows.iter().find(serving).expect(line);
        let parts = ROWS_OF_PARTS.iter().filter(|(whole, _)| *whole == id);
        let parts = parts.filter_map(|(_, part)| rows.iter().find(|row| row.name == *part));
        let serving: Vec<_> = parts.chain([row]).collect();
        for name in words {
            let is_decided = serving.iter().any(|row| is_decided(row, id, name));
            assert!(is_decided, "{}: {name}", row.name);
        }
    }
}

#[test]
fn every_input_is_read_by_an_operation_or_has_a_reason() {
    let rows = rows();
    let all = HEADERS.iter().map(|input| (input, input.name.to_owned()));
    let parameters = PARAMETERS
        .iter()
        .map(|input| (input, format!("?{}", input.name)));
    for (input, name) in all.chain(parameters) {
        let is_read = rows.iter().any(|row| row.reads.contains(&name));
        let is_explained = matches!(
            input.unread,
            Unread::Unsupported(_) | Unread::Ignored(_) | Unread::Checked
        );
        assert!(is_read || is_explained, "{name}");
    }
}

/// Renders the documentation's section on inputs that an operation does not read.
fn unread_inputs() -> String {
    let names = |is_one: fn(&Unread) -> bool| {
        let inputs = HEADERS.iter().chain(PARAMETERS);
        let names = inputs.filter(|input| is_one(&input.unread)).map(shown);
        names
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut text = String::new();
    let mut item = |outcome: &str, names: String| {
        writeln!(text, "- {outcome}: {names}.").expect("text takes it");
    };
    item(
        "`501`",
        names(|unread| matches!(unread, Unread::Unsupported(_))),
    );
    item(
        "`501` from operations that change something; others ignore it",
        names(|unread| matches!(unread, Unread::UnsupportedByWrites(_))),
    );
    item(
        "400 `ConditionHeadersNotSupported` from operations that change something; others ignore it",
        names(|unread| matches!(unread, Unread::Condition)),
    );
    item(
        "400 `UnsupportedHeader` or `UnsupportedQueryParameter` from operations that change something; others ignore it",
        names(|unread| matches!(unread, Unread::Refused)),
    );
    item(
        "Compared with the body by every operation",
        names(|unread| matches!(unread, Unread::Checked)),
    );
    text.push_str("\n| without effect | why |\n| --- | --- |\n");
    for input in HEADERS.iter().chain(PARAMETERS) {
        if let Unread::Ignored(reason) = input.unread {
            writeln!(text, "| {} | {reason} |", shown(input)).expect("text takes it");
        }
    }
    text
}

fn shown(input: &Input) -> String {
    let rest = if input.name.ends_with('-') { "*" } else { "" };
    format!("`{}{rest}`", input.name)
}

#[test]
fn the_documentation_lists_the_treatment_of_unread_inputs() {
    let text = unread_inputs();
    assert!(
        DIFFERENCES.contains(&text),
        "docs/differences.md should have:\n{text}"
    );
}

/// Renders the list of operations in the documentation.
fn list() -> String {
    let mut list = String::from(
        "# Operations\n\nEvery operation that is served, by its name in the documentation of the REST API. All others are refused.\n",
    );
    for (service, heading) in [
        ("Blob", "Blob"),
        ("DataLake", "Data Lake Storage"),
        ("Queue", "Queue"),
        ("Table", "Table"),
    ] {
        let names: BTreeSet<_> = rows()
            .into_iter()
            .filter(|row| row.service == service)
            .map(|row| row.name)
            .collect();
        let names: Vec<_> = names.into_iter().map(title).collect();
        write!(list, "\n## {heading}\n\n{}.\n", names.join(", ")).expect("text takes it");
    }
    list
}

/// The name of an operation as the documentation writes it, from one such as `PutBlobFromUrl`.
fn title(name: &str) -> String {
    let mut title = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !title.is_empty() {
            title.push(' ');
        }
        title.push(letter);
    }
    title.replace(" Url", " URL").replace(" Acl", " ACL")
}

#[test]
fn the_documentation_lists_the_operations_of_the_rows() {
    let list = list();
    assert_eq!(LIST, list, "docs/operations.md should be:\n{list}");
}
