//! The integration tests of the dispatcher, on its own and with its plugins: one module per topic, whose name prefixes
//! its tests.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a failed test panics")]

mod adopt_crash;
mod adopt_names;
mod adopted;
mod book;
mod completion;
mod controls;
mod crash;
mod diff_against_git;
mod disturbed;
mod doctor;
mod engine;
mod examples;
mod facts;
mod from_ansible;
mod fuzz;
mod generations;
mod growth;
mod health;
mod history;
mod hostile;
mod inputs;
mod journal;
mod json;
mod manual;
mod own_resources;
mod paths;
mod plan;
mod plugin_check;
mod power_loss;
mod previews;
mod privacy;
mod reading;
mod report;
mod scenarios;
mod scrub;
mod secrets;
mod sessions;
mod shell_plugins;
mod status;
mod takeovers;
mod terminal;
mod together;
mod transcript;
mod trust;
mod values;
mod watch;
mod webapp;
mod why;
mod witnesses;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("adopt_crash", adopt_crash::trials()),
        ("adopt_names", adopt_names::trials()),
        ("adopted", adopted::trials()),
        ("book", book::trials()),
        ("completion", completion::trials()),
        ("controls", controls::trials()),
        ("crash", crash::trials()),
        ("diff_against_git", diff_against_git::trials()),
        ("disturbed", disturbed::trials()),
        ("doctor", doctor::trials()),
        ("health", health::trials()),
        ("engine", engine::trials()),
        ("facts", facts::trials()),
        ("fuzz", fuzz::trials()),
        ("from_ansible", from_ansible::trials()),
        ("generations", generations::trials()),
        ("growth", growth::trials()),
        ("history", history::trials()),
        ("hostile", hostile::trials()),
        ("inputs", inputs::trials()),
        ("journal", journal::trials()),
        ("json", json::trials()),
        ("manual", manual::trials()),
        ("own_resources", own_resources::trials()),
        ("paths", paths::trials()),
        ("plan", plan::trials()),
        ("plugin_check", plugin_check::trials()),
        ("power_loss", power_loss::trials()),
        ("previews", previews::trials()),
        ("privacy", privacy::trials()),
        ("reading", reading::trials()),
        ("report", report::trials()),
        ("scenarios", scenarios::trials()),
        ("scrub", scrub::trials()),
        ("secrets", secrets::trials()),
        ("sessions", sessions::trials()),
        ("shell_plugins", shell_plugins::trials()),
        ("status", status::trials()),
        ("takeovers", takeovers::trials()),
        ("terminal", terminal::trials()),
        ("together", together::trials()),
        ("transcript", transcript::trials()),
        ("trust", trust::trials()),
        ("values", values::trials()),
        ("watch", watch::trials()),
        ("webapp", webapp::trials()),
        ("why", why::trials()),
        ("witnesses", witnesses::trials()),
    ])
}
