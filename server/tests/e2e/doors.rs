//! The page of ways in, `docs/doors.md`: its command lines start the program, and its names, ports,
//! paths and addresses are those of the image. Its examples of Testcontainers run in
//! `testcontainers.rs`. No container engine, workflow or dev container runs here.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::clients::{SCRIPT_SILENCE_MAX, finish, python_command, skips_clients, text};
use crate::drop_in::{
    CONTAINERFILE, bin, command_of_image, in_image, is_served, launch, scratch, use_by,
};
use crate::packages::{REPOSITORY, made, run, run_if_there};
use crate::server::{Server, Service};

const PAGE: &str = include_str!("../../docs/doors.md");
const IMAGE: &str = concat!("lazurite:", env!("CARGO_PKG_VERSION"));
/// What a line on how a way was tried begins with.
const TRIED: [&str; 4] = [
    "run in a test, `",
    "read by a test, `",
    "not run.",
    "its page says how.",
];
/// Namespaces of their own for a script: its network has free ports, and its processes end with it.
const APART: [&str; 6] = [
    "--map-root-user",
    "--net",
    "--pid",
    "--mount-proc",
    "--fork",
    "--kill-child",
];

/// The part of the page under a heading.
fn section(title: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n## {title}\n")).expect(title);
    rest.split("\n## ").next().unwrap()
}

/// The examples of a part of the page in a language.
fn examples<'a>(part: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let blocks = part.split(&fence).skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap())
        .collect()
}

/// A document in YAML, which contains JSON.
fn parsed(document: &str) -> Value {
    let script = "import json, os, yaml; print(json.dumps(yaml.safe_load(os.environ['DOCUMENT'])))";
    let mut command = python_command();
    command.args(["-c", script]).env("DOCUMENT", document);
    serde_json::from_str(&text(&run(&mut command))).unwrap()
}

/// The words of the lines of a shell script that start with `command`.
fn lines_of(script: &str, command: &str) -> Vec<Vec<String>> {
    let script = script.replace("\\\n", " ");
    let lines = script.lines().map(|line| {
        let (code, _) = line.split_once(" #").unwrap_or((line, ""));
        let words = code.split_whitespace().map(str::to_owned);
        words.collect::<Vec<_>>()
    });
    lines
        .filter(|words| words.first().is_some_and(|first| first == command))
        .collect()
}

/// The rest of the line of the image's Containerfile that begins with this instruction.
fn instruction(name: &str) -> &'static str {
    let mut lines = CONTAINERFILE.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    rest.expect(name)
}

fn check_port(published: &str) {
    let inside = published.rsplit(':').next().unwrap();
    let exposed: Vec<_> = instruction("EXPOSE").split(' ').collect();
    assert!(exposed.contains(&inside), "{published}");
}

/// The volume of the image, or the directory that it makes for files to import.
fn check_mount(mount: &str) {
    let inside = mount.rsplit(':').next().unwrap();
    assert!(
        [instruction("VOLUME"), "/seed"].contains(&inside),
        "{mount}"
    );
}

/// Starts the command of a container and uses its services.
fn starts_in_the_image(line: String) {
    eprintln!("{line}");
    let scratch = scratch();
    let launch = in_image(launch(&line, scratch.path()), scratch.path());
    is_served(&line, launch, scratch.path());
}

#[test]
fn every_way_says_how_it_was_tried() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e");
    let sources = fs::read_dir(tests).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        path.is_file().then(|| fs::read_to_string(path).unwrap())
    });
    let sources: String = sources.collect();
    for part in PAGE.split("\n## ").skip(1) {
        let title = part.lines().next().unwrap();
        let tried: Vec<_> = part.split("\nTried: ").skip(1).collect();
        assert!(!tried.is_empty(), "{title}");
        for text in tried {
            let text = text.split("\n\n").next().unwrap();
            assert!(
                TRIED.iter().any(|verdict| text.starts_with(verdict)),
                "{title}: {text}"
            );
            for name in text.split('`').skip(1).step_by(2) {
                let is_test = name.contains('_') && !name.contains('.');
                assert!(
                    !is_test || sources.contains(&format!("fn {name}() {{")),
                    "{name}"
                );
            }
        }
    }
}

