//! The search for what a person has done to files: edits of managed files and of configuration files of packages, and files of nobody's.

use super::dpkg::Packages;
use super::exclusions::Exclusions;
use crate::managed::ManagedFile;
use crate::overlay::{self, FileEntity, PREFIX};
use bstr::{BString, ByteSlice};
use holo_change::claims;
use holo_change::hex;
use holo_plugin::{Candidate, Entity, ForceTo, Host, Job, Output, Verdict};
use md5::{Digest, Md5};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// The directories in which every file is a package's or a person's.
const SCOPES: [&str; 3] = ["/etc", "/usr/local", "/usr/lib/systemd/system"];
/// The scope that is a person's also where nobody knows what packages have brought.
const LOCAL_SCOPE: &str = "/usr/local";
/// A larger file is data, and not configuration.
const MAX_SIZE: u64 = 16 << 20;
/// The mode of a directory that needs no mention.
const DIRECTORY_MODE: u32 = 0o755;

/// Lists what could be adopted.
pub(crate) fn candidates(host: &Host, managed: &[ManagedFile]) -> Vec<Candidate> {
    let packages = Packages::read(host);
    let search = Search {
        host,
        exclusions: Exclusions::read(host),
        managed: managed.iter().map(|file| file.report().id).collect(),
        claims: claims::all(host.locations()),
    };
    let mut found = edited(host, managed);
    found.extend(search.conffiles(&packages));
    found.extend(search.unowned(&packages));
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found.dedup_by(|one, other| one.id == other.id);
    found
}

/// Returns the overlays whose targets a person has changed.
fn edited(host: &Host, managed: &[ManagedFile]) -> Vec<Candidate> {
    let overlays = managed.iter().filter_map(|file| match file {
        ManagedFile::Overlay(overlaid) => Some(overlaid),
        _ => None,
    });
    let overlays: Vec<&FileEntity> = overlays.filter(|overlaid| !overlaid.is_orphan()).collect();
    let jobs: Vec<Job<'_, FileEntity>> =
        overlays.iter().map(|entity| Job { entity: *entity, mode: host.mode(false) }).collect();
    let checked = overlay::check_many(host, &jobs, true).into_iter().zip(&overlays);
    let mut unheard = holo_plugin::Silence;
    let mut output = Output::new(&mut unheard);
    let is_edited = |(checked, overlaid): (Option<overlay::Checked>, &&FileEntity)| {
        let verdict = match checked {
            Some(checked) => checked.tell(&mut output),
            None => overlaid.check(host, host.mode(false), &mut output),
        };
        (verdict == Verdict::NeedsForce(ForceTo::Overwrite))
            .then(|| Candidate::new(overlaid.report().id, "edited since it was applied"))
    };
    checked.filter_map(is_edited).collect()
}

/// A search for files that nothing manages.
struct Search<'a> {
    host: &'a Host,
    exclusions: Exclusions,
    managed: BTreeSet<BString>,
    claims: Vec<claims::Claim>,
}

