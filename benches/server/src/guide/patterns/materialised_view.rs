//! Materialised view: the number of orders of each product, counted by a scan, beside the order, or
//! by a worker that events of a queue drive. Trials let the programs die, and let several workers
//! take the events of an order.

use serde_json::{Value, json};

use crate::client::{Change, Entity, Error, Message, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, number};
use crate::guide::pattern::{
    Answers, Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun,
};
use lazurite_bench_common::Random;

const ORDERS: usize = 400;
const CUSTOMERS: usize = 50;
const PRODUCTS: usize = 10;
/// Number of orders that are placed by programs that die on the way.
const PLACED: usize = 40;
/// Steps of a program without a queue: the order, the count. With a queue: the event, the order.
const STEPS: u32 = 2;
/// Steps of a worker: the count, the deletion of the message.
const WORKER_STEPS: u32 = 2;
/// The number of deliveries after which an event whose order is not stored is dropped.
const DELIVERIES_MAX: u32 = 5;
/// How long an event is hidden from other workers.
const HIDDEN_SECONDS: u64 = 30;

const SCAN: &str = "table scan";
const BESIDE: &str = "count written after the order";
const ADVISED: &str = "events to a worker";

pub(super) static PATTERN: Pattern = Pattern {
    name: "materialised-view",
    title: "Materialised view",
    problem: "A sum over all partitions reads every entity at each question. A program that also writes the sum may die before it does.",
    advice: "Send an event for each change. A worker changes the sum and stores a mark of the event in one transaction, so that an event that comes twice counts once.",
    caution: "The view is late by the time that an event waits. Several workers need a queue each, or a version in the event, if the order of events matters.",
    question: "showing the orders and pieces of a product",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: SCAN,
            build: |lab| {
                lab.create_table("orders")?;
                (0..orders(lab.data)).try_for_each(|order| insert(lab, order))
            },
            ask: |lab| {
                ask(|product| {
                    let found = lab.query("orders", format!("Product eq '{}'", name(product)))?;
                    let pieces = found.iter().map(|order| number(order, "Pieces"));
                    Ok([found.len() as i64, pieces.sum()])
                })
            },
            sabotage: |lab| lab.write("orders", Write::Delete, order(0)),
        },
        Design {
            name: BESIDE,
            build: |lab| {
                create(lab)?;
                (0..orders(lab.data)).try_for_each(|order| place_and_count(lab, order, STEPS))
            },
            ask: |lab| ask(|product| counted(lab, product)),
            sabotage,
        },
        Design {
            name: ADVISED,
            build: |lab| {
                create(lab)?;
                (0..orders(lab.data)).try_for_each(|order| place(lab, order, STEPS))?;
                while let Some(message) = receive(lab, "events")? {
                    handle(lab, &message, WORKER_STEPS)?;
                }
                Ok(())
            },
            ask: |lab| ask(|product| counted(lab, product)),
            sabotage,
        },
    ],
    trials: &[
        Trial {
            circumstance: "the programs die at each of their steps in turn and are started again",
            harm: Harm::Miscounted,
            runs: &[
                TrialRun {
                    name: BESIDE,
                    build: create,
                    run: |lab| {
                        let programs = (0..PLACED).zip((0..=STEPS).cycle());
                        for (order, steps) in programs {
                            place_and_count(lab, order, steps)?;
                        }
                        miscounted(lab)
                    },
                },
                TrialRun {
                    name: ADVISED,
                    build: create,
                    run: |lab| {
                        let programs = (0..PLACED).zip((0..=STEPS).cycle());
                        for (order, steps) in programs {
                            place(lab, order, steps)?;
                        }
                        while let Some(message) = receive(lab, "events")? {
                            // One more step with each delivery.
                            handle(lab, &message, message.dequeue_count - 1)?;
                        }
                        miscounted(lab)
                    },
                },
            ],
        },
        Trial {
            circumstance: "the view keeps the last of 4 states of each order, each worker takes an event a round, and the workers of a round write in any order",
            harm: Harm::Outdated,
            runs: &[
                TrialRun {
                    name: "one queue, one worker",
                    build: |lab| send_states(lab, 1),
                    run: |lab| work_in_rounds(lab, 1, 1, overwrite),
                },
                TrialRun {
                    name: "one queue, four workers",
                    build: |lab| send_states(lab, 1),
                    run: |lab| work_in_rounds(lab, 1, 4, overwrite),
                },
                TrialRun {
                    name: "one queue, four workers, a version in the event",
                    build: |lab| send_states(lab, 1),
                    run: |lab| work_in_rounds(lab, 1, 4, overwrite_older),
                },
                TrialRun {
                    name: "four queues by order, a worker each",
                    build: |lab| send_states(lab, 4),
                    run: |lab| work_in_rounds(lab, 4, 4, overwrite),
                },
            ],
        },
    ],
    truth: |data| {
        let line = |product: usize| {
            let of = (0..orders(data)).filter(|order| product_of(*order) == product);
            let (count, pieces) = (of.clone().count(), of.map(pieces_of).sum::<usize>());
            format!("{}: {count} orders, {pieces} pieces", name(product))
        };
        (0..PRODUCTS).map(line).collect()
    },
    writes: orders,
    questions: |_| PRODUCTS,
    rate: Rate::Page,
};

