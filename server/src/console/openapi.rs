//! `/_lazurite/openapi.json`: everything below `/_lazurite/` that is not a page for people, as an OpenAPI document.

use crate::console::respond::text;
use axum::body::Body;
use axum::http::Response;

const DOCUMENT: &str = include_str!("assets/openapi.json");

pub async fn document() -> Response<Body> {
    let document = DOCUMENT.replacen("VERSION", env!("CARGO_PKG_VERSION"), 1);
    text("application/json", document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Where routes are.
    const SOURCES: [&str; 12] = [
        include_str!("mod.rs"),
        include_str!("advisor/mod.rs"),
        include_str!("blobs/mod.rs"),
        include_str!("layout.rs"),
        include_str!("open_pages.rs"),
        include_str!("queues/mod.rs"),
        include_str!("requests/mod.rs"),
        include_str!("state.rs"),
        include_str!("state_pages.rs"),
        include_str!("tables.rs"),
        include_str!("test_pages.rs"),
        include_str!("transfer_pages.rs"),
    ];

    /// Pages for people, the files that they load, and the targets of their forms.
    fn is_for_people(path: &str) -> bool {
        let path = path.trim_start_matches("/_lazurite/");
        if path == "state" {
            return true;
        }
        let section = path.split('/').next().unwrap_or_default();
        let is_page = [
            "", "blobs", "queues", "tables", "requests", "advisor", "engine", "connect", "sas",
            "assets",
        ]
        .contains(&section);
        is_page
            && ![".csv", ".json"].iter().any(|end| path.ends_with(end))
            && !path.ends_with("/live")
    }

    #[test]
    fn every_route_is_described_or_a_page() {
        let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
        let described: BTreeSet<&str> = document["paths"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let routes = SOURCES
            .iter()
            .flat_map(|source| source.split(".route(").skip(1));
        let routes: BTreeSet<&str> = routes
            .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
            .filter(|path| !is_for_people(path))
            .collect();
        assert_eq!(described, routes);
    }
}
