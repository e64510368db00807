//! Compares holo with programs that do the same work by hand, and prints tables. See the README.
#![expect(clippy::disallowed_methods, reason = "this starts what it measures, with nothing between")]
#![expect(clippy::print_stdout, reason = "the tables are what it is for")]

mod common;
mod timing;

fn main() -> anyhow::Result<()> {
    timing::main()
}
