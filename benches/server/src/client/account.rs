//! An account and the endpoints of its services, parsed from a connection string of Azure's format.

use std::collections::HashMap;

use base64::prelude::*;

use crate::client::error::Error;

/// The account every emulator knows, and its public key. Source: Use Azurite, "Well-known storage
/// account and key".
const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// One of the three services. Determines the endpoint and the string to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Table,
    Blob,
    Queue,
}

/// Name, key and endpoints of one account.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    /// The decoded key.
    pub(crate) key: Vec<u8>,
    blob: String,
    queue: String,
    table: String,
}

impl Account {
    /// The development account, with its services at these ports of `127.0.0.1`.
    pub(crate) fn development(blob: u16, queue: u16, table: u16) -> Account {
        let endpoint = |port: u16| format!("http://127.0.0.1:{port}/{DEVELOPMENT_ACCOUNT}");
        Account {
            name: DEVELOPMENT_ACCOUNT.into(),
            key: decode_key(DEVELOPMENT_KEY).expect("the well-known key is base64"),
            blob: endpoint(blob),
            queue: endpoint(queue),
            table: endpoint(table),
        }
    }

    /// Reads `Name=value;…`. `UseDevelopmentStorage=true` is the development account on ports 10000
    /// to 10002; endpoints that are not named are built from `DefaultEndpointsProtocol` and
    /// `EndpointSuffix`. Only `http` is supported.
    ///
    /// Source: Configure Azure Storage connection strings.
    pub(crate) fn parse(connection_string: &str) -> Result<Account, Error> {
        let fields: HashMap<&str, &str> = connection_string
            .split(';')
            .filter_map(|field| field.trim().split_once('='))
            .collect();
        if fields.get("UseDevelopmentStorage") == Some(&"true") {
            return Ok(Account::development(10000, 10001, 10002));
        }
        let field = |name: &'static str| {
            let missing = || Error::Usage(format!("the connection string has no {name}"));
            fields.get(name).copied().ok_or_else(missing)
        };
        let name = field("AccountName")?;
        let endpoint = |service: &str, field: &str| endpoint(&fields, name, service, field);
        Ok(Account {
            name: name.into(),
            key: decode_key(field("AccountKey")?)?,
            blob: endpoint("blob", "BlobEndpoint")?,
            queue: endpoint("queue", "QueueEndpoint")?,
            table: endpoint("table", "TableEndpoint")?,
        })
    }

    /// Base URL of `service`, without a trailing slash.
    pub(crate) fn endpoint(&self, service: Service) -> &str {
        match service {
            Service::Blob => &self.blob,
            Service::Queue => &self.queue,
            Service::Table => &self.table,
        }
    }

    /// Host and port of `service`, and the prefix of all its paths.
    pub(crate) fn address(&self, service: Service) -> (&str, &str) {
        let rest = self.endpoint(service).trim_start_matches("http://");
        let path_at = rest.find('/').unwrap_or(rest.len());
        rest.split_at(path_at)
    }
}

fn endpoint(
    fields: &HashMap<&str, &str>,
    account: &str,
    service: &str,
    field: &str,
) -> Result<String, Error> {
    let url = match fields.get(field) {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => {
            let scheme = fields.get("DefaultEndpointsProtocol").unwrap_or(&"https");
            let suffix = fields.get("EndpointSuffix").unwrap_or(&"core.windows.net");
            format!("{scheme}://{account}.{service}.{suffix}")
        }
    };
    if !url.starts_with("http://") {
        let advice = "this program speaks plain HTTP only: name http:// endpoints";
        return Err(Error::Usage(format!("{url}: {advice}")));
    }
    Ok(url)
}

fn decode_key(key: &str) -> Result<Vec<u8>, Error> {
    let invalid = |error| Error::Usage(format!("AccountKey is not base64: {error}"));
    BASE64_STANDARD.decode(key).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn development_storage_is_the_three_default_ports() {
        let account = Account::parse("UseDevelopmentStorage=true").unwrap();
        let queue = account.endpoint(Service::Queue);
        assert_eq!(queue, "http://127.0.0.1:10001/devstoreaccount1");
        assert_eq!(account.key.len(), 64);
        let address = account.address(Service::Blob);
        assert_eq!(address, ("127.0.0.1:10000", "/devstoreaccount1"));
    }

    #[test]
    fn endpoints_are_named_or_built_from_protocol_and_suffix() {
        let account = Account::parse(
            "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=AAEC;EndpointSuffix=localhost:1;\
             TableEndpoint=http://t/a/",
        )
        .unwrap();
        assert_eq!(account.endpoint(Service::Table), "http://t/a");
        assert_eq!(account.endpoint(Service::Blob), "http://a.blob.localhost:1");
        assert_eq!(account.key, [0, 1, 2]);
    }

    #[test]
    fn missing_or_invalid_fields_are_named_in_the_error() {
        let error = |text: &str| Account::parse(text).unwrap_err().to_string();
        assert!(error("AccountName=a").contains("AccountKey"));
        assert!(error("AccountName=a;AccountKey=AAEC").contains("plain HTTP"));
        assert!(error("AccountName=a;AccountKey=!").contains("base64"));
    }
}
