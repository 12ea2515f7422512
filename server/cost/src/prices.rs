//! The price file: what its keys mean, their example values, and how it is read.

use crate::class::Class;
use crate::load::Load;
use crate::pages::PageRules;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Bytes of a GiB, the unit of capacity on a bill.
pub const GIB: f64 = 1_073_741_824.0;
/// Transactions for which prices are quoted.
pub(crate) const PRICED_TRANSACTIONS: f64 = 10_000.0;

/// The note that reports have if a batch is on the bill.
pub const BATCH_NOTE: &str = "Microsoft's documentation counts a batch as one transaction; invoices have been seen that count its \
     entities.";

/// How an entity group transaction is billed. The sources contradict each other. As one request:
/// Performance and scalability checklist for Table storage. By its entities: Particular's capacity
/// planning for Azure Table, and an invoice published by NuGet.Insights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchCounting {
    /// Each entity is a transaction: the dearer counting.
    #[default]
    Entities,
    /// The whole batch is one transaction.
    Request,
}

/// The prices of 10,000 transactions by [`Class`].
///
/// Examples. Blob: the fictitious prices of Estimate the cost of using Azure Blob Storage
/// (2024-07), hot tier. Queue and Table: copies of the price pages, locally redundant, without a
/// date.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transactions {
    /// Writes of blobs and blocks.
    pub blob_write: f64,
    /// Reads of content.
    pub blob_read: f64,
    /// Listings, and the creation of containers.
    pub blob_list: f64,
    /// Properties, metadata, tags, leases, snapshots.
    pub blob_other: f64,
    /// Deletes of blobs and containers.
    pub blob_delete: f64,
    /// Writes of messages and queues, and listings of queues.
    pub queue_class_1: f64,
    /// Reads of messages and properties.
    pub queue_class_2: f64,
    /// Single writes of entities.
    pub table_write: f64,
    /// Entity group transactions, counted as [`Prices::batch_is_billed_as`] says.
    pub table_batch_write: f64,
    /// Reads of one entity by its keys.
    pub table_read: f64,
    /// Pages of queries.
    pub table_scan: f64,
    /// Single deletes of entities.
    pub table_delete: f64,
    /// Tables, policies and properties.
    pub table_other: f64,
}

impl Default for Transactions {
    fn default() -> Transactions {
        Transactions {
            blob_write: 0.055,
            blob_read: 0.0044,
            blob_list: 0.055,
            blob_other: 0.0044,
            blob_delete: 0.0,
            queue_class_1: 0.004,
            queue_class_2: 0.004,
            table_write: 0.000_36,
            table_batch_write: 0.000_36,
            table_read: 0.000_36,
            table_scan: 0.000_36,
            table_delete: 0.000_36,
            table_other: 0.000_36,
        }
    }
}

/// The prices of a GiB that is kept for a month. Examples from the same pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Capacity {
    /// Blobs in the hot tier.
    pub blob: f64,
    /// Messages.
    pub queue: f64,
    /// Entities.
    pub table: f64,
}

impl Default for Capacity {
    fn default() -> Capacity {
        Capacity {
            blob: 0.0208,
            queue: 0.045,
            table: 0.045,
        }
    }
}

/// The prices of a GiB that is transferred.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transfer {
    /// Out of the region. 0: clients in the region of the account pay nothing.
    pub egress: f64,
    /// To the second region of a geo-redundant account. 0: the account has no second region.
    pub geo_replication: f64,
}

/// The price file. Each key that it leaves out keeps its example value; other keys are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prices {
    /// A remark of the author, without effect.
    pub note: String,
    /// The currency of all prices, as it is shown.
    pub currency: String,
    /// How an entity group transaction is billed.
    pub batch_is_billed_as: BatchCounting,
    /// The prices of 10,000 transactions.
    pub per_10_000_transactions: Transactions,
    /// The prices of a GiB that is kept for a month.
    pub per_gib_and_month: Capacity,
    /// The prices of a GiB that is transferred.
    pub per_gib_transferred: Transfer,
    /// Assumed number of rows that the service examines in a second of a scan. A page of a scan
    /// ends after 5 seconds. The example is the published target of one partition; no measured
    /// speed is published. A higher number makes scans cheaper.
    pub scan_rows_a_second: f64,
    /// The load of a month that is priced.
    pub load_per_month: Load,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices {
            note: "Examples. Replace them with the prices of your region and redundancy."
                .to_owned(),
            currency: "USD".to_owned(),
            batch_is_billed_as: BatchCounting::default(),
            per_10_000_transactions: Transactions::default(),
            per_gib_and_month: Capacity::default(),
            per_gib_transferred: Transfer::default(),
            scan_rows_a_second: 2000.0,
            load_per_month: Load::default(),
        }
    }
}

