//! The name the program was started under, its version text, and flags from the environment.
//!
//! Scripts, images and tools start Azurite by four names and set it up by `AZURITE_*`. Under these
//! names the program behaves as they expect; flags mean the same under every name.

use crate::cli::Cli;
use crate::output;
use clap::builder::{BoolishValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, CommandFactory};
use lazurite_base::terminal::print_line;
use lazurite_protocol::service_kind::ServiceKind;
use std::path::Path;

/// The version of Azurite whose flags, log lines and addresses the server has.
pub const AZURITE_VERSION: &str = "3.37.0";

/// The other names of the program, under which it may be linked or copied.
pub const SHIM_NAMES: [&str; 4] = ["azurite", "azurite-blob", "azurite-queue", "azurite-table"];

/// The role of the program, from the name that it was started under.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    pub services: Vec<ServiceKind>,
    /// Started as one of [`SHIM_NAMES`].
    pub is_azurite: bool,
}

impl Program {
    /// The program as named by the first word of the command line.
    pub fn started_as() -> Program {
        Program::named(
            &std::env::args_os()
                .next()
                .unwrap_or_default()
                .to_string_lossy(),
        )
    }

    fn named(path: &str) -> Program {
        let name = Path::new(path)
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let service = name
            .strip_prefix("azurite-")
            .or_else(|| name.strip_prefix("lazurite-"));
        let services = match service {
            Some("blob") => vec![ServiceKind::Blob],
            Some("queue") => vec![ServiceKind::Queue],
            Some("table") => vec![ServiceKind::Table],
            _ => ServiceKind::ALL.to_vec(),
        };
        Program {
            services,
            is_azurite: SHIM_NAMES.contains(&name),
        }
    }

    /// True for the programs that serve a single service, which print their own line when they are
    /// ready.
    pub fn stands_alone(&self) -> bool {
        self.services.len() == 1
    }

    /// Parses command line and environment. Exits after help, the version or an error.
    pub fn parse(&self) -> Cli {
        let command = with_environment(Cli::parser(), |name| {
            std::env::var_os(name).is_some_and(|value| !value.is_empty())
        });
        let parsed = command
            .try_get_matches()
            .and_then(|matches| Cli::read(&matches));
        match parsed {
            Ok(cli) => cli,
            Err(error) if error.kind() == ErrorKind::DisplayVersion => {
                print_line(self.version());
                std::process::exit(0)
            }
            Err(error) => {
                let _ = error.print();
                let words: Vec<_> = std::env::args().collect();
                if let Some(advice) = advice(&words, error.kind()) {
                    output::say(format!("\n{advice}"));
                }
                std::process::exit(error.exit_code())
            }
        }
    }

    /// The text of `--version`. Under a name of Azurite, it begins with Azurite's version: tools
    /// expect a text such as `3.37.0`.
    fn version(&self) -> String {
        let own = env!("CARGO_PKG_VERSION");
        if self.is_azurite {
            format!("{AZURITE_VERSION} (Lazurite {own})")
        } else {
            format!("lazurite {own}")
        }
    }
}

/// What to use instead of a refused command line, if that is known.
fn advice(words: &[String], refused: ErrorKind) -> Option<String> {
    let is_mixed = matches!(
        refused,
        ErrorKind::UnknownArgument | ErrorKind::ArgumentConflict | ErrorKind::InvalidSubcommand
    );
    if !is_mixed {
        return None;
    }
    if words.iter().any(|word| word == "import-azurite") {
        let advice = "import-azurite imports into a server that runs. A store that begins with the data of Azurite needs no import: start \
                      the server on a copy of Azurite's directory, with --location COPY.";
        return Some(advice.to_owned());
    }
    let unsupported = words.iter().find_map(|word| advice_about_proposal(word));
    let mut pairs = words.iter().zip(words.iter().skip(1));
    unsupported.or_else(|| pairs.find_map(|(flag, value)| advice_about_switch(flag, value)))
}

