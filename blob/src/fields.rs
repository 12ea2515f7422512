//! Fields of stored values: writes and reads the parts of records for `codec.rs`. Malformed bytes
//! are an error, never a panic.
//!
//! `codec.rs` documents the values, and the encoding of numbers, texts and times.

use crate::access::{AccessControl, Acl, Rights, SUPER_USER};
use crate::error::{Error, Result};
use crate::etag::{ticks, time_of_ticks};
use crate::guid::Guid;
use crate::keys::File;
use crate::lease::{LeaseDuration, LeaseHolder};
use crate::model::{
    BlobHeaders, CopyState, CopyStatus, Deleted, Layer, Metadata, Pages, PreviousState,
};
use crate::snapshot_time::SnapshotTime;
use crate::tier::{AccessTier, RehydratePriority, Rehydration, Tiering};
use lazurite_engine::varint;
use std::ops::RangeInclusive;
use std::time::SystemTime;

/// Decodes a whole value: the first byte, which is one of `forms`, the fields, and nothing after
/// them. Most values have one form, whose number is the version of their format.
pub(crate) fn decode<T>(
    value: &[u8],
    what: &str,
    forms: RangeInclusive<u8>,
    fields: impl FnOnce(u8, &mut Reader<'_>) -> Option<T>,
) -> Result<T> {
    let mut input = Reader(value);
    let form = input.byte().filter(|form| forms.contains(form));
    let decoded = form.and_then(|form| fields(form, &mut input));
    decoded.filter(|_| input.0.is_empty()).ok_or_else(|| {
        let version = value.first().copied().unwrap_or(0);
        Error::InternalError {
            reason: format!("a stored {what} of version {version} cannot be decoded"),
        }
    })
}

/// Optional fields that most values lack, each with its number.
#[derive(Default)]
pub(crate) struct Extras {
    count: u64,
    bytes: Vec<u8>,
}

impl Extras {
    pub(crate) fn add<T>(
        &mut self,
        number: u8,
        value: Option<T>,
        write: impl FnOnce(&mut Writer, T),
    ) {
        let Some(value) = value else {
            return;
        };
        let mut fields = Writer(Vec::new());
        write(&mut fields, value);
        let mut out = Writer(std::mem::take(&mut self.bytes));
        out.byte(number);
        out.bytes(&fields.0);
        self.bytes = out.0;
        self.count += 1;
    }

    pub(crate) fn add_flag(&mut self, number: u8, flag: bool) {
        self.add(number, flag.then_some(()), |_, ()| {});
    }
}

pub(crate) struct Writer(pub(crate) Vec<u8>);

/// Initial capacity of a value. Most are shorter.
const VALUE_BYTES_USUAL: usize = 256;

impl Writer {
    pub(crate) fn new(version: u8) -> Writer {
        let mut bytes = Vec::with_capacity(VALUE_BYTES_USUAL);
        bytes.push(version);
        Writer(bytes)
    }

    pub(crate) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn id(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn time(&mut self, value: SystemTime) {
        self.u64(ticks(value));
    }

    pub(crate) fn varint(&mut self, value: u64) {
        varint::put(&mut self.0, value);
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub(crate) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.byte(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(crate) fn metadata(&mut self, metadata: &Metadata) {
        self.varint(metadata.len() as u64);
        for (name, value) in metadata {
            self.text(name);
            self.text(value);
        }
    }

    pub(crate) fn extras(&mut self, extras: Extras) {
        self.varint(extras.count);
        self.0.extend_from_slice(&extras.bytes);
    }

    pub(crate) fn snapshot_time(&mut self, time: SnapshotTime) {
        self.u64(time.0);
    }

    pub(crate) fn lease_holder(&mut self, holder: LeaseHolder) {
        self.id(holder.id.0);
        self.varint(match holder.duration {
            LeaseDuration::Infinite => 0,
            LeaseDuration::Seconds(seconds) => seconds.into(),
        });
        self.optional(holder.until, Writer::time);
        self.optional(holder.broken_at, Writer::time);
    }

    pub(crate) fn previous_state(&mut self, state: PreviousState) {
        match state {
            PreviousState::Blob => self.byte(0),
            PreviousState::Snapshot(time) => {
                self.byte(1);
                self.snapshot_time(time);
            }
            PreviousState::Version(time) => {
                self.byte(2);
                self.snapshot_time(time);
            }
        }
    }

    pub(crate) fn access(&mut self, access: &AccessControl) {
        for id in [&access.owner, &access.group] {
            self.text(if id == SUPER_USER { "" } else { id });
        }
        self.byte(access.sticky.into());
        self.acl(&access.acl);
        self.optional(access.default_acl.as_ref(), Writer::acl);
    }

    fn acl(&mut self, acl: &Acl) {
        for rights in [acl.owner, acl.group, acl.other] {
            self.byte(rights.0);
        }
        self.optional(acl.mask, |out, mask| out.byte(mask.0));
        for named in [&acl.users, &acl.groups] {
            self.varint(named.len() as u64);
            for (id, rights) in named {
                self.text(id);
                self.byte(rights.0);
            }
        }
    }

    pub(crate) fn deleted(&mut self, deleted: Deleted) {
        self.time(deleted.at);
        self.time(deleted.until);
    }

    pub(crate) fn tier(&mut self, tier: AccessTier) {
        self.byte(match tier {
            AccessTier::Hot => 0,
            AccessTier::Cool => 1,
            AccessTier::Cold => 2,
            AccessTier::Archive => 3,
            AccessTier::Smart => 4,
            AccessTier::Premium(number) => number.saturating_add(100),
        });
    }

    pub(crate) fn tiering(&mut self, tiering: Tiering) {
        self.optional(tiering.explicit, Writer::tier);
        self.optional(tiering.changed_at, Writer::time);
        self.optional(tiering.rehydration, |out, rehydration| {
            out.tier(rehydration.to);
            out.byte((rehydration.priority == RehydratePriority::High).into());
            out.time(rehydration.ready_at);
        });
    }

    pub(crate) fn copy(&mut self, copy: &CopyState) {
        self.id(copy.id.0);
        self.text(&copy.source);
        self.byte(match copy.status {
            CopyStatus::Pending => 0,
            CopyStatus::Success => 1,
            CopyStatus::Aborted => 2,
            CopyStatus::Failed => 3,
        });
        self.varint(copy.copied);
        self.varint(copy.total);
        self.optional(copy.completed_at, Writer::time);
        self.optional(copy.description.as_deref(), Writer::text);
        self.optional(copy.destination_snapshot, Writer::snapshot_time);
        self.optional(copy.incremental, Writer::snapshot_time);
    }

    pub(crate) fn pages(&mut self, pages: &Pages) {
        self.id(pages.content);
        self.varint(pages.skipped);
        self.varint(pages.stored);
        self.optional(pages.sealed_as, |out, (content, offset)| {
            out.id(content);
            out.varint(offset);
        });
    }

    pub(crate) fn layers(&mut self, layers: &[Layer], home: u128) {
        self.varint(layers.len() as u64);
        for layer in layers {
            let foreign = layer.file.home != home;
            let bits = [layer.shared, foreign, layer.root.is_some()];
            self.byte((0..).zip(bits).map(|(at, bit)| u8::from(bit) << at).sum());
            self.id(layer.file.id);
            if foreign {
                self.id(layer.file.home);
            }
            self.varint(layer.end);
            if let Some(root) = layer.root {
                self.id(root);
            }
        }
    }

    pub(crate) fn headers(&mut self, headers: &BlobHeaders) {
        let texts = [
            &headers.content_type,
            &headers.content_encoding,
            &headers.content_language,
            &headers.cache_control,
            &headers.content_disposition,
        ];
        let md5_bit = headers.content_md5.as_ref().map(|md5| match md5.len() {
            16 => MD5_BIT,
            _ => ODD_MD5_BIT,
        });
        let mut present = md5_bit.map_or(0, |bit| 1 << bit);
        for (bit, text) in texts.iter().enumerate() {
            present |= u8::from(text.is_some()) << bit;
        }
        self.byte(present);
        for text in texts.into_iter().flatten() {
            self.text(text);
        }
        if let Some(md5) = &headers.content_md5 {
            if md5_bit == Some(ODD_MD5_BIT) {
                self.varint(md5.len() as u64);
            }
            self.0.extend_from_slice(md5);
        }
    }
}

/// Bits of the header flags: an MD5 of sixteen bytes, and one of another length.
const MD5_BIT: u8 = 5;
const ODD_MD5_BIT: u8 = 6;

/// Takes fields off the front of a value; `None` if they do not match the format.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn id(&mut self) -> Option<u128> {
        self.array().map(u128::from_be_bytes)
    }

    pub(crate) fn time(&mut self) -> Option<SystemTime> {
        self.u64().map(time_of_ticks)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        varint::take(&mut self.0)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.varint()?.try_into().ok()?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    /// Reads a count and that many items. Refuses a count above the number of bytes that are left,
    /// because an item has at least one byte. So a false count cannot allocate much memory.
    pub(crate) fn many<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count: usize = self.varint()?.try_into().ok()?;
        if count > self.0.len() {
            return None;
        }
        (0..count).map(|_| read(self)).collect()
    }

    pub(crate) fn metadata(&mut self) -> Option<Metadata> {
        self.many(|input| Some((input.text()?, input.text()?)))
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn snapshot_time(&mut self) -> Option<SnapshotTime> {
        self.u64().map(SnapshotTime)
    }

    /// Gives the number and the fields of each extra to `take`, which must read the fields to their
    /// end.
    pub(crate) fn extras(
        &mut self,
        mut take: impl FnMut(u8, &mut Reader<'_>) -> Option<()>,
    ) -> Option<()> {
        for _ in 0..self.varint()? {
            let number = self.byte()?;
            let mut fields = Reader(self.bytes()?);
            take(number, &mut fields)?;
            if !fields.0.is_empty() {
                return None;
            }
        }
        Some(())
    }

    pub(crate) fn lease_holder(&mut self) -> Option<LeaseHolder> {
        Some(LeaseHolder {
            id: Guid(self.id()?),
            duration: match self.varint()? {
                0 => LeaseDuration::Infinite,
                seconds => LeaseDuration::Seconds(seconds.try_into().ok()?),
            },
            until: self.optional(Reader::time)?,
            broken_at: self.optional(Reader::time)?,
        })
    }

    pub(crate) fn access(&mut self) -> Option<AccessControl> {
        let mut id = || {
            let id = self.text()?;
            Some(if id.is_empty() {
                SUPER_USER.to_string()
            } else {
                id
            })
        };
        let (owner, group) = (id()?, id()?);
        Some(AccessControl {
            owner,
            group,
            sticky: self.flag()?,
            acl: self.acl()?,
            default_acl: self.optional(Reader::acl)?,
        })
    }

    fn rights(&mut self) -> Option<Rights> {
        self.byte().filter(|bits| *bits <= 7).map(Rights)
    }

    fn acl(&mut self) -> Option<Acl> {
        let named = |input: &mut Self| Some((input.text()?, input.rights()?));
        Some(Acl {
            owner: self.rights()?,
            group: self.rights()?,
            other: self.rights()?,
            mask: self.optional(Reader::rights)?,
            users: self.many(named)?,
            groups: self.many(named)?,
        })
    }

    pub(crate) fn deleted(&mut self) -> Option<Deleted> {
        Some(Deleted {
            at: self.time()?,
            until: self.time()?,
            previous: None,
        })
    }

    pub(crate) fn previous_state(&mut self) -> Option<PreviousState> {
        Some(match self.byte()? {
            0 => PreviousState::Blob,
            1 => PreviousState::Snapshot(self.snapshot_time()?),
            2 => PreviousState::Version(self.snapshot_time()?),
            _ => return None,
        })
    }

    pub(crate) fn tier(&mut self) -> Option<AccessTier> {
        Some(match self.byte()? {
            0 => AccessTier::Hot,
            1 => AccessTier::Cool,
            2 => AccessTier::Cold,
            3 => AccessTier::Archive,
            4 => AccessTier::Smart,
            number @ 100.. => AccessTier::Premium(number - 100),
            _ => return None,
        })
    }

    pub(crate) fn tiering(&mut self) -> Option<Tiering> {
        Some(Tiering {
            explicit: self.optional(Reader::tier)?,
            changed_at: self.optional(Reader::time)?,
            rehydration: self.optional(|input| {
                Some(Rehydration {
                    to: input.tier()?,
                    priority: if input.flag()? {
                        RehydratePriority::High
                    } else {
                        RehydratePriority::Standard
                    },
                    ready_at: input.time()?,
                })
            })?,
        })
    }

    pub(crate) fn copy(&mut self) -> Option<CopyState> {
        Some(CopyState {
            id: Guid(self.id()?),
            source: self.text()?,
            status: match self.byte()? {
                0 => CopyStatus::Pending,
                1 => CopyStatus::Success,
                2 => CopyStatus::Aborted,
                3 => CopyStatus::Failed,
                _ => return None,
            },
            copied: self.varint()?,
            total: self.varint()?,
            completed_at: self.optional(Reader::time)?,
            description: self.optional(Reader::text)?,
            destination_snapshot: self.optional(Reader::snapshot_time)?,
            incremental: self.optional(Reader::snapshot_time)?,
        })
    }

    pub(crate) fn pages(&mut self) -> Option<Pages> {
        let pages = Pages {
            content: self.id()?,
            skipped: self.varint()?,
            stored: self.varint()?,
            sealed_as: self.optional(|input| Some((input.id()?, input.varint()?)))?,
        };
        // The offsets at which bytes of the content were encrypted must not overflow.
        let (_, offset) = pages.sealed_as.unwrap_or_default();
        offset.checked_add(pages.stored).map(|_| pages)
    }

    pub(crate) fn layers(&mut self, home: u128) -> Option<Vec<Layer>> {
        self.many(|input| {
            let bits = input.byte().filter(|bits| *bits < 8)?;
            let id = input.id()?;
            let home = match bits & 2 {
                0 => home,
                _ => input.id()?,
            };
            Some(Layer {
                file: File { home, id },
                shared: bits & 1 != 0,
                end: input.varint()?,
                root: match bits & 4 {
                    0 => None,
                    _ => Some(input.id()?),
                },
            })
        })
    }

    pub(crate) fn headers(&mut self) -> Option<BlobHeaders> {
        let present = self.byte()?;
        if present >> MD5_BIT > 1 << (ODD_MD5_BIT - MD5_BIT) {
            return None;
        }
        let mut text = |bit: u8| match present >> bit & 1 {
            0 => Some(None),
            _ => self.text().map(Some),
        };
        let mut headers = BlobHeaders {
            content_type: text(0)?,
            content_encoding: text(1)?,
            content_language: text(2)?,
            cache_control: text(3)?,
            content_disposition: text(4)?,
            content_md5: None,
        };
        headers.content_md5 = match present >> MD5_BIT {
            0 => None,
            1 => Some(self.array::<16>()?.to_vec()),
            _ => {
                let length = usize::try_from(self.varint()?).ok()?;
                Some(self.take(length)?.to_vec())
            }
        };
        Some(headers)
    }
}
