//! The integration tests of the plugin `scaffold`: one module a topic, named in front of its tests.

mod crash;
mod scaffold;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("crash", crash::trials()), ("scaffold", scaffold::trials())])
}
