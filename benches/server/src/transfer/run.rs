//! The transfers at a tenth of the store and at the whole, each checked by the counts of the destination.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use lazurite_bench_common::page::RunReport;
use lazurite_bench_common::{MachineWatch, Outcome};

use crate::azurite::{self, Azurite};
use crate::client::Client;
use crate::filling::{self, Amounts, Filled};
use crate::report::Report;
use crate::server::Server;
use crate::transfer::args::TransferArgs;
use crate::transfer::command::{self, Taken};
use crate::transfer::report;

/// The sizes at which everything is done: memory must not grow from the first to the last.
pub(super) const SHARES: [(&str, f64); 2] = [("a tenth", 0.1), ("the whole", 1.0)];
/// The longest start of a server that adopts a directory.
const ADOPTION_MAX: Duration = Duration::from_secs(3600);

/// A transfer, and what it took.
pub(super) struct Transfer {
    pub(super) name: &'static str,
    pub(super) amounts: Amounts,
    pub(super) taken: Taken,
}

/// The transfers at one size, and the plain rate of the services.
pub(super) struct Size {
    pub(super) name: &'static str,
    pub(super) amounts: Amounts,
    pub(super) filled: Filled,
    pub(super) transfers: Vec<Transfer>,
}

/// Runs the transfers, prints and writes the report, and returns how many destinations were not as their source.
pub(crate) fn run(args: &TransferArgs) -> Outcome<usize> {
    let old = args.files.old()?;
    let watch = MachineWatch::start(&[]);
    let mut bench = Bench {
        args,
        sizes: Vec::new(),
        wrong: Vec::new(),
    };
    let ended = bench.run();
    let mut page = RunReport {
        noisy: watch.end(&[]).reasons(),
        ..report::report(&bench.sizes, &bench.wrong)
    };
    if let Err(error) = &ended {
        page.verdict = format!("ended early: {error}");
    }
    for section in &page.sections {
        println!();
        section.lines().iter().for_each(|line| println!("{line}"));
    }
    args.files.finish(page, old.as_ref())?;
    ended.map(|()| bench.wrong.len())
}

struct Bench<'a> {
    args: &'a TransferArgs,
    sizes: Vec<Size>,
    wrong: Vec<String>,
}

