//! The three services of the protocol.

/// Which of the three endpoints a request came in on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceKind {
    Blob,
    Queue,
    Table,
}

impl ServiceKind {
    pub const ALL: [ServiceKind; 3] = [ServiceKind::Blob, ServiceKind::Queue, ServiceKind::Table];

    /// The name in host names and in strings to sign.
    pub fn label(self) -> &'static str {
        match self {
            ServiceKind::Blob => "blob",
            ServiceKind::Queue => "queue",
            ServiceKind::Table => "table",
        }
    }

    /// The name in log lines and in texts for users.
    pub fn title(self) -> &'static str {
        match self {
            ServiceKind::Blob => "Blob",
            ServiceKind::Queue => "Queue",
            ServiceKind::Table => "Table",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_a_label_in_hosts_and_a_title_in_texts() {
        for service in [ServiceKind::Blob, ServiceKind::Queue, ServiceKind::Table] {
            assert_eq!(service.title().to_lowercase(), service.label());
            assert_eq!(service.title()[..1], service.label()[..1].to_uppercase());
        }
    }
}
