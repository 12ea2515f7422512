//! Engine: the figures of the open store.

use crate::console::Console;
use crate::console::layout::{self, count, size};
use crate::console::respond::Page;
use axum::extract::State;
use lazurite_engine::Stats;
use maud::{Markup, html};
use std::sync::Arc;

/// Units of the drawing's width.
const BAR_WIDTH: u64 = 300;

pub async fn page(State(console): State<Arc<Console>>) -> Page {
    let stats = console.services().db.stats();
    let content = html! {
        h1 { "Engine" }
        p { "Counts are since the store was opened. Reload for the present." }
        section.cards aria-label="Figures" {
            (card("Write amplification", &format!("{:.2}", stats.write_amplification()), "bytes written for each byte put"))
            (card("Read amplification", &count(stats.read_amplification()), "places that a lookup may look into"))
            (card("Cache", &size(stats.cache_bytes), &format!("{} blocks read from files", count(stats.blocks_read))))
            (card("Stalls", &count(stats.stalls), &format!("{:.1} s of waiting writers, all together", stats.stalled.as_secs_f64())))
        }
        (levels(&stats))
        (written(&stats))
    };
    Ok(layout::page(&console, "Engine", "Engine", content))
}

fn card(title: &str, figure: &str, explanation: &str) -> Markup {
    html! { div.card { h2 { (title) } p.figure { (figure) } p { (explanation) } } }
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
                            td { (bar(*bytes, largest)) }
                        }
                    }
                }
            } }
        }
    }
}

fn bar(value: u64, largest: u64) -> Markup {
    let width = (u128::from(value) * u128::from(BAR_WIDTH) / u128::from(largest)) as u64;
    html! {
        svg.bar-chart width=(BAR_WIDTH) height="10" viewBox=(format!("0 0 {BAR_WIDTH} 10")) aria-hidden="true" {
            rect.track width=(BAR_WIDTH) height="10" rx="3" {}
            rect.value width=(width) height="10" rx="3" {}
        }
    }
}

/// The bytes that the store writes, by purpose: the name, the amount, and the number of pieces.
fn work(stats: &Stats) -> [(&'static str, String, String); 7] {
    [
        ("Put by the services", size(stats.put_bytes), String::new()),
        (
            "Write-ahead log",
            size(stats.logged_bytes),
            format!(
                "{}, {}",
                layout::counted(stats.wal_segments, "segment"),
                layout::counted(stats.syncs, "sync")
            ),
        ),
        (
            "Flushes",
            size(stats.flushed_bytes),
            layout::counted(stats.flushes, "memtable"),
        ),
        (
            "Compactions",
            size(stats.compacted_bytes),
            layout::counted(stats.compactions, "compaction"),
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
                layout::counted(stats.oldest_snapshot_age, "change")
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
