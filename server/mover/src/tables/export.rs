//! Writes tables and their entities to the files of an export.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::files::Target;
use crate::policies;
use crate::progress::Progress;
use crate::resource_kind::ResourceKind;
use crate::tables::entities::{read_page, tables};
use serde_json::Map;
use std::io::Write;

/// Writes all tables.
pub fn export(client: &Client, target: &Target<'_>, progress: &Progress) -> Result<()> {
    for table in tables(client)? {
        let mut settings = Map::new();
        let policies = policies::of(client, ResourceKind::Table, &table)?;
        settings.insert("policies".to_owned(), policies.into());
        target.write_settings(&ResourceKind::Table.settings(&table), settings)?;
        progress.add(&progress.tables, 1);
        export_entities(client, &table, target, progress)
            .map_err(|error| error.within(format_args!("table {table}")))?;
    }
    Ok(())
}

fn export_entities(
    client: &Client,
    table: &str,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<()> {
    let mut lines = target.create(&ResourceKind::Table.lines(table))?;
    let mut more = String::new();
    loop {
        let page;
        (page, more) = read_page(client, table, &more)?;
        for line in &page {
            lines
                .write_all(line.as_bytes())
                .map_err(Error::of_named_file)?;
        }
        progress.add(&progress.entities, page.len() as u64);
        if more.is_empty() {
            return lines.flush().map_err(Error::of_named_file);
        }
    }
}
