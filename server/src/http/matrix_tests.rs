//! Whether the matrix of rights (`tests/e2e/matrix.rs`) has a row for every operation of every service.

/// The services: how rows name them, the file of their operations, and the function with their rows.
const SERVICES: [(&str, &str, &str); 3] = [
    ("Blob", include_str!("blob/route.rs"), "fn blob_rows()"),
    ("Queue", include_str!("queue/mod.rs"), "fn queue_rows()"),
    ("Table", include_str!("table/mod.rs"), "fn table_rows()"),
];
const MATRIX: &str = include_str!("../../tests/e2e/matrix.rs");

/// The part of a source between two texts.
fn between<'a>(source: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = source.split_once(start).expect(start);
    rest.split_once(end).expect(end).0
}

#[test]
fn every_operation_has_a_row_in_the_matrix_of_rights() {
    for (service, source, function) in SERVICES {
        let rows = between(MATRIX, function, "\n}\n").to_lowercase();
        let rows: String = rows.split_whitespace().collect();
        let variants = between(source, "enum Operation {", "\n}\n").lines();
        let names = variants.map(|line| line.trim().split(['(', ',']).next().unwrap_or_default());
        let is_operation = |name: &&str| {
            let is_name = name.starts_with(|letter: char| letter.is_ascii_uppercase());
            // What a table answers below itself, where there is nothing.
            is_name && *name != "Nothing"
        };
        let names: Vec<_> = names.filter(is_operation).collect();
        assert!(names.len() > 15, "{service}: {names:?}");
        for name in names {
            let name = name.replace("Service", &format!("{service}Service"));
            let row = format!("\"{}\"", name.to_lowercase());
            assert!(rows.contains(&row), "{service}: no row for {name}");
        }
    }
}