fn orders(data: &Data) -> usize {
    data.scaled(ORDERS, PLACED)
}

fn product_of(order: usize) -> usize {
    order * 7 % PRODUCTS
}

fn pieces_of(order: usize) -> usize {
    1 + order % 5
}

/// The PartitionKey of a product in the view.
fn name(product: usize) -> String {
    format!("product{product:02}")
}

fn order(number: usize) -> Value {
    json!({
        "PartitionKey": format!("customer{:02}", number % CUSTOMERS), "RowKey": format!("{number:06}"),
        "Product": name(product_of(number)), "Pieces": pieces_of(number),
    })
}

fn insert(lab: &Lab, number: usize) -> Result<(), Error> {
    lab.write("orders", Write::Insert, order(number))
}

fn create(lab: &Lab) -> Result<(), Error> {
    lab.create_table("orders")?;
    lab.create_table("view")?;
    lab.create_queue("events")
}

/// Makes a count wrong, as a worker does that counts an event twice.
fn sabotage(lab: &Lab) -> Result<(), Error> {
    let keys = json!({ "PartitionKey": name(0), "RowKey": "count", "Orders": 0 });
    lab.write("view", Write::Merge, keys)
}

/// Does the first `steps` steps of a program that writes the count itself.
fn place_and_count(lab: &Lab, number: usize, steps: u32) -> Result<(), Error> {
    if steps >= 1 {
        insert(lab, number)?;
    }
    if steps >= 2 {
        let Value::Object(order) = order(number) else {
            return Ok(());
        };
        count(lab, &order, None)?;
    }
    Ok(())
}

/// Does the first `steps` steps of a program that sends an event and stores the order. The event
/// comes first, so that each stored order has one.
fn place(lab: &Lab, number: usize, steps: u32) -> Result<(), Error> {
    if steps >= 1 {
        let order = order(number);
        let keys = ["PartitionKey", "RowKey"].map(|key| order[key].as_str().unwrap_or_default());
        lab.client
            .put_message(&lab.name("events"), &keys.join("/"))?;
    }
    if steps >= 2 {
        insert(lab, number)?;
    }
    Ok(())
}

/// Adds an order to the count of its product, with a mark in the same transaction if there is one.
/// Does nothing if the mark exists. Repeats the change if another program was faster.
fn count(lab: &Lab, order: &Entity, mark: Option<&str>) -> Result<(), Error> {
    let (table, product) = (lab.name("view"), order["Product"].clone());
    loop {
        let key = product.as_str().unwrap_or_default();
        let known = lab.client.get_entity_and_etag(&table, key, "count")?;
        let of = |name| known.as_ref().map_or(0, |(row, _)| number(row, name));
        let row = json!({
            "PartitionKey": product, "RowKey": "count",
            "Orders": of("Orders") + 1, "Pieces": of("Pieces") + number(order, "Pieces"),
        });
        let row = match &known {
            Some((_, etag)) => Change::new(Write::Replace, row).if_match(etag.clone()),
            None => Change::new(Write::Insert, row),
        };
        let done = match mark {
            Some(mark) => {
                let mark = json!({ "PartitionKey": product, "RowKey": format!("event_{mark}") });
                let mark = Change::new(Write::Insert, mark);
                lab.client.transact(&table, &[mark, row])
            }
            None => lab.client.write_entity(&table, &row),
        };
        match done {
            // The first operation is refused: the mark exists.
            Err(Error::Refused {
                status: 409,
                message,
                ..
            }) if mark.is_some() && message.contains("\"0:") => {
                return Ok(());
            }
            Err(Error::Refused {
                status: 409 | 412, ..
            }) => {}
            done => return done,
        }
    }
}

fn receive(lab: &Lab, queue: &str) -> Result<Option<Message>, Error> {
    let messages = lab
        .client
        .get_messages(&lab.name(queue), 1, HIDDEN_SECONDS)?;
    Ok(messages.into_iter().next())
}

fn delete(lab: &Lab, queue: &str, message: &Message) -> Result<(), Error> {
    lab.client
        .delete_message(&lab.name(queue), &message.id, &message.pop_receipt)
}

/// A worker with an event. It dies after `steps` steps if these are fewer than [`WORKER_STEPS`].
fn handle(lab: &Lab, message: &Message, steps: u32) -> Result<(), Error> {
    let (customer, row) = message.text.split_once('/').unwrap_or_default();
    let found = lab.get("orders", customer, row)?;
    // If the order is still missing after so many deliveries, the program has died before it stored
    // the order.
    let is_given_up = found.is_none() && message.dequeue_count > DELIVERIES_MAX;
    if let Some(order) = found.as_ref().filter(|_| steps >= 1) {
        count(lab, order, Some(&format!("{customer}_{row}")))?;
    }
    if is_given_up || (found.is_some() && steps >= WORKER_STEPS) {
        return delete(lab, "events", message);
    }
    // The worker has died, or leaves the event to another worker. Makes the event visible now,
    // instead of at the end of its visibility timeout.
    lab.verifier()
        .hide_message(&lab.name("events"), &message.id, &message.pop_receipt, 0)
}

