//! The operations of Data Lake Storage, one row for each, and how a request finds its row. In these
//! rows, [`Row::comp`] is the parameter `action`, a container is a file system, and a blob is a path.
//! Source: Azure Data Lake Storage Gen2 REST API, "Filesystem" and "Path".

use crate::blob::container;
use crate::blob::inputs::{
    CONTAINER_CONDITIONS as CONDITIONS, CUSTOMER_KEY, LEASE, LEASE_ACTION, RANGE, RANGE_CHECKSUMS,
    STRUCTURED_BODY,
};
use crate::blob::lake::inputs::{
    ACL, CONTENT_MD5, EXPIRY, LEASE_STEPS, NEW_LEASE, OWNERS, PAGE, PATH_HEADERS, PERMISSIONS,
    PROPERTIES, SOURCE_CONDITIONS, UMASK,
};
use crate::blob::lake::permissions::{
    access_of_new_path, permissions_of_access_control, permissions_of_append, permissions_of_rename,
};
use crate::blob::lake::{access, append, file_systems, list, paths, rename};
use crate::blob::permissions::{READ_BLOB, permissions_of_lease};
use crate::blob::request::Request;
use crate::blob::{lease, read};
use crate::request::operation::{
    Asked, BodyRule, Index, LogName, LongResponse, Operation, Permissions, Resource, Unmatched,
    account_sas, any_sas,
};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::request::data_lake::{self, RENAME_SOURCE};
use lazurite_protocol::request::inputs::{CHECKSUMS, Inputs, headers, parameters, union};
use lazurite_protocol::response::error::{Failure, Result, common};
use std::sync::LazyLock;

type Row = Operation<Request>;

const READ: Row = Row {
    resource: Resource::Blob,
    permissions: Permissions::Fixed(READ_BLOB),
    ..Row::READ
};
const UPDATE: Row = Row {
    methods: &["PATCH"],
    resource: Resource::Blob,
    permissions: any_sas("o", "w"),
    ..Row::WRITE
};

fn names_file_system(asked: &Asked) -> bool {
    (asked.parameter)("resource").is_some_and(|text| text.eq_ignore_ascii_case("filesystem"))
}

fn names_account(asked: &Asked) -> bool {
    (asked.parameter)("resource").is_some_and(|text| text.eq_ignore_ascii_case("account"))
}

fn renames(asked: &Asked) -> bool {
    asked.has_header(RENAME_SOURCE)
}

static INDEX: LazyLock<Index<crate::blob::request::Request>> =
    LazyLock::new(|| Index::of(OPERATIONS));

/// Conditions of operations on file systems.
const DATES: Inputs = headers(&["if-modified-since", "if-unmodified-since"]);

