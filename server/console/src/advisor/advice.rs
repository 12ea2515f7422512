//! The page with all advice, newest first, and the rules.

use crate::advisor::card::report;
use crate::advisor::names::{ADVICE, HEAT_MAP, blob_path, noun, resource_path, with_code};
use crate::advisor::wanted::Wanted;
use crate::context::Console;
use crate::format::{self, cut};
use crate::respond::{Html, Page, Visit, made};
use crate::{layout, links};
use axum::extract::State;
use lazurite_advisor::rules::{Rule, WINDOW_SECONDS};
use lazurite_advisor::{
    ADVICE_MAX, Advice, EVIDENCE_MAX, Evidence, FULL_A_SECOND, RESOURCES_MAX, Report, SAMPLE_MEAN,
    Service,
};
use lazurite_base::units;
use lazurite_base::units::count;
use maud::{Markup, html};
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum number of bytes of the text that names a request's resource.
const ADDRESSED_BYTES_SHOWN: usize = 300;

pub async fn page(State(console): State<Arc<Console>>, visit: Visit) -> Page {
    made(console, move |console| Ok(advice_page(console, &visit))).await
}

fn advice_page(console: &Console, visit: &Visit) -> Html {
    let report = report(console);
    let wanted = Wanted::of(visit);
    let found = matching(&report, &wanted);
    let kept = kept_requests(console, &found);
    let pieces = found.iter().skip(wanted.from);
    let pieces = format::fitting_rows(pieces.map(|(number, advice)| piece(*number, advice, &kept)));
    let links = html! { a.quiet.button href=(links::path(HEAT_MAP, &[])) { "Heat map" } };
    let content = html! {
        h1 { "Advice" }
        p {
            "The rules of the table design guide, and similar ones for blobs and queues, applied to the requests that the server sees. "
            a href="/_lazurite/guide" { "The cookbook" } " has the patterns with their programs."
        }
        (wanted.form(ADVICE, "words, a rule, a table, queue or container", &links))
        div data-fresh="advice" {
            (limits(console, &report))
            @if pieces.is_empty() { (nothing(&report, &wanted)) } @else {
                ol.messages.advice data-list { @for piece in &pieces { (piece) } }
            }
            @if found.len() > pieces.len() {
                p.limits { "Showing " (pieces.len()) " of " (count(found.len() as u64)) "." (wanted.next(ADVICE, pieces.len(), found.len())) }
            }
        }
        (rules())
        (layout::script("advisor.js"))
    };
    layout::page(console, "Advice", "Advice", content)
}

/// The pieces of advice that match the filter, with their numbers, newest first.
fn matching<'a>(report: &'a Report, wanted: &Wanted) -> Vec<(usize, &'a Advice)> {
    let pieces = report.advice.iter().enumerate().rev();
    let found = pieces.filter(|(_, advice)| {
        let texts = [
            advice.rule,
            advice.title,
            &advice.account,
            &advice.resource,
            &advice.finding,
        ];
        wanted.matches(advice.service, &texts)
    });
    found.collect()
}

/// The ids of the requests in these pieces of advice that the ring still keeps.
fn kept_requests(console: &Console, found: &[(usize, &Advice)]) -> HashSet<String> {
    let ids = found.iter().flat_map(|(_, advice)| &advice.requests);
    let ids: HashSet<&str> = ids.map(|request| request.request_id.as_str()).collect();
    if ids.is_empty() {
        return HashSet::new();
    }
    let kept = console.requests.latest(ids.len(), |record| {
        ids.contains(record.request_id.as_str()) && console.shows_request(record)
    });
    kept.iter()
        .map(|record| record.request_id.clone())
        .collect()
}

fn limits(console: &Console, report: &Report) -> Markup {
    html! {
        p.limits {
            "Based on " (units::counted(report.requests, "request"))
            @if !console.shows_all() { " of all accounts" }
            "; of more than " (FULL_A_SECOND) " in a second, a thread takes one in " (SAMPLE_MEAN) ", and figures are estimates. "
            "At most " (ADVICE_MAX) " pieces are kept until the server ends, with the last " (EVIDENCE_MAX) " requests of each."
            @if report.dropped > 0 { " " (count(report.dropped)) " requests or findings were dropped for lack of memory." }
        }
    }
}

