//! The cookbook in `docs/guide` and the applications in `examples`: the pages quote programs, and
//! the programs run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::clients::{
    SCRIPT_SILENCE_MAX, finish, node, node_command, python, python_command, run, skips_clients,
    text,
};
use crate::server::{Launch, Server};
use crate::test_clock;

const SERVER: &str = env!("CARGO_MANIFEST_DIR");
const PATTERNS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../benches/server/src/guide/patterns"
);

/// Explanatory pages without two designs. All other pages except the index are patterns.
const TEXTS: [&str; 3] = ["guidelines.md", "model.md", "partitions.md"];

/// The sections at the end of every pattern, in this order.
const SECTIONS: [&str; 4] = [
    "## What to watch out for",
    "## Use it when",
    "## Do not use it when",
    "## Related patterns",
];

const EXAMPLES: [&str; 3] = ["photo-orders", "log-pipeline", "directory"];

#[test]
fn python_programs_of_the_cookbook() {
    if !skips_clients() {
        let script = guide().join("code/all.py");
        run(python_command(), script.to_str().unwrap(), &Server::fresh());
    }
}

/// The pages that show the output of a server with `--as-azure` apart.
#[test]
fn programs_of_the_cookbook_under_the_limits_of_azure() {
    if skips_clients() {
        return;
    }
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).argument("--as-azure").start();
    let javascript = with_node_modules(&guide().join("code"));
    let scripts = [
        (python_command(), guide().join("code/all.py")),
        (node_command(), javascript.path().join("all.mjs")),
    ];
    for (mut command, script) in scripts {
        command
            .arg(script)
            .args(["--as-azure", "continuation", "high_volume_delete"]);
        command.env(
            "AZURE_STORAGE_CONNECTION_STRING",
            server.connection_string(),
        );
        let output = finish(
            &mut command,
            SCRIPT_SILENCE_MAX,
            "the client cannot be started",
        );
        assert!(output.status.success(), "{}", text(&output));
    }
}

#[test]
fn javascript_programs_of_the_cookbook() {
    if !skips_clients() {
        let directory = with_node_modules(&guide().join("code"));
        let script = directory.path().join("all.mjs");
        run(node_command(), script.to_str().unwrap(), &Server::fresh());
    }
}

#[test]
fn programs_run_in_a_fork() {
    if skips_clients() {
        return;
    }
    let server = Server::fresh();
    for (language, place) in [("python", python()), ("javascript", node())] {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", python().join("bin").display());
        let output = Command::new(env!("CARGO_BIN_EXE_lazurite"))
            .args(["guide", "log-tail", "--run", "--program", language])
            .current_dir(&place)
            .env("PATH", path)
            .env(
                "AZURE_STORAGE_CONNECTION_STRING",
                server.connection_string(),
            )
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(
            output.status.success() && said.contains("the answers are equal"),
            "{said}"
        );
        let left = fs::read_dir(&place).unwrap().filter_map(Result::ok);
        let left =
            left.filter(|entry| entry.file_name().to_string_lossy().starts_with(".lazurite"));
        assert_eq!(left.count(), 0);
    }
    let forks = crate::state::state("GET", "forks")
        .send(&server)
        .is(200)
        .json();
    assert_eq!(forks["forks"], serde_json::json!([]));
}

#[test]
fn photo_orders_are_complete_although_the_server_is_killed() {
    if !skips_clients() {
        run_example(python_command, Path::new("photo-orders/run.py"));
    }
}

#[test]
fn log_pipeline_stores_each_record_once_although_the_server_is_killed() {
    if !skips_clients() {
        run_example(node_command, Path::new("log-pipeline/run.mjs"));
    }
}

#[test]
fn directory_has_true_indexes_although_the_server_is_killed() {
    if !skips_clients() {
        run_example(python_command, Path::new("directory/run.py"));
    }
}

/// Starts a server with the limits of the hosted service. The server refuses one request in a
/// hundred and loses one answer in a hundred.
fn unreliable(location: &Path) -> Server {
    let server = Launch::on(location).argument("--as-azure").start();
    let rules = r#"{"rules":[{"fault":"503","probability":0.01},{"fault":"lose-answer","probability":0.01}]}"#;
    test_clock::page("PUT", "faults")
        .body(rules)
        .send(&server)
        .is(200);
    server
}

