//! Engine: the current figures of the store, and charts of their changes.

use crate::context::Console;
use crate::layout;
use crate::respond::{Json, Page, made};
use axum::extract::State;
use lazurite_base::units::{self, count, size};
use lazurite_engine::Stats;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::sync::Arc;

/// Width and height of a chart, in units of its SVG.
const CHART: (u32, u32) = (300, 80);

/// The charts that the page's script draws: key, title, unit, explanation.
const CHARTS: [(&str, &str, &str, &str); 8] = [
    (
        "write_amplification",
        "Write amplification",
        "",
        "bytes written for each byte put, since the store was opened",
    ),
    (
        "space_amplification",
        "Space amplification",
        "",
        "bytes of files for each byte of the deepest level and of live values",
    ),
    (
        "read_amplification",
        "Read amplification",
        "",
        "places that a lookup may look into",
    ),
    (
        "changes_a_sync",
        "Changes a sync",
        "",
        "changes that became durable with one sync of the log",
    ),
    (
        "put",
        "Put by the services",
        "B/s",
        "bytes of keys and values",
    ),
    (
        "compacted",
        "Compaction",
        "B/s",
        "bytes written by compactions",
    ),
    (
        "blocks_read",
        "Cache misses",
        "/s",
        "blocks read from files because they were not in memory",
    ),
    (
        "cache_bytes",
        "Cache",
        "B",
        "bytes of blocks, indexes and filters in memory",
    ),
];

pub async fn page(State(console): State<Arc<Console>>) -> Page {
    made(console, |console| {
        let stats = console.services().stats();
        let content = html! {
            h1 { "Engine" }
            p { "Counts are since the store was opened." }
            section.cards aria-label="Figures" { (cards(&stats)) }
            section data-charts="/_lazurite/api/engine" hidden {
                h2 { "As it changes" }
                p.limits { "Once a second, for as long as this page is open." }
                div.charts { @for (key, title, unit, explanation) in CHARTS { (chart(key, title, unit, explanation)) } }
            }
            noscript { p.limits { "Charts need JavaScript. Reload for the present figures." } }
            div data-fresh="levels" { (levels(&stats)) (written(&stats)) }
            (layout::script("engine.js"))
        };
        Ok(layout::page(console, "Engine", "Engine", content))
    })
    .await
}

/// `/_lazurite/api/engine`: the figures of the store as JSON.
pub async fn figures(State(console): State<Arc<Console>>) -> Page<Json<Value>> {
    made(console, |console| {
        let stats = console.services().stats();
        Ok(Json(document(&stats)))
    })
    .await
}

fn document(stats: &Stats) -> Value {
    json!({
        "level_files": stats.sstables,
        "level_bytes": stats.level_bytes,
        "write_amplification": stats.write_amplification(),
        "space_amplification": space_amplification(stats),
        "read_amplification": stats.read_amplification(),
        "memtable_bytes": stats.memtable_bytes,
        "wal_segments": stats.wal_segments,
        "value_log_bytes": stats.value_log_bytes,
        "value_log_live_bytes": stats.value_log_live_bytes,
        "cache_bytes": stats.cache_bytes,
        "blocks_read": stats.blocks_read,
        "put_bytes": stats.put_bytes,
        "logged_bytes": stats.logged_bytes,
        "flushed_bytes": stats.flushed_bytes,
        "compacted_bytes": stats.compacted_bytes,
        "value_bytes": stats.value_bytes,
        "flushes": stats.flushes,
        "compactions": stats.compactions,
        "changes": stats.last_sequence,
        "syncs": stats.syncs,
        "stalls": stats.stalls,
        "stalled_seconds": stats.stalled.as_secs_f64(),
    })
}

/// The bytes of all files for each byte that is needed; `None` for an empty store. The needed bytes
/// are an estimate that reads nothing: the deepest level in use, which holds each key once, and the
/// referenced bytes of the value log.
fn space_amplification(stats: &Stats) -> Option<f64> {
    let deepest = stats.level_bytes.iter().rev().find(|&&bytes| bytes > 0);
    let needed = deepest.copied().unwrap_or(0) + stats.value_log_live_bytes;
    let used = stats.sstable_bytes + stats.value_log_bytes;
    (needed > 0).then(|| used as f64 / needed as f64)
}

