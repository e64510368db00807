//! Adopts an unmanaged file as a resource file, a patch of the package's version, or a definition.

use super::exclusions::{Exclusions, is_excluded, is_generated};
use crate::overlay::adopt::{
    LOCAL_BASE, PRIVATE_MODE, has_waiting_version, patch, resource_mode, write, write_symlink,
};
use crate::overlay::{PATCH_SUFFIX, SCRIPT_SUFFIX, TEMPLATE_SUFFIX};
use bstr::{BStr, BString, ByteSlice};
use holo_change::acl::{Tag, letters};
use holo_change::error::PathError;
use holo_change::{ExtendedAttributes, Tree};
use holo_plugin::definitions::values::quoted;
use holo_plugin::diff::is_binary;
use holo_plugin::process::Program;
use holo_plugin::system::PackagedFile;
use holo_plugin::{Adopted, Adoption, Candidate, Host, Output};
use std::convert::Infallible;
use std::fmt::Write;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) fn adopt(path: &Path, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
    let shown = host.below_root(path);
    let adopted = match shown.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(describe_deleted(path, host, adoption)),
        Err(error) => Err(error),
        Ok(metadata) => describe(path, &shown, &metadata, host, adoption, output),
    };
    let mut adopted = adopted.unwrap_or_else(|error| {
        output.error(format!("cannot adopt {}: {}", adoption.id, error));
        Adopted::Failed
    });
    // Without the diversion, dpkg would overwrite the file when it installs the package.
    if let Adopted::Done { definition } = &mut adopted
        && !definition.is_empty()
        && shown.symlink_metadata().is_ok()
        && let Some(package) = diverted_package(path, host)
    {
        push_package(definition, &package, adoption);
    }
    adopted
}

/// Returns true if an installed package contains a configuration file at this path, which was deleted.
pub(super) fn is_deleted(path: &Path, host: &Host) -> bool {
    let shown = host.below_root(path).symlink_metadata();
    shown.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        && host.system().configuration_files().contains_key(path)
}

fn describe_deleted(path: &Path, host: &Host, adoption: Adoption<'_>) -> Adopted {
    let Ok(name) = definable(path) else { return Adopted::Unknown };
    let Some(package) = host.system().configuration_files().remove(path) else { return Adopted::Unknown };
    let mut definition = format!("[[file]]\npath = {}\nensure = \"absent\"\n", quoted(name));
    push_package(&mut definition, &package, adoption);
    Adopted::Done { definition }
}

/// Makes the definition of a packaged file require the package: on another machine, the package would install the file later.
fn push_package(definition: &mut String, package: &str, adoption: Adoption<'_>) {
    let package = format!("package:{package}");
    if adoption.with.iter().any(|id| *id == package) {
        let _ = writeln!(definition, "requires = [{}]", quoted(&package));
    }
}

/// Returns the package whose file an administrator has diverted from this path.
fn diverted_package(path: &Path, host: &Host) -> Option<String> {
    let diversions = host.system().diversions().ok()?;
    let to = diversions.into_iter().find(|one| one.package.is_none() && one.from == path)?.to;
    host.system().packaged_files(std::slice::from_ref(&to)).remove(&to).map(|file| file.package)
}

/// The mode, owner and ACL of a packaged file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// They are those of the package, or those that a script of a package has set.
    Packaged,
    /// They are others.
    Changed,
    /// They are unusual, and those of the package are unknown: package managers such as dpkg do not record them.
    Unknown,
}

/// The usual modes of packaged files and directories, which belong to root.
const USUAL_MODES: [u32; 2] = [0o644, 0o755];

/// Compares the mode, owner and ACL of a file or directory with those of its package.
pub(super) fn rights(
    path: &Path,
    metadata: &Metadata,
    packaged: Option<&PackagedFile>,
    exclusions: &Exclusions,
    host: &Host,
) -> Rights {
    if has_acl(path, host) {
        return Rights::Changed;
    }
    let mode = metadata.mode() & 0o7777;
    let is_usual = USUAL_MODES.contains(&mode) && owners(metadata, host).is_empty();
    // A script may set those of a whole directory.
    let mut above = path.ancestors().filter_map(Path::to_str).take_while(|above| above.matches('/').count() > 1);
    if path.to_str().is_none_or(|path| exclusions.is_mentioned(path))
        || above.any(|above| exclusions.is_mentioned(above))
    {
        return Rights::Packaged;
    }
    let original = packaged.filter(|_| metadata.is_file()).and_then(|packaged| original(path, packaged, host));
    match original {
        Some(original) if original.mode == mode && original.is_of_root == owners(metadata, host).is_empty() => {
            Rights::Packaged
        }
        Some(_) => Rights::Changed,
        None if is_usual => Rights::Packaged,
        None => Rights::Unknown,
    }
}

