//! Every operation with every conditional header, on an existing and on a missing blob. Source:
//! Specifying conditional headers for Blob service operations, and observed answers of the service.

use super::*;
use crate::{ETag, ETags, TagCondition};

/// The Last-Modified of a test's blob, moved by this many seconds: see [`Store::make`].
fn modified(written: &Written, seconds: i64) -> SystemTime {
    let time = written.last_modified;
    match seconds {
        -1 => time - std::time::Duration::from_secs(1),
        other => time + std::time::Duration::from_secs(other as u64),
    }
}

/// Parses conditions from words: `match=same`, `match=other`, `match=*`, `none=...`,
/// `since=before`, `unsince=after`, `tags=true` ...
fn conditions(words: &str, written: &Written) -> Conditions {
    let mut conditions = Conditions::default();
    for word in words.split_whitespace() {
        let (header, value) = word.split_once('=').unwrap();
        let tags = || {
            let other = ETag(1).quoted();
            let header = value.replace("same", &written.etag.quoted());
            ETags::parse(&header.replace("other", &other))
        };
        let date = || match value {
            "before" => Some(modified(written, -1)),
            "same" => Some(modified(written, 0)),
            "after" => Some(modified(written, 1)),
            _ => panic!("{value}"),
        };
        match header {
            "match" => conditions.if_match = tags(),
            "none" => conditions.if_none_match = tags(),
            "since" => conditions.if_modified_since = date(),
            "unsince" => conditions.if_unmodified_since = date(),
            "tags" => {
                let text = match value {
                    "true" => "\"kind\" = 'lake'",
                    _ => "\"kind\" = 'river'",
                };
                conditions.if_tags = Some(TagCondition::parse(text).unwrap());
            }
            _ => panic!("{header}"),
        }
    }
    conditions
}

fn shown(result: Result<()>) -> &'static str {
    match result {
        Ok(()) => "ok",
        Err(Error::ConditionNotMet) => "412",
        Err(Error::SourceConditionNotMet) => "source 412",
        Err(Error::NotModified { .. }) => "304",
        Err(Error::BlobAlreadyExists) => "409",
        Err(Error::BlobNotFound | Error::ContainerNotFound) => "404",
        Err(Error::UnsatisfiableCondition) => "unsatisfiable",
        Err(Error::MultipleConditionHeadersNotSupported) => "multiple",
        Err(Error::ConditionHeadersNotSupported) => "unsupported",
        Err(other) => panic!("{other:?}"),
    }
}

/// A row of a matrix: conditions, and their outcome with and without the blob.
type Row = (&'static str, &'static str, &'static str);

const READS: &[Row] = &[
    ("", "ok", "404"),
    ("match=same", "ok", "404"),
    ("match=other", "412", "404"),
    ("match=other,same", "ok", "404"),
    ("match=*", "ok", "404"),
    ("none=same", "304", "404"),
    ("none=other", "ok", "404"),
    ("none=other,same", "304", "404"),
    ("none=*", "unsatisfiable", "404"),
    ("since=before", "ok", "404"),
    ("since=same", "304", "404"),
    ("since=after", "304", "404"),
    ("unsince=before", "412", "404"),
    ("unsince=same", "ok", "404"),
    ("unsince=after", "ok", "404"),
    ("tags=true", "ok", "404"),
    ("tags=false", "412", "404"),
    ("none=same since=before", "ok", "404"),
    ("none=same since=after", "304", "404"),
    ("none=other since=after", "ok", "404"),
    ("match=same unsince=before", "412", "404"),
    ("match=other unsince=after", "412", "404"),
    ("match=same none=other", "ok", "404"),
    ("match=same tags=false", "412", "404"),
];

/// Rows that creations and changes share, on an existing blob.
const WRITES: &[(&str, &str)] = &[
    ("", "ok"),
    ("match=same", "ok"),
    ("match=other", "412"),
    ("match=*", "ok"),
    ("none=same", "412"),
    ("none=other", "ok"),
    ("since=before", "ok"),
    ("since=same", "412"),
    ("since=after", "412"),
    ("unsince=before", "412"),
    ("unsince=same", "ok"),
    ("unsince=after", "ok"),
    ("tags=true", "ok"),
    ("tags=false", "412"),
    // The date that is paired with an ETag does not count; a condition on tags always does.
    ("match=same unsince=before", "ok"),
    ("match=other unsince=after", "412"),
    ("none=other since=after", "ok"),
    ("none=same since=before", "412"),
    ("match=same tags=false", "412"),
    ("match=same tags=true", "ok"),
    ("unsince=same tags=false", "412"),
    // A header takes one ETag, and other pairs are refused.
    ("match=same,other", "multiple"),
    ("none=same,other", "multiple"),
    ("match=same none=other", "multiple"),
    ("match=same since=before", "multiple"),
    ("none=other unsince=after", "multiple"),
    ("since=before unsince=after", "multiple"),
    ("match=same unsince=after since=before", "multiple"),
    (
        "match=same none=other since=before unsince=after",
        "multiple",
    ),
];

/// The outcome of a write without a blob, if the request itself is valid.
fn of_missing(words: &str, creates: bool) -> &'static str {
    match (words.starts_with("match="), creates) {
        (true, _) => "412",
        (false, true) if words.contains("tags=") => "412",
        (false, true) => "ok",
        (false, false) => "404",
    }
}

