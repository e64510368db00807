//! How a module is started, and when modules that fail repeatedly are given up.

use crate::interpreter::Interpreter;
use crate::trust::Trusted;
use holo_plugin::process::Program;
use holo_plugin::system::{Trust, TrustError};
use holo_plugin::{Asset, EntityReport, Host};
use std::io;
use std::path::{Path, PathBuf};

/// Variables for plugins that have no meaning for modules.
const OURS: [&str; 9] = [
    "HOLO_CACHE_DIR",
    "HOLO_STATE_DIR",
    "HOLO_RESOURCE_DIR",
    "HOLO_RESOURCE_DIRS",
    "HOLO_API_VERSION",
    "HOLO_JOBS",
    "HOLO_FACTS",
    "HOLO_REFRESH",
    "HOLO_RECEIVED",
];
/// A module that runs as root must not leave compiled files behind.
const DONT_WRITE_BYTECODE: &str = "PYTHONDONTWRITEBYTECODE";

/// A module's file and interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The file, as shown to the user.
    file: PathBuf,
    interpreter: Option<Interpreter>,
    respects_root: bool,
}

/// The reason why a module was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The module cannot be started.
    #[error("cannot start {}: {reason}", file.display())]
    Impossible {
        /// The module.
        file: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The module or its interpreter may be modified by other users.
    #[error(transparent)]
    Untrusted(TrustError),
}

impl Invocation {
    /// Creates the invocation of a declared module. Its path is relative to the resource directory, or below the root.
    #[must_use]
    pub fn new(host: &Host, path: &str, interpreter: Option<Interpreter>, respects_root: bool) -> Invocation {
        let path = Path::new(path);
        let file = if path.is_absolute() { host.below_root(path) } else { host.resources().shown(path) };
        Invocation { file, interpreter, respects_root }
    }

    /// Returns the module's file, as shown to the user.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the interpreter.
    #[must_use]
    pub fn interpreter(&self) -> Option<&Interpreter> {
        self.interpreter.as_ref()
    }

    /// Returns true if the module must not be started, because it would change another system than the one below the
    /// root.
    #[must_use]
    pub fn is_mocked(&self, host: &Host) -> bool {
        host.test_mode() && !self.respects_root
    }

    /// Returns a path that identifies the module's file, with symlinks resolved.
    #[must_use]
    pub fn real_file(&self) -> PathBuf {
        std::fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone())
    }

    /// Adds the assets that the module needs to a report.
    pub fn add_needs(&self, host: &Host, report: &mut EntityReport) {
        let file =
            self.file.strip_prefix(host.root()).map_or_else(|_| self.file.clone(), |file| Path::new("/").join(file));
        let program = self.interpreter.iter().filter_map(|interpreter| interpreter.words().first()).map(PathBuf::from);
        for path in [file].into_iter().chain(program) {
            let bytes = holo_change::path_bytes(&path);
            if !bytes.iter().any(u8::is_ascii_control) {
                report.edges.needs.push(Asset::new("path", bytes));
            }
        }
    }

    /// Checks the module and its interpreter. Returns the program to start, and the state of the module's file.
    ///
    /// # Errors
    /// If the module cannot be started, or other users may modify it.
    pub fn program(&self, host: &Host) -> Result<(Program, Trusted), StartError> {
        let root = absolute(host.root());
        let file = absolute(&self.file);
        let trusted = Trusted::examine(&file, &root).map_err(|error| self.failed(error, ""))?;
        let mut program = match self.interpreter.as_ref().map(Interpreter::words) {
            Some([name, arguments @ ..]) => {
                self.interpreter.iter().try_for_each(examine_interpreter).map_err(|error| self.failed_for(error))?;
                let mut program = Program::new(name);
                program.args(arguments).arg(file);
                program
            }
            _ => {
                if rustix::fs::access(&file, rustix::fs::Access::EXEC_OK).is_err() {
                    let denied = io::Error::from(rustix::io::Errno::ACCESS);
                    return Err(self.failed(denied.into(), "; make it executable, or declare its interpreter"));
                }
                Program::new(file)
            }
        };
        program.current_dir(if self.respects_root { &root } else { Path::new("/") });
        set_environment(&mut program, host);
        Ok((program, trusted))
    }

    fn failed(&self, error: TrustError, hint: &str) -> StartError {
        match error {
            TrustError::Io(error) => StartError::Impossible {
                file: self.file.clone(),
                reason: format!("{}{hint}", holo_change::error::reason(&error)),
            },
            untrusted => StartError::Untrusted(untrusted),
        }
    }

    /// Converts an error of the interpreter into one of the module.
    fn failed_for(&self, error: StartError) -> StartError {
        match error {
            StartError::Impossible { file, reason } => {
                let reason = format!("{}: {reason}", file.display());
                StartError::Impossible { file: self.file.clone(), reason }
            }
            untrusted @ StartError::Untrusted(_) => untrusted,
        }
    }
}

