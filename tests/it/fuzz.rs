//! Mutated inputs for everything that the dispatcher and plugins parse: no input causes a panic, or needs much time or
//! memory. `CONTRIBUTING.md` describes how to fuzz for longer.

use holo_diff::{Labels, Patch, merge};
use holo_protocol::session::Answer;
use holo_protocol::{
    API_VERSION_3, API_VERSION_4, Diagnosis, EntityReport, FilePair, Health, Info, Message, Progress, Span,
};
use holo_testing::fuzz::Target;
use holo_testing::{ScratchRoot, binaries::built};
use libtest_mimic::{Failed, Trial};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The plugins with definitions, and the words that occur in them.
const PLUGINS: [&str; 10] =
    ["ansible", "archives", "exec", "files", "packages", "promises", "ral", "scaffold", "services", "users-groups"];
const TOML: [&str; 22] = [
    "[[",
    "]]",
    "[",
    "]",
    "{",
    "}",
    "=",
    "\"",
    "'''",
    "\\u0000",
    ",",
    ".",
    "#",
    "true",
    "name = ",
    "requires = ",
    "template = true",
    "receive = ",
    "retries = ",
    "health_check = ",
    "{{",
    "2026-11-27",
];
/// The number of files that a plugin reads at once.
const TOGETHER: u64 = 50;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![scan_reports, answers, messages, patches, configuration];
    trials.extend(PLUGINS.map(|plugin| Trial::test(format!("definitions/{plugin}"), move || definitions(plugin))));
    trials
}

fn target(name: &str) -> Target<'static> {
    Target::new(env!("CARGO_MANIFEST_DIR"), name).inputs(5000)
}

fn scan_reports() {
    let words = ["ENTITY: ", "NEEDS: ", "LIMIT: ", "POLL: ", "ACTION: ", ": ", "\n", "RECEIVES: ", "#", "("];
    target("reports").words(&words).run(|input| {
        for version in [API_VERSION_3, API_VERSION_4] {
            drop(EntityReport::parse_all(input, version));
        }
    });
}

fn answers() {
    let words =
        ["\"answer\":", "\"request\":", "\"entity\":", "[[[[[[[[", "{\"a\":", "\\ud800", "\"text\":", ",", "255,"];
    target("answers").words(&words).run(|input| drop(serde_json::from_slice::<Answer>(input)));
}

fn messages() {
    let words = ["send ", "keep ", "replaced ", "progress: ", "changed: ", "\t", "/", "MIN_API_VERSION="];
    target("messages").words(&words).run(|input| {
        for line in input.split(|&byte| byte == b'\n') {
            drop(Message::parse(line, API_VERSION_4));
            drop(Diagnosis::parse(line));
            drop(Span::parse(line));
            drop(Health::parse(line));
            drop(FilePair::parse(line, API_VERSION_4));
            let _ = Progress::parse(&String::from_utf8_lossy(line));
        }
        drop(Info::parse(input));
    });
}

fn patches() {
    let words = ["@@ -1,2 +1,3 @@\n", "+", "-", " ", "\n", "--- a\n", "+++ b\n", "\\ No newline at end of file\n"];
    target("patches").words(&words).run(|input| {
        let half = input.get(..input.len() / 2).unwrap_or_default();
        if let Ok(patch) = Patch::parse(input) {
            drop(patch.apply(half));
            drop(patch.reversed().apply_exactly(half));
        }
        drop(merge(half, input, b"a\nb\n", Labels { one: "1", base: "2", other: "3" }));
    });
}

/// holorc, and a snippet.
fn configuration() {
    let root = ScratchRoot::new().file("etc/holorc.d/x", "");
    target("holorc").words(&["plugin ", "=", "#", "\n", "../", "\t"]).inputs(1000).run(|input| {
        root.write("etc/holorc", input);
        drop(holo::host::config::read(&holo::host::root::Root::new(Some(root.path().into()))));
    });
}

/// Returns the TOML files in all scenarios of a plugin.
fn scenario_files(plugin: &str) -> Vec<String> {
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("test-scenarios").join(plugin);
    let mut trees: Vec<PathBuf> =
        fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path().join("source-tree")).collect();
    trees.sort();
    let trees = trees.iter().filter_map(|tree| fs::read_to_string(tree).ok());
    let files = trees.flat_map(|tree| tree.split("\n----").map(ToOwned::to_owned).collect::<Vec<_>>());
    let toml = files.filter_map(|file| Some(file.split_once(".toml\n")?.1.to_owned()));
    toml.collect()
}

/// A plugin reads mutated definitions, many in one process.
fn definitions(plugin: &'static str) -> Result<(), Failed> {
    let mut target = target("definitions").words(&TOML);
    for file in scenario_files(plugin) {
        target = target.seed(file);
    }
    let root =
        ScratchRoot::new().plugin(plugin).file("etc/os-release", "ID=debian\n").time_limit(Duration::from_secs(60));
    let folder = format!("usr/share/holo/{plugin}");
    let scan = |numbers: std::ops::Range<u64>| {
        drop(fs::remove_dir_all(root.join(&folder)));
        for number in numbers {
            root.write(format!("{folder}/{number}.toml"), target.input(number));
        }
        let command = format!("ulimit -v 1500000; exec {} scan", built("holo").display());
        root.run("sh", &["-c", &command])
    };
    let is_good = |run: &holo_testing::Run| {
        let said = run.stderr_lossy();
        run.status.is_some_and(|status| status < 128)
            && !["panicked", "ended by", "overflow"].iter().any(|bad| said.contains(bad))
    };
    for start in (0..target.count(TOGETHER * 3)).step_by(50) {
        let run = scan(start..start + TOGETHER);
        if !is_good(&run) {
            let alone = (start..start + TOGETHER).find(|&number| !is_good(&scan(number..number + 1)));
            let kept =
                alone.map_or_else(String::new, |number| target.keep(&target.input(number), "makes a plugin fail"));
            return Err(format!("{kept}\n{run}").into());
        }
        // Most of these files define the same entities, and so contradict each other.
        let is_read = !run.stdout.trim_ascii().is_empty() || run.stderr_lossy().contains(".toml:");
        assert!(is_read, "the plugin should read the definitions: {run}");
    }
    Ok(())
}
