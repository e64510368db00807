//! Random cases in test mode: definitions, users and groups change in all ways, and the result is compared with the rules of version 3.
//!
//! The rules are written here a second time, as a simple model of version 3. The commands that holo prints are carried out by simulated
//! tools, so that the next apply finds their results.

use crate::scan;
use holo_plugin::{Applied, Entity, ForceTo, Host, Mode, Output, Sink, Stream};
use holo_testing::ScratchRoot;
use holo_testing::random::{self, Random};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The default number of cases.
const CASES: u64 = 200;
/// A GID that no group has.
const NAMELESS: u32 = 65_000;

/// The attributes of a user or group that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Values {
    number: Option<u32>,
    comment: Option<String>,
    home: Option<String>,
    group: Option<String>,
    groups: BTreeSet<String>,
    shell: Option<String>,
}

/// A definition in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Definition {
    values: Values,
    system: bool,
    skips_base_groups: bool,
    /// True if the file has `gid = 0`, which requests no number.
    has_zero_gid: bool,
}

/// An ID. IDs sort in the order in which version 3 applies entities.
type Id = String;

/// A definition file: groups and users by ID. A name may be empty.
type File = Vec<(Id, Definition)>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct User {
    uid: u32,
    gid: u32,
    comment: String,
    home: String,
    shell: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    gid: u32,
    members: BTreeSet<String>,
}

/// The users and groups of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Machine {
    users: BTreeMap<String, User>,
    groups: BTreeMap<String, Group>,
    /// True if `useradd` creates a group for each user, and `userdel` deletes it.
    has_own_groups: bool,
    /// True if a command would have failed, which holo cannot notice in test mode.
    has_failed: bool,
}

