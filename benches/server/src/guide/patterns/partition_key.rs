//! Choosing a PartitionKey: the orders of a shop in one partition, in a partition for each order,
//! or in one for each customer.

use serde_json::{Value, json};

use crate::client::{Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, TRANSACTION_MAX, at_once, property};
use crate::guide::pattern::{
    Answers, Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun,
};

const CUSTOMERS: usize = 100;
const CUSTOMERS_ASKED: usize = 20;
/// Number of orders of a customer.
const ORDERS: usize = 30;
/// Programs that store orders.
const PROGRAMS: usize = 8;
/// Number of lines of an order, of 12 characters each.
const LINES: usize = 40;
/// The orders that are changed together, and the range that is listed.
const CHANGED: std::ops::Range<usize> = 10..30;
const LISTED: std::ops::Range<usize> = 0..20;

const FOR_ALL: &str = "one partition for all";
const FOR_ORDER: &str = "a partition for each order";
const ADVISED: &str = "a partition for each customer";

/// The PartitionKey and the RowKey of an order of a customer.
type Keys = fn(usize, usize) -> [String; 2];

pub(super) static PATTERN: Pattern = Pattern {
    name: "partition-key",
    title: "Choosing a PartitionKey",
    problem: "One partition for all orders takes the load of all customers. With a partition for each order, no two orders share a transaction.",
    advice: "Keep in one partition what is changed or listed together, and nothing else: the orders of a customer.",
    caution: "The largest customer decides whether the design is right. No key can be changed later.",
    question: "changing 20 orders of a customer and listing 20",
    goal: Measure::HottestPartition,
    designs: &[
        Design {
            name: FOR_ALL,
            build: |lab| build(lab, for_all),
            ask: |lab| ask(lab, for_all, in_partition),
            sabotage: |lab| lose_one(lab, for_all),
        },
        Design {
            name: FOR_ORDER,
            build: |lab| build(lab, for_order),
            ask: |lab| ask(lab, for_order, over_partitions),
            sabotage: |lab| lose_one(lab, for_order),
        },
        Design {
            name: ADVISED,
            build: |lab| build(lab, for_customer),
            ask: |lab| ask(lab, for_customer, in_partition),
            sabotage: |lab| lose_one(lab, for_customer),
        },
    ],
    trials: &[Trial {
        circumstance: "a program dies after each of its transactions in turn, while it changes 20 orders of a customer",
        harm: Harm::HalfDone,
        runs: &[
            TrialRun {
                name: FOR_ORDER,
                build: |lab| build(lab, for_order),
                run: |lab| die(lab, for_order),
            },
            TrialRun {
                name: FOR_ALL,
                build: |lab| build(lab, for_all),
                run: |lab| die(lab, for_all),
            },
            TrialRun {
                name: ADVISED,
                build: |lab| build(lab, for_customer),
                run: |lab| die(lab, for_customer),
            },
        ],
    }],
    truth: |data| {
        let state = |order| {
            if CHANGED.contains(&order) {
                "cancelled"
            } else {
                "open"
            }
        };
        let of = |customer| LISTED.map(move |order| format!("{customer} {order} {}", state(order)));
        asked(data).flat_map(of).collect()
    },
    writes: |data| customers(data) * ORDERS,
    questions: |data| asked(data).count(),
    rate: Rate::Page,
};

fn for_all(customer: usize, order: usize) -> [String; 2] {
    ["all".into(), format!("{customer:03}_{order:04}")]
}

fn for_order(customer: usize, order: usize) -> [String; 2] {
    [format!("{customer:03}_{order:04}"), String::new()]
}

fn for_customer(customer: usize, order: usize) -> [String; 2] {
    [format!("{customer:03}"), format!("{order:04}")]
}

fn in_partition(first: [String; 2], end: [String; 2]) -> String {
    let ([partition, first], [_, end]) = (first, end);
    format!("PartitionKey eq '{partition}' and RowKey ge '{first}' and RowKey lt '{end}'")
}

