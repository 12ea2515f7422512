//! `lazurite service`: has the service manager start the server when the user logs in, and again
//! after a crash. On Linux that is a user unit of systemd, on macOS a launch agent.

use crate::cli::{Cli, ServiceAction};
use crate::commands::outcome::say;
use crate::platform::{own_user, patiently};
use crate::private_files;
use crate::program::Program;
use lazurite_base::terminal::{plain, print_line};
use serde_json::json;
use std::env::consts::OS;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// In the first lines of our files. Other files are neither replaced nor removed.
const MARK: &str = "Written by `lazurite service install`";

/// A command line. The first word is the program.
type Words = Vec<String>;

/// What a service manager needs.
struct Manager {
    /// The file that describes the service.
    file: PathBuf,
    /// Commands after the file is written.
    start: Vec<Words>,
    /// Commands before the file is removed.
    stop: Vec<Words>,
    /// Commands after the file is removed.
    forget: Vec<Words>,
    /// Succeeds if the service runs.
    is_running: Words,
    text: fn(&Service) -> String,
}

/// The server that is to run.
struct Service {
    program: String,
    flags: Words,
    /// Where relative paths in the flags begin.
    directory: String,
    /// Where standard error goes, if the manager keeps none.
    log: String,
}

/// Runs an action of `lazurite service`. The error is a sentence.
pub fn run(action: &ServiceAction, as_json: bool) -> Result<ExitCode, String> {
    let home = Home::of_user()?;
    let manager = home.manager(OS)?;
    match action {
        ServiceAction::Install { print, flags } => {
            let service = match home.service(OS, flags) {
                Ok(service) => service,
                Err(sentence) => return Ok(crate::refuse_usage(&sentence)),
            };
            if *print {
                manager.print(&service, as_json);
                return Ok(ExitCode::SUCCESS);
            }
            manager.install(&service, as_json)
        }
        ServiceAction::Uninstall => manager.uninstall(as_json),
        ServiceAction::Status => manager.status(as_json),
    }
}

/// The directories of the user.
struct Home {
    home: PathBuf,
    /// `XDG_CONFIG_HOME`, where set.
    config: Option<PathBuf>,
    /// `XDG_DATA_HOME`, where set.
    data: Option<PathBuf>,
}

