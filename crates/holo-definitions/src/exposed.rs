//! Definition files that contain sensitive values, but are world-readable.

use crate::ResourceDirs;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use toml::Table;

const READABLE_BY_OTHERS: u32 = 0o004;

/// Returns the world-readable definition files with a table that contains a value and sets `sensitive = true`.
#[must_use]
pub fn exposed_files(directories: &ResourceDirs) -> Vec<PathBuf> {
    let files = directories.list(Path::new("")).unwrap_or_default().into_iter().map(|file| file.path);
    let mut exposed: Vec<PathBuf> = files.filter(|path| is_readable_by_others(path) && is_sensitive(path)).collect();
    exposed.sort();
    exposed
}

fn is_readable_by_others(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & READABLE_BY_OTHERS != 0)
}

fn is_sensitive(path: &Path) -> bool {
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let text = if is_toml { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    // A sensitive source is in another file, with a mode of its own.
    let is_secret = |table: &Table| {
        let is_declared = table.get("sensitive").and_then(toml::Value::as_bool) == Some(true);
        is_declared && !table.contains_key("source")
    };
    let tables: Table =
        if text.contains("sensitive") { toml::from_str(&text).unwrap_or_default() } else { Table::new() };
    tables.values().filter_map(toml::Value::as_array).flatten().filter_map(toml::Value::as_table).any(is_secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn only_what_is_written_down_for_everybody_is_exposed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        let secret = "[[file]]\npath = \"/x\"\ncontent = \"s\"\nsensitive = true\n";
        write("a.toml", secret, 0o644);
        write("b.toml", secret, 0o640);
        write("c.toml", "[[file]]\npath = \"/x\"\nsource = \"s\"\nsensitive = true\n", 0o644);
        write("d.toml", "[[file]]\npath = \"/x\"\nsensitive = false\n", 0o644);
        write("e.toml", "sensitive = [", 0o644);
        write("f.txt", secret, 0o644);
        assert_eq!(exposed_files(&folder.path().to_owned().into()), [folder.path().join("a.toml")]);
    }
}
