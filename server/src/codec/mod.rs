//! Bytes of the wire to plain data and back: dates, XML, OData JSON, multipart batches, structured bodies. No routing, no status codes.

pub mod date;
pub mod multipart;
pub mod odata;
pub mod policies;
pub mod structured;
pub mod xml;
