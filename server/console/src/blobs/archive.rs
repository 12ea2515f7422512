//! Blobs as one zip file, written while it is sent.

use crate::blobs::chosen::{Item, Selected};
use crate::context::Console;
use crate::jobs::{self, Items};
use crate::respond::{put_file_name, text};
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::Conditions;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::connection::on_blocking_pool;
use lazurite_services::response::written::written_by;
use std::io::{self, Write};
use std::sync::Arc;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

/// Bytes of a blob that are read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The selected blobs as a zip file. Names are those below `base`. Error: nothing is selected.
pub async fn archive(
    console: Arc<Console>,
    selected: Selected,
    base: &str,
) -> Result<Response<Body>> {
    let base = base.to_owned();
    let directory = base.trim_end_matches('/').rsplit('/').next();
    let name = directory.filter(|name| !name.is_empty());
    let file = format!("{}.zip", name.unwrap_or(&selected.place.container));
    // The first page is read before the response begins, so that a mistake gets an answer.
    let mut first = selected.clone();
    let has_any = on_blocking_pool(move || Ok(first.next()?.is_some())).await?;
    if !has_any {
        return Err(Failure::new(400, "NothingSelected", jobs::NOTHING));
    }
    let body = written_by(move |target| write(&console, selected, &base, target));
    let mut response = text("application/zip", body);
    put_file_name(response.headers_mut(), &file);
    Ok(response)
}

fn write(
    console: &Console,
    mut selected: Selected,
    base: &str,
    target: &mut dyn Write,
) -> io::Result<()> {
    let mut zip = ZipWriter::new_stream(target);
    while let Some(items) = selected.next().map_err(of_failure)? {
        for item in items {
            add(console, &selected, &item, base, &mut zip)?;
        }
    }
    zip.finish()?;
    Ok(())
}

fn of_failure(failure: Failure) -> io::Error {
    io::Error::other(failure.message.to_string())
}

/// Adds one blob. One that was deleted meanwhile is left out.
fn add(
    console: &Console,
    selected: &Selected,
    item: &Item,
    base: &str,
    zip: &mut ZipWriter<StreamWriter<&mut dyn Write>>,
) -> io::Result<()> {
    let place = &selected.place;
    let name = safe(item.name.strip_prefix(base).unwrap_or(&item.name));
    if item.is_directory {
        return Ok(zip.add_directory(name, SimpleFileOptions::default())?);
    }
    let (services, _) = console.at(&place.account).map_err(of_failure)?;
    let found = services
        .blobs
        .get_blob(&place.current(&item.name), None, &Conditions::default());
    let mut download = match found {
        Ok(download) => download,
        Err(lazurite_blob::Error::BlobNotFound) => return Ok(()),
        Err(error) => return Err(io::Error::other(format!("{}: {error}", item.name))),
    };
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(download.blob.length >= u64::from(u32::MAX));
    zip.start_file(name, options)?;
    while let Some(chunk) = download
        .body
        .next_chunk(CHUNK_BYTES)
        .map_err(io::Error::other)?
    {
        zip.write_all(&chunk)?;
    }
    Ok(())
}

/// A name whose parts stay below the directory into which a program unpacks the file.
fn safe(name: &str) -> String {
    let parts = name.split(['/', '\\']).map(|part| match part {
        "" | "." | ".." => "_",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_an_archive_stay_below_its_directory() {
        for (name, expected) in [
            ("2026/lake.jpg", "2026/lake.jpg"),
            ("../../etc/passwd", "_/_/etc/passwd"),
            ("/root", "_/root"),
            ("a//b\\..\\c", "a/_/b/_/c"),
        ] {
            assert_eq!(safe(name), expected);
        }
    }
}
