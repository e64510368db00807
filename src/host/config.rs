//! Reads `holorc` and its snippets, which list the enabled plugins.

use super::root::Root;
use crate::error::{FatalError, IoError};
use bstr::{BStr, BString, ByteSlice};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The merged contents of all configuration files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The plugins, without duplicates.
    pub plugins: Vec<PluginLine>,
    /// Lines whose programs do not exist, and which could not name a plugin either.
    pub missing: Vec<MissingProgram>,
    /// Snippets that were skipped because their names mark them as leftovers of package managers or editors.
    pub leftovers: Vec<PathBuf>,
}

/// A line `plugin ID` or `plugin ID=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginLine {
    /// The plugin's ID.
    pub id: String,
    /// The path of its program, if the line contains one.
    pub program: Option<PathBuf>,
    /// The location of the line.
    pub location: Location,
}

/// A line with a program that does not exist, such as one with a comment behind the ID. Like version 3, a run only warns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingProgram {
    /// The line, without `plugin`.
    pub line: BString,
    /// The path of the program.
    pub program: PathBuf,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub file: PathBuf,
    /// The line number, counted from 1.
    pub line: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file.display(), self.line)
    }
}

/// Two lines configure the same plugin, which would apply everything twice.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse configuration: plugin {id} is configured twice: in {first} and in {second}")]
pub struct ConfiguredTwiceError {
    /// The plugin's ID.
    pub id: String,
    /// The location of the first line.
    pub first: Location,
    /// The location of the second line.
    pub second: Location,
}

/// A line is not valid configuration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse configuration: unknown command: {text}")]
pub struct UnknownCommandError {
    /// The line, trimmed.
    pub text: BString,
    /// The location of the line.
    pub location: Location,
}

/// An error in the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A line is invalid.
    #[error(transparent)]
    UnknownCommand(#[from] UnknownCommandError),
    /// A plugin is configured twice.
    #[error(transparent)]
    ConfiguredTwice(#[from] Box<ConfiguredTwiceError>),
    /// A file or the directory cannot be read.
    #[error("cannot parse configuration: {0}")]
    Unreadable(#[from] IoError),
}

impl Configuration {
    /// Returns the warning about a snippet that was skipped.
    #[must_use]
    pub fn passed_over(&self, file: &Path) -> String {
        format!("Skipping {}: its name is that of a leftover or a backup", file.display())
    }
}

impl UnknownCommandError {
    /// Returns the location and the valid forms of a line.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!("{}: a line is empty, a comment (# …), `plugin ID` or `plugin ID=PATH`", self.location)
    }
}

impl From<ConfigError> for FatalError {
    fn from(error: ConfigError) -> Self {
        FatalError::could_not_run(error)
    }
}

/// Reads the snippets in the order of their names, then `holorc`.
///
/// If the inputs of an earlier run are in use, plugins that were configured later and have a directory among those
/// inputs are appended, so that the entities that they have made since are cleaned up.
///
/// # Errors
/// If a line is invalid, a plugin is configured twice, or a file cannot be read. `holorc` must exist, the directory of
/// snippets need not.
pub fn read(root: &Root) -> Result<Configuration, ConfigError> {
    let mut configuration = read_files(root)?;
    if root.earlier_inputs().is_some() {
        let today = read_files(&root.today()).map(|today| today.plugins).unwrap_or_default();
        let is_known = |id: &str| configuration.plugins.iter().any(|known| known.id == id);
        let new: Vec<PluginLine> = today.into_iter().filter(|line| !is_known(&line.id)).collect();
        configuration.plugins.extend(new.into_iter().filter(|line| root.resources().join(&line.id).is_dir()));
    }
    Ok(configuration)
}

fn read_files(root: &Root) -> Result<Configuration, ConfigError> {
    let mut configuration = Configuration::default();
    let (leftovers, snippets) =
        snippets(&root.holorc_snippets())?.into_iter().partition(|path| path.file_name().is_some_and(is_leftover));
    configuration.leftovers = leftovers;
    let mut locations: HashMap<String, Location> = HashMap::new();
    for file in Vec::into_iter(snippets).chain([root.holorc()]) {
        let text = read_file(&file).map_err(|error| IoError::new("open", &file, error))?;
        for line in parse(&text, &file)? {
            let line = match line {
                Line::Plugin(line) => line,
                Line::Other(text, location) => {
                    let program = program_of(&text, root).filter(|program| !program.exists());
                    let program = program.ok_or_else(|| UnknownCommandError { text: text.clone(), location })?;
                    configuration.missing.push(MissingProgram { line: rest_of(&text).into(), program });
                    continue;
                }
            };
            if let Some(first) = locations.insert(line.id.clone(), line.location.clone()) {
                return Err(Box::new(ConfiguredTwiceError { id: line.id, first, second: line.location }).into());
            }
            configuration.plugins.push(line);
        }
    }
    Ok(configuration)
}

/// Reads a file without blocking: the path may be a FIFO or a device. A link to `/dev/null` counts as an empty file.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let file =
        OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    let is_null = metadata.file_type().is_char_device() && metadata.rdev() == rustix::fs::makedev(1, 3);
    if is_null {
        return Ok(Vec::new());
    }
    if metadata.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    holo_system::content(file.into())
}

