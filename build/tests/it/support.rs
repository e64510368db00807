//! A directory with descriptions and packages, and the tools that read them.

use holo_testing::{Run, ScratchRoot, binaries};
use std::ffi::OsStr;

/// The formats by name, each with the file name of the package of [`BASE`].
pub(crate) const FORMATS: [(&str, &str); 3] =
    [("debian", "foo_1.0-1_all.deb"), ("pacman", "foo-1.0-1-any.pkg.tar.xz"), ("rpm", "foo-1.0-1.noarch.rpm")];

/// The beginning of a valid description.
pub(crate) const BASE: &str = "[package]\nname = \"foo\"\nversion = \"1.0\"\nauthor = \"J <j@x>\"\n";

/// A working directory with the description `p.toml`.
pub(crate) struct Desk {
    pub(crate) root: ScratchRoot,
}

impl Desk {
    #[track_caller]
    pub(crate) fn new(description: &str) -> Desk {
        Desk { root: ScratchRoot::new().env("LC_ALL", "C.UTF-8").file("p.toml", description) }
    }

    /// Runs `holo-build` with these arguments.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.root.run(binaries::built("holo-build"), arguments)
    }

    /// Builds `p.toml` without a check.
    #[track_caller]
    pub(crate) fn try_build(&self, format: &str) -> Run {
        self.run(&["--no-check", "--force", "--format", format, "p.toml"])
    }

    /// Builds `p.toml`, and returns the name of the package.
    #[track_caller]
    pub(crate) fn build(&self, format: &str) -> String {
        let built = self.try_build(format);
        assert!(built.success(), "{format}: {built}");
        let name = self.run(&["--suggest-filename", "--format", format, "p.toml"]);
        name.stdout_lossy().trim_end().to_owned()
    }

    /// Runs a program that must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn must(&self, program: &str, arguments: &[impl AsRef<OsStr>]) -> String {
        let run = self.root.run(program, arguments);
        assert!(run.success(), "{program}: {run}");
        run.stdout_lossy().into_owned()
    }

    /// Runs a shell script that must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        self.must("bash", &["-euc", script])
    }
}
