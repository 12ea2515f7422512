//! User delegation SAS, names that a signature covers, blocks staged with the letter `c`, and the
//! data that anonymous callers may read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use tempfile::TempDir;

use crate::auth::bearer;
use crate::http::{Request, Response};
use crate::rights::service_sas;
use crate::server::{ACCOUNT, Launch, Server, Service};

/// An API version with user delegation SAS in all services, and with `srh` and `srq`.
const VERSION: &str = "2026-04-06";
/// The first API version in which permission `c` covers blocks.
const BLOCKS_VERSION: &str = "2026-06-06";
const EXPIRY: &str = "2099-01-01T00:00:00Z";

/// A user delegation key of one service.
pub(crate) struct DelegationKey {
    service: Service,
    /// The fields `skoid`, `sktid`, `skt`, `ske`, `sks` and `skv` of a SAS.
    fields: Vec<(&'static str, String)>,
    value: Vec<u8>,
}

impl DelegationKey {
    /// Gets a key from a server that was started with `--oauth basic`.
    pub(crate) fn from(server: &Server, service: Service) -> DelegationKey {
        let now = std::time::SystemTime::now();
        let tomorrow = now + std::time::Duration::from_secs(24 * 60 * 60);
        let expiry = httpdate::HttpDate::from(tomorrow).to_string();
        let expiry = iso8601(&expiry);
        let target = "/?restype=service&comp=userdelegationkey";
        let asked = Request::new(service, "POST", target)
            .header("Authorization", &bearer())
            .header("x-ms-version", VERSION)
            .body(format!("<KeyInfo><Expiry>{expiry}</Expiry></KeyInfo>"));
        let answer = asked.send(server);
        let element = |name: &str| answer.is(200).element(name).unwrap();
        let fields = [
            ("skoid", "SignedOid"),
            ("sktid", "SignedTid"),
            ("skt", "SignedStart"),
            ("ske", "SignedExpiry"),
            ("sks", "SignedService"),
            ("skv", "SignedVersion"),
        ];
        DelegationKey {
            service,
            fields: fields.map(|(field, name)| (field, element(name))).to_vec(),
            value: BASE64.decode(element("Value")).unwrap(),
        }
    }

    /// The object id of the user that the key was issued to.
    pub(crate) fn user(&self) -> &str {
        &self.fields[0].1
    }

    fn expiry(&self) -> &str {
        &self.fields[3].1
    }

