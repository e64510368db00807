//! A machine with keys, below its own root.

use holo_process::Program;
use holo_testing::Need;
use std::fs;
use std::path::Path;

/// Other programs for encryption.
pub(crate) const AGE: [Need; 3] = [Need::Program("age"), Need::Program("age-keygen"), Need::Program("ssh-keygen")];

pub(crate) struct Machine(tempfile::TempDir);

impl Machine {
    /// Returns a machine without keys.
    pub(crate) fn without_keys() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("etc/ssh")).unwrap();
        fs::create_dir_all(folder.path().join("etc/holo/data")).unwrap();
        Machine(folder)
    }

    /// Returns a machine whose SSH server has a key.
    pub(crate) fn with_ssh() -> Machine {
        let machine = Machine::without_keys();
        let key = machine.path("etc/ssh/ssh_host_ed25519_key");
        run(Program::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "root@host", "-f", &key]), "");
        machine
    }

    /// Returns a machine with an age key.
    pub(crate) fn with_age() -> Machine {
        let machine = Machine::without_keys();
        run(Program::new("age-keygen").args(["-o", &machine.path("etc/holo/age.key")]), "");
        machine
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, path: &str) -> String {
        self.root().join(path).display().to_string()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Encrypts a text with the program `age` for the machine's SSH server.
    pub(crate) fn encrypt(&self, text: &str) -> String {
        run(Program::new("age").args(["-a", "-R", &self.path("etc/ssh/ssh_host_ed25519_key.pub")]), text)
    }

    /// Runs `holo-secret` on this machine, and returns its output and errors.
    pub(crate) fn secret(&self, arguments: &[&str], input: &str) -> (String, String) {
        let mut program = Program::new(holo_testing::binaries::built("holo-secret"));
        program.env("HOLO_ROOT_DIR", self.root()).args(arguments).stdin(input);
        let output = program.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap().replace(&self.path(""), "/");
        assert_eq!(output.ended.failure().is_some(), !output.stderr.is_empty(), "{output:?}");
        (text(output.stdout), text(output.stderr))
    }
}

/// Runs a program that must succeed, and returns its output.
pub(crate) fn run(program: &mut Program, input: &str) -> String {
    let output = program.stdin(input).output().unwrap();
    assert_eq!(output.ended.failure(), None, "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