/// Flags of changes that are proposed for Azurite and in none of its versions, by their beginnings,
/// and what there is instead.
const PROPOSALS: [(&str, &str); 2] = [
    (
        "--accountConfig",
        "There is no file with the settings of accounts. --accounts-file has names and keys; --blob-versioning, --container-retention, \
         --no-public-access and --no-shared-key are set for all accounts.",
    ),
    (
        "--blobEventCapture",
        "Events of blobs are not written to files. `lazurite requests --follow --json` prints every request as it comes.",
    ),
];

/// Why a flag of [`PROPOSALS`] is refused, in any case.
fn advice_about_proposal(word: &str) -> Option<String> {
    let name = word.split('=').next()?.to_ascii_lowercase();
    let named = |(flag, _): &&(&str, &str)| name.starts_with(&flag.to_ascii_lowercase());
    let (_, instead) = PROPOSALS.iter().find(named)?;
    let flag = word.split('=').next()?;
    Some(format!(
        "{flag} is proposed for Azurite, and not supported. {instead}"
    ))
}

/// How to write a switch that was given a value as a second word.
fn advice_about_switch(flag: &str, value: &str) -> Option<String> {
    let name = flag.strip_prefix("--")?;
    let command = Cli::command();
    let switch = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(name))?;
    let is_on = BoolishValueParser::new().parse_ref(&command, None, value.as_ref());
    let is_on = is_on.ok()?;
    if switch.is_require_equals_set() {
        return Some(format!("A value of {flag} follows =: {flag}={is_on}"));
    }
    let instead = if is_on {
        format!("write {flag} alone")
    } else {
        format!("leave {flag} out")
    };
    let is_switch = !switch.get_action().takes_values();
    is_switch.then(|| format!("{flag} takes no value: {instead}."))
}

/// Lets every flag be set in the environment, by the first of `LAZURITE_NAME` and `AZURITE_NAME`
/// that `is_set`. An empty variable counts as unset: workflows write empty ones for omitted values.
fn with_environment(command: clap::Command, is_set: impl Fn(&str) -> bool) -> clap::Command {
    command.mut_args(|arg| {
        let Some(flag) = arg.get_long().filter(|flag| *flag != "version") else {
            return arg;
        };
        let own = variable(flag);
        let found = [own.clone(), own.replacen("LAZURITE", "AZURITE", 1)]
            .into_iter()
            .find(|name| is_set(name));
        match found {
            // Leaks the name, which clap needs for the rest of the process.
            Some(name) => as_boolish(arg).env(&*name.leak()).hide_env(true),
            None => arg,
        }
    })
}

/// A switch such as `--silent`, for which a variable may also say `true`, `yes` or the opposite.
fn as_boolish(arg: Arg) -> Arg {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        arg.value_parser(BoolishValueParser::new())
    } else {
        arg
    }
}

