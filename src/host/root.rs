//! Every path below `$HOLO_ROOT_DIR`, and its form in messages.

use holo_change::Locations;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

const OWN_RESOURCES: &str = "etc/holo/resources";

/// The root of the managed system.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    /// The directory with the inputs that are used instead of the current ones.
    inputs: Option<PathBuf>,
    /// Whether these are those of an earlier run.
    is_earlier: bool,
    /// A lock that keeps that directory from being removed while any clone exists.
    #[expect(dead_code, reason = "the lock is held as long as the file is open")]
    in_use: Option<Arc<File>>,
    /// The directory that is read in place of the administrator's resources.
    own_resources: Option<PathBuf>,
}

impl Root {
    /// Returns the root given by `$HOLO_ROOT_DIR`; unset or empty means `/`.
    #[must_use]
    pub fn new(given: Option<OsString>) -> Root {
        let path = given.filter(|path| !path.is_empty()).map_or_else(|| PathBuf::from("/"), PathBuf::from);
        Root { path, inputs: None, is_earlier: false, in_use: None, own_resources: None }
    }

    /// Returns the same root, with the inputs of an earlier run, which are read from this directory. `in_use` is the lock
    /// on that directory, if another run might remove it.
    #[must_use]
    pub fn with_inputs(self, directory: PathBuf, in_use: Option<File>) -> Root {
        Root { inputs: Some(directory), is_earlier: true, in_use: in_use.map(Arc::new), ..self }
    }

    /// Returns the same root, with inputs that may be used in the future, which are read from this directory.
    #[must_use]
    pub fn with_future_inputs(self, directory: PathBuf) -> Root {
        Root { inputs: Some(directory), is_earlier: false, ..self }
    }

    /// Returns the same root, with another directory in place of the administrator's resources.
    #[must_use]
    pub fn with_own_resources(self, directory: PathBuf) -> Root {
        Root { own_resources: Some(directory), ..self }
    }

    /// Returns the directory that is read in place of another one, if any, and the path of the other one, which is
    /// shown to users.
    #[must_use]
    pub fn substitute(&self) -> Option<(PathBuf, PathBuf)> {
        let own = self.own_resources.clone().map(|directory| (directory, self.input(OWN_RESOURCES)));
        own.or_else(|| Some((self.inputs.clone()?, self.join(""))))
    }

    /// Returns the directory with the inputs that are used instead of the current ones, if any.
    #[must_use]
    pub fn inputs(&self) -> Option<&Path> {
        self.inputs.as_deref()
    }

    /// Like [`inputs`](Self::inputs), if they are those of an earlier run.
    #[must_use]
    pub fn earlier_inputs(&self) -> Option<&Path> {
        self.inputs().filter(|_| self.is_earlier)
    }

    /// Returns true if the inputs are only those of this run, such as those of a preview.
    #[must_use]
    pub fn has_temporary_inputs(&self) -> bool {
        self.inputs.as_ref().is_some_and(|inputs| !inputs.starts_with(self.pinned_inputs()))
    }

    /// Returns the same root with the current inputs.
    #[must_use]
    pub fn today(&self) -> Root {
        Root { inputs: None, is_earlier: false, in_use: None, ..self.clone() }
    }

    /// Returns the path as given, which is also passed to plugins.
    #[must_use]
    pub fn as_given(&self) -> &Path {
        &self.path
    }

    /// Returns a path below the root, for both opening and showing it.
    #[must_use]
    pub fn join(&self, below: impl AsRef<Path>) -> PathBuf {
        normalise(&self.path.join(below.as_ref().strip_prefix("/").unwrap_or(below.as_ref())))
    }

    /// Returns the path of an input.
    #[must_use]
    pub fn input(&self, below: &str) -> PathBuf {
        self.inputs.as_ref().map_or_else(|| self.join(below), |inputs| inputs.join(below))
    }

    /// Returns the main configuration file, which is read last.
    #[must_use]
    pub fn holorc(&self) -> PathBuf {
        self.input("etc/holorc")
    }

    /// Returns the directory of configuration snippets.
    #[must_use]
    pub fn holorc_snippets(&self) -> PathBuf {
        self.input("etc/holorc.d")
    }

