//! The steps of a request, from its head to the last byte of its answer, in their order.
//!
//! A step is a function in a file of its own. It reads the exchange and adds to it; then the
//! request goes on, or the step answers or refuses it. To add a step, write its file and name it in
//! one of the three lists below: `pass` for all requests, `pass_to_service` for operations of
//! the services, `answer` for the way back.

mod advice;
mod call;
mod caller;
mod cors;
mod exchange;
mod fault;
mod fork;
mod framing;
mod headers;
mod host;
mod identity;
mod in_service;
mod location;
mod observe;
mod observers;
mod operation;
mod pages;
mod refusal;
mod room;
mod route;
mod secondary;
mod store;
mod sub_request;
mod targets;
mod unreadable;
mod website;
mod wrong_service;

use crate::app::App;
use crate::connection::listener::{Client, Server};
use crate::connection::{self, ConnectionThreads, Connections, Endpoint, HeaderNames};
use crate::memory::HOLDER;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use call::Call;
use exchange::{Exchange, Stop};
use hyper::body::Incoming;
use lazurite_protocol::response::error::common;
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The steps of every request. Requests for websites, pages and identity endpoints are answered
/// here; all others go on to a service.
async fn pass(exchange: &mut Exchange<'_>) -> Result<Response<Body>, Stop> {
    framing::check(exchange)?;
    store::find(exchange).await?;
    host::check(exchange)?;
    website::answer(exchange).await?;
    pages::answer(exchange).await?;
    identity::answer(exchange).await?;
    pass_to_service(Call::read(exchange)?).await
}

/// The steps of a request for an operation of a service.
async fn pass_to_service(mut call: Box<Call<'_, '_>>) -> Result<Response<Body>, Stop> {
    secondary::find(&mut call).await?;
    observe::route(&mut call)?;
    cors::apply(&mut call)?;
    fork::check(&mut call)?;
    caller::authenticate(&mut call)?;
    advice::answer(&mut call)?;
    observe::authenticate(&mut call)?;
    location::check(&mut call)?;
    fault::strike(&mut call).await?;
    targets::meter(&mut call)?;
    room::reserve(&mut call).await?;
    operation::run(call).await
}

/// Turns the outcome into a response, and shows it to the observers up to its last byte.
fn answer(
    mut exchange: Box<Exchange<'_>>,
    outcome: Result<Response<Body>, Stop>,
) -> Response<Body> {
    // First: if an unread body is dropped, the connection may have to close, and the headers below
    // must say so.
    exchange.body = None;
    let mut response = refusal::render(&mut exchange, outcome);
    room::hold(&mut exchange, &mut response);
    headers::put(&mut exchange, &mut response);
    fault::end(&mut exchange, &mut response);
    observe::follow(exchange, response)
}

/// Serves one request. An async function would hold its arguments twice in its future.
fn serve<'a>(
    app: &'a Arc<App>,
    client: Client,
    request: Request<Incoming>,
    notes: &'a HeaderNames,
) -> impl Future<Output = Response<Body>> {
    let mut unanswered = Unanswered(Some(Exchange::begin(app, client, request, notes)));
    async move {
        let exchange = unanswered.0.as_mut().expect("it is taken below");
        let outcome = {
            let passing = pin!(HOLDER.scope(Cell::default(), pass(exchange)));
            within(app.request_timeout, passing).await
        };
        answer(unanswered.0.take().expect("it is taken once"), outcome)
    }
}

/// An exchange that has no response yet. A drop means that its client has disconnected.
struct Unanswered<'a>(Option<Box<Exchange<'a>>>);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(exchange) = self.0.take() {
            observe::abandon(exchange);
        }
    }
}

/// The outcome of a request, or a timeout if it takes longer than `time`.
async fn within(
    time: Option<Duration>,
    passing: impl Future<Output = Result<Response<Body>, Stop>>,
) -> Result<Response<Body>, Stop> {
    match time {
        None => passing.await,
        Some(time) => tokio::time::timeout(time, passing)
            .await
            .unwrap_or_else(|_| Err(common::OPERATION_TIMED_OUT.into())),
    }
}

impl Server for App {
    fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    fn respond<'a>(
        self: &'a Arc<App>,
        client: Client,
        request: Request<Incoming>,
        notes: &'a HeaderNames,
    ) -> impl Future<Output = Response<Body>> + Send {
        serve(self, client, request, notes)
    }

    fn refuse(&self, client: &Client, status: StatusCode) -> Vec<u8> {
        unreadable::refuse(self, client, status)
    }
}

/// Serves one service on one listener, as a task of `serving`, until `stop` turns true. Not
/// generic: the code of a connection is compiled once, in this crate.
pub fn serve_in(
    app: &Arc<App>,
    serving: &mut JoinSet<()>,
    endpoint: Endpoint,
    threads: Arc<ConnectionThreads>,
    stop: watch::Receiver<bool>,
) {
    serving.spawn(connection::serve(app.clone(), endpoint, threads, stop));
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod matrix_tests;
#[cfg(test)]
mod operation_tests;
#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the future that a function makes for a request.
    fn size_of_future<'a, F>(
        _: impl Fn(&'a Arc<App>, Client, Request<Incoming>, &'a HeaderNames) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_request_fits_in_4_kib() {
        let bytes = size_of_future(serve);
        assert!(bytes < 4096, "{bytes} bytes");
    }
}
