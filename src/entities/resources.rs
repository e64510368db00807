//! The directories in which plugins find their resource files, and the paths that users know them by.

use crate::error::FatalError;
use crate::host::cache::CacheDirectory;
use crate::host::root::{Root, normalise};
use bstr::{BStr, BString, ByteSlice, ByteVec};
use holo_protocol::API_VERSION_4;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// Every file and empty directory that generators made, by path relative to the virtual resource root, with the
/// generator that first made it.
pub type Generated = BTreeMap<PathBuf, PathBuf>;

/// The static and the generated resource files, and other paths that plugins see differently from users.
///
/// A plugin without generated files gets its static directory, or an empty one if it has none. For other plugins,
/// static files are copied next to the generated ones, and paths below that *virtual root* are shown as the user knows
/// them. Plugins of version 4 get the administrator's directories in addition; plugins of version 3, which support a
/// single directory, find all files in the virtual one.
#[derive(Debug)]
pub struct Resources {
    static_root: PathBuf,
    virtual_root: PathBuf,
    generated: Generated,
    own: OwnResources,
    /// The plugins without a static directory.
    without_static: BTreeSet<String>,
    /// The directory of empty substitutes for state directories, if there are any, and the directory that they stand
    /// for.
    states: Option<(PathBuf, PathBuf)>,
    /// A directory that is read in place of another one, such as the inputs of an earlier run in place of the root, and
    /// that other one.
    substitute: Option<(PathBuf, PathBuf)>,
}

impl Resources {
    /// Combines static and generated files for these plugins.
    ///
    /// # Errors
    /// If a resource file cannot be copied.
    pub fn prepare<'a>(
        root: &Root,
        cache: &CacheDirectory,
        generated: Generated,
        plugins: impl Iterator<Item = (&'a str, u32)> + Clone,
    ) -> Result<Resources, FatalError> {
        let substitutes = cache.state_substitutes();
        let states = substitutes.exists().then(|| (substitutes, root.states()));
        let substitute = root.substitute();
        let (static_root, virtual_root) = (root.resources(), cache.generated_resources());
        let own = OwnResources::find(root.own_resources(), plugins.clone())?;
        let is_missing = |id: &&str| !static_root.join(id).is_dir();
        let without_static = plugins.clone().map(|(id, _)| id).filter(is_missing).map(str::to_owned).collect();
        let mut resources = Resources { static_root, virtual_root, generated, own, without_static, states, substitute };
        for (id, _) in plugins.filter(|(id, _)| resources.is_virtual(id)) {
            resources.copy_static(id)?;
        }
        resources.own.lay(&resources.virtual_root)?;
        Ok(resources)
    }

    /// Returns the resources of a system without generators.
    #[cfg(test)]
    pub(crate) fn only_static(root: &str) -> Resources {
        Resources {
            static_root: root.into(),
            virtual_root: "/no/cache".into(),
            generated: Generated::new(),
            own: OwnResources::default(),
            without_static: BTreeSet::new(),
            states: None,
            substitute: None,
        }
    }

    /// Returns the virtual root, which contains generated files and copies of static ones.
    #[must_use]
    pub fn virtual_root(&self) -> &Path {
        &self.virtual_root
    }

    /// Returns the files that generators made.
    #[must_use]
    pub fn generated(&self) -> &Generated {
        &self.generated
    }

    /// Returns true if the path is in the cache directory of the run.
    #[must_use]
    pub fn is_of_the_run(&self, path: &Path) -> bool {
        self.virtual_root.parent().is_some_and(|cache| path.starts_with(cache))
    }

    /// Returns the resource directory that the plugin gets.
    #[must_use]
    pub fn directory(&self, plugin_id: &str) -> PathBuf {
        let root = if self.is_virtual(plugin_id) { &self.virtual_root } else { &self.static_root };
        root.join(plugin_id)
    }

    /// Returns the administrator's directory, if there is one and the plugin reads it itself.
    #[must_use]
    pub fn own_directory(&self, plugin_id: &str) -> Option<PathBuf> {
        self.own.directory(plugin_id)
    }

    fn is_virtual(&self, plugin_id: &str) -> bool {
        self.has_generated(plugin_id) || self.own.is_laid_over(plugin_id) || self.without_static.contains(plugin_id)
    }

    fn has_generated(&self, plugin_id: &str) -> bool {
        let folder = Path::new(plugin_id);
        self.generated.range(folder.to_owned()..).next().is_some_and(|(file, _)| file.starts_with(folder))
    }

