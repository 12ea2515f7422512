//! The heat map: a row for each partition, the busiest first, with a cell for each minute.

use crate::advisor::load;
use crate::advisor::load::{NAME_BYTES_SHOWN, above_target, clock, heat_map, name};
use crate::advisor::names::{ADVICE, HEAT_MAP, noun, resource_path};
use crate::advisor::wanted::Wanted;
use crate::context::Console;
use crate::format::{self, cut};
use crate::respond::{Html, Page, Visit, made};
use crate::{layout, links};
use axum::extract::State;
use lazurite_advisor::{
    CELLS_MAX, HeatMap, MINUTES, Others, PARTITION_TARGET, PartitionLoad, Service, Splits,
};
use lazurite_base::units;
use lazurite_base::units::count;
use maud::{Markup, html};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Numbers of requests per minute at which a cell gets the next colour.
const STEPS: [u32; 5] = [1, 10, 100, 1_000, 10_000];
/// Height of a cell in SVG units. Its width is 1.
const CELL_HEIGHT: u32 = 10;
/// Height of the mark for a minute above the target, in SVG units.
const MARK_HEIGHT: u32 = 3;
/// Maximum length in bytes of the list of partitions, and of each further list.
const ROWS_BYTES_MAX: usize = 80 << 10;
const BESIDE_BYTES_MAX: usize = 16 << 10;
/// Maximum number of bytes shown of a PartitionKey in the splits, and of splits per table.
const KEY_BYTES_SHOWN: usize = 60;
const SPLITS_SHOWN: usize = 20;
/// The time axis has a label at its start and after each of this many equal parts.
const LABELS: u64 = 4;

pub async fn page(State(console): State<Arc<Console>>, visit: Visit) -> Page {
    made(console, move |console| Ok(heat_page(console, &visit))).await
}

fn heat_page(console: &Console, visit: &Visit) -> Html {
    let map = heat_map(console, visit.origin.now);
    let wanted = Wanted::of(visit);
    let found = map.rows.iter().filter(|row| {
        let texts = [&*row.account, &row.resource, &row.partition];
        wanted.matches(row.service, &texts)
    });
    let found: Vec<&PartitionLoad> = found.collect();
    let rows = found.iter().skip(wanted.from);
    let rows = format::fitting(rows.map(|row| shown(row, &map)), ROWS_BYTES_MAX);
    let content = html! {
        (layout::trail(&[("Advice", links::path(ADVICE, &[]))], "Heat map"))
        h1 { "Heat map" }
        p { "Requests by partition and minute. A partition is what the hosted service keeps on one server: the entities of one PartitionKey, a queue, a blob." }
        (wanted.form(HEAT_MAP, "words of a partition, table, queue, container or account", &html! {}))
        div data-fresh="heat" {
            @if rows.is_empty() { (nothing(&map, &wanted)) } @else {
                (legend())
                (table(&map, &rows, &wanted))
            }
            (limits(&map, (rows.len(), found.len()), &wanted))
            (splits(&map.splits))
            (accounts(&map))
        }
        (layout::script("advisor.js"))
    };
    layout::page(console, "Advice", "Heat map", content)
}

fn nothing(map: &HeatMap, wanted: &Wanted) -> Markup {
    html! {
        p.empty {
            @if map.rows.is_empty() { "No request of the last " (map.minutes) " minutes addressed one partition." }
            @else if wanted.from > 0 { "No more partitions." }
            @else { "No partition has these words." }
        }
    }
}

fn legend() -> Markup {
    let swatch = |class: &str, height: u32| {
        html! { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { path class=(class) d=(format!("M0 0h10v{height}H0z")) {} } }
    };
    html! {
        ul.legend aria-label="Colours" {
            @for (index, &step) in STEPS.iter().enumerate() {
                li {
                    (swatch(&format!("h{}", index + 1), 10))
                    @match STEPS.get(index + 1) {
                        Some(&next) => { (count(step.into())) "–" (count((next - 1).into())) },
                        None => { (count(step.into())) " or more a minute" },
                    }
                }
            }
            li { (swatch("over", 3)) "a second above the target" }
        }
    }
}

