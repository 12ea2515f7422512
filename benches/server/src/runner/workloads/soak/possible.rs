//! The states that a resource may be in: one after an acknowledged write, more after writes of
//! unknown outcome.

/// The possible states of a resource, at least one.
#[derive(Debug)]
pub(super) struct Possible<T>(Vec<T>);

impl<T: Clone + PartialEq> Possible<T> {
    pub(super) fn new(state: T) -> Possible<T> {
        Possible(vec![state])
    }

    /// Records a write of `state`: acknowledged, or with unknown outcome (`None`).
    pub(super) fn wrote(&mut self, outcome: Option<()>, state: T) {
        if outcome.is_some() {
            self.0.clear();
        }
        self.0.push(state);
    }

    /// Records that `state` was read and is now the only possible one. `false` if it was not
    /// possible before.
    pub(super) fn observed(&mut self, state: &T) -> bool {
        let is_possible = self.0.contains(state);
        self.0 = vec![state.clone()];
        is_possible
    }

    /// The state of the latest write.
    pub(super) fn latest(&self) -> &T {
        self.0.last().expect("there is always a state")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_of_unknown_outcome_adds_a_state_until_a_read_decides() {
        let mut possible = Possible::new(1);
        possible.wrote(None, 2);
        assert_eq!(*possible.latest(), 2);
        assert!(possible.observed(&1));
        assert!(!possible.observed(&2));
        possible.wrote(Some(()), 3);
        assert!(!possible.observed(&2));
    }
}
