//! Dump: a file of a store as readable text, a line for each unit. Damage is shown where it is.

use crate::base::codec::checksum;
use crate::base::key::Kind;
use crate::format::change::{Change, Changes};
use crate::format::header::{HEADER_BYTES, check_header, check_version};
use crate::format::pointer::ValuePointer;
use crate::fs::directory::OpenFile;
use crate::fs::name::FileKind;
use crate::{Error, Result};
use std::fmt::{self, Display};
use std::io::Write;
use std::path::Path;

/// Maximum number of bytes of a key that are shown.
const KEY_BYTES_SHOWN: usize = 64;
/// Longest file that is read whole: log segments and manifests are usually far shorter.
const WHOLE_BYTES_MAX: u64 = 1 << 30;

/// A dump under way.
pub(crate) struct Dump<'a> {
    out: &'a mut dyn Write,
    pub(crate) file: OpenFile,
    pub(crate) length: u64,
    damages: u64,
}

impl<'a> Dump<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, file: OpenFile, length: u64) -> Dump<'a> {
        Dump {
            out,
            file,
            length,
            damages: 0,
        }
    }

    /// Number of damaged places that were shown.
    pub(crate) fn damages(&self) -> u64 {
        self.damages
    }

    pub(crate) fn line(&mut self, line: impl Display) -> Result<()> {
        let written = writeln!(self.out, "{line}");
        written.map_err(|error| Error::io("write", Path::new("the dump"), error))
    }

    /// Shows a damaged place.
    pub(crate) fn damage(&mut self, offset: u64, what: impl Display) -> Result<()> {
        self.damages += 1;
        self.line(format_args!("{offset:>10}  DAMAGED  {what}"))
    }

    /// Reads the whole file. Errors: `Corrupt` if it is too long for its kind.
    pub(crate) fn whole(&self) -> Result<Vec<u8>> {
        if self.length > WHOLE_BYTES_MAX {
            return Err(self.file.corrupt(0, "the file is too long for its kind"));
        }
        self.file.read_exact(0, self.length as usize)
    }

    pub(crate) fn header(&mut self, kind: FileKind, number: u64) -> Result<()> {
        let length = self.length.min(HEADER_BYTES);
        let bytes = self.file.read_exact(0, length as usize)?;
        match check_header(&bytes, kind, number, self.file.path()) {
            Ok(store) => {
                let version = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes"));
                self.line(format_args!(
                    "{:>10}  header: {kind:?}, version {version}, store {store:032x}, file {number}, checksum ok",
                    0
                ))
            }
            Err(error) => self.damage(0, format_args!("header: {error}")),
        }
    }

    pub(crate) fn lock(&mut self) -> Result<()> {
        let length = self.length.min(64);
        let owner = self.file.read_exact(0, length as usize)?;
        self.line(format_args!("process {}", Escaped(owner.trim_ascii())))
    }

    pub(crate) fn current(&mut self) -> Result<()> {
        let length = self.length.min(256);
        let bytes = self.file.read_exact(0, length as usize)?;
        self.line(format_args!("{:>10}  {}", 0, Escaped(&bytes)))?;
        let sum = bytes.len().saturating_sub(17);
        let (summed, sum) = bytes.split_at(sum);
        let right = format!("{:016x}\n", checksum(0, 0, &[summed]));
        if sum != right.as_bytes() {
            return self.damage(0, "the checksum of the line does not match");
        }
        let words = summed.split(|&byte| byte == b' ').nth(1);
        let version = words.and_then(|word| str::from_utf8(word).ok()?.parse().ok());
        match check_version(self.file.path(), version.unwrap_or(0)) {
            Ok(()) => self.line("            checksum ok"),
            Err(error) => self.damage(0, error),
        }
    }

    /// Shows the changes of a batch, the first of which has the sequence number `first`.
    pub(crate) fn changes(&mut self, first: u64, payload: &[u8]) -> Result<()> {
        for (sequence, change) in (first..).zip(Changes::new(payload)) {
            match change {
                Ok(Change::Set {
                    keyspace,
                    key,
                    kind,
                    value,
                }) => self.line(format_args!(
                    "            #{sequence} keyspace {keyspace} {}",
                    Row { kind, key, value }
                ))?,
                Ok(Change::DeleteRange {
                    keyspace,
                    start,
                    end,
                }) => self.line(format_args!(
                    "            #{sequence} keyspace {keyspace} delete range {} to {}",
                    Escaped(start),
                    End(end)
                ))?,
                Err(_) => self.line("            a change that does not decode")?,
            }
        }
        Ok(())
    }
}

/// Displays a key as text, cut after [`KEY_BYTES_SHOWN`] bytes.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(KEY_BYTES_SHOWN)];
        write!(f, "\"{}\"", shown.escape_ascii())?;
        if shown.len() < self.0.len() {
            write!(f, " and {} bytes more", self.0.len() - shown.len())?;
        }
        Ok(())
    }
}

/// Displays the exclusive end of a range; `None` is the end of the keyspace.
pub(crate) struct End<'a>(pub(crate) Option<&'a [u8]>);

impl Display for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(end) => Escaped(end).fmt(f),
            None => f.write_str("the end"),
        }
    }
}

/// Displays a version of a key, without its sequence number.
pub(crate) struct Row<'a> {
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = Escaped(self.key);
        match self.kind {
            Kind::Delete => write!(f, "delete {key}"),
            Kind::Put => write!(f, "put {key}, {} bytes", self.value.len()),
            Kind::Large => match ValuePointer::decode(self.value) {
                None => write!(f, "put {key}, a pointer that does not decode"),
                Some(pointer) => {
                    write!(f, "put {key}, {} bytes in the value log", pointer.length)?;
                    let mut before = ':';
                    pointer.extents.iter().try_for_each(|extent| {
                        let (length, segment) = (extent.length, extent.segment);
                        let before = std::mem::replace(&mut before, ',');
                        write!(f, "{before} {length} in {segment} at {}", extent.offset)
                    })
                }
            },
        }
    }
}
