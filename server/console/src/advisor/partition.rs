//! The page of one partition, with its figures for each minute.

use crate::advisor::load::{above_target, clock, heat_map, name};
use crate::advisor::names::{ADVICE, HEAT_MAP, blob_path, is_cut, noun, resource_path};
use crate::advisor::wanted::service_of;
use crate::context::Console;
use crate::respond::{Html, Page, Visit, made};
use crate::{layout, links};
use axum::extract::State;
use lazurite_advisor::{HeatMap, PartitionLoad, Service};
use lazurite_base::units::count;
use lazurite_protocol::response::error::{Failure, Result};
use maud::{Markup, html};
use std::sync::Arc;

pub async fn page(State(console): State<Arc<Console>>, visit: Visit) -> Page {
    made(console, move |console| partition_page(console, &visit)).await
}

fn partition_page(console: &Console, visit: &Visit) -> Result<Html> {
    let map = heat_map(console, visit.origin.now);
    let row = find(&map, visit)?;
    let above = [
        ("Advice", links::path(ADVICE, &[])),
        ("Heat map", links::path(HEAT_MAP, &[])),
    ];
    let title = name(row);
    let peak = row.peaks.iter().max().copied().unwrap_or_default();
    let content = html! {
        (layout::trail(&above, noun(row.service)))
        h1 { (title) }
        dl.facts data-fresh="facts" {
            div { dt { "In the console" } dd { a href=(stored_path(row)) { (noun(row.service)) " " (row.resource) } } }
            div { dt { "Account" } dd { (row.account) } }
            div { dt { "Total" } dd { (count(row.total)) } }
            div { dt { "Most in a second" } dd { (count(peak.into())) " " (above_target(row)) } }
            div { dt { "Target of the hosted service" } dd { (count(row.target)) " a second" } }
        }
        div data-fresh="minutes" { (minutes(&map, row)) }
        (layout::script("advisor.js"))
    };
    Ok(layout::page(console, "Advice", "Partition", content))
}

fn find<'a>(map: &'a HeatMap, visit: &Visit) -> Result<&'a PartitionLoad> {
    let wanted = |name: &str| visit.parameter(name);
    let (account, resource, partition) =
        (wanted("account"), wanted("resource"), wanted("partition"));
    let service = service_of(&wanted("service"));
    let found = map.rows.iter().find(|row| {
        Some(row.service) == service
            && row.account == account
            && row.resource == resource
            && row.partition == partition
    });
    found.ok_or_else(|| {
        let message = "The heat map has no such partition: it had no request in the last minutes, or others were busier.";
        Failure::new(404, "PartitionNotFound", message)
    })
}

/// The path of the page with the partition's contents: a queue, a blob, or entities.
fn stored_path(row: &PartitionLoad) -> String {
    let account = &row.account;
    let resource = &row.resource;
    let partition = &row.partition;
    match row.service {
        Service::Blob => blob_path(account, resource, partition),
        Service::Table if !is_cut(partition) => {
            let filter = format!("PartitionKey eq '{}'", partition.replace('\'', "''"));
            links::path(&["tables", account, resource], &[("filter", &filter)])
        }
        Service::Table | Service::Queue => resource_path(row.service, account, resource),
    }
}

fn minutes(map: &HeatMap, row: &PartitionLoad) -> Markup {
    let most = row.requests.iter().max().copied().unwrap_or_default();
    let figures = (0..).zip(row.requests.iter().zip(&row.peaks));
    let busy = figures.filter(|(_, (requests, _))| **requests > 0);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Minutes" { table {
            caption.hidden { "Requests by minute" }
            thead { tr {
                th scope="col" { "Minute, UTC" } th.number scope="col" { "Requests" } th.number scope="col" { "Most in a second" } th scope="col" { "Share of the busiest" }
            } }
            tbody {
                @for (minute, (requests, peak)) in busy {
                    tr {
                        th scope="row" { (clock(map.first_minute, minute)) }
                        td.number { (count((*requests).into())) }
                        td.number { (count((*peak).into())) @if u64::from(*peak) > row.target { small.above { "above the target" } } }
                        td { (layout::bar((*requests).into(), most.into())) }
                    }
                }
            }
        } }
        p.limits { "Minutes without a request are left out. Requests of a query or a transaction are its entities." }
    }
}
