//! Bytes of the wire to plain data and back: targets, parameters, headers, dates, XML, OData JSON,
//! multipart batches, structured bodies. No routing, no status codes.

mod chunks;
pub mod date;
pub mod headers;
pub mod multipart;
pub mod odata;
pub mod parameters;
pub mod policies;
pub mod structured;
pub mod target;
pub mod xml;