fn nothing(report: &Report, wanted: &Wanted) -> Markup {
    html! {
        p.empty {
            @if report.advice.is_empty() {
                "Nothing found. " (Rule::ALL.len()) " rules watch up to " (RESOURCES_MAX) " tables, " (RESOURCES_MAX) " queues and " (RESOURCES_MAX)
                " containers; none of them fired."
            } @else if wanted.from > 0 { "No more advice." } @else { "No piece of advice has these words." }
        }
    }
}

fn piece(number: usize, advice: &Advice, kept: &HashSet<String>) -> Markup {
    html! {
        li #(format!("advice-{number}")) tabindex="-1" {
            h2 { (with_code(advice.title)) }
            p { (advice.finding) "." }
            dl.facts {
                div { dt { (where_it_is(advice)) } dd { (resource(advice)) } }
                div { dt { "Account" } dd { (advice.account) } }
                div { dt { "Rule" } dd { a href=(links::path(ADVICE, &[("filter", advice.rule)])) { code { (advice.rule) } } } }
                div { dt { "Noticed" } dd { (units::counted(advice.times, "time")) } }
                div { dt { "First" } dd { (format::time(advice.first_at)) } }
                div { dt { "Last" } dd { (format::time(advice.last_at)) } }
            }
            dl.remedy {
                dt { "Why" } dd { (with_code(advice.reason)) }
                dt { "What to do" } dd { (with_code(advice.pattern)) }
                @if !advice.guide.is_empty() { dt { "Cookbook" } dd { (cookbook(advice.guide)) } }
            }
            (evidence(&advice.requests, kept))
        }
    }
}

/// The kind of the resource that a piece of advice is about.
fn where_it_is(advice: &Advice) -> &'static str {
    match advice.service {
        Service::Table => "Table",
        Service::Queue => "Queue",
        Service::Blob if advice.resource.contains('/') => "Blob",
        Service::Blob => "Container",
    }
}

fn resource(advice: &Advice) -> Markup {
    let service = advice.service;
    let account = &advice.account;
    let name = &advice.resource;
    let path = match name.split_once('/').filter(|_| service == Service::Blob) {
        Some((container, blob)) => blob_path(account, container, blob),
        None => resource_path(service, account, name),
    };
    html! { a href=(path) { (name) } }
}

fn cookbook(pages: &[&str]) -> Markup {
    html! {
        @for (index, page) in pages.iter().enumerate() {
            @if index > 0 { ", " }
            a href={ "/_lazurite/guide/" (page) } { (page) }
        }
    }
}

fn evidence(requests: &[Evidence], kept: &HashSet<String>) -> Markup {
    let is_kept = |request: &Evidence| kept.contains(&request.request_id);
    html! {
        h3 { "The last requests that led to it" }
        ul.evidence {
            @for request in requests {
                li {
                    @if is_kept(request) {
                        a href=(links::path(&["requests", &request.request_id], &[])) { (request.operation) }
                    } @else { (request.operation) }
                    " " span.status.{ "s" (request.status / 100) } { (request.status) }
                    " " (format::time_of_day(request.at)) " " (format!("{:.1} ms", request.milliseconds))
                    " " code { (cut(&request.resource, ADDRESSED_BYTES_SHOWN)) }
                }
            }
        }
        @if !requests.iter().all(is_kept) {
            p.limits { "Requests without a link are not among those that Requests keeps." }
        }
    }
}

fn rules() -> Markup {
    html! {
        details {
            summary { (Rule::ALL.len()) " rules, and when each fires" }
            p.limits {
                "Counts of a " (noun(Service::Table)) ", " (noun(Service::Queue)) " or " (noun(Service::Blob)) " start again every "
                (WINDOW_SECONDS / 60) " minutes. A rule is noticed at its threshold, and again each time that the count has doubled."
            }
            div.scroll tabindex="0" role="region" aria-label="Rules" { table.rules {
                caption.hidden { "Rules" }
                thead { tr { th scope="col" { "Rule" } th scope="col" { "Advice" } th scope="col" { "Fires when" } } }
                tbody {
                    @for rule in Rule::ALL.map(Rule::text) {
                        tr {
                            th scope="row" { a href=(links::path(ADVICE, &[("filter", rule.name)])) { code { (rule.name) } } }
                            td { (with_code(rule.title)) }
                            td { (with_code(&rule.fires)) }
                        }
                    }
                }
            } }
        }
    }
}
