//! Shared Key vectors: the signatures that unmodified client libraries made must verify.

use super::*;
use crate::testing::{accounts, request};

const DATE: (&str, &str) = ("x-ms-date", "Fri, 01 Mar 2024 12:34:56 GMT");

/// Compares the string to sign with `signed`, and checks that `authorization` is accepted with the
/// account's key and refused with another key.
fn check(context: Context, signed: &str, authorization: &str) {
    let scheme = if authorization.starts_with("SharedKeyLite") {
        Scheme::SharedKeyLite
    } else {
        Scheme::SharedKey
    };
    assert_eq!(string_to_sign(&context, scheme, Form::default()), signed);
    let accounts = accounts();
    let request = SignedRequest { context: &context };
    verify(&request, authorization, &accounts.keys(&context.account)).unwrap();
    let failure = verify(&request, authorization, &[vec![1, 2, 3]]).unwrap_err();
    assert_eq!(failure.code, "AuthenticationFailed");
    assert!(
        failure.details[0]
            .1
            .contains("Server used following string to sign"),
        "{:?}",
        failure.details
    );
}

fn blob(method: &str, target: &str, account: &str, headers: &[(&str, &str)]) -> Context {
    request(
        ServiceKind::Blob,
        method,
        target,
        account,
        &[headers, &[DATE]].concat(),
    )
}

#[test]
fn b1_put_metadata_host_style() {
    let context = blob(
        "PUT",
        "/cont/dir/a%20b%2Bc.txt?timeout=30&comp=metadata",
        "myaccount",
        &[
            ("x-ms-version", "2021-12-02"),
            ("content-length", "11"),
            ("content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="),
            ("content-type", "text/plain; charset=UTF-8"),
            ("x-ms-blob-type", "BlockBlob"),
            ("x-ms-meta-Zeta", "z value"),
            ("x-ms-meta-alpha", "1"),
            (
                "x-ms-client-request-id",
                "11111111-2222-3333-4444-555555555555",
            ),
            ("if-none-match", "*"),
        ],
    );
    check(
        context,
        "PUT\n\n\n11\nXrY7u+Ae7tCTyyK7j1rNww==\ntext/plain; charset=UTF-8\n\n\n\n*\n\n\nx-ms-blob-type:BlockBlob\nx-ms-client-request-id:11111111-2222-3333-4444-555555555555\nx-ms-date:Fri, 01 Mar 2024 12:34:56 GMT\nx-ms-meta-alpha:1\nx-ms-meta-zeta:z value\nx-ms-version:2021-12-02\n/myaccount/cont/dir/a%20b%2Bc.txt\ncomp:metadata\ntimeout:30",
        "SharedKey myaccount:wPLBGm/+3nuAGxpxddkOB0YJyG195tm8mff/GDrkbWk=",
    );
}

#[test]
fn b2_list_path_style() {
    let context = blob(
        "GET",
        "/cont?restype=container&comp=list&prefix=a%2Fb%20c&include=metadata%2Csnapshots&maxresults=5",
        "devstoreaccount1",
        &[("x-ms-version", "2026-10-06")],
    );
    check(
        context,
        "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 01 Mar 2024 12:34:56 GMT\nx-ms-version:2026-10-06\n/devstoreaccount1/devstoreaccount1/cont\ncomp:list\ninclude:metadata,snapshots\nmaxresults:5\nprefix:a/b c\nrestype:container",
        "SharedKey devstoreaccount1:V96+wl7hj63IorA5Q/vtkwtYp3j030U18z/AzYkhBsQ=",
    );
}

#[test]
fn q1_create_queue_with_zero_length_and_a_bare_meta_header() {
    let context = request(
        ServiceKind::Queue,
        "PUT",
        "/queue1",
        "devstoreaccount1",
        &[
            ("x-ms-version", "2026-10-06"),
            ("content-length", "0"),
            ("x-ms-meta-Color", "Red"),
            ("x-ms-meta", "{'Color': 'Red'}"),
            DATE,
        ],
    );
    check(
        context,
        "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 01 Mar 2024 12:34:56 GMT\nx-ms-meta:{'Color': 'Red'}\nx-ms-meta-color:Red\nx-ms-version:2026-10-06\n/devstoreaccount1/devstoreaccount1/queue1",
        "SharedKey devstoreaccount1:qKfepWZbNivxEUbbvUVD/ZQIitn9YOl1ii+Xdn/wfaE=",
    );
}

