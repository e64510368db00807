//! Adopts manual changes of a target as a local resource file.

use crate::overlay::desired;
use crate::overlay::entity::{FileEntity, Kind, PATCH_SUFFIX, Resource};
use crate::overlay::layout::{EvaluationError, Layout, read};
use crate::overlay::stock::Distribution;
use holo_change::error::PathError;
use holo_change::image_store::path_digest;
use holo_change::{Content, Image};
use holo_plugin::diff::{Labels, Patch, PatchedText, hunks, is_binary, merge};
use holo_plugin::{Adopted, Adoption, Host, Output, Silence};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The disambiguator of adopted resource files, which are applied last.
const LOCAL: &str = "90-local";
/// The disambiguator of files that were changed before they had resource files, which are applied to them.
pub(crate) const LOCAL_BASE: &str = "10-local";
/// The permission bits of others.
const OTHERS: u32 = 0o007;
const ENTERED_BY_OTHERS: u32 = 0o001;
/// The mode of resource files that only root can read.
pub(crate) const PRIVATE_MODE: u32 = 0o600;
const LABELS: Labels<'static> = Labels { one: "the file as it is", base: "as it was", other: "the resource files" };

/// Why a target cannot be adopted.
type Refusal = EvaluationError;

/// Writes the resource file for manual changes of a target.
pub(crate) fn adopt(entity: &FileEntity, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
    let adopted = Layout::open(host)
        .map_err(EvaluationError::from)
        .and_then(|layout| Target { entity, layout, directory: adoption.directory, host }.adopt(adoption.resolved));
    adopted.unwrap_or_else(|EvaluationError(reason)| {
        output.error(format!("cannot adopt {}: {reason}", entity.id()));
        Adopted::Failed
    })
}

/// A target to adopt.
struct Target<'a> {
    entity: &'a FileEntity,
    layout: Layout,
    /// The directory for resource files.
    directory: &'a Path,
    host: &'a Host,
}

