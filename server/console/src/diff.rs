//! Compares two texts line by line.

/// Maximum number of lines of each text that are compared one by one. Equal lines at the beginning
/// and at the end of both texts do not count.
const LINES_MAX: usize = 1000;

/// A line of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The lines of `old` and `new`, with the fewest lines removed and added; `None` if too many of
/// them differ.
pub fn lines<'a>(old: &'a str, new: &'a str) -> Option<Vec<Line<'a>>> {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let shorter = old.len().min(new.len());
    let start = (0..shorter).take_while(|&at| old[at] == new[at]).count();
    let same_at_end = |at: &usize| old[old.len() - 1 - at] == new[new.len() - 1 - at];
    let end = (0..shorter - start).take_while(same_at_end).count();
    let changed = (&old[start..old.len() - end], &new[start..new.len() - end]);
    if changed.0.len() > LINES_MAX || changed.1.len() > LINES_MAX {
        return None;
    }
    let mut lines: Vec<Line<'a>> = old[..start].iter().map(|line| Line::Same(line)).collect();
    push_changed(&mut lines, changed.0, changed.1);
    lines.extend(old[old.len() - end..].iter().map(|line| Line::Same(line)));
    Some(lines)
}

/// Appends the part that differs, aligned by the longest common subsequence of its lines.
fn push_changed<'a>(lines: &mut Vec<Line<'a>>, old: &[&'a str], new: &[&'a str]) {
    // The cell (i, j) is the length of the longest common subsequence of old[i..] and new[j..].
    let width = new.len() + 1;
    let mut common = vec![0_u16; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            lines.push(Line::Removed(old[i]));
            i += 1;
        } else {
            lines.push(Line::Added(new[j]));
            j += 1;
        }
    }
}

/// Leaves out equal lines that are more than `context` lines away from each change. `None` marks a
/// run of lines left out.
pub fn near_changes<'a>(lines: &[Line<'a>], context: usize) -> Vec<Option<Line<'a>>> {
    let is_change = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let near = |at: usize| {
        let first = at.saturating_sub(context);
        let last = (at + context + 1).min(lines.len());
        lines[first..last].iter().any(is_change)
    };
    let mut shown = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if near(at) {
            shown.push(Some(*line));
        } else if shown.last() != Some(&None) {
            shown.push(None);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fewest_lines_are_removed_and_added() {
        let found = lines("a\nb\nc\nd", "a\nc\nx\nd").unwrap();
        let wanted = [
            Line::Same("a"),
            Line::Removed("b"),
            Line::Same("c"),
            Line::Added("x"),
            Line::Same("d"),
        ];
        assert_eq!(found, wanted);
        assert_eq!(lines("", "").unwrap(), []);
        let many = "x\n".repeat(LINES_MAX + 1);
        let others = "y\n".repeat(LINES_MAX + 1);
        assert_eq!(lines(&many, &others), None);
        assert!(lines(&many, &many).is_some());
    }

    #[test]
    fn equal_lines_far_from_a_change_are_left_out() {
        let found = lines("1\n2\n3\n4\n5", "1\n2\n3\n4\nx").unwrap();
        let shown = near_changes(&found, 1);
        let wanted = [
            None,
            Some(Line::Same("4")),
            Some(Line::Removed("5")),
            Some(Line::Added("x")),
        ];
        assert_eq!(shown, wanted);
    }

    proptest! {
        #[test]
        fn both_texts_are_in_the_comparison(old in "([abc]\n){0,12}", new in "([abc]\n){0,12}") {
            let found = lines(&old, &new).unwrap();
            let of = |is_old: bool| {
                let line = move |line: &Line<'_>| match *line {
                    Line::Same(line) => Some(format!("{line}\n")),
                    Line::Removed(line) => is_old.then(|| format!("{line}\n")),
                    Line::Added(line) => (!is_old).then(|| format!("{line}\n")),
                };
                found.iter().filter_map(line).collect::<String>()
            };
            prop_assert_eq!(of(true), old.clone());
            prop_assert_eq!(of(false), new.clone());
        }
    }
}
