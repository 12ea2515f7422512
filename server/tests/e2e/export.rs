//! `lazurite export` and `lazurite import`: a round trip is byte-equal, and untrusted directories
//! do no harm.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Request, Response};
use crate::server::{Server, Service};
use crate::test_clock::{lazurite, page};

fn request(service: Service, method: &str, target: &str) -> Request {
    Request::new(service, method, target).header("Accept", "application/json, application/xml")
}

fn put(server: &Server, name: &str, kind: &str, headers: &[(&str, &str)], body: &[u8]) {
    let put = request(Service::Blob, "PUT", &format!("/photos/{name}"));
    let put = put.header("x-ms-blob-type", kind);
    let put = headers
        .iter()
        .fold(put, |put, (name, value)| put.header(name, value));
    put.body(body).send(server).is(201);
}

pub(crate) fn ok(server: &Server, words: &[&str]) -> String {
    let (succeeded, text) = lazurite(server, words, None);
    assert!(succeeded, "{words:?}: {text}");
    text
}

pub(crate) fn refused(server: &Server, words: &[&str]) -> String {
    let (succeeded, text) = lazurite(server, words, None);
    assert!(!succeeded, "{words:?}: {text}");
    text
}

/// All files in a directory, by relative path, with their contents.
pub(crate) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

pub(crate) fn fill(server: &Server) {
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>readers</Id><AccessPolicy><Start>2026-01-01T00:00:00.0000000Z</Start>\
                    <Expiry>2030-01-01T00:00:00.0000000Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    let container = request(Service::Blob, "PUT", "/photos?restype=container");
    let container = container
        .header("x-ms-meta-Owner", "anna")
        .header("x-ms-blob-public-access", "blob");
    container.send(server).is(201);
    let acl = request(Service::Blob, "PUT", "/photos?restype=container&comp=acl");
    acl.header("x-ms-blob-public-access", "blob")
        .body(policies)
        .send(server)
        .is(200);
    request(Service::Blob, "PUT", "/empty?restype=container")
        .send(server)
        .is(201);
    put_blobs(server);

    let queue = request(Service::Queue, "PUT", "/work").header("x-ms-meta-Kind", "jobs");
    queue.send(server).is(201);
    for number in 0..100 {
        let message =
            format!("<QueueMessage><MessageText>m {number} &lt;&amp;</MessageText></QueueMessage>");
        let ttl = if number % 2 == 0 { "-1" } else { "5000" };
        let send = request(
            Service::Queue,
            "POST",
            &format!("/work/messages?messagettl={ttl}"),
        );
        send.body(message).send(server).is(201);
    }
    // Hides a message, which the export must have too.
    request(Service::Queue, "GET", "/work/messages?numofmessages=1")
        .send(server)
        .is(200);

    let table = json!({ "TableName": "Customers" }).to_string();
    request(Service::Table, "POST", "/Tables")
        .json(table)
        .send(server)
        .is(201);
    for number in 0..250 {
        let entity = json!({
            "PartitionKey": format!("p'{}", number % 2), "RowKey": format!("{number:04} é%&'"), "Text": "a\"b", "Int": number,
            "Long": "9223372036854775807", "Long@odata.type": "Edm.Int64", "Double": 0.1, "Whole": 1.0, "Flag": true,
            "Infinite": "Infinity", "Infinite@odata.type": "Edm.Double",
            "Time": "2026-01-31T12:00:00.1234567Z", "Time@odata.type": "Edm.DateTime",
            "Id": "c9da6455-213d-42c9-9a79-3e9149a57833", "Id@odata.type": "Edm.Guid",
            "Bytes": "AAEC", "Bytes@odata.type": "Edm.Binary",
        });
        let insert = request(Service::Table, "POST", "/Customers").json(entity.to_string());
        insert.send(server).is(201);
    }
    let cors = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a.example</AllowedOrigins><AllowedMethods>GET</AllowedMethods>\
                <AllowedHeaders>x</AllowedHeaders><ExposedHeaders>y</ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors>\
                </StorageServiceProperties>";
    let properties = request(Service::Blob, "PUT", "/?restype=service&comp=properties");
    properties.body(cors).send(server).is(202);
}