/// The name of the image is the same everywhere, also where no test runs the example.
#[test]
fn page_names_the_image_of_this_version() {
    let mut named = 0;
    for (at, name) in PAGE.match_indices("lazurite:") {
        let after = &PAGE[at + name.len()..];
        if !after.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let end = after.find(|end: char| !end.is_ascii_digit() && end != '.');
        let version = after[..end.unwrap()].trim_end_matches('.');
        // `http://lazurite:10000` is the name of a service.
        if !PAGE[..at].ends_with("http://") {
            assert_eq!(format!("{name}{version}"), IMAGE);
            named += 1;
        }
    }
    assert!(named >= 10, "{named}");
    let (name, version) = IMAGE.split_once(':').unwrap();
    let aspire = format!("WithImage(\"{name}\", \"{version}\")");
    assert!(section("Aspire").contains(&aspire));
    assert!(section("Dev containers").contains(&format!("lazurite-linux-x64-{version}.tgz")));
}

#[test]
fn docker_lines_agree_with_the_image() {
    let part = section("Docker");
    let mut started = 0;
    for words in lines_of(examples(part, "sh")[0], "docker") {
        let image = words.iter().position(|word| word == IMAGE);
        let Some(image) = image else {
            assert_eq!(words, ["docker", "exec", "storage", "lazurite", "health"]);
            continue;
        };
        for pair in words[..image].windows(2) {
            match &*pair[0] {
                "-p" => check_port(&pair[1]),
                "-v" => check_mount(&pair[1]),
                _ => {}
            }
        }
        let line = words[image + 1..].join(" ");
        starts_in_the_image(if line.is_empty() {
            command_of_image()
        } else {
            line
        });
        started += 1;
    }
    assert_eq!(started, 3);
}

#[test]
fn compose_file_agrees_with_the_image() {
    if skips_clients() {
        return;
    }
    let file = parsed(examples(section("Docker Compose"), "yaml")[0]);
    let service = &file["services"]["lazurite"];
    assert_eq!(service["image"], IMAGE);
    strings(&service["ports"])
        .iter()
        .for_each(|port| check_port(port));
    for mount in strings(&service["volumes"]) {
        check_mount(&mount);
        let (volume, _) = mount.split_once(':').unwrap();
        assert!(file["volumes"].get(volume).is_some(), "{volume}");
    }
    let app = &file["services"]["app"];
    assert_eq!(
        app["depends_on"]["lazurite"]["condition"],
        "service_healthy"
    );

    let scratch = scratch();
    let line = command_of_image();
    let server = in_image(launch(&line, scratch.path()), scratch.path()).start();
    let test = strings(&service["healthcheck"]["test"]);
    let (kind, command) = test.split_first().unwrap();
    assert_eq!(kind, "CMD");
    let image: Vec<String> =
        serde_json::from_str(instruction("HEALTHCHECK").split_once("CMD ").unwrap().1).unwrap();
    assert_eq!(command, image);
    let is_healthy = || {
        let mut check = Command::new(bin(scratch.path()).join(&command[0]));
        let file = scratch.path().join("tmp/lazurite-ports.json");
        check.args(&command[1..]).env("LAZURITE_PORT_FILE", file);
        check.output().unwrap().status.success()
    };
    assert!(is_healthy());
    let connection = app["environment"]["AZURE_STORAGE_CONNECTION_STRING"].as_str();
    use_by(&on_ports_of(&server, connection.unwrap(), "lazurite"));
    server.signal("TERM");
    assert!(!is_healthy());
}

