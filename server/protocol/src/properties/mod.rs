//! The properties of a service that its account can set: one model and one document for all three
//! services.

pub mod cors;
pub mod document;
mod elements;
mod model;

pub use model::{
    DeleteRetention, LOGS_CONTAINER, LogClass, LogVersion, Logging, Metrics, ServiceProperties,
    StaticWebsite, WEBSITE_CONTAINER,
};