fn put_blobs(server: &Server) {
    let all = [
        ("x-ms-meta-Place", "lake"),
        ("x-ms-tags", "year=2026&kind=a%20b"),
        ("x-ms-blob-content-type", "image/jpeg"),
        ("x-ms-blob-cache-control", "no-cache"),
        ("x-ms-access-tier", "Cool"),
    ];
    put(server, "2026/lake.jpg", "BlockBlob", &all, b"content");
    put(
        server,
        "2026",
        "BlockBlob",
        &[],
        b"a blob with the name of a directory",
    );
    put(server, "UPPER", "BlockBlob", &[], b"1");
    put(server, "upper", "BlockBlob", &[], b"2");
    put(server, "a%3Ab%3F%20", "BlockBlob", &[], b"escaped");
    put(server, "empty", "BlockBlob", &[], b"");
    // Written in blocks, the blob has no MD5.
    let block = request(
        Service::Blob,
        "PUT",
        "/photos/blocks?comp=block&blockid=QQ==",
    )
    .body(vec![7; 100_000]);
    block.send(server).is(201);
    let list = "<BlockList><Latest>QQ==</Latest></BlockList>";
    request(Service::Blob, "PUT", "/photos/blocks?comp=blocklist")
        .body(list)
        .send(server)
        .is(201);
    put(server, "log", "AppendBlob", &[], b"");
    request(Service::Blob, "PUT", "/photos/log?comp=appendblock")
        .body("line\n")
        .send(server)
        .is(201);
    request(Service::Blob, "PUT", "/photos/log?comp=seal")
        .send(server)
        .is(200);
    let page = [
        ("x-ms-blob-content-length", "10485760"),
        ("x-ms-blob-sequence-number", "7"),
    ];
    put(server, "disk", "PageBlob", &page, b"");
    let range =
        request(Service::Blob, "PUT", "/photos/disk?comp=page").header("x-ms-page-write", "update");
    let range = range
        .header("x-ms-range", "bytes=5242880-5243391")
        .body(vec![9; 512]);
    range.send(server).is(201);
}

fn get(server: &Server, service: Service, target: &str) -> Response {
    request(service, "GET", target).send(server)
}

#[test]
fn export_import_and_export_again_are_byte_equal() {
    let scratch = TempDir::new().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let server = Server::fresh();
    fill(&server);
    let text = ok(&server, &["export", &path("first")]);
    assert!(
        text.contains(
            "first: 2 containers, 1 queue, 1 table, 9 blobs (10.6 MB), 100 messages, 250 entities"
        ),
        "{text}"
    );
    let first = files(Path::new(&path("first")));
    assert_eq!(
        first["blobs/photos/2026"],
        b"a blob with the name of a directory"
    );
    let line = first["tables/Customers.entities.jsonl"]
        .split(|byte| *byte == b'\n')
        .next();
    let entity: Value = serde_json::from_slice(line.unwrap()).unwrap();
    assert_eq!(entity["Long@odata.type"], "Edm.Int64");
    ok(&server, &["export", &path("first.tar.zst")]);
    assert!(refused(&server, &["export", &path("first")]).contains("exists already"));
    assert!(refused(&server, &["export", &path("first.zip")]).contains("ends with .tar.zst"));

    for source in ["first", "first.tar.zst"] {
        let other = Server::fresh();
        ok(&other, &["import", &path(source)]);
        let again = path(&format!("again-{source}-d"));
        ok(&other, &["export", &again]);
        let again = files(Path::new(&again));
        assert_eq!(
            again.keys().collect::<Vec<_>>(),
            first.keys().collect::<Vec<_>>()
        );
        for (name, bytes) in &first {
            assert!(again[name] == *bytes, "{source}: {name} differs");
        }
        let tags = get(&other, Service::Blob, "/photos/2026/lake.jpg?comp=tags").text();
        assert!(tags.contains("<Value>a b</Value>"), "{tags}");
        let ranges = get(&other, Service::Blob, "/photos/disk?comp=pagelist").text();
        assert!(
            ranges.contains("<Start>5242880</Start><End>5243391</End>"),
            "{ranges}"
        );
    }
    // The export must leave no intermediate files.
    let left = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_str().unwrap().starts_with(".lazurite"))
    );
}

