//! The tables: the figures of each peer, case by case.

use lazurite_bench_common::{Results, number};

/// The columns: name of the figure, what stands above it.
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

/// Prints all tables on standard output.
pub(super) fn print(results: &Results) {
    print!("\n{:32}", "operation @connections");
    COLUMNS.iter().for_each(|(_, title)| print!(" {title:>9}"));
    println!();
    for case in results.cases() {
        println!("{case}");
        for peer in results.peers(case) {
            print_peer(results, case, peer);
        }
    }
}

/// A line of the figures in columns, and one of the other figures.
fn print_peer(results: &Results, case: &str, peer: &str) {
    let of = |name: &str| results.figure(case, peer, name).map_or("-".into(), number);
    print!("  {peer:30}");
    for (name, _) in COLUMNS {
        print!(" {:>9}", of(name));
    }
    println!();
    let in_column = |name: &str| COLUMNS.iter().any(|(column, _)| *column == name);
    let names = results.figure_names(case, peer).into_iter();
    let others = names.filter(|name| !in_column(name));
    let others: Vec<String> = others.map(|name| format!("{name} {}", of(name))).collect();
    if !others.is_empty() {
        println!("    {}", others.join(", "));
    }
}