/// Returns true if a file has an ACL that its mode does not determine.
pub(super) fn has_acl(path: &Path, host: &Host) -> bool {
    acl_entries(path, host).is_ok_and(|entries| !entries.is_empty())
}

fn describe(
    path: &Path,
    shown: &Path,
    metadata: &Metadata,
    host: &Host,
    adoption: Adoption<'_>,
    output: &mut Output<'_>,
) -> io::Result<Adopted> {
    let kind = metadata.file_type();
    let name = match definable(path) {
        Ok(name) => name,
        Err(problem) => {
            output.error(format!("cannot adopt {path:?}: {problem}"));
            return Ok(Adopted::Failed);
        }
    };
    let mut definition = format!("[[file]]\npath = {}\n", quoted(name));
    let packaged = host.system().packaged_files(&[path.to_owned()]).remove(path);
    let suffixes = [SCRIPT_SUFFIX, TEMPLATE_SUFFIX, PATCH_SUFFIX];
    let has_odd_name = suffixes.iter().any(|suffix| name.as_bytes().ends_with(suffix));
    if kind.is_symlink() {
        let target = fs::read_link(shown)?;
        let is_instead = packaged.as_ref().is_some_and(|packaged| packaged.digest.is_some());
        if is_instead && !has_odd_name && target != Path::new("/dev/null") {
            let to = adoption.directory.join(LOCAL_BASE).join(path.strip_prefix("/").unwrap_or(path));
            write_symlink(&to, &target).map_err(|error| error.error)?;
            return Ok(Adopted::Done { definition: String::new() });
        }
        let Some(target) = target.to_str() else {
            output.error(format!("cannot adopt {}: its target {target:?} is not UTF-8", adoption.id));
            return Ok(Adopted::Failed);
        };
        let _ = writeln!(definition, "ensure = \"symlink\"\ntarget = {}", quoted(target));
        push_owner(&mut definition, metadata, host);
        return Ok(Adopted::Done { definition });
    }
    let mode = metadata.mode() & 0o7777;
    if !kind.is_file() && !kind.is_dir() {
        output.error(format!("cannot adopt {}: it is neither a file, a directory nor a symlink", adoption.id));
        return Ok(Adopted::Failed);
    }
    let acl = acl_entries(path, host).map_err(|error| error.error)?;
    let push_rights = |definition: &mut String| {
        push_owner(definition, metadata, host);
        push_acl(definition, &acl);
        if let Some(packaged) = &packaged {
            push_package(definition, &packaged.package, adoption);
        }
    };
    let others = other_attributes(path, host).map_err(|error| error.error)?;
    if !others.is_empty() {
        let names = others.join(", ");
        output.warning(format!("{} is adopted without what no definition can declare: {names}", adoption.id));
    }
    if kind.is_dir() {
        let _ = writeln!(definition, "ensure = \"directory\"\nmode = \"{mode:04o}\"");
        push_rights(&mut definition);
        return Ok(Adopted::Done { definition });
    }
    if let Some(reason) = has_waiting_version(path, host) {
        output.error(format!("cannot adopt {}: {reason}", adoption.id));
        return Ok(Adopted::Failed);
    }
    let content = fs::read(shown)?;
    let resource_mode = resource_mode(path, mode, host);
    if resource_mode == PRIVATE_MODE && is_excluded(name) {
        let id = adoption.id;
        output
            .warning(format!("{id} may contain secrets of this machine: the resource file with its content is a copy"));
    }
    let is_generated = packaged.is_none() && is_generated(name, host);
    // An overlay has the mode and owner that the package has given to the file.
    let has_own_rights = (packaged.is_some() || is_generated)
        && rights(path, metadata, packaged.as_ref(), &Exclusions::read(host), host) != Rights::Packaged;
    let is_unchanged =
        |file: &PackagedFile| file.digest.as_ref().and_then(|digest| digest.is_of(&content)) == Some(true);
    if has_own_rights && packaged.as_ref().is_some_and(is_unchanged) {
        let _ = writeln!(definition, "mode = \"{mode:04o}\"");
        push_rights(&mut definition);
        return Ok(Adopted::Done { definition });
    }
    let is_brought = (packaged.is_some() || is_generated) && !has_own_rights;
    let original = match &packaged {
        _ if has_own_rights => None,
        Some(packaged) => original(path, packaged, host).map(|original| original.content),
        None if is_generated => generated_content(name, host),
        None => None,
    };
    if let Some(original) = original
        && !is_binary(&original)
        && !is_binary(&content)
    {
        if original == content {
            return Ok(Adopted::Unchanged);
        }
        let below = [LOCAL_BASE.as_bytes(), path.as_os_str().as_bytes(), PATCH_SUFFIX].concat();
        let to = adoption.directory.join(below.to_path_lossy());
        write(&to, &patch(path, &original, &content), resource_mode).map_err(|error| error.error)?;
        return Ok(Adopted::Done { definition: String::new() });
    }
    // The package installs its file with mode and owner. A file without a package does not exist on other machines, where an overlay would
    // do nothing.
    if is_brought && !content.is_empty() && !has_odd_name {
        let to = adoption.directory.join(LOCAL_BASE).join(path.strip_prefix("/").unwrap_or(path));
        write(&to, &content, resource_mode).map_err(|error| error.error)?;
        return Ok(Adopted::Done { definition: String::new() });
    }
    if content.is_empty() {
        definition.push_str("content = \"\"\n");
    } else {
        let source = source_name(name);
        write(&adoption.directory.join(&source), &content, resource_mode).map_err(|error| error.error)?;
        let _ = writeln!(definition, "source = {}", quoted(&source));
    }
    let _ = writeln!(definition, "mode = \"{mode:04o}\"");
    if resource_mode == PRIVATE_MODE {
        definition.push_str("sensitive = true\n");
    }
    push_rights(&mut definition);
    Ok(Adopted::Done { definition })
}