fn set(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn parts(id: &str) -> (&str, &str) {
    id.split_once(':').unwrap()
}

impl Machine {
    fn write(&self, root: &ScratchRoot) {
        let (mut passwd, mut group) = (String::new(), String::new());
        for (name, User { uid, gid, comment, home, shell }) in &self.users {
            writeln!(passwd, "{name}:x:{uid}:{gid}:{comment}:{home}:{shell}").unwrap();
        }
        for (name, Group { gid, members }) in &self.groups {
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            writeln!(group, "{name}:x:{gid}:{}", members.join(",")).unwrap();
        }
        root.write("etc/passwd", passwd);
        root.write("etc/group", group);
    }

    fn name_of(&self, gid: u32) -> Option<String> {
        self.groups.iter().find(|(_, group)| group.gid == gid).map(|(name, _)| name.clone())
    }

    fn actual(&self, id: &str) -> Option<Values> {
        let (kind, name) = parts(id);
        if kind == "group" {
            return self.groups.get(name).map(|group| Values { number: Some(group.gid), ..Values::default() });
        }
        let user = self.users.get(name)?;
        let groups = self.groups.iter().filter(|(_, group)| group.members.contains(name));
        Some(Values {
            number: Some(user.uid),
            comment: set(&user.comment),
            home: set(&user.home),
            group: self.name_of(user.gid),
            groups: groups.map(|(name, _)| name.clone()).collect(),
            shell: set(&user.shell),
        })
    }

    /// Carries out a command. A number that is not given is the one that holo records in test mode.
    fn run(&mut self, line: &str) {
        let words = words(line);
        let (program, name) = (words.first().unwrap().as_str(), words.last().unwrap().clone());
        match program {
            "groupdel" => _ = self.groups.remove(&name).unwrap(),
            "userdel" => {
                self.users.remove(&name).unwrap();
                self.groups.values_mut().for_each(|group| _ = group.members.remove(&name));
                if self.has_own_groups && self.groups.get(&name).is_some_and(|group| group.members.is_empty()) {
                    self.groups.remove(&name);
                }
            }
            "groupadd" => {
                assert!(self.groups.insert(name.clone(), Group { gid: 999, ..Group::default() }).is_none());
            }
            "useradd" => {
                let mut user = User { uid: 999, gid: NAMELESS, ..User::default() };
                if self.has_own_groups && !line.contains("--gid") {
                    user.gid = 7000 + u32::try_from(self.groups.len()).unwrap();
                    while self.name_of(user.gid).is_some() {
                        user.gid += 1;
                    }
                    self.groups.insert(name.clone(), Group { gid: user.gid, ..Group::default() });
                }
                assert!(self.users.insert(name.clone(), user).is_none(), "{line}");
            }
            _ => {}
        }
        let mut options = words.iter().skip(1).take(words.len() - 2);
        let mut name = name;
        while let Some(option) = options.next() {
            if option == "--system" {
                continue;
            }
            let value = options.next().unwrap();
            self.set(program, &name, option, value);
            if option == "--login" || option == "--new-name" {
                name.clone_from(value);
            }
        }
        let numbers = |all: Vec<u32>| all.iter().copied().collect::<BTreeSet<u32>>().len() == all.len();
        let users = numbers(self.users.values().map(|user| user.uid).collect());
        self.has_failed |= !users || !numbers(self.groups.values().map(|group| group.gid).collect());
    }

    fn set(&mut self, program: &str, name: &str, option: &str, value: &str) {
        if program.starts_with("group") {
            let group = self.groups.get_mut(name).unwrap();
            match option {
                "--gid" => {
                    let (old, new) = (group.gid, value.parse().unwrap());
                    group.gid = new;
                    let follow = self.users.values_mut().filter(|user| program == "groupmod" && user.gid == old);
                    follow.for_each(|user| user.gid = new);
                }
                "--new-name" => {
                    let group = self.groups.remove(name).unwrap();
                    assert!(self.groups.insert(value.to_owned(), group).is_none());
                }
                _ => panic!("{program} {option}"),
            }
            return;
        }
        let gid = self.groups.get(value).map(|group| group.gid);
        let has_group = |name: &str| name.is_empty() || self.groups.contains_key(name);
        self.has_failed |= option == "--gid" && gid.is_none();
        self.has_failed |= option == "--groups" && !value.split(',').all(has_group);
        let user = self.users.get_mut(name).unwrap();
        match option {
            "--uid" => user.uid = value.parse().unwrap(),
            "--comment" => value.clone_into(&mut user.comment),
            "--home" | "--home-dir" => value.clone_into(&mut user.home),
            "--shell" => value.clone_into(&mut user.shell),
            // The real tools refuse a group that does not exist.
            "--gid" => user.gid = gid.unwrap_or(user.gid),
            "--groups" => {
                let wanted: BTreeSet<&str> = value.split(',').collect();
                for (group, Group { members, .. }) in &mut self.groups {
                    if wanted.contains(group.as_str()) {
                        members.insert(name.to_owned())
                    } else {
                        members.remove(name)
                    };
                }
            }
            "--login" => {
                let user = self.users.remove(name).unwrap();
                assert!(self.users.insert(value.to_owned(), user).is_none());
                for Group { members, .. } in self.groups.values_mut() {
                    if members.remove(name) {
                        members.insert(value.to_owned());
                    }
                }
            }
            _ => panic!("{program} {option}"),
        }
    }

    /// Changes an account as another program would.
    fn meddle(&mut self, random: &mut Random) {
        let (user, group) = (one_of(&USERS, random), one_of(&GROUPS, random));
        let shell = one_of(&SHELLS, random);
        match random.below(10) {
            0 => _ = self.users.remove(&user),
            1 => _ = self.groups.remove(&group),
            2 => {
                let gid = self.groups.get(&group).map_or(NAMELESS, |group| group.gid);
                let uid = 2000 + u32::try_from(random.below(4)).unwrap();
                self.users.entry(user).or_insert(User { uid, gid, shell, ..User::default() });
            }
            3 => _ = self.groups.entry(group).or_insert(Group { gid: 3000, ..Group::default() }),
            4 => _ = self.groups.get_mut(&group).map(|group| group.members.insert(user)),
            5 => _ = self.groups.get_mut(&group).map(|group| group.members.remove(&user)),
            6 => _ = self.users.get_mut(&user).map(|user| user.shell = shell),
            7 => _ = self.users.get_mut(&user).map(|user| user.comment = one_of(&COMMENTS, random)),
            8 => _ = self.users.get_mut(&user).map(|user| user.home = one_of(&HOMES, random)),
            _ => _ = self.users.get_mut(&user).map(|user| user.uid += 100),
        }
    }
}

/// Splits a printed command into words.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap(),
            None => rest.split_at(rest.find(' ').unwrap_or(rest.len())),
        };
        words.push(word.to_owned());
        rest = behind.trim_start();
    }
    words
}

