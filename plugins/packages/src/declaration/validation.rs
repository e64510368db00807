//! Values of definitions that no package manager may get to see.

use crate::pattern::VersionPattern;
use holo_download::{Address, Checksum};
use holo_plugin::definitions::Invalid;

/// No manager may take a name for an option, a pattern, a file, or for something to be removed.
pub(super) fn validate_name(name: &str) -> Result<(), Invalid> {
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

pub(super) fn validate_arch(key: &'static str, arch: &str) -> Result<(), Invalid> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if arch.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && arch.chars().all(fits) {
        return Ok(());
    }
    Err(Invalid::new(key, format!("{arch:?} is not an architecture")))
}

pub(super) fn validate_source(source: &str) -> Result<(), Invalid> {
    if source.contains("://") {
        return source.parse::<Address>().map(drop).map_err(|error| Invalid::new("source", error.to_string()));
    }
    if !source.starts_with('/') || source.contains(char::is_control) {
        return Err(Invalid::new("source", format!("{source:?} is neither an absolute path nor a URL")));
    }
    Ok(())
}

pub(super) fn validate_checksum(checksum: &str) -> Result<(), Invalid> {
    checksum.parse::<Checksum>().map(drop).map_err(|error| Invalid::new("checksum", error.to_string()))
}

/// Both become a line of their own; the answer is not shown.
pub(super) fn validate_answer(question: &str, answer: &str) -> Result<(), Invalid> {
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
pub(super) fn validate_pattern(pattern: &VersionPattern) -> Result<(), Invalid> {
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
