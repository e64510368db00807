//! A root with the plugin and all providers, and the results of resources defined there.

use holo_testing::{Ends, Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of a test, and its function.
pub(crate) type Case = (&'static str, fn());

/// The requirement of providers that are bash scripts.
pub(crate) const BASH: &[Need] = &[Need::Program("bash")];
pub(crate) const PYTHON: &[Need] = &[Need::Program("python3")];
/// The directory of definitions and providers.
pub(crate) const RESOURCES: &str = "usr/share/holo/ral";

pub(crate) fn trials_of(needs: &[Need], cases: &[Case]) -> Vec<Trial> {
    cases.iter().map(|&(name, test)| trial_of(name, needs, test)).collect()
}

fn providers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test-scenarios/ral/providers")
}

/// A root with the plugin.
pub(crate) struct Machine {
    pub(crate) root: ScratchRoot,
}

impl Machine {
    /// Creates a machine with these providers and resources.
    pub(crate) fn new(names: &[&str], resources: &str) -> Machine {
        let mut root = ScratchRoot::new().plugin("ral");
        let mut declared = String::new();
        for name in names {
            declared.push_str(&format!("[[provider]]\npath = \"providers/{name}.prov\"\nrespects_root = true\n"));
            let folder = Path::new(RESOURCES).join("providers");
            let file = |suffix: &str| providers().join(format!("{name}.{suffix}"));
            root = root.script(folder.join(format!("{name}.prov")), fs::read(file("prov")).unwrap());
            if let Ok(metadata) = fs::read(file("yaml")) {
                root = root.file(folder.join(format!("{name}.yaml")), metadata);
            }
        }
        let machine = Machine { root: root.file(Path::new(RESOURCES).join("10-providers.toml"), declared) };
        machine.define(resources);
        machine
    }

    /// Adds and declares a provider with this text.
    pub(crate) fn provider(mut self, name: &str, text: &str) -> Machine {
        let file = Path::new(RESOURCES).join("providers").join(format!("{name}.prov"));
        self.root = self.root.script(file, text);
        let declared = format!("[[provider]]\npath = \"providers/{name}.prov\"\nrespects_root = true\n");
        self.root.write(Path::new(RESOURCES).join(format!("15-{name}.toml")), declared);
        self
    }

    /// Sets the resources.
    pub(crate) fn define(&self, resources: &str) {
        self.root.write(Path::new(RESOURCES).join("20.toml"), resources);
    }

    pub(crate) fn holo(&self, arguments: &[&str]) -> Ends {
        Ends::read(self.root.holo(&[arguments, &["--json"]].concat()))
    }

    pub(crate) fn apply(&self) -> Ends {
        self.holo(&["apply"])
    }

    pub(crate) fn check(&self) -> Ends {
        self.holo(&["check"])
    }

    /// Runs `holo-ral show`.
    pub(crate) fn show(&self, arguments: &[&str]) -> Run {
        let plugin = built("holo-ral").display().to_string();
        let state = self.root.join("var/lib/holo/ral").display().to_string();
        let script =
            format!("HOLO_RESOURCE_DIR={} HOLO_STATE_DIR={state} exec \"$@\"", self.root.join(RESOURCES).display());
        self.root.run("/bin/sh", &[&["-c", &script, "sh", &plugin, "show"], arguments].concat())
    }

    /// Removes the root from a text.
    pub(crate) fn short(&self, text: &str) -> String {
        let root = self.root.path().display().to_string();
        text.replace(&format!("{root}/{RESOURCES}/"), "").replace(&root, "")
    }

    /// Returns a resource's standard error, without the root.
    pub(crate) fn errors(&self, ends: &Ends, id: &str) -> String {
        self.short(&ends.of(&format!("ral:{id}")).stderr)
    }
}

/// Returns the result of a resource, and its changes.
#[track_caller]
pub(crate) fn end<'e>(ends: &'e Ends, id: &str) -> (&'e str, Vec<&'e str>) {
    let end = ends.of(&format!("ral:{id}"));
    (&end.result, end.changes.iter().map(String::as_str).collect())
}

/// Defines a resource with these attributes.
pub(crate) fn resource(kind: &str, name: &str, attributes: &str) -> String {
    format!("[[resource]]\ntype = \"{kind}\"\nname = \"{name}\"\nattributes = {{ {attributes} }}\n")
}
