//! The bytes of a file of the history: a header, and behind it a frame for each record.
//!
//! `docs/durability-and-limits.md` describes them byte by byte. A reader stops at the first frame that does not fit: a kill can cut off the
//! last one, and what stands behind damage is not trusted.

use crate::requests::{Record, WhyRefused};
use crate::response::error::ClientSigned;
use crate::service_kind::ServiceKind;
use std::borrow::Cow;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The first bytes of a file: its magic, and the version of the format.
pub const HEADER: [u8; 12] = *b"LZREQLOG\x01\0\0\0";
/// Bytes of the magic.
pub const MAGIC_BYTES: usize = 8;
/// The length of a payload, and its checksum.
const FRAME_HEAD_BYTES: usize = 12;
/// Longest payload. Longer records are not written.
const PAYLOAD_BYTES_MAX: usize = 64 << 10;

const SECURE: u8 = 1;
const REFUSED: u8 = 2;
const CLIENT_SIGNED: u8 = 4;
/// A number of bytes that is not known.
const UNKNOWN: u64 = u64::MAX;

/// Appends the frame of a record, which begins at `offset` of its file; nothing if the record is too long.
pub fn push_frame(record: &Record, offset: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let payload = start + FRAME_HEAD_BYTES;
    out.resize(payload, 0);
    push_payload(record, out);
    let length = out.len() - payload;
    if length > PAYLOAD_BYTES_MAX {
        out.truncate(start);
        return;
    }
    let checksum = xxh3_64_with_seed(&out[payload..], offset);
    out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    out[start + 4..payload].copy_from_slice(&checksum.to_le_bytes());
}

fn push_payload(record: &Record, out: &mut Vec<u8>) {
    let since = record.at.duration_since(SystemTime::UNIX_EPOCH);
    let microseconds = since.unwrap_or_default().as_micros();
    let numbers = [microseconds, record.took.as_nanos()];
    out.extend(numbers.map(saturated).as_flattened());
    let peer = match record.peer {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    out.extend(peer.octets());
    for bytes in [record.request_bytes, record.response_bytes] {
        out.extend(bytes.unwrap_or(UNKNOWN).to_le_bytes());
    }
    out.extend(record.status.to_le_bytes());
    out.push(service_number(record.service));
    let why = record.refusal.as_deref();
    let signed = why.and_then(|why| why.client_signed.as_deref());
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    out.push(
        bit(record.secure, SECURE)
            | bit(why.is_some(), REFUSED)
            | bit(signed.is_some(), CLIENT_SIGNED),
    );
    push_bytes(record.request_id.as_bytes(), out);
    push_bytes(record.account.as_deref().unwrap_or("").as_bytes(), out);
    push_bytes(record.operation.as_bytes(), out);
    push_bytes(&record.head, out);
    if let Some(why) = why {
        push_refusal(why, out);
    }
    if let Some(signed) = signed {
        push_bytes(signed.text.as_bytes(), out);
        push_bytes(signed.mistake.as_bytes(), out);
    }
}

fn push_refusal(why: &WhyRefused, out: &mut Vec<u8>) {
    push_bytes(why.code.as_bytes(), out);
    push_bytes(why.reason.as_bytes(), out);
    out.extend((why.details.len() as u32).to_le_bytes());
    for (name, text) in &why.details {
        push_bytes(name.as_bytes(), out);
        push_bytes(text.as_bytes(), out);
    }
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn saturated(number: u128) -> [u8; 8] {
    u64::try_from(number).unwrap_or(u64::MAX).to_le_bytes()
}

fn service_number(service: ServiceKind) -> u8 {
    match service {
        ServiceKind::Blob => 1,
        ServiceKind::Queue => 2,
        ServiceKind::Table => 3,
    }
}

/// The frames of a file, behind its header.
pub struct Frames<R> {
    file: R,
    offset: u64,
    payload: Vec<u8>,
}

impl<R: Read> Frames<R> {
    /// `file` stands behind the header.
    pub fn new(file: R) -> Frames<R> {
        Frames {
            file,
            offset: HEADER.len() as u64,
            payload: Vec::new(),
        }
    }

    /// Where the last frame that was read ends.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The record of the next frame; `None` at the end of the file. After an error there are no more.
    pub fn next_record(&mut self) -> Result<Option<Record>, &'static str> {
        let head = self.read(FRAME_HEAD_BYTES)?;
        if head == 0 {
            return Ok(None);
        }
        let mut fields = Fields(&self.payload);
        let (Some(length), Some(checksum)) = (fields.take(), fields.take()) else {
            return Err("the last frame is cut off");
        };
        let (length, checksum) = (u32::from_le_bytes(length), u64::from_le_bytes(checksum));
        let length = length as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err("a frame is longer than any");
        }
        if self.read(length)? < length {
            return Err("the last frame is cut off");
        }
        if xxh3_64_with_seed(&self.payload, self.offset) != checksum {
            return Err("a checksum is wrong");
        }
        let record = record_of(&self.payload).ok_or("a frame holds no record")?;
        self.offset += (FRAME_HEAD_BYTES + length) as u64;
        Ok(Some(record))
    }

    /// Reads so many bytes into the payload, or those that are left, and returns their number.
    fn read(&mut self, length: usize) -> Result<usize, &'static str> {
        self.payload.clear();
        let mut part = self.file.by_ref().take(length as u64);
        part.read_to_end(&mut self.payload)
            .map_err(|_| "the file cannot be read")
    }
}

