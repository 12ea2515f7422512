//! The frame of all pages, markup that several pages use, style, scripts and icon.

use crate::banner;
use crate::context::{Console, fork_of, stored};
use crate::format;
use crate::guard::TOKEN_FIELD;
use crate::jobs::Job;
use crate::links;
use crate::respond::{Done, Html, Visit, put_default, text};
use axum::Router;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::routing::get;
use lazurite_protocol::accounts::name_of_fork;
use lazurite_protocol::date;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::sync::Arc;

/// Width of a full bar, in units of its SVG.
const BAR_WIDTH: u64 = 300;
const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = "text/javascript; charset=utf-8";
/// The scripts: the end of the path, and the content. `theme.js` runs before the page is drawn, so
/// that the default theme does not flash before the chosen one. `console.js` is for all pages, and
/// `fresh.js` for pages that change by themselves. Each of the other scripts is for one page, or a
/// few.
const SCRIPTS: [(&str, &str); 12] = [
    ("theme.js", include_str!("assets/theme.js")),
    ("console.js", include_str!("assets/console.js")),
    ("advisor.js", include_str!("assets/advisor.js")),
    ("blocks.js", include_str!("assets/blocks.js")),
    ("engine.js", include_str!("assets/engine.js")),
    ("fresh.js", include_str!("assets/fresh.js")),
    ("forms.js", include_str!("assets/forms.js")),
    ("queue.js", include_str!("assets/queue.js")),
    ("state.js", include_str!("assets/state.js")),
    ("table.js", include_str!("assets/table.js")),
    ("tree.js", include_str!("assets/tree.js")),
    ("upload.js", include_str!("assets/upload.js")),
];
const ICON: &str = include_str!("assets/icon.svg");
/// The sections of the console: title and path.
pub const SECTIONS: [(&str, &str); 9] = [
    ("Home", "/_lazurite/"),
    ("Blobs", "/_lazurite/blobs"),
    ("Queues", "/_lazurite/queues"),
    ("Tables", "/_lazurite/tables"),
    ("Requests", "/_lazurite/requests"),
    ("Advice", "/_lazurite/advisor"),
    ("State", "/_lazurite/state"),
    ("Guide", "/_lazurite/guide"),
    ENGINE,
];
/// The section for those who look for it, which the foot of each page leads to.
const ENGINE: (&str, &str) = ("Engine", "/_lazurite/engine");
/// The sections that list the resources of one account: title and folder.
pub const KINDS: [(&str, &str); 3] = [
    ("Blobs", "blobs"),
    ("Queues", "queues"),
    ("Tables", "tables"),
];
/// Maximum number of bytes of a name in a breadcrumb.
const CRUMB_BYTES_SHOWN: usize = 80;
/// The path of confirmations.
pub const JOBS: &str = "/_lazurite/jobs";
/// Maximum number of forks in the menu of stores. The page State has all.
const FORKS_SHOWN: usize = 30;

/// The routes of style, scripts and icon, which are the same for all visitors.
pub fn assets() -> Router<Arc<Console>> {
    let asset = |kind: &'static str, content: &'static str| {
        get(move || async move {
            let mut response: Response<Body> = text(kind, content);
            put_default(&mut response, CACHE_CONTROL, "no-cache");
            put_default(&mut response, X_CONTENT_TYPE_OPTIONS, "nosniff");
            response
        })
    };
    let fixed = Router::new()
        .route(
            "/_lazurite/assets/console.css",
            asset("text/css; charset=utf-8", STYLE),
        )
        .route("/_lazurite/assets/icon.svg", asset("image/svg+xml", ICON));
    SCRIPTS.into_iter().fold(fixed, |routes, (name, script)| {
        routes.route(&format!("/_lazurite/assets/{name}"), asset(SCRIPT, script))
    })
}

/// A reference to the script of one page.
pub fn script(name: &str) -> Markup {
    debug_assert!(SCRIPTS.iter().any(|(known, _)| *known == name), "{name}");
    html! { script type="module" src=(format!("/_lazurite/assets/{name}")) {} }
}

/// The title of the section with this folder in its path.
pub fn section_title(folder: &str) -> &'static str {
    let found = SECTIONS
        .into_iter()
        .find(|(_, path)| path.ends_with(folder));
    found.map_or("", |(title, _)| title)
}

