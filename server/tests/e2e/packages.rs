//! The packages, made by `.ci/package` around the program under test, installed by their own tools
//! into empty directories, and used with the examples of their READMEs. The official clients come
//! from the lists of the other tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::clients::{
    SCRIPT_SILENCE_MAX, finish, node, python, python_command, skips_clients, text,
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The address that recipes download from.
pub(crate) const REPOSITORY: &str = "https://repository.example/Lazurite/lazurite";
const MISSING: &str =
    "The tests of the packages need Python 3.11 or newer and Node.js 20 or newer with npm.";

#[test]
fn the_wheel_serves_a_test_suite() {
    if skips_clients() {
        return;
    }
    let clients = python();
    let scratch = TempDir::new().unwrap();
    let environment = scratch.path().join("venv");
    run(Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&environment));
    let interpreter = environment.join("bin/python");
    let mut install = Command::new(clients.join("bin/python"));
    install.args(["-m", "pip", "--disable-pip-version-check", "--python"]);
    install
        .arg(&interpreter)
        .args(["install", "--quiet", "--no-index"]);
    run(install.arg(made("lazurite_storage-", ".whl")));
    let library = |environment: &Path| {
        let versions = fs::read_dir(environment.join("lib")).unwrap();
        versions
            .map(|entry| entry.unwrap().path().join("site-packages"))
            .next()
            .unwrap()
    };
    let link = library(&environment).join("clients.pth");
    fs::write(link, library(&clients).to_str().unwrap()).unwrap();
    let tests = scratch.path().join("tests");
    copy_files("packages/python/tests", &tests);
    fs::write(
        tests.join("test_readme.py"),
        example("packages/python/README.md", "python", "def test_upload"),
    )
    .unwrap();
    let mut pytest = Command::new(interpreter);
    pytest.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    let output = run(pytest.current_dir(&tests));
    assert!(text(&output).contains(" passed"), "{}", text(&output));
}

#[test]
fn the_npm_packages_serve_a_test_suite() {
    if skips_clients() {
        return;
    }
    let clients = node();
    let scratch = TempDir::new().unwrap();
    let project = scratch.path();
    fs::write(project.join("package.json"), "{}").unwrap();
    let mut install = Command::new("npm");
    install.args([
        "install",
        "--offline",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]);
    for package in ["lazurite-linux-", "lazurite-0", "lazurite-azurite-"] {
        install.arg(made(package, ".tgz"));
    }
    run(install.current_dir(project));
    copy_files("packages/npm/tests", &project.join("tests"));
    let readme = example(
        "packages/npm/lazurite/README.md",
        "js",
        "lazurite/node-test",
    );
    fs::write(project.join("tests/readme.test.js"), readme).unwrap();
    let mut tests = Command::new("node");
    tests
        .arg("--test")
        .env("NODE_PATH", clients.join("node_modules"));
    for file in ["package.test.js", "readme.test.js"] {
        tests.arg(Path::new("tests").join(file));
    }
    let output = run(tests.current_dir(project));
    assert!(text(&output).contains("# fail 0"), "{}", text(&output));
}

#[test]
fn the_debian_package_installs_into_an_empty_root() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        eprintln!("not tested: dpkg-deb is not there, so no package for Debian was made");
        return;
    }
    let root = TempDir::new().unwrap();
    let package = made("lazurite_0", ".deb");
    run(Command::new("dpkg-deb")
        .arg("--extract")
        .arg(&package)
        .arg(root.path()));
    let version = run(Command::new(root.path().join("usr/bin/lazurite")).arg("--version"));
    assert!(
        text(&version).starts_with("lazurite 0."),
        "{}",
        text(&version)
    );
    let control = text(&run(Command::new("dpkg-deb").arg("--field").arg(&package)));
    for field in ["Package: lazurite\n", "Depends: libc6 (>= 2."] {
        assert!(control.contains(field), "{control}");
    }
    let settings = fs::read_to_string(root.path().join("etc/default/lazurite")).unwrap();
    assert!(settings.contains("LAZURITE_HOST"));
    let completion = root
        .path()
        .join("usr/share/bash-completion/completions/lazurite");
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(format!(
        ". {}; COMP_WORDS=(lazurite --blobP); COMP_CWORD=1; _lazurite; echo \"${{COMPREPLY[@]}}\"; \
         COMP_WORDS=(lazurite hea); _lazurite; echo \"${{COMPREPLY[@]}}\"",
        completion.display()
    ));
    assert_eq!(text(&run(&mut bash)), "--blobPort\nhealth\n");
    let installed = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
    let zsh = installed("usr/share/zsh/vendor-completions/_lazurite");
    assert!(zsh.starts_with("#compdef lazurite azurite "), "{zsh}");
    for part in [
        "'--blobPort=:port: '",
        "'--location=:directory:_files -/'",
        "doctor",
    ] {
        assert!(zsh.contains(part), "{zsh}");
    }
    let fish = installed("usr/share/fish/vendor_completions.d/lazurite.fish");
    for part in [
        "complete -c azurite -l blobPort -x\n",
        "-a health -d 'Ask a server whether",
    ] {
        assert!(fish.contains(part), "{fish}");
    }
    check_manual(&root.path().join("usr/share/man/man1/lazurite.1.gz"));
    // The package does not install the commands of Azurite; `shim` does.
    let commands = root.path().join("usr/local/bin");
    fs::create_dir_all(&commands).unwrap();
    let program = root.path().join("usr/bin/lazurite");
    run(Command::new(program)
        .args(["shim", "install"])
        .arg(&commands));
    let version = run(Command::new(commands.join("azurite")).arg("--version"));
    assert!(text(&version).starts_with("3."), "{}", text(&version));
}

