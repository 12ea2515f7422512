//! Every command of the program in one table: its help, ten mistakes, and its output on a terminal,
//! in a pipe and as JSON. The list of commands is the one of `--help`: a command without a row
//! fails.

use std::io::pipe;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use serde_json::Value;
use tempfile::TempDir;

use crate::server::{ACCOUNT, Launch, Server, lines_of};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lazurite");

/// Words of a command line, with spaces between them; `_` stands for a space in a word.
/// `{dir}` is the scratch directory, `{cs}` the connection string of the server, `{store}` a store
/// that no server has open.
type Words = &'static str;

/// A mistake: the words after the command, and what standard error says about it.
type Mistake = Option<(Words, &'static str)>;

/// A row of the table.
struct Row {
    command: &'static str,
    /// Words after the command that work.
    works: Words,
    /// Whole command lines that run before each run of the command.
    before: &'static [&'static str],
    /// Whether the command sends requests to a server that flags name.
    is_client: bool,
    /// Whether its requests need the key of the account.
    needs_key: bool,
    /// Whether it takes any number of words.
    takes_many: bool,
    has_json: bool,
    missing_name: Mistake,
    unknown_name: Mistake,
    bad_filter: Mistake,
    wrong_type: Mistake,
    unreadable: Mistake,
}

const ROW: Row = Row {
    command: "",
    works: "",
    before: &[],
    is_client: true,
    needs_key: true,
    takes_many: false,
    has_json: true,
    missing_name: None,
    unknown_name: None,
    bad_filter: None,
    wrong_type: None,
    unreadable: None,
};

/// A command for the server's own pages, which need no key.
const PAGE: Row = Row {
    needs_key: false,
    ..ROW
};

/// A command that needs no server.
const LOCAL: Row = Row {
    is_client: false,
    needs_key: false,
    ..ROW
};

const REQUIRED: &str = "required";

