//! Random cases: key sets are added, removed, changed and moved while a person edits the same file.

use crate::key_line::KeyLine;
use crate::scan::SshKeys;
use crate::section::COUNTS_UNMARKED;
use bstr::ByteSlice;
use holo_plugin::{Applied, Entity, Host, Job, Mode, Output, Plugin, SetAnswers, Sink, Stream, Verdict};
use holo_testing::ScratchRoot;
use holo_testing::random::{self, Random};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// The default number of cases.
const CASES: u64 = 300;

const FILE: &str = "home/jane/.ssh/authorized_keys";
const FOLDER: &str = "usr/share/holo/ssh-keys/jane";
const RECORD: &str = "var/lib/holo/ssh-keys/provisioned-entities";

const KEYS: [&str; 3] = [
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIdzC/U28SStyTYU9/4RVVeARpSAo/wvLM9mqvU7bpfP",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH",
];
const OPTIONS: [&str; 3] = ["", "no-pty ", "command=\"a, b\" "];
const SETS: [&str; 4] = ["home", "work", "team", "x y"];
/// Lines of the person that are not keys.
const OTHERS: [&str; 5] = ["", "# a comment", "nonsense", " \t", "# ssh-ed25519 AAAA holo=ssh-keyset:jane/work"];

/// The key files: the lines of each key set. One of them may be invalid.
type Sets = BTreeMap<&'static str, Vec<String>>;

fn key(random: &mut Random) -> String {
    format!("{}{}", random.pick(&OPTIONS), random.pick(&KEYS))
}

/// Returns a line with a key that belongs to the person.
fn own_line(random: &mut Random) -> String {
    let line = match random.below(3) {
        0 => (*random.pick(&OTHERS)).to_owned(),
        1 => format!("{} jane@home", key(random)),
        _ => format!("  {}\t", key(random)),
    };
    let ends = ["\n", "\n", "\r\n"];
    line + *random.pick(&ends)
}

fn change_sets(sets: &mut Sets, random: &mut Random) {
    for _ in 0..1 + random.below(2) {
        let (one, other) = (*random.pick(&SETS), *random.pick(&SETS));
        match random.below(10) {
            0..4 => {
                let lines = (0..random.below(4)).map(|_| format!("{} somebody", key(random)));
                sets.insert(one, lines.collect());
            }
            4..7 => {
                if let Some(lines) = sets.remove(one) {
                    sets.insert(other, lines);
                }
            }
            7 => _ = sets.remove(one),
            8 => _ = sets.get(one).cloned().map(|lines| sets.insert(other, lines)),
            _ => sets.entry(one).or_default().push("no key at all".to_owned()),
        }
    }
}

/// Returns the file after a random edit by the person.
fn edit(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.lines_with_terminator().map(<[u8]>::to_vec).collect();
    let index = random.below(lines.len());
    match random.below(7) {
        0 => random.shuffle(&mut lines),
        1 if !lines.is_empty() => _ = lines.remove(index),
        2 if !lines.is_empty() => lines.insert(index, lines[index].clone()),
        3 => lines = lines.iter().map(|line| [line.trim_end(), b"\r\n"].concat()).collect(),
        4 => _ = lines.last_mut().map(|line| line.truncate(line.trim_end().len())),
        5 => lines = lines.iter().map(|line| [line.trim_end(), b" \t\n"].concat()).collect(),
        _ => lines.insert(index, own_line(random).into_bytes()),
    }
    // The last line may lack its end.
    let count = lines.len();
    for line in lines.iter_mut().take(count.saturating_sub(1)).filter(|line| !line.ends_with(b"\n")) {
        line.push(b'\n');
    }
    lines.concat()
}

/// Returns the key set that a line belongs to.
fn owner(line: &[u8]) -> Option<String> {
    let comment = KeyLine::parse(line).ok()?.comment();
    Some(comment.strip_prefix(b"holo=ssh-keyset:jane/")?.to_str_lossy().into_owned())
}

/// Returns the options and the key of a line.
fn key_of(line: &[u8]) -> Option<String> {
    let key = KeyLine::parse(line).ok()?;
    Some(String::from_utf8(key.with_comment(b"")).unwrap())
}

fn keys_of(lines: &[String]) -> BTreeSet<String> {
    lines.iter().filter_map(|line| key_of(line.as_bytes())).collect()
}

