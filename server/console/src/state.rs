//! The page State: the snapshots and forks of the store, its clock and its faults, and the actions
//! on them.

use crate::context::{Console, stored};
use crate::form::Form;
use crate::guard::check_shows_all;
use crate::layout::{self, copy_button};
use crate::respond::{Done, Html, Page, SeeOther, Visit};
use crate::{endpoints, fault_section, format, home, links, test_section, transfer_section};
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use lazurite_base::units::{self, size};
use lazurite_protocol::accounts::name_of_fork;
use lazurite_protocol::date;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::clock;
use lazurite_services::connection::on_blocking_pool;
use lazurite_services::pages;
use lazurite_services::state::diff::{Change, Changes, Kind, Shown, WantedDiff};
use lazurite_services::state::{ForkFacts, ForkSource, SnapshotFacts};
use maud::{Markup, html};
use std::sync::Arc;

/// Maximum number of changes that the page shows.
const CHANGES_MAX: usize = 200;
/// The beginning of the names of snapshots that keep what a restore replaced.
const REPLACED: &str = "before-restore-";
/// Maximum length of the part of a fork's name that comes from its snapshot.
const FORK_NAME_MAX: usize = 30;

pub fn routes() -> Router<Arc<Console>> {
    Router::new().route("/_lazurite/state", get(page).post(act))
}

async fn page(State(console): State<Arc<Console>>, visit: Visit) -> Page {
    let snapshots = console.stores.list_snapshots().await?;
    let forks = console.stores.list_forks();
    let compared = compared(&console, &visit).await?;
    let content = html! {
        h1 { "State" }
        (layout::note(&console, &visit))
        nav.parts aria-label="Parts of this page" {
            @for (at, title) in [("snapshots", "Snapshots"), ("forks", "Forks"), ("differences", "Differences"), ("clock", "Clock"), ("faults", "Faults"), ("transfers", "Export and import")] { a href=(format!("#{at}")) { (title) } }
        }
        p { "Programs do the same with " code { "lazurite state" } " or the paths below " code { (pages::STATE_PREFIX) } "." }
        (snapshot_section(&console, &snapshots))
        (fork_section(&console, &visit, &snapshots, &forks))
        (diff_section(&visit, &snapshots, compared.as_ref()))
        (test_section::clock_section(&console))
        (fault_section::section(&console))
        (transfer_section::section(&console, &snapshots))
        details.danger {
            summary { "Reset the store" }
            form method="post" {
                (layout::token(&console))
                button.danger name="act" value="reset" data-plain { "Delete all containers, queues and tables" }
            }
        }
    };
    Ok(layout::page(&console, "State", "State", content))
}

fn snapshot_section(console: &Console, snapshots: &[SnapshotFacts]) -> Markup {
    html! {
        section #snapshots {
            h2 { "Snapshots" }
            @if snapshots.is_empty() {
                p.empty { "No snapshots yet. A snapshot keeps the store as it is now, to go back to." }
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Snapshots" { table {
                    caption.hidden { "Snapshots" }
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Time" } th.number scope="col" { "Bytes" } th scope="col" { "Actions" } } }
                    tbody { @for snapshot in snapshots { (snapshot_row(console, snapshot)) } }
                } }
            }
            form.fields method="post" {
                (layout::token(console))
                label { "Name of a new snapshot " input name="name" required maxlength="64" pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*" autocomplete="off"; }
                button name="act" value="snapshot" { "Save snapshot" }
            }
        }
    }
}

fn snapshot_row(console: &Console, snapshot: &SnapshotFacts) -> Markup {
    html! {
        tr {
            th scope="row" { (snapshot.name) }
            td { (format::time(snapshot.made_at)) }
            td.number { @if let Some(bytes) = snapshot.bytes { (size(bytes)) } @else { "in memory" } }
            td.acts { form method="post" {
                (layout::token(console))
                input type="hidden" name="name" value=(snapshot.name);
                button.quiet name="act" value="look" { "Look into" } " "
                button.quiet name="act" value="restore" data-plain { "Restore…" } " "
                button.quiet.danger name="act" value="delete" data-plain { "Delete…" }
            } }
        }
    }
}

