//! Checks resource files that are not installed yet, such as those of a package: runs `holo check` on a root with
//! nothing else, and reports what depends on the files, not on the machine.

use holo_process::words::reason;
use holo_process::{Program, ProgramError, SYSTEM_PATH};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use walkdir::WalkDir;

/// The directories of resource files, below the root.
const RESOURCES: [&str; 2] = ["usr/share/holo/", "etc/holo/resources/"];

/// The time limit for each run of holo.
const LIMIT: Duration = Duration::from_secs(300);
/// Plugins that have an entity for each file in their resource directories, except for definitions in TOML. Definitions
/// of others can refer to further files there.
const READ_ALL: [&str; 8] =
    ["archives", "exec", "files", "packages", "run-scripts", "services", "ssh-keys", "users-groups"];
/// The suffixes of definitions.
const DEFINITIONS: [&str; 2] = [".toml", ".toml.jinja"];
/// The directories of generators and of data, which are no plugins.
const GENERATORS: &str = "generators";
const DATA: &str = "data";
/// Directories in which no resource file of `files` has a disambiguator.
const TOP_DIRECTORIES: [&str; 18] = [
    "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root", "run", "sbin", "srv",
    "tmp", "usr", "var",
];

/// The resource files cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The root for the check cannot be made or read.
    #[error("{}", reason(.0))]
    Root(#[from] io::Error),
    /// Holo cannot be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Holo has not run to its end.
    #[error("{program}: {reason}")]
    Failed {
        /// The command.
        program: String,
        /// The reason.
        reason: String,
    },
}

/// An error or a warning about a resource file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path of the file below the root, if it is known.
    pub path: Option<String>,
    /// True if the file must be mended.
    pub is_error: bool,
    /// The message, with the path, and the line if there is one.
    pub text: String,
}

/// Returns the path of holo, if it is installed.
#[must_use]
pub fn find_holo() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| SYSTEM_PATH.into());
    let found = env::split_paths(&path).map(|directory| directory.join("holo"));
    // Its plugins are beside it, not beside a symlink to it.
    { found }.find(|holo| holo.is_absolute() && holo.is_file()).and_then(|holo| holo.canonicalize().ok())
}

/// The means of a check.
#[derive(Clone, Copy, Debug)]
pub struct Checker<'a> {
    /// The program, as [`find_holo`] finds it.
    pub holo: &'a Path,
    /// The root directory of this machine.
    pub host: &'a Path,
    /// What else can be done about a file whose plugin is not installed, such as `, or build with --no-check`.
    pub otherwise: &'a str,
}

impl Checker<'_> {
    /// Checks the resource files below a root, which has nothing else, and no configuration: it gets one with the
    /// plugins of the files. Symlinks outside of the directories of resource files could lead out of the root, and must
    /// be left out.
    ///
    /// # Errors
    /// If the check cannot be made.
    pub fn check(self, root: &Path) -> Result<Vec<Problem>, CheckError> {
        let files = files(root)?;
        let mut check = Check { means: self, root, files, problems: Vec::new() };
        let plugins = check.plugins();
        check.names_and_modes();
        if !plugins.is_empty() {
            check.configure(&plugins)?;
            check.definitions(&check.events("check")?);
            check.unread(&check.events("scan")?, &plugins);
        }
        Ok(check.problems)
    }
}

/// A file or symlink in the root.
struct Node {
    is_file: bool,
    is_executable: bool,
}

/// Returns all files and symlinks below a root.
fn files(root: &Path) -> io::Result<BTreeMap<String, Node>> {
    let mut files = BTreeMap::new();
    for entry in WalkDir::new(root).follow_links(false) {
        let entry = entry?;
        let below = entry.path().strip_prefix(root).unwrap_or(Path::new(""));
        if let Some(path) = below.to_str().filter(|_| !entry.file_type().is_dir()) {
            let is_executable = entry.metadata()?.permissions().mode() & 0o111 != 0;
            files.insert(path.to_owned(), Node { is_file: entry.file_type().is_file(), is_executable });
        }
    }
    Ok(files)
}

