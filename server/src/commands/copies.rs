//! `lazurite cp` and `mv`: copy or move blobs between containers, accounts, forks and servers.

use crate::cli::CopyPathsArguments;
use crate::commands::blobs::{is_directory_reply, nothing_below, transferred};
use crate::commands::nearest::{Subject, explain};
use crate::commands::outcome::{report, say};
use lazurite_base::units::size;
use lazurite_mover::bulk::{Place, Work};
use lazurite_mover::{BlobsCopy, Client, Error, encode};
use lazurite_protocol::service_kind::ServiceKind;
use serde_json::json;
use std::process::ExitCode;

/// Copies, or moves with `moves`. The error is a sentence.
pub fn run(arguments: &CopyPathsArguments, moves: bool) -> Result<ExitCode, String> {
    let from = arguments.store.client()?;
    let other = arguments.to_client()?;
    let to = other.as_ref().unwrap_or(&from);
    let read = if arguments.recursive {
        Place::read
    } else {
        Place::of_blob
    };
    let source = read(&arguments.from)?;
    let mut destination = Place::read(&arguments.to)?;
    let takes_name = destination.name.is_empty() || destination.name.ends_with('/');
    if !arguments.recursive && takes_name {
        destination.name += source.name.rsplit('/').next().unwrap_or_default();
    }
    let copy = BlobsCopy {
        from: &from,
        to,
        source,
        destination,
        is_recursive: arguments.recursive,
        moves,
        keeps_existing: arguments.no_clobber,
    };
    if copy.is_onto_itself()? {
        return Err(format!(
            "{} and {} are the same",
            copy.source, copy.destination
        ));
    }
    check_container(to, &copy.destination)?;
    let verb = if moves { "moved" } else { "copied" };
    let outcome = copy.run(|total| Work::begin((verb, "blobs"), total));
    let container = Subject::Container(&copy.source.container);
    let outcome = outcome.map_err(|error| explain(&from, container, error))?;
    if outcome.total == 0 && outcome.left_out.is_empty() {
        return Err(missing(&from, &copy.source, arguments.recursive));
    }
    let mut words = transferred(verb, ["blob", "blobs"]);
    if moves {
        words.way_on = "The same command goes on from there";
    }
    let is_one = !arguments.recursive && outcome.done == 1 && outcome.notes.is_empty();
    if !is_one {
        return report(&outcome, words, arguments.output.json);
    }
    let fact = json!({
        "from": copy.source.to_string(), "to": copy.destination.to_string(), "bytes": outcome.bytes, "done": true,
    });
    let (source, destination) = (&copy.source, &copy.destination);
    let sentence = format!("{verb} {source} -> {destination}, {}", size(outcome.bytes));
    say(arguments.output.json, fact, &sentence);
    Ok(ExitCode::SUCCESS)
}

/// Fails if the container of the destination is not there, before anything is read.
fn check_container(to: &Client, destination: &Place) -> Result<(), String> {
    let container = &destination.container;
    let resource = format!("{}?restype=container", encode(container));
    match to.ask(ServiceKind::Blob, "GET", resource) {
        Ok(_) => Ok(()),
        Err(error) => {
            let error = Error::from(error);
            match error.status() {
                // A SAS may permit writing without this.
                Some(403) if error.code() != "AuthenticationFailed" => Ok(()),
                _ => Err(explain(to, Subject::Container(container), error)),
            }
        }
    }
}

fn missing(from: &Client, source: &Place, is_recursive: bool) -> String {
    if is_recursive {
        return nothing_below(from, source);
    }
    match from.ask(ServiceKind::Blob, "GET", source.resource()) {
        Ok(reply) if is_directory_reply(&reply) => {
            format!("{source} is a directory: -r takes what is in it")
        }
        Ok(_) => format!("{source} was put there just now: copy again"),
        Err(error) => explain(from, Subject::Blob(source), error),
    }
}
