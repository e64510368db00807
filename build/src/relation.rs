//! Relations to other packages, and the groups of pacman that some of them name.

use crate::format::{EPOCH_MAX, Format, NameError};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A relation to a package, or to certain versions of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) name: String,
    pub(crate) constraint: Option<(Comparison, String)>,
}

/// A comparison of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Comparison {
    /// The operators, longer ones first.
    const OPERATORS: [(&'static str, Comparison); 5] = [
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        ("=", Comparison::Equal),
        (">", Comparison::Greater),
    ];

    /// Returns the operator as it is written in a description.
    pub(crate) fn operator(self) -> &'static str {
        let operator = Self::OPERATORS.iter().find(|(_, comparison)| *comparison == self);
        operator.map_or("=", |(operator, _)| operator)
    }
}

/// A relation that is not valid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RelationError {
    #[error("{0:?} is not valid: expected NAME or NAME OP VERSION, where OP is = > >= < or <=")]
    Form(String),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{version:?} in {relation:?} is not a valid version: expected letters, digits and . + ~ - :")]
    Version { relation: String, version: String },
    #[error(
        "{version:?} in {relation:?} is not a valid version for Debian packages: expected [EPOCH:]VERSION[-REVISION], \
         where VERSION begins with a digit and REVISION contains letters, digits and . + ~"
    )]
    DebianVersion { relation: String, version: String },
    #[error("{0} has a version with {1}, which is not possible in a Debian package; write {0} = VERSION")]
    Provided(String, &'static str),
    #[error("{0:?} is only possible in packages for pacman")]
    Group(String),
    #[error("there is no group {0} in the sync databases of pacman; refresh them with `pacman -Sy`")]
    NoGroup(String),
    #[error(transparent)]
    Sync(#[from] SyncError),
}

/// The sync databases cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("read {}: {}", path.display(), holo_process::words::reason(source))]
pub(crate) struct SyncError {
    path: PathBuf,
    source: io::Error,
}

impl Relation {
    pub(crate) fn named(name: String) -> Relation {
        Relation { name, constraint: None }
    }

    /// Parses a relation to one package.
    pub(crate) fn parse(text: &str, format: Format) -> Result<Relation, RelationError> {
        let form = || RelationError::Form(text.to_owned());
        let (name, rest) = text.trim().split_at(text.trim().find(['<', '=', '>']).unwrap_or(text.trim().len()));
        let relation = match rest {
            "" => Relation::named(name.trim_end().to_owned()),
            rest => {
                let operator = Comparison::OPERATORS.iter().find(|(operator, _)| rest.starts_with(operator));
                let (operator, comparison) = operator.ok_or_else(form)?;
                let version = rest.strip_prefix(operator).unwrap_or_default().trim_start();
                if version.is_empty() || version.contains(['<', '=', '>']) {
                    return Err(form());
                }
                let is_valid = |letter: char| letter.is_ascii_alphanumeric() || ".+~-:_".contains(letter);
                if !version.chars().all(is_valid) {
                    let version = version.to_owned();
                    return Err(RelationError::Version { relation: text.to_owned(), version });
                }
                if format == Format::Debian && !is_debian_version(version) {
                    let version = version.to_owned();
                    return Err(RelationError::DebianVersion { relation: text.to_owned(), version });
                }
                Relation { name: name.trim_end().to_owned(), constraint: Some((*comparison, version.to_owned())) }
            }
        };
        // Packages of RPM can require capabilities and paths.
        let is_capability = match format {
            Format::Debian => false,
            // Such as HOLO_API_VERSION, which plugins of version 3 require.
            Format::Pacman => {
                let is_capital = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
                relation.name.contains('_') && relation.name.chars().all(is_capital)
            }
            Format::Rpm => relation.name.starts_with('/') || relation.name.ends_with(')'),
        };
        let is_plain = !relation.name.contains(|letter: char| letter.is_whitespace() || letter.is_control());
        if relation.name.is_empty() || !is_plain {
            return Err(form());
        }
        if !is_capability {
            format.check_name(&relation.name)?;
        }
        Ok(relation)
    }
}

/// Returns true if dpkg can read a version, which consists of valid characters of versions.
fn is_debian_version(text: &str) -> bool {
    let (epoch, rest) = text.split_once(':').unwrap_or(("0", text));
    let (version, revision) = rest.rsplit_once('-').unwrap_or((rest, "0"));
    let is_epoch =
        epoch.bytes().all(|byte| byte.is_ascii_digit()) && epoch.parse::<u32>().is_ok_and(|epoch| epoch <= EPOCH_MAX);
    let is_version = version.starts_with(|first: char| first.is_ascii_digit()) && !text.contains('_');
    is_epoch && is_version && !revision.is_empty() && !revision.contains(':')
}

/// A list of relations as a description has it: each can be a package, or select packages in another way.
pub(crate) struct RelationList<'a> {
    format: Format,
    /// The root directory of the sync databases.
    root: &'a Path,
    relations: Vec<Relation>,
    excluded: BTreeSet<String>,
}