fn rows(honoured_conditions: HonouredConditions) -> Vec<Row> {
    let writes = |creates, any: &'static str| -> Vec<Row> {
        let rows = WRITES.iter().map(|&(words, there)| match there {
            "multiple" => (words, there, there),
            _ => (words, there, of_missing(words, creates)),
        });
        rows.chain([("none=*", any, of_missing("", creates))])
            .collect()
    };
    let ignored = |tags: &'static str| -> Vec<Row> {
        let rows = WRITES.iter().map(|&(words, _)| match words {
            "tags=false" | "match=same tags=false" | "unsince=same tags=false" => {
                (words, tags, "404")
            }
            _ => (words, "ok", "404"),
        });
        rows.collect()
    };
    match honoured_conditions {
        HonouredConditions::Read => READS.to_vec(),
        // `none=*` lets a creation succeed only if there is no blob.
        HonouredConditions::Create => writes(true, "409"),
        // The hosted service was seen to let `none=*` pass.
        HonouredConditions::Change => writes(false, "ok"),
        HonouredConditions::Tags => ignored("412"),
        HonouredConditions::Nothing => ignored("ok"),
    }
}

#[test]
fn every_operation_honours_the_conditions_that_it_should() {
    let store = store();
    store.make_sources();
    for operation in operations() {
        for (number, (words, there, missing)) in
            rows(operation.honoured_conditions).into_iter().enumerate()
        {
            let name = format!("{} {number}", operation.name);
            let written = store.make(&name, operation.on);
            let conditions = conditions(words, &written);
            let outcome = (operation.act)(&store, &name, &conditions, at(9));
            assert_eq!(shown(outcome), there, "{} with {words:?}", operation.name);
            let name = format!("{} {number}, missing", operation.name);
            // Put Block succeeds for a name that has nothing yet.
            let missing = if operation.name == "Put Block" {
                "ok"
            } else {
                missing
            };
            let outcome = (operation.act)(&store, &name, &conditions, at(9));
            let cell = format!("{} with {words:?} where nothing is", operation.name);
            assert_eq!(shown(outcome), missing, "{cell}");
        }
    }
}

#[test]
fn lease_blob_honours_the_conditions_of_a_change() {
    let store = store();
    let act = |name: &str, conditions: &Conditions| {
        let service = &store;
        let leased = service
            .at(at(9))
            .lease_blob(&address(name), SECONDS_15, conditions)?;
        Ok(leased.2.wait()?)
    };
    for (number, (words, there, missing)) in
        rows(HonouredConditions::Change).into_iter().enumerate()
    {
        let name = format!("{number}");
        let written = store.make(&name, BlobType::BlockBlob);
        let conditions = conditions(words, &written);
        assert_eq!(shown(act(&name, &conditions)), there, "{words}");
        assert_eq!(shown(act("missing", &conditions)), missing, "{words}");
    }
}

/// Copies have error codes of their own for conditions on the source. For contents from URLs, the
/// source is read like any blob.
#[test]
fn conditions_of_source_and_destination_are_distinguished() {
    let store = store();
    let written = store.make("source", BlobType::BlockBlob);
    let service = &store;
    for &(words, read, missing) in READS {
        let copied = match read {
            "412" if words.contains("tags=") => "412",
            "412" | "304" => "source 412",
            other => other,
        };
        let conditions = conditions(words, &written);
        let rows = [("source", copied, read), ("missing", missing, missing)];
        for (source, expected, read) in rows {
            let request = CopyBlob {
                source_conditions: conditions.clone(),
                ..CopyBlob::default()
            };
            let (source, to) = (address(source), address("to"));
            let copied = service.at(at(9)).copy_blob(&source, &to, request.clone());
            assert_eq!(shown(done(copied)), expected, "Copy Blob, {words}");
            let copied = service.at(at(9)).copy_blob_from_url(&source, &to, request);
            assert_eq!(shown(done(copied)), expected, "Copy Blob From URL, {words}");
            let opened = service.at(at(9)).open_source(&source, None, &conditions);
            assert_eq!(
                shown(opened.map(|_| ())),
                read,
                "Put Block From URL, {words}"
            );
        }
    }
}