/// Suffixes of the names that package managers and editors give to backups and leftovers.
const LEFTOVERS: [&str; 21] = [
    "~",
    ".bak",
    ".orig",
    ".swp",
    ".swo",
    ".swx",
    ".rpmsave",
    ".rpmnew",
    ".rpmorig",
    ".dpkg-dist",
    ".dpkg-old",
    ".dpkg-new",
    ".dpkg-tmp",
    ".dpkg-bak",
    ".ucf-dist",
    ".ucf-old",
    ".ucf-new",
    ".pacnew",
    ".pacsave",
    ".pacorig",
    ".apk-new",
];

/// Returns true if the name is that of a backup or leftover of a package manager or editor.
#[must_use]
pub fn is_leftover(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let has_number =
        |name: &[u8]| name.split_once_str(".pacsave.").is_some_and(|(_, end)| end.iter().all(u8::is_ascii_digit));
    let is_emacs = name.starts_with(b".#") || (name.starts_with(b"#") && name.ends_with(b"#"));
    LEFTOVERS.iter().any(|end| name.ends_with_str(end)) || has_number(name) || is_emacs
}

fn snippets(folder: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(IoError::new("open", folder, error).into()),
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut files: Vec<PathBuf> = paths.map_err(|error| IoError::new("read", folder, error))?;
    files.retain(|path| !path.is_dir());
    files.sort();
    Ok(files)
}

/// A line that is neither empty nor a comment.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Plugin(PluginLine),
    /// Anything else after the word `plugin`.
    Other(BString, Location),
}

/// Returns what follows the word `plugin`.
fn rest_of(line: &[u8]) -> &BStr {
    line.strip_prefix(b"plugin").unwrap_or_default().trim_start().as_bstr()
}

/// Returns the path at which version 3 would look for the program of a line.
fn program_of(line: &[u8], root: &Root) -> Option<PathBuf> {
    let rest = rest_of(line);
    match rest.split_once_str("=") {
        Some((_, program)) => program.to_path().ok().map(Path::to_owned),
        None => Some(root.join("usr/lib/holo").join(format!("holo-{}", rest.to_str().ok()?))),
    }
}

fn parse(text: &[u8], file: &Path) -> Result<Vec<Line>, UnknownCommandError> {
    let lines = text.lines().map(|line| line.trim().as_bstr()).enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
        .map(|(index, line)| {
            let location = Location { file: file.to_owned(), line: index + 1 };
            match parse_line(line) {
                Some((id, program)) => Ok(Line::Plugin(PluginLine { id, program, location })),
                None if line.strip_prefix(b"plugin").is_some_and(|rest| rest.starts_with_str(" ")) => {
                    Ok(Line::Other(line.into(), location))
                }
                None => Err(UnknownCommandError { text: line.into(), location }),
            }
        })
        .collect()
}

