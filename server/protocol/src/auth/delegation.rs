//! User delegation keys, with which the bearer of a token signs SAS. A key's value is derived from
//! its other fields and the account key. So nothing is stored, and replacing the account key
//! invalidates the delegation key. Source: Get User Delegation Key; Create a user delegation SAS.

use crate::date;
use crate::response::error::{Failure, Result, common};
use crate::xml::{Element, Writer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::time::{Duration, SystemTime};

/// Maximum time from now to the expiry of a key.
const LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The fields of a user delegation key, without its value; texts as on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DelegationKey {
    pub object_id: String,
    pub tenant_id: String,
    pub start: String,
    pub expiry: String,
    /// The service of the key: `b`, `q` or `t`.
    pub service: String,
    pub version: String,
    /// The tenant that the users of a SAS must belong to; empty if there is no such limit.
    pub delegated_tenant_id: String,
    /// Whether the key was issued to a data owner of a hierarchical namespace, whose SAS no rights
    /// on paths limit. Not a field on the wire: the value of the key depends on it.
    pub of_data_owner: bool,
}

impl DelegationKey {
    /// Reads start, expiry and delegated tenant of a `KeyInfo` document. Errors:
    /// `InvalidXmlDocument`; `MissingRequiredXmlNode` without an expiry; `InvalidXmlNodeValue` for
    /// a malformed time, an expiry that is not allowed, or a tenant with a control character.
    pub fn read(root: &Element, now: SystemTime) -> Result<DelegationKey> {
        if root.name != "KeyInfo" {
            return Err(common::INVALID_XML_DOCUMENT.into());
        }
        let start = time(root, "Start")?.unwrap_or(now);
        let missing = || Failure::missing_element("Expiry");
        let expiry = time(root, "Expiry")?.ok_or_else(missing)?;
        if expiry <= start || expiry <= now || expiry > now + LIFE_MAX {
            let detail =
                "The key must expire after its start and after now, and within seven days.";
            return Err(Failure::element("Expiry", date::iso8601_seconds(expiry))
                .with("ExtendedErrorDetail", detail));
        }
        let delegated_tenant_id = root.child_text("DelegatedUserTid").unwrap_or_default();
        if delegated_tenant_id.chars().any(char::is_control) {
            return Err(Failure::element("DelegatedUserTid", delegated_tenant_id));
        }
        Ok(DelegationKey {
            start: date::iso8601_seconds(start),
            expiry: date::iso8601_seconds(expiry),
            delegated_tenant_id,
            ..DelegationKey::default()
        })
    }

    /// The value of the key, with which clients sign SAS. It depends on the account key, and on
    /// every field and its length. The account key itself signs only a fixed text: fields that the
    /// bearer chose could be the string to sign of a request.
    pub fn value(&self, account_key: &[u8]) -> Vec<u8> {
        let fields = [
            &self.object_id,
            &self.tenant_id,
            &self.start,
            &self.expiry,
            &self.service,
            &self.version,
            &self.delegated_tenant_id,
        ];
        let keyed = |key: &[u8]| {
            Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length")
        };
        let mut purpose = keyed(account_key);
        // Keeps delegation keys apart from signatures: no string to sign begins with a zero byte.
        purpose.update(b"\0user delegation key");
        if self.of_data_owner {
            purpose.update(b" of a data owner");
        }
        let mut mac = keyed(&purpose.finalize().into_bytes());
        for field in fields {
            mac.update(&(field.len() as u64).to_be_bytes());
            mac.update(field.as_bytes());
        }
        mac.finalize().into_bytes().to_vec()
    }

    /// The response document of Get User Delegation Key.
    pub fn write(&self, account_key: &[u8]) -> String {
        let mut document = Writer::new();
        document.open("UserDelegationKey");
        document.element("SignedOid", &self.object_id);
        document.element("SignedTid", &self.tenant_id);
        document.element("SignedStart", &self.start);
        document.element("SignedExpiry", &self.expiry);
        document.element("SignedService", &self.service);
        document.element("SignedVersion", &self.version);
        let delegated = Some(self.delegated_tenant_id.as_str()).filter(|text| !text.is_empty());
        document.optional("SignedDelegatedUserTid", delegated);
        document.element("Value", &STANDARD.encode(self.value(account_key)));
        document.close("UserDelegationKey");
        document.finish()
    }
}

fn time(root: &Element, name: &'static str) -> Result<Option<SystemTime>> {
    let Some(text) = root.child_text(name) else {
        return Ok(None);
    };
    date::parse_iso8601(&text)
        .map(Some)
        .ok_or_else(|| Failure::element(name, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::headers::parse_xml;

    fn read(inside: &str) -> Result<DelegationKey> {
        let root = parse_xml(format!("<KeyInfo>{inside}</KeyInfo>").as_bytes())?;
        DelegationKey::read(&root, date::parse_iso8601("2024-03-01T12:00:00Z").unwrap())
    }

    #[test]
    fn a_key_lives_for_seven_days_at_most() {
        let key =
            read("<Start>2024-03-01</Start><Expiry>2024-03-08T12:00:00.0000000Z</Expiry>").unwrap();
        assert_eq!(
            (&*key.start, &*key.expiry),
            ("2024-03-01T00:00:00Z", "2024-03-08T12:00:00Z")
        );
        assert_eq!(
            read("<Expiry>2024-03-02</Expiry>").unwrap().start,
            "2024-03-01T12:00:00Z"
        );
        for (inside, code) in [
            ("", "MissingRequiredXmlNode"),
            ("<Expiry>soon</Expiry>", "InvalidXmlNodeValue"),
            (
                "<Expiry>2024-03-08T12:00:01Z</Expiry>",
                "InvalidXmlNodeValue",
            ),
            (
                "<Expiry>2024-03-01T12:00:00Z</Expiry>",
                "InvalidXmlNodeValue",
            ),
            (
                "<Start>2024-03-03</Start><Expiry>2024-03-02</Expiry>",
                "InvalidXmlNodeValue",
            ),
        ] {
            assert_eq!(read(inside).unwrap_err().code, code, "{inside}");
        }
    }

    #[test]
    fn a_line_feed_moves_nothing_from_one_field_to_the_next() {
        let key = |object_id: &str, tenant_id: &str| DelegationKey {
            object_id: object_id.to_owned(),
            tenant_id: tenant_id.to_owned(),
            ..DelegationKey::default()
        };
        assert_ne!(key("a\nb", "c").value(b"1"), key("a", "b\nc").value(b"1"));
        assert_ne!(key("a", "b").value(b"1"), key("b", "a").value(b"1"));
        let shifted =
            "<Expiry>2024-03-02</Expiry><DelegatedUserTid>x&#10;2099-01-01</DelegatedUserTid>";
        assert_eq!(read(shifted).unwrap_err().code, "InvalidXmlNodeValue");
    }

    #[test]
    fn every_field_and_the_accounts_key_make_the_value() {
        let key = read("<Expiry>2024-03-02</Expiry>").unwrap();
        let mut values = vec![key.value(b"1"), key.value(b"2")];
        let change: [fn(&mut DelegationKey); 8] = [
            |key| key.object_id.push('x'),
            |key| key.tenant_id.push('x'),
            |key| key.start.push('x'),
            |key| key.expiry.push('x'),
            |key| key.service.push('x'),
            |key| key.version.push('x'),
            |key| key.delegated_tenant_id.push('x'),
            |key| key.of_data_owner = true,
        ];
        for change in change {
            let mut other = key.clone();
            change(&mut other);
            values.push(other.value(b"1"));
        }
        let distinct: std::collections::BTreeSet<_> = values.iter().collect();
        assert_eq!(distinct.len(), values.len());
    }

    #[test]
    fn the_document_has_every_field_and_the_value() {
        let mut key = DelegationKey {
            object_id: "o".to_owned(),
            tenant_id: "t".to_owned(),
            start: "2024-03-01T00:00:00Z".to_owned(),
            expiry: "2024-03-05T00:00:00Z".to_owned(),
            service: "b".to_owned(),
            version: "2020-12-06".to_owned(),
            ..DelegationKey::default()
        };
        let text = |key: &DelegationKey| {
            let root = parse_xml(key.write(b"1").as_bytes()).unwrap();
            let child = |child: &Element| format!("{}={}", child.name, child.text);
            root.name
                + " "
                + &root
                    .children
                    .iter()
                    .map(child)
                    .collect::<Vec<_>>()
                    .join(" ")
        };
        let value = STANDARD.encode(key.value(b"1"));
        let fields = "SignedOid=o SignedTid=t SignedStart=2024-03-01T00:00:00Z \
                      SignedExpiry=2024-03-05T00:00:00Z SignedService=b SignedVersion=2020-12-06";
        assert_eq!(
            text(&key),
            format!("UserDelegationKey {fields} Value={value}")
        );
        key.delegated_tenant_id = "d".to_owned();
        let value = STANDARD.encode(key.value(b"1"));
        let delegated = "SignedDelegatedUserTid=d";
        assert_eq!(
            text(&key),
            format!("UserDelegationKey {fields} {delegated} Value={value}")
        );
    }

    #[test]
    fn only_a_key_info_document_asks_for_a_key() {
        let root = parse_xml(b"<Key><Expiry>2024-03-02</Expiry></Key>").unwrap();
        let now = date::parse_iso8601("2024-03-01T12:00:00Z").unwrap();
        let refused = DelegationKey::read(&root, now).unwrap_err();
        assert_eq!(refused.code, "InvalidXmlDocument");
        for over in [
            "<Start>2024-03-02</Start><Expiry>2024-03-02</Expiry>",
            "<Start>2024-03-01</Start><Expiry>2024-03-01T12:00:00Z</Expiry>",
        ] {
            assert_eq!(
                read(over).unwrap_err().code,
                "InvalidXmlNodeValue",
                "{over}"
            );
        }
    }

    /// The account's key must not sign what a bearer chose: it might be a request's string to sign.
    #[test]
    fn the_value_is_no_signature_of_the_account_key() {
        let key = read("<Expiry>2024-03-02</Expiry>").unwrap();
        let mac = |key: &[u8], text: &[u8]| {
            let mac = Hmac::<Sha256>::new_from_slice(key)
                .unwrap()
                .chain_update(text);
            mac.finalize().into_bytes().to_vec()
        };
        let text: Vec<u8> = ["", "", &key.start, &key.expiry, "", "", ""]
            .iter()
            .flat_map(|field| [&(field.len() as u64).to_be_bytes()[..], field.as_bytes()].concat())
            .collect();
        assert_ne!(key.value(b"1"), mac(b"1", &text));
        assert_ne!(key.value(b"1"), mac(&mac(b"1", b""), &text));
    }
}