#[test]
fn immutability_policy_is_set_on_a_blob_that_was_not_modified_since() {
    let store = store();
    for (number, (words, expected)) in [
        ("", "ok"),
        ("unsince=before", "412"),
        ("unsince=same", "ok"),
        ("unsince=after", "ok"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{number}");
        let conditions = conditions(words, &store.make(&name, BlobType::BlockBlob));
        let policy = ImmutabilityPolicy {
            until: at(100),
            mode: ImmutabilityMode::Unlocked,
        };
        let service = &store;
        let address = address(&name);
        let set = service
            .at(at(9))
            .set_blob_immutability_policy(&address, policy, &conditions);
        assert_eq!(shown(done(set)), expected, "{words}");
    }
}

#[test]
fn list_that_must_be_the_first_passes_where_only_blocks_are() {
    let store = store();
    store.put_block("name", "a", b"body").unwrap();
    let first = || PutBlockList {
        conditions: only_if_missing(),
        ..latest(&["a"])
    };
    store.commit("name", first()).unwrap();
    assert_err!(store.commit("name", first()), Error::BlobAlreadyExists);
}

#[test]
fn sequence_numbers_are_compared_as_their_headers_say() {
    let store = store();
    store.put_page_blob("pages", 1024);
    let put = |sequence| {
        let request = PutPage {
            range: 0..512,
            update: PageUpdate::Clear,
            sequence,
            conditions: Conditions::default(),
        };
        done(store.at(at(9)).put_page(&address("pages"), request)).is_ok()
    };
    // The blob has sequence number 7.
    for (number, at_most, less_than, equal) in [
        (6, false, false, false),
        (7, true, false, true),
        (8, true, true, false),
    ] {
        let none = SequenceConditions::default();
        let at_most_is = SequenceConditions {
            at_most: Some(number),
            ..none
        };
        let less_than_is = SequenceConditions {
            less_than: Some(number),
            ..none
        };
        let equal_is = SequenceConditions {
            equal: Some(number),
            ..none
        };
        let met = (put(at_most_is), put(less_than_is), put(equal_is));
        assert_eq!(met, (at_most, less_than, equal), "{number}");
    }
}

#[test]
fn containers_honour_dates_and_refuse_etags() {
    type Call = fn(&Store, &str, &Conditions) -> Result<()>;
    let calls: [(&str, Call); 4] = [
        ("Delete Container", |s, name, c| {
            let deleted = s.at(at(9)).delete_container(ACCOUNT, name, c)?;
            Ok(deleted.wait()?)
        }),
        ("Set Container ACL", |s, name, c| {
            let private = PublicAccess::Private;
            let none = Vec::new();
            let service = &s;
            done(
                service
                    .at(at(9))
                    .set_container_acl(ACCOUNT, name, private, none, c),
            )
        }),
        ("Lease Container", |s, name, c| {
            let service = &s;
            let leased = service
                .at(at(9))
                .lease_container(ACCOUNT, name, SECONDS_15, c)?;
            Ok(leased.2.wait()?)
        }),
        ("Set Container Metadata", |s, name, c| {
            let metadata = Metadata::new();
            let service = &s;
            done(
                service
                    .at(at(9))
                    .set_container_metadata(ACCOUNT, name, metadata, c),
            )
        }),
    ];
    let rows: [(&str, &str, &str); 13] = [
        ("", "ok", "404"),
        ("since=before", "ok", "404"),
        ("since=same", "412", "404"),
        ("since=after", "412", "404"),
        ("unsince=before", "412", "404"),
        ("unsince=same", "ok", "404"),
        ("unsince=after", "ok", "404"),
        ("since=before unsince=after", "multiple", "multiple"),
        ("match=same", "unsupported", "unsupported"),
        ("match=*", "unsupported", "unsupported"),
        ("none=other", "unsupported", "unsupported"),
        ("none=*", "unsupported", "unsupported"),
        ("match=same unsince=after", "unsupported", "unsupported"),
    ];
    let (store, mut count) = (store(), 0);
    for (call, act) in calls {
        for (words, there, missing) in rows {
            // Set Container Metadata takes `If-Modified-Since` only.
            let no_unsince = call == "Set Container Metadata" && words.contains("unsince");
            let refused = |shown| if no_unsince { "unsupported" } else { shown };
            count += 1;
            let name = format!("container-{count}");
            let written = store.create(&name).unwrap();
            let conditions = conditions(words, &written);
            let outcome = act(&store, &name, &conditions);
            assert_eq!(shown(outcome), refused(there), "{call} with {words:?}");
            let outcome = act(&store, "missing", &conditions);
            assert_eq!(
                shown(outcome),
                refused(missing),
                "{call} of none with {words:?}"
            );
        }
    }
}