/// Returns the lines that belong to no key set.
fn of_the_person(text: &[u8]) -> Vec<u8> {
    let lines = text.lines_with_terminator().filter(|line| owner(line).is_none());
    lines.collect::<Vec<_>>().concat()
}

/// Compares two files, except for the newline at the end, which is added when a line is appended.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one == other || [one, b"\n"].concat() == other || one == [other, b"\n"].concat()
}

/// Returns the file that version 3 would write for one key set.
fn as_version_3(text: &[u8], set: &str, wanted: &[String]) -> Vec<u8> {
    let keys = keys_of(wanted);
    let mut seen = BTreeSet::new();
    let mut is_first_wanted = |line: &[u8]| key_of(line).is_some_and(|key| keys.contains(&key) && seen.insert(key));
    let stays = |line: &&[u8]| owner(line).is_none_or(|owner| owner != set) || is_first_wanted(line);
    let mut file: Vec<u8> = text.lines_with_terminator().filter(stays).collect::<Vec<_>>().concat();
    for line in wanted {
        let key = key_of(line.as_bytes()).unwrap();
        let is_there = |line: &[u8]| {
            owner(line).is_some_and(|owner| owner == set) && key_of(line).is_some_and(|there| there == key)
        };
        if !file.lines_with_terminator().any(is_there) {
            if !file.is_empty() && !file.ends_with(b"\n") {
                file.push(b'\n');
            }
            file.extend(format!("{} holo=ssh-keyset:jane/{set}\n", key.trim_end()).into_bytes());
        }
    }
    file
}

#[derive(Default)]
struct OutputBuffer(Vec<u8>);

