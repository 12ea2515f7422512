//! Random requests, properly signed, so that they pass authentication: the answer is never an
//! internal error, and the server answers the next one.
//!
//! `LAZURITE_NONSENSE` sets the number of requests in a run (1500 by default), `LAZURITE_TEST_SEED`
//! repeats a run.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::{Connection, Request};
use crate::random::{Random, environment_number, test_seeds};
use crate::server::{Server, Service};

const METHODS: &str = "GET GET PUT PUT POST DELETE HEAD MERGE PATCH OPTIONS";

/// The targets of requests. A `$` that is a segment of its own is replaced with a value.
const PATHS: &[(Service, &str)] = &[
    (Service::Blob, "/ /con /con/b /con/$ /$root /$logs /$ /$/$"),
    (
        Service::Queue,
        "/ /q-1 /q-1/messages /q-1/messages/$ /$ /$/messages",
    ),
    (Service::Table, TABLE_PATHS),
];

const TABLE_PATHS: &str = "/ /Tables /Tables('$') /Tab /Tab() /Tab(PartitionKey='p',RowKey='r') \
    /Tab(PartitionKey='$',RowKey='$') /Tab($) /$batch /$()";

const PARAMETERS: &str = "prefix marker maxresults delimiter include blockid blocklisttype snapshot timeout \
    numofmessages visibilitytimeout messagettl popreceipt peekonly $filter $select $top \
    $format $orderby NextPartitionKey NextRowKey NextTableName sv";

const COMPS: &str = "list metadata acl properties stats block blocklist page lease tier snapshot batch tags \
    query blobs appendblock nonsense";

const HEADERS: &str = "If-Match If-None-Match If-Modified-Since If-Unmodified-Since Range x-ms-range \
    x-ms-blob-type x-ms-meta-a x-ms-meta- x-ms-version Content-MD5 x-ms-content-crc64 x-ms-blob-content-md5 \
    x-ms-range-get-content-md5 Accept Content-Type Prefer X-HTTP-Method x-ms-lease-id x-ms-blob-public-access \
    x-ms-client-request-id";

const VALUES: &str = r##"
0
-1
1
33
604801
99999999999999999999
x
a'b
''
%
true
null
NaN
é
🦀
\
/
//
..
*
"0x1"
2024-01-01
9999-12-31T23:59:59Z
0001-01-01T00:00:00Z
Sat, 01 Jan 2000 00:00:00 GMT
W/"datetime'2024-01-01T00%3A00%3A00.0000000Z'"
bytes=0-
bytes=5-2
bytes=-5
bytes=18446744073709551615-
bytes=0-99999999999999999999
AAAA
AAA=
1!0!
1!4!QUFB
1!999999999999!AAAA
datetime'x'
(((
))
a eq 1
a eq 1 and (b lt 'x' or not c)
PartitionKey eq 'p' and RowKey ge ''
a eq guid'0'
X'0g'
a,b,,c
BlockBlob
application/json
application/json;odata=fullmetadata
return-no-content
MERGE
2015-02-21
5974b586-0df3-4e2d-ad0c-18e3892bfca2
metadata,snapshots
all
container"##;

const NAMES: &str = "PartitionKey RowKey a b a@odata.type Timestamp odata.etag TableName";

const SCALARS: &str = r##""p"
"r"
""
1
-1.5
1e400
true
null
9223372036854775808
NaN
-0.0
"Edm.Int64"
"Edm.Guid"
"Edm.DateTime"
"Edm.Binary"
"Edm.Double"
"AAAA"
"2024-01-01T00:00:00Z"
"\ud800"
"\u0000""##;

const ELEMENTS: &str = "QueueMessage MessageText BlockList Latest Committed SignedIdentifiers SignedIdentifier Id \
    AccessPolicy Start Expiry Permission";

const TEXTS: &str = r##"x
AAAA
&amp;
&bogus;
&#0;
&#xFFFF;
<![CDATA[x]]>
<!-- c -->
<?pi?>
<!DOCTYPE a>

2024-01-01
rwdl"##;

#[test]
fn no_nonsense_is_an_internal_error() {
    let count = environment_number("LAZURITE_NONSENSE", 1500);
    for seed in test_seeds() {
        send_nonsense(seed, count);
    }
}

fn send_nonsense(seed: u64, count: u64) {
    let mut random = Random(seed);
    let server = Server::fresh();
    for (service, method, target, body) in [
        (Service::Blob, "PUT", "/con?restype=container", ""),
        (Service::Queue, "PUT", "/q-1", ""),
        (Service::Table, "POST", "/Tables", r#"{"TableName":"Tab"}"#),
    ] {
        let made = Request::new(service, method, target)
            .json(body)
            .send(&server);
        made.is(201);
    }
    for _ in 0..count {
        let (service, paths) = PATHS[random.below(3) as usize];
        let request = request(&mut random, service, paths);
        let mut connection = Connection::open(&server, service).unwrap();
        let text = String::from_utf8_lossy(&request.bytes()).into_owned();
        let answer = connection.send(&request);
        let answer = answer.unwrap_or_else(|error| panic!("{error} to {text}"));
        assert!(
            answer.status < 500 || answer.status == 501,
            "{answer:?} to {text}"
        );
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

fn request(random: &mut Random, service: Service, paths: &str) -> Request {
    let method = word(random, METHODS);
    let mut target = path(random, paths);
    let mut separator = '?';
    let mut add = |target: &mut String, name: &str, value: &str| {
        let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
        target.push_str(&format!("{separator}{name}={value}"));
        separator = '&';
    };
    if random.percent(40) {
        add(&mut target, "comp", word(random, COMPS));
    }
    if random.percent(20) {
        add(
            &mut target,
            "restype",
            word(random, "container service account x"),
        );
    }
    while random.percent(40) {
        add(&mut target, word(random, PARAMETERS), &value(random));
    }
    let mut request = Request::new(service, method, &target);
    let mut given = Vec::new();
    while random.percent(50) {
        let (name, value) = (word(random, HEADERS), line(random, VALUES));
        if !given.contains(&name) {
            given.push(name);
            request = request.header(name, value);
        }
    }
    if matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS") {
        return request;
    }
    let default = |request: Request, name: &'static str, value: &str| {
        if given.contains(&name) {
            request
        } else {
            request.header(name, value)
        }
    };
    if target.contains("$batch") {
        request = default(request, "Content-Type", "multipart/mixed; boundary=b");
        return request.body(batch(random));
    }
    if service == Service::Table && random.percent(90) {
        request = default(request, "Content-Type", "application/json");
        return request.body(json(random, 0));
    }
    if service == Service::Blob && random.percent(50) {
        request = default(request, "x-ms-blob-type", "BlockBlob");
    }
    request.body(xml(random))
}

fn word<'a>(random: &mut Random, words: &'a str) -> &'a str {
    let words: Vec<&str> = words.split_whitespace().collect();
    random.one_of(&words)
}

