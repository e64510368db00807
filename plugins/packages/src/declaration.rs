//! The definitions of packages, and the validation of values before they are passed to a package manager.

use crate::model::{Answers, Key};
use crate::pattern::VersionPattern;
use crate::wanted::{Ensure, Wanted};
use holo_download::{Address, Checksum};
use holo_plugin::definitions::{Definition, Invalid};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A `[[package]]` table.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Package {
    /// The name that the package manager uses for the package; with apt also `NAME:ARCH`.
    pub(crate) name: String,
    /// `present` (the default), `absent`, `purged`, `latest`, or a version: an exact one, a pattern such as `1.24.*`, or a range such as
    /// `>= 1.24, < 2`.
    #[serde(default)]
    pub(crate) ensure: Option<String>,
    /// Whether to hold the package. By default, holds are not managed.
    #[serde(default)]
    pub(crate) hold: Option<bool>,
    /// The architecture, if it is not the native one.
    #[serde(default)]
    pub(crate) arch: Option<String>,
    /// Whether to install recommended packages as well. By default, the configuration of the package manager decides.
    #[serde(default)]
    pub(crate) recommends: Option<bool>,
    /// The maximum age of the index when a version is chosen. By default, any age is accepted.
    #[serde(default, deserialize_with = "holo_plugin::definitions::readers::duration")]
    #[cfg_attr(test, schemars(with = "Option<holo_plugin::definitions::readers::DurationSchema>"))]
    pub(crate) refresh: Option<Duration>,
    /// The path or URL of a package file.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// The digest of that file, as `sha256:…` or `sha512:…`.
    #[serde(default)]
    pub(crate) checksum: Option<String>,
    /// The answers to debconf questions of the package, by the names of the questions.
    #[serde(default)]
    pub(crate) debconf: BTreeMap<String, String>,
    /// Whether these answers are secret.
    #[serde(default)]
    pub(crate) sensitive: bool,
}

impl Package {
    /// Without encryption or a checksum, a man in the middle could replace the package.
    fn validate_safety(&self) -> Result<(), Invalid> {
        let is_open = self.source.as_deref().is_some_and(|source| source.starts_with("http://"));
        if is_open && self.checksum.is_none() {
            return Err(Invalid::new("source", "is fetched without encryption, so it needs a checksum"));
        }
        Ok(())
    }

    /// Returns the definition of a package with defaults only.
    pub(crate) fn named(name: &str) -> Package {
        Package {
            name: name.to_owned(),
            ensure: None,
            hold: None,
            arch: None,
            recommends: None,
            refresh: None,
            debconf: BTreeMap::new(),
            sensitive: false,
            source: None,
            checksum: None,
        }
    }

    fn ensures(&self) -> Ensure {
        self.ensure.as_deref().map_or(Ensure::Present, Ensure::parse)
    }

    /// Returns the package with its desired state.
    pub(crate) fn wanted(&self, id: &str, timeout: Option<Duration>) -> Wanted {
        let (name, arch) = match self.name.split_once(':') {
            Some((name, arch)) => (name.to_owned(), Some(arch.to_owned())),
            None => (self.name.clone(), self.arch.clone()),
        };
        let ensure = self.ensures();
        Wanted {
            id: id.to_owned(),
            key: Key { name, arch },
            may_be_unfinished: false,
            ours: Vec::new(),
            preferred: None,
            hold: self.hold,
            // A declared package must not be removed automatically when no other package needs it.
            automatic: (!ensure.is_gone()).then_some(false),
            is_orphan: false,
            timeout,
            recommends: self.recommends,
            refresh: self.refresh,
            brought: Vec::new(),
            answers: (!self.debconf.is_empty())
                .then(|| Answers { all: self.debconf.clone(), sensitive: self.sensitive }),
            source: self.source.as_deref().map(path_or_url),
            checksum: self.checksum.as_deref().and_then(|checksum| checksum.parse().ok()),
            file: None,
            fetches: None,
            problem: None,
            ensure,
        }
    }
}

impl Definition for Package {
    const TABLE: &'static str = "package";

