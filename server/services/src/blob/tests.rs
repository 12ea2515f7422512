use crate::blob::operations::route;
use crate::request::operation::Logged;
use lazurite_protocol::properties::LogClass;
use lazurite_protocol::request::context::{Context, ServiceKind};
use lazurite_protocol::testing::request;

fn context(method: &str, target: &str, headers: &[(&str, &str)]) -> Context {
    let account = "devstoreaccount1";
    request(ServiceKind::Blob, method, target, account, headers)
}

fn logged(context: &Context) -> Option<Logged> {
    route(context).unwrap().operation.facts(context).logged
}

#[test]
fn leases_are_logged_by_known_actions_alone() {
    let name = |action: &str| {
        let headers = [("x-ms-lease-action", action)];
        logged(&context("PUT", "/c/b?comp=lease", &headers)).map(|logged| logged.name)
    };
    assert_eq!(name("ACQUIRE"), Some("AcquireBlobLease"));
    assert_eq!(name("break"), Some("BreakBlobLease"));
    for other in ["x;Success;200;1;1;authenticated;forged", "", "é", "steal"] {
        assert_eq!(name(other), None, "{other}");
    }
}

#[test]
fn operations_have_the_names_and_classes_of_the_log_format() {
    for (method, target, headers, name, class) in [
        ("GET", "/c/b", &[][..], "GetBlob", LogClass::Read),
        (
            "PUT",
            "/c/b",
            &[("x-ms-blob-type", "PageBlob")],
            "PutBlob",
            LogClass::Write,
        ),
        ("DELETE", "/c/b", &[], "DeleteBlob", LogClass::Delete),
        (
            "PUT",
            "/?restype=service&comp=properties",
            &[],
            "SetBlobServiceProperties",
            LogClass::Write,
        ),
        (
            "GET",
            "/c/b?comp=metadata",
            &[],
            "GetBlobMetadata",
            LogClass::Read,
        ),
        (
            "HEAD",
            "/c?restype=container&comp=metadata",
            &[],
            "GetContainerMetadata",
            LogClass::Read,
        ),
        (
            "PUT",
            "/c/b?comp=page",
            &[("x-ms-page-write", "clear")],
            "ClearPage",
            LogClass::Write,
        ),
        (
            "POST",
            "/c?restype=container&comp=batch",
            &[],
            "BlobBatch",
            LogClass::Write,
        ),
        (
            "DELETE",
            "/c/b?comp=immutabilityPolicies",
            &[],
            "DeleteBlobImmutabilityPolicy",
            LogClass::Delete,
        ),
    ] {
        let found = logged(&context(method, target, headers));
        assert_eq!(found, Some(Logged { name, class }), "{method} {target}");
    }
}

#[test]
fn headers_decide_the_operation_of_a_put() {
    let source = ("x-ms-copy-source", "http://127.0.0.1/devstoreaccount1/c/a");
    for (headers, name) in [
        (&[("x-ms-blob-type", "blockblob")][..], "PutBlob"),
        (&[("x-ms-blob-type", "AppendBlob")], "PutAppendBlob"),
        (&[source], "CopyBlob"),
        (&[source, ("x-ms-requires-sync", "True")], "CopyBlobFromUrl"),
        (&[source, ("x-ms-blob-type", "BlockBlob")], "PutBlobFromUrl"),
    ] {
        let operation = route(&context("PUT", "/c/b", headers)).unwrap().operation;
        assert_eq!(operation.name, name, "{headers:?}");
    }
    for (headers, code) in [
        (&[][..], "MissingRequiredHeader"),
        (&[("x-ms-blob-type", "x")], "InvalidHeaderValue"),
        (
            &[source, ("x-ms-blob-type", "PageBlob")],
            "InvalidHeaderValue",
        ),
    ] {
        let refused = route(&context("PUT", "/c/b", headers)).err().unwrap();
        assert_eq!(refused.code, code, "{headers:?}");
    }
}

