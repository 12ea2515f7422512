//! The three services.

/// Which of the three endpoints a request came in on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum ServiceKind {
    Blob,
    Queue,
    Table,
}

impl ServiceKind {
    pub const ALL: [ServiceKind; 3] = [ServiceKind::Blob, ServiceKind::Queue, ServiceKind::Table];

    /// As in host names and signatures.
    pub fn label(self) -> &'static str {
        match self {
            ServiceKind::Blob => "blob",
            ServiceKind::Queue => "queue",
            ServiceKind::Table => "table",
        }
    }

    /// As log lines and texts for users write it.
    pub fn title(self) -> &'static str {
        match self {
            ServiceKind::Blob => "Blob",
            ServiceKind::Queue => "Queue",
            ServiceKind::Table => "Table",
        }
    }
}