impl Target<'_> {
    fn adopt(&self, resolved: Option<&Path>) -> Result<Adopted, Refusal> {
        let entity = self.entity;
        let images = &self.layout.images;
        let refuse = |reason: &str| Err(EvaluationError(reason.to_owned()));
        let Some(current) = Image::load(&images.target(&entity.path))? else {
            return refuse("it was deleted, which a resource file cannot express");
        };
        if let Some(reason) = waiting_version(&entity.path, &self.layout, self.host)? {
            return Err(EvaluationError(reason));
        }
        let base = Image::load(&images.base(&entity.path))?.unwrap_or_else(|| current.clone());
        let others = self.without_local_patch();
        let made = self.evaluate(&others, &base)?;
        if (current.uid, current.gid) != (made.uid, made.gid) || (!current.is_symlink() && current.mode != made.mode) {
            return Err(EvaluationError(format!(
                "its mode or owner was changed ({}), and only those of its base count; change them back, or declare it in a definition \
                 instead of its resource files",
                words(&current, &made)
            )));
        }
        let is_local_plain = |resource: &&Resource| {
            resource.kind == Kind::Plain && self.is_local(resource) && resource.path.starts_with(self.disambiguator())
        };
        let resolved = resolved.map(|path| fs::read(path).map_err(|error| PathError::new("open", path, error)));
        let resolved = resolved.transpose()?;
        let text = if resolved.is_some() { resolved.clone() } else { read(&current)? };
        let is_empty = text.as_ref().is_some_and(Vec::is_empty);
        if others.resources.last().filter(is_local_plain).is_some() && !is_empty {
            return self.write_plain(&current, text.as_deref());
        }
        let (Some(text), Some(made_text)) = (text, read(&made)?) else { return self.write_plain(&current, None) };
        if is_binary(&text) || is_binary(&made_text) {
            return self.write_plain(&current, Some(&text));
        }
        let is_resolved = resolved.is_some();
        let wanted = match resolved {
            Some(wanted) => wanted,
            None => {
                let before = self.made_before(&base, &made_text)?;
                let merged = merge(&before, &text, &made_text, LABELS);
                if merged.conflicts > 0 {
                    return Ok(Adopted::Conflict(self.write_conflict(&merged.text)?));
                }
                merged.text
            }
        };
        if wanted.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"<<<<<<< ")) && is_resolved {
            return refuse("there are conflict markers left");
        }
        self.write_patch(&current, &made_text, &wanted)
    }

    fn resource_mode(&self, current: &Image) -> u32 {
        resource_mode(&self.entity.path, if self.entity.is_sensitive() { 0 } else { current.mode }, self.host)
    }

    /// Returns true if a resource file is in the administrator's directory.
    fn is_local(&self, resource: &Resource) -> bool {
        let own = self.host.below_root(Path::new("/etc/holo/resources"));
        self.entity.resource_directory(resource).starts_with(own)
    }

    /// Returns the patch from an earlier adoption.
    fn local_patch(&self) -> Option<&Resource> {
        let mut resources = self.entity.resources.iter();
        resources.find(|resource| {
            resource.kind == Kind::Patch && resource.path.starts_with(self.disambiguator()) && self.is_local(resource)
        })
    }

    /// Returns the directory of the resource file to write: that of an unmanaged file, if no other one is applied to it.
    fn disambiguator(&self) -> &'static str {
        let last = self.entity.resources.last();
        let is_base = |last: &&Resource| last.path.starts_with(LOCAL_BASE) && self.is_local(last);
        if last.filter(is_base).is_some() { LOCAL_BASE } else { LOCAL }
    }

    fn without_local_patch(&self) -> FileEntity {
        let mut others = self.entity.clone();
        let local = self.local_patch();
        others.resources.retain(|resource| Some(resource) != local);
        others
    }

    /// Returns the result of applying resource files to the base.
    fn evaluate(&self, entity: &FileEntity, base: &Image) -> Result<Image, Refusal> {
        if entity.is_orphan() {
            return Ok(base.clone());
        }
        // Its content is in the cache, which is removed at the end of the run.
        Ok(desired::evaluate(entity, base, &self.layout, &mut Output::new(&mut Silence))?.image)
    }

    /// Returns what resource files had made of the target when it was provisioned, without the patch from an earlier adoption.
    fn made_before(&self, base: &Image, made: &[u8]) -> Result<Vec<u8>, Refusal> {
        let provisioned = Image::load(&self.layout.images.provisioned(&self.entity.path))?;
        let was_written = provisioned.is_some();
        let Some(text) = read(provisioned.as_ref().unwrap_or(base))? else { return Ok(made.to_vec()) };
        let Some(patch) = self.local_patch().filter(|_| was_written) else { return Ok(text) };
        let patch = fs::read(self.entity.shown_resource(patch)).ok().and_then(|patch| Patch::parse(&patch).ok());
        let Some(patch) = patch else { return Ok(made.to_vec()) };
        let mut before = PatchedText::new(&text);
        Ok(match before.apply_exactly(&patch.reversed()) {
            Ok(()) => before.into_bytes(),
            // The patch was adopted after the target was provisioned.
            Err(_) if patch.apply(&text).is_ok() => text,
            Err(_) => made.to_vec(),
        })
    }

    fn below(&self, suffix: &[u8]) -> PathBuf {
        let name = [self.disambiguator().as_bytes(), self.entity.path.as_os_str().as_bytes(), suffix].concat();
        OsString::from_vec(name).into()
    }

    /// Writes a resource file. An empty file requests the removal of an existing one.
    fn write(&self, suffix: &[u8], content: &[u8], mode: u32) -> Result<(), Refusal> {
        Ok(write(&self.directory.join(self.below(suffix)), content, mode)?)
    }

    fn remove_local_patch(&self) -> Result<(), Refusal> {
        if self.local_patch().is_some() { self.write(PATCH_SUFFIX, b"", 0o600) } else { Ok(()) }
    }

    fn write_plain(&self, current: &Image, text: Option<&[u8]>) -> Result<Adopted, Refusal> {
        match (&current.content, text) {
            (Content::Symlink(target), _) => {
                let target: PathBuf = OsString::from_vec(target.clone()).into();
                if target == Path::new("/dev/null") {
                    return Err(EvaluationError("it is a link to /dev/null, which masks resource files".to_owned()));
                }
                write_symlink(&self.directory.join(self.below(b"")), &target)?;
            }
            (Content::File { .. }, text) => {
                let read = match text {
                    Some(_) => None,
                    None => read(current)?,
                };
                self.write(b"", text.or(read.as_deref()).unwrap_or_default(), self.resource_mode(current))?;
            }
        }
        self.remove_local_patch()?;
        Ok(Adopted::Done { definition: String::new() })
    }

    fn write_patch(&self, current: &Image, made: &[u8], wanted: &[u8]) -> Result<Adopted, Refusal> {
        if made == wanted {
            if self.local_patch().is_none() {
                return Ok(Adopted::Unchanged);
            }
            self.remove_local_patch()?;
        } else {
            let patch = patch(&self.entity.path, made, wanted);
            self.write(PATCH_SUFFIX, &patch, self.resource_mode(current))?;
        }
        Ok(Adopted::Done { definition: String::new() })
    }

    /// Writes both sides of a conflict to a file for manual resolution.
    fn write_conflict(&self, text: &[u8]) -> Result<PathBuf, Refusal> {
        let name = self.entity.path.file_name().unwrap_or_default();
        let path = self.host.cache_dir().join("conflicts").join(path_digest(&self.entity.path)).join(name);
        write(&path, text, 0o600)?;
        Ok(path)
    }
}

