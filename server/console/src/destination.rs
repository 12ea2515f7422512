//! The account that items are copied or moved to: of the current store, or of a fork.

use crate::context::{Console, fork_of, stored};
use crate::form::Form;
use lazurite_protocol::accounts::name_of_fork;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::services::Services;
use maud::{Markup, html};
use std::sync::Arc;

const FIELD: &str = "account";
/// Maximum number of accounts to choose from.
const CHOICES_MAX: usize = 100;

/// The field that chooses an account; none if there is only the one that the items are in.
pub fn field(console: &Console, account: &str) -> Markup {
    let forks = console.stores.list_forks();
    let of_forks = console.accounts().flat_map(|name| {
        let of_fork = |fork: &_| name_of_fork(name, fork);
        forks.iter().map(move |fork| of_fork(&fork.name))
    });
    let all = console.accounts().map(str::to_owned).chain(of_forks);
    let others: Vec<String> = all.filter(|other| other != account).collect();
    html! {
        @if !others.is_empty() {
            label {
                "To the account "
                select name=(FIELD) {
                    option value=(account) { (title(account)) }
                    @for other in others.iter().take(CHOICES_MAX) { option value=(other) { (title(other)) } }
                    @if others.len() > CHOICES_MAX { option disabled { "others: lazurite cp --to-account" } }
                }
            }
        }
    }
}

fn title(account: &str) -> String {
    match fork_of(account) {
        "" => account.to_owned(),
        fork => format!("{} in the fork {fork}", stored(account)),
    }
}

/// The account that a form has chosen.
pub struct Destination {
    /// With the name of a fork, as in URLs of the services.
    pub account: String,
    pub services: Arc<Services>,
    /// Whether the items are in another store, so that a copy shares no content with them.
    pub is_other_store: bool,
}

impl Destination {
    /// Reads the field; without it, items stay in their account. Errors: there is no such account
    /// or fork, or the console does not show it.
    pub fn read(console: &Console, from: &str, form: &Form) -> Result<Destination> {
        let account = form.get(FIELD).unwrap_or(from);
        let of_field = |failure: Failure| failure.with("Field", FIELD);
        console.check_account(account).map_err(of_field)?;
        let services = console.services_of(fork_of(account)).map_err(of_field)?;
        Ok(Destination {
            account: account.to_owned(),
            services,
            is_other_store: fork_of(account) != fork_of(from),
        })
    }

    /// The name of the account in its store.
    pub fn stored(&self) -> &str {
        stored(&self.account)
    }
}
