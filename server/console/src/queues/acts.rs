//! Buttons and fields for the actions on one message.

use crate::context::Console;
use crate::layout;
use crate::links::QueuePlace;
use lazurite_queue::StoredMessage;
use maud::{Markup, html};

/// How long a message received in the console is hidden by default.
pub const TAKE_SECONDS: i64 = 30;

/// Hidden fields with the id and the receipt of the message that was shown.
pub fn keys_of(message: &StoredMessage) -> Markup {
    html! {
        input type="hidden" name="id" value=(message.message_id);
        input type="hidden" name="receipt" value=(message.pop_receipt);
    }
}

/// The buttons that make a message visible or delete it.
pub fn acts(
    console: &Console,
    place: &QueuePlace,
    message: &StoredMessage,
    is_hidden: bool,
) -> Markup {
    html! {
        form.actions method="post" action=(place.path(&["message"], &[])) {
            (layout::token(console))
            (keys_of(message))
            @if is_hidden { button.quiet name="act" value="show" { "Make visible now" } }
            button.danger name="act" value="delete" { "Delete this message" }
        }
    }
}

/// The form that receives a message as a consumer does.
pub fn take_form(console: &Console, place: &QueuePlace) -> Markup {
    html! {
        details {
            summary { "Receive a message, as a consumer does" }
            form.fields method="post" action=(place.path(&["take"], &[])) {
                (layout::token(console))
                p.warned { "Receiving counts a delivery and hides the message from consumers. Looking at messages does neither." }
                label { "Hidden for, in seconds " input type="number" name="seconds" min="1" max="604800" value=(TAKE_SECONDS); }
                button.danger { "Receive the next message" }
            }
        }
    }
}