    fn sas(&self, resource: &str, fields: &[(&'static str, &str)]) -> String {
        self.sas_at(resource, fields, "")
    }

    /// A SAS signed with this key. `moment` is the time of a snapshot or version.
    pub(crate) fn sas_at(
        &self,
        resource: &str,
        fields: &[(&'static str, &str)],
        moment: &str,
    ) -> String {
        self.sas_for(resource, fields, moment, ["", ""])
    }

    /// A SAS by this key that covers headers and parameters, given as their lines in the string to
    /// sign. Source: Create a user delegation SAS, "Specify the string-to-sign".
    fn sas_for(
        &self,
        resource: &str,
        fields: &[(&'static str, &str)],
        moment: &str,
        covered: [&str; 2],
    ) -> String {
        let get = |name: &str| {
            let field = fields.iter().find(|(known, _)| *known == name);
            let own = self.fields.iter().find(|(known, _)| *known == name);
            let own = own.map_or("", |(_, value)| value);
            field.map_or(own, |(_, value)| value)
        };
        let label = format!("{:?}", self.service).to_lowercase();
        let resource = format!("/{label}/{ACCOUNT}/{resource}");
        let expiry = self.expiry();
        let mut lines = vec![get("sp"), "", expiry, &resource];
        lines.extend(["skoid", "sktid", "skt", "ske", "sks", "skv"].map(get));
        let is_blob = self.service == Service::Blob;
        if is_blob {
            lines.extend(["saoid", "suoid", "scid"].map(get));
        }
        lines.extend(["skdutid", "sduoid", "sip", "spr"].map(get));
        lines.push(VERSION);
        if self.service == Service::Table {
            lines.extend(["spk", "srk", "epk", "erk"].map(get));
        }
        if is_blob {
            lines.extend([get("sr"), moment, ""]);
            lines.extend(covered);
            lines.extend(["rscc", "rscd", "rsce", "rscl", "rsct"].map(get));
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.value).unwrap();
        mac.update(lines.join("\n").as_bytes());
        let signature = BASE64.encode(mac.finalize().into_bytes());
        let own = self
            .fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        let all = own.chain(fields.iter().copied());
        let all = all.chain([("sv", VERSION), ("se", expiry), ("sig", &*signature)]);
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        all.map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect::<Vec<_>>()
            .join("&")
    }
}

/// Converts `Sat, 01 Jan 2028 00:00:00 GMT` to `2028-01-01T00:00:00Z`.
fn iso8601(date: &str) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (day, month, year, clock) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
    let month = MONTHS.iter().position(|name| *name == month).unwrap() + 1;
    format!("{year}-{month:02}-{day}T{clock}Z")
}

/// A server that accepts bearer tokens.
pub(crate) fn with_tokens(location: &TempDir) -> Server {
    Launch::on(location.path())
        .argument("--oauth=basic")
        .start()
}

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

fn put(request: Request) -> Request {
    request.header("x-ms-blob-type", "BlockBlob")
}

fn detail(answer: &Response) -> String {
    answer
        .is(403)
        .element("AuthenticationErrorDetail")
        .unwrap_or_default()
}

/// Regression test: a name that was listed a thousand times put its header into the string to sign
/// a thousand times, before the signature was checked.
#[test]
fn a_name_that_a_signature_covers_is_listed_once() {
    let location = TempDir::new().unwrap();
    let server = with_tokens(&location);
    let ask = |list: &str| {
        let sas = format!(
            "sv={VERSION}&sr=b&sp=r&se={EXPIRY}&skoid=a&sktid=b&skt=2020-01-01&ske=2099-01-01&sks=b&skv={VERSION}&sig=AAAA&{list}"
        );
        let request = blob("GET", "/con/victim").credited(&sas);
        request.header("a", &"x".repeat(28_000)).send(&server)
    };
    let many = |name: &str, count: usize| vec![name; count].join(",");
    for list in ["srh", "srq"] {
        for names in ["a,a", "A,b,a", ",,"] {
            let shown = detail(&ask(&format!("{list}={names}")));
            assert_eq!(shown, format!("{list} lists a name more than once."));
        }
        let shown = detail(&ask(&format!("{list}={}", many("a", 14_000))));
        assert_eq!(shown, format!("{list} has more than 32 names."));
    }
    // The refusal of a large header repeats only the beginning of the string to sign.
    let refused = ask("srh=a");
    assert!(detail(&refused).starts_with("Signature did not match."));
    assert!(refused.body.len() < 10_000, "{}", refused.body.len());
}

/// The value of a covered header or parameter cannot be moved into another field of the SAS in such
/// a way that the signature still fits.
#[test]
fn a_name_that_a_signature_covers_cannot_be_dropped_from_its_sas() {
    let location = TempDir::new().unwrap();
    let server = with_tokens(&location);
    blob("PUT", "/con?restype=container").send(&server).is(201);
    put(blob("PUT", "/con/b")).body("x").send(&server).is(201);
    let key = DelegationKey::from(&server, Service::Blob);
    let fields = [("sr", "b"), ("sp", "r"), ("srh", "x-foo"), ("srq", "bar")];
    let sas = key.sas_for("con/b", &fields, "", ["x-foo:1\n", "\nbar:2"]);
    let with = |sas: &str, header: Option<&str>, target: &str| {
        let mut request = blob("GET", target);
        if let Some(value) = header {
            request = request.header("x-foo", value);
        }
        request.credited(sas).send(&server)
    };
    with(&sas, Some("1"), "/con/b?bar=2").is(200);
    for (header, target) in [
        (None, "/con/b?bar=2"),
        (Some("3"), "/con/b?bar=2"),
        (Some("1"), "/con/b"),
        (Some("1"), "/con/b?bar=3"),
    ] {
        let shown = detail(&with(&sas, header, target));
        assert!(shown.starts_with("Signature did not match."), "{shown}");
    }
    for (dropped, replacement) in [
        ("&srh=x%2Dfoo", ""),
        ("&srq=bar", ""),
        // The replacements leave the string to sign the same.
        ("&srh=x%2Dfoo", "&ses=%0Ax-foo:1"),
        ("&srq=bar", "&rscc=bar:2%0A"),
    ] {
        assert!(sas.contains(dropped), "{sas}");
        let changed = sas.replace(dropped, replacement);
        with(&changed, Some("1"), "/con/b?bar=2").is(403);
        let without = if dropped.starts_with("&srh") {
            with(&changed, None, "/con/b?bar=2")
        } else {
            with(&changed, Some("1"), "/con/b")
        };
        without.is(403);
    }
}

/// Any page may know the well-known key, and with it every user delegation key.
#[test]
fn pages_of_other_machines_read_nothing_with_a_user_delegation_sas_or_a_token() {
    let location = TempDir::new().unwrap();
    let server = with_tokens(&location);
    blob("PUT", "/con?restype=container").send(&server).is(201);
    put(blob("PUT", "/con/b")).body("x").send(&server).is(201);
    Request::new(Service::Queue, "PUT", "/que")
        .send(&server)
        .is(201);
    Request::new(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Tab"}"#)
        .send(&server)
        .is(201);
    for (service, target, resource, fields) in [
        (Service::Blob, "/con/b", "con/b", [("sr", "b"), ("sp", "r")]),
        (
            Service::Queue,
            "/que/messages?peekonly=true",
            "que",
            [("sr", ""), ("sp", "r")],
        ),
        (
            Service::Table,
            "/Tab()",
            "tab",
            [("tn", "Tab"), ("sp", "r")],
        ),
    ] {
        let sas = DelegationKey::from(&server, service).sas(resource, &fields);
        let by_sas = Request::new(service, "GET", target).credited(&sas);
        let by_token = Request::new(service, "GET", target).header("Authorization", &bearer());
        for request in [by_sas, by_token] {
            request.clone().send(&server).is(200);
            let from = |page: &str| {
                let request = request.clone().header("Sec-Fetch-Site", "cross-site");
                request.header("Referer", page).send(&server)
            };
            let refused = from("https://evil.example/");
            assert_eq!(
                (refused.status, &*refused.code()),
                (403, "AuthorizationFailure")
            );
            from("http://localhost:3000/").is(200);
        }
    }
}

#[test]
fn a_user_delegation_sas_is_taken_where_tokens_are() {
    let location = TempDir::new().unwrap();
    let server = with_tokens(&location);
    blob("PUT", "/con?restype=container").send(&server).is(201);
    put(blob("PUT", "/con/b")).body("x").send(&server).is(201);
    let key = DelegationKey::from(&server, Service::Blob);
    let sas = key.sas("con/b", &[("sr", "b"), ("sp", "r")]);
    let get = |server: &Server| blob("GET", "/con/b").credited(&sas).send(server);
    get(&server).is(200);
    server.signal("TERM");
    let server = Launch::on(location.path()).start();
    assert!(detail(&get(&server)).contains("--oauth basic"));
}

/// Source: Create a user delegation SAS, "Specify a signed object ID".
#[test]
fn a_sas_names_at_most_one_user_and_is_refused_if_it_wants_a_check_of_posix_rights() {
    let location = TempDir::new().unwrap();
    let server = with_tokens(&location);
    blob("PUT", "/con?restype=container").send(&server).is(201);
    put(blob("PUT", "/con/b")).body("x").send(&server).is(201);
    let key = DelegationKey::from(&server, Service::Blob);
    let get = |users: &[(&'static str, &'static str)]| {
        let sas = key.sas("con/b", &[&[("sr", "b"), ("sp", "r")], users].concat());
        blob("GET", "/con/b").credited(&sas).send(&server)
    };
    const USER: &str = "1f812371-a41d-49e6-b123-f4b542e851c5";
    get(&[]).is(200);
    get(&[("saoid", USER)]).is(200);
    for (users, reason) in [
        (&[("saoid", "junk")][..], "is not a GUID"),
        (&[("suoid", USER)], "POSIX"),
        (&[("saoid", USER), ("suoid", USER)], "exclude each other"),
    ] {
        let shown = detail(&get(users));
        assert!(shown.contains(reason), "{users:?}: {shown}");
    }
}

#[test]
fn blocks_are_staged_with_c_from_the_version_on_that_says_so() {
    let server = Server::fresh();
    blob("PUT", "/con?restype=container").send(&server).is(201);
    put(blob("PUT", "/con/from"))
        .body("other")
        .send(&server)
        .is(201);
    let sas = |version: &str, permissions: &str| {
        let fields = [("sr", "c"), ("sp", permissions), ("sv", version)];
        service_sas(Service::Blob, "con", &fields).sign()
    };
    let source = format!("{}/con/from?{}", server.endpoint(Service::Blob), {
        sas("2022-11-02", "r")
    });
    let stage = |sas: &str, name: &str, id: &str, from_url: bool| {
        let target = format!("/con/{name}?comp=block&blockid={id}");
        let request = blob("PUT", &target).credited(sas);
        let request = if from_url {
            request.header("x-ms-copy-source", &source)
        } else {
            request.body("attack")
        };
        request.send(&server)
    };
    let commit = |sas: &str, name: &str, ids: &[&str]| {
        let blocks = ids.iter().map(|id| format!("<Latest>{id}</Latest>"));
        let list = format!("<BlockList>{}</BlockList>", blocks.collect::<String>());
        let target = format!("/con/{name}?comp=blocklist");
        let request = blob("PUT", &target).credited(sas).body(list);
        request.send(&server)
    };
    let old = sas("2022-11-02", "c");
    let mismatch = "AuthorizationPermissionMismatch";
    for from_url in [false, true] {
        assert_eq!(
            stage(&old, "new", "AAAA", from_url).is(403).code(),
            mismatch
        );
    }
    assert_eq!(commit(&old, "new", &[]).is(403).code(), mismatch);
    stage(&sas("2022-11-02", "w"), "old", "AAAA", false).is(201);

    let create_only = sas(BLOCKS_VERSION, "c");
    let overwrite = "UnauthorizedBlobOverwrite";
    for (name, from_url) in [("one", false), ("two", true)] {
        // A new blob may be written in blocks.
        stage(&create_only, name, "AAAA", from_url).is(201);
        stage(&create_only, name, "BBBB", from_url).is(201);
        commit(&create_only, name, &["AAAA", "BBBB"]).is(201);
        // An existing blob gets no blocks: a later commit could take them.
        let refused = stage(&create_only, name, "CCCC", from_url);
        assert_eq!(refused.is(403).code(), overwrite);
        assert_eq!(commit(&create_only, name, &["AAAA"]).code(), overwrite);
        // Blocks that another client has staged are not affected.
        let upload = format!("upload-{name}");
        let target = format!("/con/{upload}?comp=block&blockid=AAAA");
        blob("PUT", &target).body("owner").send(&server).is(201);
        let refused = stage(&create_only, &upload, "AAAA", from_url);
        assert_eq!(refused.is(403).code(), overwrite);
        commit(&sas(BLOCKS_VERSION, "w"), &upload, &["AAAA"]).is(201);
        let stored = blob("GET", &format!("/con/{upload}")).send(&server);
        assert_eq!(stored.is(200).text(), "owner");
    }
}

/// A version may have been replaced because it was never meant to be public.
#[test]
fn snapshots_of_a_public_container_are_public_and_older_versions_are_not() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--blob-versioning")
        .start();
    blob("PUT", "/open?restype=container")
        .header("x-ms-blob-public-access", "container")
        .send(&server)
        .is(201);
    let write = |content: &str| {
        let written = put(blob("PUT", "/open/b")).body(content).send(&server);
        written
            .is(201)
            .header("x-ms-version-id")
            .unwrap()
            .to_owned()
    };
    let old = write("secret");
    let current = write("public");
    let taken = blob("PUT", "/open/b?comp=snapshot").send(&server);
    let moment = taken.is(201).header("x-ms-snapshot").unwrap().to_owned();
    for version in [&old, &current] {
        for (method, query) in [
            ("GET", ""),
            ("HEAD", ""),
            ("GET", "&comp=metadata"),
            ("GET", "&comp=blocklist"),
        ] {
            let target = format!("/open/b?versionid={version}{query}");
            let asked = blob(method, &target).unsigned().send(&server);
            assert_eq!(asked.status, 403, "{method} {target}");
        }
        let source = format!(
            "{}/open/b?versionid={version}",
            server.endpoint(Service::Blob)
        );
        let copy = blob("PUT", "/open/copy").header("x-ms-copy-source", &source);
        let copied = copy.header("x-ms-requires-sync", "true").send(&server);
        assert_eq!(copied.code(), "CannotVerifyCopySource");
        blob("GET", &format!("/open/b?versionid={version}"))
            .send(&server)
            .is(200);
    }
    for target in ["/open/b".to_owned(), format!("/open/b?snapshot={moment}")] {
        let read = blob("GET", &target).unsigned().send(&server);
        assert_eq!(read.is(200).text(), "public");
    }
}
