//! LIKE: `%` matches any text, `_` any character, and an escaped character matches itself. Source:
//! LIKE (Transact-SQL).
//!
//! A pattern is split at `%` into segments, and each segment is searched for after the previous
//! one. The first occurrence suffices: if the pattern matches at all, it matches there. Segments
//! without `_` are found in linear time. Segments with `_` are matched with one bit for each prefix
//! (Shift-And), which takes n / 64 steps per character of the segment for a text of n characters.

use crate::RowError;
use crate::work::Work;
use memchr::memmem;
use std::collections::HashMap;

/// Maximum length of a pattern in bytes. Source: LIKE (Transact-SQL), "Arguments".
const PATTERN_BYTES_MAX: usize = 8_000;

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// A pattern that ends with an escape character matches nothing. Source: LIKE (Transact-SQL),
    /// "Remarks".
    Invalid,
    /// A pattern without `%`, which must match the whole text.
    Whole(Segment),
    /// Segments at the start, in between in this order, and at the end.
    Around {
        first: Segment,
        inner: Vec<Segment>,
        last: Segment,
    },
}

/// A part of a pattern that was split at `%`: one item for each character, `None` for `_`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Segment {
    items: Vec<Option<char>>,
    /// The segment as text, if it has no `_`.
    literal: Option<String>,
}

impl Pattern {
    /// Parses a pattern. Errors: `ArithmeticOverflow` if it is too long.
    pub fn new(text: &str, escape: Option<char>) -> Result<Pattern, RowError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(RowError::overflow());
        }
        let (mut segments, mut items) = (Vec::new(), Vec::new());
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                _ if Some(character) == escape => match characters.next() {
                    Some(escaped) => items.push(Some(escaped)),
                    None => return Ok(Pattern::Invalid),
                },
                '%' => segments.push(Segment::new(std::mem::take(&mut items))),
                '_' => items.push(None),
                _ => items.push(Some(character)),
            }
        }
        let last = Segment::new(items);
        if segments.is_empty() {
            return Ok(Pattern::Whole(last));
        }
        let first = segments.remove(0);
        segments.retain(|segment| !segment.items.is_empty());
        Ok(Pattern::Around {
            first,
            inner: segments,
            last,
        })
    }

    /// Whether the pattern matches all of `text`. Errors: those of [`Work::spend`].
    pub fn matches(&self, text: &str, work: &Work<'_>) -> Result<bool, RowError> {
        let (first, inner, last) = match self {
            Pattern::Invalid => return Ok(false),
            Pattern::Whole(segment) => {
                work.spend(segment.items.len())?;
                return Ok(segment.at_start(text) == Some(""));
            }
            Pattern::Around { first, inner, last } => (first, inner, last),
        };
        work.spend(first.items.len() + last.items.len())?;
        let Some(mut rest) = first.at_start(text).and_then(|rest| last.at_end(rest)) else {
            return Ok(false);
        };
        for segment in inner {
            match segment.find(rest, work)? {
                Some(after) => rest = after,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl Segment {
    fn new(items: Vec<Option<char>>) -> Segment {
        let literal = items.iter().copied().collect();
        Segment { items, literal }
    }

    /// The rest of `text` after the segment; `None` unless `text` starts with it.
    fn at_start<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut characters = text.chars();
        let mut items = self.items.iter();
        let is_there = items.all(|item| is_item(*item, characters.next()));
        is_there.then_some(characters.as_str())
    }

    /// The text before the segment; `None` unless `text` ends with it.
    fn at_end<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut characters = text.chars();
        let mut items = self.items.iter().rev();
        let is_there = items.all(|item| is_item(*item, characters.next_back()));
        is_there.then_some(characters.as_str())
    }

    /// The text after the first occurrence of the segment; `None` if there is none.
    fn find<'t>(&self, text: &'t str, work: &Work<'_>) -> Result<Option<&'t str>, RowError> {
        match &self.literal {
            Some(literal) => {
                let found = memmem::find(text.as_bytes(), literal.as_bytes());
                // The time of the search depends on the place that it finds, so it is counted
                // afterwards. A text is short enough for that.
                work.spend(literal.len() + found.unwrap_or(text.len()))?;
                Ok(found.map(|at| &text[at + literal.len()..]))
            }
            None => self.find_by_prefixes(text, work),
        }
    }

    /// Bit `i` of the state is set if the first `i + 1` items match the text up to the current
    /// character.
    fn find_by_prefixes<'t>(
        &self,
        text: &'t str,
        work: &Work<'_>,
    ) -> Result<Option<&'t str>, RowError> {
        let words = self.items.len().div_ceil(64);
        let last = self.items.len() - 1;
        let set = |mask: &mut [u64], place: usize| mask[place / 64] |= 1 << (place % 64);
        // The items that match a character: every `_`, and the items equal to it.
        let mut any = vec![0; words];
        for (place, item) in self.items.iter().enumerate() {
            if item.is_none() {
                set(&mut any, place);
            }
        }
        let mut met: HashMap<char, Vec<u64>> = HashMap::new();
        for (place, item) in self.items.iter().enumerate() {
            if let Some(character) = item {
                work.spend(words)?;
                set(met.entry(*character).or_insert_with(|| any.clone()), place);
            }
        }
        let mut state = vec![0u64; words];
        for (at, character) in text.char_indices() {
            work.spend(words)?;
            let met = met.get(&character).unwrap_or(&any);
            let mut carry = 1;
            for (state, met) in state.iter_mut().zip(met) {
                let shifted = *state << 1 | carry;
                carry = *state >> 63;
                *state = shifted & met;
            }
            if state[last / 64] >> (last % 64) & 1 == 1 {
                return Ok(Some(&text[at + character.len_utf8()..]));
            }
        }
        Ok(None)
    }
}

