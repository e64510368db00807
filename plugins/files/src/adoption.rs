//! Adoption: existing files and manual changes become resource files. It searches for edits of managed files and of package files, and for
//! files that belong to no package.

mod exclusions;
mod unmanaged;

use crate::managed::ManagedFile;
use crate::overlay::{self, FileEntity, PREFIX};
use bstr::{BStr, BString, ByteSlice};
use exclusions::Exclusions;
use holo_change::claims::{self, Claim};
use holo_plugin::system::PackagedFile;
use holo_plugin::{
    Adopted, Adoption, Candidate, Entity, ForceTo, Host, Job, Mode, Output, ScanError, Silence, Verdict,
};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Lists the files that could be adopted.
pub(crate) fn candidates(host: &Host, managed: &[ManagedFile], output: &mut Output<'_>) -> Vec<Candidate> {
    let mut found = find_candidates(host, managed, output);
    leave_out(&mut found, output);
    found
}

/// Writes resource files for the current state of a file, or its definition.
pub(crate) fn adopt(
    host: &Host,
    adoption: Adoption<'_>,
    output: &mut Output<'_>,
    find: impl Fn(&BStr, &mut Output<'_>) -> Result<Option<ManagedFile>, ScanError>,
    all: &dyn Fn() -> Vec<ManagedFile>,
) -> Adopted {
    let id = adoption.id;
    if id.starts_with(b"/") {
        let exists = host.below_root(&id.to_path_lossy()).symlink_metadata().is_ok();
        // The answer with the ID is a single line.
        if exists && id.contains(&b'\n') {
            output.error(format!("cannot adopt {id:?}: its path contains control characters"));
            return Adopted::Failed;
        }
        let id = [PREFIX, id].concat();
        let is_known = exists || matches!(find(id.as_bstr(), &mut Output::new(&mut Silence)), Ok(Some(_)));
        return if is_known { Adopted::Entity(id.into()) } else { Adopted::Unknown };
    }
    let Some(path) = id.strip_prefix(PREFIX).filter(|path| path.starts_with(b"/")) else { return Adopted::Unknown };
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let Ok(found) = find(id, output) else { return Adopted::Failed };
    let Some(entity) = found else {
        let is_edited = |file: &ManagedFile| matches!(file, ManagedFile::Edit(edit) if edit.entity.path() == path);
        if let Some(ManagedFile::Edit(edit)) = all().iter().find(|file| is_edited(file)) {
            output.error(format!("cannot adopt {id}: it is edited by {}", edit.entity.id()));
            return Adopted::Failed;
        }
        return unmanaged::adopt(path, host, adoption, output);
    };
    match &entity {
        ManagedFile::Overlay(overlaid) => adopt_overlay(overlaid, host, adoption, output),
        ManagedFile::WithSidecar(overlaid) => match &overlaid.common.skipped {
            Some(reason) => {
                output.error(format!("cannot adopt {id}: it is left out, as {reason}"));
                Adopted::Failed
            }
            None => adopt_overlay(&overlaid.entity, host, adoption, output),
        },
        ManagedFile::Declared(declared) => match Adopted::defined_already(&**declared, host, output) {
            Some(adopted) => adopted,
            None => unmanaged::adopt(path, host, adoption, output),
        },
        // The ID of an edit is not that of a file.
        ManagedFile::Edit(_) => Adopted::Unknown,
        ManagedFile::OverlayAfter(..) => {
            output.error(format!("cannot adopt {id}: its definition has changed; apply it first"));
            Adopted::Failed
        }
        ManagedFile::Contradicted(contradicted) => {
            output.error(format!("cannot adopt {id}: {}", contradicted.reason));
            Adopted::Failed
        }
    }
}

fn adopt_overlay(overlaid: &FileEntity, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
    let verdict = overlaid.check(host, Mode::default(), &mut Output::new(&mut Silence));
    if verdict == Verdict::InDesiredState && !overlaid.is_orphan() {
        return Adopted::Unchanged;
    }
    overlay::adopt::adopt(overlaid, host, adoption, output)
}

/// The maximum number of files without a package in a manually maintained directory.
const MOST_BY_HAND: usize = 50;

/// Removes the files of directories that contain too many, with a warning.
fn leave_out(found: &mut Vec<Candidate>, output: &mut Output<'_>) {
    let mut counts: BTreeMap<BString, usize> = BTreeMap::new();
    let is_nobodys = |candidate: &Candidate| candidate.reason.contains_str("of no package");
    for candidate in found.iter().filter(|candidate| is_nobodys(candidate)) {
        *counts.entry(directory(candidate).to_owned()).or_default() += 1;
    }
    counts.retain(|_, count| *count > MOST_BY_HAND);
    found.retain(|candidate| !is_nobodys(candidate) || !counts.contains_key(directory(candidate)));
    for (directory, count) in counts {
        let directory = directory.strip_prefix(PREFIX).unwrap_or(&directory).as_bstr();
        output.warning(format!(
            "{count} files of no package in {directory} are not adopted: such a large directory is installed software, which an archive can provide"
        ));
    }
}

/// Returns the ID of the directory that contains a candidate.
fn directory(candidate: &Candidate) -> &BStr {
    candidate.id.rsplit_once_str("/").map_or(b"".as_bstr(), |(directory, _)| directory.as_bstr())
}

/// The directories in which every file was created by a package or manually.
const SCOPES: [&str; 3] = ["/etc", "/usr/local", "/usr/lib/systemd/system"];
/// The directory whose files were created manually even if packages are unknown.
const LOCAL_SCOPE: &str = "/usr/local";
/// The directories whose symlinks configure systemd units.
const UNITS: [&str; 2] = ["/etc/systemd/system", "/etc/systemd/user"];
/// The maximum size in bytes. Larger files are data, not configuration.
const MAX_SIZE: u64 = 16 << 20;
/// The usual mode of a directory, which needs no definition.
const DIRECTORY_MODE: u32 = 0o755;

/// Lists the files that could be adopted.
fn find_candidates(host: &Host, managed: &[ManagedFile], output: &mut Output<'_>) -> Vec<Candidate> {
    let mut found = edited(host, managed);
    let edited_files = managed.iter().filter_map(|file| match file {
        ManagedFile::Edit(edit) => Some([PREFIX, edit.entity.path().as_os_str().as_bytes()].concat().into()),
        _ => None,
    });
    let managed = managed.iter().map(|file| file.report().id).chain(edited_files).collect();
    found.extend(Search::new(host, managed).candidates(output));
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found.dedup_by(|one, other| one.id == other.id);
    found
}

/// Returns the overlays whose targets were changed manually.
fn edited<'e>(host: &'e Host, managed: &'e [ManagedFile]) -> Vec<Candidate> {
    let overlays = managed.iter().filter_map(|file| match file {
        ManagedFile::Overlay(overlaid) => Some(overlaid),
        ManagedFile::WithSidecar(overlaid) => Some(&overlaid.entity).filter(|_| overlaid.common.skipped.is_none()),
        _ => None,
    });
    let overlays: Vec<&FileEntity> = overlays.filter(|overlaid| !overlaid.is_orphan()).collect();
    let job = |entity: &&'e FileEntity| Job { entity: *entity, mode: Mode::default() };
    let jobs: Vec<Job<'_, FileEntity>> = overlays.iter().map(job).collect();
    let mut unheard = Silence;
    let mut output = Output::new(&mut unheard);
    let is_edited = |(checked, overlaid): (Option<overlay::Checked>, &&FileEntity)| {
        let verdict = match checked {
            Some(checked) => checked.tell(&mut output),
            None => overlaid.check(host, Mode::default(), &mut output),
        };
        (verdict == Verdict::NeedsForce(ForceTo::Overwrite))
            .then(|| Candidate::new(overlaid.report().id, "edited since it was applied"))
    };
    overlay::check_many(host, &jobs, true).into_iter().zip(&overlays).filter_map(is_edited).collect()
}

