//! Finds the process that listens on a port of this machine, if the system shows it.

use crate::platform;

/// A process, as messages name it.
#[derive(Debug, PartialEq, Eq)]
pub struct Holder {
    pub process_id: u32,
    pub name: String,
}

impl Holder {
    /// The process with this id, and its name if the system shows it.
    pub fn named(process_id: u32) -> Holder {
        let name = platform::process_name(process_id);
        Holder {
            process_id,
            name: name.unwrap_or_else(|| "unnamed".to_owned()),
        }
    }
}

/// The process that listens on a TCP port. `None` if it is not known: for other users' processes,
/// and on systems other than Linux.
pub fn of(port: u16) -> Option<Holder> {
    platform::listener(port).map(Holder::named)
}
