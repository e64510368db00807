//! `/etc/holo/engine.toml`: limits on the data kept about earlier runs and on output, and whether untrusted files are refused.

use super::root::Root;
use holo_definitions::{DocumentError, read_document};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of the dispatcher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// The limits on records.
    pub runs: Runs,
    /// The limits on generations.
    pub generations: Generations,
    /// How untrusted files are treated.
    pub trust: TrustSettings,
    /// The limits on plugins and generators.
    pub limits: Limits,
}

/// The limits on plugins and generators.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The maximum output of an operation, in bytes.
    #[serde(deserialize_with = "size")]
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { output: holo_process::MAX_OUTPUT }
    }
}

/// How files that other users may modify are treated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrustSettings {
    /// `None`: those that version 3 used too are reported, all others are refused.
    pub mode: Option<TrustMode>,
}

/// The treatment of all files that other users may modify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustMode {
    /// They are refused.
    Enforce,
    /// They are used, with a warning.
    Warn,
}

/// The limits on records of runs. Records that exceed any of them are removed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Runs {
    /// How long a record is kept, in days.
    pub days: u32,
    /// The maximum size of all records, in bytes.
    #[serde(deserialize_with = "size")]
    pub size: u64,
}

/// The limits on generations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Generations {
    /// The number of generations that are kept, not counting pinned ones.
    pub keep: usize,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs { days: 400, size: 64 << 20 }
    }
}

impl Runs {
    /// Returns how long a record is kept.
    #[must_use]
    pub fn age(&self) -> Duration {
        DAY * self.days
    }
}

impl Default for Generations {
    fn default() -> Generations {
        Generations { keep: 20 }
    }
}

impl EngineSettings {
    /// Reads the settings of a system. If the file is invalid, returns the defaults and the error.
    #[must_use]
    pub fn read(root: &Root) -> (EngineSettings, Option<DocumentError>) {
        match read_document(&root.engine_settings()) {
            Ok(settings) => (settings.unwrap_or_default(), None),
            Err(error) => (EngineSettings::default(), Some(error)),
        }
    }
}

/// Deserializes a number of bytes, with or without a unit: `64MiB`.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_size(&text)
        .ok_or_else(|| D::Error::custom(format!("{text:?} is not a size such as \"64MiB\", \"512KiB\" or \"1GiB\"")))
}

fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match text.strip_prefix(digits)?.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn parse(text: &str) -> Result<EngineSettings, DocumentError> {
        holo_definitions::parse_document(Path::new("engine.toml"), text)
    }

    #[test]
    fn limits_are_read_and_have_defaults() {
        assert_eq!(parse("").unwrap(), EngineSettings::default());
        let read = parse("[runs]\nsize = \"2 GiB\"\n\n[generations]\nkeep = 3\n").unwrap();
        assert_eq!(
            read,
            EngineSettings {
                runs: Runs { days: 400, size: 2 << 30 },
                generations: Generations { keep: 3 },
                ..EngineSettings::default()
            }
        );
        assert_eq!(parse("[runs]\ndays = 7\n").unwrap().runs.age(), Duration::from_secs(604_800));
    }

    #[test]
    fn mistakes_have_a_line_and_keep_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(Some(folder.path().into()));
        let (settings, error) = EngineSettings::read(&root);
        assert!(settings == EngineSettings::default() && error.is_none());
        let path = root.engine_settings();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for (text, line, says) in [
            ("[runs]\n\ndays = \"x\"\n", 3, "days"),
            ("[runs]\nsize = \"64MB\"\n", 2, "is not a size such as \"64MiB\""),
            ("[run]\ndays = 1\n", 1, "run"),
            ("[trust]\nmode = \"on\"\n", 2, "enforce"),
            ("[limits]\noutput = \"lots\"\n", 2, "is not a size such as"),
            ("[generations]\nkeep = 1\nkepp = 1\n", 3, "kepp"),
            ("[runs\n", 1, ""),
        ] {
            fs::write(&path, text).unwrap();
            let (settings, error) = EngineSettings::read(&root);
            let error = error.unwrap();
            assert_eq!(settings, EngineSettings::default());
            assert!(error.to_string().starts_with(&format!("{}:{line}: ", path.display())), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
