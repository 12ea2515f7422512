//! ManifestState: the sum of all edits of a manifest.

use crate::base::key::SequenceNumber;
use crate::format::edit::{Field, FileMeta, SegmentMeta, VersionEdit, WalMeta};
use std::collections::BTreeMap;

/// One keyspace in the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyspaceState {
    pub(crate) name: String,
    pub(crate) flushed: SequenceNumber,
    pub(crate) files: BTreeMap<u64, (u32, FileMeta)>,
}

/// The sum of all edits of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ManifestState {
    pub(crate) next_file: u64,
    pub(crate) last_sequence: SequenceNumber,
    pub(crate) keyspaces: BTreeMap<u32, KeyspaceState>,
    pub(crate) wals: BTreeMap<u64, WalMeta>,
    pub(crate) segments: BTreeMap<u64, SegmentMeta>,
    pub(crate) closed: bool,
}

impl ManifestState {
    /// Errors: the reason why the edit does not fit the edits before it.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> std::result::Result<(), &'static str> {
        self.closed = false;
        edit.fields
            .iter()
            .try_for_each(|field| self.apply_field(field))?;
        let numbers = edit.fields.iter().filter_map(Field::listed_file);
        if numbers.max() >= Some(self.next_file) {
            return Err("an edit lists a file whose number is not below the next one");
        }
        Ok(())
    }

    fn keyspace(&mut self, id: &u32) -> std::result::Result<&mut KeyspaceState, &'static str> {
        self.keyspaces
            .get_mut(id)
            .ok_or("an edit names a keyspace that does not exist")
    }

    fn add_keyspace(&mut self, id: u32, name: &str) -> std::result::Result<(), &'static str> {
        if id as usize > self.keyspaces.len() {
            return Err("an edit creates a keyspace whose id leaves a gap");
        }
        let state = KeyspaceState {
            name: name.to_owned(),
            ..KeyspaceState::default()
        };
        match self.keyspaces.insert(id, state) {
            None => Ok(()),
            Some(_) => Err("an edit creates a keyspace that exists"),
        }
    }

    fn apply_field(&mut self, field: &Field) -> std::result::Result<(), &'static str> {
        match field {
            Field::NextFile(number) => self.next_file = *number,
            Field::LastSequence(sequence) => self.last_sequence = *sequence,
            Field::Keyspace(id, name) => self.add_keyspace(*id, name)?,
            Field::AddFile(id, level, meta) => {
                let files = &mut self.keyspace(id)?.files;
                files.insert(meta.number, (*level, meta.clone()));
            }
            Field::RemoveFile(id, number) => {
                let removed = self.keyspace(id)?.files.remove(number);
                removed.ok_or("an edit removes a file that does not exist")?;
            }
            Field::Flushed(id, sequence) => self.keyspace(id)?.flushed = *sequence,
            Field::AddWal(number, meta) => {
                self.wals.insert(*number, *meta);
            }
            Field::RemoveWal(number) => {
                self.wals
                    .remove(number)
                    .ok_or("an edit removes a WAL segment that does not exist")?;
            }
            Field::MarkWal(number, durable) => {
                let meta = self.wals.get_mut(number);
                meta.ok_or("an edit marks a WAL segment that does not exist")?
                    .durable = *durable;
            }
            Field::AddSegment(number, meta) => {
                self.segments.insert(*number, *meta);
            }
            Field::RemoveSegment(number) => {
                self.segments
                    .remove(number)
                    .ok_or("an edit removes a value-log segment that does not exist")?;
            }
            Field::Closed => self.closed = true,
        }
        Ok(())
    }

    /// One edit that makes this state out of nothing.
    pub(crate) fn as_edit(&self) -> VersionEdit {
        let mut fields = vec![
            Field::NextFile(self.next_file),
            Field::LastSequence(self.last_sequence),
        ];
        for (&id, keyspace) in &self.keyspaces {
            fields.push(Field::Keyspace(id, keyspace.name.clone()));
            fields.push(Field::Flushed(id, keyspace.flushed));
            let files = keyspace.files.values();
            fields.extend(files.map(|(level, meta)| Field::AddFile(id, *level, meta.clone())));
        }
        for (&number, &meta) in &self.wals {
            fields.push(Field::AddWal(number, meta));
            if meta.durable > 0 {
                fields.push(Field::MarkWal(number, meta.durable));
            }
        }
        fields.extend(
            self.segments
                .iter()
                .map(|(&number, &meta)| Field::AddSegment(number, meta)),
        );
        fields.extend(self.closed.then_some(Field::Closed));
        VersionEdit { fields }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> ManifestState {
        let meta = FileMeta::example();
        let fields = vec![
            Field::NextFile(12),
            Field::LastSequence(300),
            Field::Keyspace(0, "a".into()),
            Field::Flushed(0, 9),
            Field::AddFile(0, 1, meta),
            Field::AddWal(10, WalMeta::default()),
            Field::MarkWal(10, 200),
            Field::AddWal(11, WalMeta::ended(300)),
            Field::AddSegment(
                4,
                SegmentMeta {
                    size: 70_100,
                    checksum: None,
                },
            ),
        ];
        let mut state = ManifestState::default();
        state.apply(&VersionEdit { fields }).unwrap();
        state
    }

    #[test]
    fn a_state_survives_its_edit() {
        let state = example();
        let edit = VersionEdit::decode(&state.as_edit().encode()).unwrap();
        let mut again = ManifestState::default();
        again.apply(&edit).unwrap();
        assert_eq!(again, state);
    }

    #[test]
    fn an_edit_that_does_not_fit_is_refused() {
        let edit = VersionEdit {
            fields: vec![Field::RemoveFile(0, 8)],
        };
        assert!(example().apply(&edit).is_err());
        assert!(ManifestState::default().apply(&edit).is_err());
        let edit = VersionEdit {
            fields: vec![Field::Keyspace(2, "c".into())],
        };
        assert!(example().apply(&edit).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            if let Some(edit) = VersionEdit::decode(&bytes) {
                let _ = ManifestState::default().apply(&edit);
            }
        }
    }
}
