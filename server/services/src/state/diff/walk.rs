//! Two sequences in key order, side by side: each is read a page at a time, so that memory does not
//! grow with the stores.

use lazurite_protocol::response::error::Result;
use std::cmp::Ordering;
use std::iter::from_fn;

/// The items with one key: on the old side, the new side, or both.
#[derive(Debug, PartialEq, Eq)]
pub enum Pair<T> {
    Old(T),
    New(T),
    Both(T, T),
}

impl<T> Pair<T> {
    pub fn older(&self) -> Option<&T> {
        match self {
            Pair::Old(item) | Pair::Both(item, _) => Some(item),
            Pair::New(_) => None,
        }
    }

    pub fn newer(&self) -> Option<&T> {
        match self {
            Pair::New(item) | Pair::Both(_, item) => Some(item),
            Pair::Old(_) => None,
        }
    }

    /// The item of one side, to read a fact that is equal on both sides, such as the key.
    pub fn any(&self) -> &T {
        match self {
            Pair::Old(item) | Pair::New(item) | Pair::Both(item, _) => item,
        }
    }
}

/// The items of all pages. `read` gets the marker of a page, `None` for the first one, and returns
/// its items with the marker of the next page. A side for which `is_there` is false is not read.
/// The sequence ends after an error.
pub fn items<T, M>(
    is_there: bool,
    mut read: impl FnMut(Option<M>) -> Result<(Vec<T>, Option<M>)>,
) -> impl Iterator<Item = Result<T>> {
    let mut next = is_there.then_some(None);
    let mut page = Vec::new().into_iter();
    from_fn(move || {
        loop {
            if let Some(item) = page.next() {
                return Some(Ok(item));
            }
            match read(next.take()?) {
                Ok((items, marker)) => {
                    page = items.into_iter();
                    next = marker.map(Some);
                }
                Err(failure) => return Some(Err(failure)),
            }
        }
    })
}

/// Pairs the items of two sequences, each of which must be in the order of `compare`.
pub fn pairs<T>(
    old: impl Iterator<Item = Result<T>>,
    new: impl Iterator<Item = Result<T>>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> impl Iterator<Item = Result<Pair<T>>> {
    let (mut old, mut new) = (old.peekable(), new.peekable());
    from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (Some(Ok(old)), Some(Ok(new))) => compare(old, new),
            (Some(_), None) | (Some(Err(_)), _) => Ordering::Less,
            (None, _) | (_, Some(Err(_))) => Ordering::Greater,
        };
        match order {
            Ordering::Less => Some(old.next()?.map(Pair::Old)),
            Ordering::Greater => Some(new.next()?.map(Pair::New)),
            Ordering::Equal => {
                let (old, new) = (old.next()?, new.next()?);
                Some(old.and_then(|old| Ok(Pair::Both(old, new?))))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_protocol::response::error::Failure;

    fn numbers(all: &[u32]) -> impl Iterator<Item = Result<u32>> {
        items(true, move |from: Option<usize>| {
            let from = from.unwrap_or(0);
            let end = (from + 2).min(all.len());
            let next = (end < all.len()).then_some(end);
            Ok((all[from..end].to_vec(), next))
        })
    }

    #[test]
    fn items_of_one_key_are_paired_across_pages() {
        let (old, new) = (numbers(&[1, 2, 4, 7, 8]), numbers(&[2, 3, 4, 8, 9, 10]));
        let found: Result<Vec<_>> = pairs(old, new, Ord::cmp).collect();
        let expected = [
            Pair::Old(1),
            Pair::Both(2, 2),
            Pair::New(3),
            Pair::Both(4, 4),
            Pair::Old(7),
            Pair::Both(8, 8),
            Pair::New(9),
            Pair::New(10),
        ];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn side_that_is_not_there_is_not_read() {
        let none = items(false, |_: Option<()>| -> Result<(Vec<u32>, _)> {
            unreachable!("it is not there")
        });
        let found: Result<Vec<_>> = pairs(none, numbers(&[1]), Ord::cmp).collect();
        assert_eq!(found.unwrap(), [Pair::New(1)]);
    }

    #[test]
    fn error_of_a_page_ends_its_side() {
        let failing = || {
            items(true, |from: Option<()>| match from {
                None => Ok((vec![1], Some(()))),
                Some(()) => Err(Failure::new(500, "InternalError", "a page")),
            })
        };
        for (old, new) in [(true, false), (false, true)] {
            let side = |fails: bool| -> Box<dyn Iterator<Item = Result<u32>>> {
                if fails {
                    Box::new(failing())
                } else {
                    Box::new(numbers(&[1, 2]))
                }
            };
            let found: Vec<_> = pairs(side(old), side(new), Ord::cmp).collect();
            assert_eq!(found.iter().filter(|pair| pair.is_err()).count(), 1);
            assert_eq!(found.len(), 3);
        }
    }
}
