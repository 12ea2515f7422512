//! Each row of the Blob service's error table once, under its code: the request that causes it, its
//! status and its message. Source: Blob service error codes; Common REST API error codes; Shared
//! access signature error codes.
//!
//! Checked by other tests, because they need another server: `NoAuthenticationInformation`,
//! `BlobUsesCustomerSpecifiedEncryption`, `BlobDoesNotUseCustomerSpecifiedEncryption` and
//! `BlobCustomerSpecifiedEncryptionMismatch` (HTTPS: `clients/secure.py`), `CopyIdMismatch` and
//! `PendingCopyOperation` (a copy from another server: `clients/foreign.py`),
//! `BlockCountExceedsLimit` (fifty thousand appends: the service's own tests),
//! `HostInformationNotPresent` (`crate::errors`), `PublicAccessNotPermitted` (`--no-public-access`:
//! `crate::exposed`), `ContainerBeingDeleted` and `ServerBusy` (`--as-azure`: `crate::targets`),
//! `OperationTimedOut` (`--request-timeout`: `crate::limits`).
//!
//! Not answered, because nothing here causes them:
//! - actions of an administrator: `AccountIsDisabled`, `ContainerDisabled`,
//!   `BlobAccessTierNotSupportedForAccountType`;
//! - limits of the hosted service: `SnapshotOperationRateExceeded`, `SystemInUse`,
//!   `SnapshotCountExceeded` (snapshots are not counted);
//! - answers of a failing store: `InternalError`;
//! - answers of versions before 2012: `LeaseAlreadyBroken`, `CopyAcrossAccountsNotSupported`;
//! - hierarchical accounts: `DirectoryIsNotEmpty`, `OperationNotSupportedOnDirectory`,
//!   `ResourceTypeMismatch`; and managed disks: `PreviousSnapshotOperationNotSupported`;
//! - codes for which there is a more exact one: `ResourceAlreadyExists`, `TargetConditionNotMet` (`ConditionNotMet`),
//!   `InvalidSourceBlobUrl` (`InvalidHeaderValue`), `RequestUrlFailedToParse` (`InvalidUri`),
//!   `InvalidBlockId` (`InvalidQueryParameterValue`, which names `blockid`), `BlobNotArchived`.

use super::{INVALID_PARAMETER, UNMET, account_sas, put_blob, put_block, request, with_container};
use crate::errors::{Row, check};
use crate::http::Request;
use crate::server::{ACCOUNT, Server, Service};

const HEADER: &str = "The value for one of the HTTP headers is not in the correct format.";
const LEASE: &str = "11111111-1111-1111-1111-111111111111";
const OTHER_LEASE: &str = "22222222-2222-2222-2222-222222222222";

fn put_page_blob(name: &str) -> Request {
    request("PUT", &format!("/con/{name}")).header("x-ms-blob-type", "PageBlob")
}

/// A request that creates an empty blob of a type; a page blob has two pages.
fn make(name: &str, blob_type: &str) -> Request {
    let request = request("PUT", &format!("/con/{name}")).header("x-ms-blob-type", blob_type);
    match blob_type {
        "PageBlob" => request.header("x-ms-blob-content-length", "1024"),
        _ => request,
    }
}

fn made(server: &Server, blobs: &[(&str, &str)]) {
    for (name, blob_type) in blobs {
        make(name, blob_type).send(server).is(201);
    }
}

/// A request with `comp` and further parameters for a blob.
fn part(method: &str, name: &str, comp: &str) -> Request {
    request(method, &format!("/con/{name}?comp={comp}"))
}

fn list(parameters: &str) -> Request {
    request(
        "GET",
        &format!("/con?restype=container&comp=list{parameters}"),
    )
}

