//! The keys of a command's definition.

use crate::command;
use holo_plugin::Stream;
use holo_plugin::definitions::{Definition, Invalid, WrittenCommand, values};
use holo_plugin::process::Identity;
use serde::Deserialize;

/// A command to run.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Exec {
    /// The name of the entity.
    pub(crate) name: String,
    /// The command: a list, or a string that is split according to a shell's rules.
    pub(crate) command: WrittenCommand,
    /// True if the command, `onlyif` and `unless_command` are scripts for `/bin/sh`.
    #[serde(default)]
    pub(crate) shell: bool,
    /// The working directory, an absolute path; `/` by default.
    pub(crate) cwd: Option<String>,
    /// Environment variables, as `NAME=value`.
    #[serde(default)]
    pub(crate) environment: Vec<String>,
    /// True if the command does not inherit holo's environment.
    #[serde(default)]
    pub(crate) clean_environment: bool,
    /// The directories in which programs are looked up, separated by colons.
    pub(crate) path: Option<String>,
    /// The user who runs it, by name or number.
    pub(crate) user: Option<String>,
    /// The group that runs it, by name or number; that of the user by default.
    pub(crate) group: Option<String>,
    /// The permissions that created files must not have, in octal digits.
    pub(crate) umask: Option<String>,
    /// The exit statuses that mean success.
    #[serde(default = "success")]
    pub(crate) returns: Vec<u8>,
    /// A path that the command creates: if it exists, the command does not run.
    pub(crate) creates: Option<String>,
    /// A command that makes no changes: if it fails, the command does not run.
    pub(crate) onlyif: Option<WrittenCommand>,
    /// A command that makes no changes: if it succeeds, the command does not run.
    pub(crate) unless_command: Option<WrittenCommand>,
    /// True if the command only runs when an entity that it subscribes to has changed.
    #[serde(default)]
    pub(crate) refresh_only: bool,
    /// The text on the standard input of the command and its guards.
    pub(crate) stdin: Option<String>,
    /// True if the command and its guards are never shown.
    #[serde(default)]
    pub(crate) sensitive: bool,
    /// True if the command may run concurrently with others that have this key too.
    #[serde(default)]
    pub(crate) parallel: bool,
    /// True if the command may run while the system is not running, such as when an image is built.
    #[serde(default)]
    pub(crate) offline: bool,
    /// True to show the command's output; otherwise, its last lines are shown if it fails.
    #[serde(default = "yes")]
    pub(crate) log_output: bool,
}

fn success() -> Vec<u8> {
    vec![0]
}

fn yes() -> bool {
    true
}

impl Definition for Exec {
    const TABLE: &'static str = "exec";
    const UNITED: &'static [&'static str] = &["environment"];

    fn doubts(&self) -> Vec<Invalid> {
        let commands = [
            ("command", Some(&self.command)),
            ("onlyif", self.onlyif.as_ref()),
            ("unless_command", self.unless_command.as_ref()),
        ];
        let doubt = |(key, command): (&'static str, Option<&WrittenCommand>)| {
            let sign = command?.meant_for_a_shell().filter(|_| !self.shell)?;
            let problem = format!("no shell is called, and {sign:?} is an argument; shell = true calls one");
            Some(Invalid::new(key, problem))
        };
        commands.into_iter().filter_map(doubt).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        let command =
            |key, written: Option<&WrittenCommand>| match written.map(|written| command::words(written, self.shell)) {
                Some(Err(error)) => Err(Invalid::new(key, error.to_string())),
                _ => Ok(()),
            };
        let account = |key, name: &Option<String>| name.iter().try_for_each(|name| values::account(key, name));
        let path = |key, path: &Option<String>| path.iter().try_for_each(|path| values::absolute(key, path).map(drop));
        let search_path = self.search_path();
        let mut directories = search_path.iter().flat_map(|path| path.split(':'));
        Invalid::all([
            command("command", Some(&self.command)),
            command("onlyif", self.onlyif.as_ref()),
            command("unless_command", self.unless_command.as_ref()),
            path("cwd", &self.cwd),
            path("creates", &self.creates),
            directories.try_for_each(|directory| values::absolute("path", directory).map(drop)),
            self.validate_environment(),
            account("user", &self.user),
            account("group", &self.group),
            self.umask.iter().try_for_each(|umask| values::umask("umask", umask).map(drop)),
            match self.returns[..] {
                [] => Err(Invalid::new("returns", "is empty, so no exit status would be a success")),
                _ => Ok(()),
            },
        ])
    }
}

impl Exec {
    /// Returns the directories in which programs are looked up; an empty list counts as none.
    pub(crate) fn search_path(&self) -> Option<&str> {
        self.path.as_deref().filter(|path| !path.is_empty())
    }

