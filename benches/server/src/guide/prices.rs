//! Prices of transactions and capacity, and the load that they are computed for. Read from a file
//! that one can edit.

use std::collections::BTreeMap;
use std::path::Path;

use lazurite_bench_common::Outcome;
use serde_json::{Map, Value, json};

use crate::guide::usage::{Class, Usage};

/// The stored bytes of a design.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored {
    pub(super) table_bytes: u64,
    pub(super) blob_bytes: u64,
}

impl Stored {
    pub(super) fn bytes(self) -> u64 {
        self.table_bytes + self.blob_bytes
    }
}

pub(super) struct Prices {
    pub(super) currency: String,
    per_10_000: BTreeMap<Class, f64>,
    table_gb_month: f64,
    blob_gb_month: f64,
    /// A month's load of one application.
    pub(super) writes: f64,
    pub(super) questions: f64,
    pub(super) items_kept: f64,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices {
            currency: "USD".into(),
            per_10_000: Class::ALL.map(|class| (class, example(class))).into(),
            table_gb_month: 0.045,
            blob_gb_month: 0.018,
            writes: 1e7,
            questions: 1e7,
            items_kept: 1e7,
        }
    }
}

/// An example price of 10,000 transactions.
fn example(class: Class) -> f64 {
    match class {
        Class::Table => 0.00036,
        Class::BlobWrite | Class::BlobList => 0.05,
        Class::BlobRead | Class::Queue => 0.004,
        Class::BlobDelete => 0.0,
    }
}

impl Prices {
    pub(super) fn read(path: &Path) -> Outcome<Prices> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("the prices in {shown} cannot be read: {error}"))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| format!("the prices in {shown} are not JSON: {error}"))?;
        Prices::parse(&value)
            .map_err(|name| format!("the prices in {shown} have no usable `{name}`").into())
    }

    /// Errors name the field that is missing or negative.
    fn parse(value: &Value) -> Result<Prices, String> {
        let number = |group: &str, name: &str| {
            let found = value[group][name].as_f64().filter(|number| *number >= 0.0);
            found.ok_or_else(|| format!("{group}.{name}"))
        };
        let price = |class: Class| Ok((class, number("per_10_000_transactions", class.name())?));
        Ok(Prices {
            currency: value["currency"].as_str().ok_or("currency")?.to_owned(),
            per_10_000: Class::ALL
                .map(price)
                .into_iter()
                .collect::<Result<_, String>>()?,
            table_gb_month: number("per_gb_and_month", "table")?,
            blob_gb_month: number("per_gb_and_month", "blob")?,
            writes: number("load_per_month", "writes")?,
            questions: number("load_per_month", "questions")?,
            items_kept: number("load_per_month", "items_kept")?,
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let prices = self.per_10_000.iter();
        let prices: Map<String, Value> = prices
            .map(|(class, price)| (class.name().to_owned(), json!(price)))
            .collect();
        json!({
            "note": "Examples. Replace them with the prices of your region and redundancy.",
            "currency": self.currency,
            "per_10_000_transactions": prices,
            "per_gb_and_month": { "table": self.table_gb_month, "blob": self.blob_gb_month },
            "load_per_month": {
                "writes": self.writes, "questions": self.questions, "items_kept": self.items_kept,
            },
        })
    }

    /// The price of the transactions of `usage`.
    pub(super) fn of(&self, usage: &Usage) -> f64 {
        let transactions = usage.transactions.iter();
        transactions
            .map(|(class, count)| *count as f64 / 1e4 * self.per_10_000[class])
            .sum()
    }

    /// The price of keeping it for a month.
    pub(super) fn of_stored(&self, stored: Stored) -> f64 {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        gigabytes(stored.table_bytes) * self.table_gb_month
            + gigabytes(stored.blob_bytes) * self.blob_gb_month
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_prices_are_read_back_and_a_missing_price_is_named() {
        let mut value = Prices::default().to_json();
        let read = Prices::parse(&value).unwrap();
        assert_eq!(read.to_json(), value);
        value["per_10_000_transactions"]["blob_read"] = json!(-1);
        let error = Prices::parse(&value).err().unwrap();
        assert_eq!(error, "per_10_000_transactions.blob_read");
    }

    #[test]
    fn transactions_and_capacity_are_priced() {
        let mut usage = Usage::default();
        usage.transactions.insert(Class::Table, 20_000);
        usage.transactions.insert(Class::BlobWrite, 10_000);
        let prices = Prices::default();
        assert!((prices.of(&usage) - 0.05072).abs() < 1e-9);
        let stored = Stored {
            table_bytes: 2_000_000_000,
            blob_bytes: 0,
        };
        assert!((prices.of_stored(stored) - 0.09).abs() < 1e-9);
    }
}