#[test]
fn each_row_about_requests_as_such() {
    let server = with_container();
    put_blob("b", "content").send(&server).is(201);
    let ten_kilobytes = "x".repeat(8 << 10);
    #[rustfmt::skip]
    let rows: Vec<Row> = vec![
        ("ConditionHeadersNotSupported", 400, "Condition headers are not supported.",
         request("DELETE", "/con?restype=container").header("If-Match", "\"0x1\"")),
        ("ConditionNotMet", 412, UNMET, part("PUT", "b", "metadata").header("If-Match", "\"0x1\"")),
        ("CorsPreflightFailure", 403, "CORS not enabled or no matching rule found for this request.",
         request("OPTIONS", "/con/b")
             .header("Origin", "http://a")
             .header("Access-Control-Request-Method", "GET")),
        ("EmptyMetadataKey", 400, "The key for one of the metadata key-value pairs is empty.",
         put_blob("n", "").header("x-ms-meta-", "1")),
        ("InvalidHeaderValue", 400, HEADER,
         put_blob("n", "").header("If-Modified-Since", "yesterday")),
        ("InvalidHttpVerb", 400, "The HTTP verb specified was not recognized by the server.",
         request("FETCH", "/con/b")),
        ("InvalidInput", 400, "One of the request inputs is not valid.",
         request("POST", "/?comp=batch")
             .header("Content-Type", "multipart/mixed; boundary=b")
             .body("nothing")),
        ("InvalidMd5", 400, "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded.",
         put_blob("n", "").header("Content-MD5", "AAAA")),
        ("InvalidMetadata", 400, "The metadata specified is invalid. It has characters that are not permitted.",
         put_blob("n", "").header("x-ms-meta-a-b", "1")),
        ("InvalidQueryParameterValue", 400, INVALID_PARAMETER, part("GET", "b", "nonsense")),
        ("InvalidUri", 400, "The requested URI does not represent any resource on the server.",
         request("PUT", "/$root/a/b").header("x-ms-blob-type", "BlockBlob")),
        ("MissingContentLengthHeader", 411, "The Content-Length header was not specified.",
         put_blob("n", "").without("Content-Length")),
        ("InvalidRange", 416, "The range specified is invalid for the current size of the resource.",
         request("GET", "/con/b").header("Range", "bytes=7-")),
        ("InvalidResourceName", 400, "The specified resource name contains invalid characters.",
         request("PUT", "/My_Container?restype=container")),
        ("InvalidUri", 400, "The requested URI does not represent any resource on the server.",
         request("GET", "/con/%ff")),
        ("InvalidXmlDocument", 400, "XML specified is not syntactically valid.",
         part("PUT", "b", "blocklist").body("<BlockList>")),
        ("InvalidXmlNodeValue", 400, "The value for one of the XML nodes is not in the correct format.",
         properties("<DeleteRetentionPolicy><Enabled>perhaps</Enabled></DeleteRetentionPolicy>")),
        ("Md5Mismatch", 400, "The MD5 value specified in the request did not match with the MD5 value calculated by the server.",
         put_blob("n", "x").header("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")),
        ("MetadataTooLarge", 400, "The metadata specified exceeds the maximum permissible limit (8KB).",
         put_blob("n", "").header("x-ms-meta-a", &ten_kilobytes)),
        ("MissingRequiredHeader", 400, "An HTTP header that's mandatory for this request is not specified.",
         request("PUT", "/con/n")),
        ("MissingRequiredQueryParameter", 400, "A query parameter that's mandatory for this request is not specified.",
         part("PUT", "b", "block").body("x")),
        ("MissingRequiredXmlNode", 400, "A required XML node was not specified in the request body.",
         properties("<DeleteRetentionPolicy><Days>1</Days></DeleteRetentionPolicy>")),
        ("MultipleConditionHeadersNotSupported", 400, "Multiple condition headers are not supported.",
         put_blob("b", "").header("If-Match", "\"0x1\", \"0x2\"")),
        ("MultipleConditionHeadersNotSupported", 400, "Multiple condition headers are not supported.",
         put_blob("b", "").header("If-Match", "*").header("If-Match", "\"0x2\"")),
        ("UnsupportedHeader", 400, "One of the HTTP headers specified in the request is not supported.",
         put_blob("b", "").header("x-ms-range", "bytes=0-511")),
        (
            "UnsupportedQueryParameter",
            400,
            "One of the query parameters specified in the request URI is not supported.",
            // A block sent without `comp=block` must not replace the whole blob.
            request("PUT", "/con/b?blockid=QUFB").header("x-ms-blob-type", "BlockBlob"),
        ),
        ("OutOfRangeInput", 400, "The specified resource name length is not within the permissible limits.",
         request("GET", "/ab?restype=container")),
        ("OutOfRangeQueryParameterValue", 400, "One of the query parameters specified in the request URI is outside the permissible range.",
         list("&maxresults=0")),
        ("RequestBodyTooLarge", 413, "The request body is too large and exceeds the maximum permissible limit.",
         properties(&" ".repeat(5 << 20))),
        ("ResourceNotFound", 404, "The specified resource does not exist.",
         request("GET", "/con/b").unsigned()),
        ("UnsatisfiableCondition", 400, "The request includes an unsatisfiable condition for this operation.",
         request("GET", "/con/b").header("If-None-Match", "*")),
        ("UnsupportedHttpVerb", 405, "The resource doesn't support the specified HTTP verb.",
         request("POST", "/con/b")),
        ("UnsupportedXmlNode", 400, "One of the XML nodes specified in the request body is not supported.",
         properties("<Nonsense/>")),
    ];
    check(&server, rows);
    let unchanged = request("GET", "/con/b")
        .header("If-None-Match", "\"0x1\"")
        .send(&server);
    let etag = unchanged.is(200).header("ETag").unwrap();
    request("GET", "/con/b")
        .header("If-None-Match", etag)
        .send(&server)
        .is(304)
        .has_header("x-ms-error-code", "ConditionNotMet");
}

