//! Dump: any one file of a store as readable text, a line for each unit. Damage is shown at its
//! place, and the dump continues after it if possible.

use crate::catalog::manifest;
use crate::format::dump::Dump;
use crate::format::frame;
use crate::fs::Fs;
use crate::fs::directory::Directory;
use crate::fs::name::{FileKind, FileName};
use crate::tree::sstable;
use crate::{Error, Result, values};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Writes the contents of the file at `path` to `out`: its header, then each frame, edit, block,
/// entry or chunk with its offset, lengths and the verdict on its checksum. The file's kind follows
/// from its name (`000007.wal`). Returns the number of damaged places. Nothing is changed, and the
/// store need not be closed; a file that is being written may look damaged. Errors: `Io` if the
/// file cannot be read or `out` cannot be written, `UnknownFormat` if the name is not that of a
/// store's file.
pub fn dump_file(fs: &Arc<dyn Fs>, path: &Path, out: &mut dyn Write) -> Result<u64> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.and_then(FileName::parse) else {
        return Err(Error::UnknownFormat {
            path: path.to_path_buf(),
            found: "a name that no file of a store has".into(),
            supported:
                "names like 000007.wal, 000007.sst, 000007.vlog, MANIFEST-000007 and CURRENT".into(),
        });
    };
    let directory = Directory::new(fs.clone(), path.parent().unwrap_or(Path::new("")));
    let file = directory.open(name)?;
    let length = file.length()?;
    let mut dump = Dump::new(out, file, length);
    dump.line(format_args!("{}, {length} bytes", path.display()))?;
    match name {
        FileName::Current | FileName::CurrentNew => dump.current()?,
        FileName::Lock => dump.lock()?,
        FileName::Numbered(kind, number) => {
            dump.header(kind, number)?;
            match kind {
                FileKind::Wal => frame::dump(&mut dump, number)?,
                FileKind::Manifest => manifest::dump(&mut dump, number)?,
                FileKind::Sstable => sstable::dump(&mut dump, number)?,
                FileKind::ValueLog => values::dump(&mut dump, number)?,
            }
        }
    }
    let damages = dump.damages();
    dump.line(format_args!("{damages} places are damaged"))?;
    Ok(damages)
}
