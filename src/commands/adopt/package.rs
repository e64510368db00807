//! `holo adopt --package`: a description for holo-build that installs the resource files as a package.

use super::definitions;
use super::write::{LOCAL, Plan, Step};
use crate::error::FatalError;
use crate::report::Adopted;
use bstr::ByteSlice;
use holo_definitions::values::quoted;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The parent of the resource directories of packages.
const INSTALLED: &str = "/usr/share/holo";
/// The beginning of the names of definition files.
const DEFINITIONS: &str = "adopted";

/// Writes the description to a new file. Contents that it cannot contain become files in a directory next to it.
/// Returns what was adopted.
pub(super) fn describe(plan: Plan, name: &str, output: &Path) -> Result<Vec<Adopted>, FatalError> {
    if plan.is_empty() {
        return Ok(Vec::new());
    }
    let host = rustix::system::uname();
    let host = host.nodename().to_str().ok().filter(|host| !host.is_empty() && !host.contains(['<', '>', ' ']));
    let author = quoted(&format!("root <root@{}>", host.unwrap_or("localhost")));
    let mut text = format!("[package]\nname = {}\nversion = \"1.0\"\nauthor = {author}\n", quoted(name));
    // In a relative path that is not UTF-8, the name of the package stands in for that of the description.
    let directory = output.file_stem().and_then(OsStr::to_str).unwrap_or(name);
    let directory = PathBuf::from(format!("{directory}.files"));
    let mut contents = Vec::new();
    for (path, step) in plan.steps() {
        let failed = |error| FatalError::io("describe", path, error);
        let to = installed(path.strip_prefix(plan.root()).unwrap_or(path), name);
        text += &table(&to, &directory, step, &mut contents).map_err(failed)?;
    }
    let failed = |error| FatalError::io("write", output, error);
    let mut file = File::create_new(output).map_err(failed)?;
    let written = contents.iter().try_for_each(|(below, content)| {
        let path = output.with_file_name(below);
        write_new(&path, content).map_err(|error| FatalError::io("write", &path, error))
    });
    let written = written.and_then(|()| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed));
    if written.is_err() {
        // A partial description would be in the way of the next run.
        let _ = fs::remove_file(output);
    }
    written?;
    let written = plan.into_adopted().into_iter();
    Ok(written.map(|adopted| Adopted { written: vec![output.to_owned()], ..adopted }).collect())
}

/// Writes a new file, whose content may be a secret.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Returns the path at which a package installs a resource file. The name of the package replaces that of local
/// changes, so that two packages do not contain the same file. Definitions refer to other files by their names.
fn installed(below: &Path, name: &str) -> PathBuf {
    let mut path = PathBuf::from(INSTALLED);
    for (depth, part) in below.components().enumerate() {
        let first = part.as_os_str().to_str().filter(|_| depth == 1);
        let definitions = first.filter(|text| definitions::is_file_name(text));
        let number = first.filter(|text| LOCAL.contains(text)).and_then(|text| text.strip_suffix("local"));
        match (definitions.and_then(|text| text.strip_prefix(DEFINITIONS)), number) {
            (Some(rest), _) => path.push(format!("90-{name}{rest}")),
            (None, Some(number)) => path.push(format!("{number}{name}")),
            (None, None) => path.push(part),
        }
    }
    path
}

/// Returns the table of a file. A content that is not UTF-8 is added to `contents`, with its path below `directory`.
fn table(path: &Path, directory: &Path, step: &Step, contents: &mut Vec<(PathBuf, Vec<u8>)>) -> io::Result<String> {
    let shown = quoted(&path.to_string_lossy());
    let (content, mode) = match step {
        Step::Remove => return Ok(String::new()),
        Step::Write(content) => (content.clone(), 0o644),
        Step::Copy(made) => {
            let metadata = made.symlink_metadata()?;
            if metadata.is_symlink() {
                let target = quoted(&fs::read_link(made)?.to_string_lossy());
                return Ok(format!("\n[[symlink]]\npath = {shown}\ntarget = {target}\n"));
            }
            (fs::read(made)?, metadata.permissions().mode() & 0o7777)
        }
    };
    let mut table = format!("\n[[file]]\npath = {shown}\nmode = \"{mode:04o}\"\n");
    match content.to_str() {
        Ok(text) => table += &format!("raw = true\ncontent = {}\n", multi_line(text)),
        Err(_) => {
            let below = directory.join(path.strip_prefix(INSTALLED).unwrap_or(path));
            table += &format!("contentFrom = {}\n", quoted(&below.to_string_lossy()));
            contents.push((below, content));
        }
    }
    Ok(table)
}

/// Returns a text as a TOML string with line breaks.
fn multi_line(text: &str) -> String {
    let is_plain = !text.contains(|letter: char| letter.is_control() && !"\n\t".contains(letter));
    if is_plain && !text.contains("'''") && !text.ends_with('\'') {
        return format!("'''\n{text}'''");
    }
    let inside = |line: &str| {
        let quoted = quoted(line);
        quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
    };
    let lines: Vec<String> = text.split('\n').map(inside).collect();
    format!("\"\"\"\n{}\"\"\"", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        for text in ["a\n", "a", "\n\na\n", "\"\"\"\n'''\\\t\r\n\u{7f}\"", "\"", "\\", "é\n  x\n"] {
            let table: toml::Table = format!("x = {}", multi_line(text)).parse().unwrap();
            assert_eq!(table["x"].as_str(), Some(text), "{}", multi_line(text));
        }
    }

    #[test]
    fn contents_that_are_no_text_are_separate_files() {
        let directory = tempfile::tempdir().unwrap();
        let made = directory.path().join("made");
        fs::write(&made, b"\xff").unwrap();
        fs::set_permissions(&made, fs::Permissions::from_mode(0o4750)).unwrap();
        let mut contents = Vec::new();
        let path = Path::new("/usr/share/holo/files/90-x/a");
        let text = table(path, Path::new("web.files"), &Step::Copy(made), &mut contents).unwrap();
        let expected = "\n[[file]]\npath = \"/usr/share/holo/files/90-x/a\"\nmode = \"4750\"\n\
                        contentFrom = \"web.files/files/90-x/a\"\n";
        assert_eq!(text, expected);
        assert_eq!(contents, [(PathBuf::from("web.files/files/90-x/a"), b"\xff".to_vec())]);
    }

    #[test]
    fn paths_contain_the_name_of_the_package() {
        for (below, expected) in [
            ("files/90-local/etc/90-local", "files/90-x/etc/90-local"),
            ("files/10-local/etc/ssh/sshd_config", "files/10-x/etc/ssh/sshd_config"),
            ("packages/adopted-web.toml", "packages/90-x-web.toml"),
            ("services/adopted.toml", "services/90-x.toml"),
            ("files/adopted-etc-x.content", "files/adopted-etc-x.content"),
            ("files/10-y/adopted", "files/10-y/adopted"),
        ] {
            assert_eq!(installed(Path::new(below), "x"), Path::new("/usr/share/holo").join(expected));
        }
    }
}
