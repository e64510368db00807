//! `--check`: runs `holo check` on a root with nothing but the package.

use crate::findings::Finding;
use crate::package::{Kind, Package, RESOURCES};
use holo_process::words::reason;
use holo_process::{Program, ProgramError, SYSTEM_PATH};
use serde_json::Value;
use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

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

/// The package cannot be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error("holo is not installed, so the package cannot be checked")]
    NoHolo,
    #[error("cannot unpack the package for its check: {}", reason(.0))]
    Unpack(#[from] io::Error),
    #[error("cannot check the package: {0}; --no-check builds it without")]
    Program(#[from] ProgramError),
    #[error("cannot check the package: {program}: {reason}; --no-check builds it without")]
    Failed { program: String, reason: String },
}

/// Returns the path of holo, if it is installed.
pub(crate) fn find_holo() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| SYSTEM_PATH.into());
    let found = env::split_paths(&path).map(|directory| directory.join("holo"));
    // Its plugins are beside it, not beside a symlink to it.
    { found }.find(|holo| holo.is_absolute() && holo.is_file()).and_then(|holo| holo.canonicalize().ok())
}

/// Checks the resource files of a package. `host` is the root directory of this machine.
pub(crate) fn check(package: &Package, name: &str, holo: &Path, host: &Path) -> Result<Vec<Finding>, CheckError> {
    let mut check = Check { package, name, findings: Vec::new(), root: tempfile::tempdir()? };
    let plugins = check.plugins(holo);
    check.files();
    if !plugins.is_empty() {
        check.unpack(&plugins, host)?;
        check.definitions(&check.events(holo, "check")?);
        check.unread(&check.events(holo, "scan")?, &plugins);
    }
    check.findings.sort_by_key(|finding| finding.line);
    Ok(check.findings)
}

struct Check<'a> {
    package: &'a Package,
    /// The name of the description.
    name: &'a str,
    findings: Vec<Finding>,
    root: TempDir,
}