#[test]
fn q2_update_message() {
    let context = request(
        ServiceKind::Queue,
        "PUT",
        "/q-one/messages/4e3a395a-c6d7-4870-bd08-39ff05d015e9?popreceipt=AgAAAAMAAAAAAAAALNdCOVDq2AE%3D&visibilitytimeout=5",
        "myaccount",
        &[
            ("x-ms-version", "2018-03-28"),
            ("content-length", "98"),
            ("content-type", "application/xml"),
            DATE,
        ],
    );
    check(
        context,
        "PUT\n\n\n98\n\napplication/xml\n\n\n\n\n\n\nx-ms-date:Fri, 01 Mar 2024 12:34:56 GMT\nx-ms-version:2018-03-28\n/myaccount/q-one/messages/4e3a395a-c6d7-4870-bd08-39ff05d015e9\npopreceipt:AgAAAAMAAAAAAAAALNdCOVDq2AE=\nvisibilitytimeout:5",
        "SharedKey myaccount:5CoM2BgW2ciTN1wednNa0aMeXNYNdszHO+HaITNYLOU=",
    );
}

#[test]
fn h1_header_names_sort_as_the_service_sorts_them() {
    let context = blob(
        "GET",
        "/c/b",
        "myaccount",
        &[
            ("x-ms-version", "2021-12-02"),
            ("x-ms-meta-a-c", "1"),
            ("x-ms-meta-ab", "2"),
            ("x-ms-meta-a_d", "3"),
            ("x-ms-meta-a1", "4"),
            ("x-ms-meta-aa", "5"),
            ("x-ms-meta", "6"),
        ],
    );
    check(
        context,
        "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 01 Mar 2024 12:34:56 GMT\nx-ms-meta:6\nx-ms-meta-a_d:3\nx-ms-meta-a1:4\nx-ms-meta-aa:5\nx-ms-meta-ab:2\nx-ms-meta-a-c:1\nx-ms-version:2021-12-02\n/myaccount/c/b",
        "SharedKey myaccount:fVO0rkEb/yiCC+FJg4cHFnL/yjCPh6vnTpJsZciW41M=",
    );
}

fn table(method: &str, target: &str, account: &str, headers: &[(&str, &str)]) -> Context {
    let headers = [headers, &[("x-ms-version", "2019-02-02"), DATE]].concat();
    request(ServiceKind::Table, method, target, account, &headers)
}

const ENTITY: &str = "/MyTable(PartitionKey='p%27%27k',RowKey='r%20k')?$select=a%2Cb";

#[test]
fn t1_get_entity_does_not_sign_select() {
    check(
        table(
            "GET",
            ENTITY,
            "devstoreaccount1",
            &[
                ("accept", "application/json;odata=minimalmetadata"),
                ("dataserviceversion", "3.0"),
            ],
        ),
        "GET\n\n\nFri, 01 Mar 2024 12:34:56 GMT\n/devstoreaccount1/devstoreaccount1/MyTable(PartitionKey='p%27%27k',RowKey='r%20k')",
        "SharedKey devstoreaccount1:0xtp5t/PdRjVabFvK2zSvXU/Hp+3tzpnACIirisNM3U=",
    );
}

#[test]
fn t2_insert() {
    check(
        table(
            "POST",
            "/MyTable",
            "myaccount",
            &[
                ("content-type", "application/json;odata=nometadata"),
                ("content-length", "51"),
            ],
        ),
        "POST\n\napplication/json;odata=nometadata\nFri, 01 Mar 2024 12:34:56 GMT\n/myaccount/MyTable",
        "SharedKey myaccount:9QObePb7EnUhYT1Xu4vxHkncwGXZP80UOl4Dj1VFmpI=",
    );
}

#[test]
fn t3_set_acl_signs_comp_and_not_timeout() {
    check(
        table(
            "PUT",
            "/MyTable?comp=acl&timeout=7",
            "myaccount",
            &[
                ("content-type", "application/xml"),
                ("content-length", "255"),
            ],
        ),
        "PUT\n\napplication/xml\nFri, 01 Mar 2024 12:34:56 GMT\n/myaccount/MyTable?comp=acl",
        "SharedKey myaccount:vM2b+EEJp41T3P/Q7lbkpeXFWQ7Hys8IjTi9rt86KCw=",
    );
}

