//! Tests of taking over paths from entities of the same plugin, or of another one.

use super::*;
use crate::base_store::{BaseStore, RecordChange};
use crate::error::{Notices, PathError};
use crate::locations::Locations;
use crate::tracked::state::Attributes;
use crate::tracked::stores::PluginStore;
use crate::tracked::{Digest, Found, PathChange};
use holo_protocol::report::EntityReport;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A temporary root with the directories of plugins.
struct Machine(tempfile::TempDir);

/// A run of a plugin.
struct Run {
    locations: Locations,
    bases: BaseStore,
    tracker: Tracker,
}

/// Panics on unreadable records.
struct Refused;

impl Notices for Refused {
    fn unreadable_record(&mut self, error: &PathError) {
        panic!("{error}");
    }

    fn taken_over(&mut self, _: &str, _: &str) {}
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        fs::create_dir(machine.path("")).unwrap();
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join("root").join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn run(&self, plugin: &str) -> Run {
        let folder = |name: &str| self.0.path().join(name).join(plugin);
        let locations = Locations::new(self.path(""), folder("state"), folder("cache"));
        fs::create_dir_all(locations.state_dir()).unwrap();
        fs::create_dir_all(locations.cache_dir()).unwrap();
        let tracker = Tracker::open(&locations).unwrap();
        Run { locations, bases: tracker.bases().clone(), tracker }
    }

    /// Makes files of an entity, which takes over existing tracks. Returns the previous owners.
    fn make(&self, plugin: &str, id: &str, files: &[(&str, &str)]) -> Vec<String> {
        let run = self.run(plugin);
        let mut remembered = run.remembered(id);
        let from = run.tracker.adopt(&mut remembered, files.iter().map(|(path, _)| path.into())).unwrap();
        run.tracker.make(&mut remembered, &run.changes(files)).unwrap();
        run.tidy();
        from
    }

    fn scrub(&self, plugin: &str, id: &str) {
        let run = self.run(plugin);
        run.tracker.scrub(&mut run.remembered(id), &Found::new()).unwrap();
        run.tidy();
    }
}

impl Run {
    fn own(&self) -> &PluginStore {
        &self.tracker.own
    }

    fn known(&self, id: &str) -> Option<Remembered<Tracks>> {
        self.bases.recall(id).unwrap()
    }

    fn remembered(&self, id: &str) -> Remembered<Tracks> {
        self.known(id).unwrap_or_else(|| Remembered::new(&EntityReport::new(id), Tracks::default()))
    }

    fn changes(&self, files: &[(&str, &str)]) -> Vec<PathChange> {
        let root = fs::metadata(self.locations.root()).unwrap();
        let attributes = Attributes { mode: 0o644, uid: root.uid(), gid: root.gid() };
        let state = |text: &str| {
            let content = self.tracker.keep_bytes(text.as_bytes()).unwrap();
            State::File { content, attributes }
        };
        files.iter().map(|(path, text)| PathChange::new(path, state(text))).collect()
    }

    fn tidy(&self) {
        self.tracker.tidy::<Tracks>(|_| true, &mut Refused).unwrap();
    }

    fn holder(&self, path: &str, id: &str) -> Option<String> {
        self.tracker
            .held()
            .unwrap()
            .find(Path::new(path), &self.tracker.own.plugin, id)
            .map(|held| held.origin.id.clone())
    }

    fn paths(&self, id: &str) -> Vec<String> {
        let known = self.remembered(id).base;
        known.iter().map(|(path, _)| path.display().to_string()).collect()
    }

    /// Takes over a path up to the record of the takeover, as if the run had been killed then.
    fn record_takeover(&self, id: &str, path: &str, mut changes: Vec<RecordChange>) {
        let mut remembered = self.remembered(id);
        self.tracker.adopt(&mut remembered, [path.into()]).unwrap();
        self.tracker.take_contents(&remembered.base).unwrap();
        let origins = remembered.base.take_origins();
        changes.push(self.bases.kept(id, &remembered).unwrap());
        self.own().record_takeover(changes, &origins).unwrap();
    }
}

#[test]
fn the_base_stays_the_first_one() {
    for plugin in ["p", "q"] {
        let machine = Machine::new();
        fs::write(machine.path("x"), "found").unwrap();
        assert!(machine.make("p", "a:one", &[("/x", "one")]).is_empty());
        assert_eq!(machine.make(plugin, "a:two", &[("/x", "two")]), ["a:one"]);
        assert!(machine.run("p").known("a:one").is_none());
        let run = machine.run(plugin);
        assert!(run.remembered("a:two").base.taken_over().is_empty());
        assert_eq!(machine.read("x"), "two");
        machine.scrub(plugin, "a:two");
        assert_eq!(machine.read("x"), "found");
        for plugin in ["p", plugin] {
            let state = machine.run(plugin).locations.state_dir().to_owned();
            assert_eq!(fs::read_dir(state).unwrap().count(), 0, "{plugin}");
        }
    }
}

#[test]
fn paths_that_are_not_taken_over_stay_whose_they_are() {
    let machine = Machine::new();
    for name in ["x", "y"] {
        fs::write(machine.path(name), "found").unwrap();
    }
    machine.make("p", "a:one", &[("/x", "1"), ("/y", "1"), ("/z", "1")]);
    assert_eq!(machine.make("q", "a:two", &[("/x", "2"), ("/z", "2")]), ["a:one"]);
    assert_eq!(machine.run("p").paths("a:one"), ["/y"]);
    // A path is taken over only once.
    assert!(machine.make("q", "a:two", &[("/x", "3")]).is_empty());
    machine.scrub("p", "a:one");
    assert_eq!([machine.read("x"), machine.read("y"), machine.read("z")], ["3", "found", "2"]);
    machine.scrub("q", "a:two");
    assert_eq!(machine.read("x"), "found");
    assert!(!machine.path("z").exists());
}

