//! The resource that a path addresses: the service, tables, entities. Source: Addressing Table
//! service resources.

use crate::request::operation::Resource;
use lazurite_protocol::response::error::{Failure, Result};
use percent_encoding::percent_decode_str;

/// The resource that a request addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Service,
    /// The path `Tables`.
    Tables,
    /// The path `Tables('T')`.
    OneTable(String),
    /// The path `$batch`.
    Batch,
    /// The path `T` or `T()`.
    Table(String),
    /// The path `T(PartitionKey='p',RowKey='r')`.
    Entity(String, EntityKeys),
    /// `T/…`, which addresses nothing: the path of a client whose endpoint names a table. The flag
    /// is true if there is a predicate.
    Below(String, bool),
}

/// Both keys of an entity, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityKeys {
    pub partition_key: String,
    pub row_key: String,
}

impl Address {
    /// The resource, as rows of operations name it. A POST below a table counts as a POST to the
    /// table, as on the hosted service, so that clients learn that their endpoint should not name a
    /// table.
    pub fn resource(&self, posts: bool) -> Resource {
        match self {
            Address::Service => Resource::Service,
            Address::Tables => Resource::Tables,
            Address::OneTable(_) => Resource::TableName,
            Address::Batch => Resource::TableBatch,
            Address::Table(_) => Resource::Table,
            Address::Entity(..) => Resource::Entity,
            Address::Below(..) if posts => Resource::Table,
            Address::Below(..) => Resource::BelowTable,
        }
    }

    /// The table and the keys in the address; empty if it has none.
    pub fn names(self) -> (String, EntityKeys) {
        match self {
            Address::Service | Address::Tables | Address::Batch => Default::default(),
            Address::OneTable(table) | Address::Table(table) | Address::Below(table, _) => {
                (table, EntityKeys::default())
            }
            Address::Entity(table, keys) => (table, keys),
        }
    }

    /// Parses a percent-encoded path without its first slash. A plus is not decoded.
    pub fn parse(raw: &str) -> Result<Address> {
        let path = percent_decode_str(raw)
            .decode_utf8()
            .map_err(|_| syntax_error())?;
        let path = path.trim_end_matches('/');
        let (name, predicate) = match path.split_once('(') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or_else(syntax_error)?)),
            None => (path, None),
        };
        let predicate = predicate
            .map(str::trim)
            .filter(|predicate| !predicate.is_empty());
        let system = name.eq_ignore_ascii_case("Tables");
        match (name, predicate) {
            ("", None) => Ok(Address::Service),
            ("$batch", None) => Ok(Address::Batch),
            (name, predicate) if name.contains('/') => {
                let table = name.split('/').next().unwrap_or_default();
                Ok(Address::Below(table.to_owned(), predicate.is_some()))
            }
            (_, None) if system => Ok(Address::Tables),
            (_, None) => Ok(Address::Table(name.to_owned())),
            (_, Some(predicate)) if system => one_table(predicate),
            (_, Some(predicate)) => Ok(Address::Entity(name.to_owned(), keys(predicate)?)),
        }
    }
}

fn one_table(predicate: &str) -> Result<Address> {
    let predicate = predicate.strip_prefix("TableName=").unwrap_or(predicate);
    match quoted(predicate) {
        Some((name, "")) => Ok(Address::OneTable(name)),
        _ => Err(syntax_error()),
    }
}

/// Parses `PartitionKey='p',RowKey='r'`, in either order.
fn keys(predicate: &str) -> Result<EntityKeys> {
    let (mut partition_key, mut row_key) = (None, None);
    let mut rest = predicate;
    loop {
        let (name, after) = rest.split_once('=').ok_or_else(syntax_error)?;
        let (value, after) = quoted(after.trim_start()).ok_or_else(syntax_error)?;
        let key = match name.trim() {
            "PartitionKey" => &mut partition_key,
            "RowKey" => &mut row_key,
            _ => return Err(syntax_error()),
        };
        if key.replace(value).is_some() {
            return Err(syntax_error());
        }
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    match (partition_key, row_key, rest) {
        (Some(partition_key), Some(row_key), "") => Ok(EntityKeys {
            partition_key,
            row_key,
        }),
        _ => Err(syntax_error()),
    }
}

/// The text in quotes at the start, in which two quotes stand for one, and the rest after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut value = String::new();
    loop {
        let (before, after) = rest.split_once('\'')?;
        value.push_str(before);
        match after.strip_prefix('\'') {
            Some(more) => {
                value.push('\'');
                rest = more;
            }
            None => return Some((value, after)),
        }
    }
}

fn syntax_error() -> Failure {
    Failure::invalid_input("Bad Request - Error in query syntax.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(partition_key: &str, row_key: &str) -> Address {
        let (partition_key, row_key) = (partition_key.to_owned(), row_key.to_owned());
        Address::Entity(
            "T".to_owned(),
            EntityKeys {
                partition_key,
                row_key,
            },
        )
    }

    #[test]
    fn every_form_of_address_is_recognised() {
        assert_eq!(Address::parse("").unwrap(), Address::Service);
        assert_eq!(Address::parse("tables()").unwrap(), Address::Tables);
        assert_eq!(
            Address::parse("Tables('T')").unwrap(),
            Address::OneTable("T".to_owned())
        );
        assert_eq!(
            Address::parse("Tables(%27T%27)").unwrap(),
            Address::OneTable("T".to_owned())
        );
        assert_eq!(Address::parse("$batch").unwrap(), Address::Batch);
        assert_eq!(Address::parse("%24batch").unwrap(), Address::Batch);
        assert_eq!(
            Address::parse("T()").unwrap(),
            Address::Table("T".to_owned())
        );
        assert_eq!(
            Address::parse("T(PartitionKey='p',RowKey='r')").unwrap(),
            entity("p", "r")
        );
        assert_eq!(
            Address::parse("T(RowKey='r', PartitionKey='p')").unwrap(),
            entity("p", "r")
        );
        assert_eq!(
            Address::parse("T(PartitionKey='',RowKey='')").unwrap(),
            entity("", "")
        );
        assert_eq!(
            Address::parse("T(PartitionKey='p%27%27k',RowKey='r%20k+%C3%A9')").unwrap(),
            entity("p'k", "r k+é")
        );
        assert_eq!(
            Address::parse("T(PartitionKey='a/b',RowKey='')").unwrap(),
            entity("a/b", "")
        );
        let below = |has_predicate| Address::Below("T".to_owned(), has_predicate);
        assert_eq!(Address::parse("T/Tables").unwrap(), below(false));
        assert_eq!(Address::parse("T/Tables('U')").unwrap(), below(true));
        assert_eq!(
            Address::parse("T(PartitionKey='a,b=c)',RowKey='(')").unwrap(),
            entity("a,b=c)", "(")
        );
    }

    #[test]
    fn broken_predicates_are_syntax_errors() {
        for raw in [
            "T(",
            "T(x",
            "T('p')",
            "T(PartitionKey='p')",
            "T(PartitionKey='p',RowKey='r'",
            "T(PartitionKey=p,RowKey='r')",
            "T(PartitionKey='p',PartitionKey='p')",
            "T(PartitionKey='p',RowKey='r'x)",
            "T(PartitionKey='p'',RowKey='r')",
            "Tables('T'x)",
            "%ff",
        ] {
            assert_eq!(
                Address::parse(raw).unwrap_err().code,
                "InvalidInput",
                "{raw}"
            );
        }
    }
}
