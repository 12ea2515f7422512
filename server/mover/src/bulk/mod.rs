//! Work on many blobs or entities, for the commands that take `-r` or a filter.
//!
//! Each work lists first: names and ETags go to a temporary file, so that memory stays bounded, and
//! the number can be confirmed. It then does exactly what was listed. Items that were changed since
//! stay as they are, and items that were added since are not touched.

mod blob_list;
mod delete;
mod download;
mod entities;
mod place;
mod spool;
mod upload;
mod work;

pub use blob_list::{BlobList, is_directory, list_blobs};
pub use delete::{delete_blobs, delete_one, reason_to_stay};
pub use download::{download, download_one};
pub use entities::{EntityList, delete_entities, list_entities};
pub use place::Place;
pub use upload::{FileCount, count_files, upload};
pub use work::{Outcome, Work};