#[test]
fn directories_on_the_way_go_with_whoever_has_something_in_them_last() {
    let machine = Machine::new();
    machine.make("p", "a:one", &[("/d/deep/x", "1")]);
    machine.make("q", "a:two", &[("/d/deep/x", "2")]);
    assert!(machine.run("q").tracker.directories().unwrap().contains(Path::new("/d")));
    assert!(!machine.run("q").tracker.directories().unwrap().contains(Path::new("/e")));
    machine.scrub("q", "a:two");
    assert!(!machine.path("d").exists());
}

#[test]
fn a_directory_that_another_plugin_has_made_is_removed_by_whoever_leaves_it_last() {
    let machine = Machine::new();
    machine.make("p", "a:one", &[("/d/x", "1")]);
    machine.make("q", "a:two", &[("/d/y", "2")]);
    machine.scrub("p", "a:one");
    assert!(machine.path("d/y").exists());
    machine.scrub("q", "a:two");
    assert!(!machine.path("d").exists());
}

#[test]
fn what_the_old_owner_was_writing_over_is_not_taken_over() {
    let machine = Machine::new();
    machine.make("p", "a:one", &[("/x", "1")]);
    let run = machine.run("p");
    let mut remembered = run.remembered("a:one");
    remembered.base.0.values_mut().for_each(|track| track.over = track.provisioned.clone());
    run.bases.keep(&remembered).unwrap();
    let mut adopted = run.remembered("a:two");
    run.tracker.adopt(&mut adopted, ["/x".into()]).unwrap();
    assert_eq!(adopted.base.get(Path::new("/x")).unwrap().over, None);
}

#[test]
fn whoever_holds_a_path_is_found() {
    let machine = Machine::new();
    machine.make("p", "a:one", &[("/d/x", "1"), ("/e/x", "1")]);
    machine.make("q", "a:two", &[("/d/y", "2")]);
    let run = machine.run("p");
    assert_eq!(run.holder("/d/x", "a:two").as_deref(), Some("a:one"));
    assert_eq!(run.holder("/d/x", "a:one"), None);
    assert_eq!(run.holder("/d/y", "a:two").as_deref(), Some("a:two"), "that of another plugin is another entity");
    assert_eq!(run.holder("/d", "a:two"), None);
    let below = |claims: &[Claim]| run.tracker.held_below(Path::new("/d"), &claims.iter().cloned().collect()).unwrap();
    let claim = |id: &str, path: &str| Claim::new(id, Path::new(path), &[]);
    assert_eq!(below(&[]), [Path::new("/d/x"), Path::new("/d/y")]);
    assert_eq!(below(&[claim("a:one", "/d/x")]), [Path::new("/d/y")]);
    // The entity has another path now, or the path has another entity, which takes over from it.
    assert_eq!(below(&[claim("a:one", "/e/x"), claim("a:three", "/d/y")]), [Path::new("/d/x")]);
}

#[test]
fn a_base_that_cannot_be_read_is_not_taken_over() {
    let machine = Machine::new();
    fs::write(machine.path("x"), "found").unwrap();
    machine.make("p", "a:one", &[("/x", "1")]);
    let run = machine.run("q");
    let mut remembered = run.remembered("a:two");
    run.tracker.adopt(&mut remembered, ["/x".into()]).unwrap();
    assert_eq!(remembered.base.taken_over(), [("a:one", vec!["/x".into()])].into());
    let digest = |text: &str| Digest::of_bytes(text.as_bytes());
    let keep_only = |plugin: &str, digests: &[Digest]| {
        machine.run(plugin).own().contents().keep_only(&digests.iter().cloned().collect()).unwrap();
    };
    // The provisioned content is only needed for diffs.
    keep_only("p", &[digest("found")]);
    run.tracker.take_contents(&remembered.base).unwrap();
    keep_only("p", &[]);
    run.tracker.take_contents(&remembered.base).unwrap();
    assert_eq!(run.own().contents().read(&digest("found")).unwrap(), b"found");
    keep_only("q", &[]);
    assert!(run.tracker.take_contents(&remembered.base).is_err());
}

#[test]
fn takeover_is_complete_or_has_not_begun() {
    for plugin in ["p", "q"] {
        let machine = Machine::new();
        fs::write(machine.path("x"), "found").unwrap();
        machine.make("p", "a:one", &[("/x", "1"), ("/y", "1")]);
        let run = machine.run(plugin);
        run.record_takeover("a:two", "/x", Vec::new());
        assert_eq!((machine.run("p").paths("a:one"), run.paths("a:two")), (vec!["/y".into()], vec!["/x".to_owned()]));
        machine.scrub("p", "a:one");
        assert_eq!(machine.read("x"), "1");
        machine.scrub(plugin, "a:two");
        assert_eq!(machine.read("x"), "found");
    }
}

#[test]
fn previous_owner_may_change_in_the_same_transaction() {
    let machine = Machine::new();
    machine.make("p", "a:one", &[("/x", "1"), ("/y", "1")]);
    let run = machine.run("p");
    let mut one = run.remembered("a:one");
    one.base.set_sensitive(Path::new("/y"), true);
    run.record_takeover("a:two", "/x", vec![run.bases.kept("a:one", &one).unwrap()]);
    let one = run.remembered("a:one").base;
    assert_eq!(one.iter().map(|(path, track)| (path, track.sensitive)).collect::<Vec<_>>(), [("/y".into(), true)]);
}
