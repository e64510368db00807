//! The definitions of packages.

use crate::intent::Intent;
use crate::model::{Answers, Key, PackageFile};
use crate::pattern::VersionPattern;
use holo_download::{Address, Checksum};
use holo_plugin::Kept;
use holo_plugin::definitions::{Definition, Invalid};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The key of the value that says which version there is.
pub(crate) const VERSION: &str = "version";
/// That of the one which says which version we have installed.
pub(crate) const OURS: &str = "installed";

/// A table `[[package]]`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Package {
    /// The package, as its manager names it; with apt also `NAME:ARCH`.
    pub(crate) name: String,
    /// `present`, `absent`, `purged`, `latest`, or a version: one, those with a beginning, such as `1.24.*`, or those between others, such as
    /// `>= 1.24, < 2`; present if nothing is said.
    #[serde(default)]
    pub(crate) ensure: Option<String>,
    /// True if the manager shall leave it as it is; left alone if nothing is said.
    #[serde(default)]
    pub(crate) hold: Option<bool>,
    /// The architecture, where it is not the system's own.
    #[serde(default)]
    pub(crate) arch: Option<String>,
    /// True if packages come along that it recommends, false if only those that it needs; as the manager is configured if nothing is said.
    #[serde(default)]
    pub(crate) recommends: Option<bool>,
    /// The greatest age of the index when it decides about the version; of any age if nothing is said.
    #[serde(default, deserialize_with = "holo_plugin::definitions::readers::duration")]
    #[cfg_attr(test, schemars(with = "Option<holo_plugin::definitions::readers::DurationSchema>"))]
    pub(crate) refresh: Option<Duration>,
    /// The path or the URL of a file that the package comes from.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// The digest of that file, as `sha256:…` or `sha512:…`.
    #[serde(default)]
    pub(crate) checksum: Option<String>,
    /// The answers to questions that the package asks when it is installed, by their names.
    #[serde(default)]
    pub(crate) debconf: BTreeMap<String, String>,
    /// True if nobody may see these answers.
    #[serde(default)]
    pub(crate) sensitive: bool,
}

/// The desired state of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ensure {
    /// Some version of it is installed.
    Present,
    /// It is not installed.
    Absent,
    /// Neither it nor what was configured is there.
    Purged,
    /// The newest version that is offered is installed.
    Latest,
    /// One of these versions is installed.
    Version(VersionPattern),
}

impl Ensure {
    fn parse(text: &str) -> Ensure {
        match text {
            "present" => Ensure::Present,
            "absent" => Ensure::Absent,
            "purged" => Ensure::Purged,
            "latest" => Ensure::Latest,
            version => Ensure::Version(VersionPattern::parse(version)),
        }
    }

    /// Returns true if it shall not be there.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Ensure::Absent | Ensure::Purged)
    }
}

/// A package, and what it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) key: Key,
    pub(crate) ensure: Ensure,
    /// The versions that we have installed last, or set out to, if the system is brought back to an earlier state: they may be replaced by
    /// older ones.
    pub(crate) ours: Vec<String>,
    /// The version to install if any would do, and this one can be had.
    pub(crate) preferred: Option<String>,
    pub(crate) hold: Option<bool>,
    /// True if it shall be there for others only.
    pub(crate) automatic: Option<bool>,
    pub(crate) is_orphan: bool,
    pub(crate) timeout: Option<Duration>,
    /// True if packages come along that are only recommended; none for what the manager does by itself.
    pub(crate) recommends: Option<bool>,
    /// The greatest age of the index that decides about a version.
    pub(crate) refresh: Option<Duration>,
    /// The names of packages that came along with it, if it is to go.
    pub(crate) brought: Vec<String>,
    pub(crate) answers: Option<Answers>,
    /// The path or URL of a file that it comes from, and the digest that this has to have.
    pub(crate) source: Option<String>,
    pub(crate) checksum: Option<Checksum>,
    /// The package in that file, once it has been read.
    pub(crate) file: Option<PackageFile>,
    /// The address, as it may be shown, from where it would be fetched, where nothing is fetched.
    pub(crate) fetches: Option<String>,
    /// The reason why it cannot be as it is wanted.
    pub(crate) problem: Option<String>,
}

impl Wanted {
    /// Asks for the version that there was in the state that the system is brought back to, unless the definition asks for another.
    pub(crate) fn recall(&mut self, kept: &Kept, intent: &Intent) {
        self.recall_ours(kept, intent);
        let is_open = match &self.ensure {
            Ensure::Present | Ensure::Latest => true,
            Ensure::Version(pattern) => pattern.is_open(),
            Ensure::Absent | Ensure::Purged => false,
        };
        if let Some(version) = kept.then(&self.id, VERSION).filter(|_| is_open) {
            self.ensure = Ensure::Version(VersionPattern::Exact(version));
        }
    }

