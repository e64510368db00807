//! Compares holo with programs that do the same work by hand, and prints tables. See the README.
#![expect(clippy::disallowed_methods, reason = "measured programs are started directly")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod common;
mod timing;

fn main() -> anyhow::Result<()> {
    timing::main()
}