/// Returns the path for a definition, or the reason why a definition cannot contain it.
pub(super) fn definable(path: &Path) -> Result<&str, &'static str> {
    match path.to_str() {
        None => Err("its path is not UTF-8"),
        Some(path) if path.contains(char::is_control) => Err("its path contains control characters"),
        Some(path) => Ok(path),
    }
}

/// Returns an entry that is not adopted, with the prefix of its ID. The ID is readable, even if the path is not.
pub(super) fn left_as(prefix: &[u8], path: &Path, reason: &str, command: Option<String>) -> Candidate {
    let id: BString = match definable(path) {
        Ok(path) => [prefix, path.as_bytes()].concat().into(),
        Err(_) => {
            let escaped = format!("{:?}", BStr::new(path.as_os_str().as_bytes()));
            let escaped = escaped.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(&escaped);
            [prefix, escaped.as_bytes()].concat().into()
        }
    };
    let candidate = Candidate::excluded(id, reason);
    match command {
        Some(command) => candidate.with_command(command),
        None => candidate,
    }
}

fn push_owner(definition: &mut String, metadata: &Metadata, host: &Host) {
    for (key, name) in owners(metadata, host) {
        let _ = writeln!(definition, "{key} = {}", quoted(&name));
    }
}

fn push_acl(definition: &mut String, entries: &[String]) {
    if !entries.is_empty() {
        let entries: Vec<String> = entries.iter().map(|entry| quoted(entry)).collect();
        let _ = writeln!(definition, "acl = [{}]", entries.join(", "));
    }
}

/// Returns the entries of the ACLs that the mode does not determine.
fn acl_entries(path: &Path, host: &Host) -> Result<Vec<String>, PathError> {
    let attributes = ExtendedAttributes::of(&Tree::open(host.root())?.place(path))?;
    let (access, default) = (attributes.acl().unwrap_or_default(), attributes.default_acl().unwrap_or_default());
    let is_of_mode = |tag: Tag| matches!(tag, Tag::UserObj | Tag::Mask | Tag::Other);
    let access = access.entries().filter(|(tag, _)| !is_of_mode(*tag)).map(|entry| ("", entry));
    let entries = access.chain(default.entries().map(|entry| ("default:", entry)));
    let named = |(kind, (tag, permissions)): (&str, (Tag, u32))| {
        let user = |id| Ok::<_, Infallible>(name_of("etc/passwd", id, host));
        let Ok(tag) = tag.try_map(user, |id| Ok(name_of("etc/group", id, host)));
        format!("{kind}{tag}:{}", letters(permissions))
    };
    Ok(entries.map(named).collect())
}

/// Returns the names of the extended attributes that no definition can declare, such as `security.capability`.
fn other_attributes(path: &Path, host: &Host) -> Result<Vec<String>, PathError> {
    let attributes = ExtendedAttributes::of(&Tree::open(host.root())?.place(path))?;
    Ok(attributes.names().filter(|name| !is_of_system(name)).map(ToString::to_string).collect())
}

