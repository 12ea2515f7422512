//! How the content of a blob is stored: the blocks of a block blob, committed and not, and the
//! written pages of a page blob.

use crate::blobs::place::{Place, visited_state};
use crate::blobs::words;
use crate::context::Console;
use crate::format;
use crate::respond::{Json, Visit};
use crate::value_text::hex;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_base::units::{self, count, size};
use lazurite_blob::{
    Blob, BlobAddress, BlobBlock, BlobService, BlobType, BlockList, BlockListType, Conditions,
    GetPageRanges, PageRange,
};
use lazurite_protocol::response::error::Result;
use maud::{Markup, html};
use serde_json::{Value, json};

/// Maximum number of rows in each list, of bytes of these rows, and of rows in the JSON document.
const ROWS_SHOWN: usize = 100;
const ROWS_BYTES_MAX: usize = 16 << 10;
const ROWS_MAX: usize = 50_000;
/// Width of the map of pages, in SVG units.
const MAP_WIDTH: f64 = 1000.0;

fn block_list(blobs: &BlobService, address: &BlobAddress<'_>) -> Result<BlockList> {
    Ok(blobs.get_block_list(address, BlockListType::All, &Conditions::default())?)
}

/// At most `most` page ranges, and whether there are more.
fn page_ranges(
    blobs: &BlobService,
    address: &BlobAddress<'_>,
    most: usize,
) -> Result<(Vec<PageRange>, bool)> {
    let mut request = GetPageRanges {
        max_results: Some(most as u32),
        ..GetPageRanges::default()
    };
    let mut ranges = Vec::new();
    loop {
        let page = blobs.get_page_ranges(address, &request)?;
        ranges.extend(page.ranges);
        request.marker = page.next_marker;
        if request.marker.is_none() || ranges.len() >= most {
            ranges.truncate(most);
            return Ok((ranges, request.marker.is_some()));
        }
    }
}

/// The section with the blocks or pages of a blob; empty if it has neither.
pub fn section(blobs: &BlobService, address: &BlobAddress<'_>, blob: &Blob) -> Markup {
    match blob.blob_type() {
        BlobType::BlockBlob => {
            block_list(blobs, address).map_or_else(|_| html! {}, |list| blocks(&list))
        }
        BlobType::PageBlob => page_ranges(blobs, address, ROWS_SHOWN).map_or_else(
            |_| html! {},
            |(ranges, is_cut)| pages(&ranges, is_cut, blob.length),
        ),
        BlobType::AppendBlob => html! {},
    }
}

fn blocks(list: &BlockList) -> Markup {
    html! {
        section {
            h2 { "Blocks" }
            @if list.committed.is_empty() && list.uncommitted.is_empty() { p.limits { "Uploaded in one request, without blocks." } }
            (block_table("Committed blocks", "in the order of the content", &list.committed, true))
            (block_table("Uncommitted blocks", "by id; they are dropped a week after the last one was put", &list.uncommitted, false))
        }
    }
}

fn block_table(title: &str, order: &str, blocks: &[BlobBlock], has_offsets: bool) -> Markup {
    if blocks.is_empty() {
        return html! {};
    }
    let bytes: u64 = blocks.iter().map(|block| block.length).sum();
    let offsets = blocks.iter().scan(0, |offset, block| {
        *offset += block.length;
        Some(*offset - block.length)
    });
    let rows = blocks.iter().enumerate().zip(offsets).take(ROWS_SHOWN);
    let rows = rows
        .map(|((index, block), offset)| block_row(index + 1, block, has_offsets.then_some(offset)));
    let rows = format::fitting(rows, ROWS_BYTES_MAX);
    html! {
        details open[blocks.len() <= 10 || !has_offsets] {
            summary { (title) ": " (units::counted(blocks.len() as u64, "block")) ", " (size(bytes)) }
            div.scroll tabindex="0" role="region" aria-label=(title) { table {
                caption.hidden { (title) ", " (order) }
                thead { tr {
                    th.number scope="col" { "Number" } th scope="col" { "Id" } th scope="col" { "Id as text" }
                    @if has_offsets { th.number scope="col" { "Offset" } }
                    th.number scope="col" { "Bytes" }
                } }
                tbody { @for row in &rows { (row) } }
            } }
            p.limits { "Showing " (rows.len()) " of " (count(blocks.len() as u64)) ", " (order) "." }
        }
    }
}

