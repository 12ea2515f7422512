//! The bar of actions above a list, and the boxes that select its rows.
//!
//! The bar stands outside the form of the list, so that it can hold forms of its own; its buttons
//! name the form. A script counts the selected rows and selects ranges; without it, all works but
//! the counting.

use lazurite_protocol::response::error::Failure;
use maud::{Markup, html};

/// The id of the form around a list.
pub const FORM: &str = "list";
/// The field with the selected items, and the one that stands for all that the page's search finds.
pub const ITEM: &str = "item";
pub const ALL: &str = "all";

/// The bar: `left` is what needs no selection, `actions` the buttons for selected rows. `all` names
/// the items that its box selects, on this page or not.
pub fn bar(left: Markup, actions: Markup, all: Option<Markup>) -> Markup {
    html! {
        div.actionbar role="group" aria-label="Actions" {
            (left)
            span.selection {
                span.limits data-selected role="status" {}
                @if let Some(all) = all {
                    label.check { input type="checkbox" name=(ALL) value="yes" form=(FORM) data-all; " " (all) }
                }
                (actions)
            }
        }
    }
}

/// A button of the bar.
pub fn button(act: &str, title: &str, is_destructive: bool) -> Markup {
    html! { button.quiet.danger[is_destructive] name="act" value=(act) form=(FORM) data-for-selected { (title) } }
}

/// The head of the column of boxes. The script puts a box that selects the page into it.
pub fn head() -> Markup {
    html! { th.pick scope="col" data-pick-all { span.hidden { "Selected" } } }
}

/// The box of a row.
pub fn cell(value: &str, label: &str) -> Markup {
    html! { td.pick { input type="checkbox" name=(ITEM) value=(value) aria-label=(format!("Select {label}")); } }
}

/// The refusal of a box whose value is not one that a page has given it.
pub fn unreadable(_: serde_json::Error) -> Failure {
    Failure::invalid_input("A selected row cannot be read.")
}