const ROWS: &[Row] = &[
    Row {
        command: "ls",
        works: "photos",
        unknown_name: Some(("photso", "there is no container photso. Nearest: photos")),
        wrong_type: Some(("work", "a queue: `lazurite peek work`")),
        ..ROW
    },
    Row {
        command: "tree",
        works: "photos",
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("People", "a table: `lazurite query People`")),
        ..ROW
    },
    Row {
        command: "cat",
        works: "photos/2026/lake.txt",
        has_json: false,
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("photos/2026/lak.txt", "Nearest: 2026/lake.txt")),
        wrong_type: Some(("photos", "names no blob: write CONTAINER/NAME")),
        ..ROW
    },
    Row {
        command: "get",
        works: "photos/2026/lake.txt {dir}/got.txt",
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("photos/2026 {dir}/got", "a directory")),
        wrong_type: Some(("-r photos/2026/lake.txt {dir}/tree", "leave -r out")),
        unreadable: Some(("photos/2026/lake.txt {dir}/lake.txt/x", "lake.txt")),
        ..ROW
    },
    Row {
        command: "put",
        works: "{dir}/lake.txt photos/new.txt",
        missing_name: Some(("{dir}/lake.txt", REQUIRED)),
        unknown_name: Some((
            "{dir}/lake.txt albums/x",
            "`lazurite create container albums`",
        )),
        wrong_type: Some(("{dir}/tree photos/x", "it is a directory, which -r uploads")),
        unreadable: Some(("{dir}/absent photos/x", "cannot read {dir}/absent: ")),
        ..ROW
    },
    Row {
        command: "rm",
        works: "photos/old.txt",
        before: &["put {dir}/lake.txt photos/old.txt"],
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("photos/2026/lak.txt", "Nearest: 2026/lake.txt")),
        wrong_type: Some(("-r photos", "Add --yes to go ahead")),
        ..ROW
    },
    Row {
        command: "cp",
        works: "photos/2026/lake.txt photos/copy.txt",
        missing_name: Some(("photos/2026/lake.txt", REQUIRED)),
        unknown_name: Some(("photos/2026/lak.txt photos/x", "Nearest: 2026/lake.txt")),
        wrong_type: Some(("photos/2026/lake.txt photos/2026/", "are the same")),
        ..ROW
    },
    Row {
        command: "mv",
        works: "photos/old.txt photos/moved.txt",
        before: &["put {dir}/lake.txt photos/old.txt"],
        missing_name: Some(("photos/old.txt", REQUIRED)),
        unknown_name: Some(("photos/2026/lake.txt phots/x", "Nearest: photos")),
        ..ROW
    },
    Row {
        command: "create container",
        works: "albums --ignore-existing",
        takes_many: true,
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("photos", "is there already: --ignore-existing")),
        wrong_type: Some(("Photos", "lower-case letters")),
        ..ROW
    },
    Row {
        command: "create queue",
        works: "orders --ignore-existing",
        takes_many: true,
        missing_name: Some(("", REQUIRED)),
        wrong_type: Some(("a", "3 to 63")),
        ..ROW
    },
    Row {
        command: "create table",
        works: "Orders --ignore-existing",
        takes_many: true,
        missing_name: Some(("", REQUIRED)),
        wrong_type: Some(("1st", "beginning with a letter")),
        ..ROW
    },
    Row {
        command: "delete container",
        works: "albums --yes",
        before: &["create container albums --ignore-existing"],
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("photso --yes", "Nearest: photos")),
        wrong_type: Some(("photos", "Delete container photos with its")),
        ..ROW
    },
    Row {
        command: "delete queue",
        works: "orders --yes",
        before: &["create queue orders --ignore-existing"],
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("wrok --yes", "Nearest: work")),
        ..ROW
    },
    Row {
        command: "delete table",
        works: "Orders --yes",
        before: &["create table Orders --ignore-existing"],
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("Poeple --yes", "Nearest: People")),
        ..ROW
    },
    Row {
        command: "entity get",
        works: "People Sales 1",
        missing_name: Some(("People Sales", REQUIRED)),
        unknown_name: Some(("People Sales 2", "Nearest RowKeys: 1")),
        ..ROW
    },
    Row {
        command: "entity put",
        works: "People Sales 1 Age=34",
        takes_many: true,
        missing_name: Some(("People", REQUIRED)),
        unknown_name: Some(("Poeple Sales 1 Age=34", "Nearest: People")),
        wrong_type: Some(("People Sales 1 Age=3000000000", "write 3000000000L")),
        ..ROW
    },
    Row {
        command: "entity delete",
        works: "People Sales 2",
        before: &["entity put People Sales 2"],
        missing_name: Some(("People", REQUIRED)),
        unknown_name: Some(("People Sales 7", "Nearest RowKeys: 1")),
        bad_filter: Some(("People --yes --filter Age_gtt_3", "Operators: eq ne gt")),
        ..ROW
    },
    Row {
        command: "query",
        works: "People Age_gt_3",
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("Poeple", "there is no table Poeple. Nearest: People")),
        bad_filter: Some(("People Age_gtt_3", "Operators: eq ne gt")),
        wrong_type: Some(("People --top x", "--top")),
        ..ROW
    },
    Row {
        command: "peek",
        works: "work",
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("wrok", "there is no queue wrok. Nearest: work")),
        wrong_type: Some(("work -n 33", "33")),
        ..ROW
    },
    Row {
        command: "send",
        works: "work hello",
        missing_name: Some(("work", REQUIRED)),
        unknown_name: Some(("photos hello", "a container: `lazurite ls photos`")),
        ..ROW
    },
    Row {
        command: "status",
        works: "",
        ..PAGE
    },
    Row {
        command: "health",
        works: "--connection-string {cs}",
        takes_many: true,
        wrong_type: Some(("x", "invalid value 'x'")),
        ..LOCAL
    },
    Row {
        command: "doctor",
        works: "",
        unknown_name: Some(("nonsense", "AccountName")),
        ..ROW
    },
    Row {
        command: "requests",
        works: "--filter -operation:List",
        wrong_type: Some(("--filter", "value is required")),
        ..PAGE
    },
    Row {
        command: "advice",
        works: "",
        ..ROW
    },
    Row {
        command: "state reset",
        works: "",
        unknown_name: Some(("--service none", "service")),
        ..PAGE
    },
    Row {
        command: "state snapshot",
        works: "seed",
        before: &["state delete seed"],
        missing_name: Some(("", REQUIRED)),
        wrong_type: Some(("a/b", "name")),
        ..PAGE
    },
    Row {
        command: "state list",
        works: "",
        ..PAGE
    },
    Row {
        command: "state restore",
        works: "seed",
        before: &["state snapshot seed"],
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("none", "There is no snapshot")),
        ..PAGE
    },
    Row {
        command: "state delete",
        works: "seed",
        before: &["state snapshot seed"],
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("none", "There is no snapshot")),
        ..PAGE
    },
    Row {
        command: "state diff",
        works: "seed",
        before: &["state snapshot seed"],
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("none", "There is no snapshot")),
        wrong_type: Some(("seed --limit x", "--limit")),
        ..PAGE
    },
    Row {
        command: "state fork",
        works: "",
        unknown_name: Some(("none", "There is no snapshot")),
        wrong_type: Some(("--name A_B", "name")),
        ..PAGE
    },
    Row {
        command: "state release",
        works: "pr42",
        before: &["state fork --name pr42"],
        missing_name: Some(("", REQUIRED)),
        unknown_name: Some(("none", "There is no fork")),
        ..PAGE
    },
    Row {
        command: "clock show",
        works: "",
        ..PAGE
    },
    Row {
        command: "clock advance",
        works: "1s",
        missing_name: Some(("", REQUIRED)),
        wrong_type: Some(("5", "write 30s, 5m, 2h, 7d or PT30S")),
        ..PAGE
    },
    Row {
        command: "clock set",
        works: "2040-01-31T12:00:00Z",
        before: &["state reset"],
        missing_name: Some(("", REQUIRED)),
        wrong_type: Some(("tomorrow", "tomorrow")),
        ..PAGE
    },
    Row {
        command: "clock freeze",
        works: "",
        ..PAGE
    },
    Row {
        command: "clock run",
        works: "",
        ..PAGE
    },
    Row {
        command: "clock reset",
        works: "",
        ..PAGE
    },
    Row {
        command: "faults show",
        works: "",
        ..PAGE
    },
    Row {
        command: "faults set",
        works: "{dir}/rules.json",
        missing_name: Some(("", REQUIRED)),
        wrong_type: Some(("{dir}/lake.txt", "400")),
        unreadable: Some(("{dir}/absent", "cannot read {dir}/absent")),
        ..PAGE
    },
    Row {
        command: "faults clear",
        works: "",
        ..PAGE
    },
    Row {
        command: "export",
        works: "{dir}/exported-{run}",
        missing_name: Some(("", REQUIRED)),
        unreadable: Some(("{dir}/tree", "exists already")),
        ..ROW
    },
    Row {
        command: "import",
        works: "{dir}/seed.toml --existing replace",
        missing_name: Some(("", REQUIRED)),
        wrong_type: Some(("{dir}/seed.toml --existing x", "possible values")),
        unreadable: Some(("{dir}/absent", "{dir}/absent")),
        ..ROW
    },
    Row {
        command: "copy",
        works: "{cs} {cs2} --existing replace",
        missing_name: Some(("{cs}", REQUIRED)),
        unknown_name: Some(("{cs} {cs2} --containers none", "FROM has no container none")),
        wrong_type: Some(("{cs} {cs}", "are the same Blob service")),
        ..LOCAL
    },
    Row {
        command: "import-azurite",
        missing_name: Some(("", REQUIRED)),
        unreadable: Some(("{dir}/absent", "{dir}/absent")),
        ..ROW
    },
    Row {
        command: "guide",
        works: "",
        has_json: false,
        unknown_name: Some(("none", "`lazurite guide` lists them")),
        ..LOCAL
    },
    Row {
        command: "record",
        works: "--seconds 0",
        has_json: false,
        wrong_type: Some(("--seconds x", "--seconds")),
        ..ROW
    },
    // Its own tests run it, with a recorded workload.
    Row {
        command: "what-if",
        missing_name: Some(("", REQUIRED)),
        unreadable: Some(("People --record {dir}/absent", "{dir}/absent")),
        ..ROW
    },
    Row {
        command: "design check",
        works: "{dir}/design.toml",
        missing_name: Some(("", REQUIRED)),
        unreadable: Some(("{dir}/absent", "{dir}/absent")),
        ..ROW
    },
    // Its own tests speak its protocol.
    Row {
        command: "mcp",
        works: "",
        has_json: false,
        needs_key: false,
        is_client: false,
        ..ROW
    },
    Row {
        command: "shim install",
        works: "{dir}/links",
        unreadable: Some(("{dir}/absent", "{dir}/absent")),
        ..LOCAL
    },
    Row {
        command: "shim remove",
        works: "{dir}/links",
        before: &["shim install {dir}/links"],
        ..LOCAL
    },
    Row {
        command: "service install",
        works: "--print",
        wrong_type: Some(("-- --port 70000", "70000")),
        ..LOCAL
    },
    Row {
        command: "service uninstall",
        ..LOCAL
    },
    Row {
        command: "service status",
        ..LOCAL
    },
    Row {
        command: "verify",
        works: "{store}",
        unreadable: Some(("{dir}/absent", "{dir}/absent")),
        ..LOCAL
    },
    Row {
        command: "dump",
        works: "{current}",
        has_json: false,
        missing_name: Some(("", REQUIRED)),
        unreadable: Some(("{dir}/absent", "{dir}/absent")),
        ..LOCAL
    },
];