/// The rows of all operations of Data Lake Storage.
pub static OPERATIONS: &[Row] = &[
    Row {
        name: "FilesystemList",
        published: &["Service_ListFileSystems"],
        resource: Resource::Service,
        when: names_account,
        permissions: account_sas("s", "l"),
        long_response: LongResponse::Always,
        log_name: LogName::Fixed("ListFilesystems"),
        reads: union(&[PAGE, parameters(&["prefix"])]),
        handler: |request, _| Box::pin(file_systems::list_file_systems(request)),
        ..READ
    },
    Row {
        name: "FilesystemCreate",
        published: &["FileSystem_Create"],
        resource: Resource::Container,
        permissions: account_sas("c", "cw"),
        log_name: LogName::Fixed("CreateFilesystem"),
        reads: PROPERTIES,
        handler: |request, _| Box::pin(file_systems::create_file_system(request)),
        ..Row::WRITE
    },
    Row {
        name: "FilesystemSetProperties",
        published: &["FileSystem_SetProperties"],
        resource: Resource::Container,
        permissions: account_sas("c", "w"),
        log_name: LogName::Fixed("SetFilesystemProperties"),
        reads: union(&[PROPERTIES, DATES]),
        handler: |request, _| Box::pin(file_systems::set_file_system_properties(request)),
        ..UPDATE
    },
    Row {
        name: "FilesystemGetProperties",
        published: &["FileSystem_GetProperties"],
        methods: &["HEAD"],
        resource: Resource::Container,
        permissions: account_sas("c", "r"),
        log_name: LogName::Fixed("GetFilesystemProperties"),
        handler: |request, _| Box::pin(file_systems::get_file_system_properties(request)),
        ..READ
    },
    Row {
        name: "FilesystemDelete",
        published: &["FileSystem_Delete"],
        resource: Resource::Container,
        permissions: account_sas("c", "d"),
        log_name: LogName::Fixed("DeleteFilesystem"),
        reads: DATES,
        handler: |request, _| Box::pin(container::delete_container(request)),
        ..Row::DELETE
    },
    Row {
        name: "PathList",
        published: &["FileSystem_ListPaths"],
        resource: Resource::Container,
        permissions: any_sas("c", "l"),
        long_response: LongResponse::Always,
        log_name: LogName::Fixed("ListFilesystemDir"),
        reads: union(&[PAGE, parameters(&["recursive", "directory", "beginFrom"])]),
        handler: |request, _| Box::pin(list::list_paths(request)),
        ..READ
    },
    Row {
        name: "PathRename",
        resource: Resource::Blob,
        when: renames,
        permissions: Permissions::ByRequest(permissions_of_rename),
        log_name: LogName::Fixed("RenamePathFile"),
        creates_blob: true,
        reads: union(&[
            CONDITIONS,
            SOURCE_CONDITIONS,
            LEASE,
            PROPERTIES,
            // Read to be refused.
            OWNERS,
            PERMISSIONS,
            UMASK,
            ACL,
            headers(&[RENAME_SOURCE]),
            parameters(&["mode", "continuation"]),
        ]),
        handler: |request, _| Box::pin(rename::rename_path(request)),
        ..Row::WRITE
    },
    Row {
        name: "PathCreate",
        published: &["Path_Create"],
        resource: Resource::Blob,
        permissions: any_sas("o", "cw"),
        more_permissions: access_of_new_path,
        log_name: LogName::ByRequest(|context| {
            let resource = context.query.get("resource").unwrap_or_default();
            let is_directory = resource.eq_ignore_ascii_case("directory");
            Some(if is_directory {
                "CreatePathDir"
            } else {
                "CreatePathFile"
            })
        }),
        creates_blob: true,
        reads: union(&[
            CONDITIONS,
            LEASE,
            NEW_LEASE,
            PATH_HEADERS,
            PROPERTIES,
            OWNERS,
            PERMISSIONS,
            UMASK,
            ACL,
            EXPIRY,
            CUSTOMER_KEY,
            headers(&["x-ms-encryption-context"]),
        ]),
        handler: |request, _| Box::pin(paths::create_path(request)),
        ..Row::WRITE
    },
    Row {
        name: "PathAppendData",
        published: &["Path_AppendData"],
        comp: "append",
        permissions: Permissions::ByRequest(permissions_of_append),
        log_name: LogName::Fixed("AppendFile"),
        body: BodyRule::Required,
        reads: union(&[
            LEASE,
            LEASE_STEPS,
            CHECKSUMS,
            CUSTOMER_KEY,
            STRUCTURED_BODY,
            parameters(&["position", "flush", "close"]),
        ]),
        handler: |request, body| Box::pin(append::append_data(request, body)),
        ..UPDATE
    },
    Row {
        name: "PathFlushData",
        published: &["Path_FlushData"],
        comp: "flush",
        permissions: Permissions::ByRequest(permissions_of_append),
        log_name: LogName::Fixed("FlushFile"),
        reads: union(&[
            CONDITIONS,
            LEASE,
            LEASE_STEPS,
            PATH_HEADERS,
            CONTENT_MD5,
            CUSTOMER_KEY,
            parameters(&["position", "retainUncommittedData", "close"]),
        ]),
        handler: |request, _| Box::pin(append::flush_data(request)),
        ..UPDATE
    },
    Row {
        name: "PathSetProperties",
        published: &["Path_Update"],
        comp: "setproperties",
        log_name: LogName::Fixed("SetPathProperties"),
        reads: union(&[CONDITIONS, LEASE, PATH_HEADERS, PROPERTIES, CUSTOMER_KEY]),
        handler: |request, _| Box::pin(paths::set_properties(request)),
        ..UPDATE
    },
    Row {
        name: "PathSetAccessControl",
        published: &["Path_SetAccessControl"],
        comp: "setaccesscontrol",
        permissions: Permissions::ByRequest(permissions_of_access_control),
        log_name: LogName::Fixed("SetPathAccessControl"),
        reads: union(&[CONDITIONS, LEASE, OWNERS, PERMISSIONS, ACL]),
        handler: |request, _| Box::pin(access::set_access_control(request)),
        ..UPDATE
    },
    Row {
        name: "PathSetAccessControlRecursive",
        published: &["Path_SetAccessControlRecursive"],
        comp: "setaccesscontrolrecursive",
        permissions: any_sas("o", "p"),
        log_name: LogName::Fixed("SetPathAccessControl"),
        reads: union(&[
            ACL,
            parameters(&["mode", "continuation", "maxRecords", "forceFlag"]),
        ]),
        handler: |request, _| Box::pin(access::set_access_control_recursive(request)),
        ..UPDATE
    },
    Row {
        name: "PathLease",
        published: &["Path_Lease"],
        methods: &["POST"],
        resource: Resource::Blob,
        permissions: Permissions::ByRequest(permissions_of_lease),
        log_name: LogName::Fixed("LeasePath"),
        reads: union(&[LEASE_ACTION, CONDITIONS]),
        handler: |request, _| Box::pin(lease::lease_blob(request)),
        ..Row::WRITE
    },
    Row {
        name: "PathRead",
        published: &["Path_Read"],
        log_name: LogName::Fixed("ReadFile"),
        reads: union(&[
            CONDITIONS,
            LEASE,
            CUSTOMER_KEY,
            RANGE,
            RANGE_CHECKSUMS,
            STRUCTURED_BODY,
        ]),
        handler: |request, _| Box::pin(read::get_blob(request)),
        ..READ
    },
    Row {
        name: "PathGetProperties",
        published: &["Path_GetProperties"],
        methods: &["HEAD"],
        log_name: LogName::Fixed("GetPathStatus"),
        reads: OF_PROPERTIES,
        handler: |request, _| Box::pin(read::get_blob_properties(request)),
        ..READ
    },
    Row {
        name: "PathGetProperties",
        methods: &["HEAD"],
        comp: "getstatus",
        permissions: any_sas("o", "er"),
        log_name: LogName::Fixed("GetPathStatus"),
        reads: OF_PROPERTIES,
        handler: |request, _| Box::pin(paths::get_status(request)),
        ..READ
    },
    Row {
        name: "PathGetProperties",
        methods: &["HEAD"],
        comp: "getaccesscontrol",
        permissions: any_sas("o", "er"),
        log_name: LogName::Fixed("GetPathAccessControl"),
        reads: OF_PROPERTIES,
        handler: |request, _| Box::pin(paths::get_access_control(request)),
        ..READ
    },
    Row {
        name: "PathGetProperties",
        methods: &["HEAD"],
        comp: "checkaccess",
        permissions: any_sas("o", "er"),
        log_name: LogName::Fixed("CheckPathAccess"),
        reads: union(&[OF_PROPERTIES, parameters(&["fsAction"])]),
        handler: |request, _| Box::pin(paths::check_access(request)),
        ..READ
    },
    Row {
        name: "PathDelete",
        published: &["Path_Delete"],
        resource: Resource::Blob,
        permissions: any_sas("o", "d"),
        log_name: LogName::Fixed("DeleteFile"),
        reads: union(&[
            CONDITIONS,
            LEASE,
            parameters(&["recursive", "continuation", "paginated"]),
        ]),
        handler: |request, _| Box::pin(paths::delete_path(request)),
        ..Row::DELETE
    },
];