    /// Returns the path of the lock that an apply holds.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.join("run/holo.pid")
    }

    /// Returns the parent of all plugins' static resource directories.
    #[must_use]
    pub fn resources(&self) -> PathBuf {
        self.input("usr/share/holo")
    }

    /// Returns the parent of the administrator's resource directories.
    #[must_use]
    pub fn own_resources(&self) -> PathBuf {
        self.own_resources.clone().unwrap_or_else(|| self.input(OWN_RESOURCES))
    }

    /// Returns the path that a resource file is read from. Inputs of an earlier run are shown by their original paths.
    #[must_use]
    pub fn as_read(&self, shown: &Path) -> PathBuf {
        let kept = self.inputs().zip(shown.strip_prefix(self.join("")).ok()).map(|(inputs, below)| inputs.join(below));
        kept.filter(|path| path.exists()).unwrap_or_else(|| shown.to_owned())
    }

    /// Returns a message with the original paths of inputs that are read from elsewhere.
    #[must_use]
    pub fn with_shown_paths(&self, message: &str) -> String {
        let read = |inputs: &Path| format!("{}/", inputs.display());
        self.inputs().map_or_else(
            || message.to_owned(),
            |inputs| message.replace(&read(inputs), &format!("{}/", self.path.display()).replace("//", "/")),
        )
    }

    /// Returns the directory of the generators.
    #[must_use]
    pub fn generators(&self) -> PathBuf {
        self.resources().join("generators")
    }

    /// Returns the parent of all plugins' state directories.
    #[must_use]
    pub fn states(&self) -> PathBuf {
        self.join("var/lib/holo")
    }

    /// Creates the parent of the state directories if it is missing. Only its owner can enter it: state contains copies
    /// of private files.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_states(&self) -> io::Result<()> {
        let states = self.states();
        states.parent().map_or(Ok(()), fs::create_dir_all)?;
        DirBuilder::new().recursive(true).mode(0o700).create(states)
    }

    /// Returns the directories whose modes give other users too much access, with the modes that they should have:
    /// [`states`](Self::states) itself, and those below it.
    ///
    /// Empty for a root other than `/`: version 3 and its test runner rely on modes there.
    #[must_use]
    pub fn open_states(&self) -> Vec<(PathBuf, u32)> {
        if self.is_test() {
            return Vec::new();
        }
        // The inputs of a generation in use stay readable for those who could read the originals.
        let on_the_way = if self.pin().exists() { 0o711 } else { 0o700 };
        let entries = fs::read_dir(self.states()).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let modes = directories.map(|entry| match entry.path() {
            engine if engine == self.engine_state() => (engine, on_the_way),
            state => (state, 0o700),
        });
        let is_open = |path: &Path, mode: u32| path.metadata().is_ok_and(|found| found.mode() & 0o777 & !mode != 0);
        [(self.states(), on_the_way)].into_iter().chain(modes).filter(|(path, mode)| is_open(path, *mode)).collect()
    }

    /// Returns the dispatcher's own state directory.
    #[must_use]
    pub fn engine_state(&self) -> PathBuf {
        self.states().join(".engine")
    }

    /// Returns the locations of the dispatcher's own state. There is no cache directory among them.
    #[must_use]
    pub fn engine_locations(&self) -> Locations {
        Locations::new(self.join(""), self.engine_state(), PathBuf::new())
    }

    /// Returns the state database.
    #[must_use]
    pub fn state_database(&self) -> PathBuf {
        self.states().join("state.db")
    }

    /// Returns the file with the settings of the dispatcher.
    #[must_use]
    pub fn engine_settings(&self) -> PathBuf {
        self.join("etc/holo/engine.toml")
    }

    /// Returns true if this is not the root of the running system.
    #[must_use]
    pub fn is_test(&self) -> bool {
        normalise(&self.path) != Path::new("/")
    }

    /// Returns the directory of the generations.
    #[must_use]
    pub fn generations(&self) -> PathBuf {
        self.engine_state().join("generations")
    }

    /// Returns the file that exists if the system has been changed while it was not running, and not applied since. Then an apply is due
    /// when it boots.
    #[must_use]
    pub fn first_boot(&self) -> PathBuf {
        self.engine_state().join("first-boot")
    }

    /// Returns the file that names the generation in use, if it is not the current inputs.
    #[must_use]
    pub fn pin(&self) -> PathBuf {
        self.engine_state().join("pinned.json")
    }

    /// Returns the directory with the inputs of the generation in use.
    #[must_use]
    pub fn pinned_inputs(&self) -> PathBuf {
        self.engine_state().join("inputs")
    }

    /// Returns the state directory of a plugin.
    #[must_use]
    pub fn state(&self, plugin_id: &str) -> PathBuf {
        self.states().join(plugin_id)
    }
}

/// Normalises a path lexically, ignoring symlinks: removes `.`, `..` after a name, and doubled and trailing slashes.
///
/// Version 3 shows all its paths in this form.
#[must_use]
pub fn normalise(path: &Path) -> PathBuf {
    let mut normalised = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => match normalised.components().next_back() {
                Some(Component::Normal(_)) => {
                    normalised.pop();
                }
                Some(Component::RootDir) => {}
                _ => normalised.push(".."),
            },
            Component::RootDir | Component::Normal(_) | Component::Prefix(_) => normalised.push(component),
        }
    }
    if normalised.as_os_str().is_empty() { PathBuf::from(".") } else { normalised }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(given: &str) -> Root {
        Root::new(Some(given.into()))
    }

    #[test]
    fn paths_are_shown_normalised() {
        assert_eq!(root("./target/").lock(), Path::new("target/run/holo.pid"));
        assert_eq!(root("/").lock(), Path::new("/run/holo.pid"));
        assert_eq!(root("").lock(), Path::new("/run/holo.pid"));
        assert_eq!(Root::new(None).lock(), Path::new("/run/holo.pid"));
        assert_eq!(root("../a/./b//").generators(), Path::new("../a/b/usr/share/holo/generators"));
        assert_eq!(root(".").join("/etc"), Path::new("etc"));
    }

    #[test]
    fn normalisation_is_lexical() {
        for (path, normalised) in
            [("a/../b", "b"), ("../..", "../.."), ("/../a", "/a"), ("a/..", "."), ("./", "."), ("a/../../b", "../b")]
        {
            assert_eq!(normalise(Path::new(path)), Path::new(normalised), "{path}");
        }
    }
}