#[test]
fn x_language_may_stand_before_encoding_and_one_value_for_many() {
    let context = blob(
        "GET",
        "/c?include=a&include=a&RESTYPE=container&comp=list&q=a+b",
        "myaccount",
        &[
            ("content-encoding", "gzip"),
            ("content-language", "en"),
            ("range", "bytes=0-1"),
        ],
    );
    let signed = "GET\nen\ngzip\n\n\n\n\n\n\n\n\nbytes=0-1\nx-ms-date:Fri, 01 Mar 2024 12:34:56 GMT\n/myaccount/c\ncomp:list\ninclude:a\nq:a+b\nrestype:container";
    assert!(
        forms(&context).any(|form| string_to_sign(&context, Scheme::SharedKey, form) == signed)
    );
    let documented = signed
        .replace("include:a", "include:a,a")
        .replace("en\ngzip", "gzip\nen");
    assert_eq!(
        string_to_sign(&context, Scheme::SharedKey, Form::default()),
        documented
    );
}

/// Source: Authorize with Shared Key, "Constructing the canonicalized resource string".
#[test]
fn values_of_one_parameter_are_signed_in_order() {
    let context = blob("GET", "/c?include=b&comp=list&include=a", "myaccount", &[]);
    let signed = string_to_sign(&context, Scheme::SharedKey, Form::default());
    assert!(
        signed.ends_with("/myaccount/c\ncomp:list\ninclude:a,b"),
        "{signed}"
    );
}

#[test]
fn a_signature_over_one_value_is_none_over_another() {
    let one = blob("GET", "/c?comp=list&include=metadata", "myaccount", &[]);
    let signed = string_to_sign(&one, Scheme::SharedKey, Form::default());
    for more in [
        "&include=versions",
        "&INCLUDE=versions",
        "&include=metadata&include=a",
    ] {
        let target = format!("/c?comp=list&include=metadata{more}");
        let context = blob("GET", &target, "myaccount", &[]);
        let mut texts =
            forms(&context).map(|form| string_to_sign(&context, Scheme::SharedKey, form));
        assert!(texts.all(|text| text != signed), "{more}");
    }
}

#[test]
fn lite_table_as_the_javascript_client_signs() {
    check(
        table("GET", ENTITY, "devstoreaccount1", &[]),
        "Fri, 01 Mar 2024 12:34:56 GMT\n/devstoreaccount1/devstoreaccount1/MyTable(PartitionKey='p%27%27k',RowKey='r%20k')",
        "SharedKeyLite devstoreaccount1:CSGunBhsiHW6xE3Z7RhODvdP0NgHbod0dRqNn1VDOYM=",
    );
    check(
        table("GET", "/Tables", "myaccount", &[]),
        "Fri, 01 Mar 2024 12:34:56 GMT\n/myaccount/Tables",
        "SharedKeyLite myaccount:oI51wCyWJ6YjygoK2f9lnStrBJkB446tuHULbrwpXak=",
    );
    check(
        table("GET", "/MyTable?comp=acl&timeout=7", "myaccount", &[]),
        "Fri, 01 Mar 2024 12:34:56 GMT\n/myaccount/MyTable?comp=acl",
        "SharedKeyLite myaccount:TPHT/KBbFLVw0DV41Z/PF+ZnpucIB19BdBmEbvRP13k=",
    );
}

#[test]
fn lite_blob_and_queue() {
    let context = blob(
        "PUT",
        "/cont/dir/a%20b%2Bc.txt?comp=metadata&timeout=30",
        "myaccount",
        &[
            ("x-ms-version", "2021-12-02"),
            ("content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="),
            ("content-type", "text/plain; charset=UTF-8"),
            ("x-ms-blob-type", "BlockBlob"),
        ],
    );
    check(
        context,
        "PUT\nXrY7u+Ae7tCTyyK7j1rNww==\ntext/plain; charset=UTF-8\n\nx-ms-blob-type:BlockBlob\nx-ms-date:Fri, 01 Mar 2024 12:34:56 GMT\nx-ms-version:2021-12-02\n/myaccount/cont/dir/a%20b%2Bc.txt?comp=metadata",
        "SharedKeyLite myaccount:CU0N6NxZc9hywg6suH260M4Gsmt7D/VKh9ck5gLMHP4=",
    );
    let context = request(
        ServiceKind::Queue,
        "GET",
        "/q-one/messages",
        "myaccount",
        &[("x-ms-version", "2018-03-28"), DATE],
    );
    check(
        context,
        "GET\n\n\n\nx-ms-date:Fri, 01 Mar 2024 12:34:56 GMT\nx-ms-version:2018-03-28\n/myaccount/q-one/messages",
        "SharedKeyLite myaccount:b1TwJNwT9h3ppe2J9nefk8hX7/1Ejk8uT73ZkRfQEWQ=",
    );
}

