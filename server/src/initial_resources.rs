//! Containers, queues and tables from flags, which are created at start unless they exist.

use crate::services::Services;
use lazurite_protocol::resource_names::{check_container_name, check_queue_name, check_table_name};

/// The names of the initial resources, by kind.
#[derive(Debug, Clone, Copy)]
pub struct InitialResources<'a> {
    pub containers: &'a [String],
    pub queues: &'a [String],
    pub tables: &'a [String],
}

impl InitialResources<'_> {
    fn is_empty(&self) -> bool {
        [self.containers, self.queues, self.tables]
            .into_iter()
            .all(<[String]>::is_empty)
    }

    /// Checks all names. The error is a sentence with the flag and the first invalid name.
    pub fn check(&self) -> Result<(), String> {
        type Check = fn(&str) -> Result<(), String>;
        let kinds: [(&str, &[String], Check); 3] = [
            ("containers", self.containers, check_container_name),
            ("queues", self.queues, check_queue_name),
            ("tables", self.tables, check_table_name),
        ];
        for (flag, names, check) in kinds {
            for name in names {
                check(name).map_err(|error| format!("--{flag} {name}: {error}"))?;
            }
        }
        Ok(())
    }

    /// Creates the missing resources and returns a summary line; `None` if no flag names any. Call
    /// [`InitialResources::check`] first. Blocks for the disk. The error is a sentence.
    pub fn make(&self, services: &Services, account: &str) -> Result<Option<String>, String> {
        if self.is_empty() {
            return Ok(None);
        }
        let made = [
            (
                "containers",
                make_each(self.containers, |name| {
                    make_container(services, account, name)
                })?,
            ),
            (
                "queues",
                make_each(self.queues, |name| make_queue(services, account, name))?,
            ),
            (
                "tables",
                make_each(self.tables, |name| make_table(services, account, name))?,
            ),
        ];
        let made = made.into_iter().filter(|(_, names)| !names.is_empty());
        let made: Vec<_> = made
            .map(|(kind, names)| format!("{kind} {}", names.join(", ")))
            .collect();
        let what = if made.is_empty() {
            "all containers, queues and tables that flags name were there".to_owned()
        } else {
            format!("made {}", made.join("; "))
        };
        Ok(Some(format!("{what} (account {account})")))
    }
}

/// Calls `make` for each name. Returns the names that did not exist before.
fn make_each(
    names: &[String],
    make: impl Fn(&str) -> Result<bool, String>,
) -> Result<Vec<&str>, String> {
    let mut made = Vec::new();
    for name in names {
        if make(name).map_err(|error| format!("cannot make {name}: {error}"))? {
            made.push(name.as_str());
        }
    }
    Ok(made)
}

/// Creates a container. Returns false if it exists.
fn make_container(services: &Services, account: &str, name: &str) -> Result<bool, String> {
    let settings = services.container_settings(account);
    match services
        .blobs
        .create_container_with(account, name, settings)
    {
        Ok((_, ticket)) => durable(ticket),
        Err(lazurite_blob::Error::ContainerAlreadyExists) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

fn make_queue(services: &Services, account: &str, name: &str) -> Result<bool, String> {
    match services.queues.create_queue(account, name, Vec::new()) {
        Ok((creation, ticket)) => {
            Ok(durable(ticket)? && creation == lazurite_queue::Creation::Created)
        }
        // The queue exists, with other metadata.
        Err(lazurite_queue::Error::QueueAlreadyExists) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

fn make_table(services: &Services, account: &str, name: &str) -> Result<bool, String> {
    match services.tables.create_table(account, name) {
        Ok(ticket) => durable(ticket),
        Err(lazurite_table::Error::TableAlreadyExists) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

fn durable(ticket: lazurite_engine::Ticket) -> Result<bool, String> {
    ticket.wait().map_err(|error| error.to_string())?;
    Ok(true)
}
