//! The requests of idle and abusive clients.

use std::fmt::Write as _;

use crate::checked_clients::{CONTAINER, SMALL};
use crate::client::{Account, Outgoing, Request, Service, Template};

/// The blob that slow readers ask for.
pub(super) const LARGE: &str = "large";
pub(super) const LARGE_BYTES: usize = 64 << 20;
/// Bytes of parameters without meaning in a target.
const PARAMETER_BYTES: usize = 60 << 10;
/// How often a signature names one header, and the length of the header: a server that copies the value each time copies 16 MB.
const SIGNED_NAMES: usize = 2_000;
const SIGNED_HEADER_BYTES: usize = 8 << 10;
/// Parts of a Blob Batch, and the bytes of parameters in the target of each.
const PARTS: usize = 64;
const PART_PARAMETER_BYTES: usize = 8 << 10;

/// The bytes of each request.
pub(super) struct Requests {
    /// The head of a Put Blob of 64 MiB.
    pub(super) put: Vec<u8>,
    /// A Get Blob of 64 MiB.
    pub(super) get: Vec<u8>,
    /// A Get Blob with 60 KB of parameters and a false signature.
    pub(super) long_target: Vec<u8>,
    /// A Get Blob whose false signature covers one header thousands of times.
    pub(super) repeated_header: Vec<u8>,
    /// A Blob Batch whose parts have long targets and false signatures.
    pub(super) batch: Vec<u8>,
}

impl Requests {
    pub(super) fn new(account: &Account) -> Requests {
        let put = Request::new(Service::Blob, "PUT", format!("/{CONTAINER}/slow"))
            .header("x-ms-blob-type", "BlockBlob")
            .header("content-length", LARGE_BYTES);
        let get = Request::new(Service::Blob, "GET", format!("/{CONTAINER}/{LARGE}"));
        Requests {
            put: signed(account, put, b""),
            get: signed(account, get, b""),
            long_target: long_target(account),
            repeated_header: repeated_header(account),
            batch: batch(account),
        }
    }
}

fn signed(account: &Account, request: Request<'static>, body: &[u8]) -> Vec<u8> {
    let mut out = Outgoing::default();
    Template::new(account, request).write(&mut out, &[], body);
    out.text
}

/// Parameters `&p0=%C3%A4&p1=…` of about `bytes` bytes.
fn parameters(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 20);
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        write!(text, "&p{number}=%C3%A4").expect("a string takes what is written");
    }
    text
}

fn long_target(account: &Account) -> Vec<u8> {
    format!(
        "GET /{}/{CONTAINER}/{SMALL}?sv=2021-08-06&sr=b&sp=r&sig=AAAA{} HTTP/1.1\r\nhost: x\r\n\r\n",
        account.name,
        parameters(PARAMETER_BYTES)
    )
    .into_bytes()
}

/// A user delegation SAS may name headers that it covers (`srh`).
fn repeated_header(account: &Account) -> Vec<u8> {
    let id = "00000000-0000-0000-0000-000000000000";
    let times = "st=2026-01-01T00:00:00Z&se=2036-01-01T00:00:00Z";
    let key = format!(
        "skoid={id}&sktid={id}&skt=2026-01-01T00:00:00Z&ske=2036-01-01T00:00:00Z&sks=b&skv=2026-04-06"
    );
    format!(
        "GET /{}/{CONTAINER}/{SMALL}?sv=2026-04-06&sr=b&sp=r&{times}&{key}&srh={}&sig=AAAA HTTP/1.1\r\n\
         host: x\r\na: {}\r\n\r\n",
        account.name,
        vec!["a"; SIGNED_NAMES].join(","),
        "x".repeat(SIGNED_HEADER_BYTES)
    )
    .into_bytes()
}

fn batch(account: &Account) -> Vec<u8> {
    let (mut body, parameters) = (String::new(), parameters(PART_PARAMETER_BYTES));
    for number in 0..PARTS {
        write!(
            body,
            "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: {number}\r\n\r\n\
             DELETE /{}/{CONTAINER}/none{number}?sv=2021-08-06&sr=b&sp=d&sig=AAAA{parameters} HTTP/1.1\r\n\
             content-length: 0\r\n\r\n",
            account.name
        )
        .expect("a string takes what is written");
    }
    body.push_str("--b--\r\n");
    let request = Request::new(Service::Blob, "POST", "/".into())
        .query("comp", "batch")
        .header("content-type", "multipart/mixed; boundary=b");
    signed(account, request, body.as_bytes())
}
