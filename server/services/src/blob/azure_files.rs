//! Refuses requests of Azure Files with `501` and a message that names Azure Files. Its clients
//! accept any endpoint, so they may be given this one. Source: Azure Files REST API, "Operations on
//! shares" and "Operations on directories".

use lazurite_protocol::response::error::{Failure, Result};

/// Refuses a request for an Azure Files share or for a directory in one.
pub fn refuse(restype: &str) -> Result<()> {
    match restype {
        "share" | "directory" => Err(Failure::unsupported(format!(
            "Azure Files (here: the parameter restype={restype})"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_azure_files_are_refused_by_its_name() {
        for restype in ["share", "directory"] {
            let failure = refuse(restype).unwrap_err();
            assert_eq!(failure.status.as_u16(), 501);
            assert!(
                failure.message.starts_with("Azure Files"),
                "{}",
                failure.message
            );
        }
        for restype in ["", "service", "container", "account"] {
            assert!(refuse(restype).is_ok(), "{restype}");
        }
    }
}
