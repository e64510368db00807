//! Programs that are run for files: before the files are written, and after they have changed.

use crate::definition::FileCommand;
use crate::error::{Result, ScaffoldError};
use holo_plugin::definitions::Glob;
use holo_plugin::process::{self, Program};
use holo_plugin::{Host, Output, Validation, ValidationError};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The placeholder for the path of the file.
const PLACEHOLDER: &[u8] = b"{}";

/// The programs of a scaffold.
pub(crate) struct Programs<'a> {
    target: PathBuf,
    timeout: Option<Duration>,
    programs: Vec<(Glob, &'a FileCommand)>,
}

impl<'a> Programs<'a> {
    /// Returns the defined programs. The timeout applies to each of them.
    pub(crate) fn new(defined: &'a [FileCommand], target: &Path, timeout: Option<Duration>) -> Result<Programs<'a>> {
        let programs = defined.iter().map(|command| Ok((Glob::new(&command.glob)?, command)));
        Ok(Programs { target: target.to_owned(), timeout, programs: programs.collect::<Result<_>>()? })
    }

    /// Returns true if a program must be run for this file.
    pub(crate) fn are_for(&self, path: &Path) -> bool {
        self.of_file(path).next().is_some()
    }

    fn of_file(&self, path: &Path) -> impl Iterator<Item = &'a FileCommand> {
        let below = path.strip_prefix(&self.target).unwrap_or(path).to_owned();
        self.programs.iter().filter_map(move |(glob, command)| glob.matches(&below).then_some(*command))
    }

    /// Runs the validation programs for the new content of a file.
    ///
    /// # Errors
    /// If one of them rejects the content.
    pub(crate) fn validate(
        &self,
        path: &Path,
        content: &[u8],
        sensitive: bool,
        host: &Host,
        output: &mut Output<'_>,
    ) -> std::result::Result<(), ValidationError> {
        let validation =
            |command: &'a FileCommand| Validation { command: &command.command, sensitive, timeout: self.timeout };
        self.of_file(path).try_for_each(|command| validation(command).run(path, content, host, output))
    }

    /// Runs the programs for a file. In test mode, only prints the commands.
    pub(crate) fn call(&self, path: &Path, is_sensitive: bool, host: &Host, output: &mut Output<'_>) -> Result<()> {
        for post in self.of_file(path) {
            let mut program = program(post.command.words(), path, self.timeout);
            if host.test_mode() {
                output.print(format!("MOCK: {program}\n"));
                continue;
            }
            let ended = if is_sensitive { program.run(|_, _| {}) } else { process::run(&mut program, output) };
            if let Some(failure) = ended?.failure() {
                return Err(ScaffoldError::Never(format!("`{program}` failed: {failure}")));
            }
        }
        Ok(())
    }
}

fn program(words: &[String], path: &Path, timeout: Option<Duration>) -> Program {
    let has_place = words.iter().any(|word| word.contains("{}"));
    let words = words.iter().map(|word| with_path(word, path)).chain((!has_place).then(|| path.into()));
    let mut program = Program::from_words(words);
    program.timeout(timeout);
    program
}

fn with_path(word: &str, path: &Path) -> OsString {
    let parts: Vec<&[u8]> = bstr::ByteSlice::split_str(word.as_bytes(), PLACEHOLDER).collect();
    OsString::from_vec(parts.join(OsStr::as_bytes(path.as_os_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::ScaffoldDefinition;

    #[test]
    fn the_path_is_where_it_is_wanted_or_last() {
        let shown = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            program(&words, Path::new("/etc/a b"), None).to_string()
        };
        assert_eq!(shown(&["chmod", "+x", "{}"]), "chmod +x '/etc/a b'");
        assert_eq!(shown(&["chmod", "+x"]), "chmod +x '/etc/a b'");
        assert_eq!(shown(&["cp", "{}", "--to={}.bak"]), "cp '/etc/a b' '--to=/etc/a b.bak'");
    }

    #[test]
    fn patterns_are_for_names_or_for_paths() {
        let definition = |glob: &str| -> ScaffoldDefinition {
            let post = serde_json::json!([{ "glob": glob, "command": "x" }]);
            serde_json::from_value(serde_json::json!({ "target": "/t", "source": "s", "post": post })).unwrap()
        };
        for (glob, path, is_for) in [
            ("*.sh", "/t/a.sh", true),
            ("*.sh", "/t/b/a.sh", true),
            ("*.sh", "/t/b/a.sh.conf", false),
            ("b/*.sh", "/t/b/a.sh", true),
            ("b/*.sh", "/t/b/c/a.sh", false),
            ("**/*.sh", "/t/b/c/a.sh", true),
            ("*", "/t/.hidden", true),
        ] {
            let definition = definition(glob);
            let programs = Programs::new(&definition.post, Path::new("/t"), None).ok().unwrap();
            assert_eq!(programs.are_for(Path::new(path)), is_for, "{glob} {path}");
        }
    }
}