impl Home {
    fn of_user() -> Result<Home, String> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let absolute = |name: &str| set(name).filter(|path| path.is_absolute());
        Ok(Home {
            home: absolute("HOME")
                .or_else(|| absolute("USERPROFILE"))
                .ok_or("the service belongs to a user, and HOME names no directory of one")?,
            config: absolute("XDG_CONFIG_HOME"),
            data: absolute("XDG_DATA_HOME"),
        })
    }

    /// The service manager of a system.
    fn manager(&self, system: &str) -> Result<Manager, String> {
        match system {
            "linux" => Ok(self.systemd()),
            "macos" => Ok(self.launchd()),
            "windows" => Err(
                "lazurite is no Windows service: Windows starts it at logon with the Task Scheduler, as in `schtasks /Create /SC ONLOGON \
                 /TN Lazurite /TR \"lazurite.exe --location C:\\DATA --silent\"`"
                    .to_owned(),
            ),
            other => Err(format!("there is no service manager that it knows on {other}")),
        }
    }

    fn systemd(&self) -> Manager {
        const UNIT: &str = "lazurite.service";
        let config = self.config.clone();
        let config = config.unwrap_or_else(|| self.home.join(".config"));
        let systemctl = |words: &[&str]| words_of(&[&["systemctl", "--user"], words].concat());
        Manager {
            file: config.join("systemd/user").join(UNIT),
            start: vec![
                systemctl(&["daemon-reload"]),
                systemctl(&["enable", "--now", UNIT]),
            ],
            stop: vec![systemctl(&["disable", "--now", UNIT])],
            forget: vec![systemctl(&["daemon-reload"])],
            is_running: systemctl(&["is-active", "--quiet", UNIT]),
            text: unit,
        }
    }

    fn launchd(&self) -> Manager {
        let file = self.home.join("Library/LaunchAgents/lazurite.plist");
        let domain = format!("gui/{}", own_user().unwrap_or_default());
        let service = format!("{domain}/lazurite");
        let path = file.display().to_string();
        Manager {
            start: vec![words_of(&["launchctl", "bootstrap", &domain, &path])],
            stop: vec![words_of(&["launchctl", "bootout", &service])],
            forget: Vec::new(),
            is_running: words_of(&["launchctl", "print", &service]),
            text: plist,
            file,
        }
    }

    /// The server with these flags, which are checked as at its start. Unless they name one, its
    /// directory is the user's for data. Error: a flag is wrong.
    fn service(&self, system: &str, flags: &[String]) -> Result<Service, String> {
        let words = std::iter::once("lazurite".to_owned()).chain(flags.iter().cloned());
        let parsed = Cli::parser().try_get_matches_from(words);
        let cli = parsed.and_then(|matches| Cli::read(&matches));
        let cli = cli.map_err(|error| error.to_string())?;
        if cli.command.is_some() {
            return Err(
                "a service is a server: after -- come its flags, and no command".to_owned(),
            );
        }
        cli.check(&Program::started_as().services)?;
        let names_place = |flag: &String| {
            let name = flag.split('=').next().unwrap_or_default();
            matches!(name, "--location" | "--inMemoryPersistence") || name.starts_with("-l")
        };
        let mut flags = flags.to_vec();
        if !flags.iter().any(names_place) {
            let data = self.data(system).display().to_string();
            flags.splice(0..0, ["--location".to_owned(), data]);
        }
        let here = std::env::current_dir()
            .map_err(|error| format!("cannot find out where it runs: {error}"))?;
        let program = std::env::current_exe();
        let program = program.map_err(|error| format!("cannot find this program: {error}"))?;
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let not_text = "the path of this program or directory is no Unicode text";
        let service = Service {
            program: text(&program).ok_or(not_text)?,
            flags,
            directory: text(&here).ok_or(not_text)?,
            log: self
                .home
                .join("Library/Logs/lazurite.log")
                .display()
                .to_string(),
        };
        // One line of a unit is one setting.
        let has_control = |word: &String| word.contains(char::is_control);
        let places = [&service.program, &service.directory];
        if service.flags.iter().chain(places).any(has_control) {
            return Err("a control character cannot be in the flags of a service".to_owned());
        }
        Ok(service)
    }

    fn data(&self, system: &str) -> PathBuf {
        match &self.data {
            _ if system == "macos" => self.home.join("Library/Application Support/lazurite"),
            Some(data) => data.join("lazurite"),
            None => self.home.join(".local/share/lazurite"),
        }
    }
}

impl Manager {
    /// The path of the file, for JSON.
    fn path(&self) -> String {
        self.file.display().to_string()
    }

    fn print(&self, service: &Service, as_json: bool) {
        if as_json {
            let commands: Vec<_> = self.start.iter().map(|words| words.join(" ")).collect();
            let text = (self.text)(service);
            print_line(json!({ "file": self.path(), "text": text, "commands": commands }));
            return;
        }
        print_line(format!("# {}", self.file.display()));
        print_line((self.text)(service).trim_end());
        for words in &self.start {
            print_line(format!("$ {}", words.join(" ")));
        }
    }

    fn install(&self, service: &Service, as_json: bool) -> Result<ExitCode, String> {
        if self.check_own()? {
            // A service that runs would go on with its old flags.
            self.stop.iter().for_each(|words| drop(quiet(words)));
        }
        let file = self.file.display();
        let written = make_parent(&self.file)
            .and_then(|()| private_files::write_whole(&self.file, &(self.text)(service)));
        written.map_err(|error| format!("cannot write {file}: {error}"))?;
        if !as_json {
            print_line(format!("wrote {file}"));
        }
        let state = "the file is written, and the service is not started";
        run_all(&self.start, state, as_json)?;
        let fact = json!({ "file": self.path(), "installed": true, "running": true });
        let sentence = "the server runs, and starts again when you log in";
        say(as_json, fact, sentence);
        Ok(ExitCode::SUCCESS)
    }

