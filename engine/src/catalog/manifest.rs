//! Manifest: the log of VersionEdits, and CURRENT, which names it.
//!
//! The file header is followed by records (`format/record.rs`); the first one holds the whole
//! state. Each edit is synced before the next begins, so at most the last record can be torn, and a
//! bad record before a good one is corruption.
//!
//! CURRENT is the line `lazurite 5 MANIFEST-000007 <length> <checksum>`: the length of the manifest
//! in bytes when CURRENT was switched, and the checksum, in 16 hex digits, of the text before it.
//! Invariant: CURRENT names a manifest that was complete and durable at that time.

use crate::base::codec::checksum;
use crate::catalog::state::ManifestState;
use crate::format::dump::Dump;
use crate::format::edit::{Field, LogMark, VersionEdit};
use crate::format::header::{
    FORMAT_VERSION, HEADER_BYTES, check_header, check_version, encode_header,
};
use crate::format::record::{Records, encode_record};
use crate::format::search::Exhausted;
use crate::fs::directory::{Directory, OpenFile};
use crate::fs::name::{FileKind, FileName};
use crate::{Error, Result};
use std::path::Path;

/// Longest manifest that is read into memory. It describes more than ten million SSTables.
const BYTES_MAX: u64 = 4 << 30;
/// The manifest is rewritten when it is this many times as long as it was after its first record,
/// and also longer than [`Config::manifest_bytes_min`](crate::Config::manifest_bytes_min).
const REWRITE_RATIO: u64 = 4;

/// The manifest that the store appends to.
#[derive(Debug)]
pub(crate) struct Manifest {
    directory: Directory,
    store: u128,
    number: u64,
    /// `None` until the first manifest is written: recovery reads everything before it writes
    /// anything, and may find no space for a manifest.
    file: Option<OpenFile>,
    length: u64,
    first_length: u64,
    bytes_min: u64,
    /// The failure after which no edit is appended. The disk may have kept any part of the failed
    /// edit, and a later edit would put that part into force.
    ended: Option<Error>,
    pub(crate) state: ManifestState,
}

impl Manifest {
    /// A manifest of `state` that is not written yet.
    pub(crate) fn draft(
        directory: &Directory,
        store: u128,
        bytes_min: u64,
        state: ManifestState,
    ) -> Manifest {
        Manifest {
            directory: directory.clone(),
            store,
            number: 0,
            file: None,
            length: 0,
            first_length: 0,
            bytes_min,
            ended: None,
            state,
        }
    }

    /// Writes the state to a new manifest and makes it the current one.
    pub(crate) fn write_new(&mut self) -> Result<()> {
        let number = self.next_file();
        let written = self.write_numbered(number);
        if written.as_ref().is_err_and(Error::is_passing) {
            // CURRENT does not name the new file yet: it is an orphan that only takes space.
            let name = FileName::Numbered(FileKind::Manifest, number);
            let _ = self.directory.remove(name);
        }
        written
    }

