//! Operations on queues.

use crate::connection::blocking_pool::{self, on_blocking_pool};
use crate::faults::targets::Named;
use crate::queue::request::{Request, write};
use crate::request::body::RequestBody;
use crate::request::policies::collect_policies;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::CACHE_CONTROL;
use lazurite_protocol::policies;
use lazurite_protocol::request::metadata::metadata;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{
    empty, put, put_metadata, put_static, write_metadata, xml,
};
use lazurite_protocol::response::listed_urls::ListedUrls;
use lazurite_protocol::xml::Writer;
use lazurite_queue::{Creation, ListQueues, QueuePage};

pub async fn list_queues(request: Box<Request>) -> Result<Response<Body>> {
    let parameter = |name| request.context.query.get(name).unwrap_or_default();
    let (prefix, marker, include) = (
        parameter("prefix"),
        parameter("marker"),
        request.context.query.joined("include"),
    );
    let with_metadata = includes_metadata(&include)?;
    let maxresults = request.context.integer("maxresults")?;
    // Writing a page of thousands of entries takes as long as reading it, so both run on the
    // blocking pool.
    on_blocking_pool(move || {
        let wanted = ListQueues {
            prefix: &prefix,
            marker: &marker,
            maxresults,
        };
        let page = request
            .state
            .services
            .queues
            .list_queues(request.account(), wanted.clone())?;
        let document = queues_document(&page, &request, &wanted, with_metadata);
        Ok(xml(200, document))
    })
    .await
}

/// The response document. Source: List Queues, "Response body".
fn queues_document(
    page: &QueuePage,
    request: &Request,
    wanted: &ListQueues<'_>,
    with_metadata: bool,
) -> String {
    let said = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let mut document = Writer::new();
    let urls = ListedUrls::of(&request.context);
    urls.open(&mut document, None);
    document.optional("Prefix", said(wanted.prefix).as_deref());
    document.optional("Marker", said(wanted.marker).as_deref());
    let maxresults = wanted.maxresults.map(|number| number.to_string());
    document.optional("MaxResults", maxresults.as_deref());
    document.open("Queues");
    for queue in &page.queues {
        document.open("Queue");
        document.element("Name", &queue.name);
        document.optional("Url", urls.of_resource(&queue.name).as_deref());
        if with_metadata {
            write_metadata(&mut document, &queue.metadata);
        }
        document.close("Queue");
    }
    document.close("Queues");
    document.element("NextMarker", page.next_marker.as_deref().unwrap_or(""));
    document.close("EnumerationResults");
    document.finish()
}

/// Whether `include` has `metadata`. Source: List Queues, "URI parameters".
fn includes_metadata(include: &str) -> Result<bool> {
    let items = include.split(',').map(str::trim);
    let mut items = items.filter(|item| !item.is_empty()).peekable();
    let includes_any = items.peek().is_some();
    let unknown = items.find(|item| !item.eq_ignore_ascii_case("metadata"));
    let reason = "There is nothing of that name to include.";
    unknown.map_or(Ok(includes_any), |item| {
        Err(Failure::parameter("include", item, reason))
    })
}

pub async fn create_queue(request: Box<Request>) -> Result<Response<Body>> {
    let metadata = metadata(&request.context)?;
    if let Some(meter) = request.state.services.meter() {
        meter.check_free(Named::Queue, request.account(), &request.queue)?;
    }
    let db = request.state.services.writers.clone();
    let work = move || {
        let queues = &request.state.services.queues;
        Ok(queues.create_queue(request.account(), &request.queue, metadata)?)
    };
    let (creation, ticket) = blocking_pool::write(&db, work).await?;
    ticket.await?;
    Ok(empty(match creation {
        Creation::Created => 201,
        Creation::AlreadyThere => 204,
    }))
}

pub async fn delete_queue(request: Box<Request>) -> Result<Response<Body>> {
    let (state, account, queue) = (
        request.state.clone(),
        request.account().to_owned(),
        request.queue.clone(),
    );
    let deleted = write(request, |queues, r| {
        queues.delete_queue(r.account(), &r.queue)
    })
    .await?;
    if let Some(meter) = state.services.meter() {
        meter.note_deleted(Named::Queue, &account, &queue);
    }
    Ok(deleted)
}

pub async fn get_queue_metadata(request: Box<Request>) -> Result<Response<Body>> {
    let work = move || {
        Ok(request
            .state
            .services
            .queues
            .get_queue_metadata(request.account(), &request.queue)?)
    };
    let properties = on_blocking_pool(work).await?;
    let mut response = empty(200);
    put_metadata(&mut response, &properties.metadata);
    put(
        &mut response,
        "x-ms-approximate-messages-count",
        properties.approximate_message_count.to_string(),
    );
    put_static(&mut response, CACHE_CONTROL, "no-cache");
    Ok(response)
}

pub async fn set_queue_metadata(request: Box<Request>) -> Result<Response<Body>> {
    let metadata = metadata(&request.context)?;
    write(request, move |queues, r| {
        queues.set_queue_metadata(r.account(), &r.queue, metadata)
    })
    .await
}

pub async fn get_queue_acl(request: Box<Request>) -> Result<Response<Body>> {
    let queues = &request.state.services.queues;
    let policies =
        blocking_pool::read(|| Ok(queues.get_queue_acl(request.account(), &request.queue)?))?;
    let mut response = xml(200, policies::write(&policies));
    put_static(&mut response, CACHE_CONTROL, "no-cache");
    Ok(response)
}

pub async fn set_queue_acl(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let policies = collect_policies(body).await?;
    write(request, move |queues, r| {
        queues.set_queue_acl(r.account(), &r.queue, policies)
    })
    .await
}