fn table(map: &HeatMap, rows: &[Markup], wanted: &Wanted) -> Markup {
    let is_first_of_all = wanted.is_all() && wanted.from == 0;
    let others = map.others.iter().filter(|_| is_first_of_all);
    let count_of_others = others.clone().count();
    let others = format::fitting(others.map(|row| shown_others(row, map)), BESIDE_BYTES_MAX);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Partitions" { table.heat data-list {
            caption.hidden { "Requests by partition and minute, the busiest partition first" }
            thead { tr {
                th scope="col" { "Partition" }
                th.minutes scope="col" { (axis(map)) }
                th.number scope="col" { "Total" }
                th.number scope="col" { "Most in a second" }
            } }
            tbody {
                @for row in rows { (row) }
                @for row in &others { (row) }
            }
        } }
        @if others.len() < count_of_others { p.limits { "Showing " (others.len()) " of " (count_of_others) " counts of others." } }
    }
}

/// The time axis, in UTC.
fn axis(map: &HeatMap) -> Markup {
    html! {
        span.hidden { "Minutes" }
        div.axis {
            @for label in 0..=LABELS {
                span { (clock(map.first_minute, map.minutes * label / LABELS)) }
            }
        }
    }
}

fn shown(row: &PartitionLoad, map: &HeatMap) -> Markup {
    let peak = row.peaks.iter().max().copied().unwrap_or_default();
    html! {
        tr {
            th scope="row" {
                a href=(load::path(row)) { (name(row)) }
                small { @if row.service != Service::Queue { (noun(row.service)) " " (cut(&row.resource, NAME_BYTES_SHOWN)) " of " } @else { "queue of " } (row.account) }
            }
            td.minutes { (strip(map.first_minute, &row.requests, Some(row))) }
            td.number { (count(row.total)) }
            td.number { (count(peak.into())) (above_target(row)) }
        }
    }
}

fn shown_others(others: &Others, map: &HeatMap) -> Markup {
    let total: u64 = others.requests.iter().map(|&count| u64::from(count)).sum();
    html! {
        tr {
            th scope="row" { "All others" small { (others.service.label()) " partitions of " (others.account) ", counted together" } }
            td.minutes { (strip(map.first_minute, &others.requests, None)) }
            td.number { (count(total)) }
            td.number { "–" }
        }
    }
}

/// The cells of a row as a picture. Its label gives the busiest minute; the page of the partition
/// has all figures.
fn strip(first: SystemTime, requests: &[u32], row: Option<&PartitionLoad>) -> Markup {
    let step = |minute: usize| {
        STEPS
            .iter()
            .filter(|&&step| requests[minute] >= step)
            .count()
    };
    let is_over = |minute: usize| {
        row.is_some_and(|row| {
            row.peaks
                .get(minute)
                .is_some_and(|&peak| u64::from(peak) > row.target)
        })
    };
    let paths = (1..=STEPS.len()).map(|wanted| {
        let path = outline(requests.len(), CELL_HEIGHT, |minute| step(minute) == wanted);
        (format!("h{wanted}"), path)
    });
    let marks = outline(requests.len(), MARK_HEIGHT, is_over);
    let paths = paths.chain([("over".to_owned(), marks)]);
    let label = busiest(first, requests);
    html! {
        svg.strip viewBox=(format!("0 0 {} {CELL_HEIGHT}", requests.len())) preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (class, path) in paths.filter(|(_, path)| !path.is_empty()) { path class=(class) d=(path) {} }
        }
    }
}

/// An SVG path of rectangles for the minutes that `is_in` accepts. Adjacent ones are joined.
fn outline(minutes: usize, height: u32, is_in: impl Fn(usize) -> bool) -> String {
    use std::fmt::Write;
    let (mut path, mut minute) = (String::new(), 0);
    while minute < minutes {
        let end = (minute..minutes).find(|&at| !is_in(at)).unwrap_or(minutes);
        if end > minute {
            let width = end - minute;
            let _ = write!(path, "M{minute} 0h{width}v{height}h-{width}z");
        }
        minute = end + 1;
    }
    path
}