#[test]
fn malformed_foreign_and_stale_credentials_have_different_errors() {
    let accounts = accounts();
    let answer = |headers: &[(&str, &str)], authorization: &str| {
        let context = request(ServiceKind::Table, "GET", "/Tables", "myaccount", headers);
        let failure = verify(
            &SignedRequest { context: &context },
            authorization,
            &accounts.keys("myaccount"),
        )
        .unwrap_err();
        (
            failure.status.as_u16(),
            failure.code.to_string(),
            failure
                .details
                .first()
                .map_or(String::new(), |(_, text)| text.clone()),
        )
    };
    for malformed in [
        "",
        "SharedKey",
        "SharedKey myaccount",
        "sharedkey myaccount:AA==",
        "Basic x:y",
    ] {
        assert_eq!(
            answer(&[DATE], malformed).1,
            "InvalidAuthenticationInfo",
            "{malformed}"
        );
    }
    assert!(
        answer(&[DATE], "SharedKey other:AA==")
            .2
            .contains("'other'")
    );
    assert!(
        answer(&[], "SharedKey myaccount:AA==")
            .2
            .contains("neither")
    );
    let (status, code, detail) = answer(
        &[("x-ms-date", "Fri, 01 Mar 2024 12:19:55 GMT")],
        "SharedKey myaccount:AA==",
    );
    assert_eq!((status, code.as_str()), (403, "AuthenticationFailed"));
    assert_eq!(
        detail,
        "Request date header too old: 'Fri, 01 Mar 2024 12:19:55 GMT'"
    );
    assert!(
        answer(
            &[("x-ms-date", "Fri, 01 Mar 2024 12:50:00 GMT")],
            "SharedKey myaccount:AA=="
        )
        .2
        .contains("future")
    );
    assert!(
        answer(&[("x-ms-date", "yesterday")], "SharedKey myaccount:AA==")
            .2
            .contains("RFC 1123")
    );
}

#[test]
fn a_backslash_may_be_signed_as_the_slash_that_it_is() {
    let to = |path: &str| {
        let headers = [("x-ms-version", "2021-12-02"), DATE];
        request(ServiceKind::Blob, "GET", path, "myaccount", &headers)
    };
    let accounts = crate::testing::accounts();
    let keys = &*accounts.keys("myaccount");
    let sent = to("/c/dir%5Cname");
    let is_good = |signed: &str| {
        let text = string_to_sign(&to(signed), Scheme::SharedKey, Form::default());
        let signature = crate::auth::signature::sign(&keys[0], text.as_bytes());
        let authorization = format!("SharedKey myaccount:{signature}");
        verify(&SignedRequest { context: &sent }, &authorization, keys).is_ok()
    };
    assert!(is_good("/c/dir/name"));
    assert!(is_good("/c/dir%5Cname"));
    assert!(!is_good("/c/dirname"));
}

/// The strings to sign of all forms of a request, in the order in which they are tried.
fn texts(context: &Context) -> Vec<String> {
    forms(context)
        .map(|form| string_to_sign(context, Scheme::SharedKey, form))
        .collect()
}

#[test]
fn forms_are_tried_by_their_distance_from_the_usual_one() {
    let plain = blob(
        "GET",
        "/c/b",
        "myaccount",
        &[("x-ms-version", "2021-12-02")],
    );
    assert_eq!(forms(&plain).count(), 1);
    let all = blob(
        "PUT",
        "-secondary/c/it's?include=a+b&include=a+b",
        "devstoreaccount1",
        &[
            ("content-encoding", "gzip"),
            ("content-length", "0"),
            ("date", "Fri, 01 Mar 2024 12:34:55 GMT"),
            ("x-ms-meta-a-c", "1"),
            ("x-ms-meta-ab", "2"),
        ],
    );
    let distances: Vec<usize> = forms(&all).map(|form| form.differences()).collect();
    assert!(distances.is_sorted(), "{distances:?}");
    // Two forms of each of six parts; the path as sent, of the primary, and with quotes encoded.
    assert_eq!(distances.len(), 64 * 3);
    assert_eq!(
        (distances[0], &distances[1..9], distances[9]),
        (0, &[1; 8][..], 2)
    );
    let table = table(
        "GET",
        "/T()?a=b+c",
        "myaccount",
        &[("content-language", "en")],
    );
    assert_eq!(forms(&table).count(), 1);
}