fn properties(inner: &str) -> Request {
    let document = format!("<StorageServiceProperties>{inner}</StorageServiceProperties>");
    request("PUT", "/?restype=service&comp=properties").body(document)
}

#[test]
fn each_row_about_credentials() {
    let server = with_container();
    put_blob("b", "content").send(&server).is(201);
    let here = "127.0.0.1-127.0.0.1";
    let all = ("rwdlac", "b", "sco", here, "https,http");
    let with = |(permissions, services, types, address, protocol)| {
        account_sas(permissions, services, types, address, protocol)
    };
    let get = |sas: String| request("GET", &format!("/con/b?{sas}")).unsigned();
    get(with(all)).send(&server).is(200);
    let start = "This request is not authorized to perform this operation";
    let (permissions, services, types, address, protocol) = all;
    #[rustfmt::skip]
    let rows = vec![
        (
            "AuthenticationFailed",
            403,
            "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly",
            request("GET", "/con/b")
                .header("Authorization", &format!("SharedKey {ACCOUNT}:AAAA")),
        ),
        ("AuthorizationFailure", 403, start,
         request("GET", &format!("/con?restype=container&comp=acl&{}", with(all))).unsigned()),
        ("AuthorizationPermissionMismatch", 403, start,
         get(with(("wdlac", services, types, address, protocol)))),
        ("AuthorizationProtocolMismatch", 403, start,
         get(with((permissions, services, types, address, "https")))),
        ("AuthorizationSourceIPMismatch", 403, start,
         get(with((permissions, services, types, "10.1.2.3", protocol)))),
        ("AuthorizationServiceMismatch", 403, start,
         get(with((permissions, "q", types, address, protocol)))),
        ("AuthorizationResourceTypeMismatch", 403, start,
         get(with((permissions, services, "sc", address, protocol)))),
        (
            "InvalidAuthenticationInfo",
            400,
            "Authentication information is not given in the correct format. Check the value of Authorization header.",
            request("GET", "/con/b").header("Authorization", "nonsense"),
        ),
        ("InsufficientAccountPermissions", 403, "Write operations are not allowed.",
         Request::exactly(
             Service::Blob,
             "DELETE",
             &format!("/{ACCOUNT}-secondary/con/b?{}", with(all)),
         )
         .unsigned()),
        ("UnauthorizedBlobOverwrite", 403, "This request is not authorized to perform blob overwrites.",
         request(
             "PUT",
             &format!("/con/b?{}", with(("c", services, types, address, protocol))),
         )
         .header("x-ms-blob-type", "BlockBlob")
         .unsigned()),
    ];
    check(&server, rows);
}