fn parse_line(line: &BStr) -> Option<(String, Option<PathBuf>)> {
    let word = line.strip_prefix(b"plugin")?;
    let name = word.trim_start();
    if name.len() == word.len() {
        return None;
    }
    let (id, program) = name.split_once_str("=").map_or((name, None), |(id, program)| (id, Some(program)));
    let program = program.map(|path| path.to_path().map(Path::to_owned)).transpose().ok()?;
    let id = id.to_str().ok().filter(|id| is_id(id))?;
    // An empty path would mean the working directory.
    let is_path = program.as_ref().is_none_or(|path| !path.as_os_str().is_empty());
    is_path.then(|| (id.to_owned(), program))
}

/// Returns true if a directory can have this name. Version 3 never restricted the letters of an ID.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id != "." && id != ".." && !id.contains(|letter: char| letter == '/' || letter.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, program: Option<&str>) -> (String, Option<PathBuf>) {
        (id.to_owned(), program.map(PathBuf::from))
    }

    fn parsed(text: &str) -> Result<Vec<(String, Option<PathBuf>)>, UnknownCommandError> {
        let lines = parse(text.as_bytes(), Path::new("etc/holorc"))?;
        let plugin = |line| match line {
            Line::Plugin(line) => Some((line.id, line.program)),
            Line::Other(..) => None,
        };
        Ok(lines.into_iter().filter_map(plugin).collect())
    }

    #[test]
    fn plugins_comments_and_blanks_are_parsed() {
        assert_eq!(
            parsed("# x\n\n  plugin files\t\r\n#plugin no\nplugin  a-b=../my dir/x=y\n"),
            Ok(vec![line("files", None), line("a-b", Some("../my dir/x=y"))])
        );
        assert_eq!(parsed(""), Ok(vec![]));
    }

    #[test]
    fn other_lines_are_refused() {
        for bad in ["plugin", "plugins files", "pluginfiles", "include x"] {
            let error = parsed(bad).unwrap_err().to_string();
            assert_eq!(error, format!("cannot parse configuration: unknown command: {bad}"));
        }
    }

    #[test]
    fn lines_without_a_program_are_noted_and_others_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(Some(folder.path().as_os_str().to_owned()));
        let write = |text: &[u8]| {
            fs::create_dir_all(folder.path().join("etc")).unwrap();
            fs::write(folder.path().join("etc/holorc"), text).unwrap();
            read(&root)
        };
        for (line, program) in [
            ("a # comment", "usr/lib/holo/holo-a # comment"),
            ("a b", "usr/lib/holo/holo-a b"),
            ("../x", "usr/lib/holo/holo-../x"),
        ] {
            let missing = MissingProgram { line: line.into(), program: folder.path().join(program) };
            assert_eq!(write(format!("plugin {line}\n").as_bytes()).unwrap().missing, [missing]);
        }
        for (line, program) in [("a =/no/x", "/no/x"), ("=/no/x", "/no/x"), ("a=", "")] {
            let missing = MissingProgram { line: line.into(), program: program.into() };
            assert_eq!(write(format!("plugin {line}\n").as_bytes()).unwrap().missing, [missing]);
        }
        for bad in [&b"plugin a =/bin/sh\n"[..], b"plugin =/bin/sh\n", b"plugin \xff\n"] {
            assert!(matches!(write(bad), Err(ConfigError::UnknownCommand(_))));
        }
    }

    #[test]
    fn error_contains_the_line_number() {
        let error = parse(b"# one\nplugin a\nwhat\n", Path::new("etc/holorc")).unwrap_err();
        assert_eq!(error.location.to_string(), "etc/holorc, line 3");
    }

    #[test]
    fn leftovers_are_recognised() {
        for name in ["a~", "a.rpmsave", "a.dpkg-old", "a.ucf-dist", "a.pacsave.3", ".a.swp", "#a#", ".#a", "a.orig"] {
            assert!(is_leftover(OsStr::new(name)), "{name}");
        }
        for name in ["10-files", "10-files.conf", ".hidden", "a.pacsave.x", "swp", "bak", "a.rpmsave.d"] {
            assert!(!is_leftover(OsStr::new(name)), "{name}");
        }
    }
}