/// Checks that the man page has the flags, and that groff reports no warnings.
fn check_manual(page: &Path) {
    let mut shell = Command::new("sh");
    shell.arg("-c");
    shell.arg("gzip -dc \"$0\" | { groff -man -ww -Tascii -P -bcou - 2>&1 || [ $? = 127 ]; }");
    let shown = text(&run(shell.arg(page)));
    if shown.contains("groff: not found") {
        eprintln!("the man page was not formatted: groff is not there");
        return;
    }
    for part in ["LAZURITE(1)", "--blobPort", "--durability", "doctor"] {
        assert!(shown.contains(part), "{shown}");
    }
    for part in ["warning:", "error:"] {
        assert!(!shown.contains(part), "{shown}");
    }
}

#[test]
fn recipes_name_the_packages_that_were_made() {
    let recipes = made("manifests", "");
    let package = made("lazurite-linux-", ".tgz");
    let name = package.file_name().unwrap().to_str().unwrap();
    let url = format!("{REPOSITORY}/releases/download/v{VERSION}/{name}");
    let hash = text(&run(Command::new("sha256sum").arg(&package)));
    let hash = hash.split_whitespace().next().unwrap();
    for recipe in ["homebrew/lazurite.rb", "nix/lazurite.nix"] {
        let recipe = fs::read_to_string(recipes.join(recipe)).unwrap();
        assert!(recipe.contains(&url) && recipe.contains(hash), "{recipe}");
        assert!(!recipe.contains("darwin"), "{recipe}");
    }
    // There is no program for Windows here.
    for recipe in ["winget", "scoop"] {
        assert!(!recipes.join(recipe).exists(), "{recipe}");
    }
    assert!(recipes.join("helm/lazurite/Chart.yaml").exists());
    check_recipes(&recipes);
}

/// Stand-ins for the packages of other platforms, whose programs are not built here.
#[test]
fn recipes_have_the_other_platforms_once_there_are_programs() {
    let out = TempDir::new().unwrap();
    let others = [
        "linux-arm64",
        "linux-x64-musl",
        "darwin-arm64",
        "darwin-x64",
        "win32-x64",
    ];
    for platform in others {
        let name = format!("lazurite-{platform}-{VERSION}.tgz");
        fs::write(out.path().join(name), platform).unwrap();
    }
    let zip = format!("lazurite-windows-x64-{VERSION}.zip");
    fs::write(out.path().join(&zip), "zip").unwrap();
    let done = package(
        &["npm", "manifests"],
        Path::new(env!("CARGO_BIN_EXE_lazurite")),
        out.path(),
    );
    assert!(done.status.success(), "{}", text(&done));
    let recipes = out.path().join("manifests");
    let recipe = |path: &str| fs::read_to_string(recipes.join(path)).unwrap();
    let formula = recipe("homebrew/lazurite.rb");
    for part in ["on_macos do", "darwin-arm64", "darwin-x64", "linux-arm64"] {
        assert!(formula.contains(part), "{formula}");
    }
    assert!(!formula.contains("depends_on :linux"), "{formula}");
    let url = format!("{REPOSITORY}/releases/download/v{VERSION}/{zip}");
    for path in [
        "winget/Lazurite.Lazurite.installer.yaml",
        "scoop/lazurite.json",
    ] {
        assert!(recipe(path).contains(&url), "{path}");
    }
    assert!(recipes.join("winget/Lazurite.Lazurite.yaml").exists());
    check_recipes(&recipes);
    let feature = out.path().join("devcontainer/src/lazurite/install.sh");
    let script = fs::read_to_string(feature).unwrap();
    assert!(script.contains("Linux-x86_64-musl)"), "{script}");
    // npm chooses among the packages of all platforms.
    let main = out.path().join(format!("lazurite-{VERSION}.tgz"));
    let mut unpack = Command::new("tar");
    unpack.args(["-xzOf"]).arg(main).arg("package/package.json");
    let package: serde_json::Value = serde_json::from_slice(&run(&mut unpack).stdout).unwrap();
    let found = package["optionalDependencies"].as_object().unwrap();
    for platform in others.iter().chain(&["linux-x64"]) {
        assert!(
            found.contains_key(&format!("lazurite-{platform}")),
            "{package}"
        );
    }
}