/// A price file that cannot be used.
#[derive(Debug, Error)]
pub enum PricesError {
    /// The file is not JSON, has an unknown key, or a value of another type. The text names the
    /// line.
    #[error("{0}")]
    Malformed(#[from] serde_json::Error),
    /// The price or figure at this path is negative.
    #[error("`{0}` is negative")]
    Negative(String),
}

impl Prices {
    /// Reads a price file.
    pub fn from_json(text: &str) -> Result<Prices, PricesError> {
        let prices: Prices = serde_json::from_str(text)?;
        match negative(&serde_json::to_value(&prices)?) {
            Some(path) => Err(PricesError::Negative(path)),
            None => Ok(prices),
        }
    }

    /// The pages of a scan under the assumption of the file.
    pub fn page_rules(&self) -> PageRules {
        PageRules {
            rows_a_second: Some(self.scan_rows_a_second),
            ..PageRules::default()
        }
    }

    /// The price file, with all keys.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("all keys are texts and all numbers finite")
    }

    /// The price of 10,000 transactions of a class.
    pub fn transaction(&self, class: Class) -> f64 {
        let prices = &self.per_10_000_transactions;
        match class {
            Class::BlobWrite => prices.blob_write,
            Class::BlobRead => prices.blob_read,
            Class::BlobList => prices.blob_list,
            Class::BlobOther => prices.blob_other,
            Class::BlobDelete => prices.blob_delete,
            Class::QueueClass1 => prices.queue_class_1,
            Class::QueueClass2 => prices.queue_class_2,
            Class::TableWrite => prices.table_write,
            Class::TableBatchWrite => prices.table_batch_write,
            Class::TableRead => prices.table_read,
            Class::TableScan => prices.table_scan,
            Class::TableDelete => prices.table_delete,
            Class::TableOther => prices.table_other,
        }
    }
}