/// Checks an interpreter before it is started.
///
/// # Errors
/// If it cannot be started, or other users may modify it.
pub fn examine_interpreter(interpreter: &Interpreter) -> Result<(), StartError> {
    let name = Path::new(interpreter.words().first().map(String::as_str).unwrap_or_default());
    let refuse = |error| match error {
        TrustError::Io(error) => StartError::Impossible {
            file: name.to_owned(),
            reason: format!("{}; {}", holo_change::error::reason(&error), interpreter.hint()),
        },
        untrusted => StartError::Untrusted(untrusted),
    };
    Trust::new(Path::new("/")).examine_program(name).map_err(refuse)?;
    rustix::fs::access(name, rustix::fs::Access::EXEC_OK).map_err(|errno| refuse(io::Error::from(errno).into()))
}

/// Passes the plugin's environment to a module, without the variables that are only for plugins.
pub fn set_environment(program: &mut Program, host: &Host) {
    for name in OURS {
        program.env_remove(name);
    }
    program.env("HOLO_ROOT_DIR", absolute(host.root()));
    if std::env::var_os(DONT_WRITE_BYTECODE).is_none() {
        program.env(DONT_WRITE_BYTECODE, "1");
    }
}

/// Returns the absolute path, because a module has another working directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The maximum number of consecutive faults.
const ENOUGH: u32 = 3;

/// The number of faults of a module since its last valid answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    in_a_row: u32,
}

impl Faults {
    /// Counts a fault.
    pub fn add(&mut self) {
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// Resets the count after a valid answer, unless the module was given up already.
    pub fn forgive(&mut self) {
        if !self.is_enough() {
            self.in_a_row = 0;
        }
    }

    /// Returns true if the module must not be started again in this run.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.in_a_row >= ENOUGH
    }

    /// Returns the message for a module that is given up.
    #[must_use]
    pub fn message(module: &impl std::fmt::Display) -> String {
        format!("{module} failed {ENOUGH} times in a row, and is not started again")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn host(root: &Path) -> Host {
        let path = |name: &str| match name {
            "HOLO_ROOT_DIR" => Some(root.into()),
            "HOLO_RESOURCE_DIR" => Some(root.join("usr/share/holo/promises").into()),
            _ => Some("x".into()),
        };
        Host::from_environment(path).unwrap()
    }

    fn interpreter(json: &str) -> Option<Interpreter> {
        Some(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn a_module_is_below_the_root_and_its_interpreter_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("usr/share/holo/promises/modules")).unwrap();
        for (path, on_disk) in
            [("modules/m.sh", "usr/share/holo/promises/modules/m.sh"), ("/usr/share/m.sh", "usr/share/m.sh")]
        {
            fs::write(root.join(on_disk), "").unwrap();
            let invocation = Invocation::new(&host(&root), path, interpreter("[\"/bin/sh\", \"-e\"]"), true);
            let (program, _) = invocation.program(&host(&root)).unwrap();
            assert_eq!(program.to_string(), format!("/bin/sh -e {}", root.join(on_disk).display()));
            let mut report = EntityReport::new("a:b");
            invocation.add_needs(&host(&root), &mut report);
            let needs: Vec<String> = report.edges.needs.iter().map(|asset| asset.value.to_string()).collect();
            assert_eq!(needs, [format!("/{on_disk}"), "/bin/sh".to_owned()]);
        }
    }

    #[test]
    fn what_cannot_be_started_is_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::write(root.join("m"), "#!/bin/sh\n").unwrap();
        fs::create_dir(root.join("d")).unwrap();
        let error = |path: &str, interpreter| {
            let invocation = Invocation::new(&host(&root), path, interpreter, false);
            invocation.program(&host(&root)).unwrap_err().to_string().replace(&format!("{}/", root.display()), "/")
        };
        assert_eq!(error("/no", None), "cannot start /no: no such file or directory");
        assert_eq!(error("/d", None), "cannot start /d: is a directory");
        assert_eq!(
            error("/m", None),
            "cannot start /m: permission denied; make it executable, or declare its interpreter"
        );
        assert_eq!(
            error("/m", interpreter("\"/usr/bin/env python3\"")),
            "cannot start /m: /usr/bin/env python3: no such file or directory; write [\"/usr/bin/env\", \"python3\"]"
        );
        assert_eq!(
            error("/m", interpreter("\"/opt/python3\"")),
            "cannot start /m: /opt/python3: no such file or directory; write [\"/usr/bin/env\", \"python3\"]"
        );
        fs::set_permissions(root.join("m"), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(
            error("/m", None),
            "/m is writable for other users (mode 0777), and is not used; to fix this: chmod go-w /m"
        );
    }

    #[test]
    fn in_test_mode_only_those_are_started_that_respect_the_root() {
        let (here, there) = (host(Path::new("/")), host(Path::new("/target")));
        let mocked = |host: &Host, respects_root| Invocation::new(host, "/m", None, respects_root).is_mocked(host);
        assert!(mocked(&there, false) && !mocked(&there, true) && !mocked(&here, false));
    }
}

#[cfg(test)]
mod faults_tests {
    use super::*;

    #[test]
    fn only_faults_in_a_row_count() {
        let mut faults = Faults::default();
        for _ in 0..5 {
            faults.add();
            faults.add();
            assert!(!faults.is_enough());
            faults.forgive();
        }
        (0..3).for_each(|_| faults.add());
        assert!(faults.is_enough());
        faults.forgive();
        assert!(faults.is_enough());
        assert_eq!(Faults::message(&"/x.py"), "/x.py failed 3 times in a row, and is not started again");
    }
}
