//! `holorc` and its snippets: which plugins are asked for.

use crate::error::{self, Fatal};
use crate::root::Root;
use bstr::{BStr, BString, ByteSlice};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A line `plugin ID` or `plugin ID=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginLine {
    /// The plugin's ID.
    pub id: String,
    /// Where its program is, if the line says so.
    pub program: Option<PathBuf>,
}

/// A line that is no configuration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse configuration: unknown command: {text}")]
pub struct UnknownCommand {
    /// The line, trimmed.
    pub text: BString,
    /// The file it stands in.
    pub file: PathBuf,
    /// Its place there, counted from 1.
    pub line: usize,
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A line is not understood.
    #[error(transparent)]
    UnknownCommand(#[from] UnknownCommand),
    /// A file or the folder cannot be read.
    #[error("cannot parse configuration: {0}")]
    Unreadable(String),
}

impl From<ConfigError> for Fatal {
    fn from(error: ConfigError) -> Self {
        Fatal::CouldNotRun(error.to_string())
    }
}

/// Reads the snippets in the order of their names, then `holorc`.
///
/// # Errors
/// If a line is not understood or a file cannot be read; `holorc` must exist, the snippets' folder need not.
pub fn read(root: &Root) -> Result<Vec<PluginLine>, ConfigError> {
    let mut plugins = Vec::new();
    for file in snippets(&root.holorc_snippets())?.into_iter().chain([root.holorc()]) {
        let text = fs::read(&file).map_err(|error| unreadable("open", &file, &error))?;
        plugins.extend(parse(&text, &file)?);
    }
    Ok(plugins)
}

fn unreadable(operation: &str, path: &Path, error: &io::Error) -> ConfigError {
    ConfigError::Unreadable(error::at(operation, path, error))
}

fn snippets(folder: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable("open", folder, &error)),
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut files: Vec<PathBuf> = paths.map_err(|error| unreadable("read", folder, &error))?;
    files.retain(|path| !path.is_dir());
    files.sort();
    Ok(files)
}

fn parse(text: &[u8], file: &Path) -> Result<Vec<PluginLine>, UnknownCommand> {
    let lines = text.lines().map(|line| line.trim().as_bstr()).enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
        .map(|(index, line)| {
            parse_line(line).ok_or_else(|| UnknownCommand { text: line.into(), file: file.to_owned(), line: index + 1 })
        })
        .collect()
}

fn parse_line(line: &BStr) -> Option<PluginLine> {
    let word = line.strip_prefix(b"plugin")?;
    let name = word.trim_start();
    if name.len() == word.len() {
        return None;
    }
    let (id, program) = name.split_once_str("=").map_or((name, None), |(id, program)| (id, Some(program)));
    let program = program.map(|path| path.to_path().map(Path::to_owned)).transpose().ok()?;
    let id = id.to_str().ok().filter(|id| is_id(id))?;
    // An empty path would be the working directory.
    let is_path = program.as_ref().is_none_or(|path| !path.as_os_str().is_empty());
    is_path.then(|| PluginLine { id: id.to_owned(), program })
}

/// Whether this can name directories of its own, as an ID does. Version 3 never insisted on its letters.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id != "." && id != ".." && !id.contains(|letter: char| letter == '/' || letter.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, program: Option<&str>) -> PluginLine {
        PluginLine { id: id.to_owned(), program: program.map(PathBuf::from) }
    }

    fn parsed(text: &str) -> Result<Vec<PluginLine>, String> {
        parse(text.as_bytes(), Path::new("etc/holorc")).map_err(|error| error.to_string())
    }

    #[test]
    fn understands_plugins_comments_and_blanks() {
        assert_eq!(
            parsed("# x\n\n  plugin files\t\r\n#plugin no\nplugin  a-b=../my dir/x=y\n"),
            Ok(vec![line("files", None), line("a-b", Some("../my dir/x=y"))])
        );
        assert_eq!(parsed(""), Ok(vec![]));
    }

    #[test]
    fn refuses_everything_else() {
        for bad in [
            "plugin",
            "plugins files",
            "pluginfiles",
            "include x",
            "plugin a b",
            "plugin ../x",
            "plugin =x",
            "plugin a=",
        ] {
            assert_eq!(parsed(bad), Err(format!("cannot parse configuration: unknown command: {bad}")));
        }
        assert!(parse(b"plugin \xff", Path::new("x")).is_err());
    }

    #[test]
    fn knows_where_the_bad_line_stands() {
        let error = parse(b"# one\nplugin a\nwhat\n", Path::new("etc/holorc")).unwrap_err();
        assert_eq!((error.line, error.file.as_path()), (3, Path::new("etc/holorc")));
    }
}