    fn uninstall(&self, as_json: bool) -> Result<ExitCode, String> {
        let fact = |is_removed: bool| json!({ "file": self.path(), "installed": false, "removed": is_removed });
        if !self.check_own()? {
            say(as_json, fact(false), "no service is installed");
            return Ok(ExitCode::SUCCESS);
        }
        let file = self.file.display();
        // The service may not run, or the manager may not: the file goes all the same.
        let stopped = run_all(&self.stop, "the file is removed all the same", as_json);
        patiently(|| std::fs::remove_file(&self.file))
            .map_err(|error| format!("cannot remove {file}: {error}"))?;
        stopped?;
        run_all(&self.forget, "the file is removed", as_json)?;
        let sentence = format!("removed {file}; the data stays where it is");
        say(as_json, fact(true), &sentence);
        Ok(ExitCode::SUCCESS)
    }

    /// Status 0 if the service runs.
    fn status(&self, as_json: bool) -> Result<ExitCode, String> {
        if !self.check_own()? {
            let fact = json!({ "file": self.path(), "installed": false, "running": false });
            say(as_json, fact, "no service is installed");
            return Ok(ExitCode::FAILURE);
        }
        // Unknown where there is no service manager to ask.
        let is_running = quiet(&self.is_running).ok();
        let file = self.file.display();
        let state = match is_running {
            Some(true) => "runs",
            Some(false) => "does not run",
            None => "is not known to run: there is no service manager to ask",
        };
        let fact = json!({ "file": self.path(), "installed": true, "running": is_running });
        let sentence = format!("the service is installed in {file}, and {state}");
        say(as_json, fact, &sentence);
        Ok(if is_running == Some(true) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Whether the file is there. Error: it is not ours.
    fn check_own(&self) -> Result<bool, String> {
        let file = self.file.display();
        match std::fs::read_to_string(&self.file) {
            Ok(text) if text.contains(MARK) => Ok(true),
            Ok(_) => Err(format!(
                "{file} is there already and was not written by `lazurite service install`: remove it first"
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(format!("cannot read {file}: {error}")),
        }
    }
}

fn make_parent(file: &Path) -> std::io::Result<()> {
    file.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// Runs commands up to the first that fails. The error says which, and `state`.
fn run_all(commands: &[Words], state: &str, as_json: bool) -> Result<(), String> {
    for words in commands {
        let shown = words.join(" ");
        if !as_json {
            print_line(format!("$ {shown}"));
        }
        let why = match Command::new(&words[0]).args(&words[1..]).output() {
            Ok(output) if output.status.success() => continue,
            Ok(output) => plain(String::from_utf8_lossy(&output.stderr).trim()).to_string(),
            Err(error) => error.to_string(),
        };
        return Err(format!("`{shown}` failed, {state}: {why}"));
    }
    Ok(())
}

/// Whether a command succeeds. Error: it cannot be run.
fn quiet(words: &[String]) -> std::io::Result<bool> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    let status = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    Ok(status.success())
}

fn words_of(words: &[&str]) -> Words {
    words.iter().copied().map(str::to_owned).collect()
}

/// The user unit of systemd. A wrong command line (status 2) is not tried again.
fn unit(service: &Service) -> String {
    let words = std::iter::once(&service.program).chain(&service.flags);
    let words: Vec<_> = words.map(|word| quoted(word)).collect();
    // This setting knows no quotes.
    let directory = service.directory.replace('%', "%%");
    format!(
        "# {MARK}; `lazurite service uninstall` removes it.\n\
         [Unit]\n\
         Description=Lazurite: Azure-compatible Blob, Queue and Table storage\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
         WorkingDirectory={directory}\n\
         Restart=on-failure\n\
         RestartPreventExitStatus=2\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        words.join(" ")
    )
}

/// A word of a command line as systemd reads it. Source: systemd.service(5), "Command lines".
fn quoted(word: &str) -> String {
    let mut text = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '%' | '$' => text.extend([letter, letter]),
            _ => text.push(letter),
        }
    }
    text + "\""
}

/// The launch agent of macOS. Source: launchd.plist(5).
fn plist(service: &Service) -> String {
    let words = std::iter::once(&service.program).chain(&service.flags);
    let words: String = words
        .map(|word| format!("    <string>{}</string>\n", escaped(word)))
        .collect();
    let (directory, log) = (escaped(&service.directory), escaped(&service.log));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!-- {MARK}; `lazurite service uninstall` removes it. -->\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n\
         <dict>\n  \
         <key>Label</key>\n  <string>lazurite</string>\n  \
         <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n  \
         <key>WorkingDirectory</key>\n  <string>{directory}</string>\n  \
         <key>RunAtLoad</key>\n  <true/>\n  \
         <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n  \
         <key>StandardOutPath</key>\n  <string>/dev/null</string>\n  \
         <key>StandardErrorPath</key>\n  <string>{log}</string>\n\
         </dict>\n\
         </plist>\n"
    )
}

/// Text of an XML element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Home {
        Home {
            home: "/home/me".into(),
            config: None,
            data: None,
        }
    }

    fn service(system: &str, flags: &[&str]) -> Result<Service, String> {
        let service = home().service(system, &words_of(flags))?;
        Ok(Service {
            program: "/opt/a b/lazurite".to_owned(),
            directory: "/work 100%".to_owned(),
            ..service
        })
    }

    #[test]
    fn a_unit_runs_the_program_with_its_flags_as_they_were_given() {
        let flags = [
            "--port",
            "20000",
            "--cors=http://a\"b",
            "--console-password=$x%y\\z",
        ];
        let text = unit(&service("linux", &flags).unwrap());
        let line = "ExecStart=\"/opt/a b/lazurite\" \"--location\" \"/home/me/.local/share/lazurite\" \"--port\" \"20000\" \
                    \"--cors=http://a\\\"b\" \"--console-password=$$x%%y\\\\z\"\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("WorkingDirectory=/work 100%%\n"), "{text}");
        let linux = home().manager("linux").unwrap();
        assert_eq!(
            linux.file,
            Path::new("/home/me/.config/systemd/user/lazurite.service")
        );
        for flags in [["-l", "data"], ["--location", "data"]] {
            let text = unit(&service("linux", &flags).unwrap());
            assert!(!text.contains("/home/me"), "{text}");
        }
    }

    #[test]
    fn an_agent_of_macos_has_the_same_flags() {
        let text = plist(&service("macos", &["--cors=http://a&<b>"]).unwrap());
        for part in [
            "<string>/opt/a b/lazurite</string>",
            "<string>/home/me/Library/Application Support/lazurite</string>",
            "<string>--cors=http://a&amp;&lt;b&gt;</string>",
            "<string>/home/me/Library/Logs/lazurite.log</string>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let macos = home().manager("macos").unwrap();
        assert_eq!(
            macos.file,
            Path::new("/home/me/Library/LaunchAgents/lazurite.plist")
        );
    }

    #[test]
    fn flags_that_a_server_refuses_are_refused_before_anything_is_written() {
        for (flags, part) in [
            (&["--nonsense"][..], "--nonsense"),
            (&["--key=x"], "--cert"),
            (&["status"], "no command"),
            (&["--seed", "a\nb"], "control character"),
        ] {
            let refusal = service("linux", flags).map(drop).unwrap_err();
            assert!(refusal.contains(part), "{refusal}");
        }
        for system in ["windows", "freebsd"] {
            let refusal = home().manager(system).map(drop).unwrap_err();
            assert!(refusal.contains(if system == "windows" {
                "schtasks"
            } else {
                system
            }));
        }
    }
}
