//! `holo adopt --package`: a description for holo-build that installs the resource files as a package.

use super::write::{LOCAL, Plan, Step};
use crate::error::FatalError;
use crate::report::Adopted;
use bstr::ByteSlice;
use holo_definitions::values::quoted;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// The beginning of the names of definition files.
const DEFINITIONS: &str = "adopted";

/// Writes the description to a new file. Returns what was adopted.
pub(super) fn describe(plan: Plan, name: &str, output: &Path) -> Result<Vec<Adopted>, FatalError> {
    if plan.is_empty() {
        return Ok(Vec::new());
    }
    let host = rustix::system::uname();
    let host = host.nodename().to_str().ok().filter(|host| !host.is_empty() && !host.contains(['<', '>', ' ']));
    let author = quoted(&format!("root <root@{}>", host.unwrap_or("localhost")));
    let mut text = format!("[package]\nname = {}\nversion = \"1.0\"\nauthor = {author}\n", quoted(name));
    for (path, step) in plan.steps() {
        let failed = |error| FatalError::io("describe", path, error);
        text += &table(&installed(path.strip_prefix(plan.root()).unwrap_or(path), name), step).map_err(failed)?;
    }
    let failed = |error| FatalError::io("write", output, error);
    let mut file = File::create_new(output).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    let written = plan.into_adopted().into_iter();
    Ok(written.map(|adopted| Adopted { written: vec![output.to_owned()], ..adopted }).collect())
}

/// Returns the path at which a package installs a resource file. The name of the package replaces that of local
/// changes, so that two packages do not contain the same file.
fn installed(below: &Path, name: &str) -> PathBuf {
    let mut path = PathBuf::from("/usr/share/holo");
    for (depth, part) in below.components().enumerate() {
        let text = part.as_os_str().to_str();
        match text.and_then(|text| Some((text, text.strip_prefix(DEFINITIONS)?))) {
            _ if depth == 1 && part == Component::Normal(LOCAL.as_ref()) => path.push(format!("90-{name}")),
            Some((_, rest)) if depth == 1 => path.push(format!("90-{name}{rest}")),
            _ => path.push(part),
        }
    }
    path
}

/// Returns the table of a file.
fn table(path: &Path, step: &Step) -> io::Result<String> {
    let not_utf8 = || io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8, so a description cannot contain it");
    let shown = quoted(path.as_os_str().as_bytes().to_str().map_err(|_| not_utf8())?);
    let (content, mode) = match step {
        Step::Remove => return Ok(String::new()),
        Step::Write(content) => (content.clone(), 0o644),
        Step::Copy(made) => {
            let metadata = made.symlink_metadata()?;
            if metadata.is_symlink() {
                let target = fs::read_link(made)?;
                let target = quoted(target.as_os_str().as_bytes().to_str().map_err(|_| not_utf8())?);
                return Ok(format!("\n[[symlink]]\npath = {shown}\ntarget = {target}\n"));
            }
            (fs::read(made)?, metadata.permissions().mode() & 0o777)
        }
    };
    let content = multi_line(content.to_str().map_err(|_| not_utf8())?);
    Ok(format!("\n[[file]]\npath = {shown}\nmode = \"{mode:04o}\"\nraw = true\ncontent = {content}\n"))
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
    fn paths_contain_the_name_of_the_package() {
        for (below, expected) in [
            ("files/90-local/etc/90-local", "files/90-x/etc/90-local"),
            ("packages/adopted-web.toml", "packages/90-x-web.toml"),
            ("services/adopted.toml", "services/90-x.toml"),
            ("files/10-y/adopted", "files/10-y/adopted"),
        ] {
            assert_eq!(installed(Path::new(below), "x"), Path::new("/usr/share/holo").join(expected));
        }
    }
}
