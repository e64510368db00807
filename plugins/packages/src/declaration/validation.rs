//! Validation of values before they are passed to a package manager.

use crate::pattern::VersionPattern;
use holo_download::{Address, Checksum};
use holo_plugin::definitions::Invalid;

/// Rejects names that a manager could take for an option, a pattern, a file, or a request to remove a package.
pub(super) fn validate_name(name: &str) -> Result<(), Invalid> {
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

/// The question and the answer are written to one line. The answer is not shown in errors because it may be secret.
pub(super) fn validate_answer(question: &str, answer: &str) -> Result<(), Invalid> {
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
        return problem("is not a version: only letters, digits and .+-~:^_ are allowed");
    }
    Ok(())
}