#[test]
fn each_row_about_containers_and_blobs() {
    let server = with_container();
    made(
        &server,
        &[
            ("a", "AppendBlob"),
            ("p", "PageBlob"),
            ("b", "BlockBlob"),
            ("s", "BlockBlob"),
        ],
    );
    part("PUT", "s", "snapshot").send(&server).is(201);
    let snapshot = part("PUT", "b", "snapshot").send(&server);
    let snapshot = snapshot.header("x-ms-snapshot").unwrap().to_string();
    put_block(&server, "b", "QUFB", "x").is(201);
    part("PUT", "a", "appendblock")
        .body("12345")
        .send(&server)
        .is(201);
    make("sealed", "AppendBlob").send(&server).is(201);
    part("PUT", "sealed", "seal").send(&server).is(200);
    let long: String = (0..50_001).map(|_| "<Latest>QUFB</Latest>").collect();
    let tags = |tags: &[(&str, &str)]| {
        let tag = |(key, value): &(&str, &str)| {
            format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>")
        };
        let tags: String = tags.iter().map(tag).collect();
        part("PUT", "b", "tags").body(format!("<Tags><TagSet>{tags}</TagSet></Tags>"))
    };
    let block = |id: &str| part("PUT", "b", &format!("block&blockid={id}")).body("x");
    let crc64 = "iJh5CoYUi64=";
    let md5 = "1B2M2Y8AsgTpgAmY7PhCfg==";
    let eleven: Vec<_> = (0..11).map(|n| (format!("k{n}"), "v")).collect();
    let eleven: Vec<_> = eleven
        .iter()
        .map(|(key, value)| (&key[..], *value))
        .collect();
    #[rustfmt::skip]
    let rows = vec![
        ("AppendPositionConditionNotMet", 412, "The append position condition specified was not met.",
         part("PUT", "a", "appendblock")
             .header("x-ms-blob-condition-appendpos", "4")
             .body("x")),
        ("BlobAlreadyExists", 409, "The specified blob already exists.",
         put_blob("b", "").header("If-None-Match", "*")),
        ("BlobIsSealed", 409, "The specified blob is sealed, and its contents can't be modified unless the blob is re-created after a delete.",
         part("PUT", "sealed", "appendblock").body("x")),
        ("BlobNotFound", 404, "The specified blob does not exist.",
         request("GET", "/con/none")),
        ("BlockListTooLong", 400, "The block list may not contain more than 50000 blocks.",
         part("PUT", "b", "blocklist").body(format!("<BlockList>{long}</BlockList>"))),
        ("BothCrc64AndMd5HeaderPresent", 400, "Both x-ms-content-crc64 header and Content-MD5 header are present.",
         put_blob("b", "").header("Content-MD5", md5).header("x-ms-content-crc64", crc64)),
        ("ContainerAlreadyExists", 409, "The specified container already exists.",
         request("PUT", "/con?restype=container")),
        ("ContainerNotFound", 404, "The specified container does not exist.",
         request("GET", "/none?restype=container")),
        ("Crc64Mismatch", 400, "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server.",
         put_blob("b", "").header("x-ms-content-crc64", crc64)),
        ("DuplicateTagNames", 400, "The tags specified contain duplicate names.",
         tags(&[("a", "1"), ("a", "2")])),
        ("EmptyTagName", 400, "The name of one of the tag key-value pairs is empty.",
         tags(&[("", "1")])),
        ("InvalidTag", 400, "The tags specified are invalid.", tags(&[("a", "&lt;")])),
        ("TagsTooLarge", 400, "The tags specified exceed the maximum permissible limit.",
         tags(&eleven)),
        ("FeatureVersionMismatch", 409, "The operation for AppendBlob requires at least version 2015-02-21.",
         make("old", "AppendBlob").header("x-ms-version", "2014-02-14")),
        ("InvalidVersionForPageBlobOperation", 400, "All operations on page blobs require at least version 2009-09-19.",
         make("old", "PageBlob").header("x-ms-version", "2009-04-14")),
        ("InvalidBlobOrBlock", 400, "The specified blob or block content is invalid.",
         block("QUE%3D")),
        ("InvalidBlobType", 409, "The blob type is invalid for this operation.",
         part("PUT", "b", "appendblock").body("x")),
        ("InvalidBlockList", 400, "The specified block list is invalid.",
         part("PUT", "b", "blocklist").body("<BlockList><Latest>QkJC</Latest></BlockList>")),
        ("InvalidOperation", 400, "Invalid operation against a blob snapshot.",
         part("PUT", "b", &format!("metadata&snapshot={snapshot}"))),
        ("MaxBlobSizeConditionNotMet", 412, "The max blob size condition specified was not met.",
         part("PUT", "a", "appendblock").header("x-ms-blob-condition-maxsize", "5").body("x")),
        ("SnapshotsPresent", 409, "This operation is not permitted while the blob has snapshots.",
         request("DELETE", "/con/s")),
    ];
    check(&server, rows);
}