/// A connection string for the usual ports of a host, with those of the server.
fn on_ports_of(server: &Server, connection: &str, host: &str) -> String {
    let mut connection = connection.to_owned();
    for (service, port) in Service::ALL.into_iter().zip(10000..) {
        let usual = format!("http://{host}:{port}/");
        assert!(connection.contains(&usual), "{connection}");
        let port = server.ports.of(service);
        connection = connection.replace(&usual, &format!("http://127.0.0.1:{port}/"));
    }
    connection
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|item| item.as_str().unwrap().to_owned()).collect()
}

#[test]
fn workflows_agree_with_the_image() {
    if skips_clients() {
        return;
    }
    let workflows = examples(section("GitHub Actions"), "yaml");
    let [container, process] = workflows[..] else {
        panic!("two workflows");
    };
    let container = parsed(container);
    let service = &container["jobs"]["test"]["services"]["lazurite"];
    assert!(
        service["image"]
            .as_str()
            .unwrap()
            .ends_with(&format!("/{IMAGE}"))
    );
    strings(&service["ports"])
        .iter()
        .for_each(|port| check_port(port));
    let process = parsed(process);
    let steps = process["jobs"]["test"]["steps"].as_array().unwrap();
    let mut scripts = steps.iter().filter_map(|step| step["run"].as_str());
    let script = scripts.find(|script| script.contains("lazurite ")).unwrap();
    runs_as_a_step(&script.replace("npx lazurite", "lazurite"));
}

/// Runs a script that leaves a server in the background, where the usual ports are free.
fn runs_as_a_step(script: &str) {
    let apart = || {
        let mut command = Command::new("unshare");
        command.args(APART);
        command
    };
    let up = apart().args(["ip", "link", "set", "lo", "up"]).status();
    if !up.is_ok_and(|status| status.success()) {
        eprintln!("not tested: this machine does not let a test have a network of its own");
        return;
    }
    let scratch = scratch();
    let path = std::env::var("PATH").unwrap();
    let mut command = apart();
    command.args(["bash", "-e", "-c", "ip link set lo up; eval \"$STEP\""]);
    command.env("PATH", format!("{}:{path}", bin(scratch.path()).display()));
    run(command.env("STEP", script).current_dir(scratch.path()));
}

#[test]
fn npm_scripts_start() {
    let scripts: Value = serde_json::from_str(examples(section("npm scripts"), "json")[0]).unwrap();
    let scripts = scripts["scripts"].as_object().unwrap();
    assert_eq!(scripts.len(), 2);
    for line in scripts.values() {
        let line = line.as_str().unwrap();
        let scratch = scratch();
        is_served(line, launch(line, scratch.path()), scratch.path());
    }
}

#[test]
fn settings_of_functions_name_the_emulator() {
    let part = section("Azure Functions");
    let settings: Value = serde_json::from_str(examples(part, "json")[0]).unwrap();
    let storage = &settings["Values"]["AzureWebJobsStorage"];
    assert_eq!(storage, "UseDevelopmentStorage=true");
    // The directory of the page is one of a user.
    let [shim] = &lines_of(examples(part, "sh")[0], "lazurite")[..] else {
        panic!("one line");
    };
    let scratch = TempDir::new().unwrap();
    let (directory, arguments) = shim[1..].split_last().unwrap();
    assert_eq!(directory, "~/.local/bin");
    let mut install = Command::new(env!("CARGO_BIN_EXE_lazurite"));
    run(install.args(arguments).arg(scratch.path()));
    let version = run(Command::new(scratch.path().join("azurite")).arg("--version"));
    assert!(text(&version).starts_with("3."));
}