#[test]
fn md5_of_another_length_that_a_client_has_set_comes_back() {
    let scratch = TempDir::new().unwrap();
    let export = scratch.path().join("export");
    let export = export.to_str().unwrap();
    let server = Server::fresh();
    let container = request(Service::Blob, "PUT", "/photos?restype=container");
    container.send(&server).is(201);
    put(&server, "blob", "BlockBlob", &[], b"content");
    let properties = request(Service::Blob, "PUT", "/photos/blob?comp=properties");
    properties
        .header("x-ms-blob-content-md5", "AAEC")
        .header("x-ms-blob-content-type", "text/plain")
        .send(&server)
        .is(200);
    ok(&server, &["export", export]);
    let other = Server::fresh();
    ok(&other, &["import", export]);
    let blob = get(&other, Service::Blob, "/photos/blob");
    blob.is(200)
        .has_header("content-md5", "AAEC")
        .has_header("content-type", "text/plain");
    assert_eq!(blob.text(), "content");
}

/// Blobs of all types whose Content-MD5 has three bytes, and which have no content type.
pub(crate) fn put_odd_properties(server: &Server) {
    let container = request(Service::Blob, "PUT", "/photos?restype=container");
    container.send(server).is(201);
    put(server, "block", "BlockBlob", &[], b"content");
    put(server, "long", "BlockBlob", &[], &vec![7; 5 << 20]);
    put(server, "log", "AppendBlob", &[], b"");
    let line = request(Service::Blob, "PUT", "/photos/log?comp=appendblock");
    line.body("line\n").send(server).is(201);
    let length = [("x-ms-blob-content-length", "1024")];
    put(server, "disk", "PageBlob", &length, b"");
    for name in ["block", "long", "log", "disk"] {
        let target = format!("/photos/{name}?comp=properties");
        let properties = request(Service::Blob, "PUT", &target);
        let properties = properties
            .header("x-ms-blob-content-md5", "AAEC")
            .header("x-ms-blob-cache-control", "no-cache");
        properties.send(server).is(200);
    }
}

#[test]
fn export_says_how_many_blobs_lose_their_protection() {
    let server = Server::fresh();
    let container = request(Service::Blob, "PUT", "/photos?restype=container");
    container.send(&server).is(201);
    put(&server, "free", "BlockBlob", &[], b"x");
    let place = TempDir::new().unwrap();
    let export = |name: &str| {
        ok(
            &server,
            &["export", place.path().join(name).to_str().unwrap()],
        )
    };
    let said = "exported without immutability policies and legal holds";
    assert!(!export("before").contains(said));
    put(
        &server,
        "held",
        "BlockBlob",
        &[("x-ms-legal-hold", "true")],
        b"x",
    );
    let text = export("after");
    assert!(text.contains(&format!("{said}: 1 blobs")), "{text}");
}

#[test]
fn blobs_without_a_content_type_have_none_after_an_import() {
    let scratch = TempDir::new().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let server = Server::fresh();
    put_odd_properties(&server);
    ok(&server, &["export", &path("first")]);
    let other = Server::fresh();
    ok(&other, &["import", &path("first")]);
    ok(&other, &["export", &path("again")]);
    assert!(files(Path::new(&path("first"))) == files(Path::new(&path("again"))));
    let blob = get(&other, Service::Blob, "/photos/block");
    assert!(blob.is(200).header("content-type").is_none());
}

