//! The costs of a workload with the keys as they are, and with others.

use crate::key::KeyCondition;
use crate::partitions::Demand;
use crate::rewrite::{Keys, Known};
use crate::workload::{KeyedRequest, OldKeys, Question, RecordedQuery, Workload};
use lazurite_cost::{
    Bill, Class, Design as Billed, Growth, Load, PageRules, Prices, Service, Step, Stored, Work,
};
use lazurite_table::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Seconds of a month of 30 days.
const MONTH: f64 = 30.0 * 86_400.0;
/// Maximum number of seconds over which the rows of a scan are spread.
const SCAN_SECONDS_MAX: f64 = 3600.0;
/// Maximum number of partitions among which the rows of a scan are divided. With more, the rows are
/// spread over the whole table.
const SHARES_MAX: usize = 1000;

/// A table as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Number of entities by PartitionKey.
    pub partitions: BTreeMap<String, u64>,
    /// Billed bytes of all entities.
    pub bytes: u64,
}

impl Table {
    /// Entities of all partitions.
    pub fn rows(&self) -> u64 {
        self.partitions.values().sum()
    }

    /// Adds the partitions that a workload names and the table does not have, without entities.
    pub fn add_partitions(&mut self, workload: &Workload, measured: &BTreeMap<Question, Measured>) {
        for found in measured.values() {
            if let KeyCondition::Equal(key) = &found.partitions {
                self.partitions.entry(key.clone()).or_default();
            }
        }
        for request in &workload.keyed {
            self.partitions
                .entry(request.partition.clone())
                .or_default();
        }
    }
}

/// The measured cost of a query on a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// How the hosted service reaches the rows: `row range`, `table scan`.
    pub plan: String,
    /// Rows that the hosted service would examine.
    pub examined: u64,
    /// Entities in the answers.
    pub returned: u64,
    /// Whether the query was run up to its last page. False if its cost is taken from another
    /// query.
    pub is_whole: bool,
    /// The partitions that have the examined rows.
    pub partitions: KeyCondition,
}

/// The keys that an entity has in the new design, and the values that its readers know.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// The new PartitionKey.
    pub partition: String,
    /// The new RowKey.
    pub row: String,
    /// The values that its readers know besides the former keys.
    pub known: Vec<(String, Value)>,
}

/// How entities are stored.
#[derive(Debug, Clone, Copy)]
pub enum Design<'a> {
    /// With the keys of the record.
    AsItIs,
    /// With other keys.
    Rekeyed {
        /// The keys.
        keys: &'a Keys,
        /// The entities that the record names and that still exist, by their former keys.
        moved: &'a HashMap<OldKeys, Moved>,
    },
    /// With the keys of the record, and once more with other keys.
    Copied {
        /// The other keys.
        keys: &'a Keys,
        /// See [`Design::Rekeyed`].
        moved: &'a HashMap<OldKeys, Moved>,
    },
}

/// The costs of a workload. Figures are those of the whole record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// Requests by class, without transactions. Each page of a query is a request.
    pub requests: BTreeMap<Class, u64>,
    /// Entity group transactions, and the entities in them.
    pub transactions: (u64, u64),
    /// Rows that the hosted service would examine.
    pub examined: u64,
    /// The demand of each second.
    pub demands: Vec<Demand>,
    /// Transactions whose entities lie in more than one partition: they would not be atomic.
    pub divided: u64,
    /// Number of requests by keys that must search first, because the former keys do not determine
    /// the new ones. With copies: number of writes that must read the entity first.
    pub searches: u64,
    /// Number of merges of entities whose keys are made of other properties. A merge that changes
    /// such a property would be a deletion and an insert.
    pub merges: u64,
    /// Number of requests that name entities which no longer exist. They are counted with the
    /// former keys.
    pub gone: u64,
}

