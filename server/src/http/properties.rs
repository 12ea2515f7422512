//! Service properties and statistics. Properties cannot be set yet, so what is answered is what is true: everything is
//! off.

use super::context::{Context, ServiceKind};
use super::error::{Failure, Result};
use crate::codec::date;
use crate::codec::xml::Writer;

/// The document of an account that has changed nothing. Source: Get Blob Service Properties, "Response body".
pub fn disabled(service: ServiceKind) -> String {
    let mut document = Writer::new();
    document.open("StorageServiceProperties");
    document.open("Logging");
    document.element("Version", "1.0");
    for name in ["Delete", "Read", "Write"] {
        document.element(name, "false");
    }
    retention_off(&mut document, "RetentionPolicy");
    document.close("Logging");
    for name in ["HourMetrics", "MinuteMetrics"] {
        document.open(name);
        document.element("Version", "1.0");
        document.element("Enabled", "false");
        retention_off(&mut document, "RetentionPolicy");
        document.close(name);
    }
    document.element("Cors", "");
    if service == ServiceKind::Blob {
        retention_off(&mut document, "DeleteRetentionPolicy");
        document.open("StaticWebsite");
        document.element("Enabled", "false");
        document.close("StaticWebsite");
    }
    document.close("StorageServiceProperties");
    document.finish()
}

fn retention_off(document: &mut Writer, name: &str) {
    document.open(name);
    document.element("Enabled", "false");
    document.close(name);
}

/// The copy at the secondary endpoint is the primary itself, so it is always up to date.
/// Source: Get Blob Service Stats, "Response body".
pub fn stats(context: &Context) -> String {
    let mut document = Writer::new();
    document.open("StorageServiceStats");
    document.open("GeoReplication");
    document.element("Status", "live");
    document.element("LastSyncTime", &date::rfc1123(context.now));
    document.close("GeoReplication");
    document.close("StorageServiceStats");
    document.finish()
}

/// Statistics are a matter of the secondary endpoint. Source: Get Blob Service Stats, "Request".
pub fn check_secondary(context: &Context) -> Result<()> {
    match context.secondary {
        true => Ok(()),
        false => Err(Failure::parameter(
            "comp",
            "stats",
            "Statistics are served by the secondary endpoint only.",
        )),
    }
}