/// Runs an application on a reliable server, on an unreliable one, and on one that it starts itself
/// and kills.
fn run_example(interpreter: fn() -> Command, script: &Path) {
    let examples = examples();
    let location = TempDir::new().unwrap();
    let (reliable, unreliable) = (Server::fresh(), unreliable(location.path()));
    let [first, second] = [reliable, unreliable].map(|server| {
        let connection = server.connection_string();
        (server, connection)
    });
    let runs: [&[&str]; 3] = [
        &["--connection-string", &first.1],
        &["--connection-string", &second.1],
        &["--kill"],
    ];
    for arguments in runs {
        let mut command = interpreter();
        command.arg(examples.path().join(script)).args(arguments);
        command.env("LAZURITE", env!("CARGO_BIN_EXE_lazurite"));
        let output = finish(
            &mut command,
            SCRIPT_SILENCE_MAX,
            "the client cannot be started",
        );
        let text = text(&output);
        assert!(
            output.status.success(),
            "{script:?} {arguments:?} failed:\n{text}"
        );
        assert!(text.contains("nothing is lost"), "{text}");
        let kills = text.matches("killed the server after").count();
        let expected = if arguments == ["--kill"] { 3 } else { 0 };
        assert_eq!(kills, expected, "{script:?} {arguments:?}:\n{text}");
    }
}

/// A copy of the examples in which Node.js finds the clients.
fn examples() -> TempDir {
    let copy = with_node_modules(&Path::new(SERVER).join("examples"));
    for example in EXAMPLES {
        let directory = copy.path().join(example);
        fs::create_dir(&directory).unwrap();
        copy_files(
            &Path::new(SERVER).join("examples").join(example),
            &directory,
        );
    }
    copy
}

#[test]
fn pages_of_the_cookbook_quote_their_programs() {
    let mut stale = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let expected = with_quotations(&text);
        if text == expected {
            continue;
        }
        if std::env::var("LAZURITE_WRITE_DOCS").is_ok_and(|value| value == "1") {
            fs::write(&page, expected).unwrap();
        } else {
            stale.push(name_of(&page));
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} quote other code than their programs have; this test writes the pages if LAZURITE_WRITE_DOCS=1"
    );
}

#[test]
fn every_pattern_of_the_bench_has_a_page_and_figures() {
    for entry in fs::read_dir(PATTERNS).unwrap() {
        let stem = stem_of(&entry.unwrap().path());
        if stem == "mod" {
            continue;
        }
        let pattern = stem.replace('_', "-");
        let page = format!("{pattern}.md");
        let text = fs::read_to_string(guide().join(&page)).unwrap();
        let figures = format!("<!-- figures: {pattern} -->\n");
        assert_eq!(text.matches(&figures).count(), 1, "{page}");
    }
}

#[test]
fn every_pattern_has_programs_and_says_when_to_use_it() {
    for page in pages() {
        let name = name_of(&page);
        if name == "README.md" || TEXTS.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        let program = stem_of(&page).replace('-', "_");
        for design in ["naive", "advised"] {
            for language in ["py", "mjs"] {
                let quotation = format!("<!-- code: {program}.{language}#{design} -->");
                assert!(text.contains(&quotation), "{name}: {quotation}");
            }
        }
        let sections: Vec<&str> = text
            .lines()
            .filter(|line| SECTIONS.contains(line))
            .collect();
        assert_eq!(sections, SECTIONS, "{name}");
    }
}

#[test]
fn every_program_of_the_cookbook_has_a_page() {
    const SHARED: [&str; 3] = ["all", "staff", "store"];
    for entry in fs::read_dir(guide().join("code")).unwrap() {
        let path = entry.unwrap().path();
        let stem = stem_of(&path);
        let page = format!("{}.md", stem.replace('_', "-"));
        let has_page = guide().join(&page).exists();
        assert!(has_page || SHARED.contains(&stem.as_str()), "{path:?}");
    }
}