fn block_row(number: usize, block: &BlobBlock, offset: Option<u64>) -> Markup {
    html! { tr {
        td.number { (number) }
        td { code { (STANDARD.encode(&block.id)) } }
        td { (id_text(&block.id)) }
        @if let Some(offset) = offset { td.number { (count(offset)) } }
        td.number { (count(block.length)) }
    } }
}

/// A block's id as text if it is readable text, otherwise in hexadecimal digits.
fn id_text(id: &[u8]) -> String {
    let text = std::str::from_utf8(id).ok();
    let text = text.filter(|text| !text.chars().any(char::is_control));
    text.map_or_else(|| hex(id), str::to_owned)
}

fn pages(ranges: &[PageRange], is_cut: bool, length: u64) -> Markup {
    let written: u64 = ranges
        .iter()
        .map(|page| page.range.end - page.range.start)
        .sum();
    html! {
        section {
            h2 { "Pages" }
            @if ranges.is_empty() { p.empty { "No page is written: all " (count(length)) " bytes are zero." } } @else {
                p { @if is_cut { "The first " (ROWS_SHOWN) " ranges have " } (count(written)) " of " (count(length)) " bytes" @if !is_cut { " are written" } "; the others are zero." }
                (page_map(ranges, length))
                div.scroll tabindex="0" role="region" aria-label="Pages" { table {
                    caption.hidden { "Written ranges" }
                    thead { tr { th.number scope="col" { "First byte" } th.number scope="col" { "Last byte" } th.number scope="col" { "Bytes" } } }
                    tbody { @for PageRange { range, .. } in ranges { tr {
                        td.number { (count(range.start)) } td.number { (count(range.end - 1)) } td.number { (count(range.end - range.start)) }
                    } } }
                } }
                p.limits { "Showing " @if is_cut { "the first " } (units::counted(ranges.len() as u64, "range")) "." }
            }
        }
    }
}

/// A map of the written ranges along the length of the blob.
fn page_map(ranges: &[PageRange], length: u64) -> Markup {
    let place = |byte: u64| byte as f64 / length.max(1) as f64 * MAP_WIDTH;
    html! {
        svg.strip viewBox=(format!("0 0 {MAP_WIDTH} 20")) preserveAspectRatio="none" role="img" aria-label="Map of the written pages" {
            @for PageRange { range, .. } in ranges {
                rect.h5 x=(format!("{:.1}", place(range.start))) width=(format!("{:.1}", (place(range.end) - place(range.start)).max(1.0))) height="20" {}
            }
        }
    }
}

/// `/_lazurite/blobs/ACCOUNT/CONTAINER/blob/blocks.json?name=NAME`: the parts as JSON. Also for a
/// name that has only uncommitted blocks.
pub fn json(console: &Console, place: &Place, visit: &Visit) -> Result<Json<Value>> {
    let name = visit.parameter("name");
    let address = place.address(&name, visited_state(visit)?);
    let (services, _) = console.at(&place.account)?;
    Ok(Json(document(&services.blobs, &address)?))
}

fn document(blobs: &BlobService, address: &BlobAddress<'_>) -> Result<Value> {
    let properties = blobs.get_blob_properties(address, &Conditions::default());
    let kind = properties.map_or(BlobType::BlockBlob, |blob| blob.blob_type());
    let mut document = json!({ "kind": words::kind(kind) });
    match kind {
        BlobType::BlockBlob => {
            let list = block_list(blobs, address)?;
            document["committed"] = shown_blocks(&list.committed);
            document["uncommitted"] = shown_blocks(&list.uncommitted);
        }
        BlobType::PageBlob => {
            let (ranges, _) = page_ranges(blobs, address, ROWS_MAX)?;
            let ranges = ranges
                .iter()
                .map(|page| json!({"first": page.range.start, "end": page.range.end}));
            document["pages"] = ranges.collect();
        }
        BlobType::AppendBlob => {}
    }
    Ok(document)
}

fn shown_blocks(blocks: &[BlobBlock]) -> Value {
    let blocks = blocks.iter().take(ROWS_MAX);
    blocks
        .map(|block| json!({"id": STANDARD.encode(&block.id), "bytes": block.length}))
        .collect()
}
