//! Rows of text as a table that fits the terminal, or as a block for each row.

use lazurite_base::terminal::plain;
use std::io::{IsTerminal, stdout};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maximum width of a cell.
const CELL_MAX: usize = 40;
/// Width to which a cell may be cut so that a table fits, in columns of the terminal.
const CELL_MIN: usize = 10;
const GAP: usize = 2;

/// The width of the terminal; `None` if the output goes elsewhere.
pub fn terminal_width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(stdout())?;
    stdout().is_terminal().then_some(usize::from(width.0))
}

/// The lines of a table. If it cannot be made to fit into `width`, a block for each row, with a line
/// for each cell that is not empty. `rows` begins with the heads of the columns.
pub fn lines(rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let one_line = |row: &Vec<String>| row.iter().map(|cell| plain(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(one_line).collect();
    let [head, body @ ..] = &rows[..] else {
        return Vec::new();
    };
    let natural: Vec<usize> = (0..head.len())
        .map(|at| rows.iter().map(|row| row[at].width()).max().unwrap_or(0))
        .map(|width| width.min(CELL_MAX))
        .collect();
    match width {
        None => table(&rows, &natural),
        Some(width) => match fitted(natural, width) {
            Some(widths) => table(&rows, &widths),
            None => blocks(head, body, width),
        },
    }
}

/// Widths of columns that fit into `width`. The widest ones are cut first. `None` if too many
/// columns would have to be cut below [`CELL_MIN`].
fn fitted(mut widths: Vec<usize>, width: usize) -> Option<Vec<usize>> {
    let gaps = widths.len().saturating_sub(1) * GAP;
    while widths.iter().sum::<usize>() + gaps > width {
        let widest = widths.iter_mut().max()?;
        if *widest <= CELL_MIN {
            return None;
        }
        *widest -= 1;
    }
    Some(widths)
}

fn table(rows: &[Vec<String>], widths: &[usize]) -> Vec<String> {
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(widths) {
            let cell = cut(cell, width);
            let blanks = width - cell.width() + GAP;
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', blanks));
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A block for each row, with an empty line between two.
fn blocks(head: &[String], body: &[Vec<String>], width: usize) -> Vec<String> {
    let names = head.iter().map(|name| name.width()).max().unwrap_or(0);
    let names = names.min(width / 2);
    let mut lines = Vec::new();
    for row in body {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        for (name, cell) in head.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            let name = cut(name, names);
            let blanks = names - name.width() + GAP;
            let rest = width.saturating_sub(names + GAP).max(CELL_MIN);
            lines.push(format!("{name}{:blanks$}{}", "", cut(cell, rest)));
        }
    }
    lines
}

/// A text cut at a width, with an ellipsis as its last letter if it is cut.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut cut, mut used) = (String::new(), 0);
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used >= width {
            break;
        }
        cut.push(letter);
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        let owned = |row: &&[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
        rows.iter().map(owned).collect()
    }

    #[test]
    fn columns_are_aligned_by_what_they_take_on_the_terminal() {
        let rows = rows(&[&["Key", "Name"], &["漢字", "é"], &["1", "\u{1b}[2J"]]);
        assert_eq!(
            lines(&rows, Some(80)),
            ["Key   Name", "漢字  é", "1     \u{fffd}[2J"]
        );
    }

    #[test]
    fn the_widest_columns_are_cut_so_that_a_table_fits() {
        let long = "x".repeat(60);
        let rows = rows(&[&["PartitionKey", "Note", "Text"], &["Sales", &long, &long]]);
        for width in [40, 60, 80, 95] {
            let lines = lines(&rows, Some(width));
            assert_eq!(lines.len(), 2, "{lines:?}");
            assert!(lines.iter().all(|line| line.width() <= width), "{lines:?}");
            assert!(lines[1].starts_with("Sales         xxx"), "{lines:?}");
            assert!(lines[1].ends_with('…'), "{lines:?}");
        }
        // A file gets cells of the same length whatever the terminal is.
        assert_eq!(lines(&rows, None)[1].width(), 12 + 2 + 40 + 2 + 40);
    }

    #[test]
    fn a_table_of_too_many_columns_becomes_a_block_for_each_row() {
        let head: Vec<String> = (0..9).map(|at| format!("Property{at}Name")).collect();
        let mut row: Vec<String> = (0..9)
            .map(|at| format!("value {at} {}", "y".repeat(90)))
            .collect();
        row[4].clear();
        let lines = lines(&[head, row.clone(), row], Some(80));
        assert_eq!(lines.len(), 8 + 1 + 8, "{lines:?}");
        assert_eq!(lines[8], "");
        assert!(
            lines[0].starts_with("Property0Name  value 0 yyy"),
            "{lines:?}"
        );
        assert!(
            lines
                .iter()
                .all(|line| line.width() <= 80 && !line.contains("Property4"))
        );
    }
}