fn fork_section(
    console: &Console,
    visit: &Visit,
    snapshots: &[SnapshotFacts],
    forks: &[ForkFacts],
) -> Markup {
    html! {
        section #forks {
            h2 { "Forks" }
            @if forks.is_empty() {
                p.empty { "No forks yet. A fork is a copy of the store under an account name of its own." }
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Forks" { table {
                    caption.hidden { "Forks" }
                    thead { tr { th scope="col" { "Name" } th scope="col" { "From" } th scope="col" { "Idle for" } th scope="col" { "Actions" } } }
                    tbody { @for fork in forks { (fork_row(console, visit, fork)) } }
                } }
            }
            details {
                summary { "Make a fork" }
                form.fields method="post" {
                    (layout::token(console))
                    label { "Name " input name="name" maxlength="40" pattern="[a-z0-9\\-]+" placeholder="a random one" autocomplete="off"; }
                    label { "From " select name="from" {
                        option value="" { "the store as it is now" }
                        @for snapshot in snapshots { option { (snapshot.name) } }
                    } }
                    button name="act" value="fork" { "Make" }
                }
            }
        }
    }
}

fn fork_row(console: &Console, visit: &Visit, fork: &ForkFacts) -> Markup {
    let account = console.accounts().next().unwrap_or_default();
    let connection = endpoints::connection_string(console, visit, account, Some(&fork.name));
    html! {
        tr {
            th scope="row" { a href=(links::path(&["blobs", &name_of_fork(account, &fork.name)], &[])) { (fork.name) } }
            td { (fork.source.snapshot().unwrap_or("the store")) }
            td { (units::duration(fork.idle)) }
            td.acts { form method="post" {
                (layout::token(console))
                input type="hidden" name="name" value=(fork.name);
                (copy_button(&connection)) " "
                button.quiet.danger name="act" value="release" data-plain { "End…" }
            } (transfer_section::export_fork(console, &fork.name)) }
        }
    }
}

/// The comparison that the form asks for, limited to the accounts that the console shows.
async fn compared(console: &Console, visit: &Visit) -> Result<Option<Changes>> {
    if visit.parameter("compare").is_empty() {
        return Ok(None);
    }
    let accounts = console.accounts().map(str::to_owned).collect();
    let wanted = WantedDiff::read(|name| visit.parameter(name), accounts)?;
    let limit = wanted.limit.min(CHANGES_MAX);
    let compared = console.stores.diff(WantedDiff { limit, ..wanted });
    compared.await.map(Some)
}

fn diff_section(visit: &Visit, snapshots: &[SnapshotFacts], changes: Option<&Changes>) -> Markup {
    let side = |label: &str, name: &str| {
        let chosen = visit.parameter(name);
        html! {
            label { (label) " " select name=(name) {
                option value="now" { "the store as it is now" }
                @for snapshot in snapshots { option selected[snapshot.name == chosen || chosen.is_empty() && name == "from"] { (snapshot.name) } }
            } }
        }
    };
    html! {
        section #differences {
            h2 { "Differences" }
            form.fields method="get" {
                (side("Between", "from"))
                (side("and", "to"))
                button name="compare" value="1" { "Compare" }
            }
            @if let Some(changes) = changes { (change_table(changes)) }
        }
    }
}

fn change_table(changes: &Changes) -> Markup {
    html! {
        @if changes.count == 0 {
            p.empty { "Nothing differs." }
        } @else {
            p { (units::counted(changes.count, "change")) @if changes.is_truncated() { ", of which " (changes.listed.len()) " are shown" } "." }
            div.scroll tabindex="0" role="region" aria-label="Differences" { table {
                caption.hidden { "Differences" }
                thead { tr { th scope="col" { "Change" } th scope="col" { "Kind" } th scope="col" { "Name" } th scope="col" { "Values" } } }
                tbody { @for change in &changes.listed { (change_row(change)) } }
            } }
        }
    }
}

fn change_row(change: &Change) -> Markup {
    let text = |shown: &Option<Shown>| {
        shown
            .as_ref()
            .map_or("nothing".to_owned(), |shown| shown.text.clone())
    };
    html! {
        tr {
            td { (change.kind.word()) }
            td { (change.resource.kind) }
            th scope="row" { (change.resource.to_string()) }
            td {
                @if change.kind == Kind::Changed {
                    @for value in &change.differences {
                        div { (value.part) " " (value.name) ": " code { (text(&value.old)) } " → " code { (text(&value.new)) } }
                    }
                }
            }
        }
    }
}

async fn act(
    State(console): State<Arc<Console>>,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    check_shows_all(&console)?;
    if let Some((title, note)) = question(&console, &form) {
        let page = confirmation(&console, &form, &title, &note);
        return Ok(page.into_response());
    }
    if form.text("act") == "look" {
        return Ok(look_into(&console, &form).await?.into_response());
    }
    let (shared, asked) = (console.clone(), form.clone());
    let done = on_blocking_pool(move || test_section::carry_out(&shared, &asked).transpose());
    let done = match done.await? {
        Some(done) => done,
        None => carry_out(&console, &form).await?,
    };
    let section = section_of(form.text("act"));
    let path = format!("/_lazurite/state?done={}#{section}", done.word());
    Ok(SeeOther(path).into_response())
}