/// Returns the reason not to adopt a target with a file next to it that the next apply would take as a new version from the package.
fn waiting_version(path: &Path, layout: &Layout, host: &Host) -> Result<Option<String>, Refusal> {
    let waiting = Distribution::of(host.system().os_release()).peek(&layout.images.target(path), host, false)?;
    Ok(waiting.map(|(stock, current)| {
        let [stock, current] = [stock.shown(), current.shown()].map(|path| path.display().to_string());
        let beside = if stock == host.below_root(path).display().to_string() { current } else { stock };
        format!(
            "{beside} exists, which an apply would take for a new version from its package; apply or remove it first"
        )
    }))
}

/// Like `waiting_version`, but for an unmanaged file.
pub(crate) fn has_waiting_version(path: &Path, host: &Host) -> Option<String> {
    let layout = Layout::open(host).ok()?;
    waiting_version(path, &layout, host).ok()?
}

/// Returns the patch for the target at a path.
pub(crate) fn patch(path: &Path, from: &[u8], to: &[u8]) -> Vec<u8> {
    let path = path.as_os_str().as_bytes();
    [b"--- a", path, b"\n+++ b", path, b"\n", &hunks(from, to)[..]].concat()
}

/// Returns the mode of a resource file from that of the target: what others cannot read must not be readable there either.
pub(crate) fn resource_mode(path: &Path, mode: u32, host: &Host) -> u32 {
    // The resource file is in directories that others can enter.
    let is_open = |folder: &Path| {
        folder.parent().is_none()
            || host.below_root(folder).metadata().is_ok_and(|found| found.permissions().mode() & ENTERED_BY_OTHERS != 0)
    };
    if mode & OTHERS != 0 && path.ancestors().skip(1).all(is_open) { 0o644 } else { PRIVATE_MODE }
}

/// Writes a file and creates its parent directories.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), PathError> {
    make_folder(path)?;
    let written = fs::write(path, content).and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)));
    written.map_err(|error| PathError::new("write", path, error))
}

/// Creates a symlink and its parent directories.
pub(crate) fn write_symlink(path: &Path, target: &Path) -> Result<(), PathError> {
    make_folder(path)?;
    symlink(target, path).map_err(|error| PathError::new("symlink", path, error))
}

fn make_folder(path: &Path) -> Result<(), PathError> {
    let made: io::Result<()> = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.map_err(|error| PathError::new("mkdir", path, error))
}

/// Describes the difference of modes and owners.
fn words(current: &Image, made: &Image) -> String {
    let words = |image: &Image| format!("{:04o} {}:{}", image.mode, image.uid, image.gid);
    format!("{} instead of {}", words(current), words(made))
}
