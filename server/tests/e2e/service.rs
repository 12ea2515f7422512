//! `lazurite service` with a home and a service manager of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Runs `lazurite service` with these words. Returns the exit status and everything it printed.
fn service(home: &Path, words: &[&str]) -> (i32, String) {
    let path = format!("{}:/usr/bin:/bin", home.join("bin").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazurite"));
    command
        .arg("service")
        .args(words)
        .env("HOME", home)
        .env("PATH", path);
    command
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_DATA_HOME");
    let output = command.current_dir(home).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(text).unwrap(),
    )
}

/// A home with a `systemctl` that notes its arguments, and says of a service that was started that
/// it runs.
fn home() -> TempDir {
    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join("bin")).unwrap();
    let systemctl = home.path().join("bin/systemctl");
    let script = "#!/bin/sh\necho \"$@\" >> $HOME/asked\ncase \"$2\" in\nenable) : > $HOME/runs;;\n\
                  disable) rm -f $HOME/runs;;\nis-active) test -e $HOME/runs;;\nesac\n";
    fs::write(&systemctl, script).unwrap();
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
    home
}

#[test]
fn a_service_is_installed_shown_and_removed() {
    let home = home();
    let home = home.path();
    let unit = home.join(".config/systemd/user/lazurite.service");
    let asked = || fs::read_to_string(home.join("asked")).unwrap_or_default();

    let (status, text) = service(home, &["install", "--print", "--", "--port", "20000"]);
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains("\"--port\" \"20000\"") && text.contains("$ systemctl --user"),
        "{text}"
    );
    assert!(!unit.exists() && asked().is_empty());

    assert_eq!(service(home, &["status"]).0, 1);
    let (status, text) = service(home, &["install", "--", "--port", "20000"]);
    assert_eq!(status, 0, "{text}");
    let written = fs::read_to_string(&unit).unwrap();
    let data = home.join(".local/share/lazurite");
    assert!(
        written.contains(&format!("\"--location\" \"{}\"", data.display())),
        "{written}"
    );
    assert_eq!(
        asked(),
        "--user daemon-reload\n--user enable --now lazurite.service\n"
    );
    let (status, text) = service(home, &["status"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains(", and runs"), "{text}");

    // Another installation replaces the first.
    assert_eq!(
        service(home, &["install", "--", "--inMemoryPersistence"]).0,
        0
    );
    let written = fs::read_to_string(&unit).unwrap();
    assert!(!written.contains("--location"), "{written}");

    let (status, text) = service(home, &["uninstall"]);
    assert_eq!(status, 0, "{text}");
    assert!(!unit.exists() && !home.join("runs").exists());
    assert_eq!(service(home, &["uninstall"]).0, 0);
}

#[test]
fn what_is_not_ours_stays_and_a_manager_that_is_missing_is_named() {
    let home = home();
    let home = home.path();
    let unit = home.join(".config/systemd/user/lazurite.service");
    fs::create_dir_all(unit.parent().unwrap()).unwrap();
    fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    for action in ["install", "uninstall", "status"] {
        let (status, text) = service(home, &[action]);
        assert_eq!(status, 1, "{text}");
        assert!(
            text.contains("is there already and was not written by"),
            "{text}"
        );
    }
    fs::remove_file(&unit).unwrap();
    let (status, text) = service(home, &["install", "--", "--nonsense"]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("--nonsense") && !unit.exists(), "{text}");
    fs::write(
        home.join("bin/systemctl"),
        "#!/bin/sh\necho no bus >&2\nexit 1\n",
    )
    .unwrap();
    let (status, text) = service(home, &["install"]);
    assert_eq!(status, 1, "{text}");
    let part = "`systemctl --user daemon-reload` failed, the file is written, and the service is not started: no bus";
    assert!(text.contains(part) && unit.exists(), "{text}");
}