fn cards(stats: &Stats) -> Markup {
    let space =
        space_amplification(stats).map_or("–".to_owned(), |factor| format!("{factor:.2}"));
    html! {
        (card("Write amplification", &format!("{:.2}", stats.write_amplification()), "bytes written for each byte put"))
        (card("Space amplification", &space, "bytes of files for each byte that is needed"))
        (card("Read amplification", &count(stats.read_amplification()), "places that a lookup may look into"))
        (card("Cache", &size(stats.cache_bytes), &format!("{} blocks read from files", count(stats.blocks_read))))
        (card("Stalls", &count(stats.stalls), &format!("{:.1} s of waiting writers, all together", stats.stalled.as_secs_f64())))
    }
}

fn card(title: &str, figure: &str, explanation: &str) -> Markup {
    html! { div.card { h2 { (title) } p.figure { (figure) } p { (explanation) } } }
}

/// An empty chart, which the script fills.
fn chart(key: &str, title: &str, unit: &str, explanation: &str) -> Markup {
    let (width, height) = CHART;
    html! {
        figure.chart data-chart=(key) data-unit=(unit) {
            figcaption { b { (title) } " " span data-now { "–" } small { (explanation) } }
            svg viewBox=(format!("0 0 {width} {height}")) preserveAspectRatio="none" role="img" aria-label=(title) {
                polyline.line points="" {}
            }
            p.limits { "at most " span data-top { "–" } }
        }
    }
}
fn levels(stats: &Stats) -> Markup {
    let largest = stats
        .level_bytes
        .iter()
        .copied()
        .max()
        .unwrap_or_default()
        .max(1);
    html! {
        section {
            h2 { "Levels" }
            div.scroll tabindex="0" role="region" aria-label="Levels" { table {
                caption.hidden { "SSTables by level" }
                thead { tr { th scope="col" { "Level" } th.number scope="col" { "Files" } th.number scope="col" { "Bytes" } th scope="col" { "Share" } } }
                tbody {
                    @for (level, (files, bytes)) in stats.sstables.iter().zip(&stats.level_bytes).enumerate() {
                        tr {
                            th scope="row" { (level) } td.number { (count(*files)) } td.number { (size(*bytes)) }
                            td { (layout::bar(*bytes, largest)) }
                        }
                    }
                }
            } }
        }
    }
}

/// The bytes that the store writes, by purpose: name, amount, number of pieces.
fn work(stats: &Stats) -> [(&'static str, String, String); 7] {
    [
        ("Put by the services", size(stats.put_bytes), String::new()),
        (
            "Write-ahead log",
            size(stats.logged_bytes),
            format!(
                "{}, {}",
                units::counted(stats.wal_segments, "segment"),
                units::counted(stats.syncs, "sync")
            ),
        ),
        (
            "Flushes",
            size(stats.flushed_bytes),
            units::counted(stats.flushes, "memtable"),
        ),
        (
            "Compactions",
            size(stats.compacted_bytes),
            units::counted(stats.compactions, "compaction"),
        ),
        (
            "Value log",
            size(stats.value_bytes),
            format!(
                "{} kept, {} of them live",
                size(stats.value_log_bytes),
                size(stats.value_log_live_bytes)
            ),
        ),
        (
            "Memtables",
            size(stats.memtable_bytes),
            format!("{} waiting to be flushed", count(stats.sealed_memtables)),
        ),
        (
            "Snapshots",
            count(stats.snapshots),
            format!(
                "the oldest {} old",
                units::counted(stats.oldest_snapshot_age, "change")
            ),
        ),
    ]
}

fn written(stats: &Stats) -> Markup {
    html! {
        section {
            h2 { "Work" }
            div.scroll tabindex="0" role="region" aria-label="Work" { table {
                caption.hidden { "Bytes written" }
                thead { tr { th scope="col" { "What" } th.number scope="col" { "Amount" } th scope="col" { "Detail" } } }
                tbody { @for (what, amount, detail) in work(stats) { tr { th scope="row" { (what) } td.number { (amount) } td { (detail) } } } }
            } }
        }
    }
}