    /// The same for a package that nothing defines there: if what we did to it is undone, it gets the version back that it was found in.
    pub(crate) fn recall_orphan(&mut self, kept: &Kept, intent: &Intent) {
        self.recall_ours(kept, intent);
        if let (false, Some(found)) = (self.ours.is_empty(), &self.preferred) {
            self.ensure = Ensure::Version(VersionPattern::Exact(found.clone()));
        }
    }

    fn recall_ours(&mut self, kept: &Kept, intent: &Intent) {
        let intended = intent.version(&self.id).filter(|_| !kept.is_empty()).map(str::to_owned);
        self.ours = kept.last(&self.id, OURS).into_iter().chain(intended).collect();
    }
}

impl Package {
    /// Anybody on the way could send another package.
    fn validate_safety(&self) -> Result<(), Invalid> {
        let is_open = self.source.as_deref().is_some_and(|source| source.starts_with("http://"));
        if is_open && self.checksum.is_none() {
            return Err(Invalid::new("source", "is fetched without encryption, so it needs a checksum"));
        }
        Ok(())
    }

    /// A package of which nothing is said.
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
            ours: Vec::new(),
            preferred: None,
            hold: self.hold,
            // It is declared, so it must not go when no other package needs it.
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
            return Err(Invalid::new("arch", "the name has an architecture already"));
        }
        if self.ensures().is_gone() && self.recommends.is_some() {
            return Err(Invalid::new("recommends", "a package that is not there recommends nothing"));
        }
        if self.source.is_some() && self.ensures() != Ensure::Present {
            return Err(Invalid::new(
                "source",
                "the file decides which version is there, so ensure can only be present",
            ));
        }
        if self.checksum.is_some() && self.source.is_none() {
            return Err(Invalid::new("checksum", "is that of a source, of which there is none"));
        }
        if self.ensures().is_gone() && !self.debconf.is_empty() {
            return Err(Invalid::new("debconf", "a package that is not there asks nothing"));
        }
        if self.hold == Some(true) && self.ensures().is_gone() {
            return Err(Invalid::new("hold", "a package that is not there cannot be held"));
        }
        Ok(())
    }
}

/// No manager may take a name for an option, a pattern, a file, or for something to be removed.
fn validate_name(name: &str) -> Result<(), Invalid> {
    let (own, arch) = name.split_once(':').map_or((name, None), |(own, arch)| (own, Some(arch)));
    let problem = |why: &str| Err(Invalid::new("name", format!("{name:?} is not a valid package name: {why}")));
    if !own.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_') {
        return problem("it has to begin with a letter or digit");
    }
    if !own.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-._~".contains(letter)) {
        return problem("only letters, digits and +-._~ can be in one");
    }
    if own.ends_with('-') {
        return problem("a manager would take the hyphen at its end for a wish to remove it");
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

/// Returns the path that a URL of a file of this machine means, and anything else as it is.
fn path_or_url(source: &str) -> String {
    let path = source.parse::<Address>().ok().and_then(|address| address.file());
    path.map_or_else(|| source.to_owned(), |path| path.display().to_string())
}

/// Both become a line of their own; the answer is not shown.
fn validate_answer(question: &str, answer: &str) -> Result<(), Invalid> {
    let is_name = !question.is_empty() && question.chars().all(|letter| letter.is_ascii_graphic());
    if !is_name || question.starts_with('#') {
        return Err(Invalid::new("debconf", format!("{question:?} is not the name of a question")));
    }
    if answer.contains(char::is_control) {
        return Err(Invalid::new("debconf", format!("the answer to {question} is not one line")));
    }
    Ok(())
}

/// A pattern need not begin like a version, if it says where the rest is.
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
        return problem("is not a version: only letters, digits and .+-~:^_ can be in one");
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
    fn nothing_is_accepted_that_a_manager_could_misunderstand() {
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
    fn versions_are_versions() {
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
    fn contradictions_are_found() {
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
    fn the_schema_is_that_of_the_types() {
        let tables =
            vec![(Package::TABLE, table_schema::<Package>()), (Repository::TABLE, table_schema::<Repository>())];
        let schema = file_schema("Definitions of holo's plugin packages", tables);
        holo_testing::schema_is_kept("holo-packages.schema.json", &schema);
    }
}
