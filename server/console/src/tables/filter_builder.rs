//! The parts of a filter on the page of a table, a form for another term, and the plan of a filter
//! while it is typed.

use crate::context::Console;
use crate::format;
use crate::links::TablePlace;
use crate::respond::{Json, Visit};
use crate::tables::filter::{OPERATORS, term, terms, with_term};
use crate::value_text::TYPES;
use lazurite_protocol::response::error::Result;
use lazurite_services::table::plan_name;
use lazurite_table::{AccessKind, Query};
use maud::{Markup, html};
use serde_json::{Value, json};

/// Maximum number of terms shown one by one, and maximum length in bytes of a filter that is shown
/// term by term. The link of each term contains the rest of the filter.
const TERMS_SHOWN: usize = 20;
const FILTER_BYTES_MAX: usize = 1000;

/// The filter in the query of a page, with the form's term appended if there is one.
pub fn wanted(visit: &Visit) -> Result<String> {
    let (filter, property) = (visit.parameter("filter"), visit.parameter("p"));
    if property.trim().is_empty() {
        return Ok(filter);
    }
    let more = term(
        &property,
        &visit.parameter("o"),
        &visit.parameter("t"),
        &visit.parameter("v"),
    )?;
    Ok(with_term(&filter, &visit.parameter("joint"), &more))
}

/// The fields of the form that adds a term.
pub fn fields() -> Markup {
    html! {
        details.builder {
            summary { "Add a condition" }
            div.fields {
                label { "Joined by " select name="joint" { option { "and" } option { "or" } } }
                label { "Property " input name="p" list="properties" autocomplete="off" spellcheck="false"; }
                label { "Is " select name="o" { @for (operator, sign) in OPERATORS { option value=(operator) { (operator) " " (sign) } } } }
                label { "Type " select name="t" { @for known in TYPES { option { (known) } } } }
                label { "Value " input name="v" autocomplete="off" spellcheck="false"; }
                button.quiet data-builder { "Add" }
            }
        }
    }
}

/// The terms of a filter, each with a link that removes it.
pub fn chips(place: &TablePlace, filter: &str) -> Markup {
    let terms = terms(filter);
    html! {
        ul.chips aria-label="Conditions" data-chips {
            @if terms.len() > 1 && filter.len() <= FILTER_BYTES_MAX {
                @for index in 0..terms.len().min(TERMS_SHOWN) {
                    @let without = without(&terms, index);
                    li {
                        code { (format::cut(terms[index], 200)) }
                        a href=(place.path(&[], &[("filter", &without)])) aria-label=(format!("Remove {}", terms[index])) { "×" }
                    }
                }
            }
        }
    }
}

fn without(terms: &[&str], index: usize) -> String {
    let others = terms.iter().enumerate().filter(|(at, _)| *at != index);
    let others: Vec<_> = others.map(|(_, term)| *term).collect();
    others.join(" and ")
}

/// `/_lazurite/tables/ACCOUNT/TABLE/plan.json?filter=…`: the plan of a filter, without its result.
/// Reads at most a hundred rows.
pub fn plan(console: &Console, place: &TablePlace, visit: &Visit) -> Result<Json<Value>> {
    let filter = wanted(visit)?;
    let query = Query {
        filter: Some(&filter),
        top: Some(1),
        ..Query::default()
    };
    let (services, stored) = console.at(&place.account)?;
    let page = services
        .tables
        .query_entities(stored, &place.table, &query, &|| true)?;
    let (own, azure) = (page.cost.access, page.cost.azure_access);
    let azure = (azure != AccessKind::Nothing).then(|| plan_name(azure));
    Ok(Json(json!({
        "filter": filter,
        "terms": terms(&filter),
        "plan": plan_name(own),
        "azurePlan": azure,
    })))
}