impl Bench<'_> {
    fn run(&mut self) -> Outcome<()> {
        let has_azurite = self.args.azurite_scale > 0.0 && azurite_is_there();
        for (name, share) in SHARES {
            let amounts = self.args.amounts().scaled(share);
            eprintln!("{name}: {}", amounts.text());
            self.transfer(name, amounts)?;
            if has_azurite {
                self.adopt(self.args.amounts().scaled(share * self.args.azurite_scale))?;
            }
        }
        Ok(())
    }

    /// Fills a store, and moves its contents in every way between servers of ours.
    fn transfer(&mut self, name: &'static str, amounts: Amounts) -> Outcome<()> {
        let scratch = self.args.scratch()?;
        let source = self.start(&scratch, "source")?;
        let client = Client::new(source.account());
        let filled = filling::fill(&mut Report::default(), &client, amounts)?;
        self.sizes.push(Size {
            name,
            amounts,
            filled,
            transfers: Vec::new(),
        });
        for (export, import, file) in [
            ("export to a directory", "import of a directory", "export"),
            (
                "export to an archive",
                "import of an archive",
                "export.tar.zst",
            ),
        ] {
            let path = scratch.path().join(file);
            self.command(export, amounts, &["export", text(&path)?], &source)?;
            self.import(import, amounts, &["import", text(&path)?], &scratch)?;
            remove(&path)?;
        }
        let from = source.account().connection_string();
        self.copy(amounts, &from, &scratch)
    }

    /// Runs a command against a server, and keeps what it took.
    fn command(
        &mut self,
        name: &'static str,
        amounts: Amounts,
        arguments: &[&str],
        server: &Server,
    ) -> Outcome<()> {
        let connection_string = server.account().connection_string();
        let mut arguments = arguments.to_vec();
        arguments.extend(["--connection-string", &connection_string]);
        self.timed(name, amounts, &arguments)
    }

    fn timed(&mut self, name: &'static str, amounts: Amounts, arguments: &[&str]) -> Outcome<()> {
        eprintln!("{name}");
        let taken = command::run(&self.args.spawn, arguments)?;
        self.keep(name, amounts, taken);
        Ok(())
    }

    fn keep(&mut self, name: &'static str, amounts: Amounts, taken: Taken) {
        let seconds = taken.time.as_secs_f64();
        eprintln!("{name:22} {seconds:.2} s");
        let size = self
            .sizes
            .last_mut()
            .expect("a size is begun with its filling");
        size.transfers.push(Transfer {
            name,
            amounts,
            taken,
        });
    }

    fn import(
        &mut self,
        name: &'static str,
        amounts: Amounts,
        arguments: &[&str],
        scratch: &TempDir,
    ) -> Outcome<()> {
        let destination = self.start(scratch, "destination")?;
        self.command(name, amounts, arguments, &destination)?;
        self.check(name, amounts, &destination)?;
        self.stop(destination, scratch)
    }

    fn copy(&mut self, amounts: Amounts, from: &str, scratch: &TempDir) -> Outcome<()> {
        let name = "copy to another server";
        let destination = self.start(scratch, "destination")?;
        let to = destination.account().connection_string();
        self.timed(name, amounts, &["copy", from, &to])?;
        self.check(name, amounts, &destination)?;
        self.stop(destination, scratch)
    }

    /// Fills Azurite, ends it, and starts our server on its directory.
    fn adopt(&mut self, amounts: Amounts) -> Outcome<()> {
        let name = "adoption from Azurite";
        eprintln!("filling Azurite: {}", amounts.text());
        let scratch = self.args.scratch()?;
        let data = scratch.path().join("data");
        std::fs::create_dir(&data)?;
        let azurite = Azurite::start(&data)?;
        let client = Client::new(azurite.account());
        filling::fill(&mut Report::default(), &client, amounts)?;
        azurite.stop()?;
        eprintln!("{name}");
        let server = Server::start_within(&self.args.spawn, &data, &[], ADOPTION_MAX)?;
        let taken = Taken {
            time: server.ready_after(),
            peak_kib: server.memory().peak_kib,
        };
        self.keep(name, amounts, taken);
        self.check(name, amounts, &server)
    }

    fn start(&self, scratch: &TempDir, name: &str) -> Outcome<Server> {
        Server::start(&self.args.spawn, &scratch.path().join(name))
    }

    /// Ends the destination, and makes room for the next one.
    fn stop(&self, destination: Server, scratch: &TempDir) -> Outcome<()> {
        drop(destination);
        remove(&scratch.path().join("destination"))
    }

    /// Compares the numbers of things at the destination.
    fn check(&mut self, name: &str, amounts: Amounts, server: &Server) -> Outcome<()> {
        eprintln!("counting what has arrived");
        let found = filling::count(&Client::new(server.account()))?;
        if found != amounts {
            let wrong = format!("{name}: {} arrived of {}", found.text(), amounts.text());
            eprintln!("  mismatch: {wrong}");
            self.wrong.push(wrong);
        }
        Ok(())
    }
}

/// Whether Azurite can be installed; prints why it is left out.
fn azurite_is_there() -> bool {
    let installed = azurite::install();
    if let Err(error) = &installed {
        eprintln!("{error}: adoption is left out; --azurite-scale 0 does not try");
    }
    installed.is_ok()
}

fn text(path: &Path) -> Outcome<&str> {
    Ok(path
        .to_str()
        .ok_or("a temporary directory whose path is no text")?)
}

/// Removes a file, or a directory with everything in it.
fn remove(path: &Path) -> Outcome<()> {
    if path.is_dir() {
        std::fs::remove_dir_all(path)?;
    } else {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