fn tier(name: &str, tier: &str) -> Request {
    part("PUT", name, "tier").header("x-ms-access-tier", tier)
}

#[test]
fn each_row_about_tiers_and_protection() {
    let server = with_container();
    made(
        &server,
        &[
            ("b", "BlockBlob"),
            ("back", "BlockBlob"),
            ("kept", "BlockBlob"),
            ("p", "PageBlob"),
        ],
    );
    put_page_blob("large")
        .header("x-ms-blob-content-length", &(64u64 << 30).to_string())
        .send(&server)
        .is(201);
    tier("b", "Archive").send(&server).is(200);
    tier("back", "Archive").send(&server).is(200);
    tier("back", "Cool").send(&server).is(202);
    tier("p", "P10").send(&server).is(200);
    part("PUT", "kept", "legalhold")
        .header("x-ms-legal-hold", "true")
        .send(&server)
        .is(200);
    #[rustfmt::skip]
    let rows = vec![
        ("BlobArchived", 409, "This operation is not permitted on an archived blob.",
         request("GET", "/con/b")),
        ("BlobBeingRehydrated", 409, "This operation is not permitted because the blob is being rehydrated.",
         tier("back", "Hot")),
        ("BlobImmutableDueToLegalHold", 409, "This operation is not permitted as the blob is immutable due to one or more legal holds.",
         request("DELETE", "/con/kept")),
        (
            "MutuallyExclusiveQueryParameters",
            400,
            "snapshot and versionid are mutually exclusive query parameters. Only one of these should be present.",
            request(
                "GET",
                "/con/b?snapshot=2024-03-01T00:00:00.0000000Z&versionid=2024-03-01T00:00:00.0000000Z",
            ),
        ),
        ("InvalidQueryParameterValue", 400, "Value for one of the query parameters specified in the request URI is invalid.",
         request("DELETE", "/con/b?versionid=2024-03-01T00:00:00.0000000Z")
             .header("x-ms-delete-snapshots", "include")),
        ("BlobTierInadequateForContentLength", 409, "Specified blob tier size limit cannot be less than content length.",
         tier("large", "P4")),
        ("CannotChangeToLowerTier", 409, "A higher blob tier has already been explicitly set.",
         tier("p", "P6")),
        ("ContentLengthLargerThanTierLimit", 409, "The specified content length is larger than the size limit of the blob's tier.",
         part("PUT", "p", "properties")
             .header("x-ms-blob-content-length", &(129u64 << 30).to_string())),
        ("InvalidBlobTier", 400, "The specified blob tier is invalid.", tier("kept", "P10")),
    ];
    check(&server, rows);
}

fn lease(target: &str, action: &str, id: &str) -> Request {
    let request =
        request("PUT", &format!("{target}comp=lease")).header("x-ms-lease-action", action);
    match action {
        "acquire" => request
            .header("x-ms-lease-duration", "-1")
            .header("x-ms-proposed-lease-id", id),
        "change" => request
            .header("x-ms-lease-id", id)
            .header("x-ms-proposed-lease-id", OTHER_LEASE),
        "break" => request.header("x-ms-lease-break-period", id),
        _ => request.header("x-ms-lease-id", id),
    }
}