impl Usage {
    /// Adds up a workload. `tables` are those of the design, the one with the former keys first;
    /// `measured` has the cost of each query in each of them.
    pub fn of(
        workload: &Workload,
        design: Design<'_>,
        tables: &[&Table],
        measured: &[&BTreeMap<Question, Measured>],
        pages: &PageRules,
    ) -> Usage {
        let numbers = named(tables).into_iter().enumerate();
        let numbers = numbers.map(|(number, partition)| (partition, number));
        let mut adding = Adding {
            usage: Usage {
                demands: vec![Demand::default(); workload.seconds],
                ..Usage::default()
            },
            tables,
            numbers: numbers.collect(),
            pages,
        };
        for request in &workload.keyed {
            adding.keyed(request, design);
        }
        for (question, query) in &workload.queries {
            adding.query(question, query, measured);
        }
        adding.usage
    }

    /// Number of requests, transactions included.
    pub fn total_requests(&self) -> u64 {
        self.requests.values().sum::<u64>() + self.transactions.0
    }

    /// The bill of a month in which the workload of `seconds` repeats, with the entities of
    /// `tables`.
    pub fn bill(&self, tables: &[&Table], seconds: usize, prices: &Prices) -> Bill {
        let step =
            |(class, count): (&Class, &u64)| Step::requests(class.name(), *class, *count as f64);
        let mut read: Vec<Step> = self.requests.iter().map(step).collect();
        let (batches, entities) = self.transactions;
        if batches > 0 {
            read.push(Step {
                what: Class::TableBatchWrite.name().to_owned(),
                work: Work::Batches {
                    times: Growth::constant(batches as f64),
                    entities: entities as f64 / batches as f64,
                },
            });
        }
        let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
        let billed = Billed {
            read,
            item: vec![Stored {
                what: "entities".to_owned(),
                service: Service::Table,
                bytes: bytes as f64,
            }],
            ..Billed::default()
        };
        let load = Load {
            items: 1.0,
            reads: MONTH / seconds as f64,
            writes: 0.0,
        };
        billed.bill(load, prices)
    }
}

/// The partitions of tables, in the order of their numbers in [`Demand`]: table and name.
fn named<'a>(tables: &[&'a Table]) -> Vec<(usize, &'a str)> {
    let of_table = |(at, table): (usize, &&'a Table)| {
        let names = table.partitions.keys();
        names.map(move |name| (at, name.as_str()))
    };
    tables.iter().enumerate().flat_map(of_table).collect()
}

/// Entities of the partitions of each table, in the order of their numbers.
pub fn rows_of_partitions(tables: &[&Table]) -> Vec<Vec<u64>> {
    let of_table = |table: &&Table| table.partitions.values().copied().collect();
    tables.iter().map(of_table).collect()
}

/// The name of a partition by its number.
pub fn partition_name<'a>(tables: &[&'a Table], number: usize) -> Option<&'a str> {
    named(tables).get(number).map(|(_, name)| *name)
}

struct Adding<'a> {
    usage: Usage,
    tables: &'a [&'a Table],
    /// The number of each partition: those of the first table first, in key order.
    numbers: HashMap<(usize, &'a str), usize>,
    pages: &'a PageRules,
}

