//! Accounts that packages create, as far as their files tell: the places to search, and their formats.

use bstr::ByteSlice;
use holo_plugin::system::Root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How a file names accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Lines such as those of `/etc/passwd`.
    Colons,
    /// Lines of sysusers.d.
    Sysusers,
    /// Scripts that call a tool which creates accounts, and contain the name.
    Scripts,
}

/// Files of packages: a directory, the suffixes of file names, and whether each package has a subdirectory.
struct Place {
    directory: &'static str,
    ends: &'static [&'static str],
    is_nested: bool,
    format: Format,
}

const PLACES: [Place; 6] = [
    Place { directory: "usr/share/base-passwd", ends: &[".master"], is_nested: false, format: Format::Colons },
    Place { directory: "usr/share/doc/setup", ends: &["uidgid"], is_nested: false, format: Format::Colons },
    Place { directory: "usr/lib/sysusers.d", ends: &[".conf"], is_nested: false, format: Format::Sysusers },
    Place {
        directory: "var/lib/dpkg/info",
        ends: &[".preinst", ".postinst", ".config"],
        is_nested: false,
        format: Format::Scripts,
    },
    Place { directory: "var/lib/pacman/local", ends: &["install"], is_nested: true, format: Format::Scripts },
    Place { directory: "usr/share/factory/etc", ends: &["passwd", "group"], is_nested: false, format: Format::Colons },
];

/// The tools with which scripts create accounts.
const TOOLS: [&str; 5] = ["adduser", "useradd", "addgroup", "groupadd", "systemd-sysusers"];

/// The files of packages that may name accounts.
#[derive(Debug)]
pub(crate) struct Packages<'r> {
    root: &'r Root,
}

/// Accounts that packages create.
#[derive(Debug)]
pub(crate) struct MadeByPackages(BTreeSet<String>);

impl MadeByPackages {
    /// Returns true if no package creates an account of this name.
    pub(crate) fn is_unknown(&self, name: &str) -> bool {
        !self.0.contains(name)
    }
}

impl<'r> Packages<'r> {
    pub(crate) fn read(root: &'r Root) -> Packages<'r> {
        Packages { root }
    }

    /// Returns which of these accounts packages create, or `None` if the scripts of packages cannot be read.
    pub(crate) fn accounts_among(&self, names: &BTreeSet<&str>) -> Option<MadeByPackages> {
        let has_scripts = PLACES.iter().any(|place| place.format == Format::Scripts && self.root.has(place.directory));
        if !has_scripts || names.is_empty() {
            return None;
        }
        let mut left: BTreeSet<&str> = names.clone();
        for place in &PLACES {
            for path in self.files(place) {
                let Ok(Some(text)) = self.root.read(&path) else { continue };
                left.retain(|name| !is_about(place.format, &text, name));
            }
        }
        let made = names.iter().filter(|name| !left.contains(*name));
        Some(MadeByPackages(made.map(ToString::to_string).collect()))
    }

    /// Returns true if a package adds the user to the group, as far as its files tell.
    pub(crate) fn connect(&self, user: &str, group: &str) -> bool {
        PLACES.iter().any(|place| {
            self.files(place).iter().any(|path| {
                let Ok(Some(text)) = self.root.read(path) else { return false };
                match place.format {
                    Format::Scripts => has_word(&text, user) && has_word(&text, group),
                    Format::Sysusers => text.lines().any(|line| {
                        let words: Vec<&[u8]> = line.fields().collect();
                        matches!(words[..], [b"m", one, other, ..] if one == user.as_bytes() && other == group.as_bytes())
                    }),
                    // These lines end with the members of a group.
                    Format::Colons => text.lines().any(|line| {
                        line.starts_with(format!("{group}:").as_bytes()) && has_word(line, user)
                    }),
                }
            })
        })
    }

    fn files(&self, place: &Place) -> Vec<PathBuf> {
        let directory = Path::new(place.directory);
        let names = self.root.names(directory).unwrap_or_default();
        if place.is_nested {
            return names
                .iter()
                .flat_map(|name| place.ends.iter().map(move |file| directory.join(name).join(file)))
                .collect();
        }
        let has_end =
            |name: &&std::ffi::OsString| place.ends.iter().any(|end| name.as_encoded_bytes().ends_with(end.as_bytes()));
        names.iter().filter(has_end).map(|name| directory.join(name)).collect()
    }
}

/// Returns true if a file of a package creates the account.
fn is_about(format: Format, text: &[u8], name: &str) -> bool {
    match format {
        Format::Colons => text.lines().any(|line| {
            let first = line.split(|byte| *byte == b':' || byte.is_ascii_whitespace()).next();
            first == Some(name.as_bytes())
        }),
        Format::Sysusers => text.lines().any(|line| {
            let mut words = line.fields();
            let makes = words.next().is_some_and(|word| word.starts_with(b"u") || word == b"g");
            makes && words.next().is_some_and(|word| word.trim_with(|letter| letter == '"') == name.as_bytes())
        }),
        Format::Scripts => TOOLS.iter().any(|tool| text.contains_str(tool)) && has_word(text, name),
    }
}

fn has_word(text: &[u8], word: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte));
    text.find_iter(word).any(|start| {
        let before = start.checked_sub(1).and_then(|index| text.get(index));
        !is_part(before) && !is_part(text.get(start + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_in_each_format() {
        let script = b"#!/bin/sh\nUSER=_app\nadduser --system $USER\nchown web-data /srv\n";
        assert!(is_about(Format::Scripts, script, "_app") && is_about(Format::Scripts, script, "web-data"));
        assert!(!is_about(Format::Scripts, script, "web") && !is_about(Format::Scripts, script, "app"));
        assert!(!is_about(Format::Scripts, b"chown web-data /srv\n", "web-data"));
        let sysusers = b"#u x\nu! a 7\ng \"b\" -\nm c d\nr - 500-900\n";
        let of_sysusers = |name| is_about(Format::Sysusers, sysusers, name);
        assert!(of_sysusers("a") && of_sysusers("b"));
        assert!(!of_sysusers("c") && !of_sysusers("d") && !of_sysusers("x") && !of_sysusers("-"));
        assert!(is_about(Format::Colons, b"a:x:1\nb\tc\n", "b") && !is_about(Format::Colons, b"a:x:1\n", "x"));
    }
}