impl<'a> RelationList<'a> {
    pub(crate) fn new(format: Format, root: &'a Path) -> RelationList<'a> {
        RelationList { format, root, relations: Vec::new(), excluded: BTreeSet::new() }
    }

    /// Adds an entry. Groups are read from the sync databases, which are cached in `groups`.
    pub(crate) fn add(&mut self, text: &str, groups: &mut Option<Groups>) -> Result<(), RelationError> {
        let (is_exception, rest) = match text.strip_prefix("except:") {
            Some(rest) => (true, rest.trim()),
            None => (false, text),
        };
        let group = rest.strip_prefix("group:").map(str::trim);
        if (is_exception || group.is_some()) && self.format != Format::Pacman {
            return Err(RelationError::Group(text.to_owned()));
        }
        let members = match group {
            Some(group) => {
                let all = match groups {
                    Some(groups) => groups,
                    None => groups.insert(Groups::read(self.root)?),
                };
                all.0.get(group).cloned().ok_or_else(|| RelationError::NoGroup(group.to_owned()))?
            }
            None if is_exception => {
                self.format.check_name(rest)?;
                BTreeSet::from([rest.to_owned()])
            }
            None => {
                self.relations.push(Relation::parse(rest, self.format)?);
                return Ok(());
            }
        };
        if is_exception {
            self.excluded.extend(members);
        } else {
            self.relations.extend(members.into_iter().map(Relation::named));
        }
        Ok(())
    }

    /// Returns the relations without the excepted packages, each once.
    pub(crate) fn finish(self) -> Vec<Relation> {
        let mut relations: Vec<Relation> = Vec::new();
        for relation in self.relations {
            if !self.excluded.contains(&relation.name) && !relations.contains(&relation) {
                relations.push(relation);
            }
        }
        relations
    }
}

/// The groups of the sync databases with their members.
#[derive(Debug, Default)]
pub(crate) struct Groups(BTreeMap<String, BTreeSet<String>>);

impl Groups {
    fn read(root: &Path) -> Result<Groups, SyncError> {
        let directory = root.join("var/lib/pacman/sync");
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| SyncError { path, source }
        };
        let mut groups = Groups::default();
        for entry in fs::read_dir(&directory).map_err(failed(&directory))? {
            let path = entry.map_err(failed(&directory))?.path();
            if path.extension().is_some_and(|extension| extension == "db") {
                groups.read_database(&path).map_err(failed(&path))?;
            }
        }
        Ok(groups)
    }

