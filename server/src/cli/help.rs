//! The help of the program: its commands in groups, and in `-h` the flags that most people need.

use clap::Command;

/// The commands by what they are for, in the order of the help.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Contents",
        &[
            "ls", "tree", "cat", "get", "put", "rm", "cp", "mv", "create", "delete", "query",
            "entity", "peek", "send",
        ],
    ),
    (
        "Server",
        &["status", "health", "doctor", "requests", "advice"],
    ),
    ("Tests", &["state", "clock", "faults"]),
    ("Transfers", &["export", "import", "copy", "import-azurite"]),
    ("Table design", &["guide", "record", "what-if", "design"]),
    ("Assistants", &["mcp"]),
    (
        "Installation and repair",
        &["shim", "service", "verify", "dump"],
    ),
];

/// The flags in `-h`.
const FLAGS: [&str; 7] = [
    "location",
    "in_memory",
    "accounts",
    "host",
    "port",
    "silent",
    "version",
];

/// Width of the names of commands, with the blanks around them.
const NAMES_WIDTH: usize = 18;

/// The usage stands here, and not in the command: errors then name the flags that belong together.
const TEMPLATE: &str = "{about-with-newline}\nUsage: lazurite [OPTIONS]            serves\n       \
    lazurite COMMAND [OPTIONS]    asks a running server\n\n{before-help}{all-args}{after-help}";

/// The text in lines that fit beside the names on 80 columns.
fn wrapped(text: &str, line_start: &str) -> String {
    let (mut lines, mut length) = (String::new(), 0);
    for word in text.split_whitespace() {
        if length > 0 && length + 1 + word.len() > 80 - NAMES_WIDTH {
            lines.push_str(line_start);
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word.len();
    }
    lines
}

/// The command line with its commands in groups, instead of one list.
pub fn grouped(command: Command) -> Command {
    let width = GROUPS
        .iter()
        .map(|(title, _)| title.len())
        .max()
        .unwrap_or(0);
    let mut short = String::from("Commands:\n");
    let mut long = String::new();
    for (title, names) in GROUPS {
        short.push_str(&format!("  {title:width$}  {}\n", names.join(" ")));
        long.push_str(&format!("{title}:\n"));
        for name in names {
            let known = command.find_subcommand(name);
            let about = known.and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let about = wrapped(&about, &format!("\n{:NAMES_WIDTH$}", ""));
            long.push_str(&format!(
                "  {:width$}  {about}\n",
                name,
                width = NAMES_WIDTH - 4
            ));
        }
        long.push('\n');
    }
    command
        .mut_subcommands(|command| command.hide(true))
        .mut_args(|arg| {
            let is_shown = FLAGS.contains(&arg.get_id().as_str());
            arg.hide_short_help(!is_shown)
        })
        .help_template(TEMPLATE)
        .before_help(short.trim_end().to_owned())
        .before_long_help(long.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).collect();
        grouped.sort();
        let command = Cli::command();
        let mut known: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        known.sort_unstable();
        assert_eq!(grouped.iter().map(|name| **name).collect::<Vec<_>>(), known);
        let ids: Vec<_> = command
            .get_arguments()
            .map(|arg| arg.get_id().as_str())
            .collect();
        assert_eq!(FLAGS.iter().filter(|flag| !ids.contains(flag)).count(), 0);
    }

    /// A screen has 40 lines, at 80 columns.
    #[test]
    fn short_help_fits_on_a_screen() {
        let mut command = grouped(Cli::command()).term_width(80);
        command.build();
        check("lazurite", &mut command);
    }

    fn check(name: &str, command: &mut Command) {
        let help = command.render_help().to_string();
        let lines = help.lines().count();
        assert!(lines <= 40, "{name} -h has {lines} lines:\n{help}");
        for command in command.get_subcommands_mut() {
            let name = format!("{name} {}", command.get_name());
            check(&name, command);
        }
    }
}