fn is_item(item: Option<char>, character: Option<char>) -> bool {
    character.is_some() && (item.is_none() || item == character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{ROW_STEPS_MAX, Signal};
    use proptest::prelude::*;
    use std::cell::Cell;

    /// Implements the definition of LIKE directly, in exponential time.
    fn is_like(text: &[char], pattern: &[char], escape: Option<char>) -> bool {
        match (text, pattern) {
            ([], []) => true,
            (_, [wanted, rest @ ..]) if Some(*wanted) == escape => match (text, rest) {
                ([first, text @ ..], [escaped, rest @ ..]) => {
                    first == escaped && is_like(text, rest, escape)
                }
                _ => false,
            },
            (_, ['%', rest @ ..]) => {
                (0..=text.len()).any(|skipped| is_like(&text[skipped..], rest, escape))
            }
            ([_, text @ ..], ['_', rest @ ..]) => is_like(text, rest, escape),
            ([first, text @ ..], [wanted, rest @ ..]) => {
                first == wanted && is_like(text, rest, escape)
            }
            _ => false,
        }
    }

    fn matches(text: &str, pattern: &str, escape: Option<char>) -> bool {
        let work = Work::new(ROW_STEPS_MAX, &|| Signal::Continue);
        let pattern = Pattern::new(pattern, escape).unwrap();
        pattern.matches(text, &work).unwrap()
    }

    #[test]
    fn segments_longer_than_64_characters_match() {
        for length in [1, 63, 64, 65, 128, 200] {
            let segment = format!("a{}b", "_".repeat(length));
            let text = format!("xxa{}bxx", "é".repeat(length));
            assert!(matches(&text, &format!("%{segment}%"), None), "{length}");
            let longer = format!("%{segment}_b%");
            assert!(!matches(&text, &longer, None), "{length}");
        }
    }

    #[test]
    fn pattern_that_ends_with_an_escape_character_matches_nothing() {
        assert!(!matches("50!", "50!", Some('!')));
        assert!(!matches("50", "50!", Some('!')));
        assert!(matches("50!", "50!!", Some('!')));
    }

    #[test]
    fn work_is_proportional_to_the_text_for_every_pattern() {
        let text = "a".repeat(1 << 20);
        for (pattern, steps_per_byte) in [
            ("%a".repeat(2_000) + "b%", 2),
            ("%".to_owned() + &"a".repeat(4_000) + "b%", 2),
            ("%".to_owned() + &"_a".repeat(2_000) + "b%", 64),
            ("%a_".repeat(1_300) + "b%", 2),
        ] {
            let work = Work::new(ROW_STEPS_MAX, &|| Signal::Continue);
            let pattern = Pattern::new(&pattern, None).unwrap();
            assert!(!pattern.matches(&text, &work).unwrap());
            let spent = ROW_STEPS_MAX - work.left();
            assert!(
                spent <= steps_per_byte * text.len() as u64 + (1 << 20),
                "{spent}"
            );
        }
    }

    #[test]
    fn matching_stops_within_a_text_on_signal() {
        let text = "a".repeat(1 << 20);
        let asked = Cell::new(0);
        let signal = || {
            asked.set(asked.get() + 1);
            Signal::Stop
        };
        let work = Work::new(ROW_STEPS_MAX, &signal);
        let pattern = Pattern::new(&("%".to_owned() + &"_a".repeat(2_000) + "b%"), None).unwrap();
        assert_eq!(pattern.matches(&text, &work).unwrap_err().name, "Stopped");
        assert_eq!(asked.get(), 1);
        assert!(ROW_STEPS_MAX - work.left() < 4 << 20);
    }

    proptest! {
        #[test]
        fn patterns_match_as_defined(
            text in "[abé]{0,9}",
            pattern in "[abé%%_!]{0,8}",
            escapes in any::<bool>(),
        ) {
            let escape = escapes.then_some('!');
            let of = |text: &str| text.chars().collect::<Vec<_>>();
            let ends_in_escape = Pattern::new(&pattern, escape).unwrap() == Pattern::Invalid;
            let expected = !ends_in_escape && is_like(&of(&text), &of(&pattern), escape);
            prop_assert_eq!(matches(&text, &pattern, escape), expected);
        }
    }
}
