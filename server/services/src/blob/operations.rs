//! The operations of the Blob service, one row for each, and how a request finds its row.
//! Source: each operation's "Request" section; Create an account SAS, "Blob service"; Create a
//! service SAS, "Permissions for a directory, container, or blob".

use crate::auth::get_user_delegation_key;
use crate::blob::inputs::{
    APPEND_POSITION, BLOB_CONDITIONS, BLOB_HEADERS, BLOB_SIZE_MAX, BLOCK_ID, CONDITIONS,
    CONTAINER_CONDITIONS, COPY, CUSTOMER_KEY, DEFAULT_SCOPE, ENCRYPTION, IMMUTABILITY_POLICY,
    INCLUDE, LEASE, LEASE_ACTION, LEGAL_HOLD, METADATA, NEW_BLOB, PAGE, PAGE_BLOB_LENGTH,
    PAGE_WRITE, PUBLIC_ACCESS, RANGE, RANGE_CHECKSUMS, REHYDRATION, SCOPE, SEQUENCE_ACTION,
    SEQUENCE_CONDITIONS, SEQUENCE_NUMBER, SOURCE, SOURCE_CHECKSUMS, SOURCE_RANGE, STRUCTURED_BODY,
    TAG_CONDITION, TAGS_OF_SOURCE, TIER, TIER_CONDITIONS, UPLOAD, of_blob,
};
use crate::blob::permissions::{
    READ_BLOB, permissions_of_blocks, permissions_of_container_lease, permissions_of_delete,
    permissions_of_lease, tags_and_protection, tags_in_headers, tags_in_listing,
};
use crate::blob::request::Request;
use crate::blob::{
    append_blob, azure_files, batch, block_blob, container, copy, data_lake, immutability, lake,
    lease, list, page_blob, query, read, service, tags, tier, write,
};
use crate::properties;
use crate::request::operation::{
    ANY, Anonymous, Asked, BodyRule, Index, LogName, LongResponse, OWNER, Operation, Permissions,
    Resource, Since, Unmatched, account_sas, any_sas,
};
use crate::response::ready_response;
use axum::http::Method;
use lazurite_protocol::properties::LogClass;
use lazurite_protocol::request::blob_names::blob_names;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::request::data_lake::normalized;
use lazurite_protocol::request::inputs::{CHECKSUMS, headers, parameters, union};
use lazurite_protocol::request::permissions::{Letters::All, RequiredPermissions};
use lazurite_protocol::response::error::{Failure, Result, common};
use std::sync::LazyLock;

pub type Row = Operation<Request>;

const READ: Row = Row {
    resource: Resource::Blob,
    permissions: Permissions::Fixed(READ_BLOB),
    more_permissions: tags_in_headers,
    ..Row::READ
};
const WRITE: Row = Row {
    resource: Resource::Blob,
    permissions: any_sas("o", "w"),
    more_permissions: tags_in_headers,
    ..Row::WRITE
};
const DELETE: Row = Row {
    resource: Resource::Blob,
    more_permissions: tags_in_headers,
    ..Row::DELETE
};
/// The base row for operations that create or replace a blob.
const CREATE: Row = Row {
    permissions: any_sas("o", "cw"),
    more_permissions: tags_and_protection,
    creates_blob: true,
    ..WRITE
};

/// The first API version with append blobs. Source: Blob service error codes,
/// `FeatureVersionMismatch`.
const APPEND_BLOBS: Option<&Since> = Some(&Since {
    version: "2015-02-21",
    status: 409,
    code: "FeatureVersionMismatch",
    message: "The operation for AppendBlob requires at least version 2015-02-21.",
});
/// The first API version with page blobs. Source: Blob service error codes,
/// `InvalidVersionForPageBlobOperation`.
const PAGE_BLOBS: Option<&Since> = Some(&Since {
    version: "2009-09-19",
    status: 400,
    code: "InvalidVersionForPageBlobOperation",
    message: "All operations on page blobs require at least version 2009-09-19.",
});

/// Inputs that Copy Blob refuses: a SAS bound to an encryption scope.
const SCOPE_OF_SAS: &[(&str, &str)] = &[("ses", "An encryption scope of this operation")];

fn copies(asked: &Asked) -> bool {
    asked.has_header("x-ms-copy-source")
}

fn waits_for_copy(asked: &Asked) -> bool {
    asked.header_is("x-ms-requires-sync", "true")
}

