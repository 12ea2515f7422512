//! The part of the page State for exports and imports.

use crate::context::Console;
use crate::layout;
use lazurite_services::pages::EXPORT;
use lazurite_services::state::SnapshotFacts;
use maud::{Markup, html};

/// The path of imports.
pub const IMPORT: &str = "/_lazurite/state/import";

/// The section for exports and imports on the page State.
pub fn section(console: &Console, snapshots: &[SnapshotFacts]) -> Markup {
    html! {
        section #transfers {
            h2 { "Export and import" }
            p { "Everything in an account, as one archive of readable files: the same as " code { "lazurite export" } " and " code { "lazurite import" } "." }
            form.fields method="get" action=(EXPORT) {
                (account_choice(console))
                label { "From " select name="snapshot" {
                    option value="" { "the store as it is now" }
                    @for snapshot in snapshots { option { (snapshot.name) } }
                } }
                label.check { input type="checkbox" name="incomplete" value="allow"; " leave out items that cannot be exported" }
                button { "Export" }
            }
            form.fields.only-script data-import=(IMPORT) hidden {
                (account_choice(console))
                label { "Archive " input type="file" name="archive" accept=".zst" required; }
                label { "If names are there already " select name="existing" {
                    option value="refuse" { "import nothing" }
                    option value="skip" { "leave them as they are" }
                    option value="replace" { "replace what has the same name" }
                } }
                button { "Import" }
            }
            div.progress data-import-state aria-live="polite" {}
            noscript { p.limits { "Importing needs JavaScript." } }
        }
        (layout::script("state.js"))
    }
}

/// The form that exports a fork.
pub fn export_fork(console: &Console, fork: &str) -> Markup {
    html! {
        form method="get" action=(EXPORT) {
            input type="hidden" name="fork" value=(fork);
            (account_choice(console)) " "
            button.quiet { "Export" }
        }
    }
}

/// The choice of the account, if there are several.
fn account_choice(console: &Console) -> Markup {
    html! {
        @if console.accounts().nth(1).is_some() {
            label { "Account " select name="account" { @for account in console.accounts() { option { (account) } } } }
        }
    }
}
