//! Checks names of containers, queues and tables in flags and in files that users write. A refusal
//! explains which names are valid, unlike the protocol's sentences.

/// The error is a sentence without capital letter and period.
pub fn check_container_name(name: &str) -> Result<(), String> {
    lazurite_blob::check_container_name(name).map_err(|_| with_hyphens("container"))
}

/// Like [`check_container_name`], for queues.
pub fn check_queue_name(name: &str) -> Result<(), String> {
    lazurite_queue::check_queue_name(name).map_err(|_| with_hyphens("queue"))
}

/// Like [`check_container_name`], for tables.
pub fn check_table_name(name: &str) -> Result<(), String> {
    let rule = "the name of a table has 3 to 63 letters and digits, begins with a letter, and is not \"tables\"";
    lazurite_table::check_table_name(name).map_err(|_| rule.to_owned())
}

fn with_hyphens(kind: &str) -> String {
    format!(
        "the name of a {kind} has 3 to 63 lower-case letters, digits and hyphens; it neither begins nor ends with a hyphen, and has no two \
         in a row"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_which_names_there_are() {
        assert_eq!(check_container_name("$web"), Ok(()));
        assert_eq!(check_queue_name("work-1"), Ok(()));
        assert_eq!(check_table_name("Customers"), Ok(()));
        let refusal = check_container_name("Photos").unwrap_err();
        assert!(refusal.starts_with("the name of a container has 3 to 63 lower-case"));
        let refusal = check_queue_name("q1").unwrap_err();
        assert!(refusal.starts_with("the name of a queue has 3 to 63 lower-case"));
        for name in ["T1", "1st", "a-b", "TABLES"] {
            let refusal = check_table_name(name).unwrap_err();
            assert!(refusal.contains("begins with a letter"), "{name}");
        }
    }
}
