//! `x-ms-properties`: the metadata of a path or a file system, as Data Lake Storage writes it, in
//! one header. Source: Path - Create, `x-ms-properties`.

use crate::request::metadata::check;
use crate::response::error::{Failure, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The header.
pub const PROPERTIES: &str = "x-ms-properties";
/// The metadata by which the Blob protocol marks directories. Not a property: Data Lake Storage has
/// `x-ms-resource-type`.
pub const IS_FOLDER: &str = "hdi_isfolder";

/// Reads `name=base64(value),…`. Errors: `InvalidHeaderValue`, and those of [`check`].
pub fn parse(text: &str) -> Result<Vec<(String, String)>> {
    let malformed = || Failure::header(PROPERTIES, text);
    let pairs = text.split(',').map(str::trim);
    let pairs = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').ok_or_else(malformed)?;
        let value = STANDARD.decode(value.trim()).map_err(|_| malformed())?;
        let value = String::from_utf8(value).map_err(|_| malformed())?;
        if value.chars().any(char::is_control) {
            return Err(malformed());
        }
        Ok((name.trim().to_owned(), value))
    });
    let properties = pairs.collect::<Result<Vec<_>>>()?;
    check(&properties)?;
    Ok(properties)
}

/// The value of the header for this metadata.
pub fn write(metadata: &[(String, String)]) -> String {
    let properties = metadata
        .iter()
        .filter(|(name, _)| !name.eq_ignore_ascii_case(IS_FOLDER));
    let pairs: Vec<_> = properties
        .map(|(name, value)| format!("{name}={}", STANDARD.encode(value)))
        .collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_written_as_they_were_read() {
        let text = "owner=YWxpY2U=,empty=,Case_1=YSxiPWM=";
        let properties = parse(text).unwrap();
        let values: Vec<_> = properties.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["alice", "", "a,b=c"]);
        assert_eq!(write(&properties), text);
        assert_eq!(parse("").unwrap(), []);
        let folder = vec![("hdi_isfolder".to_owned(), "true".to_owned())];
        assert_eq!(write(&folder), "");
    }

    #[test]
    fn malformed_properties_are_refused() {
        for (text, code) in [
            ("a", "InvalidHeaderValue"),
            ("a=?", "InvalidHeaderValue"),
            ("a=/w==", "InvalidHeaderValue"),
            ("a=Cg==", "InvalidHeaderValue"),
            ("=YQ==", "EmptyMetadataKey"),
            ("a-b=YQ==", "InvalidMetadata"),
            ("a=YQ==,A=YQ==", "InvalidMetadata"),
            ("a=w6Q=", "InvalidMetadata"),
        ] {
            assert_eq!(parse(text).unwrap_err().code, code, "{text}");
        }
    }
}