/// The orders and pieces of a product in the view.
fn counted(lab: &Lab, product: usize) -> Result<[i64; 2], Error> {
    // With a query instead of Get Entity, so that the rows are counted.
    let product = name(product);
    let filter = format!("PartitionKey eq '{product}' and RowKey eq 'count'");
    let found = lab.query("view", filter)?;
    let of = |name| found.first().map_or(0, |row| number(row, name));
    Ok([of("Orders"), of("Pieces")])
}

fn ask(count: impl Fn(usize) -> Result<[i64; 2], Error>) -> Result<Answers, Error> {
    let line = |product| {
        let [orders, pieces] = count(product)?;
        Ok(format!(
            "{}: {orders} orders, {pieces} pieces",
            name(product)
        ))
    };
    (0..PRODUCTS).map(line).collect()
}

/// Counts the orders by which the view differs from the stored orders.
fn miscounted(lab: &Lab) -> Result<Tally, Error> {
    let stored = lab.verify("orders", "", "Product")?;
    let verifying = lab.verifying();
    let mut harmed = 0;
    for product in 0..PRODUCTS {
        let of = stored
            .iter()
            .filter(|order| order["Product"] == name(product).as_str());
        let [counted, _] = counted(&verifying, product)?;
        harmed += counted.abs_diff(of.count() as i64) as usize;
    }
    Ok(Tally {
        harmed,
        objects: stored.len(),
        rounds: 0,
    })
}

/// The orders whose events several workers take, and the states of each.
const FOLLOWED: usize = 20;
const STATES: usize = 4;

fn queue(number: usize) -> String {
    format!("states{number}")
}

/// Sends the states of each order, one after the other, to the queue of the order.
fn send_states(lab: &Lab, queues: usize) -> Result<(), Error> {
    lab.create_table("view")?;
    (0..queues).try_for_each(|number| lab.create_queue(&queue(number)))?;
    let events = (0..FOLLOWED).flat_map(|order| (0..STATES).map(move |state| (order, state)));
    for (order, state) in events {
        let queue = lab.name(&queue(order % queues));
        lab.client
            .put_message(&queue, &format!("{order}/{state}"))?;
    }
    Ok(())
}

/// Stores a state of an order, whatever the view has.
fn overwrite(lab: &Lab, order: &str, state: i64) -> Result<(), Error> {
    let row = json!({ "PartitionKey": order, "RowKey": "state", "State": state });
    lab.write("view", Write::Replace, row)
}

/// Stores a state of an order if the view has an older one or none.
fn overwrite_older(lab: &Lab, order: &str, state: i64) -> Result<(), Error> {
    let row = json!({ "PartitionKey": order, "RowKey": "state", "State": state });
    let table = lab.name("view");
    let change = match lab.client.get_entity_and_etag(&table, order, "state")? {
        Some((known, _)) if number(&known, "State") >= state => return Ok(()),
        Some((_, etag)) => Change::new(Write::Replace, row).if_match(etag),
        None => Change::new(Write::Insert, row),
    };
    lab.client.write_entity(&table, &change)
}

/// Workers that take events in rounds. In each round every worker receives an event from its queue;
/// then they write the view in a random order, and delete their messages. Counts the orders whose
/// view is not the last state.
fn work_in_rounds(
    lab: &Lab,
    queues: usize,
    workers: usize,
    write: fn(&Lab, &str, i64) -> Result<(), Error>,
) -> Result<Tally, Error> {
    let mut random = Random::new(lab.data.seed);
    let mut rounds = 0;
    loop {
        let received = (0..workers).map(|worker| {
            let queue = queue(worker % queues);
            Ok(receive(lab, &queue)?.map(|message| (queue, message)))
        });
        let received = received.collect::<Result<Vec<_>, Error>>()?;
        let mut taken: Vec<(String, Message)> = received.into_iter().flatten().collect();
        if taken.is_empty() {
            break;
        }
        rounds += 1;
        while !taken.is_empty() {
            let at = random.below(taken.len() as u64) as usize;
            let (queue, message) = taken.swap_remove(at);
            let (order, state) = message.text.split_once('/').unwrap_or_default();
            write(lab, order, state.parse().unwrap_or_default())?;
            delete(lab, &queue, &message)?;
        }
    }
    let view = lab.verify("view", "", "")?;
    let is_last = |row: &&Entity| number(row, "State") == STATES as i64 - 1;
    Ok(Tally {
        harmed: FOLLOWED - view.iter().filter(is_last).count(),
        objects: FOLLOWED,
        rounds,
    })
}