    fn read_database(&mut self, path: &Path) -> io::Result<()> {
        let mut database = tar::Archive::new(decompressed(path)?);
        for entry in database.entries()? {
            let mut entry = entry?;
            if entry.path()?.file_name().is_some_and(|name| name == "desc") {
                let mut text = String::new();
                entry.read_to_string(&mut text)?;
                let values = |key: &str| -> Vec<&str> {
                    let lines = text.lines().skip_while(|line| *line != key).skip(1);
                    lines.take_while(|line| !line.is_empty()).collect()
                };
                if let Some(name) = values("%NAME%").first() {
                    for group in values("%GROUPS%") {
                        self.0.entry(group.to_owned()).or_default().insert((*name).to_owned());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Opens a file that may be compressed.
fn decompressed(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut magic = [0; 4];
    let count = File::open(path)?.take(4).read(&mut magic)?;
    let file = File::open(path)?;
    Ok(match magic.get(..count).unwrap_or_default() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(file)),
        [0xfd, b'7', b'z', b'X'] => Box::new(liblzma::read::XzDecoder::new_multi_decoder(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::Decoder::new(file)?),
        _ => Box::new(file),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_read() {
        let parsed = |text: &str| Relation::parse(text, Format::Debian).map_err(|error| error.to_string());
        for text in ["foo >= 2:1.0~rc1-1", "foo>=2:1.0~rc1-1", " foo  >=  2:1.0~rc1-1"] {
            let constraint = Some((Comparison::GreaterOrEqual, "2:1.0~rc1-1".to_owned()));
            assert_eq!(parsed(text), Ok(Relation { name: "foo".into(), constraint }));
        }
        assert_eq!(parsed("foo"), Ok(Relation::named("foo".into())));
        for (operator, comparison) in Comparison::OPERATORS {
            let relation = parsed(&format!("foo {operator} 1")).unwrap();
            assert_eq!(relation.constraint, Some((comparison, "1".to_owned())));
            assert_eq!(comparison.operator(), operator);
        }
        for text in
            ["", "= 1", "foo =", "foo == 1", "foo => 1", "foo bar", "foo\n", "foo 1.0", "foo | bar", "foo = 1 2"]
        {
            assert!(parsed(text).is_err() || text == "foo\n", "{text:?}");
        }
    }

    #[test]
    fn versions_of_debian_have_its_form() {
        let is_valid = |version: &str, format| Relation::parse(&format!("foo = {version}"), format).is_ok();
        for version in ["1", "0:1", "2:1.0~rc1+b-c-1.2~x", "1:2:3", "2147483647:0"] {
            assert!(is_valid(version, Format::Debian), "{version}");
        }
        let wrong = [":1", "-1", "_", "abc", "1-", "~", "1_2", "x:1", "1:", "1:-1", "1-1:2", "+1:1", "2147483648:1"];
        for version in wrong {
            assert!(!is_valid(version, Format::Debian), "{version}");
            assert!(is_valid(version, Format::Rpm) && is_valid(version, Format::Pacman), "{version}");
        }
    }

    #[test]
    fn packages_of_rpm_can_require_paths_and_capabilities() {
        let is_valid = |text: &str, format| Relation::parse(text, format).is_ok();
        for text in ["/bin/sh", "perl(Foo::Bar) >= 1"] {
            assert!(is_valid(text, Format::Rpm) && !is_valid(text, Format::Debian) && !is_valid(text, Format::Pacman));
        }
        assert!(!is_valid("/bin/sh x", Format::Rpm));
    }

    #[test]
    fn groups_are_expanded_and_exceptions_removed() {
        let root = tempfile::tempdir().unwrap();
        let sync = root.path().join("var/lib/pacman/sync");
        fs::create_dir_all(&sync).unwrap();
        let database = |packages: &[(&str, &str)]| {
            let mut tar = tar::Builder::new(Vec::new());
            for (name, groups) in packages {
                let text = format!("%NAME%\n{name}\n\n%GROUPS%\n{groups}\n\n%ARCH%\nany\n");
                let mut header = tar::Header::new_ustar();
                header.set_size(text.len() as u64);
                tar.append_data(&mut header, format!("{name}-1-1/desc"), text.as_bytes()).unwrap();
            }
            tar.into_inner().unwrap()
        };
        let core = database(&[("glibc", "base"), ("gcc", "base-devel\nbase"), ("make", "base-devel")]);
        fs::write(sync.join("core.db"), zstd::encode_all(&core[..], 0).unwrap()).unwrap();
        fs::write(sync.join("extra.db"), database(&[("vim", "base")])).unwrap();
        let expand = |texts: &[&str]| {
            let mut list = RelationList::new(Format::Pacman, root.path());
            let mut groups = None;
            texts.iter().try_for_each(|text| list.add(text, &mut groups))?;
            Ok(list.finish().into_iter().map(|relation| relation.name).collect::<Vec<_>>())
        };
        let error = |texts: &[&str]| expand(texts).map_err(|error: RelationError| error.to_string()).unwrap_err();
        assert_eq!(expand(&["foo", "group:base", "vim", "except:glibc"]).unwrap(), ["foo", "gcc", "vim"]);
        assert_eq!(expand(&["except:group:base-devel", "group:base"]).unwrap(), ["glibc", "vim"]);
        let missing = "there is no group x in the sync databases of pacman; refresh them with `pacman -Sy`";
        assert_eq!(error(&["group:x"]), missing);
        let mut list = RelationList::new(Format::Rpm, root.path());
        let error = list.add("except:foo", &mut None).unwrap_err().to_string();
        assert_eq!(error, "\"except:foo\" is only possible in packages for pacman");
    }
}
