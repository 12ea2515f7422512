//! The figures of a run: tables for the terminal, and a report for comparison with later runs.

use lazurite_bench_common::{Better, MachineUse, Results, RunReport, number};

/// The figures with a column: name and heading.
const COLUMNS: [(&str, &str); 9] = [
    ("per_s", "per s"),
    ("p50_us", "p50 us"),
    ("p99_us", "p99 us"),
    ("max_us", "max us"),
    ("cpu_us", "CPU us"),
    ("rss_mb", "RSS MB"),
    ("client_us", "client us"),
    ("client_cores", "cores"),
    ("other_cores", "others"),
];

/// Figures of the machine and of the client. They are not compared with other runs.
const NOT_COMPARED: [&str; 3] = ["client_us", "client_cores", "other_cores"];

/// Prints all cases on standard output.
pub(super) fn print(results: &Results) {
    print!("\n{:32}", "case");
    COLUMNS.iter().for_each(|(_, title)| print!(" {title:>9}"));
    println!();
    for case in results.cases() {
        println!("{case}");
        for peer in results.peers(case) {
            print_peer(results, case, peer);
        }
    }
}

/// Prints the figures that have columns, if there are any, and a line with the others.
fn print_peer(results: &Results, case: &str, peer: &str) {
    let names = results.figure_names(case, peer);
    let of = |name: &str| results.figure(case, peer, name).map_or("-".into(), number);
    let is_in_column = |name: &&&str| COLUMNS.iter().any(|(column, _)| *column == **name);
    if names.iter().any(|name| is_in_column(&name)) {
        print!("  {peer:30}");
        COLUMNS
            .iter()
            .for_each(|(name, _)| print!(" {:>9}", of(name)));
        println!();
    }
    let others = names.iter().filter(|name| !is_in_column(name));
    let others: Vec<String> = others.map(|name| format!("{name} {}", of(name))).collect();
    if !others.is_empty() {
        println!("    {}", others.join(", "));
    }
}

/// The report with the figures of all servers.
pub(super) fn report(results: &Results, machine: &MachineUse) -> RunReport {
    let mut measurements = Vec::new();
    for case in results.cases() {
        for peer in results.peers(case) {
            let mut names = results.figure_names(case, peer);
            names.retain(|name| !NOT_COMPARED.contains(name));
            measurements.extend(names.into_iter().filter_map(|name| {
                let better = match name {
                    "per_s" => Better::More,
                    _ => Better::Less,
                };
                results.measurement(case, peer, name, better)
            }));
        }
    }
    RunReport {
        measurements,
        ..RunReport::of("lazurite-bench run", results, "case", machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_bench_common::Findings;

    #[test]
    fn report_has_the_measurements_of_each_server() {
        let mut results = Results::default();
        for (peer, per_s) in [("lazurite", 9.0), ("azurite", 3.0), ("lazurite", 11.0)] {
            let mut findings = Findings::default();
            findings.set("per_s", per_s);
            results.add("table get @1", peer, findings);
        }
        let report = report(&results, &MachineUse::default());
        let measured = &report.measurements;
        assert_eq!(measured[0].name, "table get @1, lazurite: per_s");
        assert_eq!(measured[0].values, [9.0, 11.0]);
        assert_eq!(measured[1].values, [3.0]);
        assert_eq!(report.verdict, "1 case, every answer was right");
    }
}
