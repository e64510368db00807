//! Modules that fail again and again: they are given up.

/// So many in a row are enough.
const ENOUGH: u32 = 3;

/// The faults of a module since its last good answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    in_a_row: u32,
}

impl Faults {
    /// Takes note of a fault.
    pub fn add(&mut self) {
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// Takes note of a good answer. A module that was given up stays so.
    pub fn forgive(&mut self) {
        if !self.is_enough() {
            self.in_a_row = 0;
        }
    }

    /// Returns true if the module is not to be started again in this run.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.in_a_row >= ENOUGH
    }

    /// Returns the message about a module that is given up.
    #[must_use]
    pub fn message(module: &impl std::fmt::Display) -> String {
        format!("{module} failed {ENOUGH} times in a row, and is not started again")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_faults_in_a_row_count() {
        let mut faults = Faults::default();
        for _ in 0..5 {
            faults.add();
            faults.add();
            assert!(!faults.is_enough());
            faults.forgive();
        }
        (0..3).for_each(|_| faults.add());
        assert!(faults.is_enough());
        faults.forgive();
        assert!(faults.is_enough());
        assert_eq!(Faults::message(&"/x.py"), "/x.py failed 3 times in a row, and is not started again");
    }
}