fn busiest(first: SystemTime, requests: &[u32]) -> String {
    let busiest = (0u64..).zip(requests).max_by_key(|(_, count)| **count);
    busiest.map_or(String::new(), |(minute, &most)| {
        let at = clock(first, minute);
        format!("Most in a minute: {} at {at}", count(most.into()))
    })
}

fn limits(map: &HeatMap, (shown, found): (usize, usize), wanted: &Wanted) -> Markup {
    let end = map.first_minute + Duration::from_secs(map.minutes * 60);
    html! {
        p.limits {
            "Showing " (shown) " of " (units::counted(found as u64, "partition"))
            @if found < map.rows.len() { ", of " (map.rows.len()) " without the filter" }
            "." (wanted.next(HEAT_MAP, shown, found))
        }
        p.limits {
            "From " (format::time(map.first_minute)) " to " (format::time(end)) " UTC. The map keeps the " (CELLS_MAX) " busiest partitions of the last "
            (MINUTES) " minutes; others are counted together. A query counts if its filter names one partition, with the entities that it returns; a transaction counts "
            "with all its entities. Figures are estimates where requests come so fast that they are sampled."
        }
    }
}

fn splits(splits: &[Splits]) -> Markup {
    let shown = format::fitting(splits.iter().map(split), BESIDE_BYTES_MAX);
    html! {
        section {
            h2 { "Splits" }
            p {
                "The hosted service would have to distribute tables over several servers, if one takes " (count(PARTITION_TARGET)) " entities a second, as "
                "one partition may. When it does so is not published."
            }
            @if splits.is_empty() { p.empty { "No table needs a split." } }
            @for split in &shown { (split) }
            @if shown.len() < splits.len() { p.limits { "Showing " (shown.len()) " of " (splits.len()) " tables." } }
        }
    }
}

fn split(split: &Splits) -> Markup {
    html! {
        h3 { a href=(resource_path(Service::Table, &split.account, &split.table)) { (split.table) } " of " (split.account) }
        dl.remedy {
            @if !split.before.is_empty() { dt { "New ranges begin at" } dd { (keys(&split.before)) } }
            @if !split.too_hot.is_empty() { dt { "Too hot for any split" } dd { (keys(&split.too_hot)) ": some of their requests would be answered 503 Server Busy" } }
        }
    }
}

fn keys(keys: &[String]) -> Markup {
    html! {
        @for (index, key) in keys.iter().take(SPLITS_SHOWN).enumerate() {
            @if index > 0 { ", " }
            code { "'" (cut(key, KEY_BYTES_SHOWN)) "'" }
        }
        @if keys.len() > SPLITS_SHOWN { ", and " (keys.len() - SPLITS_SHOWN) " more" }
    }
}

fn accounts(map: &HeatMap) -> Markup {
    html! {
        @if !map.accounts.is_empty() {
            section {
                h2 { "Accounts" }
                div.scroll tabindex="0" role="region" aria-label="Accounts" { table {
                    caption.hidden { "The load of accounts" }
                    thead { tr { th scope="col" { "Account" } th.number scope="col" { "Most in a second" } th.number scope="col" { "Target" } th scope="col" { "Verdict" } } }
                    tbody {
                        @for (name, load) in &map.accounts {
                            tr {
                                th scope="row" { (name) } td.number { (count(load.peak.into())) } td.number { (count(load.target)) }
                                td { @if load.is_over_target { span.above { "above the target" } } @else { "within the target" } }
                            }
                        }
                    }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_side_by_side_are_one_rectangle() {
        let counts = [1, 1, 0, 5, 0, 0, 1];
        let path = outline(counts.len(), 10, |minute| counts[minute] > 0);
        assert_eq!(path, "M0 0h2v10h-2zM3 0h1v10h-1zM6 0h1v10h-1z");
        assert_eq!(outline(2, 10, |_| true), "M0 0h2v10h-2z");
        assert_eq!(outline(2, 10, |_| false), "");
    }
}