/// A page. `section` is the title of its entry in the navigation; `content` begins with the
/// heading.
pub fn page(console: &Console, section: &str, title: &str, content: Markup) -> Html {
    Html(frame(Some(console), "", section, title, content))
}

/// A page about an account, which may be one of a fork.
pub fn page_in(
    console: &Console,
    account: &str,
    section: &str,
    title: &str,
    content: Markup,
) -> Html {
    Html(frame(Some(console), account, section, title, content))
}

/// The frame of a page. Without a console, as in refusals, it has neither token nor clock.
pub fn frame(
    console: Option<&Console>,
    account: &str,
    section: &str,
    title: &str,
    content: Markup,
) -> Markup {
    let services = console.map(|console| {
        let found = console.services_of(fork_of(account));
        found.unwrap_or_else(|_| console.services())
    });
    let now = services.map(|services| date::iso8601(services.clock.now()));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if let Some(console) = console { meta name="lazurite-token" content=(console.token); }
                @if let Some(now) = now { meta name="lazurite-now" content=(now); }
                title { (title) " · Lazurite" }
                link rel="icon" type="image/svg+xml" href="/_lazurite/assets/icon.svg";
                link rel="stylesheet" href="/_lazurite/assets/console.css";
                script src="/_lazurite/assets/theme.js" {}
                script type="module" src="/_lazurite/assets/console.js" {}
                script type="module" src="/_lazurite/assets/forms.js" {}
                script type="module" src="/_lazurite/assets/tree.js" {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.bar {
                    @if console.is_some() { button.quiet.drawer type="button" data-act="tree" aria-controls="tree" aria-expanded="true" hidden { "☰" span.hidden { " Resources" } } }
                    a.brand href="/_lazurite/" { (PreEscaped(ICON)) span { "Lazurite" } }
                    nav aria-label="Sections" {
                        @for (name, path) in SECTIONS.into_iter().filter(|&known| known != ENGINE) {
                            a href=(section_path(account, name, path)) aria-current=[(name == section).then_some("page")] { (name) }
                        }
                    }
                    div.tools {
                        button.quiet type="button" data-act="palette" hidden { "Go to " kbd { "Ctrl K" } }
                        button.quiet type="button" data-act="theme" hidden aria-label="Switch between light and dark" { "◐" }
                    }
                }
                div.body {
                    @if let Some(console) = console { (tree(console, account)) }
                    div.content {
                        main #main tabindex="-1" { @if let Some(console) = console { (banner::banner(console, account)) } (content) }
                        (foot(console, section))
                    }
                }
            }
        }
    }
}

/// The path of a section. Those with resources keep the account.
fn section_path(account: &str, name: &str, path: &str) -> String {
    match KINDS.iter().find(|(title, _)| *title == name) {
        Some((_, folder)) if !account.is_empty() => links::path(&[folder, account], &[]),
        _ => path.to_owned(),
    }
}

/// The resources of an account, at the left of each page. A script fills in their names and counts;
/// without it, each group has a link to the list.
fn tree(console: &Console, account: &str) -> Markup {
    let first = console.accounts().next().unwrap_or_default();
    let shown = if account.is_empty() { first } else { account };
    html! {
        aside.tree #tree aria-label="Resources" data-tree=(shown) {
            (stores(console, shown))
            input.only-script type="search" data-tree-filter aria-label="Filter the resources" placeholder="Filter" autocomplete="off" spellcheck="false" hidden;
            @for (title, folder) in KINDS {
                @let name = if folder == "blobs" { "Containers" } else { title };
                details open data-group=(folder) {
                    summary { (name) span.more data-group-count {} }
                    a.all href=(links::path(&[folder, shown], &[])) { "All " (name.to_lowercase()) }
                    ul {}
                }
            }
        }
    }
}

/// The menu of accounts and forks. The script of the tree adds the snapshots.
fn stores(console: &Console, shown: &str) -> Markup {
    let (name, fork) = (stored(shown), fork_of(shown));
    let forks = console.stores.list_forks();
    let choice = |account: &str, text: Markup| {
        html! { li { a href=(links::path(&["blobs", account], &[])) aria-current=[(account == shown).then_some("true")] { (text) } } }
    };
    html! {
        details.stores data-stores {
            summary {
                span.hidden { "Account and store " }
                b { (name) }
                @if fork.is_empty() { small { "the current store" } } @else { small.fork { "fork " (fork) } }
            }
            ul aria-label="Accounts" { @for account in console.accounts() { (choice(account, html! { (account) })) } }
            @if !forks.is_empty() {
                h2 { "Forks" }
                ul aria-label="Forks" {
                    @for fork in forks.iter().take(FORKS_SHOWN) { (choice(&name_of_fork(name, &fork.name), html! { (fork.name) })) }
                }
            }
            div data-snapshots {}
            a href="/_lazurite/state" { "All forks and snapshots" }
        }
    }
}

