//! The `StorageServiceProperties` document. Reads the changes in a request, and writes the document
//! of a response, which is also the stored form. Source: Set Blob, Queue and Table Service
//! Properties, "Request body".

use crate::properties::cors::{self, CorsRule};
use crate::properties::elements::{check_children, refuse_repetition, required};
use crate::properties::model::{
    DeleteRetention, LogVersion, Logging, Metrics, ServiceProperties, StaticWebsite,
};
use crate::request::context::{ApiVersion, ServiceKind};
use crate::response::error::{Failure, Result, common};
use crate::xml::{Element, Writer};
use std::ops::RangeInclusive;

/// The allowed number of days to keep logs, metrics and deleted blobs.
const RETENTION_DAYS: RangeInclusive<u16> = 1..=365;

/// The parts that a request sets; `None` leaves a part as it is.
#[derive(Debug, Default)]
pub struct Change {
    logging: Option<Logging>,
    hour_metrics: Option<Metrics>,
    minute_metrics: Option<Metrics>,
    cors: Option<Vec<CorsRule>>,
    default_service_version: Option<ApiVersion>,
    delete_retention: Option<DeleteRetention>,
    static_website: Option<StaticWebsite>,
}

impl Change {
    /// Reads a document. Errors: `InvalidXmlDocument` for another document, a part that is given
    /// twice, or CORS rules over their limits; `UnsupportedXmlNode` for a part that the service
    /// does not have; `MissingRequiredXmlNode`; `InvalidXmlNodeValue`.
    pub fn read(service: ServiceKind, root: &Element) -> Result<Change> {
        if root.name != "StorageServiceProperties" {
            return Err(common::INVALID_XML_DOCUMENT.into());
        }
        refuse_repetition(root)?;
        let mut change = Change::default();
        for part in &root.children {
            let of_blob = service == ServiceKind::Blob;
            match part.name.as_str() {
                "Logging" => change.logging = Some(read_logging(service, part)?),
                "HourMetrics" => change.hour_metrics = Some(read_metrics(part)?),
                "MinuteMetrics" => change.minute_metrics = Some(read_metrics(part)?),
                "Cors" => change.cors = Some(cors::read(part)?),
                "DefaultServiceVersion" if of_blob => {
                    change.default_service_version = Some(read_version(part)?)
                }
                "DeleteRetentionPolicy" if of_blob => {
                    change.delete_retention = Some(read_delete_retention(part)?)
                }
                "StaticWebsite" if of_blob => change.static_website = Some(read_website(part)?),
                other => return Err(common::UNSUPPORTED_XML_NODE.with("XmlNodeName", other)),
            }
        }
        Ok(change)
    }

    /// Replaces the parts that are set.
    pub fn apply_to(self, properties: &mut ServiceProperties) {
        fn replace<T>(old: &mut T, new: Option<T>) {
            if let Some(new) = new {
                *old = new;
            }
        }
        replace(&mut properties.logging, self.logging);
        replace(&mut properties.hour_metrics, self.hour_metrics);
        replace(&mut properties.minute_metrics, self.minute_metrics);
        replace(&mut properties.cors, self.cors);
        replace(&mut properties.delete_retention, self.delete_retention);
        replace(&mut properties.static_website, self.static_website);
        if self.default_service_version.is_some() {
            properties.default_service_version = self.default_service_version;
        }
    }
}

/// Reads a document that [`write()`] wrote, as it is stored.
pub fn read_stored(service: ServiceKind, bytes: &[u8]) -> Result<ServiceProperties> {
    let root = crate::response::headers::parse_xml(bytes)?;
    let mut properties = ServiceProperties::default();
    Change::read(service, &root)?.apply_to(&mut properties);
    Ok(properties)
}

/// Writes all properties as a document.
pub fn write(service: ServiceKind, properties: &ServiceProperties) -> String {
    let mut document = Writer::new();
    document.open("StorageServiceProperties");
    write_logging(&mut document, &properties.logging);
    write_metrics(&mut document, "HourMetrics", &properties.hour_metrics);
    write_metrics(&mut document, "MinuteMetrics", &properties.minute_metrics);
    cors::write(&mut document, &properties.cors);
    if service == ServiceKind::Blob {
        let version = properties.default_service_version.as_ref();
        document.optional("DefaultServiceVersion", version.map(ApiVersion::as_str));
        write_delete_retention(&mut document, &properties.delete_retention);
        write_website(&mut document, &properties.static_website);
    }
    document.close("StorageServiceProperties");
    document.finish()
}