#[test]
fn each_row_about_leases() {
    let server = with_container();
    let [leased, breaking, broken] =
        ["leased", "breaking", "broken"].map(|name| format!("/con/{name}?"));
    made(
        &server,
        &[
            ("leased", "BlockBlob"),
            ("breaking", "BlockBlob"),
            ("broken", "BlockBlob"),
            ("free", "BlockBlob"),
        ],
    );
    for blob in [&leased, &breaking, &broken] {
        lease(blob, "acquire", LEASE).send(&server).is(201);
    }
    lease(&breaking, "break", "60").send(&server).is(202);
    lease(&broken, "break", "0").send(&server).is(202);
    for name in ["/other", "/free"] {
        request("PUT", &format!("{name}?restype=container"))
            .send(&server)
            .is(201);
    }
    lease("/other?restype=container&", "acquire", LEASE)
        .send(&server)
        .is(201);
    let delete = |target: &str, id: &str| {
        let request = request("DELETE", target);
        if id.is_empty() {
            request
        } else {
            request.header("x-ms-lease-id", id)
        }
    };
    #[rustfmt::skip]
    let rows = vec![
        ("LeaseAlreadyPresent", 409, "There is already a lease present.",
         lease(&leased, "acquire", OTHER_LEASE)),
        ("LeaseIdMismatchWithBlobOperation", 412, "The lease ID specified did not match the lease ID for the blob.",
         delete("/con/leased", OTHER_LEASE)),
        ("LeaseIdMismatchWithContainerOperation", 412, "The lease ID specified did not match the lease ID for the container.",
         delete("/other?restype=container", OTHER_LEASE)),
        ("LeaseIdMismatchWithLeaseOperation", 409, "The lease ID specified did not match the lease ID for the blob/container.",
         lease(&leased, "renew", OTHER_LEASE)),
        ("LeaseIdMissing", 412, "There is currently a lease on the blob/container and no lease ID was specified in the request.",
         delete("/con/leased", "")),
        (
            "LeaseIsBreakingAndCannotBeAcquired",
            409,
            "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.",
            lease(&breaking, "acquire", LEASE),
        ),
        ("LeaseIsBreakingAndCannotBeChanged", 409, "The lease ID matched, but the lease is currently in breaking state and cannot be changed.",
         lease(&breaking, "change", LEASE)),
        ("LeaseIsBrokenAndCannotBeRenewed", 409, "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.",
         lease(&broken, "renew", LEASE)),
        ("LeaseLost", 412, "A lease ID was specified, but the lease for the blob/container has expired.",
         delete("/con/broken", LEASE)),
        ("LeaseNotPresentWithBlobOperation", 412, "There is currently no lease on the blob.",
         delete("/con/free", LEASE)),
        ("LeaseNotPresentWithContainerOperation", 412, "There is currently no lease on the container.",
         delete("/free?restype=container", LEASE)),
        ("LeaseNotPresentWithLeaseOperation", 409, "There is currently no lease on the blob/container.",
         lease("/con/free?", "break", "0")),
    ];
    check(&server, rows);
}

fn page(name: &str, range: &str) -> Request {
    part("PUT", name, "page")
        .header("x-ms-page-write", "clear")
        .header("x-ms-range", range)
}