#[test]
fn packages_are_refused_of_a_file_that_is_no_program() {
    let out = TempDir::new().unwrap();
    let refused = package(&["wheel"], &Path::new(ROOT).join("README.md"), out.path());
    assert!(!refused.status.success());
    let reason = text(&refused);
    assert!(
        reason.contains("README.md is no program for Linux, Windows or macOS"),
        "{reason}"
    );
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

/// Runs some checks of the script that tries programs for other platforms, on the one for this
/// machine.
#[test]
fn checks_of_other_platforms_pass_on_this_one() {
    if skips_clients() {
        return;
    }
    let machine = if cfg!(target_arch = "aarch64") {
        "linux-arm64"
    } else {
        "linux-x64"
    };
    let program = env!("CARGO_BIN_EXE_lazurite");
    let mut checks = Command::new("python3");
    checks.arg(Path::new(ROOT).join("packages/try_targets.py"));
    checks.args([machine, "--binary", program, "--host-binary", program]);
    checks.args(["--requests", "100", "--only", "starts,answers"]);
    let output = run(checks.arg("--clients").arg(python()));
    assert_eq!(
        text(&output).matches(": ok: ").count(),
        2,
        "{}",
        text(&output)
    );
}

/// Makes packages of a program, in a directory.
fn package(kinds: &[&str], program: &Path, out: &Path) -> Output {
    let mut command = Command::new("python3");
    command.arg(Path::new(ROOT).join(".ci/package")).args(kinds);
    command.args(["--quick", "--repository", REPOSITORY, "--binary"]);
    command.arg(program).arg("--out").arg(out);
    finish(&mut command, SCRIPT_SILENCE_MAX, MISSING)
}

/// Parses the recipes, by the languages that are installed here.
fn check_recipes(recipes: &Path) {
    let formula = recipes.join("homebrew/lazurite.rb");
    run_if_there(Command::new("ruby").arg("-c").arg(formula));
    // Stand-ins for Nix's packages evaluate to the address of the program.
    let recipe = recipes.join("nix/lazurite.nix");
    let text_of_recipe = fs::read_to_string(&recipe).unwrap();
    let mut systems = ["x86_64-linux", "aarch64-linux"].into_iter();
    let system = systems.find(|system| text_of_recipe.contains(system));
    let expression = format!(
        "(import {} {{ lib = {{ optional = _: _: []; }}; autoPatchelfHook = null; \
         stdenv = {{ hostPlatform = {{ system = {:?}; isLinux = true; }}; cc.cc.lib = null; \
         mkDerivation = package: package; }}; fetchurl = file: file; }}).src.url",
        recipe.display(),
        system.unwrap()
    );
    let mut evaluate = Command::new("nix-instantiate");
    evaluate.args(["--eval", "--expr", &expression]);
    if let Some(output) = run_if_there(&mut evaluate) {
        assert!(text(&output).contains(REPOSITORY), "{}", text(&output));
    }
    if skips_clients() {
        return;
    }
    let script = "import json, sys, yaml
from pathlib import Path
for path in Path(sys.argv[1]).rglob('*'):
    if path.suffix == '.json':
        json.loads(path.read_text())
    if path.suffix == '.yaml' and path.parent.name != 'templates':
        assert yaml.safe_load(path.read_text()), path
";
    run(python_command().args(["-c", script]).arg(recipes));
}

/// Runs a tool that has to succeed, or prints that it is not installed.
pub(crate) fn run_if_there(command: &mut Command) -> Option<Output> {
    let name = command.get_program().to_owned();
    if Command::new(&name).arg("--version").output().is_err() {
        eprintln!("not tested: {} is not there", name.display());
        return None;
    }
    Some(run(command))
}

/// The path of the package whose file name begins with `start` and ends with `end`. The first call
/// makes all packages, from the tested program.
pub(crate) fn made(start: &str, end: &str) -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let directory = MADE.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        let _ = fs::remove_dir_all(&out);
        let kinds = ["wheel", "npm", "deb", "manifests"];
        let done = package(&kinds, Path::new(env!("CARGO_BIN_EXE_lazurite")), &out);
        assert!(done.status.success(), "{}", text(&done));
        out
    });
    let mut names = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.find(|name| name.starts_with(start) && name.ends_with(end));
    directory.join(name.unwrap_or_else(|| panic!("no package {start}*{end} was made")))
}

/// The fenced block of a README that contains `part`.
pub(crate) fn example(readme: &str, language: &str, part: &str) -> String {
    let text = fs::read_to_string(Path::new(ROOT).join(readme)).unwrap();
    let fence = format!("```{language}\n");
    let mut blocks = text
        .split(&fence)
        .skip(1)
        .map(|block| block.split("```").next().unwrap());
    let found = blocks.find(|block| block.contains(part));
    found
        .unwrap_or_else(|| panic!("no example with {part} in {readme}"))
        .to_owned()
}

fn copy_files(from: &str, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(Path::new(ROOT).join(from)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = finish(command, SCRIPT_SILENCE_MAX, MISSING);
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}",
        text(&output)
    );
    output
}