/// A search for unmanaged files.
struct Search<'a> {
    host: &'a Host,
    exclusions: Exclusions,
    managed: BTreeSet<BString>,
    claims: Vec<Claim>,
    /// All files in the searched directories.
    files: BTreeMap<PathBuf, Metadata>,
    /// Those that belong to packages.
    packaged: BTreeMap<PathBuf, PackagedFile>,
}

impl Search<'_> {
    fn new(host: &Host, managed: BTreeSet<BString>) -> Search<'_> {
        let files: BTreeMap<PathBuf, Metadata> = SCOPES.iter().flat_map(|scope| list(scope, host)).collect();
        let paths: Vec<PathBuf> = files.keys().cloned().collect();
        let packaged = host.system().packaged_files(&paths);
        let claims = claims::all(host.locations());
        Search { host, exclusions: Exclusions::read(host), managed, claims, files, packaged }
    }

    /// Lists the files that can be adopted. Warns of paths that a definition cannot contain.
    fn candidates(&self, output: &mut Output<'_>) -> Vec<Candidate> {
        let candidate = |(path, metadata): (&PathBuf, &Metadata)| {
            let bytes = path.as_os_str().as_bytes();
            // Without knowledge of packages, assume that files belong to them.
            let is_searched = !self.packaged.is_empty() || path.starts_with(LOCAL_SCOPE);
            if !is_searched || self.is_managed(path) {
                return None;
            }
            let reason = match self.packaged.get(path) {
                Some(file) => self.changed(path, metadata, file)?,
                None => self.unowned(path, metadata)?.to_owned(),
            };
            if let Err(problem) = unmanaged::definable(path) {
                output.warning(format!("{path:?} is not adopted: {problem}"));
                return None;
            }
            let candidate = Candidate::new([PREFIX, bytes].concat(), reason);
            Some(match self.group(path) {
                Some(group) => candidate.in_group(group),
                None => candidate,
            })
        };
        self.files.iter().filter_map(candidate).collect()
    }

    /// Returns true if an entity of any plugin manages a path.
    fn is_managed(&self, path: &Path) -> bool {
        let id = BString::from([PREFIX, path.as_os_str().as_bytes()].concat());
        self.managed.contains(&id) || self.claims.iter().any(|claim| claim.covers(path))
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        fs::read(self.host.below_root(path)).ok()
    }

    /// Returns the reason to adopt a file that differs from its package.
    fn changed(&self, path: &Path, metadata: &Metadata, file: &PackagedFile) -> Option<String> {
        let digest = file.digest.as_ref().filter(|_| metadata.is_file() && metadata.len() <= MAX_SIZE)?;
        let is_as_brought = digest.is_of(&self.content(path)?)?;
        (!is_as_brought).then(|| format!("changed from the version in package {}", file.package))
    }

    /// Returns the reason to adopt a file that belongs to no package.
    fn unowned(&self, path: &Path, metadata: &Metadata) -> Option<&'static str> {
        let name = &*path.to_string_lossy();
        let kind = metadata.file_type();
        if self.exclusions.cover(name, metadata.mtime()) {
            return None;
        }
        if kind.is_dir() {
            let usual = self.host.root().metadata().map_or((0, 0), |root| (root.uid(), root.gid()));
            let is_usual = metadata.mode() & 0o7777 == DIRECTORY_MODE && (metadata.uid(), metadata.gid()) == usual;
            return (!is_usual).then_some("a directory of no package, with a mode or owner of its own");
        }
        if kind.is_symlink() {
            return (!UNITS.iter().any(|units| path.starts_with(units))).then_some("a symlink of no package");
        }
        if !kind.is_file() || metadata.len() > MAX_SIZE || is_mounted(&self.host.below_root(path)) {
            return None;
        }
        match self.exclusions.generated(name) {
            Some(sum) if sum.is_of(&self.content(path)?) == Some(true) => None,
            Some(_) => Some("changed since its package generated it"),
            None => Some("a file of no package"),
        }
    }

    /// Returns the package to group a file with: the one that owns it, or the only one with files in a parent directory.
    fn group(&self, path: &Path) -> Option<&str> {
        if let Some(file) = self.packaged.get(path) {
            return Some(&file.package);
        }
        // The searched directories themselves are shared by all packages.
        let mut above =
            path.ancestors().skip(1).take_while(|above| !SCOPES.iter().any(|scope| above == &Path::new(scope)));
        above.find_map(|above| self.only_package_in(above))?.ok()
    }

    /// Returns the only package with files in a directory, `None` if there is no package, and an error if there are several.
    fn only_package_in(&self, directory: &Path) -> Option<Result<&str, SeveralError>> {
        let own = self.packaged.get(directory).map(|file| &*file.package);
        let inside = self.packaged.range(directory.to_owned()..).skip_while(|(path, _)| *path == directory);
        let inside = inside.take_while(|(path, _)| path.starts_with(directory));
        let packages: BTreeSet<&str> = inside.map(|(_, file)| &*file.package).collect();
        match (packages.len(), packages.first(), own) {
            (0, _, own) => own.map(Ok),
            (1, Some(only), _) => Some(Ok(only)),
            _ => Some(Err(SeveralError)),
        }
    }
}