fn write_logging(document: &mut Writer, logging: &Logging) {
    document.open("Logging");
    document.element("Version", logging.version.text());
    document.element("Delete", word(logging.delete));
    document.element("Read", word(logging.read));
    document.element("Write", word(logging.write));
    write_retention(document, logging.retention_days);
    document.close("Logging");
}

fn write_metrics(document: &mut Writer, name: &str, metrics: &Metrics) {
    document.open(name);
    document.element("Version", "1.0");
    document.element("Enabled", word(metrics.enabled));
    document.optional(
        "IncludeAPIs",
        metrics.enabled.then_some(word(metrics.include_apis)),
    );
    write_retention(document, metrics.retention_days);
    document.close(name);
}

fn write_retention(document: &mut Writer, days: Option<u16>) {
    document.open("RetentionPolicy");
    document.element("Enabled", word(days.is_some()));
    document.optional("Days", days.map(|days| days.to_string()).as_deref());
    document.close("RetentionPolicy");
}

fn write_delete_retention(document: &mut Writer, retention: &DeleteRetention) {
    document.open("DeleteRetentionPolicy");
    document.element("Enabled", word(retention.days.is_some()));
    document.optional(
        "Days",
        retention.days.map(|days| days.to_string()).as_deref(),
    );
    if retention.days.is_some() {
        document.element(
            "AllowPermanentDelete",
            word(retention.allow_permanent_delete),
        );
    }
    document.close("DeleteRetentionPolicy");
}

fn write_website(document: &mut Writer, website: &StaticWebsite) {
    document.open("StaticWebsite");
    document.element("Enabled", word(website.enabled));
    document.optional("IndexDocument", website.index_document.as_deref());
    document.optional(
        "DefaultIndexDocumentPath",
        website.default_index_document_path.as_deref(),
    );
    document.optional(
        "ErrorDocument404Path",
        website.error_document_404_path.as_deref(),
    );
    document.close("StaticWebsite");
}