/// The foot of a page: version, durability, and links to what is not in the menu.
fn foot(console: Option<&Console>, section: &str) -> Markup {
    html! {
        footer {
            "Lazurite " (env!("CARGO_PKG_VERSION"))
            @if let Some(console) = console {
                " · durability " (console.settings.durability) ": " (durability_in_words(console.settings.durability))
            }
            " · " a href=(ENGINE.1) aria-current=[(section == ENGINE.0).then_some("page")] { "Engine" }
            " · " a href="/_lazurite/guide" { "Guide" }
            " · " a href="/_lazurite/docs" { "Documentation" }
            span.only-script hidden { " · " kbd { "?" } " lists the keys" }
        }
    }
}

/// What a value of `--durability` means.
pub fn durability_in_words(durability: &str) -> &'static str {
    match durability {
        "memory" => "nothing survives the end of the process",
        "disk" => "a power cut loses nothing acknowledged",
        _ => "kill -9 loses nothing acknowledged",
    }
}

/// The breadcrumb of a page: links to the pages above it, then its name.
pub fn trail(above: &[(&str, String)], name: &str) -> Markup {
    html! {
        nav.trail aria-label="Breadcrumb" {
            @for (title, path) in above { a href=(path) { (format::name(title, CRUMB_BYTES_SHOWN)) } span aria-hidden="true" { "/" } }
            span aria-current="location" { (format::name(name, CRUMB_BYTES_SHOWN)) }
        }
    }
}

/// The hidden field with the token, for every form that writes.
pub fn token(console: &Console) -> Markup {
    html! { input type="hidden" name=(TOKEN_FIELD) value=(console.token); }
}

/// A button that copies a text. Hidden without JavaScript.
pub fn copy_button(text: &str) -> Markup {
    html! { button.quiet.copy type="button" data-copy=(text) hidden { "Copy" } }
}

/// A bar next to a figure. `largest` must not be 0.
pub fn bar(value: u64, largest: u64) -> Markup {
    let width = (u128::from(value) * u128::from(BAR_WIDTH) / u128::from(largest)) as u64;
    html! {
        svg.bar-chart width=(BAR_WIDTH) height="10" viewBox=(format!("0 0 {BAR_WIDTH} 10")) aria-hidden="true" {
            rect.track width=(BAR_WIDTH) height="10" rx="3" {}
            rect.value width=(width) height="10" rx="3" {}
        }
    }
}

/// What a job has done, with its progress while it runs.
fn job_note(console: &Console, job: &Job) -> Markup {
    let (running, failures) = (job.running(), job.failures());
    let api = format!("/_lazurite/api/jobs/{}", job.id);
    html! {
        div.note.warned[!failures.is_empty()] role="status" data-job=[running.is_some().then_some(api)] {
            span data-job-report { (job.report()) }
            @if let Some(undo) = job.undo() { " " a href=(undo) { "Show the change, or undo it" } }
            @if !failures.is_empty() { ul { @for (name, reason) in &failures { li { b { (name) } " " (reason) } } } }
            @if let Some(done) = running {
                progress max=(job.planned().max(1)) value=(done) aria-label="Progress" {}
                form.inline method="post" action=(format!("{JOBS}/{}/cancel", job.id)) data-plain {
                    (token(console))
                    button.quiet { "Cancel" }
                }
                noscript { "Load the page again to see how far it is." }
            }
        }
    }
}

/// A note about the write or the job that led to this page, if one did.
pub fn note(console: &Console, visit: &Visit) -> Markup {
    let job = visit.parameter("job").parse().ok();
    let job = job.and_then(|id| console.jobs.find(id));
    let job = job.filter(|job| console.check_account(&job.task.account).is_ok());
    html! {
        @if let Some(job) = job { (job_note(console, &job)) }
        @else if let Some(done) = Done::of(visit) { p.note role="status" { (done.sentence()) } }
    }
}