    fn write_numbered(&mut self, number: u64) -> Result<()> {
        let name = FileName::Numbered(FileKind::Manifest, number);
        let file = self.directory.create(name)?;
        let mut bytes = encode_header(FileKind::Manifest, self.store, number);
        bytes.extend_from_slice(&encode_record(
            self.store,
            number,
            HEADER_BYTES,
            &self.state.as_edit(),
        ));
        file.write(&bytes, 0)?;
        file.sync()?;
        write_current(&self.directory, name, bytes.len() as u64)?;
        self.number = number;
        self.file = Some(file);
        self.length = bytes.len() as u64;
        self.first_length = self.length;
        Ok(())
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns a number that no file of the store has had.
    pub(crate) fn next_file(&mut self) -> u64 {
        let number = self.state.next_file;
        self.state.next_file += 1;
        number
    }

    /// Returns the field that records how far the log is durable. `None` if that is recorded
    /// already, or if the segment is no longer listed because SSTables hold its changes.
    pub(crate) fn mark(&self, mark: LogMark) -> Option<Field> {
        let listed = self.state.wals.get(&mark.segment)?;
        let is_news = listed.end.is_none() && listed.durable < mark.end;
        is_news.then_some(Field::MarkWal(mark.segment, mark.end))
    }

    /// Makes all later edits fail, with `Closed` unless an earlier failure ended the manifest.
    pub(crate) fn close(&mut self) {
        self.ended.get_or_insert(Error::Closed);
    }

    /// Makes `edit` durable and applies it. A passing failure leaves the manifest unchanged. After
    /// any other failure the edit may or may not be in the file, every later edit is refused with
    /// the same error, and the caller must stop writing.
    pub(crate) fn append(&mut self, edit: VersionEdit) -> Result<()> {
        self.try_edit(|manifest| manifest.try_append(edit))
    }

    fn try_edit(&mut self, edit: impl FnOnce(&mut Manifest) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        let done = edit(self);
        if let Err(error) = &done
            && !error.is_passing()
        {
            self.ended = Some(error.clone());
        }
        done
    }

    fn try_append(&mut self, mut edit: VersionEdit) -> Result<()> {
        edit.fields.push(Field::NextFile(self.state.next_file));
        let record = encode_record(self.store, self.number, self.length, &edit);
        let too_long = self.length + record.len() as u64
            > (self.first_length * REWRITE_RATIO).max(self.bytes_min);
        let Some(file) = self.file.as_ref().filter(|_| !too_long) else {
            return self.try_rewrite(&edit);
        };
        if let Err(error) = file.write(&record, self.length) {
            // The torn record must be gone before any file that it names may be removed.
            if matches!(error, Error::NoSpace { .. }) {
                file.set_length(self.length).map_err(Error::not_full)?;
                file.sync()?;
            }
            return Err(error);
        }
        file.sync()?;
        self.length += record.len() as u64;
        apply(&mut self.state, &edit);
        Ok(())
    }

    /// Like [`Manifest::append`], but writes a whole new manifest, all of which CURRENT covers.
    pub(crate) fn rewrite(&mut self, edit: &VersionEdit) -> Result<()> {
        self.try_edit(|manifest| manifest.try_rewrite(edit))
    }

    fn try_rewrite(&mut self, edit: &VersionEdit) -> Result<()> {
        let old = self.number;
        let before = self.state.clone();
        apply(&mut self.state, edit);
        if let Err(error) = self.write_new() {
            // After a passing failure CURRENT was not switched: the old manifest is in force, and
            // the new one is an orphan whose number is skipped. After any other failure CURRENT may
            // have been switched, and the caller stops writing.
            let next_file = self.state.next_file;
            self.state = ManifestState {
                next_file,
                ..before
            };
            return Err(error);
        }
        // If the old manifest cannot be removed, it is an orphan, and the next open removes it.
        let _ = self
            .directory
            .remove(FileName::Numbered(FileKind::Manifest, old));
        Ok(())
    }
}

fn apply(state: &mut ManifestState, edit: &VersionEdit) {
    state
        .apply(edit)
        .expect("edits of this process fit the state they are made for");
}

fn write_current(directory: &Directory, manifest: FileName, length: u64) -> Result<()> {
    let mut line = format!("lazurite {FORMAT_VERSION} {manifest} {length} ");
    line += &format!("{:016x}\n", checksum(0, 0, &[line.as_bytes()]));
    let file = directory.create(FileName::CurrentNew)?;
    file.write(line.as_bytes(), 0)?;
    file.sync()?;
    let renamed = directory.rename(FileName::CurrentNew, FileName::Current);
    renamed.map_err(Error::not_full)?;
    directory.sync()
}

/// Reads CURRENT and the manifest it names: the store id and the state.
pub(crate) fn read(directory: &Directory) -> Result<(u128, ManifestState)> {
    let (number, length_min) = read_current(directory)?;
    let file = directory.open(FileName::Numbered(FileKind::Manifest, number))?;
    let length = file.length()?;
    if length < length_min {
        return Err(file.corrupt(
            length,
            format!("the file ends early: CURRENT knows {length_min} bytes of it"),
        ));
    }
    if length > BYTES_MAX {
        return Err(file.corrupt(0, "the file is too long for a manifest"));
    }
    let bytes = file.read_exact(0, length as usize)?;
    let header = &bytes[..bytes.len().min(HEADER_BYTES as usize)];
    let store = check_header(header, FileKind::Manifest, number, file.path())?;
    Ok((store, replay(&bytes, number, file.path())?))
}

fn replay(bytes: &[u8], number: u64, path: &Path) -> Result<ManifestState> {
    let mut state = ManifestState::default();
    let records = Records::named_in(bytes, number);
    let mut offset = HEADER_BYTES as usize;
    while let Some(record) = records.at(bytes, offset) {
        let edit = VersionEdit::decode(record.edit);
        let edit =
            edit.ok_or_else(|| Error::corrupt(path, offset as u64, "the edit does not decode"))?;
        let applied = state.apply(&edit);
        applied.map_err(|reason| Error::corrupt(path, offset as u64, reason))?;
        offset = record.end;
    }
    let torn_first = offset == HEADER_BYTES as usize;
    let reason = match records.next(bytes, offset) {
        Ok(None) if !torn_first => None,
        Ok(_) => Some("the checksum of the edit does not match"),
        Err(Exhausted) => Some("too much behind a bad edit looks like edits"),
    };
    if let Some(reason) = reason {
        return Err(Error::corrupt(path, offset as u64, reason));
    }
    if offset < bytes.len() {
        tracing::warn!(
            path = %path.display(),
            offset,
            bytes = bytes.len() - offset,
            "cut off a torn edit at the end of the manifest"
        );
    }
    Ok(state)
}

/// Shows the edits of a manifest.
pub(crate) fn dump(dump: &mut Dump<'_>, number: u64) -> Result<()> {
    let bytes = dump.whole()?;
    let records = Records::named_in(&bytes, number);
    let mut offset = HEADER_BYTES as usize;
    while offset < bytes.len() {
        let Some(record) = records.at(&bytes, offset) else {
            let next = records.next(&bytes, offset);
            let lost = next.ok().flatten().unwrap_or(bytes.len()) - offset;
            dump.damage(offset as u64, format_args!("{lost} bytes that are no edit"))?;
            offset += lost;
            continue;
        };
        dump.line(format_args!(
            "{offset:>10}  edit: {} bytes, checksum ok",
            record.edit.len()
        ))?;
        match VersionEdit::decode(record.edit) {
            Some(edit) => {
                for field in &edit.fields {
                    dump.line(format_args!("            {field}"))?;
                }
            }
            None => dump.damage(offset as u64, "the edit does not decode")?,
        }
        offset = record.end;
    }
    dump.line(format_args!("{offset:>10}  end of the edits"))
}

/// The number of the current manifest, and the length below which it is damaged.
fn read_current(directory: &Directory) -> Result<(u64, u64)> {
    let file = directory.open(FileName::Current)?;
    let length = file.length()?.min(256) as usize;
    let bytes = file.read_exact(0, length)?;
    let corrupt = || file.corrupt(0, "the line does not name a manifest");
    let line = str::from_utf8(&bytes).map_err(|_| corrupt())?;
    let words: Vec<&str> = line.split(' ').collect();
    let [program, version, name, length, sum] = words[..] else {
        return Err(corrupt());
    };
    let summed = &line[..line.len() - sum.len()];
    if program != "lazurite" || sum != format!("{:016x}\n", checksum(0, 0, &[summed.as_bytes()])) {
        return Err(corrupt());
    }
    check_version(file.path(), version.parse().map_err(|_| corrupt())?)?;
    match (FileName::parse(name), length.parse()) {
        (Some(FileName::Numbered(FileKind::Manifest, number)), Ok(length)) => Ok((number, length)),
        _ => Err(corrupt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::edit::{Field, FileMeta, SegmentMeta, WalMeta};
    use crate::fs::{Failure, Fault, FaultFs, HookFs, MemoryFs, Operation};
    use std::io::ErrorKind;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    /// A disk that notes writes and syncs, and refuses syncs while it is told to.
    struct Disk {
        faults: FaultFs,
        calls: Arc<Mutex<Vec<Operation>>>,
        refuses_syncs: Arc<AtomicBool>,
    }

    impl Disk {
        fn new() -> Disk {
            let (calls, refuses_syncs) = <(Arc<Mutex<Vec<_>>>, Arc<AtomicBool>)>::default();
            let (noted, refuses) = (calls.clone(), refuses_syncs.clone());
            let hook = move |operation, _: &Path| {
                noted.lock().unwrap().push(operation);
                if operation == Operation::Sync && refuses.load(Ordering::Relaxed) {
                    return Err(ErrorKind::Other.into());
                }
                Ok(())
            };
            Disk {
                faults: FaultFs::new(Arc::new(HookFs::new(MemoryFs::volatile(), hook))),
                calls,
                refuses_syncs,
            }
        }

        /// A manifest with one keyspace.
        fn manifest(&self) -> Manifest {
            let directory = Directory::new(Arc::new(self.faults.clone()), "/data".as_ref());
            directory.make().unwrap();
            let state = ManifestState::default();
            let mut manifest = Manifest::draft(&directory, 1, u64::MAX, state);
            manifest.write_new().unwrap();
            manifest.append(keyspace(0, "first")).unwrap();
            self.calls.lock().unwrap().clear();
            manifest
        }

        /// Lets the next write of a manifest find a full disk; with `sticky`, also all later calls.
        fn fill(&self, sticky: bool) {
            self.faults.set(Some(Fault {
                operation: (!sticky).then_some(Operation::Write),
                path: "MANIFEST".into(),
                nth: 1,
                failure: Failure::Error(ErrorKind::StorageFull),
                sticky,
            }));
        }
    }

    fn keyspace(id: u32, name: &str) -> VersionEdit {
        let fields = vec![Field::Keyspace(id, name.into())];
        VersionEdit { fields }
    }

    #[test]
    fn edit_that_finds_no_space_leaves_nothing_and_the_next_one_is_kept() {
        let disk = Disk::new();
        let mut manifest = disk.manifest();
        let (length, before) = (manifest.length, manifest.state.clone());
        disk.fill(false);
        let refused = manifest.append(keyspace(1, "a name that is written in part"));
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
        let file = manifest.file.as_ref().unwrap();
        assert_eq!((file.length().unwrap(), manifest.length), (length, length));
        assert_eq!(manifest.state, before);
        // A part of the record, and the sync of its removal.
        let calls = [Operation::Write, Operation::Sync];
        assert_eq!(*disk.calls.lock().unwrap(), calls);
        manifest.append(keyspace(1, "b")).unwrap();
        assert_ne!(manifest.state, before);
        assert_eq!(read(&manifest.directory).unwrap().1, manifest.state);
    }

    #[test]
    fn no_edit_follows_a_torn_one_whose_removal_failed() {
        for is_cut in [false, true] {
            let disk = Disk::new();
            let mut manifest = disk.manifest();
            let before = manifest.state.clone();
            disk.refuses_syncs.store(is_cut, Ordering::Relaxed);
            disk.fill(!is_cut);
            let failed = manifest.append(keyspace(1, "second")).unwrap_err();
            assert!(!failed.is_passing(), "{failed}");
            disk.refuses_syncs.store(false, Ordering::Relaxed);
            disk.faults.set(None);
            let refused = manifest.append(keyspace(1, "third")).unwrap_err();
            assert_eq!(refused.to_string(), failed.to_string());
            assert_eq!(manifest.state, before);
        }
    }

    #[test]
    fn file_that_is_not_below_the_next_number_is_corrupt() {
        let number = |listed: Field| {
            let mut bytes = encode_header(FileKind::Manifest, 1, 7);
            let fields = vec![Field::Keyspace(0, "a".into()), Field::NextFile(9)];
            bytes.extend(encode_record(1, 7, HEADER_BYTES, &VersionEdit { fields }));
            let bad = bytes.len() as u64;
            let fields = vec![listed, Field::NextFile(10)];
            bytes.extend(encode_record(1, 7, bad, &VersionEdit { fields }));
            (bad, replay(&bytes, 7, "manifest".as_ref()))
        };
        let file = |number| {
            let mut meta = FileMeta::example();
            meta.number = number;
            Field::AddFile(0, 1, meta)
        };
        let segment = SegmentMeta {
            size: 4096,
            checksum: None,
        };
        assert!(number(file(9)).1.is_ok());
        for listed in [
            file(10),
            Field::AddWal(10, WalMeta::default()),
            Field::AddSegment(10, segment),
        ] {
            let (bad, replayed) = number(listed);
            let Err(Error::Corrupt { offset, .. }) = replayed else {
                panic!("it is taken: {replayed:?}");
            };
            assert_eq!(offset, bad);
        }
    }
}
