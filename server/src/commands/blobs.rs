//! `lazurite cat`, `get`, `put` and `rm`: read, write and delete blobs by their paths
//! `CONTAINER/NAME`, one or all of a directory.

use crate::cli::{GetArguments, PutArguments, RmArguments};
use crate::commands::confirm::confirm;
use crate::commands::nearest::{Subject, explain};
use crate::commands::outcome::{Words, report, say};
use crate::http_client::Upload;
use lazurite_base::terminal::plain;
use lazurite_base::units::{counted, size};
use lazurite_mover::bulk::{
    BlobList, Place, Work, count_files, delete_blobs, download, download_one, is_directory,
    list_blobs, upload,
};
use lazurite_mover::{Call, Client, Error, NewBlob, Reply, content_type, put_file, put_stream};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use serde_json::json;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long requests are repeated after a connection broke.
const RETRY: Duration = Duration::from_secs(30);
const BLOBS: [&str; 2] = ["blob", "blobs"];

/// Writes the content of a blob to standard output.
pub fn cat(client: &Client, path: &str) -> Result<ExitCode, String> {
    let place = Place::of_blob(path)?;
    let reply = client.ask(ServiceKind::Blob, "GET", place.resource());
    let mut reply = reply.map_err(|error| explain(client, Subject::Blob(&place), error))?;
    if is_directory_reply(&reply) {
        return Err(format!(
            "{place} is a directory: `lazurite ls {place}` lists it"
        ));
    }
    let mut out = io::stdout().lock();
    match io::copy(reply.body(), &mut out).and_then(|_| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot copy the content: {error}"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Downloads a blob to a file, or all blobs of a directory.
pub fn get(client: &Client, arguments: &GetArguments) -> Result<ExitCode, String> {
    if arguments.recursive {
        get_all(client, arguments)
    } else {
        get_one(client, arguments)
    }
}

fn get_all(client: &Client, arguments: &GetArguments) -> Result<ExitCode, String> {
    let place = Place::read(&arguments.path)?;
    let prefix = place.directory();
    let list = listed(client, &place, &prefix, &mut |blob| !is_directory(blob))?;
    let work = Work::begin(("downloaded", BLOBS[1]), list.count);
    let outcome = download(
        &client.with_retry(RETRY),
        list,
        &prefix,
        arguments.file.as_deref().unwrap_or(Path::new(".")),
        arguments.no_clobber,
        work,
    );
    let words = transferred("downloaded", BLOBS);
    report(&outcome, words, arguments.output.json)
}

fn get_one(client: &Client, arguments: &GetArguments) -> Result<ExitCode, String> {
    let as_json = arguments.output.json;
    let place = Place::of_blob(&arguments.path)?;
    let last = place.name.rsplit('/').next().unwrap_or_default();
    let file = match arguments.file.as_deref() {
        None => PathBuf::from(last),
        Some(directory) if directory.is_dir() => directory.join(last),
        Some(file) => file.to_path_buf(),
    };
    let shown = file.display().to_string();
    if file.file_name().is_none_or(|name| name == "..") {
        return Err(format!("{place}: name the file to write, after the blob"));
    }
    if arguments.no_clobber && file.exists() {
        let fact = json!({"file": shown, "done": false});
        say(as_json, fact, &format!("{shown} is there already"));
        return Ok(ExitCode::SUCCESS);
    }
    let head = client.ask(ServiceKind::Blob, "HEAD", place.resource());
    if head.is_ok_and(|reply| is_directory_reply(&reply)) {
        return Err(format!(
            "{place} is a directory: -r downloads what is in it"
        ));
    }
    let client = client.with_retry(RETRY);
    let bytes = download_one(&client, &place.container, &place.name, None, &file);
    let bytes = bytes.map_err(|error| explain(&client, Subject::Blob(&place), error))?;
    let sentence = format!("{place} -> {shown}, {}", size(bytes));
    let fact = json!({"file": shown, "bytes": bytes, "done": true});
    say(as_json, fact, &sentence);
    Ok(ExitCode::SUCCESS)
}

/// The blobs whose names begin with a prefix. Error: there are none.
fn listed(
    client: &Client,
    place: &Place,
    prefix: &str,
    takes: &mut dyn FnMut(&Element) -> bool,
) -> Result<BlobList, String> {
    let list = list_blobs(client, &place.container, prefix, "", takes);
    let container = Subject::Container(&place.container);
    let list = list.map_err(|error| explain(client, container, error))?;
    if list.count == 0 {
        return Err(nothing_below(client, place));
    }
    Ok(list)
}

/// Uploads a file, standard input for `-`, or all files of a directory.
pub fn put(client: &Client, arguments: &PutArguments) -> Result<ExitCode, String> {
    let file = arguments.file.as_path();
    let shown = file.display();
    if arguments.recursive && !file.is_dir() {
        return Err(format!("{shown} is no directory: leave -r out"));
    }
    if arguments.recursive {
        return put_all(client, arguments);
    }
    if file.is_dir() {
        return Err(format!(
            "cannot read {shown}: it is a directory, which -r uploads"
        ));
    }
    put_one(client, arguments)
}

fn put_all(client: &Client, arguments: &PutArguments) -> Result<ExitCode, String> {
    let place = Place::read(&arguments.path)?;
    let found = count_files(&arguments.file)?;
    let work = Work::begin(("uploaded", "files"), found.files);
    let outcome = upload(
        &client.with_retry(RETRY),
        &arguments.file,
        &place,
        arguments.content_type.as_deref(),
        arguments.no_clobber,
        work,
    );
    let words = transferred("uploaded", ["file", "files"]);
    report(&outcome, words, arguments.output.json)
}

fn put_one(client: &Client, arguments: &PutArguments) -> Result<ExitCode, String> {
    let (file, as_json) = (arguments.file.as_path(), arguments.output.json);
    let place = place_of_upload(file, &arguments.path)?;
    let kind = arguments.content_type.as_deref();
    let kind = kind.unwrap_or_else(|| content_type(&place.name));
    let blob = NewBlob {
        resource: &place.resource(),
        content_type: kind,
        keeps_existing: arguments.no_clobber,
    };
    let written = if file == Path::new("-") {
        let input: Box<dyn Read> = Box::new(io::stdin());
        put_stream(client, ("standard input", input), blob)
    } else {
        put_file(client, file, blob)
    };
    let shown = place.to_string();
    let bytes = match written {
        Err(error) if error.code() == "BlobAlreadyExists" => {
            let fact = json!({"blob": shown, "done": false});
            say(as_json, fact, &format!("{place} is there already"));
            return Ok(ExitCode::SUCCESS);
        }
        written => written.map_err(|error| unreadable_or(client, file, &place, error))?,
    };
    let fact = json!({"blob": shown, "bytes": bytes, "content_type": kind, "done": true});
    let sentence = format!("put {place}, {}, {kind}", size(bytes));
    say(as_json, fact, &sentence);
    Ok(ExitCode::SUCCESS)
}

/// The blob of a file: a path that ends with a slash, or that is a container, takes the name of the
/// file.
fn place_of_upload(file: &Path, path: &str) -> Result<Place, String> {
    let mut place = Place::read(path)?;
    if place.name.is_empty() || place.name.ends_with('/') {
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.filter(|name| *name != "-");
        place.name +=
            name.ok_or_else(|| format!("{path:?} names no blob: write CONTAINER/NAME"))?;
    }
    Ok(place)
}

fn unreadable_or(client: &Client, file: &Path, place: &Place, error: Error) -> String {
    match error.refusal() {
        Some(_) => explain(client, Subject::Blob(place), error),
        None if error
            .to_string()
            .starts_with(&format!("{}: ", file.display())) =>
        {
            format!("cannot read {error}")
        }
        None => error.to_string(),
    }
}

/// Deletes a blob, all blobs of a directory, or all whose names begin with a prefix.
pub fn remove(client: &Client, arguments: &RmArguments) -> Result<ExitCode, String> {
    let as_json = arguments.output.json;
    if !arguments.recursive && !arguments.prefix {
        let place = Place::of_blob(&arguments.path)?;
        delete(client, &place, arguments.snapshots)?;
        say(
            as_json,
            json!({"blob": place.to_string(), "done": true}),
            &format!("deleted {place}"),
        );
        return Ok(ExitCode::SUCCESS);
    }
    let place = Place::read(&arguments.path)?;
    let prefix = if arguments.prefix {
        place.name.clone()
    } else {
        place.directory()
    };
    let list = listed(client, &place, &prefix, &mut |_| true)?;
    let question = format!(
        "Delete {}, {}, {} {}/{prefix}?",
        counted(list.count, "blob"),
        size(list.bytes),
        if arguments.prefix {
            "whose names begin with"
        } else {
            "in"
        },
        place.container,
    );
    confirm(&plain(&question), arguments.yes)?;
    let work = Work::begin(("deleted", BLOBS[1]), list.count);
    let outcome = delete_blobs(&client.with_retry(RETRY), list, arguments.snapshots, work);
    let words = Words {
        verb: "deleted",
        noun: BLOBS,
        skipped: "were gone already",
        way_on: "The same command goes on from there",
    };
    report(&outcome, words, as_json)
}

/// Deletes a blob, with its snapshots if wanted.
pub fn delete(client: &Client, place: &Place, with_snapshots: bool) -> Result<(), String> {
    let headers = if with_snapshots {
        vec![("x-ms-delete-snapshots".to_owned(), "include".to_owned())]
    } else {
        Vec::new()
    };
    let call = Call {
        service: ServiceKind::Blob,
        method: "DELETE",
        resource: place.resource(),
        headers,
    };
    let deleted = client.send(call, Upload::empty());
    deleted.map(drop).map_err(|error| {
        let error = Error::from(error);
        match error.code() {
            "SnapshotsPresent" => format!("{place} has snapshots: --snapshots deletes them too"),
            _ => explain(client, Subject::Blob(place), error),
        }
    })
}

/// Whether the answer about a path is about a directory of a hierarchical container.
pub fn is_directory_reply(reply: &Reply) -> bool {
    reply.header("x-ms-resource-type") == Some("directory")
}

/// The sentence about a directory without blobs.
pub fn nothing_below(client: &Client, place: &Place) -> String {
    let is_blob = client
        .ask(ServiceKind::Blob, "HEAD", place.resource())
        .is_ok();
    if is_blob && !place.name.is_empty() {
        return format!("{place} is one blob, and no directory: leave -r out");
    }
    if place.name.is_empty() {
        return format!("{} has no blobs", place.container);
    }
    format!(
        "{place} has no blobs: `lazurite tree {}` lists what there is",
        place.container
    )
}

/// The words of an upload, a download or a copy.
pub fn transferred(verb: &'static str, noun: [&'static str; 2]) -> Words {
    Words {
        verb,
        noun,
        skipped: "were there already",
        way_on: "The same command with --no-clobber goes on from there",
    }
}