#[test]
fn import_that_broke_off_before_policies_sets_them_when_it_is_repeated() {
    let scratch = TempDir::new().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let server = Server::fresh();
    fill(&server);
    ok(&server, &["export", &path("first")]);
    let other = Server::fresh();
    let rule = json!({"operation": "SetContainerAcl", "count": 1, "fault": "reset"});
    let faults = page("PUT", "faults").body(json!({ "rules": [rule] }).to_string());
    faults.send(&other).is(200);
    refused(&other, &["import", &path("first")]);
    ok(&other, &["import", &path("first"), "--existing", "replace"]);
    ok(&other, &["export", &path("again")]);
    assert!(files(Path::new(&path("first"))) == files(Path::new(&path("again"))));

    // The policies of an existing container are kept.
    let acl = "/photos?restype=container&comp=acl";
    let set = request(Service::Blob, "PUT", acl).body(
        "<SignedIdentifiers><SignedIdentifier><Id>mine</Id></SignedIdentifier></SignedIdentifiers>",
    );
    set.send(&other).is(200);
    ok(&other, &["import", &path("first"), "--existing", "replace"]);
    let policies = get(&other, Service::Blob, acl).text();
    assert!(
        policies.contains(">mine<") && !policies.contains(">readers<"),
        "{policies}"
    );
}

#[test]
fn import_says_what_it_does_with_what_exists() {
    let scratch = TempDir::new().unwrap();
    let export = scratch.path().join("export");
    let export = export.to_str().unwrap();
    let server = Server::fresh();
    fill(&server);
    ok(&server, &["export", export]);
    put(&server, "2026/lake.jpg", "BlockBlob", &[], b"changed");
    put(&server, "mine", "BlockBlob", &[], b"mine");
    let lake = || get(&server, Service::Blob, "/photos/2026/lake.jpg").text();
    let text = refused(&server, &["import", export]);
    assert!(
        text.contains("container photos is there") && text.contains("Nothing was imported"),
        "{text}"
    );
    assert_eq!(lake(), "changed");
    let text = ok(&server, &["import", export, "--existing", "skip"]);
    assert!(
        text.contains("container photos is there: left as it is"),
        "{text}"
    );
    assert_eq!(lake(), "changed");
    let text = ok(&server, &["import", export, "--existing", "replace"]);
    assert!(
        text.contains("queue work is there: its messages are deleted first"),
        "{text}"
    );
    assert_eq!(lake(), "content");
    get(&server, Service::Blob, "/photos/mine").is(200);
    let count = get(&server, Service::Queue, "/work?comp=metadata");
    count
        .is(200)
        .has_header("x-ms-approximate-messages-count", "100");
}

#[test]
fn directory_that_a_person_has_written_is_imported() {
    let scratch = TempDir::new().unwrap();
    let root = scratch.path().join("seed");
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("blobs/photos/2026/index.html", "<p>");
    write(
        "queues/work.messages.jsonl",
        "{\"text\":\"one\"}\n\n{\"text\":\"two\",\"ttlSeconds\":60}\n",
    );
    write(
        "tables/Tab.entities.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"N\":1}\n",
    );
    let server = Server::fresh();
    let text = ok(&server, &["import", root.to_str().unwrap()]);
    let counts = "seed: 1 container, 1 queue, 1 table, 1 blob (3 B), 2 messages, 1 entity";
    assert!(text.contains(counts), "{text}");
    let blob = get(&server, Service::Blob, "/photos/2026/index.html");
    blob.is(200).has_header("content-type", "text/html");
    assert_eq!(
        get(&server, Service::Table, "/Tab(PartitionKey='p',RowKey='r')").json()["N"],
        1
    );
    let peek = get(
        &server,
        Service::Queue,
        "/work/messages?peekonly=true&numofmessages=32",
    )
    .text();
    assert!(peek.contains(">one<") && peek.contains(">two<"), "{peek}");
}

#[test]
fn toml_file_is_imported_into_a_running_server() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("seed.toml");
    let declared = "[containers.photos]\naccess = \"blob\"\n[queues.work]\n[tables.Tab]\n";
    fs::write(&path, declared).unwrap();
    let server = Server::fresh();
    let import = || ok(&server, &["import", path.to_str().unwrap()]);
    let text = import();
    assert!(
        text.contains("seed.toml: 1 container, 1 queue, 1 table, 0 blobs"),
        "{text}"
    );
    let container = get(&server, Service::Blob, "/photos?restype=container");
    container
        .is(200)
        .has_header("x-ms-blob-public-access", "blob");
    // Existing resources may be imported again if they are empty.
    import();
    fs::write(&path, "[queues.work]\n[queues.q1]\n").unwrap();
    let text = refused(&server, &["import", path.to_str().unwrap()]);
    assert!(
        text.contains("seed.toml: line 2: the name of a queue"),
        "{text}"
    );
}