/// What the rows run against: servers with contents, and files.
struct Scene {
    server: Server,
    other: Server,
    directory: TempDir,
    store: TempDir,
    runs: Mutex<u32>,
}

impl Scene {
    fn new() -> Scene {
        let directory = TempDir::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("lake.txt", "blue");
        write("tree/a.txt", "a");
        write("links/keep", "");
        write("rules.json", r#"{"rules": []}"#);
        write("seed.toml", "[queues.seeded]\n");
        write(
            "design.toml",
            r#"tables.T = { rows = 50, partition-key = "C", row-key = "N", properties = { C = { text = "c{}", of = 5 }, N = { text = "{}" } } }
            patterns = [{ name = "by C", table = "T", does = "query", filter = "PartitionKey eq {C}", per-second = 1, must = { plan = "partition scan" } }]"#,
        );
        let store = TempDir::new().unwrap();
        Launch::on(store.path()).start().signal("TERM");
        let scene = Scene {
            server: Server::fresh(),
            other: Server::fresh(),
            directory,
            store,
            runs: Mutex::new(0),
        };
        for words in [
            "create container photos",
            "create queue work",
            "create table People",
            "put {dir}/lake.txt photos/2026/lake.txt",
            "put {dir}/lake.txt photos/old.txt",
            "entity put People Sales 1 Age=34",
        ] {
            let output = scene.run(words);
            assert!(output.status.success(), "{words}: {}", shown(&output));
        }
        scene
    }

    fn fill(&self, text: &str) -> String {
        let run = {
            let mut runs = self.runs.lock().unwrap();
            *runs += 1;
            *runs
        };
        let current = find(self.store.path(), "CURRENT").unwrap_or_default();
        text.replace("{dir}", self.directory.path().to_str().unwrap())
            .replace("{store}", self.store.path().to_str().unwrap())
            .replace("{current}", &current)
            .replace("{cs2}", &self.other.connection_string())
            .replace("{cs}", &self.server.connection_string())
            .replace("{run}", &run.to_string())
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        let words = words.split_whitespace();
        command.args(words.map(|word| self.fill(&word.replace('_', " "))));
        command
            .env(
                "AZURE_STORAGE_CONNECTION_STRING",
                self.server.connection_string(),
            )
            // No test installs a service for the user who runs it.
            .env("HOME", self.directory.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    fn prepare(&self, row: &Row) {
        for words in row.before {
            // It may have been done before.
            self.run(words);
        }
    }
}

/// The first file of this name below a directory.
fn find(directory: &Path, name: &str) -> Option<String> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    entries.into_iter().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            find(&path, name)
        } else {
            (entry.file_name() == name).then(|| path.to_str().unwrap().to_owned())
        }
    })
}