#[test]
fn each_deviation_of_a_client_library_is_tried() {
    let has = |context: &Context, part: &str| texts(context).iter().any(|text| text.contains(part));
    let dated = blob(
        "GET",
        "/c/b",
        "myaccount",
        &[("date", "Fri, 01 Mar 2024 12:34:55 GMT")],
    );
    assert!(!texts(&dated)[0].contains("12:34:55"));
    assert!(has(&dated, "\nFri, 01 Mar 2024 12:34:55 GMT\n"));
    let date = [("date", "Fri, 01 Mar 2024 12:34:55 GMT")];
    let date_only = request(ServiceKind::Blob, "GET", "/c/b", "myaccount", &date);
    assert_eq!(forms(&date_only).count(), 1);
    assert!(texts(&date_only)[0].contains("12:34:55"));
    let plus = blob("GET", "/c?prefix=a+b", "myaccount", &[]);
    assert!(texts(&plus)[0].ends_with("prefix:a+b") && has(&plus, "\nprefix:a b"));
    let meta = [("x-ms-meta-a-c", "1"), ("x-ms-meta-ab", "2")];
    let ordered = blob("GET", "/c/b", "myaccount", &meta);
    assert!(texts(&ordered)[0].contains("x-ms-meta-ab:2\nx-ms-meta-a-c:1\n"));
    assert!(has(&ordered, "x-ms-meta-a-c:1\nx-ms-meta-ab:2\n"));
    let language = blob("GET", "/c/b", "myaccount", &[("content-language", "en")]);
    assert!(texts(&language)[0].starts_with("GET\n\nen\n") && has(&language, "GET\nen\n\n"));
    let secondary = blob("GET", "-secondary/c/b", "devstoreaccount1", &[]);
    assert!(texts(&secondary)[0].ends_with("/devstoreaccount1/devstoreaccount1-secondary/c/b"));
    assert!(has(&secondary, "/devstoreaccount1/devstoreaccount1/c/b"));
    let named = blob("GET", "/c/a-secondary", "devstoreaccount1", &[]);
    assert_eq!(forms(&named).count(), 1);
    for (version, usual, other) in [("2014-02-14", "0", ""), ("2021-12-02", "", "0")] {
        let headers = [("x-ms-version", version), ("content-length", "0")];
        let empty = blob("PUT", "/c/b", "myaccount", &headers);
        assert!(
            texts(&empty)[0].starts_with(&format!("PUT\n\n\n{usual}\n\n")),
            "{version}"
        );
        assert!(has(&empty, &format!("PUT\n\n\n{other}\n\n")), "{version}");
    }
}

#[test]
fn a_signature_of_a_deviating_form_is_accepted() {
    let meta = [("x-ms-meta-a-c", "1"), ("x-ms-meta-ab", "2")];
    let context = blob("GET", "/c?prefix=a+b", "myaccount", &meta);
    let accounts = accounts();
    let keys = &*accounts.keys("myaccount");
    for text in texts(&context) {
        let signature = crate::auth::signature::sign(&keys[0], text.as_bytes());
        let authorization = format!("SharedKey myaccount:{signature}");
        let signed = SignedRequest { context: &context };
        assert!(verify(&signed, &authorization, keys).is_ok(), "{text}");
    }
}

#[test]
fn repeated_parameters_may_be_signed_once_if_they_are_equal() {
    let repeat = |query: &str| values_repeat(&Query::parse(query).unwrap());
    assert!(repeat("a=1&b=2&A=1") && repeat("a=1&a=1&b=2&b=2"));
    assert!(!repeat("a=1&b=1") && !repeat("") && !repeat("a=1&b=2&a=2"));
    assert!(!repeat("a=1&a=1&b=1&b=2"));
}

#[test]
fn values_of_a_repeated_header_are_joined_and_empty_headers_left_out_by_old_versions() {
    let signed = |version: &str, headers: &[(&str, &str)]| {
        let headers = [headers, &[("x-ms-version", version)]].concat();
        texts(&blob("GET", "/c/b", "myaccount", &headers)).remove(0)
    };
    let (old, new) = ("2015-12-11", "2016-05-31");
    let twice = [("x-ms-meta-a", " 1 "), ("x-ms-meta-a", "2")];
    assert!(signed(new, &twice).contains("\nx-ms-meta-a:1,2\n"));
    let empty = [("x-ms-meta-e", "")];
    assert!(signed(new, &empty).contains("\nx-ms-meta-e:\n"));
    assert!(!signed(old, &empty).contains("x-ms-meta-e"));
    assert!(signed(old, &[("x-ms-meta-e", "1")]).contains("\nx-ms-meta-e:1\n"));
    assert!(signed(old, &[empty[0], empty[0]]).contains("\nx-ms-meta-e:,\n"));
}

