//! Overrides and diversions that an administrator has set with `dpkg-statoverride` and `dpkg-divert`. No definition describes them, so they
//! are listed as not adopted, with the command that sets them.

use super::exclusions::Exclusions;
use super::unmanaged::{definable, left_as};
use crate::overlay::PREFIX;
use bstr::ByteSlice;
use holo_plugin::system::{Diversion, DiversionsError, Root};
use holo_plugin::{Candidate, quoted};
use std::path::{Path, PathBuf};

/// The owners and modes with which dpkg installs files instead of those in their packages.
const OVERRIDES: &str = "/var/lib/dpkg/statoverride";
const DIVERSIONS: &str = "/var/lib/dpkg/diversions";

/// An owner and mode for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Override {
    /// The name of a user, or `#` and a number.
    owner: String,
    group: String,
    mode: u32,
    path: PathBuf,
}

/// The file of overrides has a malformed line. Dpkg refuses to run in this case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("dpkg cannot read it, because line {line} is not an override")]
struct OverridesError {
    line: usize,
}

/// Lists the overrides that no maintainer script is known to set, as dpkg does not record who has set them.
pub(super) fn overrides(root: &Root, exclusions: &Exclusions) -> Vec<Candidate> {
    let text = root.read(OVERRIDES).ok().flatten().unwrap_or_default();
    let candidate = |one: &Override| {
        let Override { owner, group, mode, path } = one;
        let reason = "no script of an installed package is known to set this override of its owner and mode";
        let names = format!("{} {}", quoted(owner), quoted(group));
        let command = |path| format!("dpkg-statoverride --update --add {names} {mode:04o} {}", quoted(path));
        left_as(b"statoverride:", path, reason, definable(path).ok().map(command))
    };
    let is_listed = |one: &&Override| !exclusions.sets_override(&one.path, &one.owner, &one.group, one.mode);
    match parse_overrides(&text) {
        Ok(overrides) => overrides.iter().filter(is_listed).map(candidate).collect(),
        Err(error) => vec![left_as(PREFIX, Path::new(OVERRIDES), &error.to_string(), None)],
    }
}

fn parse_overrides(text: &[u8]) -> Result<Vec<Override>, OverridesError> {
    let parse = |line: &[u8]| {
        let mut fields = line.splitn_str(4, " ");
        let mut name = || fields.next()?.to_str().ok().filter(|name| !name.is_empty()).map(str::to_owned);
        let (owner, group, mode) = (name()?, name()?, u32::from_str_radix(&name()?, 8).ok()?);
        let path = fields.next().filter(|path| path.starts_with(b"/"))?.to_path_lossy().into_owned();
        (mode <= 0o7777).then_some(Override { owner, group, mode, path })
    };
    text.lines().zip(1..).map(|(text, line)| parse(text).ok_or(OverridesError { line })).collect()
}

/// Lists the diversions that do not come with a package.
pub(super) fn diversions(diversions: &Result<Vec<Diversion>, DiversionsError>) -> Vec<Candidate> {
    let candidate = |Diversion { from, to, .. }: &Diversion| {
        let reason = "it was diverted by hand; another system needs the diversion before the first apply";
        let paths = definable(from).ok().zip(definable(to).ok());
        let command = paths
            .map(|(from, to)| format!("dpkg-divert --local --rename --divert {} --add {}", quoted(to), quoted(from)));
        left_as(b"diversion:", from, reason, command)
    };
    match diversions {
        Ok(diversions) => diversions.iter().filter(|one| one.package.is_none()).map(candidate).collect(),
        Err(error) => vec![left_as(PREFIX, Path::new(DIVERSIONS), &error.to_string(), None)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(owner: &str, group: &str, mode: u32, path: &str) -> Override {
        Override { owner: owner.into(), group: group.into(), mode, path: path.into() }
    }

    #[test]
    fn overrides_are_parsed_as_by_dpkg() {
        let text = b"root adm 750 /usr/bin/x\n#1000 root 04755 /opt/a b\n";
        let expected = vec![one("root", "adm", 0o750, "/usr/bin/x"), one("#1000", "root", 0o4755, "/opt/a b")];
        assert_eq!(parse_overrides(text), Ok(expected));
        assert_eq!(parse_overrides(b""), Ok(vec![]));
        for line in [
            "",
            "root",
            "root adm 750",
            "root adm 750 ",
            "root adm 750 usr/bin/x",
            "root adm 8 /x",
            "root adm 10000 /x",
            "root adm -1 /x",
            "root  750 /x",
            "root adm 99999999999 /x",
        ] {
            let text = format!("root adm 750 /x\n{line}\n");
            assert_eq!(parse_overrides(text.as_bytes()), Err(OverridesError { line: 2 }), "{line:?}");
        }
        assert_eq!(parse_overrides(b"\xff root 750 /x\n"), Err(OverridesError { line: 1 }));
    }

    #[test]
    fn local_diversions_are_listed_with_quoted_paths() {
        let diversion = |from: &str, package: Option<&str>| Diversion {
            from: from.into(),
            to: format!("{from}.real").into(),
            package: package.map(str::to_owned),
        };
        let lines = |found: &Result<_, _>| -> Vec<String> {
            diversions(found).iter().map(|candidate| candidate.to_line().to_string()).collect()
        };
        let found = Ok(vec![diversion("/a b", None), diversion("/c", Some("p")), diversion("/d\ne", None)]);
        let reason = "it was diverted by hand; another system needs the diversion before the first apply";
        assert_eq!(
            lines(&found),
            [
                format!(
                    "diversion:/a b\t{reason}\t\texcluded\tdpkg-divert --local --rename --divert '/a b.real' --add '/a b'"
                ),
                format!("diversion:/d\\ne\t{reason}\t\texcluded"),
            ]
        );
        assert_eq!(
            lines(&Err(DiversionsError { line: 4 })),
            [
                "file:/var/lib/dpkg/diversions\tdpkg cannot read it, because line 4 is not part of a diversion\t\texcluded"
            ]
        );
    }
}