/// Returns true for ACLs, and for attributes that the system sets again on another machine.
fn is_of_system(name: &BStr) -> bool {
    name.starts_with(b"system.") || ["security.selinux", "security.ima", "security.evm"].iter().any(|own| name == *own)
}

/// Returns the owner and the group where they differ from those of the root directory, which are the default.
fn owners(metadata: &Metadata, host: &Host) -> Vec<(&'static str, String)> {
    let usual = host.root().metadata().map_or((0, 0), |root| (root.uid(), root.gid()));
    let owner = (metadata.uid() != usual.0).then(|| ("owner", name_of("etc/passwd", metadata.uid(), host)));
    let group = (metadata.gid() != usual.1).then(|| ("group", name_of("etc/group", metadata.gid(), host)));
    owner.into_iter().chain(group).collect()
}

/// Returns the name for a UID or GID in a user database, or the number if it has no name.
fn name_of(file: &str, number: u32, host: &Host) -> String {
    let text = holo_plugin::system::Root::new(host.root()).text(file).unwrap_or_default();
    let digits = number.to_string();
    let named = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == digits).then(|| name.to_owned())
    });
    named.unwrap_or(digits)
}

/// Returns a unique file name in the resource directory for the content of a file.
fn source_name(path: &str) -> String {
    let path = path.trim_start_matches('/').replace('_', "__").replace('-', "_-").replace('/', "-");
    // The suffix must not have a special meaning.
    format!("adopted-{path}.content")
}

/// The directory of APT's downloaded archives.
const ARCHIVES: &str = "/var/cache/apt/archives";
/// The directory of the contents that `ucf` has installed, with a colon for each slash of their paths.
const UCF_CONTENTS: &str = "/var/lib/ucf/cache";
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A file as its package contains it.
struct Original {
    content: Vec<u8>,
    mode: u32,
    is_of_root: bool,
}

/// Returns a file as its package contains it, if an archive with the right content exists.
fn original(path: &Path, file: &PackagedFile, host: &Host) -> Option<Original> {
    let digest = file.digest.as_ref()?;
    let begins = format!("{}_", file.package);
    let archives = fs::read_dir(host.below_root(Path::new(ARCHIVES))).ok()?.filter_map(Result::ok);
    let archives: Vec<PathBuf> = archives.map(|entry| entry.path()).collect();
    let is_of_package = |archive: &&PathBuf| {
        let name = archive.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&begins) && name.ends_with(".deb")
    };
    // There may be archives of other versions.
    let mut originals = archives.iter().filter(is_of_package).filter_map(|archive| unpack(archive, path, host));
    originals.find(|original| digest.is_of(&original.content) == Some(true))
}

/// Returns the content that `ucf` has installed at a path.
fn generated_content(path: &str, host: &Host) -> Option<Vec<u8>> {
    fs::read(host.below_root(Path::new(UCF_CONTENTS)).join(path.replace('/', ":"))).ok()
}

/// Returns a file in a Debian package.
fn unpack(archive: &Path, path: &Path, host: &Host) -> Option<Original> {
    let unpacked = host.cache_dir().join("original.tar");
    let mut program = Program::new("dpkg-deb");
    program.arg("--fsys-tarfile").arg(archive).stdout_file(File::create(&unpacked).ok()?).timeout(TIME_LIMIT);
    let ended = program.run(|_, _| {}).ok()?;
    let content = ended.failure().is_none().then(|| extract(&unpacked, path)).flatten();
    let _ = fs::remove_file(&unpacked);
    content
}

/// Returns a file in a tar archive.
fn extract(archive: &Path, path: &Path) -> Option<Original> {
    let wanted = path.strip_prefix("/").ok()?;
    let mut archive = tar::Archive::new(File::open(archive).ok()?);
    for entry in archive.entries().ok()? {
        let mut entry = entry.ok()?;
        let is_wanted = entry.path().is_ok_and(|path| path.strip_prefix(".").unwrap_or(&path) == wanted);
        if is_wanted && entry.header().entry_type().is_file() {
            let header = entry.header();
            let mode = header.mode().ok()? & 0o7777;
            let is_of_root = header.uid().ok()? == 0 && header.gid().ok()? == 0;
            let mut content = Vec::new();
            entry.read_to_end(&mut content).ok()?;
            return Some(Original { content, mode, is_of_root });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_names_are_unique() {
        let names = ["/a-/b", "/a/-b", "/a/b", "/a-b", "/a_b", "/a_-b", "/x.toml"].map(source_name);
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert_eq!(source_name("/usr/local/bin/my-tool"), "adopted-usr-local-bin-my_-tool.content");
    }
}
