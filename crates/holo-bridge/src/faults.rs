//! Modules that fail repeatedly and are given up.

/// The maximum number of consecutive faults.
const ENOUGH: u32 = 3;

/// The number of faults of a module since its last valid answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    in_a_row: u32,
}

impl Faults {
    /// Counts a fault.
    pub fn add(&mut self) {
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// Resets the count after a valid answer, unless the module was given up already.
    pub fn forgive(&mut self) {
        if !self.is_enough() {
            self.in_a_row = 0;
        }
    }

    /// Returns true if the module must not be started again in this run.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.in_a_row >= ENOUGH
    }

    /// Returns the message for a module that is given up.
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
