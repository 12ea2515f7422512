//! What logs call an operation, and which switch of the account's settings it is logged by.

/// The three switches of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Read,
    Write,
    Delete,
}

impl Class {
    /// As in the metadata of a log, `LogType`.
    pub fn name(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Write => "write",
            Class::Delete => "delete",
        }
    }
}

/// An operation by the name that logs have for it. Source: Storage Analytics logged operations and status messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged(pub String);

impl Logged {
    /// By its REST name, without what it is about, and whether it is one of a service's properties, which logs name after
    /// the service: `GetBlobServiceProperties`.
    pub fn new(service: &str, rest_name: &str) -> Logged {
        let name = rest_name.split('(').next().unwrap_or(rest_name);
        let name = match name {
            "GetServiceProperties" | "SetServiceProperties" | "GetServiceStats" => {
                let (verb, subject) = name.split_at(3);
                return Logged(format!("{verb}{service}{subject}"));
            }
            "PutAppendBlob" | "PutPageBlob" => "PutBlob",
            "GetContainerAcl" => "GetContainerACL",
            "SetContainerAcl" => "SetContainerACL",
            "GetQueueAcl" => "GetQueueACL",
            "SetQueueAcl" => "SetQueueACL",
            "GetTableAcl" => "GetTableACL",
            "SetTableAcl" => "SetTableACL",
            "AppendBlockFromUrl" => "AppendBlockThroughCopy",
            "PutBlockFromUrl" => "PutBlockFromURL",
            "PutBlobFromUrl" => "PutBlobFromURL",
            "PutPageFromUrl" => "PutPageFromURL",
            "CopyBlobFromUrl" => "CopyBlobFromURL",
            "GetPageRanges" => "GetPageRegions",
            "AppendBlobSeal" => "SealBlob",
            "Batch" if service == "Table" => "EntityGroupTransaction",
            "Batch" => "BlobBatch",
            "GetTable" => "QueryTable",
            "GetEntity" => "QueryEntity",
            other => other,
        };
        Logged(name.to_owned())
    }

    /// The switch that it is logged by.
    pub fn class(&self) -> Class {
        let begins = |starts: &[&str]| starts.iter().any(|start| self.0.starts_with(start));
        match () {
            () if begins(&["Delete", "ClearMessages"]) => Class::Delete,
            () if begins(&["Get", "List", "Query", "Peek", "Find"]) => Class::Read,
            () => Class::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_names_and_classes_of_the_log_format() {
        for (service, rest_name, name, class) in [
            ("Blob", "GetBlob", "GetBlob", Class::Read),
            ("Blob", "PutPageBlob", "PutBlob", Class::Write),
            ("Blob", "DeleteBlob", "DeleteBlob", Class::Delete),
            (
                "Blob",
                "SetServiceProperties",
                "SetBlobServiceProperties",
                Class::Write,
            ),
            ("Queue", "ClearMessages", "ClearMessages", Class::Delete),
            ("Queue", "PeekMessages", "PeekMessages", Class::Read),
            (
                "Table",
                "GetEntity(EntityKeys { a: 1 })",
                "QueryEntity",
                Class::Read,
            ),
            ("Table", "Batch", "EntityGroupTransaction", Class::Write),
        ] {
            let logged = Logged::new(service, rest_name);
            assert_eq!((&*logged.0, logged.class()), (name, class));
        }
    }
}