const OF_PROPERTIES: Inputs = union(&[CONDITIONS, LEASE, CUSTOMER_KEY]);

/// The row of a request. `path` is empty for a file system and for its root directory, which
/// `resource=filesystem` tells apart.
pub fn operation(context: &Context, container: &str, path: &str) -> Result<&'static Row> {
    let method = data_lake::method(&context.method, &context.headers);
    let action = context.query.get("action").unwrap_or_default();
    let action = action.to_ascii_lowercase();
    let mut asked = Asked {
        method: method.as_str(),
        resource: Resource::Blob,
        restype: "",
        comp: &action,
        header: &|name| context.header(name),
        parameter: &|name| context.query.get(name),
    };
    check_resource(&asked)?;
    if context.headers.get(RENAME_SOURCE).is_some() && !renames(&asked) {
        return Err(Failure::missing_header(RENAME_SOURCE));
    }
    if container.is_empty() {
        asked.resource = Resource::Service;
    } else if names_file_system(&asked) {
        asked.resource = Resource::Container;
        if !path.is_empty() {
            let reason = "The path names a file or directory.";
            return Err(Failure::parameter("resource", "filesystem", reason));
        }
    }
    INDEX
        .find(&asked)
        .map_err(|unmatched| refusal(unmatched, &asked))
}

/// Refuses a kind of resource that there is not. Error: `InvalidQueryParameterValue`.
fn check_resource(asked: &Asked) -> Result<()> {
    let Some(resource) = (asked.parameter)("resource") else {
        return Ok(());
    };
    let kinds = ["account", "filesystem", "directory", "file"];
    if kinds.iter().any(|kind| resource.eq_ignore_ascii_case(kind)) {
        return Ok(());
    }
    let reason = "It is none of account, filesystem, directory and file.";
    Err(Failure::parameter("resource", resource, reason))
}

/// Whether this is a PATCH of a path that does not say what it updates.
fn lacks_action(asked: &Asked) -> bool {
    asked.method == "PATCH" && asked.resource == Resource::Blob && asked.comp.is_empty()
}

fn refusal(unmatched: Unmatched, asked: &Asked) -> Failure {
    match unmatched {
        Unmatched::Comp => {
            let reason = "There is no such action.";
            Failure::parameter("action", asked.comp, reason)
        }
        Unmatched::Method if lacks_action(asked) => {
            common::MISSING_REQUIRED_QUERY_PARAMETER.with("QueryParameterName", "action")
        }
        Unmatched::Method => common::UNSUPPORTED_HTTP_VERB.into(),
        Unmatched::Condition => {
            let reason = "The path is that of the account: it is account.";
            let value = (asked.parameter)("resource").unwrap_or_default();
            Failure::parameter("resource", value, reason)
        }
    }
}