const USERS: [&str; 4] = ["anne", "bert", "carl", "dora"];
const GROUPS: [&str; 4] = ["audio", "crew", "team", "video"];
const SHELLS: [&str; 3] = ["", "/bin/sh", "/bin/zsh"];
const HOMES: [&str; 3] = ["", "/home/a", "/srv/b"];
const COMMENTS: [&str; 3] = ["", "Plain", "Two words"];

/// Returns the number for a definition: one of two for each name, never shared by two names.
fn number_for(name: &str, random: &mut Random) -> u32 {
    let index = USERS.iter().chain(&GROUPS).position(|known| *known == name).unwrap();
    u32::try_from(1000 + index * 10 + random.below(2)).unwrap()
}

fn one_of(choices: &[&str], random: &mut Random) -> String {
    (*random.pick(choices)).to_owned()
}

fn definition(id: &str, random: &mut Random) -> Definition {
    let (kind, name) = parts(id);
    let number = random.chance(40).then(|| if name.is_empty() { 1 } else { number_for(name, random) });
    let mut definition = Definition { system: random.chance(20), ..Definition::default() };
    definition.values.number = number;
    definition.has_zero_gid = kind == "group" && number.is_none() && random.chance(20);
    if kind == "user" {
        let values = &mut definition.values;
        let mut maybe = |choices: &[&str]| set(&one_of(choices, random)).filter(|_| random.chance(50));
        (values.comment, values.home) = (maybe(&COMMENTS), maybe(&HOMES));
        (values.shell, values.group) = (maybe(&SHELLS), maybe(&GROUPS));
        values.groups = GROUPS.iter().filter(|_| random.chance(20)).map(ToString::to_string).collect();
        definition.skips_base_groups = random.chance(15);
    }
    definition
}

/// Returns definition files in which groups precede users, in the order in which they are read.
fn definitions(random: &mut Random) -> Vec<File> {
    let mut files = vec![File::new(); 1 + random.below(2)];
    for file in &mut files {
        for (kind, names) in [("group", GROUPS), ("user", USERS)] {
            for name in names {
                if random.chance(65) {
                    continue;
                }
                let name = if random.chance(3) { "" } else { name };
                let id = format!("{kind}:{name}");
                file.push((id.clone(), definition(&id, random)));
            }
        }
    }
    files
}

fn to_toml(file: &File) -> String {
    let mut text = String::new();
    for (id, Definition { values, system, skips_base_groups, has_zero_gid }) in file {
        let (kind, name) = parts(id);
        writeln!(text, "[[{kind}]]").unwrap();
        if !name.is_empty() {
            writeln!(text, "name = {name:?}").unwrap();
        }
        text.push_str(&values_toml(kind, values));
        if *has_zero_gid {
            text.push_str("gid = 0\n");
        }
        for (key, _) in [("system", system), ("skipBaseGroups", skips_base_groups)].iter().filter(|(_, set)| **set) {
            writeln!(text, "{key} = true").unwrap();
        }
    }
    text
}

fn values_toml(kind: &str, values: &Values) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            writeln!(text, "{key} = {value:?}").unwrap();
        }
    };
    line("comment", &values.comment);
    if let Some(number) = values.number {
        writeln!(text, "{}id = {number}", &kind[..1]).unwrap();
    }
    let mut line = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            writeln!(text, "{key} = {value:?}").unwrap();
        }
    };
    line("home", &values.home);
    line("group", &values.group);
    if !values.groups.is_empty() {
        writeln!(text, "groups = {:?}", values.groups.iter().collect::<Vec<_>>()).unwrap();
    }
    let mut line = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            writeln!(text, "{key} = {value:?}").unwrap();
        }
    };
    line("shell", &values.shell);
    text
}

