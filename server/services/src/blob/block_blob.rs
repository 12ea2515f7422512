//! Put Blob, Put Block and the operations on block lists.

use crate::blob::checksums::{check_document, claimed, put_checksums};
use crate::blob::conditions::optional_id;
use crate::blob::encryption;
use crate::blob::header_text;
use crate::blob::lake::{marks_directory, put_directory};
use crate::blob::request::Request;
use crate::blob::upload::{check_before_body, is_structured, put_structure, receive};
use crate::blob::validators::with_validators;
use crate::blob::write::{
    blob_headers, check_md5_of_content, overwrite_refused, refuse_overwrite, settings,
};
use crate::request::body::{RequestBody, collect, parsed};
use axum::body::Body;
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{
    BlobBlock, BlobHeaders, BlobService, BlockChoice, BlockList, BlockListType, BlockSource,
    COMMITTED_BLOCKS_MAX, Checksums, Conditions, PutBlob, PutBlobOutcome, PutBlockList,
    PutBlockOutcome, UploadKind, Written,
};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::request::metadata::metadata;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{empty, put, xml};
use lazurite_protocol::xml::{self as xml_codec, Writer};

/// Enough for 50,000 ids of 64 bytes with their markup.
const BLOCK_LIST_BYTES_MAX: usize = 8 << 20;

/// Length in bytes of the shortest element of a block list.
const CHOICE_BYTES_MIN: usize = "<Latest>AA==</Latest>".len();

pub async fn put_blob(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    check_md5_of_content(&request)?;
    let (headers, conditions) = (
        headers_of_new_blob(&request)?,
        conditions_of_new_blob(&request)?,
    );
    let (metadata, create_only) = (metadata(&request.context)?, request.is_create_only());
    let settings = settings(&request)?;
    let structured = is_structured(&request);
    let makes_directory = request.context.hierarchical && marks_directory(&metadata);
    check_before_body(&request, &body, UploadKind::PutBlob, &conditions).await?;
    let upload = receive(&request, body, UploadKind::PutBlob).await?;
    let call = move |blobs: &BlobService, r: &Request| {
        if makes_directory && upload.length() == 0 {
            match put_directory(blobs, r, &headers, &metadata, &conditions) {
                Err(lazurite_blob::Error::NotHierarchical) => {}
                outcome => {
                    let (written, ticket) = outcome?;
                    let checksums = Checksums::default();
                    return Ok((PutBlobOutcome { written, checksums }, ticket));
                }
            }
        }
        let put = PutBlob {
            upload,
            headers,
            metadata,
            conditions,
            settings,
        };
        blobs.put_blob(&r.address(), put)
    };
    let outcome = request.write(call).await;
    let (outcome, ticket) = outcome.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    let mut response = with_validators(empty(201), &outcome.written);
    put_checksums(&mut response, &outcome.checksums);
    put_structure(&mut response, structured);
    Ok(response)
}

/// The headers of a new blob. A plain header, such as `content-type`, is used if the `x-ms-blob-`
/// one is absent. Source: Put Blob.
pub fn headers_of_new_blob(request: &Request) -> Result<BlobHeaders> {
    let plain = |name: &str| header_text::sent(&request.context, name);
    let headers = blob_headers(request)?;
    Ok(BlobHeaders {
        content_type: headers.content_type.or_else(|| plain("content-type")),
        content_encoding: headers
            .content_encoding
            .or_else(|| plain("content-encoding")),
        content_language: headers
            .content_language
            .or_else(|| plain("content-language")),
        cache_control: headers.cache_control.or_else(|| plain("cache-control")),
        ..headers
    })
}

/// The conditions under which a request may create or replace a blob.
pub fn conditions_of_new_blob(request: &Request) -> Result<Conditions> {
    let conditions = request.conditions()?;
    let must_be_new = request.is_create_only();
    if must_be_new && conditions.if_match.is_some() {
        return Err(overwrite_refused());
    }
    Ok(Conditions {
        must_be_new,
        ..conditions
    })
}

pub async fn put_block(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let id = block_id(&request.context.required_parameter("blockid")?)?;
    let (conditions, create_only) = (conditions_of_block(&request)?, request.is_create_only());
    let structured = is_structured(&request);
    check_before_body(&request, &body, UploadKind::PutBlock, &conditions).await?;
    let upload = receive(&request, body, UploadKind::PutBlock).await?;
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.put_block(&r.address(), &id, upload, &conditions)
    };
    let outcome = request.write(call).await;
    let (outcome, ticket) = outcome.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    let mut response = staged(outcome);
    put_structure(&mut response, structured);
    Ok(response)
}

/// The response to a staged block, whatever the source of its content.
pub fn staged(outcome: PutBlockOutcome) -> Response<Body> {
    let mut response = empty(201);
    put_checksums(&mut response, &outcome.checksums);
    if let Some(scope) = outcome.encryption_scope {
        put(&mut response, encryption::SCOPE, scope);
    }
    response
}

/// The conditions of Put Block, which has no conditional headers (Source: Put Block, "Request
/// headers"). A caller that may only create blobs must not stage a block of an existing blob:
/// another client's commit could include it.
pub fn conditions_of_block(request: &Request) -> Result<Conditions> {
    let context = &request.context;
    Ok(Conditions {
        must_be_new: request.is_create_only(),
        lease_id: optional_id(context, "x-ms-lease-id")?,
        encryption_scope: encryption::scope(context)?,
        ..Conditions::default()
    })
}

