//! Runs queries of a record on a table in a fork.

use lazurite_design::{KeyCondition, Keys, Measured, Question, RecordedQuery, shape};
use lazurite_mover::{Client, encode};
use lazurite_protocol::service_kind::ServiceKind;
use std::collections::BTreeMap;

/// The table with the new keys.
pub const REKEYED: &str = "LazuriteWhatIf";

/// Maximum number of queries of one shape that run, and the number of examined rows after which no
/// more run. The others get the cost of the last query that ran before them.
const ASKED_OF_A_SHAPE: usize = 200;
const ROWS_OF_A_SHAPE: u64 = 2_000_000;

/// Where a client stops to read a query: once it has this many entities, in this many pages.
#[derive(Clone, Copy)]
struct Enough {
    entities: u64,
    pages: u64,
}

impl Enough {
    const ALL: Enough = Enough {
        entities: u64::MAX,
        pages: 1,
    };

    fn of(query: &RecordedQuery) -> Enough {
        Enough {
            entities: query.wanted(),
            pages: query.pages(),
        }
    }
}

/// Tables in a fork.
pub struct Trial<'a> {
    pub client: &'a Client,
}

impl Trial<'_> {
    /// Runs the queries, rewritten for `keys` if there are any. If a shape has very many queries,
    /// only some run, evenly spaced among them. Error: a query is refused.
    pub fn ask(
        &self,
        table: &str,
        queries: &BTreeMap<Question, RecordedQuery>,
        keys: Option<&Keys>,
    ) -> Result<BTreeMap<Question, Measured>, String> {
        let mut of_shapes: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for of_query in queries {
            of_shapes
                .entry(shape(&of_query.0.0))
                .or_default()
                .push(of_query);
        }
        let mut measured = BTreeMap::new();
        for of_shape in of_shapes.values() {
            let step = of_shape.len().div_ceil(ASKED_OF_A_SHAPE).max(1);
            let (mut last, mut rows) = (Measured::default(), 0);
            for (at, (question, query)) in of_shape.iter().enumerate() {
                let filter = match keys {
                    None => question.0.clone(),
                    Some(keys) => keys
                        .rewritten(&question.0)
                        .map_err(|error| error.to_string())?,
                };
                let is_asked = at == 0 || (at % step == 0 && rows < ROWS_OF_A_SHAPE);
                if is_asked {
                    last = self.ask_one(table, &filter, question.1, Enough::of(query))?;
                    rows += last.examined;
                }
                let found = Measured {
                    partitions: KeyCondition::of_partition(&filter),
                    is_whole: is_asked && last.is_whole,
                    ..last.clone()
                };
                measured.insert((*question).clone(), found);
            }
        }
        Ok(measured)
    }

    /// The number of entities in a table. `counted` gets the number so far after each page.
    pub fn count(&self, table: &str, counted: &mut dyn FnMut(u64)) -> Result<u64, String> {
        Ok(self
            .ask_pages(table, "", None, Enough::ALL, counted)?
            .returned)
    }

    fn ask_one(
        &self,
        table: &str,
        filter: &str,
        top: Option<u32>,
        enough: Enough,
    ) -> Result<Measured, String> {
        self.ask_pages(table, filter, top, enough, &mut |_| {})
    }

    /// Reads pages to the last one, or until it has as many pages and entities as the client of the
    /// record had.
    fn ask_pages(
        &self,
        table: &str,
        filter: &str,
        top: Option<u32>,
        enough: Enough,
        counted: &mut dyn FnMut(u64),
    ) -> Result<Measured, String> {
        let top = top.map_or(1000, |top| top.clamp(1, 1000));
        let filter = match filter {
            "" => String::new(),
            filter => format!("&$filter={}", encode(filter).replace('/', "%2F")),
        };
        let mut measured = Measured::default();
        let (mut more, mut pages) = (String::new(), 0);
        loop {
            let resource = format!("{}()?$top={top}{filter}{more}", encode(table));
            let reply = self.client.ask(ServiceKind::Table, "GET", resource)?;
            let header = |name| reply.header(name).unwrap_or_default();
            // An estimate begins with a tilde.
            let number = |name| header(name).trim_start_matches('~').parse::<u64>();
            measured.examined += number("x-lazurite-azure-examined").unwrap_or_default();
            measured.returned += number("x-lazurite-returned").unwrap_or_default();
            if measured.plan.is_empty() {
                header("x-lazurite-azure-plan").clone_into(&mut measured.plan);
            }
            more = reply.continuation();
            reply.text()?;
            pages += 1;
            counted(measured.returned);
            measured.is_whole = more.is_empty();
            let is_enough = measured.returned >= enough.entities && pages >= enough.pages;
            if measured.is_whole || is_enough {
                return Ok(measured);
            }
        }
    }
}

/// Queries that ran on both tables, but found different numbers of entities: the new keys leave
/// entities out, or the filter depends on the time of a write.
pub fn differing(
    as_it_is: &BTreeMap<Question, Measured>,
    rekeyed: &BTreeMap<Question, Measured>,
) -> Vec<(String, u64, u64)> {
    let pairs = as_it_is.iter().filter_map(|(question, before)| {
        let after = rekeyed.get(question)?;
        let are_whole = before.is_whole && after.is_whole;
        let differ = are_whole && before.returned != after.returned;
        differ.then(|| (question.0.clone(), before.returned, after.returned))
    });
    pairs.collect()
}