fn over_partitions([first, _]: [String; 2], [end, _]: [String; 2]) -> String {
    format!("PartitionKey ge '{first}' and PartitionKey lt '{end}'")
}

fn customers(data: &Data) -> usize {
    data.scaled(CUSTOMERS, 5)
}

fn asked(data: &Data) -> impl Iterator<Item = usize> {
    let all = customers(data);
    (0..all).step_by(all.div_ceil(CUSTOMERS_ASKED))
}

fn keyed([partition, row]: [String; 2]) -> Value {
    json!({ "PartitionKey": partition, "RowKey": row })
}

/// Several programs store the orders at the same time, as in a busy hour.
fn build(lab: &Lab, keys: Keys) -> Result<(), Error> {
    lab.create_table("orders")?;
    let all = (0..customers(lab.data)).flat_map(|of| (0..ORDERS).map(move |order| (of, order)));
    let entity = |(customer, order)| {
        let mut entity = keyed(keys(customer, order));
        entity["Customer"] = customer.into();
        entity["Order"] = order.into();
        entity["State"] = "open".into();
        // An entity of about 1 KiB, as in the published targets: the lengths of the keys do not
        // matter beside it.
        entity["Lines"] = "1 x article ".repeat(LINES).into();
        entity
    };
    let orders: Vec<Value> = all.map(entity).collect();
    let partitions = orders.chunk_by(|a, b| a["PartitionKey"] == b["PartitionKey"]);
    let transactions = partitions.flat_map(|of| of.chunks(TRANSACTION_MAX));
    let transactions: Vec<&[Value]> = transactions.collect();
    let (client, table) = (&lab.client, lab.name("orders"));
    at_once(PROGRAMS, |program| {
        let mut some = transactions.iter().skip(program).step_by(PROGRAMS);
        some.try_for_each(|orders| client.insert_together(&table, orders))
    })
}

fn lose_one(lab: &Lab, keys: Keys) -> Result<(), Error> {
    lab.write("orders", Write::Delete, keyed(keys(0, LISTED.start)))
}

/// Changes orders of a customer, in one transaction for each partition. Ends after
/// `transactions_max` of them.
fn change(lab: &Lab, keys: Keys, customer: usize, transactions_max: usize) -> Result<(), Error> {
    let mut changes: Vec<Value> = Vec::new();
    for order in CHANGED {
        let mut change = keyed(keys(customer, order));
        change["State"] = "cancelled".into();
        changes.push(change);
    }
    let partitions = changes.chunk_by(|a, b| a["PartitionKey"] == b["PartitionKey"]);
    let mut some = partitions.take(transactions_max);
    some.try_for_each(|some| lab.transact("orders", Write::Merge, some.to_vec()))
}

fn ask(
    lab: &Lab,
    keys: Keys,
    range: fn([String; 2], [String; 2]) -> String,
) -> Result<Answers, Error> {
    let mut lines = Answers::new();
    for customer in asked(lab.data) {
        change(lab, keys, customer, usize::MAX)?;
        let filter = range(keys(customer, LISTED.start), keys(customer, LISTED.end));
        for order in lab.query("orders", filter)? {
            let (number, state) = (&order["Order"], property(&order, "State"));
            lines.push(format!("{customer} {number} {state}"));
        }
    }
    Ok(lines)
}

/// Changes orders of each customer with a program that dies. Its deaths are before the first
/// transaction and after each, in turn.
fn die(lab: &Lab, keys: Keys) -> Result<Tally, Error> {
    let [first, second] = [0, 1].map(|order| keys(0, CHANGED.start + order));
    let transactions = if first[0] == second[0] {
        1
    } else {
        CHANGED.len()
    };
    let deaths = (0..=transactions).cycle();
    asked(lab.data)
        .zip(deaths)
        .try_for_each(|(customer, transactions)| change(lab, keys, customer, transactions))?;
    let all = lab.verify("orders", "State eq 'cancelled'", "Customer")?;
    Tally::count(asked(lab.data), |customer| {
        let changed = all.iter().filter(|one| one["Customer"] == customer);
        Ok(![0, CHANGED.len()].contains(&changed.count()))
    })
}