/// Returns true if a file is a mount point. Device numbers cannot tell, because the layers of an overlay have their own.
fn is_mounted(path: &Path) -> bool {
    let mount = |path: &Path| {
        let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID).ok()?;
        (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
    };
    path.parent().is_some_and(|folder| mount(folder) != mount(path))
}

/// A directory belongs to several packages.
struct SeveralError;

/// Returns all files below a directory on the same file system.
fn list(scope: &str, host: &Host) -> Vec<(PathBuf, Metadata)> {
    let root = host.below_root(Path::new(scope));
    let entries = WalkDir::new(&root).min_depth(1).same_file_system(true).into_iter().filter_map(Result::ok);
    let entry = |entry: walkdir::DirEntry| {
        let metadata = entry.metadata().ok()?;
        Some((Path::new(scope).join(entry.path().strip_prefix(&root).ok()?), metadata))
    };
    entries.filter_map(entry).collect()
}

#[cfg(test)]
mod trees_tests {
    use super::*;
    use holo_plugin::{Sink, Stream};

    struct OutputBuffer(String);

    impl Sink for OutputBuffer {
        fn write(&mut self, _: Stream, bytes: &[u8]) {
            self.0.push_str(&bytes.to_str_lossy());
        }
    }

    #[test]
    fn large_trees_are_left_out_with_a_warning() {
        let ids = (0..51).map(|number| format!("file:/usr/local/libexec/x/{number}"));
        let ids = ids.chain((0..50).map(|number| format!("file:/usr/local/bin/{number}")));
        let mut found: Vec<Candidate> = ids.map(|id| Candidate::new(id, "a file of no package")).collect();
        let mut said = OutputBuffer(String::new());
        leave_out(&mut found, &mut Output::new(&mut said));
        assert_eq!(found.len(), 50);
        assert!(found.iter().all(|candidate| candidate.id.starts_with(b"file:/usr/local/bin/")));
        assert_eq!(
            said.0,
            ">> 51 files of no package in /usr/local/libexec/x are not adopted: such a large directory is installed software, which an archive can provide\n"
        );
    }
}