/// The path of a negative number. JSON has no numbers that are not finite.
fn negative(value: &serde_json::Value) -> Option<String> {
    let fields = value.as_object()?;
    fields.iter().find_map(|(name, value)| {
        let is_negative = value.as_f64().is_some_and(|number| number < 0.0);
        if is_negative {
            return Some(name.clone());
        }
        Some(format!("{name}.{}", negative(value)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_prices_of_the_guide_are_the_examples() {
        let page = include_str!("../../docs/guide/README.md");
        let prices = Prices::default();
        let compared = |class: Class| {
            let table = prices.transaction(Class::TableWrite);
            (prices.transaction(class) / table).round()
        };
        let has = |page: &str, text: String| assert!(page.contains(&text), "missing: {text}");
        let currency = &prices.currency;
        let head = format!("| what | {currency} for 10,000 | compared with a table request |");
        has(page, head);
        let rows: [(&str, &[Class]); 5] = [
            (
                "table: write, read, page of a query, delete",
                &[
                    Class::TableWrite,
                    Class::TableRead,
                    Class::TableScan,
                    Class::TableDelete,
                    Class::TableOther,
                    // Billed for each entity.
                    Class::TableBatchWrite,
                ],
            ),
            (
                "queue: message sent, received, deleted, or a look into an empty queue",
                &[Class::QueueClass1, Class::QueueClass2],
            ),
            (
                "blob: read, properties",
                &[Class::BlobRead, Class::BlobOther],
            ),
            (
                "blob: write, block, append, listing",
                &[Class::BlobWrite, Class::BlobList],
            ),
            ("blob: delete", &[Class::BlobDelete]),
        ];
        assert_eq!(prices.batch_is_billed_as, BatchCounting::Entities);
        let classes = rows.iter().map(|(_, classes)| classes.len()).sum::<usize>();
        assert_eq!(classes, Class::ALL.len());
        for (what, classes) in rows {
            for class in classes {
                let (price, compared) = (prices.transaction(*class), compared(*class));
                has(page, format!("\n| {what} | {price} | {compared} |\n"));
            }
        }
        let kept = &prices.per_gib_and_month;
        has(
            page,
            format!("\n| what | {currency} for a GiB and a month |\n"),
        );
        has(page, format!("\n| tables, queues | {} |\n", kept.table));
        has(page, format!("\n| tables, queues | {} |\n", kept.queue));
        has(page, format!("\n| blobs | {} |\n", kept.blob));
        // Sentences of other pages.
        let queue = compared(Class::QueueClass1);
        let index = include_str!("../../docs/guide/inter-partition-index.md");
        has(
            index,
            format!("[{queue} table requests](README.md#unit-prices)"),
        );
        let logs = include_str!("../../docs/guide/log-data-in-blobs.md");
        let blob = compared(Class::BlobWrite);
        has(logs, format!("billed as {blob} writes to a table"));
        let view = include_str!("../../docs/guide/materialised-view.md");
        let (three, six) = (3.0 * queue, 3.0 * queue + 4.0);
        has(
            view,
            format!("as much as {six} table requests: {three} for the queue"),
        );
    }

    #[test]
    fn file_that_was_printed_is_read_back() {
        let prices = Prices::default();
        assert_eq!(Prices::from_json(&prices.to_json()).unwrap(), prices);
        assert_eq!(Prices::from_json("{}").unwrap(), prices);
    }

    #[test]
    fn keys_that_are_left_out_keep_the_example() {
        let text = r#"{"currency": "EUR", "batch_is_billed_as": "request", "per_gib_and_month": {"table": 0.06}}"#;
        let prices = Prices::from_json(text).unwrap();
        assert_eq!(prices.currency, "EUR");
        assert_eq!(prices.batch_is_billed_as, BatchCounting::Request);
        assert_eq!(prices.per_gib_and_month.table, 0.06);
        assert_eq!(prices.per_gib_and_month.blob, 0.0208);
    }

    #[test]
    fn file_that_cannot_be_used_is_refused_with_its_place() {
        for (text, place) in [
            ("{", "line 1"),
            (r#"{"curency": "EUR"}"#, "`curency`"),
            (r#"{"per_gib_and_month": {"file": 1}}"#, "`file`"),
            (r#"{"batch_is_billed_as": "half"}"#, "`half`"),
            (
                r#"{"per_10_000_transactions": {"blob_read": -1}}"#,
                "`per_10_000_transactions.blob_read`",
            ),
            (
                r#"{"per_10_000_transactions": {"blob_read": "1"}}"#,
                "line 1",
            ),
            (
                r#"{"load_per_month": {"items": -1}}"#,
                "`load_per_month.items`",
            ),
            (r#"{"load_per_month": {"items": 1e999}}"#, "out of range"),
        ] {
            let error = Prices::from_json(text).unwrap_err().to_string();
            assert!(error.contains(place), "{text}: {error}");
        }
    }

    #[test]
    fn pages_of_a_scan_follow_the_assumed_speed() {
        let text = r#"{"scan_rows_a_second": 1000}"#;
        let prices = Prices::from_json(text).unwrap();
        // 10,000,000 rows at 1,000 a second are 10,000 seconds, in pages of 5.
        assert_eq!(prices.page_rules().pages(1e7, 1.0, 0.0), 2000.0);
    }

    #[test]
    fn each_class_has_the_price_of_its_name() {
        let mut value = serde_json::to_value(Prices::default()).unwrap();
        for (index, class) in Class::ALL.into_iter().enumerate() {
            value["per_10_000_transactions"][class.name()] = (index + 1).into();
        }
        let prices = Prices::from_json(&value.to_string()).unwrap();
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(prices.transaction(class), (index + 1) as f64);
        }
    }
}