    fn copy_static(&self, plugin_id: &str) -> Result<(), FatalError> {
        if self.without_static.contains(plugin_id) {
            let directory = self.virtual_root.join(plugin_id);
            return fs::create_dir_all(&directory).map_err(|error| FatalError::io("mkdir", &directory, error));
        }
        let mut entries = WalkDir::new(self.static_root.join(plugin_id)).into_iter();
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|error| FatalError::walk(&self.static_root, error))?;
            let Ok(below) = entry.path().strip_prefix(&self.static_root) else { continue };
            let to = self.virtual_root.join(below);
            let is_dir = entry.file_type().is_dir();
            match to.symlink_metadata() {
                // Two directories are merged; a generated path of any other kind hides the static one.
                Ok(_) if !is_dir => {}
                Ok(generated) if !generated.is_dir() => entries.skip_current_dir(),
                _ => copy(&entry, &to)?,
            }
        }
        Ok(())
    }

    /// Returns the text with every path below the virtual root, and below the substitute of a state directory, as the
    /// user knows it.
    #[must_use]
    pub fn show<'a>(&self, text: &'a BStr) -> Cow<'a, BStr> {
        let mut shown = Cow::Borrowed(text);
        if contains(text, &self.virtual_root) {
            shown = Cow::Owned(self.show_resources(text));
        }
        if let Some((substitutes, states)) =
            self.states.as_ref().filter(|(substitutes, _)| contains(&shown, substitutes))
        {
            shown = Cow::Owned(shown.replace(bytes(substitutes), bytes(states)).into());
        }
        match shown {
            Cow::Borrowed(text) => self.show_originals(text),
            Cow::Owned(text) => Cow::Owned(self.show_originals(text.as_bstr()).into_owned()),
        }
    }

    /// Returns the text with every path below the inputs of an earlier run as the path of the file that a person edits.
    #[must_use]
    pub fn show_originals<'a>(&self, text: &'a BStr) -> Cow<'a, BStr> {
        let Some((read, root)) = self.substitute.as_ref().filter(|(read, _)| contains(text, read)) else {
            return Cow::Borrowed(text);
        };
        // Paths below the root already start with a slash.
        let root = if root == Path::new("/") { b"" } else { bytes(root) };
        Cow::Owned(text.replace(bytes(read), root).into())
    }

    fn show_resources(&self, text: &BStr) -> BString {
        let virtual_root = bytes(&self.virtual_root);
        let mut shown = BString::default();
        let mut rest = text;
        while let Some((before, below)) = rest.split_once_str(virtual_root) {
            shown.push_str(before);
            rest = match below.strip_prefix(b"/") {
                Some(below) => self.show_below(below, &mut shown),
                None => {
                    shown.push_str(virtual_root);
                    below.as_bstr()
                }
            };
        }
        shown.push_str(rest);
        shown
    }

    /// Translates the path below the virtual root with which a text begins. Returns the rest of the text.
    fn show_below<'a>(&self, text: &'a [u8], shown: &mut BString) -> &'a BStr {
        if let Some((path, rest)) = splits(text).find(|(path, _)| self.own.has_laid(path)) {
            shown.push_str(self.own.root().join(path.to_path_lossy()).as_os_str().as_bytes());
            return rest.as_bstr();
        }
        let found =
            splits(text).find_map(|(path, rest)| Some((self.generated.get_key_value(path.to_path().ok()?)?, rest)));
        if let Some(((file, generator), rest)) = found {
            shown.push_str(generated_name(generator, file));
            rest.as_bstr()
        } else {
            shown.push_str(self.static_root.as_os_str().as_bytes());
            shown.push(b'/');
            text.as_bstr()
        }
    }

    /// Returns the selectors of a resource file: its path and its generator, given the path that the plugin reported.
    #[must_use]
    pub fn selectors(&self, source: &BStr) -> Vec<BString> {
        let below = source.to_path().ok().and_then(|path| path.strip_prefix(&self.virtual_root).ok());
        let generator = below.and_then(|below| self.generated.get(below));
        let generator = generator.map(|path| BString::from(path.as_os_str().as_bytes()));
        [self.show(source).into_owned()].into_iter().chain(generator).collect()
    }

    /// Returns true if the plugin may have entities that a path selects, as a resource file or a generator. It cannot
    /// if the file is in another plugin's directory, or was generated for other plugins only.
    #[must_use]
    pub fn may_select(&self, selector: &BStr, plugin_id: &str) -> bool {
        let made = |file: &Path, generator: &Path| {
            selector == generator.as_os_str().as_bytes() || selector == generated_name(generator, file)
        };
        let mut made_for = self.generated.iter().filter(|(file, generator)| made(file, generator)).peekable();
        if made_for.peek().is_some() {
            return made_for.any(|(file, _)| file.starts_with(plugin_id));
        }
        let path = normalise(&selector.to_path_lossy());
        let below = |directory: &Path| {
            let shown = self.show(bytes(directory).as_bstr()).to_path_lossy().into_owned();
            path.strip_prefix(normalise(&shown)).ok().map(Path::to_owned)
        };
        below(&self.static_root).or_else(|| below(self.own.root())).is_none_or(|below| below.starts_with(plugin_id))
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Returns true if a text contains a path. This runs on very many texts, most of them paths, for which preparing a
/// substring search takes longer than trying each possible start.
fn contains(text: &[u8], path: &Path) -> bool {
    let path = bytes(path);
    let Some(&first) = path.first() else { return true };
    let mut rest = text;
    while let Some(found) = rest.find_byte(first).and_then(|at| rest.get(at..)) {
        if found.starts_with(path) {
            return true;
        }
        rest = found.get(1..).unwrap_or_default();
    }
    false
}

/// Splits a text after each prefix that may be a path: the whole text, then those that end before a byte that rarely
/// occurs in paths, longest first.
fn splits(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let ends = text.iter().enumerate().rev().filter(|(_, byte)| b" \t,;:)'\"".contains(byte)).map(|(at, _)| at);
    std::iter::once(text.len()).chain(ends).map(|end| text.split_at(end))
}

fn generated_name(generator: &Path, file: &Path) -> Vec<u8> {
    [generator.as_os_str().as_bytes(), b"::", file.as_os_str().as_bytes()].concat()
}

/// Copies an entry of a resource directory.
pub(crate) fn copy(entry: &DirEntry, to: &Path) -> Result<(), FatalError> {
    let from = entry.path();
    let kind = entry.file_type();
    let copied = if kind.is_dir() {
        fs::create_dir_all(to)
    } else if kind.is_symlink() {
        fs::read_link(from).and_then(|target| symlink(target, to))
    } else if kind.is_file() {
        // The plugin reads the copy as the same user as we.
        fs::copy(from, to).and_then(|_| {
            let executable = from.metadata()?.permissions().mode() & 0o100;
            fs::set_permissions(to, Permissions::from_mode(0o600 | executable))
        })
    } else {
        // FIFOs and devices are never resources.
        Ok(())
    };
    copied.map_err(|error| FatalError::io("copy", from, error))
}

/// The administrator's own resource directories.
#[derive(Debug, Default)]
pub(crate) struct OwnResources {
    root: PathBuf,
    /// The plugins that read their directory themselves.
    given: BTreeSet<String>,
    /// The plugins that support a single directory, which the administrator's is merged into.
    laid: BTreeSet<String>,
    /// The files that have been merged, by path relative to the root.
    files: BTreeSet<PathBuf>,
}

impl OwnResources {
    /// Finds the directories of these plugins, each given with its version.
    pub(crate) fn find<'a>(
        root: PathBuf,
        plugins: impl Iterator<Item = (&'a str, u32)>,
    ) -> Result<OwnResources, FatalError> {
        let mut own = OwnResources { root, ..OwnResources::default() };
        // Most machines have none, which a single check for all plugins detects.
        let names: BTreeSet<_> = match fs::read_dir(&own.root) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(own),
            Err(error) => return Err(FatalError::io("open", &own.root, error)),
        };
        for (id, version) in plugins.filter(|(id, _)| names.contains(OsStr::new(id))) {
            if own.root.join(id).is_dir() {
                let plugins = if version >= API_VERSION_4 { &mut own.given } else { &mut own.laid };
                plugins.insert(id.to_owned());
            }
        }
        Ok(own)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the administrator's directory that the plugin reads.
    pub(crate) fn directory(&self, plugin_id: &str) -> Option<PathBuf> {
        self.given.contains(plugin_id).then(|| self.root.join(plugin_id))
    }

    /// Returns true if the plugin's directory is merged into its other resource files.
    pub(crate) fn is_laid_over(&self, plugin_id: &str) -> bool {
        self.laid.contains(plugin_id)
    }

    /// Returns true if the path, relative to the virtual root, is that of a merged file.
    pub(crate) fn has_laid(&self, below: &[u8]) -> bool {
        !self.files.is_empty() && self.files.contains(Path::new(OsStr::from_bytes(below)))
    }

    /// Merges the directories into the virtual root.
    pub(crate) fn lay(&mut self, virtual_root: &Path) -> Result<(), FatalError> {
        for id in &self.laid {
            for entry in WalkDir::new(self.root.join(id)) {
                let entry = entry.map_err(|error| FatalError::walk(&self.root, error))?;
                if let Ok(below) = entry.path().strip_prefix(&self.root)
                    && lay(&entry, &virtual_root.join(below))?
                {
                    self.files.insert(below.to_owned());
                }
            }
        }
        Ok(())
    }
}

/// Puts an entry in place of an existing path. Returns true if the result is a file.
fn lay(entry: &DirEntry, to: &Path) -> Result<bool, FatalError> {
    let failed = |error| FatalError::io("replace", to, error);
    let replaced = to.symlink_metadata().ok();
    if entry.file_type().is_dir() {
        if replaced.is_some_and(|replaced| !replaced.is_dir()) {
            fs::remove_file(to).map_err(failed)?;
        }
        copy(entry, to)?;
        return Ok(false);
    }
    let is_mask = is_mask(entry, replaced.is_some());
    match replaced {
        Some(replaced) if replaced.is_dir() => fs::remove_dir_all(to).map_err(failed)?,
        Some(_) => fs::remove_file(to).map_err(failed)?,
        None => {}
    }
    if !is_mask {
        copy(entry, to)?;
    }
    Ok(!is_mask)
}

/// Returns true if a file masks another: a link to `/dev/null`, or an empty file at the path of another.
fn is_mask(entry: &DirEntry, hides_something: bool) -> bool {
    if entry.path_is_symlink() {
        return fs::read_link(entry.path()).is_ok_and(|target| target == Path::new("/dev/null"));
    }
    hides_something && entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources() -> Resources {
        let generated = [("print/a b", "g/01"), ("print/a", "g/02"), ("other", "g/03")];
        Resources {
            static_root: "usr/share/holo".into(),
            virtual_root: "tmp/holo.1/generated-resources".into(),
            generated: generated.map(|(file, generator)| (file.into(), generator.into())).into(),
            own: OwnResources::default(),
            without_static: BTreeSet::new(),
            states: Some(("tmp/holo.1/.state".into(), "var/lib/holo".into())),
            substitute: None,
        }
    }

    #[test]
    fn virtual_paths_are_shown_as_real_ones() {
        let show = |text: &str| resources().show(text.into()).to_string();
        let root = "tmp/holo.1/generated-resources";
        assert_eq!(show(&format!("{root}/print/a")), "g/02::print/a");
        assert_eq!(show(&format!("{root}/print/a b")), "g/01::print/a b");
        assert_eq!(show(&format!("{root}/print/c")), "usr/share/holo/print/c");
        assert_eq!(show(&format!("in {root}/print/a, then ({root}/x)")), "in g/02::print/a, then (usr/share/holo/x)");
        assert_eq!(show(root), root);
        assert_eq!(show("nothing"), "nothing");
        assert_eq!(
            show(&format!("tmp/holo.1/.state/a/b and {root}/print/c")),
            "var/lib/holo/a/b and usr/share/holo/print/c"
        );
    }

    #[test]
    fn inputs_of_an_earlier_run_are_shown_by_their_original_paths() {
        let kept = "/var/lib/holo/.engine/inputs/3-x";
        for (root, expected) in [("/", "/usr/share/holo/print/a"), ("target", "target/usr/share/holo/print/a")] {
            let substitute = Some((kept.into(), root.into()));
            let static_root = format!("{kept}/usr/share/holo").into();
            let resources = Resources { substitute, static_root, ..resources() };
            let show = |text: &str| resources.show(text.into()).to_string();
            assert_eq!(show(&format!("{kept}/usr/share/holo/print/a")), expected);
            assert_eq!(show("tmp/holo.1/generated-resources/print/c"), expected.replace("/a", "/c"));
            assert!(resources.may_select(expected.into(), "print"));
            assert!(!resources.may_select(expected.into(), "other"));
        }
    }

    #[test]
    fn only_plugins_with_generated_files_have_a_virtual_directory() {
        assert_eq!(resources().directory("print"), Path::new("tmp/holo.1/generated-resources/print"));
        assert_eq!(resources().directory("prin"), Path::new("usr/share/holo/prin"));
        assert_eq!(resources().directory("files"), Path::new("usr/share/holo/files"));
    }

    #[test]
    fn path_may_select_entities_of_its_plugin_only() {
        let may = |selector: &str| resources().may_select(selector.into(), "print");
        for own in ["g/01", "g/01::print/a b", "usr/share/holo/print/x", "./usr/share//holo/print", "etc/passwd"] {
            assert!(may(own), "{own}");
        }
        for others in ["g/03", "g/03::other", "usr/share/holo/other/print", "usr/share/holo/printer/x"] {
            assert!(!may(others), "{others}");
        }
    }

    #[test]
    fn generator_selects_its_files() {
        let selectors = |source: &str| resources().selectors(source.into());
        assert_eq!(selectors("tmp/holo.1/generated-resources/print/a"), ["g/02::print/a", "g/02"]);
        assert_eq!(selectors("tmp/holo.1/generated-resources/print/c"), ["usr/share/holo/print/c"]);
        assert_eq!(selectors("/elsewhere"), ["/elsewhere"]);
    }
}
