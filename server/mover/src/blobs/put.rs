//! Finds the blobs in a directory: those that lines name, and all other files.

use crate::blobs::content::{Content, Part};
use crate::blobs::content_type::content_type;
use crate::blobs::line::{OTHER_FIELDS, PROPERTIES};
use crate::checks::check_names;
use crate::error::Result;
use crate::fields::text_field;
use crate::files::{hash, name_of};
use crate::import_run::Import;
use crate::parallel::Hand;
use crate::resource_kind::ResourceKind;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// A blob to upload: its line and its content.
pub struct Put {
    pub fields: Map<String, Value>,
    pub name: String,
    pub content: Content,
    /// The path for messages.
    pub path: String,
}

/// Passes the blobs of lines to `hand`, and then all other files.
pub fn each_blob(import: &Import<'_>, container: &str, hand: &mut Hand<'_, Put>) -> Result<()> {
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

/// The hash of a name. Services treat a backslash as a slash.
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

    /// A blob with content in the files of another program.
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