#[test]
fn index_and_map_of_the_cookbook_lead_to_every_page() {
    let index = fs::read_to_string(guide().join("README.md")).unwrap();
    let map = fs::read_to_string(guide().join("map.svg")).unwrap();
    for page in pages() {
        let name = name_of(&page);
        if name == "README.md" {
            continue;
        }
        assert!(index.contains(&format!("]({name})")), "{name}");
        let is_pattern = !TEXTS.contains(&name.as_str());
        let is_on_map = map.contains(&format!("href=\"{name}\""));
        assert!(is_on_map || !is_pattern, "{name} is not on the map");
    }
    for link in map.split("href=\"").skip(1) {
        let target = link.split('"').next().unwrap();
        assert!(guide().join(target).exists(), "map.svg: {target}");
    }
}

#[test]
fn links_of_the_cookbook_and_the_examples_lead_to_files() {
    let examples = Path::new(SERVER).join("examples");
    let mut all = pages();
    all.push(examples.join("README.md"));
    all.extend(EXAMPLES.map(|example| examples.join(example).join("README.md")));
    for page in all {
        let text = fs::read_to_string(&page).unwrap();
        for link in prose(&text)
            .iter()
            .flat_map(|line| line.split("](").skip(1))
        {
            let target = link.split([')', '#']).next().unwrap();
            let path = page.parent().unwrap().join(target);
            let is_elsewhere = target.starts_with("http");
            assert!(
                is_elsewhere || path.exists(),
                "{}: {target}",
                page.display()
            );
        }
    }
}

/// The lines of a page that are neither code nor figures.
fn prose(page: &str) -> Vec<&str> {
    let (mut is_code, mut is_figures) = (false, false);
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if line.starts_with("<!-- figures: ") {
            is_figures = true;
        } else if line == "<!-- end -->" {
            is_figures = false;
        } else if !is_code && !is_figures {
            lines.push(line);
        }
    }
    lines
}

/// The page with each block after `<!-- code: FILE#REGION -->` replaced from the file.
fn with_quotations(page: &str) -> String {
    let mut lines = page.lines();
    let mut text = String::new();
    while let Some(line) = lines.next() {
        text += &format!("{line}\n");
        let Some(source) = line
            .strip_prefix("<!-- code: ")
            .and_then(|rest| rest.strip_suffix(" -->"))
        else {
            continue;
        };
        let fence = lines.next().unwrap_or_default();
        assert!(
            fence.starts_with("```"),
            "a block of code has to follow {line}"
        );
        lines
            .by_ref()
            .find(|line| *line == "```")
            .unwrap_or_else(|| panic!("no end of the block after {line}"));
        let (file, region) = source
            .split_once('#')
            .unwrap_or_else(|| panic!("no region in {line}"));
        text += &format!("{fence}\n{}\n```\n", region_of(file, region));
    }
    text
}

/// The lines between the comments `region NAME` and `endregion`, without empty lines around them.
fn region_of(file: &str, region: &str) -> String {
    let text = fs::read_to_string(guide().join("code").join(file)).unwrap();
    let marks =
        |line: &str, mark: &str| line == format!("# {mark}") || line == format!("// #{mark}");
    let from_start = text
        .lines()
        .skip_while(|line| !marks(line, &format!("region {region}")))
        .skip(1);
    let lines: Vec<&str> = from_start
        .take_while(|line| !marks(line, "endregion"))
        .collect();
    let code = lines.join("\n");
    assert!(!code.trim().is_empty(), "{file} has no region {region}");
    code.trim_matches('\n').to_string()
}

/// A copy of a directory with `node_modules`, because `import` ignores `NODE_PATH`.
fn with_node_modules(directory: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    copy_files(directory, copy.path());
    let modules = node().join("node_modules");
    std::os::unix::fs::symlink(modules, copy.path().join("node_modules")).unwrap();
    copy
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(name_of(&path))).unwrap();
        }
    }
}

fn guide() -> PathBuf {
    Path::new(SERVER).join("docs/guide")
}

fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(guide()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_string()
}

fn stem_of(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_string()
}
