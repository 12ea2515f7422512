//! The observer that hands finished requests to the advisor (crate `lazurite-advisor`), and the
//! pages that show its advice.
//!
//! Most facts are in the heads of a request and its answer. If a rule needs a fact that only the
//! handler knows, the handler adds the fact to the response ([`note`]).

mod pages;

pub use pages::{Page, answer, answer_owner, heat_map, report};

use crate::observer::{Answer, End, ExchangeFacts, Observer, Routing};
use crate::table::address::Address;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONTENT_LENGTH, HeaderMap, IF_MATCH, LOCATION};
use lazurite_advisor::rules::{LARGE_BYTES, LARGE_PROPERTIES, RETURN_DEQUEUE_COUNT};
use lazurite_advisor::{
    Advice, Advisor, Delivered, EntitySize, Keys, QueryFacts, Request, Service,
};
use lazurite_protocol::auth::Caller;
use lazurite_protocol::request::context::{Context, ServiceKind, decode};
use lazurite_table::Entity;

/// A request in which this header is `ignore` is not watched. Tools that measure a store send it,
/// and so get no advice about their own reads.
pub const HEADER: &str = "x-lazurite-advisor";

/// A sampled request that is being served.
#[derive(Debug)]
pub struct Watched {
    /// The number of requests that the sample stands for.
    weight: u32,
    request: Request,
    /// The request has no credentials. It is not counted if its status is 400 or more: anonymous
    /// callers must not displace watched resources.
    is_anonymous: bool,
}

/// The writes of a transaction. Only the handler knows them.
#[derive(Debug, Clone)]
pub struct TransactionFacts {
    pub table: String,
    pub partition_key: String,
    pub entities: u32,
    /// Empty unless a recorder is active.
    pub row_keys: Vec<String>,
    /// The status of the write that the store refused, and the whole transaction with it. The
    /// answer has a status of success.
    pub refused: Option<u16>,
}

/// The partition in which a page of a query examined the most rows. Only the handler knows it.
#[derive(Debug, Clone)]
pub struct BusiestPartition {
    pub key: String,
    pub rows: u64,
}

/// Minimum number of rows a page must examine in a partition before the partition is reported.
const BUSY_ROWS: u32 = 100;

/// The partition to report to the advisor; `None` if few of its rows were examined.
pub fn busiest(partition: Option<(String, u32)>) -> Option<BusiestPartition> {
    let (key, rows) = partition.filter(|(_, rows)| *rows >= BUSY_ROWS)?;
    let rows = rows.into();
    Some(BusiestPartition { key, rows })
}

/// Leaves a fact in the response for the advisor.
pub fn note<T: Clone + Send + Sync + 'static>(response: &mut Response<Body>, fact: Option<T>) {
    if let Some(fact) = fact {
        response.extensions_mut().insert(fact);
    }
}

/// Entities with fewer properties cannot be large: a value has at most 64 KiB and a name 510 bytes.
const LARGE_PROPERTIES_MIN: usize = LARGE_BYTES as usize / (66 * 1024);

/// The size of an entity; `None` if it is not near a limit.
pub fn large_entity(entity: &Entity) -> Option<EntitySize> {
    if entity.properties.len() < LARGE_PROPERTIES_MIN {
        return None;
    }
    let size = EntitySize {
        bytes: lazurite_table::entity_bytes(entity) as u64,
        properties: entity.properties.len() as u32,
    };
    (size.bytes >= LARGE_BYTES || size.properties >= LARGE_PROPERTIES).then_some(size)
}

/// The facts of a Get Messages for the advisor, if no message was delivered or one was dequeued
/// [`RETURN_DEQUEUE_COUNT`] times or more. `None` otherwise.
pub fn delivered(dequeue_counts: impl ExactSizeIterator<Item = u32>) -> Option<Delivered> {
    let messages = dequeue_counts.len() as u32;
    let dequeue_count_max = dequeue_counts.max().unwrap_or_default();
    (messages == 0 || dequeue_count_max >= RETURN_DEQUEUE_COUNT).then_some(Delivered {
        messages,
        dequeue_count_max,
    })
}