#[test]
fn hyphens_and_apostrophes_count_only_between_names_that_are_otherwise_equal() {
    for (first, second) in [
        ("a", "b"),
        ("ab", "a-c"),
        ("a-b", "ac"),
        ("a'b", "ac"),
        ("ab", "a-b"),
        ("ab", "a'b"),
        ("a_", "a1"),
        ("a9", "aa"),
        ("a", "a-"),
        ("a", "aa"),
        ("ab-c", "a-bc"),
    ] {
        assert_eq!(
            culture_order(first, second),
            Ordering::Less,
            "{first} {second}"
        );
        assert_eq!(
            culture_order(second, first),
            Ordering::Greater,
            "{first} {second}"
        );
        assert_eq!(culture_order(second, second), Ordering::Equal);
    }
}

#[test]
fn a_request_may_be_a_quarter_of_an_hour_early_or_late() {
    let accounts = accounts();
    let is_stale = |date: &str| {
        let context = request(
            ServiceKind::Blob,
            "GET",
            "/c",
            "myaccount",
            &[("x-ms-date", date)],
        );
        let signed = SignedRequest { context: &context };
        let failure = verify(
            &signed,
            "SharedKey myaccount:AA==",
            &accounts.keys("myaccount"),
        );
        failure.unwrap_err().details[0]
            .1
            .contains("Request date header too")
    };
    assert!(!is_stale("Fri, 01 Mar 2024 12:19:56 GMT"));
    assert!(!is_stale("Fri, 01 Mar 2024 12:49:56 GMT"));
    assert!(is_stale("Fri, 01 Mar 2024 12:19:55 GMT"));
    assert!(is_stale("Fri, 01 Mar 2024 12:49:57 GMT"));
}

#[test]
fn a_refusal_repeats_a_scheme_but_nothing_that_could_be_a_key() {
    let longest = "a".repeat(SCHEME_BYTES_MAX);
    for (authorization, scheme) in [
        ("Basic x:y", Some("Basic")),
        ("AWS4-HMAC-SHA256 x", Some("AWS4-HMAC-SHA256")),
        (&*format!("{longest} x"), Some(&*longest)),
        (&format!("{longest}a x"), None),
        ("Basic", None),
        ("Basic ", None),
        ("c2VjcmV0+a2V5 x", None),
        ("", None),
    ] {
        let failure = parse(authorization).unwrap_err();
        let expected = match scheme {
            Some(scheme) => format!("has the scheme '{scheme}'."),
            None => "has no scheme.".to_owned(),
        };
        let detail = &failure.details[0].1;
        assert!(detail.contains(&expected), "{authorization}: {detail}");
    }
}

#[test]
fn a_request_without_a_path_is_signed_with_the_root() {
    let mut context = blob("GET", "/", "myaccount", &[]);
    let signed = texts(&context).remove(0);
    assert!(signed.ends_with("\n/myaccount/"), "{signed}");
    context.raw_path.clear();
    assert_eq!(texts(&context).remove(0), signed);
}

#[test]
fn a_long_string_to_sign_gets_few_tries() {
    let long = "a".repeat(48 * 1024);
    let context = blob(
        "PUT",
        "-secondary/c/it's?include=a+b&include=a+b",
        "devstoreaccount1",
        &[
            ("content-encoding", "gzip"),
            ("content-length", "0"),
            ("date", "Fri, 01 Mar 2024 12:34:55 GMT"),
            ("x-ms-meta-long", &long),
        ],
    );
    assert!(forms(&context).count() > 20);
    let accounts = accounts();
    let keys = &*accounts.keys("devstoreaccount1");
    let before = crate::auth::signature::hashed_bytes();
    let signed = SignedRequest { context: &context };
    assert!(verify(&signed, "SharedKey devstoreaccount1:AA==", keys).is_err());
    let hashed = crate::auth::signature::hashed_bytes() - before;
    assert!(hashed < 3 * HASHED_BYTES_MAX, "{hashed}");
}