struct Check<'a> {
    means: Checker<'a>,
    root: &'a Path,
    files: BTreeMap<String, Node>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    /// Returns all resource files: their paths, and the parts of these below the directory of all.
    fn resources(&self) -> impl Iterator<Item = (&String, &str, &Node)> {
        self.files.iter().filter_map(|(path, node)| {
            let below = RESOURCES.iter().find_map(|directory| path.strip_prefix(directory))?;
            Some((path, below, node))
        })
    }

    fn error(&mut self, path: &str, text: &str) {
        self.problems.push(Problem { path: Some(path.to_owned()), is_error: true, text: format!("/{path}: {text}") });
    }

    /// Returns the plugins that are installed. Files of others are errors.
    fn plugins(&mut self) -> Vec<String> {
        let directories = [self.means.holo.parent().unwrap_or(Path::new("/usr/bin")), Path::new("/usr/lib/holo")];
        let has = |plugin: &str| directories.iter().any(|directory| directory.join(format!("holo-{plugin}")).is_file());
        let mut used = BTreeSet::new();
        let mut wrong = Vec::new();
        for (path, below, _) in self.resources() {
            match below.split_once('/') {
                None => wrong.push((path.clone(), "no plugin reads a file here".to_owned())),
                Some((GENERATORS | DATA, _)) => {}
                Some((plugin, _)) if has(plugin) => drop(used.insert(plugin.to_owned())),
                Some((plugin, _)) => {
                    let names = installed(&directories);
                    let hint = holo_definitions::did_you_mean(plugin, names.iter().map(String::as_str));
                    let hint = hint.map(|hint| format!(", {hint}")).unwrap_or_default();
                    let remedy = format!("install it to check this file{}", self.means.otherwise);
                    wrong.push((path.clone(), format!("no plugin {plugin} is installed{hint}; {remedy}")));
                }
            }
        }
        wrong.iter().for_each(|(path, text)| self.error(path, text));
        used.into_iter().collect()
    }

    fn names_and_modes(&mut self) {
        let mut wrong = Vec::new();
        for (path, below, node) in self.resources() {
            let (plugin, rest) = below.split_once('/').unwrap_or_default();
            let is_program = match plugin {
                GENERATORS | "run-scripts" => !rest.contains('/') && !rest.ends_with(".toml"),
                "files" => rest.ends_with(".holoscript"),
                _ => false,
            };
            if is_program && node.is_file && !node.is_executable {
                wrong.push((path.clone(), "is a script, but not executable; set mode = \"0755\""));
            }
            let first = rest.split_once('/').map(|(first, _)| first);
            if plugin == "files" && first.is_some_and(|first| TOP_DIRECTORIES.contains(&first)) {
                let text = "has no disambiguator; insert a directory such as 50-NAME after files/";
                wrong.push((path.clone(), text));
            }
        }
        wrong.iter().for_each(|(path, text)| self.error(path, text));
    }

    /// Writes a configuration with these plugins. Holo and its plugins write below other directories than those of
    /// resource files.
    fn configure(&self, plugins: &[String]) -> io::Result<()> {
        fs::create_dir_all(self.root.join("etc"))?;
        let configuration: String = plugins.iter().map(|plugin| format!("plugin {plugin}\n")).collect();
        fs::write(self.root.join("etc/holorc"), configuration)?;
        // Conditions and templates can refer to the distribution.
        if let (Ok(release), Ok(mut file)) =
            (fs::read(self.means.host.join("etc/os-release")), File::create_new(self.root.join("etc/os-release")))
        {
            file.write_all(&release)?;
        }
        Ok(())
    }

    /// Runs a command of holo, and returns the events that it reports.
    fn events(&self, command: &str) -> Result<Vec<Value>, CheckError> {
        let mut program = Program::new(self.means.holo);
        program.args([command, "--json"]).env("HOLO_ROOT_DIR", self.root).env("HOLO_HISTORY", "0");
        program.env("TMPDIR", env::temp_dir()).timeout(LIMIT).output_limit(u64::MAX);
        let output = program.output()?;
        let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let is_complete = events.last().is_some_and(|event| event["event"] == "summary");
        if !is_complete {
            let reason = output.ended.failure().unwrap_or_else(|| "no summary".to_owned());
            let details = output.ended.last_lines(1).concat();
            let reason = format!("{reason}: {details}");
            return Err(CheckError::Failed { program: format!("holo {command}"), reason });
        }
        Ok(events)
    }

    /// Reports what holo says of definitions. What it says of entities depends on the machine.
    fn definitions(&mut self, events: &[Value]) {
        let root = format!("{}/", self.root.display());
        let (mut is_detail, mut last) = (false, None);
        for event in events {
            let is_error = event["event"] == "error";
            let Some(text) = event["text"].as_str().filter(|_| is_error || event["event"] == "warning") else {
                continue;
            };
            let named = text.split_once(&*root).map(|(_, rest)| rest);
            if let Some(rest) = named {
                last = self.file_of(rest);
            } else if !(is_error || is_detail && text.starts_with("line ")) {
                // It is about the run, not about the files.
                continue;
            }
            is_detail = is_error || is_detail && named.is_none();
            self.problems.push(Problem { path: last.clone(), is_error, text: text.replace(&*root, "/") });
        }
    }

    /// Returns the file whose path begins a text.
    fn file_of(&self, text: &str) -> Option<String> {
        let ends = text.char_indices().map(|(index, _)| index).chain([text.len()]);
        let mut paths = ends.rev().filter_map(|end| text.get(..end));
        paths.find(|path| self.files.contains_key(*path)).map(str::to_owned)
    }

    /// Reports files that are the source of no entity.
    fn unread(&mut self, events: &[Value], plugins: &[String]) {
        let root = format!("{}/", self.root.display());
        let sources = events.iter().filter_map(|event| event["sources"].as_array()).flatten().filter_map(Value::as_str);
        let read: BTreeSet<&str> = sources.filter_map(|source| source.strip_prefix(&*root)).collect();
        let is_definition = |rest: &str| !rest.contains('/') && DEFINITIONS.iter().any(|suffix| rest.ends_with(suffix));
        let texts = self.resources().filter(|(.., node)| node.is_file).filter_map(|(path, below, _)| {
            let (plugin, _) = below.split_once('/').filter(|(_, rest)| is_definition(rest))?;
            Some((plugin.to_owned(), fs::read_to_string(self.root.join(path)).ok()?))
        });
        let texts: Vec<(String, String)> = texts.collect();
        let mut unread = Vec::new();
        for (path, below, _) in self.resources() {
            let (plugin, rest) = below.split_once('/').unwrap_or_default();
            let is_judged = READ_ALL.contains(&plugin) && plugins.iter().any(|installed| installed == plugin);
            let is_reported = self.problems.iter().any(|problem| problem.text.contains(&format!("/{path}: ")));
            // A definition of files can name the file with a content.
            let is_named = || texts.iter().any(|(of, text)| of == plugin && text.contains(rest));
            if is_judged && !is_definition(rest) && !is_reported && !read.contains(path.as_str()) && !is_named() {
                unread.push((path.clone(), format!("the plugin {plugin} does not read this file")));
            }
        }
        for (path, text) in &unread {
            // What is a warning on a machine is an error here.
            self.problems.retain(|problem| !problem.text.contains(&format!("/{path} is not used: ")));
            self.error(path, text);
        }
    }
}

/// Returns the names of the plugins in directories.
fn installed(directories: &[&Path]) -> Vec<String> {
    let entries = directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names.filter_map(|name| Some(OsStr::to_str(&name)?.strip_prefix("holo-")?.to_owned())).collect()
}