/// The part of the page that an action belongs to.
fn section_of(act: &str) -> &'static str {
    match act {
        "reset" | "snapshot" | "restore" | "delete" => "snapshots",
        "fork" | "release" => "forks",
        act if act.contains("fault") => "faults",
        _ => "clock",
    }
}

/// What an action would destroy, as a title and a sentence; `None` if nothing, or if the visitor
/// has confirmed it.
fn question(console: &Console, form: &Form) -> Option<(String, String)> {
    if form.get("confirmed").is_some() {
        return None;
    }
    let name = form.text("name");
    let (title, note) = match form.text("act") {
        "restore" => (
            format!("Restore {name}"),
            format!(
                "The current store is replaced: {}. It is kept as a snapshot whose name begins with {REPLACED}.",
                home::contents(console)
            ),
        ),
        "reset" => (
            "Delete everything".to_owned(),
            format!(
                "All of the current store is deleted: {}. Snapshots stay.",
                home::contents(console)
            ),
        ),
        "delete" => (
            format!("Delete the snapshot {name}"),
            "It cannot be restored or compared any more. Forks of it stay.".to_owned(),
        ),
        "release" => (
            format!("End the fork {name}"),
            "Everything stored in it is deleted, and requests to it are refused.".to_owned(),
        ),
        _ => return None,
    };
    Some((title, note))
}

fn confirmation(console: &Console, form: &Form, title: &str, note: &str) -> Html {
    let act = form.text("act");
    let back = format!("/_lazurite/state#{}", section_of(act));
    let content = html! {
        h1 { (title) }
        p.alert { (note) }
        form.actions method="post" action="/_lazurite/state" data-plain {
            (layout::token(console))
            input type="hidden" name="name" value=(form.text("name"));
            input type="hidden" name="confirmed" value="yes";
            button.danger name="act" value=(act) { (title) }
            a.quiet.button href=(back) { "Cancel" }
        }
    };
    layout::page(console, "State", title, content)
}

/// Opens a fork of a snapshot, so that its content can be looked at.
async fn look_into(console: &Console, form: &Form) -> Result<SeeOther> {
    let snapshot = form.required("name")?.to_owned();
    let given = stored(form.text("account"));
    let first = console.accounts().next().unwrap_or_default();
    let account = if given.is_empty() { first } else { given };
    console.check_account(account)?;
    let source = ForkSource::Snapshot(snapshot.clone());
    let lower = snapshot.to_ascii_lowercase();
    let name: String = lower
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(FORK_NAME_MAX)
        .collect();
    let name = format!("look-{}", name.trim_matches('-'));
    let known = console.stores.list_forks();
    let is_open = known
        .iter()
        .any(|fork| fork.name == name && fork.source == source);
    let fork = if is_open {
        name
    } else {
        let taken = known.iter().any(|fork| fork.name == name);
        let name = Some(name).filter(|_| !taken);
        console.stores.fork_from(name, source).await?.name
    };
    let path = links::path(&["blobs", &name_of_fork(account, &fork)], &[]);
    Ok(SeeOther(path))
}

/// Restores a snapshot. What it replaces is kept as another one, but for what is written between
/// the two steps.
async fn restore(console: &Console, name: String) -> Result<Done> {
    let now = date::iso8601(clock::system_time());
    let digits: String = now.chars().filter(char::is_ascii_digit).collect();
    let kept = format!("{REPLACED}{digits}");
    console.stores.take_snapshot(kept).await?;
    console.stores.restore(name).await?;
    Ok(Done::StoreRestored)
}

async fn carry_out(console: &Console, form: &Form) -> Result<Done> {
    let stores = &console.stores;
    let name = form.text("name").to_owned();
    match form.text("act") {
        "reset" => stores.reset().await.map(|()| Done::Cleared),
        "snapshot" => stores
            .take_snapshot(name)
            .await
            .map(|_| Done::SnapshotSaved),
        "restore" => restore(console, name).await,
        "delete" => stores
            .delete_snapshot(name)
            .await
            .map(|()| Done::SnapshotDeleted),
        "fork" => {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let source = given(form.text("from")).map_or(ForkSource::Now, ForkSource::Snapshot);
            let made = stores.fork_from(given(&name), source).await;
            made.map(|_| Done::ForkMade)
        }
        "release" => stores.release_fork(&name).map(|()| Done::ForkEnded),
        _ => Err(Failure::invalid_input("The form has no such action.")),
    }
}