#[test]
fn each_row_about_page_blobs() {
    let server = with_container();
    made(&server, &[("p", "PageBlob"), ("new", "PageBlob")]);
    let snapshot = |name: &str| {
        let taken = part("PUT", name, "snapshot").send(&server);
        taken.is(201).header("x-ms-snapshot").unwrap().to_string()
    };
    let (first, second, old) = (snapshot("p"), snapshot("p"), snapshot("new"));
    make("new", "PageBlob").send(&server).is(201);
    let since = |name: &str, parameters: &str| part("GET", name, &format!("pagelist&{parameters}"));
    let largest = i64::MAX.to_string();
    make("full", "PageBlob")
        .header("x-ms-blob-sequence-number", &largest)
        .send(&server)
        .is(201);
    #[rustfmt::skip]
    let rows = vec![
        ("BlobOverwritten", 409, "The blob has been recreated since the previous snapshot was taken.",
         since("new", &format!("prevsnapshot={old}"))),
        ("InvalidPageRange", 416, "The page range specified is invalid.",
         page("p", "bytes=1024-1535")),
        ("PreviousSnapshotCannotBeNewer", 400, "The prevsnapshot query parameter value cannot be newer than the snapshot query parameter value.",
         since("p", &format!("snapshot={first}&prevsnapshot={second}"))),
        ("PreviousSnapshotNotFound", 409, "The previous snapshot is not found.",
         since("p", "prevsnapshot=2020-01-01T00:00:00.0000000Z")),
        ("SequenceNumberConditionNotMet", 412, "The sequence number condition specified was not met.",
         page("p", "bytes=0-511").header("x-ms-if-sequence-number-eq", "1")),
        (
            "SequenceNumberIncrementTooLarge",
            409,
            "The sequence number increment cannot be performed because it would result in overflow of the sequence number.",
            part("PUT", "full", "properties")
                .header("x-ms-sequence-number-action", "increment"),
        ),
    ];
    check(&server, rows);
}

#[test]
fn each_row_about_copies() {
    let server = with_container();
    let url = |name: &str| {
        format!(
            "http://127.0.0.1:{}/{ACCOUNT}/con/{name}",
            server.ports.blob
        )
    };
    let copy = |to: &str, from: &str| {
        request("PUT", &format!("/con/{to}")).header("x-ms-copy-source", &url(from))
    };
    made(
        &server,
        &[
            ("b", "BlockBlob"),
            ("a", "AppendBlob"),
            ("p", "PageBlob"),
            ("q", "PageBlob"),
            ("leased", "BlockBlob"),
        ],
    );
    let snapshot = |name: &str| {
        let taken = part("PUT", name, "snapshot").send(&server);
        let moment = taken.is(201).header("x-ms-snapshot").unwrap();
        format!("{name}?snapshot={moment}")
    };
    let incremental = |to: &str, from: &str| {
        part("PUT", to, "incrementalcopy").header("x-ms-copy-source", &url(from))
    };
    let (earlier, other) = (snapshot("p"), snapshot("q"));
    page("p", "bytes=0-511").send(&server).is(201);
    incremental("i", &snapshot("p")).send(&server).is(202);
    part("PUT", "leased", "lease")
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "60")
        .header("x-ms-proposed-lease-id", LEASE)
        .send(&server)
        .is(201);
    let abort = |name: &str, id: &str| {
        part("PUT", name, &format!("copy&copyid={id}")).header("x-ms-copy-action", "abort")
    };
    #[rustfmt::skip]
    let rows = vec![
        (
            "CannotVerifyCopySource",
            401,
            "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
            copy("n", "b").header("x-ms-requires-sync", "true"),
        ),
        ("InfiniteLeaseDurationRequired", 412, "The lease ID matched, but the specified lease must be an infinite-duration lease.",
         copy("leased", "b").header("x-ms-lease-id", LEASE)),
        ("IncrementalCopyBlobMismatch", 409, "The specified source blob is different than the copy source of the existing incremental copy blob.",
         incremental("i", &other)),
        (
            "IncrementalCopyOfEarlierSnapshotNotAllowed",
            409,
            "The specified snapshot is earlier than the last snapshot copied into the incremental copy blob.",
            incremental("i", &earlier),
        ),
        ("IncrementalCopySourceMustBeSnapshot", 409, "The source for incremental copy request must be a snapshot.",
         incremental("i", "p")),
        ("InvalidSourceBlobType", 409, "The copy source blob type is invalid for this operation.",
         incremental("j", &snapshot("b"))),
        ("NoPendingCopyOperation", 409, "There is currently no pending copy operation.",
         abort("b", LEASE)),
        ("OperationNotAllowedOnIncrementalCopyBlob", 409, "The specified operation is not allowed on an incremental copy blob.",
         page("i", "bytes=0-511")),
        ("SourceConditionNotMet", 412, "The source condition specified using HTTP conditional header(s) is not met.",
         copy("n", "b").header("x-ms-source-if-match", "\"0x1\"")),
    ];
    check(&server, rows);
}