impl Observer for Box<Watched> {
    type Sink = Advisor;

    /// The facts in the head of a request; `None` if the advisor does not watch the request.
    fn authenticated(
        _: Option<Self>,
        advisor: &Advisor,
        exchange: &ExchangeFacts,
        routing: &Routing<'_>,
        caller: &Caller,
    ) -> Option<Self> {
        if exchange.is_own {
            return None;
        }
        let (context, operation) = (routing.context, routing.operation?);
        let wish = context.headers.get(HEADER);
        if wish.is_some_and(|wish| wish == "ignore") {
            return None;
        }
        let weight = advisor.sample(context.now)?;
        let service = match context.service {
            ServiceKind::Blob => Service::Blob,
            ServiceKind::Queue => Service::Queue,
            ServiceKind::Table => Service::Table,
        };
        let mut request = Request::new(service, operation.name, context.now);
        request.id.clone_from(&context.request_id);
        request.account.clone_from(&context.account);
        request.fork.clone_from(&context.fork);
        request.request_bytes = number(&context.headers, CONTENT_LENGTH.as_str());
        let etag = context.headers.get(IF_MATCH.as_str());
        request.is_any_etag = etag.is_some_and(|etag| etag == "*");
        request.is_conditional = etag.is_some() && !request.is_any_etag;
        if service == Service::Table {
            read_table(context, &mut request);
        } else {
            read_path(context, &mut request);
        }
        Some(Box::new(Watched {
            weight,
            request,
            is_anonymous: matches!(caller, Caller::Anonymous),
        }))
    }

    /// Adds the facts of the answer's head.
    fn answered(&mut self, _: &Advisor, exchange: &ExchangeFacts, answer: &mut Answer) -> bool {
        let request = &mut self.request;
        // Excludes the time that the client takes to receive the answer.
        request.duration = exchange.answered_after;
        request.status = exchange.status.as_u16();
        if matches!(request.status, 401 | 403) || (self.is_anonymous && request.status >= 400) {
            return false;
        }
        let facts = answer.extensions_mut();
        request.entity = facts.remove();
        request.delivered = facts.remove();
        if request.operation == "GetMessages" && request.is_success() {
            request.delivered.get_or_insert(Delivered {
                messages: 1,
                dequeue_count_max: 1,
            });
        }
        if let Some(transaction) = facts.remove::<TransactionFacts>() {
            request.resource = transaction.table;
            request.transaction_entities = transaction.entities;
            request.transaction_rows = transaction.row_keys;
            request.refused = transaction.refused;
            request.keys = Some(Keys {
                partition: transaction.partition_key,
                row: String::new(),
            });
        }
        let busiest = facts.remove::<BusiestPartition>();
        let headers = answer.headers();
        if let Some(query) = &mut request.query {
            query.plan = text(headers, "x-lazurite-plan").to_owned();
            query.azure_plan = text(headers, "x-lazurite-azure-plan").to_owned();
            query.examined = number(headers, "x-lazurite-examined");
            query.returned = number(headers, "x-lazurite-returned");
            let rows = text(headers, "x-lazurite-azure-examined");
            // A tilde before the number marks an estimate.
            let rows = rows.trim_start_matches('~').parse();
            query.azure_examined = rows.unwrap_or_default();
            query.busiest = busiest.map(|BusiestPartition { key, rows }| (key, rows));
        }
        if request.operation == "InsertEntity" && request.keys.is_none() {
            request.keys = inserted_keys(text(headers, LOCATION.as_str()), &request.resource);
        }
        true
    }

    /// Hands the request to the advisor. Writes new advice into the log.
    fn ended(mut self, advisor: &Advisor, _: &ExchangeFacts, end: &End) {
        self.request.response_bytes = end.sent;
        log_new(&advisor.observe(self.weight, self.request));
    }
}

