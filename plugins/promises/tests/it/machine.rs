//! A root with the plugin and all modules, and the results of promises defined there.

use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of a test, and its function.
pub(crate) type Case = (&'static str, fn());

/// The requirement of nearly all modules.
pub(crate) const PYTHON: &[Need] = &[Need::Program("python3")];
/// The directory of definitions and modules.
pub(crate) const RESOURCES: &str = "usr/share/holo/promises";

pub(crate) fn trials_of(needs: &[Need], cases: &[Case]) -> Vec<Trial> {
    cases.iter().map(|&(name, test)| trial_of(name, needs, test)).collect()
}

/// Returns the folder of the test modules.
pub(crate) fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test-scenarios/promises/modules")
}

/// Declares the module of a file in `modules/`.
pub(crate) fn module(kind: &str, file: &str) -> String {
    let interpreter = if file.ends_with(".py") { "interpreter = [\"/usr/bin/env\", \"python3\"]\n" } else { "" };
    format!("[[module]]\ntype = \"{kind}\"\npath = \"modules/{file}\"\n{interpreter}respects_root = true\n")
}

/// Declares a module that violates the protocol in this way.
pub(crate) fn hostile(mode: &str) -> String {
    let hostile = fs::canonicalize(modules().join("hostile.py")).unwrap();
    format!(
        "[[module]]\ntype = \"h\"\npath = \"modes/{mode}\"\nrespects_root = true\n\
         interpreter = [\"/usr/bin/env\", \"python3\", {:?}]\n",
        hostile.display().to_string()
    )
}

/// Defines a promise with these lines after its type and promiser.
pub(crate) fn promise(kind: &str, promiser: &str, more: &str) -> String {
    format!("[[promise]]\ntype = \"{kind}\"\npromiser = \"{promiser}\"\n{more}\n")
}

/// A root with the plugin.
pub(crate) struct Machine {
    pub(crate) root: ScratchRoot,
}

/// The results of all entities.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) run: Run,
    entities: BTreeMap<String, End>,
}

/// The result of an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// A word such as `changed`.
    pub(crate) result: String,
    /// The changes that were made or would be made.
    pub(crate) changes: Vec<String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Machine {
    /// Creates a machine with these definitions, and all modules.
    pub(crate) fn new(definitions: &str) -> Machine {
        let mut root = ScratchRoot::new().plugin("promises").time_limit(Duration::from_secs(120));
        for entry in fs::read_dir(modules()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_owned();
            root = root.script(Path::new(RESOURCES).join("modules").join(name), fs::read(&path).unwrap());
        }
        let machine = Machine { root };
        machine.define(definitions);
        machine
    }

    /// Sets the definitions, and creates a file for each mode of the hostile module that they use.
    pub(crate) fn define(&self, definitions: &str) {
        let modes = definitions.lines().filter_map(|line| line.strip_prefix("path = \"modes/")?.strip_suffix('"'));
        modes.for_each(|mode| self.root.write(Path::new(RESOURCES).join("modes").join(mode), ""));
        self.root.write(Path::new(RESOURCES).join("10.toml"), definitions);
    }

    /// Adds a module.
    pub(crate) fn script(mut self, name: &str, text: &str) -> Machine {
        self.root = self.root.script(Path::new(RESOURCES).join("modules").join(name), text);
        self
    }

    pub(crate) fn apply(&self) -> Ends {
        self.holo(&["apply"])
    }

    pub(crate) fn check(&self) -> Ends {
        self.holo(&["check"])
    }

    /// Runs holo with JSON output.
    pub(crate) fn holo(&self, arguments: &[&str]) -> Ends {
        let run = self.root.holo(&[arguments, &["--json"]].concat());
        let mut entities: BTreeMap<String, End> = BTreeMap::new();
        for line in run.stdout_lossy().lines() {
            let event: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}")).unwrap();
            let Some(id) = event["id"].as_str() else { continue };
            let end = entities.entry(id.to_owned()).or_default();
            let text = event["text"].as_str().unwrap_or_default();
            match (event["event"].as_str().unwrap(), event["stream"].as_str()) {
                ("output", Some("stdout")) => end.stdout.push_str(text),
                ("output", Some("stderr")) => end.stderr.push_str(text),
                ("end", _) => {
                    let result = event["result"].as_str().unwrap();
                    end.result = if event["unknown"] == true { "unknown" } else { result }.to_owned();
                    let changes = ["changed", "would_change"].iter().flat_map(|key| event[*key].as_array()).flatten();
                    end.changes = changes.map(|change| change.as_str().unwrap().to_owned()).collect();
                }
                _ => {}
            }
        }
        Ends { run, entities }
    }

    /// Runs a single operation of the plugin, with a version of the interface. Returns the run and its messages.
    pub(crate) fn plugin(&self, version: &str, operation: &[&str]) -> (Run, String) {
        let path = |name: &str| self.root.join(name).display().to_string();
        let script = format!(
            "export HOLO_API_VERSION={version} HOLO_RESOURCE_DIR={} HOLO_STATE_DIR={} HOLO_CACHE_DIR={}; \
             mkdir -p \"$HOLO_STATE_DIR\" \"$HOLO_CACHE_DIR\"; exec \"$@\" 3>{}",
            path(RESOURCES),
            path("var/lib/holo/promises"),
            path("tmp/cache"),
            path("tmp/messages"),
        );
        let plugin = built("holo-promises").display().to_string();
        let words = [&["-c", &script, "sh", &plugin], operation].concat();
        let run = self.root.run("/bin/sh", &words);
        let messages = self.root.read("tmp/messages").to_string();
        // Progress messages depend on timing.
        let lasting = messages.split_inclusive('\n').filter(|line| !line.starts_with("progress: "));
        (run, lasting.collect())
    }
}

impl Ends {
    /// Returns the result of an entity. An entity that is missing from the output is unchanged and has no output.
    #[track_caller]
    pub(crate) fn of(&self, id: &str) -> End {
        let end = self.entities.get(&format!("promise:{id}")).cloned();
        end.ok_or_else(|| format!("{id} is not there\n{}", self.run)).unwrap()
    }

    /// Returns the result of an entity.
    #[track_caller]
    pub(crate) fn result(&self, id: &str) -> String {
        self.of(id).result
    }

    /// Checks for a line in an entity's standard error, with the root removed.
    #[track_caller]
    pub(crate) fn says(&self, machine: &Machine, id: &str, line: &str) {
        let said = machine.short(&self.of(id).stderr);
        assert!(said.lines().any(|other| other == line), "no line {line:?} in\n{said}\n{}", self.run);
    }
}

impl Machine {
    /// Removes the root and the resource folder from a text.
    pub(crate) fn short(&self, text: &str) -> String {
        let root = self.root.path().display().to_string();
        text.replace(&format!("{root}/{RESOURCES}/"), "").replace(&root, "")
    }
}