fn line<'a>(random: &mut Random, lines: &'a str) -> &'a str {
    let lines: Vec<&str> = lines.lines().collect();
    random.one_of(&lines)
}

fn path(random: &mut Random, paths: &str) -> String {
    let mut path = String::new();
    for (index, part) in word(random, paths).split('$').enumerate() {
        let is_a_name = ["batch", "root", "logs"].contains(&part);
        if is_a_name {
            path.push('$');
        } else if index > 0 {
            path += &utf8_percent_encode(&value(random), NON_ALPHANUMERIC).to_string();
        }
        path += part;
    }
    path
}

/// A value for a place in which any character is possible.
fn value(random: &mut Random) -> String {
    match random.below(20) {
        0 => char::from_u32(random.below(0xd800) as u32)
            .into_iter()
            .collect(),
        1 => line(random, VALUES).repeat(300),
        _ => line(random, VALUES).to_string(),
    }
}

fn json(random: &mut Random, depth: u64) -> String {
    let members = |random: &mut Random| -> Vec<String> {
        (0..random.below(6))
            .map(|_| format!("\"{}\":{}", word(random, NAMES), json(random, depth + 1)))
            .collect()
    };
    match random.below(10) + depth {
        0..=6 => format!("{{{}}}", members(random).join(",")),
        7 => format!("[{}]", json(random, depth + 3)),
        8 => line(random, VALUES).to_string(),
        _ => line(random, SCALARS).to_string(),
    }
}

fn xml(random: &mut Random) -> String {
    if random.percent(35) {
        return line(random, TEXTS).to_string();
    }
    let open = word(random, ELEMENTS);
    let close = if random.percent(95) { open } else { "x" };
    let inner: String = (0..random.below(3)).map(|_| xml(random)).collect();
    format!("<{open}>{inner}</{close}>")
}

fn batch(random: &mut Random) -> String {
    let changes: String = (0..random.below(5)).map(|_| change(random)).collect();
    let changeset = "Content-Type: multipart/mixed; boundary=c\r\n\r\n";
    format!("--b\r\n{changeset}{changes}--c--\r\n--b--\r\n")
}

fn change(random: &mut Random) -> String {
    let method = word(random, METHODS);
    let target = random.one_of(&[
        "/Tab",
        "/Tab(PartitionKey=%27p%27,RowKey=%27r%27)",
        "/Tab()",
        "/Tables",
    ]);
    let header = random.one_of(&[
        "",
        "If-Match: *\r\n",
        "Content-Type: application/json\r\n",
        "nonsense\r\n",
    ]);
    let part = "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    let body = json(random, 0);
    format!("{part}{method} /devstoreaccount1{target} HTTP/1.1\r\n{header}\r\n{body}\r\n")
}
