//! A request to a service: account, resource, version and the requested operation.

use crate::pipeline::exchange::{Exchange, Stop};
use crate::pipeline::route::Route;
use crate::properties::Properties;
use crate::request::operation::Facts;
use crate::state::Store;
use axum::http::Method;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::request::context::Context;
use std::sync::Arc;

pub struct Call<'e, 'a> {
    pub exchange: &'e mut Exchange<'a>,
    pub context: Box<Context>,
    pub route: Route,
    pub operation: Facts,
    /// Anonymous until the request is authenticated.
    pub caller: Caller,
    /// The store that the request reads, if it is not the one that the request addresses.
    pub secondary: Option<Arc<Store>>,
}

impl<'e, 'a> Call<'e, 'a> {
    /// Reads the head of a request. Boxed, as an exchange is. Errors: those of [`Context::take`].
    pub fn read(exchange: &'e mut Exchange<'a>) -> Result<Box<Call<'e, 'a>>, Stop> {
        let parts = exchange.take_parts();
        let accounts = &exchange.store.services.accounts;
        let mut context = Context::take(&exchange.facts.origin, accounts, parts, &exchange.host)?;
        context.metadata_names = std::mem::take(&mut exchange.raw.metadata_names);
        let properties = properties(exchange, &context);
        context.apply_default_version(properties.default_service_version.as_ref());
        drop(properties);
        exchange.answer.speaks_data_lake = context.speaks_data_lake;
        exchange.answer.version = Some(context.version.clone());
        exchange.facts.account = Some(context.account.as_str().into());
        let route = Route::new(&context);
        let operation = match context.method {
            Method::OPTIONS => Facts::preflight(context.service),
            _ => route.facts(&context),
        };
        exchange.facts.operation = operation.name;
        Ok(Box::new(Call {
            exchange,
            context,
            route,
            operation,
            caller: Caller::Anonymous,
            secondary: None,
        }))
    }

    /// The store that the request reads.
    pub fn store(&self) -> &Arc<Store> {
        self.secondary.as_ref().unwrap_or(&self.exchange.store)
    }

    /// The properties of the addressed service, to be held for one step only: see [`Properties`].
    pub fn properties(&self) -> Properties {
        properties(self.exchange, &self.context)
    }
}

fn properties(exchange: &Exchange<'_>, context: &Context) -> Properties {
    let properties = &exchange.store.properties;
    properties.get(context.service, &context.account)
}
