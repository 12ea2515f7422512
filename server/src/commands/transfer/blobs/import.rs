//! Reads containers and their blobs from the files of an import, checks them, and hands them to
//! [`BlobImport`].

use crate::clock::system_time;
use crate::codec::date;
use crate::commands::transfer::blobs::line::{Kind, OTHER_FIELDS, PROPERTIES, headers_of, kind_of};
use crate::commands::transfer::blobs::resource;
use crate::commands::transfer::blobs::upload::{BlobImport, PAGE_BYTES};
use crate::commands::transfer::checks::{CONTAINER_RULES, check_names, check_properties_of_blob};
use crate::commands::transfer::content::{Content, Part};
use crate::commands::transfer::fields::text_field;
use crate::commands::transfer::files::{hash, name_of};
use crate::commands::transfer::import::Import;
use crate::commands::transfer::parallel::{Hand, in_parallel};
use crate::commands::transfer::resource_kind::ResourceKind;
use crate::commands::transfer::{Error, Result};
use crate::resource_names::check_container_name;
use lazurite_blob::PAGE_BLOB_BYTES_MAX;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Reads and checks all lines and settings. Errors: what an import would refuse without asking the
/// service.
pub fn check(import: &Import<'_>) -> Result<()> {
    for container in import.resources(ResourceKind::Container)? {
        let root = format!("blobs/{container}");
        check_container_name(&container).map_err(|error| Error::from(error).within(&root))?;
        if lazurite_blob::is_system_container(&container) {
            return Err(Error::from("the service makes it itself").within(root));
        }
        CONTAINER_RULES.check(import.source, &ResourceKind::Container.settings(&container))?;
        each_blob(import, &container, &mut |put| {
            check_blob(import, &put).map_err(|error| error.within(&put.path))
        })?;
    }
    Ok(())
}

fn check_blob(import: &Import<'_>, put: &Put) -> Result<()> {
    lazurite_blob::check_blob_name(&put.name).map_err(|error| match error {
        lazurite_blob::Error::OutOfRangeInput { reason } => format!("name: {reason}"),
        _ => format!("name: {:?} cannot be a blob's", put.name),
    })?;
    let length = put.content.length(import)?;
    let kind = kind_of(&put.fields)?;
    check_properties_of_blob(&put.fields, kind)?;
    if matches!(kind, Kind::Page)
        && !(length.is_multiple_of(PAGE_BYTES as u64) && length <= PAGE_BLOB_BYTES_MAX)
    {
        let rule = format!(
            "a page blob has a multiple of {PAGE_BYTES}, and at most {PAGE_BLOB_BYTES_MAX}"
        );
        return Err(format!("{length} bytes: {rule}").into());
    }
    Ok(headers_of(&put.fields).map(drop)?)
}

/// Makes all containers of the directory, with their blobs. They are checked.
pub fn import(import: &Import<'_>) -> Result<()> {
    for container in import.resources(ResourceKind::Container)? {
        let Some(is_new) = import.make(ResourceKind::Container, &container)? else {
            continue;
        };
        import.progress.add(&import.progress.containers, 1);
        if !is_new {
            import.note_existing(
                ResourceKind::Container,
                &container,
                "blobs of the same names are replaced",
            );
        }
        import_container(import, &container)?;
    }
    Ok(())
}

/// A blob to be put: its line, and its content.
pub(super) struct Put {
    pub(super) fields: Map<String, Value>,
    pub(super) name: String,
    pub(super) content: Content,
    /// How messages name it.
    pub(super) path: String,
}

fn import_container(import: &Import<'_>, container: &str) -> Result<()> {
    let produce = |hand: &mut Hand<'_, Put>| each_blob(import, container, hand);
    in_parallel(produce, |put| {
        let imported = import_blob(import, container, &put);
        import.or_leave_out(&put.path, imported).map(drop)
    })
}

/// Hands on the blobs that lines name, and then all other files.
fn each_blob(import: &Import<'_>, container: &str, hand: &mut Hand<'_, Put>) -> Result<()> {
    let source = import.source;
    let root = format!("blobs/{container}");
    let lines = ResourceKind::Container.lines(container);
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    source.lines(&lines, |line| {
        let mut fields: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        let name = text_field(&fields, "name")?.ok_or("name: every blob has one")?;
        let name = name.to_owned();
        if let Some(parts) = import.foreign.and_then(|_| fields.remove("parts")) {
            return hand(Put::of_parts(fields, container, name, parts)?);
        }
        if !names.insert(hash_of_name(&name)) {
            return Err(format!("name: an earlier line has {name:?} too").into());
        }
        let known = OTHER_FIELDS.into_iter();
        check_names(&fields, known.chain(PROPERTIES.map(|(field, ..)| field)))?;
        let path = text_field(&fields, "file")?.unwrap_or(&name).to_owned();
        paths.insert(hash(&path));
        hand(Put::of_file(fields, name, format!("{root}/{path}")))
    })?;
    source.files_below(&root, &mut |path| {
        if paths.contains(&hash(path)) {
            return Ok(());
        }
        let Some(name) = name_of(path) else {
            return Err(format!("{root}/{path}: no line of {lines} names it").into());
        };
        if !names.insert(hash_of_name(&name)) {
            let reason =
                format!("no line of {lines} names it, and another blob has its name, {name:?}");
            return Err(format!("{root}/{path}: {reason}").into());
        }
        let mut fields = Map::new();
        fields.insert("contentType".to_owned(), content_type(&name).into());
        hand(Put::of_file(fields, name, format!("{root}/{path}")))
    })
}

/// Services take a backslash in a name for a slash.
fn hash_of_name(name: &str) -> u128 {
    hash(&name.replace('\\', "/"))
}

impl Put {
    fn of_file(fields: Map<String, Value>, name: String, path: String) -> Put {
        Put {
            fields,
            name,
            content: Content::File(path.clone()),
            path,
        }
    }

    /// Of the files of another program.
    fn of_parts(
        fields: Map<String, Value>,
        container: &str,
        name: String,
        parts: Value,
    ) -> Result<Put> {
        let parts = serde_json::from_value::<Vec<Part>>(parts);
        Ok(Put {
            fields,
            path: format!("blob {container}/{name}"),
            name,
            content: Content::Parts(parts.map_err(|error| error.to_string())?),
        })
    }
}

/// The type of a file that no line names, by its ending.
fn content_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.to_ascii_lowercase().as_str() {
        "css" => "text/css",
        "csv" => "text/csv",
        "gif" => "image/gif",
        "htm" | "html" => "text/html",
        "jpeg" | "jpg" => "image/jpeg",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" | "md" | "log" => "text/plain",
        "xml" => "application/xml",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

fn import_blob(import: &Import<'_>, container: &str, put: &Put) -> Result<()> {
    let expires = text_field(&put.fields, "expires")?.and_then(date::parse_http);
    if expires.is_some_and(|at| at <= system_time()) {
        import.note(format!("{}: it is expired, and left out", put.path));
        return Ok(());
    }
    let length = put.content.length(import)?;
    let upload = BlobImport {
        import,
        put,
        resource: resource(container, &put.name),
        length,
    };
    match kind_of(&put.fields)? {
        Kind::Block => upload.put_block_blob()?,
        Kind::Append => upload.put_append_blob()?,
        Kind::Page => upload.put_page_blob()?,
    }
    upload.finish()?;
    import.progress.add(&import.progress.bytes, length);
    import.progress.add(&import.progress.blobs, 1);
    Ok(())
}