/// Whether the request is a Put Blob of this type. Source: Put Blob, "Request headers".
fn puts(asked: &Asked, blob_type: &str) -> bool {
    !copies(asked) && asked.header_is("x-ms-blob-type", blob_type)
}

static INDEX: LazyLock<Index<Request>> = LazyLock::new(|| Index::of(OPERATIONS));

/// The rows of all operations of the service.
pub static OPERATIONS: &[Row] = &[
    Row {
        name: "ListContainers",
        published: &["Service_ListContainersSegment"],
        resource: Resource::Service,
        comp: "list",
        permissions: account_sas("s", "l"),
        long_response: LongResponse::Always,
        reads: union(&[PAGE, INCLUDE, parameters(&["prefix"])]),
        handler: |request, _| Box::pin(list::list_containers(request)),
        ..READ
    },
    Row {
        name: "GetBlobServiceProperties",
        published: &["Service_GetProperties"],
        resource: Resource::Service,
        restype: "service",
        comp: "properties",
        permissions: account_sas("s", "r"),
        handler: |request, _| {
            let (store, context) = (&request.state.properties, &request.context);
            ready_response(properties::get_service_properties(store, context))
        },
        ..READ
    },
    Row {
        name: "SetBlobServiceProperties",
        published: &["Service_SetProperties"],
        resource: Resource::Service,
        restype: "service",
        comp: "properties",
        permissions: account_sas("s", "w"),
        body: BodyRule::Required,
        handler: |request, body| {
            let store = request.state.properties.clone();
            Box::pin(properties::set_service_properties(
                store,
                request.context,
                body,
            ))
        },
        ..WRITE
    },
    Row {
        name: "GetBlobServiceStats",
        published: &["Service_GetStatistics"],
        resource: Resource::Service,
        restype: "service",
        comp: "stats",
        secondary_only: true,
        permissions: account_sas("s", "r"),
        handler: |request, _| ready_response(properties::get_service_stats(&request.context)),
        ..READ
    },
    Row {
        name: "GetUserDelegationKey",
        published: &["Service_GetUserDelegationKey"],
        methods: &["POST"],
        resource: Resource::Service,
        restype: "service",
        comp: "userdelegationkey",
        permissions: Permissions::Token,
        body: BodyRule::Required,
        log_class: LogClass::Read,
        handler: |request, body| {
            let (services, caller) = (request.state.services.clone(), request.caller);
            let of_data_owner = request.rights.are_of_data_owner();
            Box::pin(get_user_delegation_key(
                services,
                request.context,
                caller,
                of_data_owner,
                body,
            ))
        },
        ..WRITE
    },
    Row {
        name: "GetAccountInformation",
        published: &[
            "Service_GetAccountInfo",
            "Service_GetAccountInfoWithHead",
            "Container_GetAccountInfo",
            "Container_GetAccountInfoWithHead",
            "Blob_GetAccountInfo",
            "Blob_GetAccountInfoWithHead",
        ],
        methods: &["GET", "HEAD"],
        resource: Resource::Account,
        restype: "account",
        comp: "properties",
        permissions: any_sas("sco", "rwdlacupitfxyme"),
        on_analytics_data: true,
        handler: |request, _| service::get_account_information(&request.context),
        ..READ
    },
    Row {
        name: "FindBlobsByTags",
        published: &["Service_FilterBlobs"],
        resource: Resource::Service,
        restype: ANY,
        comp: "blobs",
        permissions: any_sas("oc", "f"),
        on_analytics_data: true,
        long_response: LongResponse::Always,
        reads: union(&[PAGE, INCLUDE, parameters(&["where"])]),
        handler: |request, _| Box::pin(tags::find_blobs_by_tags(request)),
        ..READ
    },
    Row {
        name: "FindBlobsByTags",
        published: &["Container_FilterBlobs"],
        resource: Resource::Container,
        comp: "blobs",
        permissions: any_sas("oc", "f"),
        on_analytics_data: true,
        long_response: LongResponse::Always,
        reads: union(&[PAGE, INCLUDE, parameters(&["where"])]),
        handler: |request, _| Box::pin(tags::find_blobs_by_tags(request)),
        ..READ
    },
    Row {
        name: "Batch",
        published: &["Service_SubmitBatch"],
        resource: Resource::Service,
        restype: ANY,
        ..BATCH
    },
    Row {
        name: "Batch",
        published: &["Container_SubmitBatch"],
        resource: Resource::Container,
        ..BATCH
    },
    Row {
        name: "CreateContainer",
        published: &["Container_Create"],
        resource: Resource::Container,
        permissions: account_sas("c", "cw"),
        reads: union(&[METADATA, PUBLIC_ACCESS, DEFAULT_SCOPE]),
        handler: |request, _| Box::pin(container::create_container(request)),
        ..WRITE
    },
    Row {
        name: "GetContainerProperties",
        published: &["Container_GetProperties", "Container_GetPropertiesWithHead"],
        methods: &["GET", "HEAD"],
        resource: Resource::Container,
        permissions: account_sas("c", "r"),
        anonymous: Anonymous::OnPublicContainers,
        on_analytics_data: true,
        reads: LEASE,
        handler: |request, _| Box::pin(container::get_container_properties(request)),
        ..READ
    },
    Row {
        name: "GetContainerMetadata",
        methods: &["GET", "HEAD"],
        resource: Resource::Container,
        comp: "metadata",
        permissions: account_sas("c", "r"),
        anonymous: Anonymous::OnPublicContainers,
        on_analytics_data: true,
        reads: LEASE,
        handler: |request, _| Box::pin(container::get_container_properties(request)),
        ..READ
    },
    Row {
        name: "SetContainerMetadata",
        published: &["Container_SetMetadata"],
        resource: Resource::Container,
        comp: "metadata",
        permissions: account_sas("c", "w"),
        reads: union(&[METADATA, CONTAINER_CONDITIONS, LEASE]),
        handler: |request, _| Box::pin(container::set_container_metadata(request)),
        ..WRITE
    },
    Row {
        name: "GetContainerAcl",
        published: &["Container_GetAccessPolicy"],
        methods: &["GET", "HEAD"],
        resource: Resource::Container,
        comp: "acl",
        permissions: OWNER,
        on_analytics_data: true,
        log_name: LogName::Fixed("GetContainerACL"),
        reads: LEASE,
        handler: |request, _| Box::pin(container::get_container_acl(request)),
        ..READ
    },
    Row {
        name: "SetContainerAcl",
        published: &["Container_SetAccessPolicy"],
        resource: Resource::Container,
        comp: "acl",
        permissions: OWNER,
        body: BodyRule::Required,
        log_name: LogName::Fixed("SetContainerACL"),
        reads: union(&[PUBLIC_ACCESS, CONTAINER_CONDITIONS, LEASE]),
        handler: |request, body| Box::pin(container::set_container_acl(request, body)),
        ..WRITE
    },
    Row {
        name: "DeleteContainer",
        published: &["Container_Delete"],
        resource: Resource::Container,
        permissions: account_sas("c", "d"),
        reads: union(&[CONTAINER_CONDITIONS, LEASE]),
        handler: |request, _| Box::pin(container::delete_container(request)),
        ..DELETE
    },
    Row {
        name: "RestoreContainer",
        published: &["Container_Restore"],
        resource: Resource::Container,
        comp: "undelete",
        permissions: account_sas("c", "w"),
        reads: headers(&[
            "x-ms-deleted-container-name",
            "x-ms-deleted-container-version",
        ]),
        handler: |request, _| Box::pin(container::restore_container(request)),
        ..WRITE
    },
    Row {
        name: "RenameContainer",
        resource: Resource::Container,
        comp: "rename",
        // Undocumented; chosen because one name is deleted and another written.
        permissions: Permissions::Fixed(RequiredPermissions::account_only("c", All("wd"))),
        reads: headers(&["x-ms-source-container-name", "x-ms-source-lease-id"]),
        handler: |request, _| Box::pin(container::rename_container(request)),
        ..WRITE
    },
    Row {
        name: "LeaseContainer",
        published: &[
            "Container_AcquireLease",
            "Container_ReleaseLease",
            "Container_RenewLease",
            "Container_BreakLease",
            "Container_ChangeLease",
        ],
        resource: Resource::Container,
        comp: "lease",
        permissions: Permissions::ByRequest(permissions_of_container_lease),
        log_name: LogName::ByRequest(|context| {
            Some(match lease_action(context)? {
                LeaseAction::Acquire => "AcquireContainerLease",
                LeaseAction::Renew => "RenewContainerLease",
                LeaseAction::Change => "ChangeContainerLease",
                LeaseAction::Release => "ReleaseContainerLease",
                LeaseAction::Break => "BreakContainerLease",
            })
        }),
        reads: union(&[LEASE_ACTION, CONTAINER_CONDITIONS]),
        handler: |request, _| Box::pin(lease::lease_container(request)),
        ..WRITE
    },
    Row {
        name: "ListBlobs",
        published: &[
            "Container_ListBlobFlatSegment",
            "Container_ListBlobHierarchySegment",
        ],
        resource: Resource::Container,
        comp: "list",
        permissions: any_sas("c", "l"),
        more_permissions: tags_in_listing,
        anonymous: Anonymous::OnPublicContainers,
        on_analytics_data: true,
        long_response: LongResponse::Always,
        reads: union(&[
            PAGE,
            INCLUDE,
            parameters(&["delimiter", "endBefore", "prefix", "showonly", "startFrom"]),
        ]),
        handler: |request, _| Box::pin(list::list_blobs(request)),
        ..READ
    },
    Row {
        name: "CopyBlobFromUrl",
        published: &["Blob_CopyFromURL"],
        when: |asked| copies(asked) && waits_for_copy(asked),
        log_name: LogName::Fixed("CopyBlobFromURL"),
        reads: of_blob(&[COPY, SCOPE, SOURCE_CHECKSUMS, TAGS_OF_SOURCE]),
        handler: |request, _| Box::pin(copy::copy_blob_from_url(request)),
        ..CREATE
    },
    Row {
        name: "CopyBlob",
        published: &["Blob_StartCopyFromURL"],
        when: |asked| copies(asked) && !asked.has_header("x-ms-blob-type"),
        unsupported: SCOPE_OF_SAS,
        reads: of_blob(&[COPY]),
        handler: |request, _| Box::pin(copy::copy_blob(request)),
        ..CREATE
    },
    Row {
        name: "PutBlobFromUrl",
        published: &["BlockBlob_PutBlobFromUrl"],
        when: |asked| copies(asked) && asked.header_is("x-ms-blob-type", "BlockBlob"),
        log_name: LogName::Fixed("PutBlobFromURL"),
        reads: of_blob(&[
            NEW_BLOB,
            BLOB_HEADERS,
            ENCRYPTION,
            SOURCE,
            SOURCE_CHECKSUMS,
            TAGS_OF_SOURCE,
            headers(&["x-ms-copy-source-blob-properties"]),
        ]),
        handler: |request, _| Box::pin(copy::put_blob_from_url(request)),
        ..CREATE
    },
    Row {
        name: "PutBlob",
        published: &["BlockBlob_Upload"],
        when: |asked| puts(asked, "BlockBlob"),
        body: BodyRule::Required,
        reads: of_blob(&[NEW_BLOB, BLOB_HEADERS, UPLOAD]),
        handler: |request, body| Box::pin(block_blob::put_blob(request, body)),
        ..CREATE
    },
    Row {
        name: "PutAppendBlob",
        published: &["AppendBlob_Create"],
        when: |asked| puts(asked, "AppendBlob"),
        since: APPEND_BLOBS,
        log_name: LogName::Fixed("PutBlob"),
        reads: of_blob(&[NEW_BLOB, BLOB_HEADERS, ENCRYPTION]),
        handler: |request, body| Box::pin(append_blob::put_append_blob(request, body)),
        ..CREATE
    },
    Row {
        name: "PutPageBlob",
        published: &["PageBlob_Create"],
        when: |asked| puts(asked, "PageBlob"),
        since: PAGE_BLOBS,
        log_name: LogName::Fixed("PutBlob"),
        reads: of_blob(&[
            NEW_BLOB,
            BLOB_HEADERS,
            ENCRYPTION,
            PAGE_BLOB_LENGTH,
            SEQUENCE_NUMBER,
        ]),
        handler: |request, body| Box::pin(page_blob::put_page_blob(request, body)),
        ..CREATE
    },
    Row {
        name: "GetBlob",
        published: &["Blob_Download"],
        anonymous: Anonymous::OnPublicBlobs,
        on_analytics_data: true,
        reads: of_blob(&[
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
        name: "GetBlobProperties",
        published: &["Blob_GetProperties"],
        methods: &["HEAD"],
        anonymous: Anonymous::OnPublicBlobs,
        on_analytics_data: true,
        reads: of_blob(&[CONDITIONS, LEASE, CUSTOMER_KEY]),
        handler: |request, _| Box::pin(read::get_blob_properties(request)),
        ..READ
    },
    Row {
        name: "GetBlobMetadata",
        methods: &["GET", "HEAD"],
        comp: "metadata",
        anonymous: Anonymous::OnPublicBlobs,
        on_analytics_data: true,
        reads: of_blob(&[CONDITIONS, LEASE, CUSTOMER_KEY]),
        handler: |request, _| Box::pin(read::get_blob_properties(request)),
        ..READ
    },
    Row {
        name: "QueryBlobContents",
        published: &["Blob_Query"],
        methods: &["POST"],
        comp: "query",
        on_analytics_data: true,
        body: BodyRule::Required,
        reads: of_blob(&[CONDITIONS, LEASE, CUSTOMER_KEY, RANGE]),
        handler: |request, body| Box::pin(query::query_blob_contents(request, body)),
        ..READ
    },
    Row {
        name: "SetBlobProperties",
        published: &["PageBlob_Resize"],
        comp: "properties",
        when: |asked| asked.has_header("x-ms-blob-content-length"),
        reads: of_blob(&[
            PAGE_BLOB_LENGTH,
            SEQUENCE_ACTION,
            BLOB_HEADERS,
            CONDITIONS,
            LEASE,
            ENCRYPTION,
        ]),
        handler: |request, _| Box::pin(page_blob::set_page_blob_properties(request)),
        ..WRITE
    },
    Row {
        name: "SetBlobProperties",
        published: &["PageBlob_UpdateSequenceNumber"],
        comp: "properties",
        when: |asked| asked.has_header("x-ms-sequence-number-action"),
        reads: of_blob(&[SEQUENCE_ACTION, BLOB_HEADERS, CONDITIONS, LEASE]),
        handler: |request, _| Box::pin(page_blob::set_page_blob_properties(request)),
        ..WRITE
    },
    Row {
        name: "SetBlobProperties",
        published: &["Blob_SetHTTPHeaders"],
        comp: "properties",
        reads: of_blob(&[BLOB_HEADERS, CONDITIONS, LEASE]),
        handler: |request, _| Box::pin(write::set_blob_properties(request)),
        ..WRITE
    },
    Row {
        name: "SetBlobMetadata",
        published: &["Blob_SetMetadata"],
        comp: "metadata",
        reads: of_blob(&[METADATA, CONDITIONS, LEASE, ENCRYPTION]),
        handler: |request, _| Box::pin(write::set_blob_metadata(request)),
        ..WRITE
    },
    Row {
        name: "DeleteBlob",
        published: &["Blob_Delete"],
        permissions: Permissions::ByRequest(permissions_of_delete),
        on_analytics_data: true,
        reads: of_blob(&[
            CONDITIONS,
            TIER_CONDITIONS,
            LEASE,
            headers(&["x-ms-delete-snapshots"]),
            parameters(&["deletetype"]),
        ]),
        handler: |request, _| Box::pin(write::delete_blob(request)),
        ..DELETE
    },
    Row {
        name: "UndeleteBlob",
        published: &["Blob_Undelete"],
        comp: "undelete",
        reads: of_blob(&[LEASE, headers(&[lake::UNDELETE_SOURCE])]),
        handler: |request, _| Box::pin(write::undelete_blob(request)),
        ..WRITE
    },
    Row {
        name: "SnapshotBlob",
        published: &["Blob_CreateSnapshot"],
        comp: "snapshot",
        permissions: any_sas("o", "cw"),
        reads: of_blob(&[METADATA, CONDITIONS, LEASE, ENCRYPTION]),
        handler: |request, _| Box::pin(write::snapshot_blob(request)),
        ..WRITE
    },
    Row {
        name: "LeaseBlob",
        published: &[
            "Blob_AcquireLease",
            "Blob_ReleaseLease",
            "Blob_RenewLease",
            "Blob_ChangeLease",
            "Blob_BreakLease",
        ],
        comp: "lease",
        permissions: Permissions::ByRequest(permissions_of_lease),
        on_analytics_data: true,
        log_name: LogName::ByRequest(|context| {
            Some(match lease_action(context)? {
                LeaseAction::Acquire => "AcquireBlobLease",
                LeaseAction::Renew => "RenewBlobLease",
                LeaseAction::Change => "ChangeBlobLease",
                LeaseAction::Release => "ReleaseBlobLease",
                LeaseAction::Break => "BreakBlobLease",
            })
        }),
        reads: of_blob(&[LEASE_ACTION, CONDITIONS]),
        handler: |request, _| Box::pin(lease::lease_blob(request)),
        ..WRITE
    },
    Row {
        name: "PutBlockFromUrl",
        published: &["BlockBlob_StageBlockFromURL"],
        comp: "block",
        when: copies,
        permissions: Permissions::ByRequest(permissions_of_blocks),
        log_name: LogName::Fixed("PutBlockFromURL"),
        reads: of_blob(&[
            BLOCK_ID,
            LEASE,
            ENCRYPTION,
            SOURCE,
            SOURCE_CHECKSUMS,
            SOURCE_RANGE,
        ]),
        handler: |request, _| Box::pin(copy::put_block_from_url(request)),
        ..CREATE
    },
    Row {
        name: "PutBlock",
        published: &["BlockBlob_StageBlock"],
        comp: "block",
        permissions: Permissions::ByRequest(permissions_of_blocks),
        body: BodyRule::Required,
        reads: of_blob(&[BLOCK_ID, LEASE, UPLOAD]),
        handler: |request, body| Box::pin(block_blob::put_block(request, body)),
        ..CREATE
    },
    Row {
        name: "PutBlockList",
        published: &["BlockBlob_CommitBlockList"],
        comp: "blocklist",
        permissions: Permissions::ByRequest(permissions_of_blocks),
        body: BodyRule::Required,
        reads: of_blob(&[NEW_BLOB, BLOB_HEADERS, ENCRYPTION, CHECKSUMS]),
        handler: |request, body| Box::pin(block_blob::put_block_list(request, body)),
        ..CREATE
    },
    Row {
        name: "GetBlockList",
        published: &["BlockBlob_GetBlockList"],
        comp: "blocklist",
        anonymous: Anonymous::OnPublicBlobs,
        on_analytics_data: true,
        long_response: LongResponse::Always,
        reads: of_blob(&[TAG_CONDITION, LEASE, parameters(&["blocklisttype"])]),
        handler: |request, _| Box::pin(block_blob::get_block_list(request)),
        ..READ
    },
    Row {
        name: "AppendBlockFromUrl",
        published: &["AppendBlob_AppendBlockFromUrl"],
        comp: "appendblock",
        when: copies,
        since: APPEND_BLOBS,
        permissions: any_sas("o", "aw"),
        log_name: LogName::Fixed("AppendBlockThroughCopy"),
        reads: of_blob(&[
            CONDITIONS,
            APPEND_POSITION,
            BLOB_SIZE_MAX,
            LEASE,
            ENCRYPTION,
            SOURCE,
            SOURCE_CHECKSUMS,
            SOURCE_RANGE,
        ]),
        handler: |request, _| Box::pin(copy::append_block_from_url(request)),
        ..WRITE
    },
    Row {
        name: "AppendBlock",
        published: &["AppendBlob_AppendBlock"],
        comp: "appendblock",
        since: APPEND_BLOBS,
        permissions: any_sas("o", "aw"),
        body: BodyRule::Required,
        reads: of_blob(&[CONDITIONS, APPEND_POSITION, BLOB_SIZE_MAX, LEASE, UPLOAD]),
        handler: |request, body| Box::pin(append_blob::append_block(request, body)),
        ..WRITE
    },
    Row {
        name: "AppendBlobSeal",
        published: &["AppendBlob_Seal"],
        comp: "seal",
        since: APPEND_BLOBS,
        log_name: LogName::Fixed("SealBlob"),
        reads: of_blob(&[CONDITIONS, APPEND_POSITION, LEASE]),
        handler: |request, _| Box::pin(append_blob::append_blob_seal(request)),
        ..WRITE
    },
    Row {
        name: "PutPageFromUrl",
        published: &["PageBlob_UploadPagesFromURL"],
        comp: "page",
        when: copies,
        since: PAGE_BLOBS,
        log_name: LogName::Fixed("PutPageFromURL"),
        reads: of_blob(&[
            CONDITIONS,
            SEQUENCE_CONDITIONS,
            LEASE,
            ENCRYPTION,
            PAGE_WRITE,
            RANGE,
            SOURCE,
            SOURCE_CHECKSUMS,
            SOURCE_RANGE,
        ]),
        handler: |request, _| Box::pin(copy::put_page_from_url(request)),
        ..WRITE
    },
    Row {
        name: "PutPage",
        published: &["PageBlob_UploadPages", "PageBlob_ClearPages"],
        comp: "page",
        since: PAGE_BLOBS,
        body: BodyRule::Required,
        log_name: LogName::ByRequest(|context| {
            let clears = context.header("x-ms-page-write").as_deref() == Some("clear");
            Some(if clears { "ClearPage" } else { "PutPage" })
        }),
        reads: of_blob(&[
            CONDITIONS,
            SEQUENCE_CONDITIONS,
            LEASE,
            UPLOAD,
            PAGE_WRITE,
            RANGE,
        ]),
        handler: |request, body| Box::pin(page_blob::put_page(request, body)),
        ..WRITE
    },
    Row {
        name: "GetPageRanges",
        published: &["PageBlob_GetPageRanges", "PageBlob_GetPageRangesDiff"],
        comp: "pagelist",
        since: PAGE_BLOBS,
        anonymous: Anonymous::OnPublicBlobs,
        long_response: LongResponse::Always,
        log_name: LogName::Fixed("GetPageRegions"),
        reads: of_blob(&[
            CONDITIONS,
            LEASE,
            RANGE,
            PAGE,
            headers(&["x-ms-previous-snapshot-url"]),
            parameters(&["prevsnapshot"]),
        ]),
        handler: |request, _| Box::pin(page_blob::get_page_ranges(request)),
        ..READ
    },
    Row {
        name: "IncrementalCopyBlob",
        published: &["PageBlob_CopyIncremental"],
        comp: "incrementalcopy",
        unsupported: SCOPE_OF_SAS,
        reads: union(&[CONDITIONS, LEASE, headers(&["x-ms-copy-source"])]),
        handler: |request, _| Box::pin(copy::incremental_copy_blob(request)),
        ..CREATE
    },
    Row {
        name: "AbortCopyBlob",
        published: &["Blob_AbortCopyFromURL"],
        comp: "copy",
        reads: of_blob(&[
            LEASE,
            headers(&["x-ms-copy-action"]),
            parameters(&["copyid"]),
        ]),
        handler: |request, _| Box::pin(copy::abort_copy_blob(request)),
        ..WRITE
    },
    Row {
        name: "SetBlobTier",
        published: &["Blob_SetTier"],
        comp: "tier",
        reads: of_blob(&[TIER, REHYDRATION, TAG_CONDITION, LEASE]),
        handler: |request, _| Box::pin(tier::set_blob_tier(request)),
        ..WRITE
    },
    Row {
        name: "GetBlobTags",
        published: &["Blob_GetTags"],
        comp: "tags",
        permissions: any_sas("o", "t"),
        on_analytics_data: true,
        reads: of_blob(&[TAG_CONDITION, BLOB_CONDITIONS, LEASE]),
        handler: |request, _| Box::pin(tags::get_blob_tags(request)),
        ..READ
    },
    Row {
        name: "SetBlobTags",
        published: &["Blob_SetTags"],
        comp: "tags",
        permissions: any_sas("o", "t"),
        body: BodyRule::Required,
        reads: of_blob(&[TAG_CONDITION, BLOB_CONDITIONS, LEASE, CHECKSUMS]),
        handler: |request, body| Box::pin(tags::set_blob_tags(request, body)),
        ..WRITE
    },
    Row {
        name: "SetBlobImmutabilityPolicy",
        published: &["Blob_SetImmutabilityPolicy"],
        comp: "immutabilitypolicies",
        permissions: any_sas("o", "i"),
        reads: of_blob(&[IMMUTABILITY_POLICY, headers(&["if-unmodified-since"])]),
        handler: |request, _| Box::pin(immutability::set_blob_immutability_policy(request)),
        ..WRITE
    },
    Row {
        name: "DeleteBlobImmutabilityPolicy",
        published: &["Blob_DeleteImmutabilityPolicy"],
        comp: "immutabilitypolicies",
        permissions: any_sas("o", "i"),
        reads: of_blob(&[]),
        handler: |request, _| Box::pin(immutability::delete_blob_immutability_policy(request)),
        ..DELETE
    },
    Row {
        name: "SetBlobLegalHold",
        published: &["Blob_SetLegalHold"],
        comp: "legalhold",
        permissions: any_sas("o", "i"),
        reads: of_blob(&[LEGAL_HOLD]),
        handler: |request, _| Box::pin(immutability::set_blob_legal_hold(request)),
        ..WRITE
    },
    Row {
        name: "SetBlobExpiry",
        published: &["Blob_SetExpiry"],
        comp: "expiry",
        reads: of_blob(&[
            CONDITIONS,
            LEASE,
            headers(&["x-ms-expiry-option", "x-ms-expiry-time"]),
        ]),
        handler: |request, _| Box::pin(immutability::set_blob_expiry(request)),
        ..WRITE
    },
];

/// Base row of a batch. Each request in it has its own credentials.
const BATCH: Row = Row {
    methods: &["POST"],
    comp: "batch",
    permissions: any_sas("sco", "rwdlacupitfxyme"),
    on_analytics_data: true,
    body: BodyRule::Required,
    log_name: LogName::Fixed("BlobBatch"),
    handler: |request, body| Box::pin(batch::batch(request, body)),
    ..WRITE
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseAction {
    Acquire,
    Renew,
    Change,
    Release,
    Break,
}

/// The action of a lease operation, for its name in logs. `None` for unknown actions: the header is
/// arbitrary text, which must not get into the name.
fn lease_action(context: &Context) -> Option<LeaseAction> {
    let action = context.header("x-ms-lease-action")?.to_ascii_lowercase();
    match &*action {
        "acquire" => Some(LeaseAction::Acquire),
        "renew" => Some(LeaseAction::Renew),
        "change" => Some(LeaseAction::Change),
        "release" => Some(LeaseAction::Release),
        "break" => Some(LeaseAction::Break),
        _ => None,
    }
}

/// The operation that a request asks for, and the decoded names in its path. A name that the path
/// lacks is empty.
pub struct Route {
    pub operation: &'static Row,
    pub container: String,
    pub blob: String,
}

/// Finds the operation of a request, and the names that it addresses.
pub fn route(context: &Context) -> Result<Route> {
    let (container, mut blob) = blob_names(context)?;
    let operation = if context.speaks_data_lake && context.hierarchical {
        blob = normalized(&blob);
        lake::operation(context, &container, &blob)?
    } else {
        operation(context, &container, &blob)?
    };
    operation.check_version(&context.version)?;
    // Names in the root container have no slash. Source: Working with the root container.
    if container == "$root" && blob.contains('/') && operation.creates_blob {
        return Err(common::INVALID_URI.into());
    }
    Ok(Route {
        operation,
        container,
        blob,
    })
}

fn operation(context: &Context, container: &str, blob: &str) -> Result<&'static Row> {
    if !is_known(&context.method) {
        let message = "The HTTP verb specified was not recognized by the server.";
        return Err(Failure::new(400, "InvalidHttpVerb", message));
    }
    data_lake::refuse(context)?;
    let (comp, mut restype) = (context.comp(), context.restype());
    azure_files::refuse(&restype)?;
    let resource = resource(container, blob, &restype, &comp)?;
    if resource == Resource::Container {
        restype.clear();
    }
    let asked = Asked {
        method: context.method.as_str(),
        resource,
        restype: &restype,
        comp: &comp,
        header: &|name| context.header(name),
        parameter: &|name| context.query.get(name),
    };
    let row = INDEX
        .find(&asked)
        .map_err(|unmatched| refusal(unmatched, &asked, context))?;
    if row.secondary_only {
        properties::check_secondary(context)?;
    }
    Ok(row)
}

fn resource(container: &str, blob: &str, restype: &str, comp: &str) -> Result<Resource> {
    if restype == "account" && comp == "properties" {
        return Ok(Resource::Account);
    }
    match (container, blob, restype) {
        ("", ..) => Ok(Resource::Service),
        (_, "", "" | "container") => Ok(Resource::Container),
        (_, "", _) => Err(other_restype(restype)),
        (.., "") => Ok(Resource::Blob),
        _ => Err(other_restype(restype)),
    }
}

fn other_restype(restype: &str) -> Failure {
    let reason = "The path names a resource of another type.";
    Failure::parameter("restype", restype, reason)
}

fn refusal(unmatched: Unmatched, asked: &Asked, context: &Context) -> Failure {
    let reason = match asked.resource {
        Resource::Service => "The account has no such operation.",
        Resource::Container => "A container has no such operation.",
        _ => "A blob has no such operation.",
    };
    match unmatched {
        Unmatched::Comp => Failure::parameter("comp", asked.comp, reason),
        Unmatched::Method => common::UNSUPPORTED_HTTP_VERB.into(),
        // A Put Blob or a copy whose blob type is missing or unknown.
        Unmatched::Condition => match context.required_header("x-ms-blob-type") {
            Ok(blob_type) => Failure::header("x-ms-blob-type", blob_type),
            Err(missing) => missing,
        },
    }
}

/// True for the methods that HTTP defines, whether or not a resource supports them.
fn is_known(method: &Method) -> bool {
    use Method as M;
    [
        M::GET,
        M::HEAD,
        M::PUT,
        M::POST,
        M::DELETE,
        M::OPTIONS,
        M::PATCH,
        M::TRACE,
        M::CONNECT,
    ]
    .contains(method)
}