#[test]
fn a_wrong_method_is_named_for_every_operation() {
    for target in [
        "/?comp=blobs",
        "/c?restype=container&comp=undelete",
        "/c/b?comp=immutabilityPolicies",
        "/c/b?comp=legalhold",
        "/c/b?comp=expiry",
    ] {
        let refused = route(&context("POST", target, &[])).err().unwrap();
        assert_eq!(refused.code, "UnsupportedHttpVerb", "{target}");
    }
}

#[test]
fn a_query_reads_although_it_is_posted() {
    let route = route(&context("POST", "/c/b?comp=query", &[])).unwrap();
    assert!(!route.operation.changes_state);
}

#[test]
fn requests_of_data_lake_storage_find_their_operations() {
    let found = |method: &str, target: &str, headers: &[(&str, &str)]| {
        let mut context = context(method, target, headers);
        context.hierarchical = true;
        route(&context).map(|route| (route.operation.name, route.container, route.blob))
    };
    let rename = ("x-ms-rename-source", "/fs/old");
    let patch = ("x-http-method-override", "PATCH");
    let lease = ("x-ms-lease-action", "acquire");
    for (method, target, headers, name, container, path) in [
        (
            "GET",
            "/?resource=account",
            &[][..],
            "FilesystemList",
            "",
            "",
        ),
        (
            "PUT",
            "/fs?resource=filesystem",
            &[],
            "FilesystemCreate",
            "fs",
            "",
        ),
        (
            "GET",
            "/fs?resource=filesystem&recursive=true",
            &[],
            "PathList",
            "fs",
            "",
        ),
        (
            "GET",
            "/fs/?resource=filesystem&recursive=true",
            &[],
            "PathList",
            "fs",
            "",
        ),
        (
            "HEAD",
            "/fs//?action=getAccessControl",
            &[],
            "PathGetProperties",
            "fs",
            "",
        ),
        (
            "HEAD",
            "/fs?action=getAccessControl",
            &[],
            "PathGetProperties",
            "fs",
            "",
        ),
        (
            "PUT",
            "/fs/d//e/?resource=directory",
            &[],
            "PathCreate",
            "fs",
            "d/e",
        ),
        ("PUT", "/fs/new", &[rename], "PathRename", "fs", "new"),
        (
            "PUT",
            "/fs/new?mode=legacy",
            &[rename],
            "PathRename",
            "fs",
            "new",
        ),
        (
            "PATCH",
            "/fs/f?action=append&position=0",
            &[],
            "PathAppendData",
            "fs",
            "f",
        ),
        (
            "PUT",
            "/fs/f?action=append&position=0",
            &[patch],
            "PathAppendData",
            "fs",
            "f",
        ),
        (
            "POST",
            "/fs/f?action=Flush&position=0",
            &[patch],
            "PathFlushData",
            "fs",
            "f",
        ),
        ("POST", "/fs/f", &[lease], "PathLease", "fs", "f"),
        (
            "DELETE",
            "/fs/f?recursive=true",
            &[],
            "PathDelete",
            "fs",
            "f",
        ),
        ("DELETE", "/fs/f", &[], "DeleteBlob", "fs", "f"),
        ("PUT", "/fs/f?comp=lease", &[lease], "LeaseBlob", "fs", "f"),
    ] {
        let (operation, found_container, found_path) = found(method, target, headers).unwrap();
        assert_eq!(operation, name, "{method} {target}");
        assert_eq!(
            (&*found_container, &*found_path),
            (container, path),
            "{target}"
        );
    }
    for (method, target, code) in [
        ("PATCH", "/fs/f?action=other", "InvalidQueryParameterValue"),
        ("PATCH", "/fs/f", "MissingRequiredQueryParameter"),
        ("POST", "/fs?resource=filesystem", "UnsupportedHttpVerb"),
        (
            "GET",
            "/fs/f?resource=filesystem",
            "InvalidQueryParameterValue",
        ),
        ("GET", "/?resource=filesystem", "InvalidQueryParameterValue"),
    ] {
        let refused = found(method, target, &[]).err().unwrap();
        assert_eq!(refused.code, code, "{method} {target}");
    }
}