    /// Returns the environment variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.environment.iter().filter_map(|variable| variable.split_once('='))
    }

    /// Returns the command on one line, for messages.
    pub(crate) fn shown(&self) -> String {
        if self.sensitive { format!("the command of {}", self.name) } else { command::shown(&self.command) }
    }

    /// Returns a guard on one line, for messages.
    pub(crate) fn shown_guard(&self, guard: &WrittenCommand) -> String {
        if self.sensitive { "a command".to_owned() } else { format!("`{}`", command::shown(guard)) }
    }

    /// Returns true if the command's output is shown. Its standard output is a value for other entities, and as
    /// sensitive as the command.
    pub(crate) fn shows(&self, stream: Stream) -> bool {
        self.log_output && !(self.sensitive && stream == Stream::Stdout)
    }

    /// Returns the user and group that run it.
    pub(crate) fn identity(&self) -> Identity {
        Identity { user: self.user.clone(), group: self.group.clone(), umask: self.umask(), ..Identity::default() }
    }

    fn umask(&self) -> Option<u32> {
        self.umask.as_deref().and_then(|umask| values::umask("umask", umask).ok())
    }

    fn validate_environment(&self) -> Result<(), Invalid> {
        let mut names = Vec::new();
        for variable in &self.environment {
            // The value may be a secret, so it is not shown.
            let name = variable.split_once('=').map(|(name, _)| name);
            let Some(name) = name.filter(|name| !name.is_empty() && !variable.contains('\0')) else {
                return Err(Invalid::new("environment", "expected \"NAME=value\""));
            };
            if names.contains(&name) {
                return Err(Invalid::new("environment", format!("{name} is set twice")));
            }
            names.push(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the error of a definition with this line.
    fn wrong(line: &str) -> Option<String> {
        let text = if line.starts_with("command") {
            format!("name = \"x\"\n{line}")
        } else {
            format!("name = \"x\"\ncommand = \"true\"\n{line}")
        };
        match toml::from_str::<Exec>(&text) {
            Err(error) => Some(error.message().to_owned()),
            Ok(exec) => exec.invalid().first().map(|invalid| format!("{invalid:?}")),
        }
    }

    #[test]
    fn what_can_be_is_taken() {
        for line in [
            "",
            "command = \"/bin/echo \\\"it's working\\\"\"",
            "command = [\"echo\", \"a b\"]",
            "command = \"it's for a shell\"\nshell = false\n#",
            "path = \"\"",
            "path = \"/usr/local/my bin:/usr/bin\"",
            "environment = []",
            "environment = [\"FOO=bar=baz\", \"BAZ=hello world\", \"EMPTY=\"]",
            "umask = \"027\"",
            "umask = \"0o22\"",
            "umask = \"0\"",
            "returns = [0, 2, 255]",
            "creates = \"/a\"",
            "onlyif = \"test -e /x\"",
            "unless_command = [\"false\"]",
            "user = \"1000\"\ngroup = \"0\"",
        ] {
            if line.contains("for a shell") {
                assert!(wrong(line).is_some());
                assert_eq!(wrong(&line.replace("false", "true")), None);
            } else {
                assert_eq!(wrong(line), None, "{line}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_and_named() {
        for (line, problem) in [
            ("command = \"/bin/echo 'unterminated\"", "\"command\""),
            ("command = \"\"", "the command is empty"),
            ("command = []", "the command is empty"),
            ("command = 3", "a command as a string or a list of strings"),
            ("command = [3]", "expected a string"),
            ("command = [\"a\"]\nshell = true", "with shell = true a command is a string"),
            ("onlyif = \"'\"", "\"onlyif\""),
            ("unless_command = \"'\"", "\"unless_command\""),
            ("cwd = \"tmp\"", "\"cwd\""),
            ("creates = \"\"", "\"creates\""),
            ("path = \"usr/bin\"", "\\\"usr/bin\\\" is not an absolute path"),
            ("path = \"/usr/bin:local/bin\"", "is not an absolute path"),
            ("path = \":/usr/bin\"", "is not an absolute path"),
            ("path = \"/usr/bin:\"", "is not an absolute path"),
            ("path = \"/usr/bin::/bin\"", "is not an absolute path"),
            ("path = \":\"", "is not an absolute path"),
            ("environment = [\"FOO\"]", "NAME=value"),
            ("environment = [\"=secret\"]", "NAME=value"),
            ("environment = [\"FOO=a\", \"FOO=b\"]", "FOO is set twice"),
            ("umask = 18", "expected a string"),
            ("umask = \"8\"", "octal"),
            ("umask = \"1777\"", "octal"),
            ("umask = \"+7\"", "octal"),
            ("returns = []", "\"returns\""),
            ("returns = [256]", "expected u8"),
            ("user = \"\"", "neither a name nor a number"),
            ("ensure = \"absent\"", "unknown field `ensure`"),
            ("refreshonly = true", "unknown field `refreshonly`"),
        ] {
            let wrong = wrong(line).unwrap_or_default();
            assert!(wrong.contains(problem), "{line}: {wrong}");
            assert!(!wrong.contains("secret"));
        }
    }

    #[test]
    fn the_schema_is_that_of_the_types() {
        let schema = holo_plugin::definitions::schema::<Exec>("Definitions of holo's plugin exec");
        holo_testing::schema_is_kept("holo-exec.schema.json", &schema);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let good = "[[exec]]\nname = \"x\"\ncommand = [\"a\"]\ntimeout = \"5m\"\nrequires = [\"a:b\"]\n";
        let valid = |text: &str| {
            validator.is_valid(&serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap())
        };
        assert!(valid(good) && valid(&good.replace("[\"a\"]", "\"a\"")));
        assert!(!valid(&good.replace("name", "nane")) && !valid(&good.replace("[\"a\"]", "3")));
    }
}