pub async fn put_block_list(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let (headers, conditions) = (blob_headers(&request)?, conditions_of_new_blob(&request)?);
    let (metadata, settings) = (metadata(&request.context)?, settings(&request)?);
    let create_only = request.is_create_only();
    let claimed = claimed(&request)?;
    check_before_body(&request, &body, UploadKind::PutBlob, &conditions).await?;
    let document = collect(body, BLOCK_LIST_BYTES_MAX).await?;
    let read = move |document: &[u8]| {
        let checksums = check_document(&claimed, document)?;
        Ok((block_choices(document)?, checksums))
    };
    let (blocks, checksums) = parsed(document, read).await?;
    let call = move |blobs: &BlobService, r: &Request| {
        let put = PutBlockList {
            blocks,
            headers,
            metadata,
            conditions,
            settings,
        };
        blobs.put_block_list(&r.address(), put)
    };
    let outcome = request.change(call).await;
    let (written, ticket) = outcome.map_err(|failure| refuse_overwrite(failure, create_only))?;
    ticket.await?;
    let mut response = with_validators(empty(201), &written);
    put_checksums(&mut response, &checksums);
    Ok(response)
}

/// Reads the blocks of the document, in the order that they will have in the content. Source: Put
/// Block List, "Request body".
fn block_choices(document: &[u8]) -> Result<Vec<BlockChoice>> {
    // Reserves once: a vector that grows needs up to three times the memory while it is copied.
    let room = COMMITTED_BLOCKS_MAX.min(document.len() / CHOICE_BYTES_MIN);
    let mut choices = Vec::with_capacity(room);
    xml_codec::read_list(document, "BlockList", |name, text| -> Result<()> {
        let source = match name {
            "Committed" => BlockSource::Committed,
            "Uncommitted" => BlockSource::Uncommitted,
            "Latest" => BlockSource::Latest,
            _ => return Err(common::INVALID_XML_DOCUMENT.into()),
        };
        if choices.len() == COMMITTED_BLOCKS_MAX {
            let limit = COMMITTED_BLOCKS_MAX;
            return Err(lazurite_blob::Error::BlockListTooLong { limit }.into());
        }
        let id = STANDARD
            .decode(text.trim())
            .ok()
            .filter(|id| !id.is_empty())
            .ok_or(Failure::from(lazurite_blob::Error::InvalidBlockList))?;
        choices.push(BlockChoice { source, id });
        Ok(())
    })?;
    Ok(choices)
}

pub fn block_id(text: &str) -> Result<Vec<u8>> {
    // An unencoded plus was decoded to a space.
    let decoded = STANDARD.decode(text.replace(' ', "+"));
    decoded.map_err(|_| Failure::parameter("blockid", text, "Not a valid base64 string."))
}

pub async fn get_block_list(request: Box<Request>) -> Result<Response<Body>> {
    let list_type = block_list_type(&request.context)?;
    // Of the conditions, this operation uses only the lease and the tags.
    let all = request.conditions()?;
    let conditions = Conditions {
        lease_id: all.lease_id,
        if_tags: all.if_tags,
        ..Conditions::default()
    };
    let call = move |blobs: &BlobService, r: &Request| {
        let list = blobs.get_block_list(&r.address(), list_type, &conditions)?;
        // Written on the blocking pool, because a list may be long.
        Ok((block_list_document(&list, list_type), list.blob))
    };
    let (document, blob) = request.call(call).await?;
    let mut response = xml(200, document);
    let length = blob.as_ref().map_or(0, |blob| blob.length);
    if let Some(blob) = &blob {
        response = with_validators(
            response,
            &Written {
                etag: blob.etag,
                last_modified: blob.last_modified,
                version: None,
                encryption_scope: None,
            },
        );
    }
    put(
        &mut response,
        "x-ms-blob-content-length",
        length.to_string(),
    );
    Ok(response)
}

/// The kind of block list. Source: Get Block List, "URI parameters".
fn block_list_type(context: &Context) -> Result<BlockListType> {
    let name = "blocklisttype";
    let text = context.query.get(name).unwrap_or_default();
    match text.to_ascii_lowercase().as_str() {
        "" | "committed" => Ok(BlockListType::Committed),
        "uncommitted" => Ok(BlockListType::Uncommitted),
        "all" => Ok(BlockListType::All),
        _ => {
            let reason = "It is none of committed, uncommitted, all.";
            Err(Failure::parameter(name, text, reason))
        }
    }
}

fn block_list_document(list: &BlockList, list_type: BlockListType) -> String {
    let mut document = Writer::new();
    document.open("BlockList");
    if list_type != BlockListType::Uncommitted {
        write_blocks(&mut document, "CommittedBlocks", &list.committed);
    }
    if list_type != BlockListType::Committed {
        write_blocks(&mut document, "UncommittedBlocks", &list.uncommitted);
    }
    document.close("BlockList");
    document.finish()
}

fn write_blocks(document: &mut Writer, name: &str, blocks: &[BlobBlock]) {
    document.open(name);
    for block in blocks {
        document.open("Block");
        document.element("Name", &STANDARD.encode(&block.id));
        document.element("Size", &block.length.to_string());
        document.close("Block");
    }
    document.close(name);
}
