//! Former ways around the rights of a SAS, one test each. `matrix` tries every operation with every
//! kind of credentials.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::{Request, sign};
use crate::server::{ACCOUNT, Server, Service};

const VERSION: &str = "2022-11-02";
const EXPIRY: &str = "2099-01-01T00:00:00Z";

/// The fields of a SAS for one resource, which `sign` puts into the string to sign in the order of
/// [`VERSION`].
#[derive(Clone)]
pub(crate) struct ServiceSas {
    service: Service,
    resource: String,
    fields: Vec<(&'static str, String)>,
}

pub(crate) fn service_sas(
    service: Service,
    resource: &str,
    fields: &[(&'static str, &str)],
) -> ServiceSas {
    let owned = fields
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    let mut fields: Vec<_> = owned.collect();
    for (name, value) in [("sv", VERSION), ("se", EXPIRY)] {
        if !fields.iter().any(|(known, _)| *known == name) {
            fields.push((name, value.to_owned()));
        }
    }
    ServiceSas {
        service,
        resource: resource.to_owned(),
        fields,
    }
}

impl ServiceSas {
    fn get(&self, name: &str) -> &str {
        let field = self.fields.iter().find(|(known, _)| *known == name);
        field.map_or("", |(_, value)| value)
    }

    /// The parameters, signed with the account's key. `moment` is a snapshot's or version's time.
    pub(crate) fn sign_at(&self, moment: &str) -> String {
        let label = match self.service {
            Service::Blob => "blob",
            Service::Queue => "queue",
            Service::Table => "table",
        };
        let (mut resource, mut names) = (String::new(), &["si", "sip", "spr", "sv"][..]);
        if self.get("sv") >= "2015-02-21" {
            resource = format!("/{label}");
        }
        if self.get("sv") < "2015-04-05" {
            names = &["si", "sv"];
        }
        resource += &format!("/{ACCOUNT}/{}", self.resource);
        let mut lines = vec![self.get("sp"), self.get("st"), self.get("se"), &resource];
        lines.extend(names.iter().map(|name| self.get(name)));
        match self.service {
            Service::Blob => {
                // Older versions sign neither the kind of resource nor the snapshot.
                if self.get("sv") >= "2018-11-09" {
                    lines.extend([self.get("sr"), moment]);
                }
                if self.get("sv") >= "2020-12-06" {
                    lines.push(self.get("ses"));
                }
                if self.get("sv") >= "2013-08-15" {
                    lines.extend(
                        ["rscc", "rscd", "rsce", "rscl", "rsct"].map(|name| self.get(name)),
                    );
                }
            }
            Service::Queue => {}
            Service::Table => lines.extend(["spk", "srk", "epk", "erk"].map(|name| self.get(name))),
        }
        let signature = sign(&lines.join("\n"));
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let fields = self.fields.iter();
        let fields = fields.map(|(name, value)| format!("{name}={}", encoded(value)));
        format!(
            "{}&sig={}",
            fields.collect::<Vec<_>>().join("&"),
            encoded(&signature)
        )
    }

    pub(crate) fn sign(&self) -> String {
        self.sign_at("")
    }
}

fn blob_sas(resource: &str, sr: &str, permissions: &str) -> String {
    service_sas(Service::Blob, resource, &[("sr", sr), ("sp", permissions)]).sign()
}

pub(crate) fn account_sas(permissions: &str) -> String {
    account_sas_with(permissions, &[])
}

/// An account SAS for services and types of resources, given by their letters.
pub(crate) fn account_sas_for(services: &str, types: &str, permissions: &str) -> String {
    let text =
        format!("{ACCOUNT}\n{permissions}\n{services}\n{types}\n\n{EXPIRY}\n\n\n{VERSION}\n\n");
    let signature = utf8_percent_encode(&sign(&text), NON_ALPHANUMERIC).to_string();
    format!("sv={VERSION}&ss={services}&srt={types}&sp={permissions}&se={EXPIRY}&sig={signature}")
}

fn account_sas_with(permissions: &str, more: &[(&str, &str)]) -> String {
    let text =
        format!("{ACCOUNT}\n{permissions}\nbqt\nsco\n\n{EXPIRY}\n\nhttps,http\n{VERSION}\n\n");
    let signature = utf8_percent_encode(&sign(&text), NON_ALPHANUMERIC).to_string();
    let more: String = more
        .iter()
        .map(|(name, value)| format!("&{name}={value}"))
        .collect();
    format!(
        "sv={VERSION}&ss=bqt&srt=sco&sp={permissions}&se={EXPIRY}&spr=https,http&sig={signature}{more}"
    )
}

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

/// A request with a SAS as its credentials.
fn with_sas(method: &str, target: &str, sas: &str) -> Request {
    blob(method, target).credited(sas)
}

fn put(request: Request) -> Request {
    request.header("x-ms-blob-type", "BlockBlob")
}

/// A server with a container `con` that has a blob `victim`.
fn prepared() -> Server {
    let server = Server::fresh();
    blob("PUT", "/con?restype=container").send(&server).is(201);
    put(blob("PUT", "/con/victim"))
        .body("content")
        .send(&server)
        .is(201);
    server
}

fn url(server: &Server, path: &str) -> String {
    format!("http://127.0.0.1:{}/{ACCOUNT}{path}", server.ports.blob)
}

#[test]
fn create_permission_never_overwrites_with_any_conditions() {
    let server = prepared();
    put(blob("PUT", "/con/from"))
        .body("other")
        .send(&server)
        .is(201);
    let source = format!("{}?{}", url(&server, "/con/from"), account_sas("r"));
    // In this API version, `c` covers block lists.
    let fields = [("sr", "c"), ("sp", "c"), ("sv", "2026-06-06")];
    let newer = service_sas(Service::Blob, "con", &fields).sign();
    let with_lists = [newer.as_str()];
    for sas in [&blob_sas("con", "c", "c"), &account_sas("c"), &newer] {
        let onto = |target: &str| with_sas("PUT", target, sas);
        let mut ways = vec![
            put(onto("/con/victim")).body("new"),
            onto("/con/victim").header("x-ms-blob-type", "AppendBlob"),
            onto("/con/victim")
                .header("x-ms-blob-type", "PageBlob")
                .header("x-ms-blob-content-length", "512"),
            onto("/con/victim").header("x-ms-copy-source", &source),
            onto("/con/victim")
                .header("x-ms-copy-source", &source)
                .header("x-ms-requires-sync", "true"),
            put(onto("/con/victim").header("x-ms-copy-source", &source)),
        ];
        if with_lists.contains(&sas.as_str()) {
            ways.push(onto("/con/victim?comp=blocklist").body("<BlockList/>"));
        }
        let etag = blob("HEAD", "/con/victim").send(&server);
        let etag = etag.header("ETag").unwrap().to_owned();
        for (index, way) in ways.into_iter().enumerate() {
            for (name, value) in [
                ("If-None-Match", "\"0x1\""),
                ("If-None-Match", "*"),
                ("If-Match", "*"),
                ("If-Match", &*etag),
                ("If-Unmodified-Since", "Fri, 01 Jan 2038 00:00:00 GMT"),
            ] {
                let refused = way.clone().header(name, value).send(&server);
                let message = "This request is not authorized to perform blob overwrites.";
                assert_eq!(refused.status, 403, "{index} {name}: {}", refused.text());
                refused.is_error(403, "UnauthorizedBlobOverwrite", message);
            }
        }
        put(onto("/con/new")).body("new").send(&server).is(201);
        blob("DELETE", "/con/new").send(&server).is(202);
    }
    assert_eq!(blob("GET", "/con/victim").send(&server).text(), "content");
}

/// The scheme of a source is a text from the caller and proves nothing.
#[test]
fn a_sas_for_https_opens_no_source_of_a_request_over_http() {
    let server = prepared();
    let fields = [("sr", "b"), ("sp", "r"), ("spr", "https")];
    let sas = service_sas(Service::Blob, "con/victim", &fields).sign();
    for scheme in ["http", "https"] {
        let source = format!("{}?{sas}", url(&server, "/con/victim")).replacen("http", scheme, 1);
        let copy = blob("PUT", "/con/copy").header("x-ms-copy-source", &source);
        let message =
            "This request is not authorized to perform this operation using this protocol.";
        copy.send(&server)
            .is_error(403, "CannotVerifyCopySource", message);
    }
}

#[test]
fn a_sas_for_a_container_opens_nothing_of_the_root_container() {
    let server = prepared();
    blob("PUT", "/$root?restype=container")
        .send(&server)
        .is(201);
    put(blob("PUT", "/con")).body("root").send(&server).is(201);
    let sas = blob_sas("con", "c", "rwdl");
    for (method, target) in [
        ("GET", "/con"),
        ("PUT", "/con"),
        ("PUT", "/con%2Fx"),
        ("GET", "/con%2Fvictim"),
        ("DELETE", "/con"),
    ] {
        let request = put(with_sas(method, target, &sas));
        request
            .send(&server)
            .is_error(403, "AuthenticationFailed", NOT_AUTHENTIC);
    }
    // Not even the owner can create such a name: the root container has none with a slash.
    let by_owner = put(blob("PUT", "/$root/x%2Fy")).body("x").send(&server);
    assert_eq!(by_owner.is(400).code(), "InvalidUri");
    with_sas("GET", "/con/victim", &sas).send(&server).is(200);
    with_sas("GET", "/con?restype=container&comp=list", &sas)
        .send(&server)
        .is(200);
    with_sas("GET", "/con", &blob_sas("$root/con", "b", "r"))
        .send(&server)
        .is(200);
    with_sas("GET", "/con", &blob_sas("$root", "c", "r"))
        .send(&server)
        .is(200);
}

const NOT_AUTHENTIC: &str = "Server failed to authenticate the request. Make sure the value of the Authorization header is formed \
                             correctly including the signature.";

#[test]
fn only_kinds_of_resources_that_the_version_knows_are_taken() {
    let server = prepared();
    blob("PUT", "/$root?restype=container")
        .send(&server)
        .is(201);
    put(blob("PUT", "/con")).body("root").send(&server).is(201);
    let old = [("sr", "b"), ("sp", "rl"), ("sv", "2018-03-28")];
    let old = service_sas(Service::Blob, "$root/con", &old).sign();
    with_sas("GET", "/con", &old).send(&server).is(200);
    for other in ["zz", "d", "bs", "bv", "f", "c", ""] {
        let changed = old.replace("sr=b", &format!("sr={other}"));
        for target in ["/con?restype=container&comp=list", "/con"] {
            let refused = with_sas("GET", target, &changed).send(&server);
            assert_eq!(refused.status, 403, "{other} {target}: {}", refused.text());
        }
    }
    for (sr, version) in [
        ("bs", "2018-03-28"),
        ("bv", "2018-11-09"),
        ("d", "2019-12-12"),
    ] {
        let sas = service_sas(
            Service::Blob,
            "con/victim",
            &[("sr", sr), ("sp", "r"), ("sv", version)],
        );
        with_sas("GET", "/con/victim", &sas.sign())
            .send(&server)
            .is(403);
    }
}

#[test]
fn a_sas_for_a_blob_opens_that_blob_and_one_for_a_snapshot_that_snapshot() {
    let server = prepared();
    let snapshot = |server: &Server| {
        let made = blob("PUT", "/con/victim?comp=snapshot").send(server);
        made.is(201).header("x-ms-snapshot").unwrap().to_owned()
    };
    let (first, second) = (snapshot(&server), snapshot(&server));
    let get = |target: &str, sas: &str| with_sas("GET", target, sas).send(&server).status;
    let at = |moment: &str| format!("/con/victim?snapshot={moment}");
    let of_blob = blob_sas("con/victim", "b", "r");
    assert_eq!(get("/con/victim", &of_blob), 200);
    assert_eq!(get(&at(&first), &of_blob), 403);
    assert_eq!(
        get(
            "/con/victim?versionid=2024-01-01T00:00:00.0000000Z",
            &of_blob
        ),
        403
    );
    let fields = [("sr", "bs"), ("sp", "r")];
    let of_snapshot = service_sas(Service::Blob, "con/victim", &fields).sign_at(&first);
    assert_eq!(get(&at(&first), &of_snapshot), 200);
    assert_eq!(get(&at(&second), &of_snapshot), 403);
    assert_eq!(get("/con/victim", &of_snapshot), 403);
    assert_eq!(
        get(&format!("/con/victim?versionid={first}"), &of_snapshot),
        403
    );
    // A SAS for the container covers all snapshots.
    assert_eq!(get(&at(&second), &blob_sas("con", "c", "r")), 200);
    // In older versions, a SAS for the blob covers its snapshots.
    let old = [("sr", "b"), ("sp", "r"), ("sv", "2018-03-28")];
    let old = service_sas(Service::Blob, "con/victim", &old).sign();
    assert_eq!(get(&at(&first), &old), 200);
}

#[test]
fn a_sas_for_a_directory_opens_the_blobs_below_it() {
    let server = prepared();
    for name in ["dir/sub/a", "dir/b", "other/a"] {
        put(blob("PUT", &format!("/con/{name}")))
            .body("x")
            .send(&server)
            .is(201);
    }
    let sas = |directory: &str, depth: &'static str| {
        let fields = [("sr", "d"), ("sdd", depth), ("sp", "r")];
        service_sas(Service::Blob, &format!("con/{directory}"), &fields).sign()
    };
    let get = |name: &str, sas: &str| {
        with_sas("GET", &format!("/con/{name}"), sas)
            .send(&server)
            .status
    };
    assert_eq!(get("dir/sub/a", &sas("dir/sub", "2")), 200);
    assert_eq!(get("dir/b", &sas("dir/sub", "2")), 403);
    assert_eq!(get("other/a", &sas("dir", "1")), 403);
    for depth in ["", "x", "-1", "99"] {
        assert_eq!(get("dir/b", &sas("dir/b", depth)), 403, "{depth}");
    }
}

#[test]
fn headers_of_an_answer_are_overridden_where_the_signature_covers_them() {
    let server = prepared();
    let content_type = |sas: &str| {
        let answer = with_sas("GET", "/con/victim", sas).send(&server);
        answer.is(200).header("Content-Type").unwrap().to_owned()
    };
    let signed = [("sr", "b"), ("sp", "r"), ("rsct", "text/x-signed")];
    let signed = service_sas(Service::Blob, "con/victim", &signed).sign();
    assert_eq!(content_type(&signed), "text/x-signed");
    let unsigned = account_sas_with("r", &[("rsct", "text%2Fhtml")]);
    assert_eq!(content_type(&unsigned), "application/octet-stream");
    let old = [("sr", "b"), ("sp", "r"), ("sv", "2012-02-12")];
    let old = service_sas(Service::Blob, "con/victim", &old).sign();
    let old = format!("{old}&rsct=text%2Fhtml");
    assert_eq!(content_type(&old), "application/octet-stream");
}

#[test]
fn no_field_of_a_sas_has_a_line_feed() {
    let server = prepared();
    // A line feed in a field would make two lines of the string to sign: the signature would then
    // also fit a SAS with another field dropped or invented.
    for name in ["sp", "se", "sip", "spr", "ses", "rscc", "rsct", "si", "st"] {
        let mut sas = service_sas(Service::Blob, "con/victim", &[("sr", "b"), ("sp", "r")]);
        sas.fields.retain(|(known, _)| *known != name);
        sas.fields.push((name, "r\nx".to_owned()));
        let refused = with_sas("GET", "/con/victim", &sas.sign()).send(&server);
        refused.is_error(403, "AuthenticationFailed", NOT_AUTHENTIC);
        let detail = refused.element("AuthenticationErrorDetail").unwrap();
        assert_eq!(detail, format!("{name} has a control character."));
    }
}

#[test]
fn a_parameter_that_is_given_twice_is_refused_where_the_values_differ() {
    let server = prepared();
    let get = |target: &str| with_sas("GET", target, &account_sas("rlt")).send(&server);
    for target in [
        "/con?restype=container&comp=list&comp=acl",
        "/con/victim?x=1&X=2",
    ] {
        let start =
            "Value for one of the query parameters specified in the request URI is invalid.";
        get(target).is_error(400, "InvalidQueryParameterValue", start);
    }
    get("/con?restype=container&comp=list&COMP=list").is(200);
    // A list may be split over several parameters.
    let both = get("/con?restype=container&comp=list&include=copy&include=metadata");
    assert!(both.is(200).text().contains("<Metadata"), "{}", both.text());
    let many = "a=1&".repeat(101);
    assert_eq!(get(&format!("/con/victim?{many}")).code(), "InvalidUri");
}

#[test]
fn creating_a_blob_with_tags_or_holds_needs_their_permissions() {
    let server = prepared();
    let create = |sas: &str, name: &str, value: &str| {
        let target = format!("/con/{name}");
        let request = put(with_sas("PUT", &target, sas)).header(name, value);
        request.send(&server)
    };
    let until = (
        "x-ms-immutability-policy-until-date",
        "Fri, 01 Jan 2038 00:00:00 GMT",
    );
    for (name, value, letter) in [
        ("x-ms-tags", "a=1", 't'),
        ("x-ms-legal-hold", "true", 'i'),
        (until.0, until.1, 'i'),
        ("x-ms-immutability-policy-mode", "Locked", 'i'),
    ] {
        for permissions in ["c", "cw", "rwdlacup"] {
            let refused = create(&account_sas(permissions), name, value);
            assert_eq!(refused.code(), "AuthorizationPermissionMismatch", "{name}");
        }
        let granted = create(&account_sas(&format!("c{letter}")), name, value);
        assert_ne!(granted.status, 403, "{name}: {}", granted.text());
    }
    let list = "/con?restype=container&comp=list&include=metadata,Tags";
    let refused = with_sas("GET", list, &account_sas("l")).send(&server);
    assert_eq!(refused.code(), "AuthorizationPermissionMismatch");
    with_sas("GET", list, &account_sas("lt"))
        .send(&server)
        .is(200);
    let asked = |sas: &str| {
        let request = with_sas("GET", "/con/victim", sas).header("x-ms-if-tags", "\"a\" = '1'");
        request.send(&server).code()
    };
    assert_eq!(asked(&account_sas("r")), "AuthorizationPermissionMismatch");
    assert_eq!(asked(&account_sas("rt")), "ConditionNotMet");
}

#[test]
fn anonymous_readers_of_a_public_container_see_its_blobs_and_nothing_else() {
    let server = prepared();
    blob("PUT", "/open?restype=container")
        .header("x-ms-blob-public-access", "container")
        .send(&server)
        .is(201);
    put(blob("PUT", "/open/b")).body("x").send(&server).is(201);
    let get = |target: &str| blob("GET", target).unsigned().send(&server).status;
    let list = "/open?restype=container&comp=list";
    assert_eq!(get(list), 200);
    assert_eq!(get(&format!("{list}&include=metadata,snapshots,copy")), 200);
    for item in [
        "tags",
        "uncommittedblobs",
        "deleted",
        "versions",
        "deletedwithversions",
    ] {
        assert_eq!(
            get(&format!("{list}&include=metadata,{item}")),
            403,
            "{item}"
        );
        assert_eq!(
            get(&format!("{list}&include=metadata&include={item}")),
            403,
            "{item}"
        );
    }
    assert_eq!(get(&format!("{list}&showonly=deleted")), 403);
    assert_eq!(get("/open/b?comp=blocklist"), 200);
    assert_eq!(get("/open/b?comp=blocklist&blocklisttype=Committed"), 200);
    for kind in ["all", "uncommitted"] {
        assert_eq!(
            get(&format!("/open/b?comp=blocklist&blocklisttype={kind}")),
            403,
            "{kind}"
        );
    }
    let asked = blob("GET", "/open/b")
        .unsigned()
        .header("x-ms-if-tags", "\"a\" = '1'");
    asked.send(&server).is(403);
}

/// A rename removes the old name of a container, so it needs permission to delete the container.
#[test]
fn a_container_is_renamed_with_permission_to_write_and_delete_it() {
    let server = Server::fresh();
    let container = |method: &str, name: &str| {
        Request::new(Service::Blob, method, &format!("/{name}?restype=container"))
    };
    container("PUT", "old").send(&server).is(201);
    Request::new(Service::Blob, "PUT", "/old/blob")
        .header("x-ms-blob-type", "BlockBlob")
        .body("body")
        .send(&server)
        .is(201);
    let target = "/new?restype=container&comp=rename";
    let rename = |sas: &str| {
        with_sas("PUT", target, sas)
            .header("x-ms-source-container-name", "old")
            .send(&server)
    };
    for letters in ["w", "d", "rlacup"] {
        assert_eq!(
            rename(&account_sas(letters)).is(403).code(),
            "AuthorizationPermissionMismatch"
        );
    }
    let named_nothing = with_sas("PUT", target, &account_sas("wd")).send(&server);
    assert_eq!(named_nothing.is(400).code(), "MissingRequiredHeader");
    rename(&account_sas("wd")).is(200);
    rename(&account_sas("wd")).is(404);
    container("GET", "old").send(&server).is(404);
    let blob = Request::new(Service::Blob, "GET", "/new/blob").send(&server);
    assert_eq!(blob.is(200).text(), "body");
}

/// Permission to create is enough for the first incremental copy to a blob. Each later one
/// overwrites the blob, so it needs permission to write.
#[test]
fn create_permission_does_not_update_an_incremental_copy() {
    let server = prepared();
    blob("PUT", "/con/pages")
        .header("x-ms-blob-type", "PageBlob")
        .header("x-ms-blob-content-length", "512")
        .send(&server)
        .is(201);
    let copy = |sas: &str| {
        let taken = blob("PUT", "/con/pages?comp=snapshot").send(&server);
        let moment = taken.header("x-ms-snapshot").unwrap().to_owned();
        let source = format!(
            "{}&{}",
            url(&server, &format!("/con/pages?snapshot={moment}")),
            account_sas("r")
        );
        with_sas("PUT", "/con/copy?comp=incrementalcopy", sas)
            .header("x-ms-copy-source", &source)
            .send(&server)
    };
    copy(&blob_sas("con", "c", "c")).is(202);
    let refused = copy(&blob_sas("con", "c", "c"));
    assert_eq!(refused.is(403).code(), "UnauthorizedBlobOverwrite");
    copy(&blob_sas("con", "c", "w")).is(202);
}

/// A copy that copies tags, or depends on them, needs permission to read tags of the source and to
/// set tags of the destination.
#[test]
fn tags_of_a_source_need_permission_to_read_tags() {
    let server = prepared();
    blob("PUT", "/con/victim?comp=tags")
        .body("<Tags><TagSet><Tag><Key>secret</Key><Value>42</Value></Tag></TagSet></Tags>")
        .send(&server)
        .is(204);
    let to = "/con/copy";
    let copy = |of_source: &str, of_copy: &str, (name, value): (&str, &str), is_copy: bool| {
        let source = format!("{}?{}", url(&server, "/con/victim"), account_sas(of_source));
        let request =
            with_sas("PUT", to, &account_sas(of_copy)).header("x-ms-copy-source", &source);
        let request = if is_copy {
            request.header("x-ms-requires-sync", "true")
        } else {
            put(request)
        };
        request.header(name, value).send(&server)
    };
    let option = ("x-ms-copy-source-tag-option", "COPY");
    let condition = ("x-ms-source-if-tags", "secret='42'");
    for is_copy in [true, false] {
        for header in [option, condition] {
            let refused = copy("r", "wt", header, is_copy);
            assert_eq!(refused.is(403).code(), "CannotVerifyCopySource");
        }
        let refused = copy("rt", "w", option, is_copy);
        assert_eq!(refused.is(403).code(), "AuthorizationPermissionMismatch");
        let copied = if is_copy { 202 } else { 201 };
        copy("rt", "wt", option, is_copy).is(copied);
        copy("rt", "w", condition, is_copy).is(copied);
    }
    // A public container does not show tags either.
    blob("PUT", "/con?restype=container&comp=acl")
        .header("x-ms-blob-public-access", "container")
        .send(&server)
        .is(200);
    let open = |header: Option<(&str, &str)>| {
        let request = with_sas("PUT", to, &account_sas("wt"))
            .header("x-ms-copy-source", &url(&server, "/con/victim"))
            .header("x-ms-requires-sync", "true");
        let request = header.map_or(request.clone(), |(name, value)| request.header(name, value));
        request.send(&server)
    };
    open(None).is(202);
    for header in [option, condition] {
        assert_eq!(open(Some(header)).code(), "CannotVerifyCopySource");
    }
}

/// A write in a batch is refused if it would be refused alone.
#[test]
fn a_batch_writes_nothing_through_the_secondary_location() {
    let server = prepared();
    let batch = |location: &str| {
        let part = format!(
            "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nDELETE /{location}/con/victim?{} HTTP/1.1\r\n\
             Content-Length: 0\r\n\r\n--b--\r\n",
            account_sas("d")
        );
        let sent = blob("POST", "/?comp=batch")
            .header("Content-Type", "multipart/mixed; boundary=b")
            .body(part)
            .send(&server);
        sent.is(202).text()
    };
    let answer = batch(&format!("{ACCOUNT}-secondary"));
    assert!(answer.contains("403"), "{answer}");
    blob("HEAD", "/con/victim").send(&server).is(200);
    let answer = batch(ACCOUNT);
    assert!(answer.contains("202"), "{answer}");
}