    fn invalid_values(&self) -> Vec<Invalid> {
        let version = match self.ensure.as_deref().map(Ensure::parse) {
            Some(Ensure::Version(pattern)) => validate_pattern(&pattern),
            _ => Ok(()),
        };
        let arch = self.arch.as_deref().map_or(Ok(()), |arch| validate_arch("arch", arch));
        let source = [
            self.source.as_deref().map_or(Ok(()), validate_source),
            self.checksum.as_deref().map_or(Ok(()), validate_checksum),
            self.validate_safety(),
        ];
        let answers = self.debconf.iter().map(|(question, answer)| validate_answer(question, answer));
        Invalid::all([validate_name(&self.name), arch, version].into_iter().chain(answers).chain(source))
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.arch.is_some() && self.name.contains(':') {
            return Err(Invalid::new("arch", "the name already contains an architecture"));
        }
        if self.ensures().is_gone() && self.recommends.is_some() {
            return Err(Invalid::new("recommends", "a package that is not installed recommends no others"));
        }
        if self.source.is_some() && self.ensures() != Ensure::Present {
            return Err(Invalid::new("source", "the file determines the version, so ensure must be present"));
        }
        if self.checksum.is_some() && self.source.is_none() {
            return Err(Invalid::new("checksum", "requires a source"));
        }
        if self.ensures().is_gone() && !self.debconf.is_empty() {
            return Err(Invalid::new("debconf", "a package that is not installed asks no questions"));
        }
        if self.hold == Some(true) && self.ensures().is_gone() {
            return Err(Invalid::new("hold", "a package that is not installed cannot be held"));
        }
        Ok(())
    }
}

/// Returns the path of a `file:` URL, and any other source unchanged.
fn path_or_url(source: &str) -> String {
    let path = source.parse::<Address>().ok().and_then(|address| address.file());
    path.map_or_else(|| source.to_owned(), |path| path.display().to_string())
}

/// Rejects names that a manager could take for an option, a pattern, a file, or a request to remove a package.
fn validate_name(name: &str) -> Result<(), Invalid> {
    let (own, arch) = name.split_once(':').map_or((name, None), |(own, arch)| (own, Some(arch)));
    let problem = |why: &str| Err(Invalid::new("name", format!("{name:?} is not a valid package name: {why}")));
    if !own.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_') {
        return problem("it must begin with a letter or digit");
    }
    if !own.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-._~".contains(letter)) {
        return problem("only letters, digits and +-._~ are allowed");
    }
    if own.ends_with('-') {
        return problem("package managers take a trailing hyphen for a request to remove the package");
    }
    arch.map_or(Ok(()), |arch| validate_arch("name", arch))
}

fn validate_arch(key: &'static str, arch: &str) -> Result<(), Invalid> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if arch.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && arch.chars().all(fits) {
        return Ok(());
    }
    Err(Invalid::new(key, format!("{arch:?} is not an architecture")))
}

fn validate_source(source: &str) -> Result<(), Invalid> {
    if source.contains("://") {
        return source.parse::<Address>().map(drop).map_err(|error| Invalid::new("source", error.to_string()));
    }
    if !source.starts_with('/') || source.contains(char::is_control) {
        return Err(Invalid::new("source", format!("{source:?} is neither an absolute path nor a URL")));
    }
    Ok(())
}

fn validate_checksum(checksum: &str) -> Result<(), Invalid> {
    checksum.parse::<Checksum>().map(drop).map_err(|error| Invalid::new("checksum", error.to_string()))
}

/// The question and the answer are written to one line. The answer is not shown in errors because it may be secret.
fn validate_answer(question: &str, answer: &str) -> Result<(), Invalid> {
    let is_name = !question.is_empty() && question.chars().all(|letter| letter.is_ascii_graphic());
    if !is_name || question.starts_with('#') {
        return Err(Invalid::new("debconf", format!("{question:?} is not the name of a question")));
    }
    if answer.contains(char::is_control) {
        return Err(Invalid::new("debconf", format!("the answer to {question} must be one line")));
    }
    Ok(())
}