impl Search<'_> {
    fn id(path: &[u8]) -> BString {
        [PREFIX, path].concat().into()
    }

    /// Returns true if an entity manages a path, of whatever plugin.
    fn is_managed(&self, path: &[u8]) -> bool {
        self.managed.contains(&Search::id(path)) || self.claims.iter().any(|claim| claim.covers(&path.to_path_lossy()))
    }

    /// Returns the configuration files that are not as their packages have brought them.
    fn conffiles(&self, packages: &Packages) -> Vec<Candidate> {
        let candidate = |(path, conffile): (&BString, &super::dpkg::Conffile)| {
            let is_other =
                self.sum(path).is_some_and(|sum| conffile.sum.as_ref().is_some_and(|brought| *brought != sum));
            let package = packages.of_conffile(path).filter(|_| is_other && !self.is_managed(path))?;
            let reason = format!("not as {} {} has brought it", package.name, package.version);
            Some(Candidate::new(Search::id(path), reason).in_group(package.name.as_str()))
        };
        packages.conffiles.iter().filter_map(candidate).collect()
    }

    /// Returns the MD5 sum of a regular file.
    fn sum(&self, path: &[u8]) -> Option<String> {
        let path = self.host.below_root(&path.to_path_lossy());
        let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        is_file.then(|| fs::read(path).ok()).flatten().map(|content| hex(&Md5::digest(content)))
    }

    /// Returns the files that no package has brought.
    fn unowned(&self, packages: &Packages) -> Vec<Candidate> {
        let owned = packages.owned(&SCOPES, self.host);
        // Where it is not known what packages bring, most files are theirs.
        let scopes = SCOPES.iter().filter(|scope| !packages.is_empty() || **scope == LOCAL_SCOPE);
        let mut found = Vec::new();
        for scope in scopes {
            let root = self.host.below_root(Path::new(scope));
            let Ok(above) = root.symlink_metadata() else { continue };
            let entries = WalkDir::new(&root).min_depth(1).same_file_system(true).sort_by_file_name();
            for entry in entries.into_iter().filter_map(Result::ok) {
                let Ok(below) = entry.path().strip_prefix(&root) else { continue };
                let path = Path::new(scope).join(below);
                let bytes = BString::from(path.as_os_str().as_bytes());
                if owned.contains_key(&bytes) || self.is_managed(&bytes) {
                    continue;
                }
                if let Some(reason) = self.reason(&entry, &path, &above) {
                    let candidate = Candidate::new(Search::id(&bytes), reason);
                    let group = group(&path, &owned).and_then(|package| packages.name(package));
                    found.push(match group {
                        Some(group) => candidate.in_group(group),
                        None => candidate,
                    });
                }
            }
        }
        found
    }

    /// Returns the reason for which a file of no package should be kept, if it should.
    fn reason(&self, entry: &DirEntry, path: &Path, scope: &Metadata) -> Option<&'static str> {
        let metadata = entry.metadata().ok()?;
        let name = path.to_str()?;
        let kind = metadata.file_type();
        if self.exclusions.cover(name, metadata.mtime()) {
            return None;
        }
        if kind.is_dir() {
            let owners = |metadata: &Metadata| (metadata.uid(), metadata.gid());
            let is_usual = metadata.mode() & 0o7777 == DIRECTORY_MODE && owners(&metadata) == owners(scope);
            return (!is_usual).then_some("a directory of no package, with a mode or owner of its own");
        }
        if kind.is_symlink() {
            // Units are enabled, disabled, masked and named by them.
            let is_of_units = ["/etc/systemd/system", "/etc/systemd/user"].iter().any(|units| path.starts_with(units));
            return (!is_of_units).then_some("a symlink of no package");
        }
        if !kind.is_file() || metadata.len() > MAX_SIZE || is_mounted(entry.path()) {
            return None;
        }
        match self.exclusions.generated.get(name) {
            Some(sum) if self.sum(name.as_bytes()).as_ref() == Some(sum) => None,
            Some(_) => Some("changed since its package has generated it"),
            None => Some("a file of no package"),
        }
    }
}

/// Returns true if something is mounted on a file. The layers of an overlay have devices of their own, so those say nothing.
fn is_mounted(path: &Path) -> bool {
    let mount = |path: &Path| {
        let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID).ok()?;
        (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
    };
    path.parent().is_some_and(|folder| mount(folder) != mount(path))
}

/// Returns the package that alone has brought the nearest directory above a path.
fn group(path: &Path, owned: &super::dpkg::Owned) -> Option<usize> {
    let above = path.ancestors().skip(1).map(Path::to_owned);
    let nearest = above.map(PathBuf::into_os_string).find_map(|above| owned.get(above.as_bytes().as_bstr()).copied());
    nearest.flatten()
}
