//! Routes of the router of `/_lazurite/`. All handlers have one type there: axum's code around a handler is compiled once, not once for
//! each page, which keeps the program smaller.

use crate::console::Console;
use axum::body::Body;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Response;
use axum::routing::{self, MethodRouter};
use std::pin::Pin;
use std::sync::Arc;

type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
type Call = dyn Fn(Request, Arc<Console>) -> Answer + Send + Sync;

/// A handler of any page.
#[derive(Clone)]
pub struct AnyHandler(Arc<Call>);

impl Handler<(), Arc<Console>> for AnyHandler {
    type Future = Answer;

    fn call(self, request: Request, console: Arc<Console>) -> Answer {
        (self.0)(request, console)
    }
}

/// For a second method of a route: `get(list).post(any_handler(create))`.
pub fn any_handler<T: 'static>(handler: impl Handler<T, Arc<Console>>) -> AnyHandler {
    AnyHandler(Arc::new(move |request, console| {
        Box::pin(handler.clone().call(request, console))
    }))
}

/// A route for GET and HEAD.
pub fn get<T: 'static>(handler: impl Handler<T, Arc<Console>>) -> MethodRouter<Arc<Console>> {
    routing::get(any_handler(handler))
}

/// A route for POST.
pub fn post<T: 'static>(handler: impl Handler<T, Arc<Console>>) -> MethodRouter<Arc<Console>> {
    routing::post(any_handler(handler))
}

/// A route for PUT.
pub fn put<T: 'static>(handler: impl Handler<T, Arc<Console>>) -> MethodRouter<Arc<Console>> {
    routing::put(any_handler(handler))
}

/// A route for DELETE.
pub fn delete<T: 'static>(handler: impl Handler<T, Arc<Console>>) -> MethodRouter<Arc<Console>> {
    routing::delete(any_handler(handler))
}

/// A route for all methods.
pub fn any<T: 'static>(handler: impl Handler<T, Arc<Console>>) -> MethodRouter<Arc<Console>> {
    routing::any(any_handler(handler))
}