#[test]
fn hostile_directories_are_refused_with_the_place() {
    const BLOBS: &str = "blobs/con.blobs.jsonl";
    const CONTAINER: &str = "blobs/con.json";
    const MESSAGES: &str = "queues/work.messages.jsonl";
    const ENTITIES: &str = "tables/Tab.entities.jsonl";
    let good = "queues/first.messages.jsonl";
    let long = "x".repeat(65_537);
    let long_message = format!("{{\"text\":\"{long}\"}}");
    let large_entity = (0..20).fold(String::new(), |fields, number| {
        format!("{fields},\"P{number}\":\"{}\"", &long[..30_000])
    });
    let large_entity = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\"{large_entity}}}");
    #[rustfmt::skip]
    let rows = [
        (BLOBS, r#"{"name":"a","file":"../../secret"}"#, "line 1"),
        (BLOBS, r#"{"name":"a","file":"/etc/hostname"}"#, "missing"),
        (BLOBS, "\n{", "line 2"),
        (BLOBS, r#"{"name":"missing"}"#, "missing"),
        (BLOBS, r#"{"name":"a","type":"tape","file":"../con.json"}"#, "leads out"),
        (CONTAINER, "{\"metadata\":{\"a\":\"b\\r\\nx-ms-lease-id: c\"}}", "control character"),
        (CONTAINER, r#"{"policies":[{"id":1}]}"#, "id: 1 is no text"),
        (CONTAINER, r#"{"policies":[{"id":"a","permission":"rz"}]}"#,
         "con.json: policies: A stored access policy has a permission that the service does not know"),
        (CONTAINER, r#"{"policies":[{"id":"a","start":"tomorrow"}]}"#,
         "policies: a time is not one of ISO 8601"),
        (CONTAINER, r#"{"publicAccess":"all"}"#,
         r#"publicAccess: "all" is neither blob nor container"#),
        (CONTAINER, r#"{"public-access":"blob"}"#,
         "con.json: public-access: it is none of the fields metadata, policies, publicAccess"),
        ("queues/work.json", r#"{"metadata":{"a-b":"c"}}"#,
         "work.json: metadata: The metadata specified is invalid"),
        ("tables/Tab.json", r#"{"metadata":{}}"#,
         "Tab.json: metadata: it is none of the fields policies"),
        (BLOBS, r#"{"name":"odd","contenttype":"text/plain"}"#,
         "con.blobs.jsonl, line 1: contenttype: it is none of the fields name"),
        (BLOBS, r#"{"name":"odd","tier":"Lukewarm"}"#, r#"tier: there is no tier "Lukewarm""#),
        (BLOBS, r#"{"name":"odd","tier":"P10"}"#, "tier: a blob of this type cannot have"),
        (BLOBS, r#"{"name":"odd","tags":{"a":"b?"}}"#, "line 1: blobs/con/odd: tags: "),
        (BLOBS, r#"{"name":"odd","expires":"2030-01-01"}"#,
         r#"expires: "2030-01-01" is no time of HTTP"#),
        (BLOBS, r#"{"name":"odd","sealed":"true"}"#, "sealed: only an append blob can be"),
        (BLOBS, r#"{"name":"odd","type":"page","sequenceNumber":"-1"}"#,
         r#"sequenceNumber: "-1" is no such number"#),
        (BLOBS, r#"{"name":"odd","contentMD5":"%"}"#, r#"contentMD5: "%" is not base64"#),
        ("services/queue.xml", "<StorageServiceProperties><StaticWebsite/></StorageServiceProperties>",
         "services/queue.xml: "),
        ("services/table.xml", "{}", "services/table.xml: "),
        (MESSAGES, r#"{"text":"a","ttl":5}"#,
         "line 1: ttl: it is none of the fields text, ttlSeconds"),
        ("blobs/UPPER/a", "x", "blobs/UPPER"),
        (MESSAGES, r#"{"ttlSeconds":5}"#, "line 1: text: every message"),
        ("queues/work.txt", "", "no part of the layout"),
        ("table/Tab.json", "{}", "table: it is no part of the layout"),
        ("Tab.entities.jsonl", "", "no part of the layout"),
        ("services/blobs.xml", "", "no part of the layout"),
        (ENTITIES, r#"{"PartitionKey":"p"}"#, "line 1: RowKey"),
        (ENTITIES, r#"{"PartitionKey":"p","RowKey":"r","N":{}}"#,
         "line 1: One of the request inputs is not valid"),
        (ENTITIES, r#"{"PartitionKey":"p/q","RowKey":"r"}"#, "line 1: Bad Request"),
        (ENTITIES, r#"{"PartitionKey":"p","RowKey":"r","1":2}"#,
         "line 1: The property name is invalid"),
        (ENTITIES, &large_entity, "line 1: The entity is larger"),
        (MESSAGES, &long_message, "line 1: text: it has more than 65536 bytes"),
        (MESSAGES, r#"{"text":"a","ttlSeconds":60,"hiddenSeconds":60}"#,
         "hiddenSeconds: The visibility timeout must be less than the time to live"),
        (MESSAGES, r#"{"text":"a","hiddenSeconds":604801}"#, "hiddenSeconds: it is out of range"),
        (MESSAGES, "{\"text\":\"a\\u0001b\"}",
         "line 1: text: XML, which holds messages, has no '\\u{1}'"),
        (ENTITIES, "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}",
         "line 2: line 1 has the same keys"),
        (ENTITIES,
         "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n\n{\"PartitionKey\":\"o\",\"RowKey\":\"r\"}\n\
             {\"PartitionKey\":\"p\",\"RowKey\":\"s\"}\n{\"RowKey\":\"r\",\"PartitionKey\":\"\\u0070\"}",
         "Tab.entities.jsonl, line 5: line 1 has the same keys"),
        (BLOBS, "{\"name\":\"b\",\"file\":\"odd\"}\n{\"name\":\"a\",\"file\":\"odd\"}\n{\"name\":\"b\",\"file\":\"odd\"}",
         r#"con.blobs.jsonl, line 3: name: an earlier line has "b" too"#),
        ("blobs/con/o%64d", "x",
         r#"blobs/con/odd: no line of blobs/con.blobs.jsonl names it, and another blob has its name, "odd""#),
        (MESSAGES, r#"{"text":"a","dequeueCount":-1}"#, "dequeueCount: it is out of range"),
        (BLOBS, r#"{"name":"a/../b","file":"odd"}"#, "cannot be a blob's"),
        (BLOBS, r#"{"name":"pages","type":"page","file":"odd"}"#, "multiple of 512"),
        ("blobs/$logs/a", "x", "the service makes it itself"),
        ("lazurite-export.json", r#"{"format":99}"#, "its format is 99"),
    ];
    for (path, text, reason) in rows {
        let scratch = TempDir::new().unwrap();
        fs::write(scratch.path().join("secret"), "s").unwrap();
        let root = scratch.path().join("hostile");
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        fs::create_dir_all(root.join("queues")).unwrap();
        fs::write(root.join(good), "{\"text\":\"one\"}\n").unwrap();
        fs::create_dir_all(root.join("blobs/con")).unwrap();
        fs::write(root.join("blobs/con/odd"), "12345").unwrap();
        let server = Server::fresh();
        let text = refused(&server, &["import", root.to_str().unwrap()]);
        assert!(text.contains(reason), "{path}: {text}");
        // Refused before any resource is created.
        let is_loaded = get(&server, Service::Queue, "/first?comp=metadata").status == 200;
        assert!(!is_loaded, "{path}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn files_of_one_table_whose_names_differ_in_case_are_refused() {
    let scratch = TempDir::new().unwrap();
    let tables = scratch.path().join("tables");
    fs::create_dir(&tables).unwrap();
    fs::write(tables.join("Tab.json"), "{}").unwrap();
    fs::write(tables.join("tab.entities.jsonl"), "").unwrap();
    let server = Server::fresh();
    let text = refused(&server, &["import", scratch.path().to_str().unwrap()]);
    assert!(
        text.contains("tables/tab: it is the same table as Tab"),
        "{text}"
    );
}