/// The scripts of the feature, outside of a container: with the package beside them, by download,
/// and with a package whose bytes are not those of the release.
#[test]
fn the_feature_for_dev_containers_installs_and_starts() {
    let container: Value =
        serde_json::from_str(examples(section("Dev containers"), "json")[0]).unwrap();
    let ports = container["forwardPorts"].as_array().unwrap().iter();
    let ports: Vec<_> = ports.map(Value::to_string).collect();
    assert_eq!(ports.join(" "), instruction("EXPOSE"));
    assert!(container["features"].get("./lazurite").is_some());

    let feature = made("devcontainer", "").join("src/lazurite");
    let package = made("lazurite-linux-", ".tgz");
    let metadata = fs::read_to_string(feature.join("devcontainer-feature.json")).unwrap();
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["version"], env!("CARGO_PKG_VERSION"));
    for option in metadata["options"].as_object().unwrap().values() {
        assert_eq!(
            (&option["type"], &option["default"]),
            (&"boolean".into(), &true.into())
        );
    }

    let scratch = TempDir::new().unwrap();
    let copy = scratch.path().join("lazurite");
    fs::create_dir(&copy).unwrap();
    let script = fs::read_to_string(feature.join("install.sh")).unwrap();
    fs::write(copy.join("install.sh"), &script).unwrap();
    let beside = copy.join(package.file_name().unwrap());
    let install = |root: &Path, options: &[(&str, &str)]| {
        let mut install = Command::new("sh");
        install.arg(copy.join("install.sh")).env("DESTDIR", root);
        install.envs(options.iter().copied());
        finish(&mut install, SCRIPT_SILENCE_MAX, "sh cannot be started")
    };

    fs::write(&beside, "another package").unwrap();
    let root = scratch.path().join("root");
    let refused = install(&root, &[]);
    assert!(!refused.status.success() && !root.exists());
    assert!(
        text(&refused).contains("the SHA-256 of "),
        "{}",
        text(&refused)
    );

    fs::copy(&package, &beside).unwrap();
    let done = install(&root, &[]);
    assert!(done.status.success(), "{}", text(&done));
    let commands = root.join("usr/local/bin");
    let version = run(Command::new(commands.join("azurite-blob")).arg("--version"));
    assert!(text(&version).starts_with("3."));
    starts_with_the_container(&root, metadata["entrypoint"].as_str().unwrap());

    // A directory in place of the repository.
    fs::remove_file(&beside).unwrap();
    let releases = format!(
        "{REPOSITORY}/releases/download/v{}",
        env!("CARGO_PKG_VERSION")
    );
    assert!(script.contains(&releases));
    let directory = format!("file://{}", package.parent().unwrap().display());
    let local = script.replace(&releases, &directory);
    fs::write(copy.join("install.sh"), local).unwrap();
    let root = scratch.path().join("other");
    let done = install(&root, &[("START", "false"), ("AZURITECOMMANDS", "false")]);
    assert!(done.status.success(), "{}", text(&done));
    assert!(!root.join("usr/local/bin/azurite").exists());
    let start = fs::read_to_string(root.join("usr/local/share/lazurite/start.sh")).unwrap();
    assert_eq!(start, "#!/bin/sh\nexec \"$@\"\n");
}

/// Runs the entry point alone on its line, as the tools for dev containers do.
fn starts_with_the_container(root: &Path, entrypoint: &str) {
    let script = format!(
        "{}; until lazurite health 10000 10001 10002; do sleep 0.2; done",
        root.join(entrypoint.trim_start_matches('/')).display(),
    );
    runs_as_a_step(&script);
    assert!(root.join("var/lib/lazurite/data/CURRENT").exists());
}

/// The part of the script for macOS that needs no Mac.
#[test]
fn the_script_for_macs_finds_no_fault_here() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("not tested: openssl is not there");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packages/try_macos.sh");
    let mut command = Command::new("bash");
    command
        .arg(&script)
        .args(["--program", env!("CARGO_BIN_EXE_lazurite")]);
    let report = text(&run(&mut command));
    assert_eq!(report.matches("pass  ").count(), 14, "{report}");
    assert!(!report.contains("FAIL"), "{report}");
}

#[test]
fn scripts_are_sound_shell() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let install = made("devcontainer", "").join("src/lazurite/install.sh");
    for script in [root.join("packages/try_macos.sh"), install] {
        run_if_there(Command::new("shellcheck").arg(script));
    }
}