/// The variable of a flag: `LAZURITE_BLOB_PORT` for `blobPort`.
fn variable(flag: &str) -> String {
    let mut name = String::from("LAZURITE_");
    for letter in flag.chars() {
        match letter {
            '-' | '.' => name.push('_'),
            letter if letter.is_ascii_uppercase() => {
                name.push('_');
                name.push(letter);
            }
            letter => name.push(letter.to_ascii_uppercase()),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_with_flags_of_the_server_is_told_what_works() {
        for (words, has_advice) in [
            (
                &["lazurite", "import-azurite", "DIR", "--location", "S"][..],
                true,
            ),
            (
                &["lazurite", "--location", "S", "import-azurite", "DIR"],
                true,
            ),
            (&["lazurite", "import-azurite"], false),
            (&["lazurite", "--nonsense"], false),
        ] {
            let error = Cli::command().try_get_matches_from(words).unwrap_err();
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            let found = advice(&words, error.kind());
            assert_eq!(found.is_some(), has_advice, "{words:?}: {error}");
        }
    }

    #[test]
    fn a_switch_with_a_value_as_a_word_of_its_own_is_told_what_works() {
        for (words, found) in [
            (
                "--skipApiVersionCheck false -s",
                Some("A value of --skipApiVersionCheck follows =: --skipApiVersionCheck=false"),
            ),
            (
                "-s --loose true",
                Some("--loose takes no value: write --loose alone."),
            ),
            (
                "--silent no",
                Some("--silent takes no value: leave --silent out."),
            ),
            ("--silent nonsense", None),
            ("--port 1 true", None),
        ] {
            let words = format!("lazurite {words}");
            let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
            let error = Cli::parser().try_get_matches_from(&words).unwrap_err();
            assert_eq!(advice(&words, error.kind()).as_deref(), found, "{error}");
        }
    }

    #[test]
    fn flags_that_are_proposed_for_azurite_are_refused_by_name() {
        for (word, part) in [
            ("--accountConfig", "--accounts-file"),
            ("--accountConfigPath=accounts.json", "--accounts-file"),
            ("--blobEventCapture", "lazurite requests"),
            ("--blobEventCapturePath=events", "lazurite requests"),
        ] {
            let words = ["lazurite".to_owned(), word.to_owned()];
            let error = Cli::parser().try_get_matches_from(&words).unwrap_err();
            let advice = advice(&words, error.kind()).unwrap();
            let flag = word.split('=').next().unwrap();
            assert!(
                advice.starts_with(&format!("{flag} is proposed")),
                "{advice}"
            );
            assert!(advice.contains(part), "{advice}");
        }
    }

    #[test]
    fn the_name_of_the_program_chooses_the_services() {
        let queue = Program::named("/usr/bin/azurite-queue");
        assert_eq!(queue.services, [ServiceKind::Queue]);
        assert!(queue.stands_alone() && queue.is_azurite);
        let all = Program::named("azurite.exe");
        assert_eq!(all.services, ServiceKind::ALL);
        assert!(all.is_azurite && !all.stands_alone());
        let own = Program::named("target/release/lazurite");
        assert_eq!(own.services, ServiceKind::ALL);
        assert!(!own.is_azurite);
        let table = Program::named("lazurite-table");
        assert_eq!(table.services, [ServiceKind::Table]);
        assert!(table.stands_alone() && !table.is_azurite);
        // File names as in releases.
        for name in [
            "lazurite-x86_64-linux",
            "lazurite-0.1.0",
            "azurite-foo",
            "store",
        ] {
            let other = Program::named(name);
            assert_eq!(other.services, ServiceKind::ALL, "{name}");
            assert!(!other.is_azurite, "{name}");
        }
    }

    #[test]
    fn tools_find_the_version_of_azurite_first() {
        let version = Program::named("azurite").version();
        assert!(version.starts_with("3.37.0 "), "{version}");
        let version = Program::named("lazurite").version();
        assert!(version.starts_with("lazurite 0."), "{version}");
    }

    #[test]
    fn variables_are_named_after_flags() {
        for (flag, name) in [
            ("blobPort", "LAZURITE_BLOB_PORT"),
            ("skipApiVersionCheck", "LAZURITE_SKIP_API_VERSION_CHECK"),
            ("inMemoryPersistence", "LAZURITE_IN_MEMORY_PERSISTENCE"),
            ("accounts-file", "LAZURITE_ACCOUNTS_FILE"),
            ("location", "LAZURITE_LOCATION"),
        ] {
            assert_eq!(variable(flag), name);
        }
    }

    #[test]
    fn every_flag_can_be_set_in_the_environment() {
        let command = with_environment(Cli::command(), |_| true);
        for arg in command.get_arguments() {
            let flag = arg.get_long().unwrap_or("version");
            let is_set = arg.get_env().is_some();
            assert_eq!(is_set, flag != "version", "--{flag}");
        }
        let command = with_environment(Cli::command(), |name| name.starts_with("AZURITE_"));
        let host = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some("blobHost"));
        assert_eq!(host.unwrap().get_env().unwrap(), "AZURITE_BLOB_HOST");
    }

    /// The first three cells of the row that `docs/configuration.md` should have for a flag: its
    /// names, its variable, its default. The default is `None` where the program computes it.
    fn documented(arg: &Arg) -> (String, String, Option<String>) {
        let long = arg.get_long().expect("every flag has a long name");
        let short = arg.get_short().map(|short| format!("`-{short}`, "));
        let default = arg.get_default_values().first();
        let default = default.map(|default| format!("`{}`", default.display()));
        let is_switch = !arg.get_action().takes_values() || arg.is_require_equals_set();
        (
            format!("{}`--{long}`", short.unwrap_or_default()),
            format!("`{}`", variable(long)),
            if is_switch {
                Some("off".to_owned())
            } else {
                default
            },
        )
    }

    /// The cells of the documentation's rows for flags, by flag without the name of its value.
    fn documentation() -> std::collections::BTreeMap<String, Vec<&'static str>> {
        let lines = include_str!("../docs/configuration.md").lines();
        let rows = lines.filter(|line| line.starts_with("| `-"));
        rows.map(|row| {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let mut names = cells[1].to_owned();
            if let Some(value) = names.rfind(' ').filter(|at| !names[..*at].ends_with(',')) {
                names.replace_range(value.., "`");
            }
            (names, cells)
        })
        .collect()
    }

    #[test]
    fn the_documentation_lists_every_flag_with_its_variable_default_and_values() {
        let mut rows = documentation();
        let command = Cli::command();
        let is_documented = |arg: &&Arg| arg.get_long() != Some("version");
        for arg in command.get_arguments().filter(is_documented) {
            let (names, variable, default) = documented(arg);
            let row = rows.remove(&names);
            let row = row.unwrap_or_else(|| panic!("docs/configuration.md has no row for {names}"));
            assert_eq!(row[2], variable, "{names}");
            let is_switch = default.as_deref() == Some("off");
            assert_eq!(
                row[1].ends_with(&names),
                is_switch,
                "{names}: the value's name"
            );
            assert!(
                default.is_none_or(|default| row[3] == default),
                "{names}: {}",
                row[3]
            );
            for value in arg.get_possible_values().iter().filter(|_| !is_switch) {
                let value = format!("`{}`", value.get_name());
                assert!(row[4].contains(&value), "{names}: {value}");
            }
        }
        assert!(
            rows.is_empty(),
            "these flags do not exist: {:?}",
            rows.keys()
        );
    }

    #[test]
    fn the_documentation_lists_every_command() {
        let page = include_str!("../docs/configuration.md");
        let (_, commands) = page.split_once("## Commands").unwrap();
        let rows = commands.lines().filter(|line| line.starts_with("| `"));
        let cells: String = rows.filter_map(|row| row.split(" | ").next()).collect();
        let words: Vec<_> = cells.split(['`', ' ']).collect();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(words.contains(&name), "docs/configuration.md: {name}");
        }
    }

    #[test]
    fn the_last_of_two_equal_flags_counts() {
        let command = with_environment(Cli::command(), |_| false);
        let words = "lazurite --blobHost ::1 -s --silent --blobHost 127.0.0.1 --azurite.disableTelemetry \
                     --allowed-host a --allowed-host b,c -l x --location=y --skipApiVersionCheck --skipApiVersionCheck";
        let matches = command
            .try_get_matches_from(words.split_whitespace())
            .unwrap();
        let cli = Cli::read(&matches).unwrap();
        assert_eq!(cli.address(ServiceKind::Blob).0, "127.0.0.1");
        assert!(cli.silent && cli.disable_telemetry && cli.skip_api_version_check);
        assert_eq!(cli.allowed_hosts, ["a", "b", "c"]);
        assert_eq!(cli.location, Path::new("y"));
    }
}