fn shown(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}: {}{}",
        output.status,
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

/// The names of all commands, with those of their actions, as the help lists them.
fn commands() -> Vec<String> {
    let help = |words: &[&str]| {
        let output = Command::new(PROGRAM).args(words).arg("--help").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let names_in = |lines: &mut dyn Iterator<Item = &str>| {
        let names = lines.filter_map(|line| line.strip_prefix("  "));
        let names = names.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let names = names.filter_map(|line| line.split_whitespace().next());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let all = help(&[]);
    let groups = all.lines().skip_while(|line| *line != "Contents:");
    let mut groups = groups.take_while(|line| *line != "Options:");
    let mut commands = Vec::new();
    for name in names_in(&mut groups) {
        let text = help(&[&name]);
        let mut actions = text.lines().skip_while(|line| *line != "Commands:").skip(1);
        let mut actions = actions.by_ref().take_while(|line| !line.is_empty());
        let actions = names_in(&mut actions);
        if actions.is_empty() {
            commands.push(name);
        } else {
            commands.extend(actions.iter().map(|action| format!("{name} {action}")));
        }
    }
    commands
}

#[test]
fn every_command_has_help_says_what_is_wrong_and_prints_in_three_forms() {
    let mut listed = commands();
    assert!(listed.len() > 40, "{listed:?}");
    let mut rows: Vec<_> = ROWS.iter().map(|row| row.command.to_owned()).collect();
    listed.sort();
    rows.sort();
    assert_eq!(rows, listed, "the rows of the table, and the commands");
    let wrong = Mutex::new(Vec::new());
    let next = Mutex::new(ROWS.iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut scene = Scene::new();
                loop {
                    let Some(row) = next.lock().unwrap().next() else {
                        return;
                    };
                    let found = Check { scene: &scene, row }.all();
                    wrong.lock().unwrap().extend(found);
                    // The clock and the state of the next rows are those of a new server.
                    if ["state", "clock", "faults", "delete"]
                        .iter()
                        .any(|word| row.command.starts_with(word))
                    {
                        scene = Scene::new();
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The cells of a row.
struct Check<'a> {
    scene: &'a Scene,
    row: &'a Row,
}

impl Check<'_> {
    /// Sentences about what is wrong.
    fn all(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let works = format!("{} {}", self.row.command, self.row.works);
        let has_run = !self.row.works.is_empty()
            || !["import-azurite", "what-if", "service status"].contains(&self.row.command);
        for help in ["-h", "--help"] {
            let output = self.scene.run(&format!("{} {help}", self.row.command));
            let text = String::from_utf8_lossy(&output.stdout);
            if !output.status.success() || !text.contains("Usage: ") || text.contains('\u{1b}') {
                wrong.push(format!("{} {help}: {}", self.row.command, shown(&output)));
            }
        }
        wrong.extend(self.mistakes(&works, has_run));
        if has_run {
            wrong.extend(self.forms(&works));
        }
        wrong
    }

    fn mistakes(&self, works: &str, has_run: bool) -> Vec<String> {
        let row = self.row;
        let mut wrong = Vec::new();
        for (words, sentence) in [
            &row.missing_name,
            &row.unknown_name,
            &row.bad_filter,
            &row.wrong_type,
            &row.unreadable,
        ]
        .into_iter()
        .flatten()
        {
            wrong.extend(self.fails(&format!("{} {words}", row.command), sentence));
        }
        if !row.takes_many {
            wrong.extend(self.fails(&format!("{works} one two"), "unexpected argument"));
        }
        if !row.is_client {
            return wrong;
        }
        let named = format!("{works} --port 70000");
        wrong.extend(self.fails(&named, "70000"));
        if has_run {
            let closed = format!("{works} --port 1");
            wrong.extend(self.fails(&closed, "nothing answers on 127.0.0.1:"));
        }
        if has_run && row.needs_key {
            let key = "AccountKey=AAAA";
            let string = self.scene.server.connection_string();
            let parts = string.split(';').map(|part| {
                if part.starts_with("AccountKey=") {
                    key
                } else {
                    part
                }
            });
            let string = parts.collect::<Vec<_>>().join(";");
            let output = self
                .scene
                .command(works)
                .env("AZURE_STORAGE_CONNECTION_STRING", string)
                .output()
                .unwrap();
            // `doctor` itself says what is wrong with the key.
            let word = if row.command == "doctor" {
                "AccountKey"
            } else {
                "lazurite doctor"
            };
            wrong.extend(self.is_failure(works, &output, word));
        }
        wrong
    }

    fn fails(&self, words: &str, sentence: &str) -> Option<String> {
        self.scene.prepare(self.row);
        self.is_failure(words, &self.scene.run(words), sentence)
    }

    /// A sentence about an output that is not that of a refusal with these words.
    fn is_failure(&self, words: &str, output: &Output, sentence: &str) -> Option<String> {
        let sentence = self.scene.fill(sentence);
        let text = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let code = output.status.code();
        let is_right = matches!(code, Some(1 | 2)) && text.contains(&sentence);
        (!is_right).then(|| format!("{words}: expected {sentence:?}: {}", shown(output)))
    }

    /// On a terminal, in a pipe, as JSON, and in a pipe that nobody reads.
    fn forms(&self, works: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        self.scene.prepare(self.row);
        let piped = self.scene.run(works);
        let is_silent = piped.stdout.is_empty() && piped.stderr.is_empty();
        if !piped.status.success()
            || is_silent && self.row.command != "mcp"
            || piped.stdout.contains(&0x1b)
        {
            wrong.push(format!("{works}, in a pipe: {}", shown(&piped)));
        }
        self.scene.prepare(self.row);
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let closed = self
            .scene
            .command(works)
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .status()
            .unwrap();
        if !closed.success() {
            wrong.push(format!("{works}, in a closed pipe: {closed}"));
        }
        self.scene.prepare(self.row);
        wrong.extend(self.on_terminal(works));
        if self.row.has_json {
            self.scene.prepare(self.row);
            let words = format!("{works} --json");
            let output = self.scene.run(&words);
            let text = String::from_utf8_lossy(&output.stdout);
            let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
            let may_be_empty = ["requests", "ls", "peek"].contains(&self.row.command);
            let is_right =
                is_json(&text) || text.lines().all(is_json) && (may_be_empty || !text.is_empty());
            if !output.status.success() || !is_right {
                wrong.push(format!("{words}: {}", shown(&output)));
            }
        }
        wrong
    }

    /// On a terminal of 80 columns, by Python.
    fn on_terminal(&self, works: &str) -> Option<String> {
        // It waits for the end of its input, which a terminal does not have.
        if self.row.command == "mcp" {
            return None;
        }
        let spawn =
            "import os, pty, sys\nsys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
        let command = self.scene.command(works);
        let mut terminal = Command::new("python3");
        terminal
            .args(["-c", spawn, PROGRAM])
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => terminal.env(name, value),
                None => terminal.env_remove(name),
            };
        }
        terminal.current_dir(self.scene.directory.path());
        let output = terminal.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).replace("\u{1b}[K", "");
        let is_plain = text
            .chars()
            .all(|c| !c.is_control() || "\r\n\u{4}\u{8}".contains(c));
        (!output.status.success() || !is_plain)
            .then(|| format!("{works}, on a terminal: {}", shown(&output)))
    }
}

#[test]
fn lists_end_when_their_reader_has_gone() {
    let scene = Scene::new();
    for number in 0..50 {
        scene.run(&format!("put {{dir}}/lake.txt photos/many/{number}"));
    }
    for words in ["ls photos/many", "tree photos", "query People", "requests"] {
        let mut child = scene.command(words).stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let _ = lines.recv();
        drop(lines);
        let status = child.wait().unwrap();
        assert!(status.success(), "{words}: {status}");
    }
}

#[test]
fn an_account_or_a_fork_is_named_by_a_flag() {
    let scene = Scene::new();
    let ok = |words: &str| {
        let output = scene.run(words);
        assert!(output.status.success(), "{words}: {}", shown(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    ok("state fork --name pr42");
    let fork = format!("{ACCOUNT}--pr42");
    ok(&format!("create container albums --account {fork}"));
    assert!(ok(&format!("ls --account {fork}")).contains("container  albums"));
    assert!(!ok("ls").contains("albums"));
    let output = scene.run("ls --account another");
    assert!(!output.status.success(), "{}", shown(&output));
}
