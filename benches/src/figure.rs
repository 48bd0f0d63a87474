//! [`Figure`]: a measured number beside its goal.

use std::fmt;

/// A measured number beside its goal: one line of `cargo xtask figures`.
pub struct Figure {
    /// What was measured.
    pub name: &'static str,
    /// What came out.
    pub value: f64,
    /// What was hoped for.
    pub goal: Goal,
}

/// What a figure should be.
pub enum Goal {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// Only told.
    None,
}

impl Figure {
    fn is_met(&self) -> bool {
        match self.goal {
            Goal::AtMost(most) => self.value <= most,
            Goal::AtLeast(least) => self.value >= least,
            Goal::None => true,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met() { "ok" } else { "short" };
        let decimals = if self.value < 10.0 { 2 } else { 1 };
        write!(f, "{}\t{:.decimals$}\t", self.name, self.value)?;
        match self.goal {
            Goal::AtMost(most) => write!(f, "<={most}")?,
            Goal::AtLeast(least) => write!(f, ">={least}")?,
            Goal::None => f.write_str("-")?,
        }
        write!(f, "\t{verdict}")
    }
}
