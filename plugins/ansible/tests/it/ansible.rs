//! The Ansible versions for tests, and roots in which modules may work.

use holo_testing::require::{ANSIBLE, is_complete};
use holo_testing::{Need, Run, ScratchRoot, binaries, trial_of};
use libtest_mimic::Trial;
use std::path::{Path, PathBuf};

/// An Ansible version.
#[derive(Clone, Copy)]
pub(crate) struct Version {
    pub(crate) name: &'static str,
    pub(crate) need: Need,
    python: fn() -> PathBuf,
}

/// The distribution's version, and a newer one installed by `.ci/ansible`.
pub(crate) const VERSIONS: [Version; 2] = [
    Version { name: "the distribution's Ansible", need: ANSIBLE, python: || "/usr/bin/python3".into() },
    Version {
        name: "Ansible 2.19",
        need: Need::Trial("target/ansible-2.19, which .ci/ansible makes", || newer_python().exists()),
        python: newer_python,
    },
];

/// The collections ansible.posix, community.crypto and community.general.
pub(crate) const COLLECTIONS: Need = Need::Trial("target/ansible-collections, which .ci/ansible makes", || {
    collections().join("ansible_collections/community/crypto").exists()
});

fn newer_python() -> PathBuf {
    target().join("ansible-2.19/bin/python3")
}

pub(crate) fn collections() -> PathBuf {
    target().join("ansible-collections")
}

fn target() -> PathBuf {
    binaries::directory().ok().and_then(|directory| Some(directory.parent()?.to_owned())).unwrap_or_default()
}

impl Version {
    pub(crate) fn python(&self) -> PathBuf {
        (self.python)()
    }
}

/// Creates a test for each version.
pub(crate) fn with_each(name: &str, needs: &[Need], test: fn(Version)) -> Vec<Trial> {
    let trial = |version: Version| {
        let needs = [&[version.need], needs].concat();
        trial_of(&format!("{name}, with {}", version.name), &needs, move || test(version))
    };
    VERSIONS.map(trial).into()
}

/// The same for a test that takes minutes: by default, it is done with the newest version only.
pub(crate) fn with_newest(name: &str, needs: &[Need], test: fn(Version)) -> Vec<Trial> {
    let mut trials = with_each(name, needs, test);
    if !is_complete() {
        trials.drain(..trials.len() - 1);
    }
    trials
}

/// A root in which modules are run although it is not the machine's: all paths in their arguments are below it.
pub(crate) struct Root(pub(crate) ScratchRoot);

impl Root {
    /// Creates a root with these definitions, in which `ROOT` is its path.
    pub(crate) fn new(version: Version, definitions: &str) -> Root {
        let root = ScratchRoot::new().file("etc/os-release", "ID=debian\n").plugin("ansible");
        let root = Root(root.dir("usr/share/ansible/collections").dir("work"));
        root.0.write("usr/share/holo/ansible/00-host.toml", host(&version.python(), "respects_root = true\n"));
        root.define(definitions);
        root
    }

    /// Adds the collection of the scenarios.
    pub(crate) fn with_own_collection(self) -> Root {
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test-scenarios/ansible/collections");
        let collections = self.0.join("usr/share/ansible/collections");
        let run =
            self.0.run("cp", &["-r".into(), format!("{}/.", scenarios.display()), collections.display().to_string()]);
        assert!(run.success(), "{run}");
        self
    }

    pub(crate) fn define(&self, definitions: &str) {
        self.0.write("usr/share/holo/ansible/10-case.toml", self.here(definitions));
    }

    /// Returns a text with the path of the root inserted.
    pub(crate) fn here(&self, text: &str) -> String {
        text.replace("ROOT", &self.0.path().display().to_string())
    }

    /// Runs holo, and returns its exit status and output, with `ROOT` for the root.
    pub(crate) fn holo(&self, arguments: &[&str]) -> (i32, String) {
        let run = self.0.holo(arguments);
        (run.status.unwrap_or(-1), said(&run).replace(&self.0.path().display().to_string(), "ROOT"))
    }

    /// Applies everything, checks the exit status, and returns the output.
    #[track_caller]
    pub(crate) fn apply(&self, status: i32) -> String {
        let (ended, said) = self.holo(&["apply"]);
        assert_eq!(ended, status, "{said}");
        said
    }
}

/// Returns the table about Python.
pub(crate) fn host(python: &Path, more: &str) -> String {
    format!("[[host]]\npython = \"{}\"\n{more}", python.display())
}

pub(crate) fn said(run: &Run) -> String {
    format!("{}{}", run.stdout_lossy(), run.stderr_lossy())
}