/// Validates the versions in a pattern. A glob need not begin like a version.
fn validate_pattern(pattern: &VersionPattern) -> Result<(), Invalid> {
    let versions = pattern.versions().into_iter().map(|version| match pattern {
        VersionPattern::Glob(_) => validate_version(&version.replacen('*', "0", usize::MAX)),
        _ => validate_version(version),
    });
    versions.collect()
}

fn validate_version(version: &str) -> Result<(), Invalid> {
    let problem = |why: &str| Err(Invalid::new("ensure", format!("{version:?} {why}")));
    let is_likely = version.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if !is_likely || !version.contains(|letter: char| letter.is_ascii_digit()) {
        return problem("is neither a version nor one of present, absent, purged, latest");
    }
    if !version.chars().all(|letter| letter.is_ascii_alphanumeric() || ".+-~:^_".contains(letter)) {
        return problem("is not a version: only letters, digits and .+-~:^_ are allowed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::Repository;
    use holo_plugin::definitions::{file_schema, table_schema};

    fn problem(definition: &str) -> Option<String> {
        let package: Package = toml::from_str(definition).unwrap();
        package.invalid().first().map(|invalid| format!("{invalid:?}"))
    }

    #[test]
    fn ambiguous_values_are_refused() {
        for name in
            ["nginx", "python3.11", "lib_name", "g++", "gcc-c++", "libstdc++6", "package~test", "libc6:i386", "0ad"]
        {
            assert_eq!(problem(&format!("name = '{name}'")), None, "{name}");
        }
        for name in [
            "-y",
            "--purge",
            "vim-",
            "+x",
            "nginx; rm -rf /",
            "nginx | cat",
            "a&b",
            "$PATH",
            "`x`",
            "a\"b",
            "a(b)",
            "a[b]",
            "a*",
            "a?",
            "a>b",
            "a\\b",
            "a b",
            " a",
            "a ",
            "a@b",
            "a/b",
            "a=1",
            "a:",
            "a:b:c",
            "a:-b",
            "@group",
            "/usr/bin/x",
            "./x.deb",
            "ä",
        ] {
            assert!(problem(&format!("name = '{name}'")).is_some(), "{name}");
        }
    }

    #[test]
    fn ensure_accepts_versions_only() {
        for ensure in [
            "present",
            "absent",
            "purged",
            "latest",
            "1.2.3-4.el9",
            "2:1.0~rc1+b1",
            "1.0^git1",
            "5.9_p1-r2",
            "1.24.*",
            ">= 1.24, < 2",
            ">1",
        ] {
            assert_eq!(problem(&format!("name = 'x'\nensure = '{ensure}'")), None, "{ensure}");
        }
        for ensure in [
            "",
            "installed",
            "true",
            "-1",
            "1.2.3; rm -rf /",
            "1.2.3$(whoami)",
            "1 2",
            ">= 1 2",
            ">=",
            "> -1",
            "1,",
            ">= 1, < $(x)",
            "1.*;x",
            ">=1.*",
            "=> 1",
        ] {
            assert!(problem(&format!("name = 'x'\nensure = '{ensure}'")).is_some(), "{ensure}");
        }
    }

    #[test]
    fn contradictory_keys_are_refused() {
        for definition in [
            "name = 'x'\nensure = 'absent'\nhold = true",
            "name = 'x'\nensure = 'purged'\nhold = true",
            "name = 'x:i386'\narch = 'i386'",
            "name = 'x'\narch = '-'",
        ] {
            assert!(problem(definition).is_some(), "{definition}");
        }
        assert_eq!(problem("name = 'x'\nensure = 'absent'\nhold = false"), None);
    }

    #[test]
    fn schema_is_up_to_date() {
        let tables =
            vec![(Package::TABLE, table_schema::<Package>()), (Repository::TABLE, table_schema::<Repository>())];
        let schema = file_schema("Definitions of holo's plugin packages", tables);
        holo_testing::schema_is_kept("holo-packages.schema.json", &schema);
    }
}
