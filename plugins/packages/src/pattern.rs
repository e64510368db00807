//! The versions that a definition accepts: an exact one, a glob, or a range.

use crate::providers::PackageProvider;
use std::fmt::{self, Display};

/// A set of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VersionPattern {
    /// Versions that the package manager considers equal to this one.
    Exact(String),
    /// Versions that match this glob, in which `*` stands for any text.
    Glob(String),
    /// Versions that satisfy all of these comparisons.
    Range(Vec<(Comparison, String)>),
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    AtMost,
    Equal,
    Not,
    AtLeast,
    Greater,
}

/// The operators as written, longer ones first.
const COMPARISONS: [(&str, Comparison); 7] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("!=", Comparison::Not),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

impl Display for VersionPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionPattern::Exact(text) | VersionPattern::Glob(text) => f.write_str(text),
            VersionPattern::Range(bounds) => {
                for (number, (comparison, version)) in bounds.iter().enumerate() {
                    let sign = COMPARISONS.iter().find(|(_, known)| known == comparison).map_or("", |(sign, _)| sign);
                    write!(f, "{}{sign} {version}", if number == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

impl VersionPattern {
    /// Parses a pattern. Its versions are not validated.
    pub(crate) fn parse(text: &str) -> VersionPattern {
        if text.contains(['<', '>', '=', '!', ',']) {
            return VersionPattern::Range(text.split(',').map(bound).collect());
        }
        let text = text.to_owned();
        if text.contains('*') { VersionPattern::Glob(text) } else { VersionPattern::Exact(text) }
    }

    /// Returns the versions in the pattern.
    pub(crate) fn versions(&self) -> Vec<&str> {
        match self {
            VersionPattern::Exact(version) | VersionPattern::Glob(version) => vec![version],
            VersionPattern::Range(bounds) => bounds.iter().map(|(_, version)| version.as_str()).collect(),
        }
    }

    /// Returns true if versions that the package manager considers different may match.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, VersionPattern::Exact(_))
    }

    /// Returns true if a version matches.
    pub(crate) fn fits(&self, version: &str, provider: &dyn PackageProvider) -> bool {
        match self {
            VersionPattern::Exact(asked) => provider.matches(asked, version),
            VersionPattern::Glob(glob) => {
                let has_epoch = |version: &str| version.split_once(':').is_some_and(|(epoch, _)| is_number(epoch));
                let plain = version.split_once(':').filter(|_| has_epoch(version) && !has_epoch(glob));
                is_like(plain.map_or(version, |(_, rest)| rest), glob)
            }
            VersionPattern::Range(bounds) => bounds.iter().all(|(comparison, asked)| {
                // As everywhere, parts that are left out match any value.
                let is_equal = provider.matches(asked, version);
                let order = provider.compare(version, asked);
                match comparison {
                    Comparison::Equal => is_equal,
                    Comparison::Not => !is_equal,
                    Comparison::Less => !is_equal && order.is_lt(),
                    Comparison::AtMost => is_equal || order.is_lt(),
                    Comparison::Greater => !is_equal && order.is_gt(),
                    Comparison::AtLeast => is_equal || order.is_gt(),
                }
            }),
        }
    }

    /// Returns a version that matches, for the mock manager.
    pub(crate) fn example(&self, provider: &dyn PackageProvider) -> Option<String> {
        let named = self.versions().into_iter().map(|version| version.replace('*', "0"));
        let all: Vec<String> = named.flat_map(|version| [version.clone(), format!("{version}.1")]).collect();
        all.into_iter().chain(["0".to_owned()]).find(|version| self.fits(version, provider))
    }
}

fn bound(text: &str) -> (Comparison, String) {
    let text = text.trim();
    let found = COMPARISONS.iter().find_map(|(sign, comparison)| Some((*comparison, text.strip_prefix(sign)?)));
    let (comparison, version) = found.unwrap_or((Comparison::Equal, text));
    (comparison, version.trim().to_owned())
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a text matches a glob.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return text == pattern };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let Some((middle, last)) = rest.rsplit_once('*') else { return text.ends_with(rest) };
    for part in middle.split('*') {
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers;

    fn fits(manager: &str, pattern: &str, version: &str) -> bool {
        VersionPattern::parse(pattern).fits(version, providers::ALL.named(manager).unwrap())
    }

    #[test]
    fn patterns_match_by_the_rules_of_the_manager() {
        for (manager, pattern, version, expected) in [
            ("apt", "1.24.*", "1.24.0-1", true),
            ("apt", "1.24.*", "2:1.24.0-1", true),
            ("apt", "1:1.24.*", "2:1.24.0-1", false),
            ("apt", "1.24.*", "1.240-1", false),
            ("apt", "1.24.*", "1.24-1", false),
            ("apt", "*", "1", true),
            ("apt", "1.*-*ubuntu*", "1.2-3ubuntu4", true),
            ("apt", "1.*-*ubuntu*", "1.2-3", false),
            ("apt", "*1", "1.1", true),
            ("apt", ">= 1.24, < 2", "1.24", true),
            ("apt", ">= 1.24, < 2", "1.9~rc1-1", false),
            ("apt", ">=1.24,<2", "1.100-1", true),
            ("apt", ">= 1.24, < 2", "2~rc1", true),
            ("apt", "< 2", "2", false),
            ("apt", "> 1.0", "1.0-1", true),
            ("apt", "!= 1.0", "1.0", false),
            ("apt", "== 1.0", "1.0-0", true),
            ("apt", "> 1.0", "1:0.1", true),
            ("dnf", ">= 1.24, < 2", "1.24-1", true),
            ("dnf", "> 1.24", "1.24-7", false),
            ("dnf", "<= 1.24", "1.24-7", true),
            ("dnf", "1.24-*.el9", "1.24-7.el9", true),
            ("pacman", "<= 1.24", "1.24-7", true),
            ("pacman", "> 1.24", "1.24-7", false),
            ("apk", "> 1.24", "1.24-r7", false),
        ] {
            assert_eq!(fits(manager, pattern, version), expected, "{manager}: {version} {pattern}");
        }
    }

    #[test]
    fn example_of_satisfiable_pattern_matches() {
        let example = |pattern: &str| VersionPattern::parse(pattern).example(providers::ALL.named("apt").unwrap());
        assert_eq!(example("1.24.*").as_deref(), Some("1.24.0"));
        assert_eq!(example(">= 1.24, < 2").as_deref(), Some("1.24"));
        assert_eq!(example("> 1, < 2").as_deref(), Some("1.1"));
        assert_eq!(example("< 2").as_deref(), Some("0"));
        assert_eq!(example("< 1, > 2"), None);
        assert_eq!(VersionPattern::parse(">=1,<  2").to_string(), ">= 1, < 2");
    }
}