/// The record of a payload; `None` if it is none.
fn record_of(payload: &[u8]) -> Option<Record> {
    let mut fields = Fields(payload);
    let since = Duration::from_micros(fields.number()?);
    let took = Duration::from_nanos(fields.number()?);
    let peer = Ipv6Addr::from(fields.take::<16>()?).to_canonical();
    let [request_bytes, response_bytes] = [fields.number()?, fields.number()?];
    let known = |bytes: u64| (bytes != UNKNOWN).then_some(bytes);
    let status = u16::from_le_bytes(fields.take()?);
    let [service, bits] = fields.take()?;
    let mut services = ServiceKind::ALL.into_iter();
    let service = services.find(|known| service_number(*known) == service)?;
    let request_id = fields.text()?;
    let account = Some(fields.text()?).filter(|account| !account.is_empty());
    let operation = fields.text()?;
    let head = fields.bytes()?.to_vec();
    let refusal = if bits & REFUSED != 0 {
        Some(Box::new(fields.refusal(bits & CLIENT_SIGNED != 0)?))
    } else {
        None
    };
    fields.0.is_empty().then_some(())?;
    Some(Record {
        number: 0,
        at: SystemTime::UNIX_EPOCH.checked_add(since)?,
        took,
        service,
        peer,
        secure: bits & SECURE != 0,
        request_id,
        account,
        operation: operation.into(),
        status,
        refusal,
        request_bytes: known(request_bytes),
        response_bytes: known(response_bytes),
        is_of_fork: false,
        is_earlier: true,
        resource: 0,
        head,
        bodies: None,
    })
}