/// Logs one line for each new piece of advice.
fn log_new(new: &[Advice]) {
    for advice in new {
        let finding = advice.finding.escape_debug();
        let resource = advice.resource.escape_debug();
        tracing::warn!(
            rule = advice.rule,
            service = advice.service.label(),
            account = advice.account,
            "advice on {resource}: {finding}. See GET /_lazurite/advice"
        );
    }
}

/// Reads the table, the keys and the query from the resource of a request.
fn read_table(context: &Context, request: &mut Request) {
    let Ok(address) = Address::parse(&context.resource) else {
        return;
    };
    let is_entity = matches!(address, Address::Entity(..));
    let (table, keys) = address.names();
    request.resource = table;
    if is_entity {
        request.keys = Some(Keys {
            partition: keys.partition_key,
            row: keys.row_key,
        });
    }
    if request.operation == "QueryEntities" {
        let select = context.query.get("$select");
        request.query = Some(QueryFacts {
            filter: context.query.get("$filter"),
            is_continuation: context.query.has("NextPartitionKey"),
            top: context.query.get("$top").and_then(|top| top.parse().ok()),
            has_projection: select.is_some_and(|names| !matches!(names.trim(), "" | "*")),
            ..QueryFacts::default()
        });
    }
}

/// Reads the queue, or the container and the blob, from the resource of a request.
fn read_path(context: &Context, request: &mut Request) {
    let (resource, rest) = match context.resource.split_once('/') {
        Some((resource, rest)) => (resource, Some(rest)),
        None => (context.resource.as_str(), None),
    };
    request.resource = decode(resource).into_owned();
    if context.service == ServiceKind::Blob {
        request.blob = rest
            .filter(|name| !name.is_empty())
            .map(|name| decode(name).into_owned());
    }
}

/// The keys of an inserted entity, from the address in its `Location` header.
fn inserted_keys(location: &str, table: &str) -> Option<Keys> {
    let at = location.find(&format!("/{table}("))?;
    match Address::parse(&location[at + 1..]) {
        Ok(Address::Entity(_, keys)) => Some(Keys {
            partition: keys.partition_key,
            row: keys.row_key,
        }),
        _ => None,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// The whole number in a header; 0 if the header is absent or malformed.
fn number(headers: &HeaderMap, name: &str) -> u64 {
    text(headers, name).parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_an_inserted_entity_are_read_from_its_address() {
        let location = "http://h:1/a/T(PartitionKey='O''Neil%2F',RowKey='r')";
        let keys = inserted_keys(location, "T").unwrap();
        assert_eq!(
            (keys.partition.as_str(), keys.row.as_str()),
            ("O'Neil/", "r")
        );
        assert_eq!(inserted_keys("", "T"), None);
    }

    #[test]
    fn deliveries_without_news_are_not_noted() {
        assert_eq!(delivered([1, 2].into_iter()), None);
        assert_eq!(delivered([].into_iter()).unwrap().messages, 0);
        assert_eq!(delivered([1, 9].into_iter()).unwrap().dequeue_count_max, 9);
    }

    #[test]
    fn documentation_has_every_rule() {
        const PAGE: &str = include_str!("../../../docs/advisor.md");
        let rules = lazurite_advisor::rules::markdown();
        assert!(
            PAGE.contains(&rules),
            "docs/advisor.md should contain:\n{rules}"
        );
    }

    #[test]
    fn numbers_in_headers_are_whole_or_nothing() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("a", "17"), ("b", "-1"), ("c", "many"), ("d", "")] {
            headers.insert(name, value.parse().unwrap());
        }
        let numbers = ["a", "b", "c", "d", "e"].map(|name| number(&headers, name));
        assert_eq!(numbers, [17, 0, 0, 0, 0]);
    }
}