impl Adding<'_> {
    fn keyed(&mut self, request: &KeyedRequest, design: Design<'_>) {
        let (Design::Rekeyed { moved, keys } | Design::Copied { moved, keys }) = design else {
            return self.as_it_is(request);
        };
        let Some(new) = new_keys(request, moved) else {
            self.usage.gone += 1;
            return self.as_it_is(request);
        };
        if matches!(design, Design::Rekeyed { .. }) {
            self.rekeyed(request, keys, &new);
            return;
        }
        self.as_it_is(request);
        // What the table refuses is not written to the copy.
        if request.is_write() && !request.is_refused {
            if !self.known(request, keys, new[0]).is_point() {
                self.usage.searches += 1;
                self.request("QueryEntity", 1);
                self.demand(request.second, 0, &request.partition, 1.0);
            }
            self.write(request, &new);
        }
    }

    /// The conditions on the new keys that the client of a request knows. Counts a merge that may
    /// change the keys.
    fn known(&mut self, request: &KeyedRequest, keys: &Keys, new: &Moved) -> Known {
        if request.sends_all_properties() {
            return Known {
                partition: KeyCondition::Equal(new.partition.clone()),
                row: KeyCondition::Equal(new.row.clone()),
            };
        }
        let is_made_of_others = |name: &str| !matches!(name, "PartitionKey" | "RowKey");
        let mut properties = keys.partition.properties().chain(keys.row.properties());
        if request.is_merge() && properties.any(is_made_of_others) {
            self.usage.merges += 1;
        }
        let known = new.known.iter();
        let known: Vec<_> = known
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        keys.known_by_keys(&request.partition, &request.rows[0], &known)
    }

    fn as_it_is(&mut self, request: &KeyedRequest) {
        let rows = request.rows.len() as u64;
        if request.is_transaction() {
            self.transaction(rows);
        } else {
            self.request(&request.operation, 1);
        }
        self.demand(request.second, 0, &request.partition, rows as f64);
    }

    fn rekeyed(&mut self, request: &KeyedRequest, keys: &Keys, new: &[&Moved]) {
        let known = self.known(request, keys, new[0]);
        if !known.is_point() {
            self.usage.searches += 1;
            self.search(request.second, &known.partition);
            if !request.is_write() {
                return;
            }
        }
        self.write(request, new);
    }

    /// Adds a request, sent to the entities with their new keys, in the last table.
    fn write(&mut self, request: &KeyedRequest, new: &[&Moved]) {
        let table = self.tables.len() - 1;
        if !request.is_transaction() {
            self.request(&request.operation, 1);
            self.demand(request.second, table, &new[0].partition, 1.0);
            return;
        }
        let partitions: BTreeSet<_> = new.iter().map(|moved| &moved.partition).collect();
        self.usage.divided += u64::from(partitions.len() > 1);
        for partition in partitions {
            let rows = new
                .iter()
                .filter(|moved| moved.partition == *partition)
                .count() as u64;
            match rows {
                1 => self.request("InsertOrReplaceEntity", 1),
                rows => self.transaction(rows),
            }
            self.demand(request.second, table, partition, rows as f64);
        }
    }

    /// Adds a query for one entity in the partitions that may have it.
    fn search(&mut self, second: usize, partitions: &KeyCondition) {
        let table = self.tables.len() - 1;
        let of_table = self.tables[table].partitions.iter();
        let allowed = of_table.filter(|(key, _)| partitions.allows(key));
        let examined = allowed.map(|(_, rows)| rows).sum();
        self.scan(&[second], table, examined, 1, partitions);
    }

    /// Adds a query, asked of the table in which it is cheapest.
    fn query(
        &mut self,
        question: &Question,
        query: &RecordedQuery,
        measured: &[&BTreeMap<Question, Measured>],
    ) {
        let of_tables = measured.iter().enumerate();
        let found = of_tables.filter_map(|(at, all)| Some((at, all.get(question)?)));
        let Some((table, cheapest)) = found.min_by_key(|(_, measured)| measured.examined) else {
            return;
        };
        match &cheapest.partitions {
            KeyCondition::Equal(partition) if cheapest.plan == "point" => {
                self.request("QueryEntity", query.seconds.len() as u64);
                for second in &query.seconds {
                    self.demand(*second, table, partition, 1.0);
                }
            }
            partitions => self.scan(
                &query.seconds,
                table,
                cheapest.examined,
                cheapest.returned,
                partitions,
            ),
        }
    }

    /// Adds a scan in each of these seconds.
    fn scan(
        &mut self,
        seconds: &[usize],
        table: usize,
        examined: u64,
        returned: u64,
        partitions: &KeyCondition,
    ) {
        let pages = self.pages.pages(examined as f64, returned as f64, 0.0) as u64;
        let times = seconds.len() as u64;
        *self.usage.requests.entry(Class::TableScan).or_default() += pages * times;
        self.usage.examined += examined * times;
        // Azure is assumed to examine this many rows of one query in a second.
        let rate = self.pages.rows_a_second.unwrap_or(f64::INFINITY).max(1.0);
        let lasts = (examined as f64 / rate).ceil().clamp(1.0, SCAN_SECONDS_MAX);
        let shares = self.shares(table, partitions);
        let rows = examined as f64 / lasts;
        for second in seconds {
            for passed in 0..lasts as usize {
                self.demand_of_scan(second + passed, table, rows, shares.as_deref());
            }
        }
    }

    /// Adds the rows of a scan in one second. Without `shares` they are spread over the partitions
    /// of the table like all its rows.
    fn demand_of_scan(
        &mut self,
        second: usize,
        table: usize,
        rows: f64,
        shares: Option<&[(usize, f64)]>,
    ) {
        let of_table = self.tables[table].rows().max(1) as f64;
        let demand = self.of_second(second);
        let Some(shares) = shares else {
            let of_all = &mut demand.of_all;
            of_all.resize(of_all.len().max(table + 1), 0.0);
            of_all[table] += rows / of_table;
            return;
        };
        for (number, share) in shares {
            *demand.of_partition.entry(*number).or_default() += rows * share;
        }
    }

    /// The partitions that a query reads, each with its share of the rows; `None` if these are all
    /// or too many.
    fn shares(&self, table: usize, partitions: &KeyCondition) -> Option<Vec<(usize, f64)>> {
        if *partitions == KeyCondition::Unknown {
            return None;
        }
        let of_table = self.tables[table].partitions.iter();
        let allowed = of_table.filter(|(key, _)| partitions.allows(key));
        let allowed: Vec<_> = allowed.take(SHARES_MAX + 1).collect();
        if allowed.len() > SHARES_MAX {
            return None;
        }
        let rows: u64 = allowed.iter().map(|(_, rows)| **rows).sum();
        let share = |rows_of_one: u64| match rows {
            0 => 1.0 / allowed.len() as f64,
            rows => rows_of_one as f64 / rows as f64,
        };
        let numbered = allowed.iter().filter_map(|(key, rows)| {
            let number = self.numbers.get(&(table, key.as_str()))?;
            Some((*number, share(**rows)))
        });
        Some(numbered.collect())
    }

    fn request(&mut self, operation: &str, count: u64) {
        let class = Class::of(Service::Table, operation).unwrap_or(Class::TableOther);
        *self.usage.requests.entry(class).or_default() += count;
        if class == Class::TableRead {
            self.usage.examined += count;
        }
    }

    fn transaction(&mut self, entities: u64) {
        self.usage.transactions.0 += 1;
        self.usage.transactions.1 += entities;
    }

    fn demand(&mut self, second: usize, table: usize, partition: &str, entities: f64) {
        let Some(number) = self.numbers.get(&(table, partition)).copied() else {
            return;
        };
        *self
            .of_second(second)
            .of_partition
            .entry(number)
            .or_default() += entities;
    }

    /// The demand of a second. Lengthens the list if needed: scans may last beyond the end of the
    /// record.
    fn of_second(&mut self, second: usize) -> &mut Demand {
        let demands = &mut self.usage.demands;
        demands.resize(demands.len().max(second + 1), Demand::default());
        &mut demands[second]
    }
}