/// The fields of a payload that have not been read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.take()?);
        let (taken, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<String> {
        let text = std::str::from_utf8(self.bytes()?).ok()?;
        Some(text.to_owned())
    }

    fn refusal(&mut self, has_client_signed: bool) -> Option<WhyRefused> {
        let (code, reason) = (self.text()?, self.text()?);
        let count = u32::from_le_bytes(self.take()?);
        let mut details = Vec::new();
        // Each takes bytes of the payload: a count that lies ends with them.
        for _ in 0..count {
            details.push((Cow::Owned(self.text()?), self.text()?));
        }
        let client_signed = if has_client_signed {
            Some(Box::new(ClientSigned {
                text: self.text()?,
                mistake: self.text()?.into(),
            }))
        } else {
            None
        };
        Some(WhyRefused {
            code,
            reason,
            details,
            client_signed,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A record with something in each field.
    pub fn record(id: &str) -> Record {
        let head = format!("GET /a/c/b?sv=1&x={id} HTTP\nuser-agent:test\n\nx-ms-version:1\n");
        Record {
            number: 0,
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_790_000_000_000_123),
            took: Duration::from_nanos(1_234_567),
            service: ServiceKind::Table,
            peer: [127, 0, 0, 1].into(),
            secure: true,
            request_id: id.to_owned(),
            account: Some("a".to_owned()),
            operation: "GetBlob".into(),
            status: 403,
            refusal: Some(Box::new(WhyRefused {
                code: "AuthenticationFailed".to_owned(),
                reason: "It is wrong.".to_owned(),
                details: vec![("Reason".into(), "é\n".to_owned())],
                client_signed: Some(Box::new(ClientSigned {
                    text: "GET\n\n".to_owned(),
                    mistake: "A mistake.".into(),
                })),
            })),
            request_bytes: Some(0),
            response_bytes: None,
            is_of_fork: false,
            is_earlier: false,
            resource: 0,
            head: head.into_bytes(),
            bodies: None,
        }
    }

    fn plain() -> Record {
        Record {
            refusal: None,
            account: None,
            operation: "".into(),
            peer: "2001:db8::1".parse().unwrap(),
            secure: false,
            ..record("plain")
        }
    }

    /// The frames of records, behind a header.
    fn file(records: &[Record]) -> Vec<u8> {
        let mut file = HEADER.to_vec();
        for record in records {
            let offset = file.len() as u64;
            push_frame(record, offset, &mut file);
        }
        file
    }

    /// The records of a file, where they end, and whether it is whole.
    fn read(file: &[u8]) -> (Vec<Record>, u64, bool) {
        let mut frames = Frames::new(&file[HEADER.len()..]);
        let mut records = Vec::new();
        loop {
            match frames.next_record() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => return (records, frames.offset(), true),
                Err(_) => return (records, frames.offset(), false),
            }
        }
    }

    fn as_read(record: Record) -> String {
        let record = Record {
            is_earlier: true,
            ..record
        };
        format!("{record:?}")
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let written = file(&[record("1"), plain(), record("2")]);
        let (records, end, is_whole) = read(&written);
        let records: Vec<_> = records.iter().map(|record| format!("{record:?}")).collect();
        assert_eq!(
            records,
            [record("1"), plain(), record("2")].map(as_read).to_vec()
        );
        assert_eq!((end, is_whole), (written.len() as u64, true));
    }

    #[test]
    fn bytes_are_those_of_the_documentation() {
        let record = Record {
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(0x0102),
            took: Duration::from_nanos(3),
            service: ServiceKind::Queue,
            head: b"GET /\n\n".to_vec(),
            request_id: "id".to_owned(),
            operation: "Op".into(),
            status: 0x00c8,
            refusal: None,
            ..record("")
        };
        let written = file(&[record]);
        let (header, frame) = written.split_at(12);
        assert_eq!(header, b"LZREQLOG\x01\0\0\0");
        let payload = [
            &b"\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0"[..],
            b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01",
            b"\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xc8\0\x02\x01",
            b"\x02\0\0\0id\x01\0\0\0a\x02\0\0\0Op\x07\0\0\0GET /\n\n",
        ]
        .concat();
        assert_eq!(frame[12..], payload);
        assert_eq!(frame[..4], (payload.len() as u32).to_le_bytes());
        let checksum = xxh3_64_with_seed(&payload, 12);
        assert_eq!(frame[4..12], checksum.to_le_bytes());
    }

    #[test]
    fn a_cut_or_a_flipped_bit_ends_a_file_before_the_frame_that_it_hits() {
        let whole = file(&[record("1"), record("2")]);
        let first = file(&[record("1")]).len();
        for end in HEADER.len()..whole.len() {
            let (records, read_to, is_whole) = read(&whole[..end]);
            let expected = usize::from(end >= first);
            assert_eq!(records.len(), expected, "{end}");
            let offset = if expected == 1 { first } else { HEADER.len() };
            assert_eq!(read_to, offset as u64, "{end}");
            assert_eq!(is_whole, end == offset, "{end}");
        }
        for offset in HEADER.len()..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[offset] ^= 1 << bit;
                let (records, _, is_whole) = read(&damaged);
                assert_eq!(records.len(), usize::from(offset >= first), "{offset}");
                assert!(!is_whole, "{offset} {bit}");
            }
        }
    }

    /// A frame with a right checksum around any payload.
    fn framed(payload: &[u8]) -> Vec<u8> {
        let checksum = xxh3_64_with_seed(payload, HEADER.len() as u64);
        let length = (payload.len() as u32).to_le_bytes();
        [&HEADER, &length[..], &checksum.to_le_bytes(), payload].concat()
    }

    #[test]
    fn payloads_that_are_no_records_are_damage_whatever_their_checksums_say() {
        let mut payload = Vec::new();
        push_payload(&record("1"), &mut payload);
        assert_eq!(read(&framed(&payload)).0.len(), 1);
        for end in 0..payload.len() {
            assert!(read(&framed(&payload[..end])).0.is_empty(), "{end}");
        }
        let longer = [&payload[..], b"\0"].concat();
        assert!(read(&framed(&longer)).0.is_empty());
        for offset in 0..payload.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut hostile = payload.clone();
                hostile[offset] = byte;
                // Any record, or none: each of its parts can be asked for.
                for record in read(&framed(&hostile)).0 {
                    let parts = (record.method(), record.target(), record.headers());
                    let _ = (
                        parts,
                        record.bytes(),
                        crate::codec::date::iso8601(record.at),
                    );
                }
            }
        }
        for length in [PAYLOAD_BYTES_MAX as u32 + 1, u32::MAX] {
            let frame = [&HEADER, &length.to_le_bytes()[..], &[0; 8]].concat();
            let mut frames = Frames::new(&frame[HEADER.len()..]);
            assert_eq!(
                frames.next_record().unwrap_err(),
                "a frame is longer than any"
            );
            assert!(frames.payload.capacity() < 1024);
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_not_written() {
        let long = Record {
            head: vec![b'x'; PAYLOAD_BYTES_MAX],
            ..record("long")
        };
        let (records, _, is_whole) = read(&file(&[record("1"), long, record("2")]));
        let ids: Vec<_> = records.iter().map(|record| &*record.request_id).collect();
        assert_eq!((ids, is_whole), (vec!["1", "2"], true));
    }
}
