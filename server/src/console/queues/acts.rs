//! Buttons and fields for acts on one message.

use crate::console::context::Console;
use crate::console::{layout, links};
use lazurite_queue::StoredMessage;
use maud::{Markup, html};

/// How long a message that is taken in the console is hidden, unless the form says otherwise.
pub const TAKE_SECONDS: i64 = 30;

/// What each form about a message has: id and receipt of what was shown.
pub fn keys_of(message: &StoredMessage) -> Markup {
    html! {
        input type="hidden" name="id" value=(message.message_id);
        input type="hidden" name="receipt" value=(message.pop_receipt);
    }
}

/// Buttons that show a message at once or delete it.
pub fn acts(
    console: &Console,
    (account, queue): (&str, &str),
    message: &StoredMessage,
    is_hidden: bool,
) -> Markup {
    html! {
        form.actions method="post" action=(links::path(&["queues", account, queue, "message"], &[])) {
            (layout::token(console))
            (keys_of(message))
            @if is_hidden { button.quiet name="act" value="show" { "Make visible now" } }
            button.danger name="act" value="delete" { "Delete this message" }
        }
    }
}

/// The form that takes a message as a consumer does.
pub fn take_form(console: &Console, account: &str, queue: &str) -> Markup {
    html! {
        details {
            summary { "Take a message, as a consumer does" }
            form.fields method="post" action=(links::path(&["queues", account, queue, "take"], &[])) {
                (layout::token(console))
                p.warned { "Taking counts a delivery and hides the message from consumers. Looking at messages does neither." }
                label { "Hidden for, in seconds " input type="number" name="seconds" min="1" max="604800" value=(TAKE_SECONDS); }
                button.danger { "Take the next message" }
            }
        }
    }
}