/// A model of version 3: its state and its actions.
#[derive(Clone, Debug, Default)]
struct Model {
    base: BTreeMap<Id, Values>,
    provisioned: BTreeMap<Id, Values>,
}

/// The merged content of all definition files.
#[derive(Debug, Default)]
struct MergedFiles {
    defined: BTreeMap<Id, Definition>,
    broken: BTreeSet<Id>,
    said: String,
}

fn first<T: Clone>(one: &Option<T>, other: &Option<T>) -> Option<T> {
    one.clone().or_else(|| other.clone())
}

impl Values {
    /// Fills unset attributes from another value. Supplementary groups are filled as a whole.
    fn filled(&self, other: &Values) -> Values {
        Values {
            number: self.number.or(other.number),
            comment: first(&self.comment, &other.comment),
            home: first(&self.home, &other.home),
            group: first(&self.group, &other.group),
            groups: if self.groups.is_empty() { other.groups.clone() } else { self.groups.clone() },
            shell: first(&self.shell, &other.shell),
        }
    }
}

fn contradict<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_some() && other.is_some() && one != other
}

/// Returns the conflicting attributes that can have only one value.
fn conflicts(id: &str, one: &Values, other: &Values) -> Vec<(&'static str, String, String)> {
    let mut conflicts = Vec::new();
    if let (Some(one), Some(other)) = (one.number, other.number)
        && one != other
    {
        conflicts.push((if id.starts_with("user") { "UID" } else { "GID" }, one.to_string(), other.to_string()));
    }
    for (what, one, other) in [
        ("home directory", &one.home, &other.home),
        ("login group", &one.group, &other.group),
        ("login shell", &one.shell, &other.shell),
    ] {
        if contradict(one, other) {
            conflicts.push((what, one.clone().unwrap(), other.clone().unwrap()));
        }
    }
    conflicts
}

fn stated(files: &[File], folder: &std::path::Path) -> MergedFiles {
    let mut stated = MergedFiles::default();
    for (number, file) in files.iter().enumerate() {
        let (mut missing, mut contradictions) = (Vec::new(), Vec::new());
        let mut indices = BTreeMap::new();
        for (id, definition) in file {
            let (kind, name) = parts(id);
            let index = indices.entry(kind).or_insert(0);
            if name.is_empty() {
                missing.push(format!(">> {kind}s[{index}] is missing required 'name' attribute\n"));
            } else {
                let known = stated.defined.get(id).cloned().unwrap_or_default();
                for (what, one, other) in conflicts(id, &known.values, &definition.values) {
                    contradictions.push(format!(">> conflicting {what} for {id} ({one} vs. {other})\n"));
                    stated.broken.insert(id.clone());
                }
                let mut values = known.values.filled(&definition.values);
                values.comment = first(&definition.values.comment, &known.values.comment);
                values.groups.extend(definition.values.groups.clone());
                let merged = Definition {
                    values,
                    system: known.system || definition.system,
                    skips_base_groups: known.skips_base_groups || definition.skips_base_groups,
                    has_zero_gid: false,
                };
                stated.defined.insert(id.clone(), merged);
            }
            *index += 1;
        }
        if !missing.is_empty() || !contradictions.is_empty() {
            writeln!(stated.said, "!! File {}/{number}.toml is invalid:", folder.display()).unwrap();
            stated.said.extend(missing.into_iter().chain(contradictions));
        }
    }
    stated
}