/// The entities of a request with their new keys; `None` if one no longer exists.
fn new_keys<'m>(
    request: &KeyedRequest,
    moved: &'m HashMap<OldKeys, Moved>,
) -> Option<Vec<&'m Moved>> {
    let of_row = |row: &String| moved.get(&(request.partition.clone(), row.clone()));
    request.rows.iter().map(of_row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyExpression;
    use crate::workload::tests::{keyed, query};

    fn table(partitions: &[(&str, u64)]) -> Table {
        let of = |(name, rows): &(&str, u64)| ((*name).to_owned(), *rows);
        Table {
            partitions: partitions.iter().map(of).collect(),
            bytes: 1 << 30,
        }
    }

    fn keys(partition: &str, row: &str) -> Keys {
        Keys {
            partition: KeyExpression::parse(partition).unwrap(),
            row: KeyExpression::parse(row).unwrap(),
        }
    }

    /// Entities 1 to 3 of partition `p`, of the customers a, a and b.
    fn moved(known: bool) -> HashMap<OldKeys, Moved> {
        let of = |(row, customer): (&str, &str)| {
            let value = Value::String(customer.to_owned());
            let known = known.then(|| ("Customer".to_owned(), value));
            let moved = Moved {
                partition: customer.to_owned(),
                row: row.to_owned(),
                known: known.into_iter().collect(),
            };
            (("p".to_owned(), row.to_owned()), moved)
        };
        [("1", "a"), ("2", "a"), ("3", "b")].map(of).into()
    }

    fn measured(
        plan: &str,
        examined: u64,
        partition: Option<&str>,
    ) -> BTreeMap<Question, Measured> {
        let question = ("Customer eq 'a'".to_owned(), None);
        let measured = Measured {
            plan: plan.to_owned(),
            examined,
            returned: 2,
            is_whole: true,
            partitions: partition.map_or(KeyCondition::Unknown, |key| {
                KeyCondition::Equal(key.to_owned())
            }),
        };
        BTreeMap::from([(question, measured)])
    }

    fn workload() -> Workload {
        let records = [
            keyed(0, "EntityGroupTransaction", "p", &["1", "2", "3"]),
            keyed(500, "QueryEntity", "p", &["1"]),
            keyed(1000, "MergeEntity", "p", &["3"]),
            keyed(1000, "DeleteEntity", "p", &["gone"]),
            query(1500, "Customer eq 'a'", 2, false),
            query(1600, "Customer eq 'a'", 2, false),
        ];
        Workload::of(&records, "T")
    }

    const PAGES: PageRules = PageRules {
        entities_max: 1000.0,
        rows_a_second: Some(2000.0),
        seconds_max: 5.0,
    };

    #[test]
    fn keys_as_they_are_cost_what_was_measured() {
        let (old, measured) = (
            table(&[("p", 25_000)]),
            measured("table scan", 25_000, None),
        );
        let usage = Usage::of(&workload(), Design::AsItIs, &[&old], &[&measured], &PAGES);
        assert_eq!(usage.requests[&Class::TableScan], 6);
        assert_eq!(usage.transactions, (1, 3));
        assert_eq!(usage.total_requests(), 1 + 1 + 1 + 1 + 6);
        assert_eq!(usage.examined, 50_001);
        assert_eq!(usage.demands[0].of_partition[&0], 4.0);
        // Two scans of 25,000 rows last 13 seconds at 2,000 rows a second.
        assert_eq!(usage.demands.len(), 14);
        assert!((usage.demands[13].of_all[0] - 2.0 / 13.0).abs() < 1e-9);
    }

    #[test]
    fn other_keys_divide_transactions_and_search_where_they_are_not_known() {
        let (new, found) = (
            table(&[("a", 2), ("b", 1)]),
            measured("partition scan", 2, Some("a")),
        );
        let keys = keys("Customer", "RowKey");
        let moved = moved(false);
        let design = Design::Rekeyed {
            keys: &keys,
            moved: &moved,
        };
        let usage = Usage::of(&workload(), design, &[&new], &[&found], &PAGES);
        assert_eq!(
            (usage.divided, usage.searches, usage.merges, usage.gone),
            (1, 2, 1, 1)
        );
        // The customer b has one of the three entities.
        assert_eq!(usage.transactions, (1, 2));
        // Two searches of one page each, two queries of one page each.
        assert_eq!(usage.requests[&Class::TableScan], 4);
        assert!(!usage.requests.contains_key(&Class::TableRead));
        assert_eq!(
            usage.demands[0].of_partition,
            BTreeMap::from([(0, 2.0), (1, 1.0)])
        );
    }

    #[test]
    fn readers_who_know_the_properties_need_no_search() {
        let (new, found) = (
            table(&[("a", 2), ("b", 1)]),
            measured("point", 1, Some("a")),
        );
        let keys = keys("Customer", "RowKey");
        let moved = moved(true);
        let design = Design::Rekeyed {
            keys: &keys,
            moved: &moved,
        };
        let usage = Usage::of(&workload(), design, &[&new], &[&found], &PAGES);
        assert_eq!(usage.searches, 0);
        assert_eq!(usage.requests[&Class::TableRead], 3);
    }

    #[test]
    fn copies_are_written_besides_and_answer_what_they_answer_better() {
        let (old, new) = (table(&[("p", 25_000)]), table(&[("a", 2), ("b", 1)]));
        let (scanned, found) = (
            measured("table scan", 25_000, None),
            measured("partition scan", 2, Some("a")),
        );
        let moved = moved(false);
        let keys = keys("Customer", "RowKey");
        let design = Design::Copied {
            keys: &keys,
            moved: &moved,
        };
        let usage = Usage::of(
            &workload(),
            design,
            &[&old, &new],
            &[&scanned, &found],
            &PAGES,
        );
        assert_eq!(usage.transactions, (2, 5));
        assert_eq!(usage.requests[&Class::TableScan], 2);
        assert_eq!(
            (
                usage.requests[&Class::TableWrite],
                usage.requests[&Class::TableRead]
            ),
            (3, 2)
        );
        assert_eq!(partition_name(&[&old, &new], 1), Some("a"));
        assert_eq!(
            rows_of_partitions(&[&old, &new]),
            [vec![25_000], vec![2, 1]]
        );
        assert_eq!((usage.searches, usage.merges), (1, 1));
        // A month has 1,296,000 times two seconds.
        let bill = usage.bill(&[&old, &new], 2, &Prices::default());
        let scans = bill
            .lines
            .iter()
            .find(|line| line.what == "table_scan")
            .unwrap();
        assert_eq!(scans.units, 2.0 * 1_296_000.0);
        let capacity = bill.total_of(lazurite_cost::Part::Capacity);
        assert!((capacity - 2.0 * Prices::default().per_gib_and_month.table).abs() < 1e-9);
        // Refused transactions are billed, load their partition, and are not repeated on the copy.
        let mut refused = keyed(0, "EntityGroupTransaction", "p", &["1", "2", "3"]);
        refused.refused = Some(409);
        let workload = Workload::of(&[refused], "T");
        let none = BTreeMap::new();
        let usage = Usage::of(&workload, design, &[&old, &new], &[&none, &none], &PAGES);
        assert_eq!((usage.transactions, usage.divided), ((1, 3), 0));
        assert_eq!(usage.demands[0].of_partition, BTreeMap::from([(0, 3.0)]));
    }

    #[test]
    fn load_falls_on_the_partitions_that_a_query_reads() {
        let old = table(&[("a", 10), ("b", 10), ("c", 20)]);
        let question = |filter: &str| (filter.to_owned(), None);
        for (filter, expected) in [
            (
                "PartitionKey ge 'b' and PartitionKey lt 'c'",
                vec![(1, 30.0)],
            ),
            ("PartitionKey ge 'b'", vec![(1, 10.0), (2, 20.0)]),
        ] {
            let found = Measured {
                plan: "partition range scan".to_owned(),
                examined: 30,
                partitions: KeyCondition::of_partition(filter),
                ..Measured::default()
            };
            let measured = BTreeMap::from([(question(filter), found)]);
            let workload = Workload::of(&[query(0, filter, 1, false)], "T");
            let usage = Usage::of(&workload, Design::AsItIs, &[&old], &[&measured], &PAGES);
            let loads: Vec<_> = usage.demands[0].of_partition.clone().into_iter().collect();
            assert_eq!(loads, expected, "{filter}");
        }
    }

    #[test]
    fn a_point_query_examines_one_row_in_a_partition_that_may_be_empty() {
        let filter = "PartitionKey eq 'm' and RowKey eq '1'";
        let found = Measured {
            plan: "point".to_owned(),
            examined: 1,
            partitions: KeyCondition::of_partition(filter),
            ..Measured::default()
        };
        let measured = BTreeMap::from([((filter.to_owned(), None), found)]);
        let workload = Workload::of(&[query(0, filter, 0, false)], "T");
        let mut old = table(&[("a", 1), ("z", 1)]);
        old.add_partitions(&workload, &measured);
        let usage = Usage::of(&workload, Design::AsItIs, &[&old], &[&measured], &PAGES);
        assert_eq!(usage.examined, 1);
        assert_eq!(usage.demands[0].of_partition, BTreeMap::from([(1, 1.0)]));
    }
}