impl Sink for OutputBuffer {
    fn write(&mut self, _: Stream, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

struct Scene {
    root: ScratchRoot,
    host: Host,
}

impl Scene {
    fn new() -> Scene {
        let root = ScratchRoot::in_memory();
        let folders = ["home/jane", FOLDER, "var/lib/holo/ssh-keys", "tmp/cache"];
        let root = folders.into_iter().fold(root, |root, folder| root.dir(folder));
        let folder = |path: &str| Some(root.join(path).into_os_string());
        let host = Host::from_environment(|name| match name {
            "HOLO_ROOT_DIR" => Some(root.path().as_os_str().to_owned()),
            "HOLO_RESOURCE_DIR" => folder("usr/share/holo/ssh-keys"),
            "HOLO_STATE_DIR" => folder("var/lib/holo/ssh-keys"),
            "HOLO_CACHE_DIR" => folder("tmp/cache"),
            _ => None,
        });
        Scene { host: host.unwrap(), root }
    }

    fn file(&self) -> Vec<u8> {
        if self.root.exists(FILE) { self.root.read(FILE).into() } else { Vec::new() }
    }

    /// Writes the file with the mode that an apply would set. Otherwise the first of several key sets would change it.
    fn write_file(&self, content: &[u8]) {
        self.root.write(FILE, content);
        std::fs::set_permissions(self.root.join(FILE), Permissions::from_mode(0o600)).unwrap();
    }

    fn write_sets(&self, sets: &Sets) {
        for name in SETS {
            let path = format!("{FOLDER}/{name}.pub");
            match sets.get(name) {
                Some(lines) => self.root.write(&path, lines.join("\n")),
                None if self.root.exists(&path) => std::fs::remove_file(self.root.join(path)).unwrap(),
                None => {}
            }
        }
    }

    /// Applies all key sets in random order. Returns true if anything was changed.
    fn apply(&self, sets: &Sets, random: &mut Random) -> bool {
        let mut said = OutputBuffer::default();
        let mut entities = SshKeys.scan(&self.host, &mut Output::new(&mut said)).unwrap();
        random.shuffle(&mut entities);
        let is_broken =
            |set: &str| sets.get(set).is_some_and(|lines| lines.iter().any(|line| line.starts_with("no key")));
        let any_broken = SETS.iter().any(|set| is_broken(set));
        let mut has_changed = false;
        for entity in entities {
            let before = self.file();
            said.0.clear();
            let applied = entity.apply(&self.host, Mode::default(), &mut Output::new(&mut said));
            let (after, words) = (self.file(), said.0.to_str_lossy().into_owned());
            let set = entity.name.set.to_string();
            has_changed |= matches!(applied, Applied::ChangedQuietly(_));
            match &applied {
                // Earlier key sets of this run may have handed keys to this one, or taken keys from it.
                Applied::ChangedQuietly(changes) if before == after => {
                    let is_expected = |change: &String| change.starts_with("gave key ") || change.contains(" mode of ");
                    assert!(changes.iter().all(is_expected), "{set}: {changes:?}");
                }
                Applied::ChangedQuietly(_) => {}
                Applied::Unchanged => assert_eq!(before.as_bstr(), after.as_bstr()),
                // No other key set may take over the keys of an invalid file.
                applied => {
                    assert_eq!((applied, &after), (&Applied::FAILED_UNCHANGED, &before), "{words}");
                    assert!(any_broken && !sets.contains_key(&*set), "{words}");
                    continue;
                }
            }
            assert!(is_same(&of_the_person(&before), &of_the_person(&after)), "{set}: {:?}", after.as_bstr());
            if !words.contains("takes over") {
                let wanted = sets.get(&*set).cloned().unwrap_or_default();
                let expected = as_version_3(&before, &set, &wanted);
                assert_eq!(after.as_bstr(), expected.as_bstr(), "{set} in {:?}", before.as_bstr());
            }
            // A key that is wanted is present at every moment.
            let known = sets.iter().filter(|(set, _)| !is_broken(set));
            let wanted: BTreeSet<String> = known.flat_map(|(_, lines)| keys_of(lines)).collect();
            let ours = |text: &[u8]| -> BTreeSet<String> {
                let lines = text.lines_with_terminator().filter(|line| owner(line).is_some());
                lines.filter_map(key_of).filter(|key| wanted.contains(key)).collect()
            };
            assert!(ours(&after).is_superset(&ours(&before)), "{set}: {:?}", before.as_bstr());
        }
        if !any_broken {
            self.is_settled(sets);
        }
        has_changed
    }

    /// Checks that each key set has exactly its keys.
    fn is_settled(&self, sets: &Sets) {
        let file = self.file();
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in file.lines_with_terminator() {
            if let Some(owner) = owner(line) {
                let is_first = found.entry(owner).or_default().insert(key_of(line).unwrap());
                assert!(is_first, "a second line with the same key: {:?}", file.as_bstr());
            }
        }
        let wanted = sets.iter().map(|(set, lines)| ((*set).to_owned(), keys_of(lines)));
        let wanted: BTreeMap<_, _> = wanted.filter(|(_, keys)| !keys.is_empty()).collect();
        assert_eq!(found, wanted, "{:?}", file.as_bstr());
        // Version 3 reads an empty file as a list of one entity without a name.
        assert_eq!(self.root.exists(RECORD), !wanted.is_empty());
        let record = if self.root.exists(RECORD) { self.root.read(RECORD) } else { Vec::new().into() };
        let recorded: BTreeSet<String> = record.lines().map(|line| line.to_str_lossy().into_owned()).collect();
        assert_eq!(recorded, wanted.keys().map(|set| format!("ssh-keyset:jane/{set}")).collect());
    }
}

#[test]
fn apply_keeps_unmanaged_lines_and_never_lacks_a_wanted_key() {
    random::cases(CASES, |random| {
        let scene = Scene::new();
        if random.chance(80) {
            let lines = (0..random.below(5)).map(|_| own_line(random)).collect::<String>();
            scene.root.write(FILE, lines.strip_suffix('\n').filter(|_| random.chance(20)).unwrap_or(&lines));
        }
        let mut sets = Sets::new();
        for _ in 0..3 + random.below(6) {
            change_sets(&mut sets, random);
            scene.write_sets(&sets);
            if random.chance(40) && scene.root.exists(FILE) {
                let edited = edit(&scene.file(), random);
                scene.root.write(FILE, edited);
            }
            scene.apply(&sets, random);
            assert!(!scene.apply(&sets, random), "a second apply has nothing to do");
        }
        let persons = of_the_person(&scene.file());
        scene.write_sets(&Sets::new());
        scene.apply(&Sets::new(), random);
        let left = scene.file();
        assert!(is_same(&left, &persons), "{:?} instead of {:?}", left.as_bstr(), persons.as_bstr());
        assert!(!scene.apply(&Sets::new(), random));
    });
}

/// The results of key sets that are applied together, by index.
struct Results<R>(BTreeMap<usize, R>, OutputBuffer);

impl<R> SetAnswers<R> for Results<R> {
    fn begin(&mut self, _: usize) {}

    fn output(&mut self, _: usize) -> Output<'_> {
        Output::new(&mut self.1)
    }

    fn end(&mut self, place: usize, result: R) {
        assert!(self.0.insert(place, result).is_none());
    }
}

/// Returns the messages of a check or an apply without their verbs, and with paths relative to the root.
fn without_verbs(root: &ScratchRoot, words: &[String], verbs: usize) -> Vec<String> {
    let root = root.path().display().to_string();
    words.iter().map(|text| text.splitn(verbs + 1, ' ').last().unwrap().replace(&root, "")).collect()
}

#[test]
fn applying_key_sets_together_equals_applying_them_one_by_one() {
    random::cases(CASES, |random| {
        let (together, alone) = (Scene::new(), Scene::new());
        let lines = (0..random.below(5)).map(|_| own_line(random)).collect::<String>();
        [&together, &alone].iter().for_each(|scene| scene.write_file(lines.as_bytes()));
        let mut sets = Sets::new();
        for _ in 0..3 + random.below(5) {
            change_sets(&mut sets, random);
            if let Some(lines) = sets.get_mut(*random.pick(&SETS)).filter(|_| random.chance(30)) {
                lines.insert(0, COUNTS_UNMARKED.to_owned());
            }
            let edited = random.chance(40).then(|| edit(&together.file(), random));
            let order = random.number();
            let [entities, others] = [&together, &alone].map(|scene| {
                scene.write_sets(&sets);
                edited.iter().for_each(|edited| scene.write_file(edited));
                let mut entities = SshKeys.scan(&scene.host, &mut Output::new(&mut OutputBuffer::default())).unwrap();
                Random::new(order).shuffle(&mut entities);
                entities
            });
            let set: Vec<_> = entities.iter().map(|entity| Job { entity, mode: Mode::default() }).collect();
            let mut checked = Results(BTreeMap::new(), OutputBuffer::default());
            SshKeys.check_set(&together.host, &set, &mut checked);
            let mut applied = Results(BTreeMap::new(), OutputBuffer::default());
            SshKeys.apply_set(&together.host, &set, &mut applied);
            for (place, entity) in others.iter().enumerate() {
                let end = entity.apply(&alone.host, Mode::default(), &mut Output::new(&mut OutputBuffer::default()));
                match (&checked.0[&place], &applied.0[&place], &end) {
                    (
                        Verdict::WouldChange(pending),
                        Applied::ChangedQuietly(done),
                        Applied::ChangedQuietly(alone_done),
                    ) => {
                        let done = without_verbs(&together.root, done, 1);
                        assert_eq!(done, without_verbs(&alone.root, alone_done, 1));
                        assert_eq!(done, without_verbs(&together.root, pending, 2));
                    }
                    (Verdict::InDesiredState, Applied::Unchanged, Applied::Unchanged)
                    | (Verdict::Failed, Applied::Failed { .. }, Applied::Failed { .. }) => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(together.root.dump(), alone.root.dump());
        }
    });
}

#[test]
fn keys_that_move_to_another_set_keep_their_lines_in_random_cases() {
    random::cases(CASES, |random| {
        let scene = Scene::new();
        scene.root.write(FILE, (0..random.below(5)).map(|_| own_line(random)).collect::<String>());
        let keys: BTreeSet<String> = (0..1 + random.below(4)).map(|_| key(random)).collect();
        let mut sets = Sets::from([("home", keys.into_iter().collect())]);
        scene.write_sets(&sets);
        scene.apply(&sets, random);
        let edited = edit(&scene.file(), random);
        scene.root.write(FILE, edited);
        scene.apply(&sets, random);
        let before = scene.file();
        let mut moved = sets.remove("home").unwrap();
        random.shuffle(&mut moved);
        let cut = if random.chance(50) { 0 } else { random.below(moved.len()) };
        for (set, keys) in [("work", moved.split_off(cut)), ("team", moved)] {
            sets.insert(set, keys);
        }
        scene.write_sets(&sets);
        scene.apply(&sets, random);
        let lines = |text: &[u8]| text.lines_with_terminator().map(key_of).collect::<Vec<_>>();
        assert_eq!(lines(&scene.file()), lines(&before));
    });
}
