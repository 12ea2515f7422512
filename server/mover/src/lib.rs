//! Moves the content of accounts between servers, directories and archives, as a client of the
//! public operations.
//!
//! A [`Client`] sends requests to the services of a connection string. [`export`] and [`import`]
//! move everything that an account stores to and from files that users can read and edit, [`copy`]
//! moves it between two servers without files, and [`azurite`] reads the folders of Azurite.
//! [`Transfers`] does the same inside a running server, for its pages. What commands print, and
//! which account a server fills at its start, is left to the program.
//!
//! The layout, which `docs/export.md` describes for users:
//!
//! ```text
//! lazurite-export.json          the version of the layout; written last
//! services/blob.xml             service properties, as the service shows them; also queue.xml and
//!                               table.xml
//! blobs/photos.json             a container: public access, metadata, stored access policies
//! blobs/photos.blobs.jsonl      its blobs, one JSON object a line
//! blobs/photos/2026/lake.jpg    their content
//! queues/work.json              a queue: metadata, stored access policies
//! queues/work.messages.jsonl    its messages, the next one first
//! tables/Customers.json         a table: stored access policies
//! tables/Customers.entities.jsonl
//! ```
//!
//! An archive is the same as a tar file, compressed by Zstandard. An export is written under a
//! temporary name next to its path, and renamed. Directories and archives are not trusted: paths
//! stay inside, links are refused, lines and settings have limits.

#![allow(
    missing_docs,
    reason = "items are public for other crates of this program, and have the comments of private ones"
)]

mod archive;
mod asking;
pub mod azurite;
mod blobs;
pub mod bulk;
mod certificate;
mod checks;
mod client;
mod copy;
mod declaration;
mod error;
mod existing;
mod export;
mod fields;
mod files;
mod formats;
mod import;
mod import_error;
mod import_run;
mod interrupts;
mod key_hashes;
mod listing;
mod parallel;
mod policies;
mod progress;
mod queues;
mod request_error;
mod resource_kind;
mod resources;
mod scratch;
mod tables;
pub mod target;
mod transfers;

pub use archive::is_name as is_archive_name;
pub use blobs::content_type::content_type;
pub use blobs::file::{NewBlob, put_file, put_stream};
pub use client::{Call, Client, Fork, Reply, encode};
pub use copy::{BlobsCopy, Copied, Options as CopyOptions, run as copy};
pub use error::Error;
pub use existing::Existing;
pub use formats::{export, import, replace};
pub use import::Imported;
pub use progress::Progress;
pub use request_error::{Refusal, RequestError};
pub use resource_kind::ResourceKind;
pub use resources::make;
pub use tables::batches::write_lines;
pub use tables::entities::{Fields, make_table, read_page};
pub use transfers::{Destination, Exported, Transfers, remove_left_overs};