fn word(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

fn read_logging(service: ServiceKind, part: &Element) -> Result<Logging> {
    check_children(
        part,
        &["Version", "Delete", "Read", "Write", "RetentionPolicy"],
    )?;
    Ok(Logging {
        version: match required(part, "Version")?.as_str() {
            "1.0" => LogVersion::One,
            "2.0" if service != ServiceKind::Table => LogVersion::Two,
            other => return Err(Failure::element("Version", other)),
        },
        delete: flag(part, "Delete")?,
        read: flag(part, "Read")?,
        write: flag(part, "Write")?,
        retention_days: read_retention(part)?,
    })
}

fn read_metrics(part: &Element) -> Result<Metrics> {
    check_children(
        part,
        &["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"],
    )?;
    read_analytics_version(part)?;
    let enabled = flag(part, "Enabled")?;
    Ok(Metrics {
        enabled,
        include_apis: enabled && flag(part, "IncludeAPIs")?,
        retention_days: read_retention(part)?,
    })
}

/// Refuses any analytics version but 1.0, the only one.
fn read_analytics_version(part: &Element) -> Result<()> {
    match required(part, "Version")?.as_str() {
        "1.0" => Ok(()),
        other => Err(Failure::element("Version", other)),
    }
}

fn read_retention(part: &Element) -> Result<Option<u16>> {
    let policy = part
        .child("RetentionPolicy")
        .ok_or_else(|| Failure::missing_element("RetentionPolicy"))?;
    check_children(policy, &["Enabled", "Days"])?;
    read_days(policy)
}

/// The days of a retention policy; `None` if it is disabled.
fn read_days(policy: &Element) -> Result<Option<u16>> {
    if !flag(policy, "Enabled")? {
        return Ok(None);
    }
    let text = required(policy, "Days")?;
    let days = text
        .parse()
        .ok()
        .filter(|days| RETENTION_DAYS.contains(days));
    days.map(Some).ok_or_else(|| Failure::element("Days", text))
}

fn read_delete_retention(part: &Element) -> Result<DeleteRetention> {
    check_children(part, &["Enabled", "Days", "AllowPermanentDelete"])?;
    let allow_permanent_delete = match part.child("AllowPermanentDelete") {
        Some(_) => flag(part, "AllowPermanentDelete")?,
        None => false,
    };
    Ok(DeleteRetention {
        days: read_days(part)?,
        allow_permanent_delete,
    })
}

fn read_website(part: &Element) -> Result<StaticWebsite> {
    let names = [
        "Enabled",
        "IndexDocument",
        "DefaultIndexDocumentPath",
        "ErrorDocument404Path",
    ];
    check_children(part, &names)?;
    let website = StaticWebsite {
        enabled: flag(part, "Enabled")?,
        index_document: part.child_text("IndexDocument"),
        default_index_document_path: part.child_text("DefaultIndexDocumentPath"),
        error_document_404_path: part.child_text("ErrorDocument404Path"),
    };
    match (
        &website.index_document,
        &website.default_index_document_path,
    ) {
        (Some(_), Some(path)) => Err(Failure::element("DefaultIndexDocumentPath", path).with(
            "ExtendedErrorDetail",
            "IndexDocument and DefaultIndexDocumentPath exclude each other.",
        )),
        _ => Ok(website),
    }
}

fn read_version(part: &Element) -> Result<ApiVersion> {
    let text = part.text.trim();
    ApiVersion::parse(text).ok_or_else(|| Failure::element("DefaultServiceVersion", text))
}

fn flag(part: &Element, name: &'static str) -> Result<bool> {
    match required(part, name)?.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(Failure::element(name, other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::headers::parse_xml;

    fn change(service: ServiceKind, parts: &str) -> Result<Change> {
        let document = format!("<StorageServiceProperties>{parts}</StorageServiceProperties>");
        Change::read(service, &parse_xml(document.as_bytes())?)
    }

    fn code(service: ServiceKind, parts: &str) -> String {
        change(service, parts).unwrap_err().code.to_string()
    }

    const OFF: &str = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
    const CORS: &str = "<Cors><CorsRule><AllowedOrigins>http://a.com, *</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods>\
                        <AllowedHeaders>x-ms-meta-*</AllowedHeaders><ExposedHeaders>x-ms-request-id</ExposedHeaders><MaxAgeInSeconds>0</MaxAgeInSeconds>\
                        </CorsRule></Cors>";

    #[test]
    fn written_properties_are_read_back_and_absent_ones_stay() {
        let logging = "<Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read><Write>true</Write>\
                       <RetentionPolicy><Enabled>true</Enabled><Days>365</Days></RetentionPolicy></Logging>";
        let metrics = format!(
            "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>{OFF}</HourMetrics>"
        );
        let website = "<StaticWebsite><Enabled>true</Enabled><IndexDocument>i.html</IndexDocument>\
                       <ErrorDocument404Path>404.html</ErrorDocument404Path></StaticWebsite>";
        let retention = "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days><AllowPermanentDelete>true\
                         </AllowPermanentDelete></DeleteRetentionPolicy>";
        let version = "<DefaultServiceVersion>2020-10-02</DefaultServiceVersion>";
        let mut properties = ServiceProperties::default();
        let minutes = metrics.replace("HourMetrics", "MinuteMetrics");
        for part in [
            logging, &metrics, &minutes, CORS, website, retention, version,
        ] {
            change(ServiceKind::Blob, part)
                .unwrap()
                .apply_to(&mut properties);
        }
        let before = properties.clone();
        change(ServiceKind::Blob, "")
            .unwrap()
            .apply_to(&mut properties);
        assert_eq!(properties, before);
        let document = write(ServiceKind::Blob, &properties);
        assert_eq!(
            read_stored(ServiceKind::Blob, document.as_bytes()).unwrap(),
            properties
        );
        for part in [logging, &metrics, &minutes, website, retention, version] {
            assert!(document.contains(part), "{part} is not in {document}");
        }
        assert_eq!(properties.cors[0].allowed_origins, ["http://a.com", "*"]);
        change(ServiceKind::Blob, "<Cors/>")
            .unwrap()
            .apply_to(&mut properties);
        assert!(properties.cors.is_empty() && properties.logging.write);
    }

    #[test]
    fn each_part_is_checked_by_name() {
        let blob = ServiceKind::Blob;
        let metrics =
            |inside: &str| format!("<MinuteMetrics><Version>1.0</Version>{inside}</MinuteMetrics>");
        assert_eq!(
            code(blob, &metrics("<Enabled>true</Enabled>")),
            "MissingRequiredXmlNode"
        );
        assert_eq!(
            code(blob, &metrics("<Enabled>perhaps</Enabled>")),
            "InvalidXmlNodeValue"
        );
        assert_eq!(
            code(blob, &metrics("<Enabled>false</Enabled>")),
            "MissingRequiredXmlNode"
        );
        for days in ["0", "366", "x"] {
            let retention = format!(
                "<Enabled>false</Enabled><RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy>"
            );
            assert_eq!(
                code(blob, &metrics(&retention)),
                "InvalidXmlNodeValue",
                "{days}"
            );
        }
        assert_eq!(
            code(blob, &metrics("<Version>1.0</Version>")),
            "InvalidXmlDocument"
        );
        let second = metrics("<Enabled>false</Enabled>").replace("1.0", "2.0");
        assert_eq!(code(blob, &second), "InvalidXmlNodeValue");
        assert_eq!(
            code(blob, "<Logging><Version>3.0</Version></Logging>"),
            "InvalidXmlNodeValue"
        );
        assert_eq!(code(blob, "<Cors/><Cors/>"), "InvalidXmlDocument");
        assert_eq!(code(blob, "<Strange/>"), "UnsupportedXmlNode");
        for of_blob in [
            "<DefaultServiceVersion>2020-10-02</DefaultServiceVersion>",
            "<DeleteRetentionPolicy><Enabled>false</Enabled></DeleteRetentionPolicy>",
            "<StaticWebsite><Enabled>false</Enabled></StaticWebsite>",
        ] {
            assert!(change(blob, of_blob).is_ok(), "{of_blob}");
            for other in [ServiceKind::Queue, ServiceKind::Table] {
                assert_eq!(code(other, of_blob), "UnsupportedXmlNode", "{of_blob}");
            }
        }
        assert_eq!(
            code(
                blob,
                "<DefaultServiceVersion>latest</DefaultServiceVersion>"
            ),
            "InvalidXmlNodeValue"
        );
        let both = "<StaticWebsite><Enabled>true</Enabled><IndexDocument>a</IndexDocument><DefaultIndexDocumentPath>b\
                    </DefaultIndexDocumentPath></StaticWebsite>";
        assert_eq!(code(blob, both), "InvalidXmlNodeValue");
    }

    #[test]
    fn properties_of_queues_and_tables_have_no_parts_of_blobs() {
        let properties = ServiceProperties {
            static_website: StaticWebsite {
                enabled: true,
                default_index_document_path: Some("app/i.html".to_owned()),
                ..StaticWebsite::default()
            },
            ..ServiceProperties::default()
        };
        for service in [ServiceKind::Blob, ServiceKind::Queue, ServiceKind::Table] {
            let document = write(service, &properties);
            let stored = read_stored(service, document.as_bytes()).unwrap();
            let of_blob = service == ServiceKind::Blob;
            assert_eq!(stored == properties, of_blob, "{document}");
            // No days, so nothing to say about permanent deletion.
            assert!(!document.contains("AllowPermanentDelete"));
        }
    }

    #[test]
    fn logs_of_tables_have_one_form_of_lines() {
        let logging = |version: &str| {
            format!(
                "<Logging><Version>{version}</Version><Delete>true</Delete><Read>false</Read><Write>false</Write>{OFF}</Logging>"
            )
        };
        for service in [ServiceKind::Blob, ServiceKind::Queue] {
            let read = change(service, &logging("2.0")).unwrap().logging.unwrap();
            assert_eq!(read.version, LogVersion::Two);
        }
        assert!(change(ServiceKind::Table, &logging("1.0")).is_ok());
        assert_eq!(
            code(ServiceKind::Table, &logging("2.0")),
            "InvalidXmlNodeValue"
        );
    }

    #[test]
    fn unknown_and_repeated_elements_are_refused_in_each_part() {
        let blob = ServiceKind::Blob;
        let retention = "<RetentionPolicy><Enabled>false</Enabled>+</RetentionPolicy>";
        for part in [
            format!(
                "<Logging>+<Version>1.0</Version><Delete>true</Delete><Read>true</Read><Write>true</Write>{OFF}</Logging>"
            ),
            format!(
                "<HourMetrics>+<Version>1.0</Version><Enabled>false</Enabled>{OFF}</HourMetrics>"
            ),
            format!(
                "<HourMetrics><Version>1.0</Version><Enabled>false</Enabled>{retention}</HourMetrics>"
            ),
            "<DeleteRetentionPolicy>+<Enabled>false</Enabled></DeleteRetentionPolicy>".to_owned(),
            "<StaticWebsite>+<Enabled>false</Enabled></StaticWebsite>".to_owned(),
            CORS.replace("<AllowedMethods>", "+<AllowedMethods>"),
        ] {
            assert!(change(blob, &part.replace('+', "")).is_ok(), "{part}");
            let unknown = part.replace('+', "<Strange/>");
            assert_eq!(code(blob, &unknown), "UnsupportedXmlNode", "{part}");
        }
        let root = parse_xml(b"<Properties/>").unwrap();
        assert_eq!(
            Change::read(blob, &root).unwrap_err().code,
            "InvalidXmlDocument"
        );
    }
}
