//! Reads containers and their blobs from the files of an import, checks them, and hands them to
//! [`BlobImport`].

use crate::blobs::container::resource;
use crate::blobs::line::{Kind, is_expired, kind_of};
use crate::blobs::put::{Put, each_blob};
use crate::blobs::upload::BlobImport;
use crate::error::Result;
use crate::import_run::Import;
use crate::parallel::{Hand, in_parallel};
use crate::resource_kind::ResourceKind;

/// Creates all containers of the directory, with their blobs. Everything was checked before.
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

fn import_container(import: &Import<'_>, container: &str) -> Result<()> {
    let produce = |hand: &mut Hand<'_, Put>| each_blob(import, container, hand);
    in_parallel(produce, |put| {
        let imported = import_blob(import, container, &put);
        import.or_leave_out(&put.path, imported).map(drop)
    })
}

fn import_blob(import: &Import<'_>, container: &str, put: &Put) -> Result<()> {
    if is_expired(&put.fields)? {
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
