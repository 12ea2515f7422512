//! A request between the steps of the pipeline, and the facts for its response.

use crate::app::App;
use crate::connection::HeaderNames;
use crate::connection::framing::RawHead;
use crate::connection::listener::Client;
use crate::faults::Ending;
use crate::memory::MemoryGrant;
use crate::observer::ExchangeFacts;
use crate::pages;
use crate::pipeline::observers::Observers;
use crate::request::body::{Reception, RequestBody};
use crate::state::{Store, StoreGuard};
use axum::body::Body;
use axum::http::header::{ACCEPT, HeaderName, HeaderValue, ORIGIN, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use lazurite_protocol::properties::ServiceProperties;
use lazurite_protocol::request::context::{self, ApiVersion, ServiceKind};
use lazurite_protocol::request::data_lake::RENAME_SOURCE;
use lazurite_protocol::response::common_headers::CommonHeaders;
use lazurite_protocol::response::error::Failure;
use lazurite_protocol::response::error::common::CommonError;
use std::sync::Arc;

const COPY_SOURCE: HeaderName = HeaderName::from_static("x-ms-copy-source");

/// `Ok` passes the request to the next step; an error ends the pipeline.
pub type Step = Result<(), Stop>;

/// Why the pipeline ends before the last step.
pub enum Stop {
    Answered(Box<Response<Body>>),
    Refused(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Refused(failure)
    }
}

impl From<CommonError> for Stop {
    fn from(error: CommonError) -> Stop {
        Stop::Refused(error.into())
    }
}

impl From<Response<Body>> for Stop {
    fn from(response: Response<Body>) -> Stop {
        Stop::Answered(Box::new(response))
    }
}

/// A request between the steps of the pipeline.
pub struct Exchange<'a> {
    pub app: &'a Arc<App>,
    pub client: Client,
    pub notes: &'a HeaderNames,
    /// The facts of the request's head that hyper does not keep.
    pub raw: RawHead,
    /// The store that the request addresses; the current one until that is known.
    pub store: StoreGuard,
    /// The head of the request; empty once a step has taken it.
    pub parts: Parts,
    /// The body as hyper passed it; `None` once it is in `body`.
    pub incoming: Option<Incoming>,
    /// The body; `None` before the framing is checked and after a step has taken it.
    pub body: Option<RequestBody>,
    /// The `Host` as the client wrote it, with its port; empty until it is checked.
    pub host: String,
    pub facts: ExchangeFacts,
    pub observers: Observers,
    pub answer: AnswerFacts,
}

/// Facts that the answer needs, even when the request is refused.
#[derive(Default)]
pub struct AnswerFacts {
    pub common: CommonHeaders,
    pub cors_origin: Option<Box<str>>,
    /// The Accept header, which decides the format of an error.
    pub accept: Option<HeaderValue>,
    /// The User-Agent, by which a refusal names the service that the client is for.
    pub agent: Option<HeaderValue>,
    pub reception: Arc<Reception>,
    pub version: Option<ApiVersion>,
    /// Whether the request speaks the protocol of Data Lake Storage, and so gets its errors. Until
    /// the head is read, whether it renames a path.
    pub speaks_data_lake: bool,
    /// The properties of the service and account addressed; `None` if there are no CORS rules, or
    /// if the request ended before they applied.
    pub cors: Option<Arc<ServiceProperties>>,
    /// How the response ends, if a fault changes that.
    pub ending: Option<Ending>,
    /// Memory reserved for a response that may be long.
    pub grant: Option<MemoryGrant>,
}

impl<'a> Exchange<'a> {
    /// Begins with a request whose head was read. Observers see it before it can be refused. Boxed,
    /// because the futures that own it are moved.
    pub fn begin(
        app: &'a Arc<App>,
        client: Client,
        request: Request<Incoming>,
        notes: &'a HeaderNames,
    ) -> Box<Exchange<'a>> {
        let mut raw = notes.take_head();
        if ends_with_client(&request) {
            notes.follow_client();
        }
        let common = CommonHeaders::of(&request);
        let (mut parts, incoming) = request.into_parts();
        for (name, value) in raw.more_metadata.drain(..) {
            parts.headers.append(name, value);
        }
        let headers = &parts.headers;
        let answer = AnswerFacts {
            common,
            cors_origin: headers
                .get(&ORIGIN)
                .map(|origin| context::text_of(origin).into_boxed_str()),
            accept: headers.get(&ACCEPT).cloned(),
            agent: headers.get(&USER_AGENT).cloned(),
            speaks_data_lake: client.service == ServiceKind::Blob
                && headers.contains_key(RENAME_SOURCE),
            ..AnswerFacts::default()
        };
        let store = app.stores.load_current();
        let origin = store.request_origin(&client);
        let facts = ExchangeFacts {
            is_own: client.is_own,
            ..ExchangeFacts::new(origin, parts.method.clone(), parts.uri.clone(), headers)
        };
        Box::new(Exchange {
            app,
            client,
            notes,
            raw,
            observers: Observers::begin(&store, &facts, headers),
            store,
            parts,
            incoming: Some(incoming),
            body: None,
            host: String::new(),
            facts,
            answer,
        })
    }

    /// Continues with another store, and sets the request's times by that store's clock.
    pub fn enter(&mut self, store: Arc<Store>) {
        let clock = &store.services.clock;
        let origin = &mut self.facts.origin;
        origin.now = clock.now();
        origin.sas_now = clock.sas_time(origin.system_now);
        self.store = StoreGuard::from_inner(store);
    }

    pub fn take_parts(&mut self) -> Parts {
        let (empty, ()) = Request::new(()).into_parts();
        std::mem::replace(&mut self.parts, empty)
    }

    pub fn take_body(&mut self) -> RequestBody {
        self.body.take().unwrap_or_else(RequestBody::empty)
    }
}

/// True if the work for a request may take long and is of no use once its client has left: an
/// export, or an operation with a copy source, which may be on another server.
fn ends_with_client(request: &Request<Incoming>) -> bool {
    pages::ends_with_client(request.uri().path()) || request.headers().contains_key(&COPY_SOURCE)
}