impl Check<'_> {
    /// Returns the paths of all resource files, below the directory of all.
    fn resources(&self) -> impl Iterator<Item = (&str, &crate::package::Node)> {
        let below = self.package.nodes.range(RESOURCES.to_owned()..);
        let below = below.map_while(|(path, node)| Some((path.strip_prefix(RESOURCES)?, node)));
        below.filter(|(_, node)| !matches!(node.kind, Kind::Directory))
    }

    fn error(&mut self, below: &str, text: &str) {
        let path = format!("{RESOURCES}{below}");
        let line = self.package.nodes.get(&path).and_then(|node| node.origin.line());
        let file = self.name.to_owned();
        self.findings.push(Finding { file, line, is_error: true, text: format!("/{path}: {text}") });
    }

    /// Returns the plugins that are installed. Files of others are errors.
    fn plugins(&mut self, holo: &Path) -> Vec<String> {
        let directories = [holo.parent().unwrap_or(Path::new("/usr/bin")), Path::new("/usr/lib/holo")];
        let has = |plugin: &str| directories.iter().any(|directory| directory.join(format!("holo-{plugin}")).is_file());
        let mut used = BTreeSet::new();
        let mut wrong = Vec::new();
        for (below, _) in self.resources() {
            match below.split_once('/') {
                None => wrong.push((below.to_owned(), "no plugin reads a file here".to_owned())),
                Some((GENERATORS | DATA, _)) => {}
                Some((plugin, _)) if has(plugin) => drop(used.insert(plugin.to_owned())),
                Some((plugin, _)) => {
                    let names = installed(&directories);
                    let hint = holo_definitions::did_you_mean(plugin, names.iter().map(String::as_str));
                    let hint = hint.map(|hint| format!(", {hint}")).unwrap_or_default();
                    let remedy = "install it to check this file, or build with --no-check";
                    wrong.push((below.to_owned(), format!("no plugin {plugin} is installed{hint}; {remedy}")));
                }
            }
        }
        wrong.iter().for_each(|(below, text)| self.error(below, text));
        used.into_iter().collect()
    }

    /// Checks names and modes.
    fn files(&mut self) {
        let mut wrong = Vec::new();
        for (below, node) in self.resources() {
            let (plugin, rest) = below.split_once('/').unwrap_or_default();
            let is_program = match plugin {
                GENERATORS | "run-scripts" => !rest.contains('/') && !rest.ends_with(".toml"),
                "files" => rest.ends_with(".holoscript"),
                _ => false,
            };
            if is_program && matches!(node.kind, Kind::File { .. }) && node.mode & 0o111 == 0 {
                wrong.push((below.to_owned(), "is a script, but not executable; set mode = \"0755\""));
            }
            let first = rest.split_once('/').map(|(first, _)| first);
            if plugin == "files" && first.is_some_and(|first| TOP_DIRECTORIES.contains(&first)) {
                let text = "has no disambiguator; insert a directory such as 50-NAME after files/";
                wrong.push((below.to_owned(), text));
            }
        }
        wrong.iter().for_each(|(below, text)| self.error(below, text));
    }

    /// Writes the files of the package, and a configuration with these plugins instead of its own. Holo and its plugins
    /// write below other directories than that of the resource files. Symlinks there could lead out of the root, and
    /// are left out.
    fn unpack(&self, plugins: &[String], host: &Path) -> io::Result<()> {
        let root = self.root.path();
        for (path, node) in &self.package.nodes {
            let leads_out = matches!(node.kind, Kind::Symlink { .. }) && !path.starts_with(RESOURCES);
            if leads_out || path.starts_with("etc/holorc") {
                continue;
            }
            let path = root.join(path);
            match &node.kind {
                Kind::Directory => DirBuilder::new().mode(0o755).create(path)?,
                Kind::Symlink { target } => symlink(target, path)?,
                Kind::File { content, .. } => {
                    // We read it back, perhaps as a user who is not its owner.
                    let mode = node.mode & 0o777 | 0o400;
                    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
                    io::copy(&mut self.package.contents.reader(content), &mut file)?;
                }
            }
        }
        fs::create_dir_all(root.join("etc"))?;
        let configuration: String = plugins.iter().map(|plugin| format!("plugin {plugin}\n")).collect();
        fs::write(root.join("etc/holorc"), configuration)?;
        // Conditions and templates can refer to the distribution.
        if let (Ok(release), Ok(mut file)) =
            (fs::read(host.join("etc/os-release")), File::create_new(root.join("etc/os-release")))
        {
            io::Write::write_all(&mut file, &release)?;
        }
        Ok(())
    }

    /// Runs a command of holo, and returns the events that it reports.
    fn events(&self, holo: &Path, command: &str) -> Result<Vec<Value>, CheckError> {
        let mut program = Program::new(holo);
        program.args([command, "--json"]).env("HOLO_ROOT_DIR", self.root.path()).env("HOLO_HISTORY", "0");
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
        let root = format!("{}/", self.root.path().display());
        let (mut is_detail, mut last_line) = (false, None);
        for event in events {
            let is_error = event["event"] == "error";
            let Some(text) = event["text"].as_str().filter(|_| is_error || event["event"] == "warning") else {
                continue;
            };
            let named = text.split_once(&*root).map(|(_, rest)| rest);
            if let Some(rest) = named {
                last_line = self.line_of(rest);
            } else if !(is_error || is_detail && text.starts_with("line ")) {
                // It is about the run, not about the package.
                continue;
            }
            is_detail = is_error || is_detail && named.is_none();
            let (file, text) = (self.name.to_owned(), text.replace(&*root, "/"));
            self.findings.push(Finding { file, line: last_line, is_error, text });
        }
    }

    /// Returns the line of the file whose path begins a text.
    fn line_of(&self, text: &str) -> Option<usize> {
        let ends = text.char_indices().map(|(index, _)| index).chain([text.len()]);
        let paths = ends.rev().filter_map(|end| text.get(..end));
        let node = paths.filter_map(|path| self.package.nodes.get(path)).next();
        node.and_then(|node| node.origin.line())
    }

    /// Reports files that are the source of no entity.
    fn unread(&mut self, events: &[Value], plugins: &[String]) {
        let root = format!("{}/{RESOURCES}", self.root.path().display());
        let sources = events.iter().filter_map(|event| event["sources"].as_array()).flatten().filter_map(Value::as_str);
        let read: BTreeSet<&str> = sources.filter_map(|source| source.strip_prefix(&*root)).collect();
        let is_definition = |rest: &str| !rest.contains('/') && DEFINITIONS.iter().any(|suffix| rest.ends_with(suffix));
        let texts = self.resources().filter_map(|(below, node)| match &node.kind {
            Kind::File { content, .. } => {
                let (plugin, _) = below.split_once('/').filter(|(_, rest)| is_definition(rest))?;
                let mut text = String::new();
                self.package.contents.reader(content).read_to_string(&mut text).ok()?;
                Some((plugin.to_owned(), text))
            }
            _ => None,
        });
        let texts: Vec<(String, String)> = texts.collect();
        let mut unread = Vec::new();
        for (below, _) in self.resources() {
            let (plugin, rest) = below.split_once('/').unwrap_or_default();
            let is_judged = READ_ALL.contains(&plugin) && plugins.iter().any(|installed| installed == plugin);
            let is_reported = self.findings.iter().any(|finding| finding.text.contains(&format!("/{below}: ")));
            // A definition of files can name the file with a content.
            let is_named = || texts.iter().any(|(of, text)| of == plugin && text.contains(rest));
            if is_judged && !is_definition(rest) && !is_reported && !read.contains(below) && !is_named() {
                unread.push((below.to_owned(), format!("the plugin {plugin} does not read this file")));
            }
        }
        for (below, text) in &unread {
            // What is a warning on a machine is an error in a package.
            self.findings.retain(|finding| !finding.text.contains(&format!("/{below} is not used: ")));
            self.error(below, text);
        }
    }
}

/// Returns the names of the plugins in directories.
fn installed(directories: &[&Path]) -> Vec<String> {
    let entries = directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names.filter_map(|name| Some(OsStr::to_str(&name)?.strip_prefix("holo-")?.to_owned())).collect()
}