/// Formats a command as holo prints it.
fn shown(words: &[String]) -> String {
    let quoted =
        words.iter().map(|word| if word.is_empty() || word.contains(' ') { format!("'{word}'") } else { word.clone() });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns the command that makes `actual` as wanted, or `None` if they are equal.
fn command(id: &str, actual: Option<&Values>, wanted: &Values, system: bool) -> Option<String> {
    let (kind, name) = parts(id);
    let mut words = vec![format!("{kind}{}", if actual.is_some() { "mod" } else { "add" })];
    if system && actual.is_none() {
        words.push("--system".to_owned());
    }
    let nothing = Values::default();
    let from = actual.unwrap_or(&nothing);
    let mut option = |option: &str, value: String| words.extend([option.to_owned(), value]);
    if let Some(number) = wanted.number.filter(|_| from.number != wanted.number) {
        option(if kind == "user" { "--uid" } else { "--gid" }, number.to_string());
    }
    if from.comment != wanted.comment {
        option("--comment", wanted.comment.clone().unwrap_or_default());
    }
    if from.home != wanted.home {
        option(if actual.is_some() { "--home" } else { "--home-dir" }, wanted.home.clone().unwrap_or_default());
    }
    if let Some(group) = wanted.group.clone().filter(|_| from.group != wanted.group) {
        option("--gid", group);
    }
    if from.groups != wanted.groups {
        option("--groups", wanted.groups.iter().cloned().collect::<Vec<_>>().join(","));
    }
    if from.shell != wanted.shell {
        option("--shell", wanted.shell.clone().unwrap_or_default());
    }
    let has_options = words.len() > 1;
    words.push(name.to_owned());
    (has_options || actual.is_none()).then(|| shown(&words))
}

/// The outcome of an entity, and the command that would be run.
#[derive(Debug, PartialEq, Eq)]
struct Ending(&'static str, Option<String>);

impl Model {
    /// Returns the base to restore. A login group without a name gets the name that its GID has now.
    fn base(&self, id: &str, machine: &Machine) -> Option<Values> {
        let mut base = self.base.get(id)?.clone();
        if let Some(number) = base.group.as_ref().and_then(|group| group.parse().ok()) {
            base.group = machine.name_of(number);
        }
        Some(base)
    }

    fn apply(&mut self, id: &str, definition: &Definition, machine: &Machine, force: bool) -> Ending {
        let actual = machine.actual(id);
        if !self.base.contains_key(id) {
            let mut base = actual.clone().unwrap_or_default();
            // Version 3 does not store the GID of a login group without a name.
            if let Some(user) = machine.users.get(parts(id).1).filter(|_| id.starts_with("user"))
                && base.group.is_none()
            {
                base.group = Some(user.gid.to_string());
            }
            self.base.insert(id.to_owned(), base);
        }
        let base = self.base(id, machine).unwrap();
        let provisioned = self.provisioned.get(id).cloned();
        match (&actual, &provisioned) {
            _ if force => {}
            (None, Some(_)) => return Ending("restore", None),
            (Some(actual), Some(provisioned)) => {
                let expected = definition.values.filled(provisioned);
                let groups_conflict = !expected.groups.is_empty() && !actual.groups.is_empty();
                if !conflicts(id, &expected, actual).is_empty() || (groups_conflict && expected.groups != actual.groups)
                {
                    return Ending("overwrite", None);
                }
            }
            (Some(actual), None) if !conflicts(id, &definition.values, actual).is_empty() => {
                return Ending("overwrite", None);
            }
            _ => {}
        }
        let mut desired = definition.values.clone();
        if !definition.skips_base_groups {
            desired.groups.extend(base.groups.clone());
        }
        let (groups, mut desired) = (desired.groups.clone(), desired.filled(&base));
        desired.groups = groups;
        for other in [&actual, &provisioned].into_iter().flatten() {
            desired = desired.filled(other);
        }
        let command = command(id, actual.as_ref(), &desired, definition.system);
        let ending = if command.is_some() { "changed" } else { "unchanged" };
        if command.is_some() {
            desired.number.get_or_insert(999);
        }
        self.provisioned.insert(id.to_owned(), desired);
        Ending(ending, command)
    }

    fn scrub(&mut self, id: &str, machine: &Machine) -> Ending {
        let base = self.base(id, machine).unwrap();
        let command = match machine.actual(id) {
            None => None,
            Some(_) if base == Values::default() => {
                let (kind, name) = parts(id);
                Some(format!("{kind}del {name}"))
            }
            Some(actual) => command(id, Some(&actual), &base, false),
        };
        self.base.remove(id);
        self.provisioned.remove(id);
        Ending("changed", command)
    }
}

/// The captured output.
#[derive(Default)]
struct OutputBuffer(Vec<u8>);

impl Sink for OutputBuffer {
    fn write(&mut self, _: Stream, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl OutputBuffer {
    fn take(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.0)).unwrap()
    }
}

fn host(root: &ScratchRoot) -> Host {
    let folder = |path: &str| Some(root.join(path).into_os_string());
    Host::from_environment(|name| match name {
        "HOLO_ROOT_DIR" => Some(root.path().as_os_str().to_owned()),
        "HOLO_RESOURCE_DIR" => folder("usr/share/holo/users-groups"),
        "HOLO_STATE_DIR" => folder("var/lib/holo/users-groups"),
        "HOLO_CACHE_DIR" => folder("tmp/cache"),
        _ => None,
    })
    .unwrap()
}

fn images(root: &ScratchRoot, folder: &str) -> BTreeMap<Id, String> {
    let folder = root.join(format!("var/lib/holo/users-groups/{folder}"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let image = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name.strip_suffix(".toml").unwrap().to_owned(), std::fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(image).collect()
}

fn as_images(images: &BTreeMap<Id, Values>) -> BTreeMap<Id, String> {
    let text = |(id, values): (&Id, &Values)| {
        let (kind, name) = parts(id);
        (id.clone(), format!("[[{kind}]]\nname = {name:?}\n{}", values_toml(kind, values)))
    };
    images.iter().map(text).collect()
}

fn scratch() -> ScratchRoot {
    let folders = ["usr/share/holo/users-groups", "var/lib/holo/users-groups", "tmp/cache"];
    folders.into_iter().fold(ScratchRoot::in_memory(), |root, folder| root.dir(folder))
}

fn write_definitions(root: &ScratchRoot, files: &[File]) {
    for number in 0..3 {
        let path = format!("usr/share/holo/users-groups/{number}.toml");
        match files.get(number) {
            Some(file) => root.write(&path, to_toml(file)),
            None if root.exists(&path) => std::fs::remove_file(root.join(path)).unwrap(),
            None => {}
        }
    }
}

/// Returns a random initial machine.
fn machine(random: &mut Random) -> Machine {
    let mut machine = Machine::default();
    for (gid, name) in (4000..).zip(GROUPS) {
        if random.chance(60) {
            machine.groups.insert(name.to_owned(), Group { gid, members: BTreeSet::new() });
        }
    }
    for (uid, name) in (5000..).zip(USERS) {
        if random.chance(50) {
            let gid = 4000 + u32::try_from(random.below(5)).unwrap();
            let (comment, home) = (one_of(&COMMENTS, random), one_of(&HOMES, random));
            let shell = one_of(&SHELLS, random);
            machine.users.insert(name.to_owned(), User { uid, gid, comment, home, shell });
            for group in machine.groups.values_mut().filter(|_| random.chance(25)) {
                group.members.insert(name.to_owned());
            }
        }
    }
    machine
}

/// Applies all entities and carries out the printed commands. Calls `each` with the results, and returns the output of the scan.
fn apply(
    root: &ScratchRoot,
    machine: &mut Machine,
    force: bool,
    mut each: impl FnMut(&str, &Machine, &str, &str, &str),
) -> String {
    let host = host(root);
    let mut said = OutputBuffer::default();
    let mut entities = scan::all(&host, &mut Output::new(&mut said)).unwrap();
    let scanned = said.take();
    entities.sort_by_key(|declared| declared.entity.id.to_string());
    for declared in entities {
        let id = declared.entity.id.to_string();
        let applied = declared.apply(&host, Mode { force, ..Mode::default() }, &mut Output::new(&mut said));
        let ending = match applied {
            Applied::Unchanged => "unchanged",
            Applied::ChangedQuietly(_) => "changed",
            Applied::NeedsForce(ForceTo::Overwrite) => "overwrite",
            Applied::NeedsForce(ForceTo::Restore) => "restore",
            Applied::Failed { version_3_status: 0, .. } => "failed",
            other => panic!("{id}: {other:?}"),
        };
        // Version 3 says nothing about groups that it keeps.
        let is_of_version_3 = |line: &&str| !line.contains(" which is not defined any more");
        let words: String = said.take().split_inclusive('\n').filter(is_of_version_3).collect();
        let verb = if declared.entity.definition.is_some() { "apply" } else { "scrub" };
        each(&id, machine, verb, ending, &words);
        for line in words.lines().filter_map(|line| line.strip_prefix("MOCK: ")) {
            machine.run(line);
        }
        machine.write(root);
    }
    scanned
}

#[test]
fn random_cases_follow_the_rules_of_version_3() {
    random::cases(CASES, |random| {
        let root = scratch();
        let mut machine = machine(random);
        let mut model = Model::default();
        let mut files = Vec::new();
        for round in 0..4 + random.below(5) {
            if random.chance(60) {
                files = definitions(random);
            }
            (0..random.below(3)).for_each(|_| machine.meddle(random));
            write_definitions(&root, &files);
            machine.write(&root);
            let stated = stated(&files, &root.join("usr/share/holo/users-groups"));
            let mut expected: BTreeSet<Id> = stated.defined.keys().cloned().collect();
            expected.extend(model.base.keys().cloned());
            expected.retain(|id| !stated.broken.contains(id));
            let force = random.chance(25);
            let before = (model.clone(), machine.clone());
            let scanned = apply(&root, &mut machine, force, |id, machine, verb, ending, said| {
                assert!(expected.remove(id), "round {round}: {id} is not to be applied");
                let Ending(expected, command) = match stated.defined.get(id) {
                    Some(definition) => {
                        let ending = model.apply(id, definition, machine, force);
                        assert_eq!(verb, "apply");
                        ending
                    }
                    None => model.scrub(id, machine),
                };
                // Version 3 does not know this number.
                let lost = before.0.base.get(id).and_then(|base| base.group.clone()).filter(|group| {
                    let number = group.parse().ok();
                    let user = machine.users.get(parts(id).1).filter(|_| verb == "scrub");
                    user.zip(number)
                        .is_some_and(|(user, number)| user.gid != number && machine.name_of(number).is_none())
                });
                let mut line = lost.map_or_else(String::new, |number| {
                    format!(">> {id} keeps its login group: no group exists any more with the GID {number}\n")
                });
                line.extend(command.map(|command| format!("MOCK: {command}\n")));
                let definition = stated.defined.get(id);
                assert_eq!(
                    (ending, said),
                    (expected, line.as_str()),
                    "round {round}, force {force}: {id}\n{definition:?}\nbefore {:?} {:?}\n{:?}",
                    before.0.base.get(id),
                    before.0.provisioned.get(id),
                    machine.actual(id),
                );
            });
            assert_eq!(scanned, stated.said, "round {round}");
            assert!(expected.is_empty(), "round {round}: {expected:?} were not applied");
            assert_eq!(images(&root, "base"), as_images(&model.base), "round {round}");
            assert_eq!(images(&root, "provisioned"), as_images(&model.provisioned), "round {round}");
        }
    });
}

/// Returns the definitions with some names changed.
fn renamed(file: &File, random: &mut Random) -> File {
    let mut file = file.clone();
    for (kind, names) in [("group", &GROUPS[1..]), ("user", &USERS)] {
        let id = format!("{kind}:{}", random.pick(names));
        if let Some(index) = file.iter().position(|(id, _)| id.starts_with(kind))
            && file.iter().all(|(known, _)| *known != id)
        {
            file[index].0 = id;
        }
    }
    file.sort_by(|(one, _), (other, _)| one.cmp(other));
    file
}

/// Returns definitions of existing accounts, with their numbers, and of new ones.
fn numbered_definitions(machine: &Machine, random: &mut Random) -> File {
    let mut file = File::new();
    for (kind, names, start) in [("group", GROUPS, 6000), ("user", USERS, 6010)] {
        for (number, name) in (start..).zip(names) {
            if random.chance(60) {
                continue;
            }
            let id = format!("{kind}:{name}");
            let known = machine.actual(&id).and_then(|values| values.number);
            let mut definition = definition(&id, random);
            definition.values.number = Some(known.unwrap_or(number)).filter(|_| random.chance(90));
            definition.has_zero_gid &= definition.values.number.is_none();
            file.push((id, definition));
        }
    }
    // Only a group that is never deleted.
    for (_, Definition { values, .. }) in &mut file {
        values.group = None;
        values.groups.retain(|group| group == "audio");
    }
    file.retain(|(id, _)| id != "group:audio");
    file
}

#[test]
fn random_renames_are_undone_when_all_definitions_are_removed() {
    let (takeovers, ends) = (AtomicUsize::new(0), AtomicUsize::new(0));
    random::cases(CASES, |random| {
        let root = scratch();
        let mut machine = machine(random);
        machine.groups.entry("audio".to_owned()).or_insert(Group { gid: 4000, ..Group::default() });
        // A login group without a name would become whatever group gets its GID.
        let named: BTreeSet<u32> = machine.groups.values().map(|group| group.gid).collect();
        machine.users.values_mut().filter(|user| !named.contains(&user.gid)).for_each(|user| user.gid = 4000);
        machine.has_own_groups = random.chance(50);
        let before = machine.clone();
        let mut files = vec![File::new()];
        let (mut count, mut log) = (0, String::new());
        let rounds = 4 + random.below(5);
        for round in 0..rounds {
            match random.below(10) {
                0..4 => files = vec![numbered_definitions(&machine, random)],
                4..9 => files = files.iter().map(|file| renamed(file, random)).collect(),
                _ => {}
            }
            // An orphan may have to wait for another one, which may have to wait too.
            if round + 3 >= rounds {
                files.clear();
            }
            write_definitions(&root, &files);
            machine.write(&root);
            let _ = writeln!(log, "round {round}\n{}", files.first().map(to_toml).unwrap_or_default());
            let mut scrubbed = Vec::new();
            apply(&root, &mut machine, true, |id, machine, verb, ending, said| {
                let _ = write!(log, "{verb} {id}\n{said}");
                if verb == "scrub" && ending == "changed" {
                    scrubbed.push(id.to_owned());
                }
                // Version 3 orders entities by name.
                assert!(!said.contains("!!") || said.contains("gets its name back when"), "{said}");
                // The tools decide about conflicts such as a number that is taken.
                count += usize::from(said.contains(" takes over from ") && !machine.has_failed);
            });
            if machine.has_failed {
                return;
            }
            for id in scrubbed.iter().filter(|id| before.actual(id).is_none()) {
                let Some(left) = machine.actual(id) else { continue };
                // The original name belongs to another definition now, and is not restored.
                let has_number = |name: &&&str| {
                    let id = format!("{}:{name}", parts(id).0);
                    before.actual(&id).is_some_and(|values| values.number == left.number)
                };
                let origin = GROUPS.iter().chain(&USERS).find(has_number).unwrap();
                let is_defined = files.iter().flatten().any(|(defined, _)| parts(defined).1 == *origin);
                assert!(is_defined, "{id} has not got its name back\n{log}");
                return;
            }
        }
        takeovers.fetch_add(count, Ordering::Relaxed);
        ends.fetch_add(1, Ordering::Relaxed);
        assert_eq!(machine, before, "{log}");
        let left = [images(&root, "base"), images(&root, "provisioned")];
        assert!(left.iter().all(BTreeMap::is_empty) && !root.exists("var/lib/holo/users-groups/.renamed"), "{left:?}");
    });
    let (takeovers, ends) = (takeovers.into_inner(), ends.into_inner());
    let is_covered = takeovers > 10 && ends > 20 || !random::are_many();
    assert!(is_covered, "{takeovers} takeovers in {ends} cases that came to their end");
}
