//! Runs every scenario below `test-scenarios/` as a test of its own, and checks that each has a description.
//!
//! The state directory is created with the mode that an apply gives it. After each scenario, the user nobody searches
//! for readable state.
//!
//! Scenarios of the plugins that version 3 also has run a second time with one process per operation, as in version 3;
//! the result must be the same.

use bstr::ByteSlice;
use holo_testing::require::ANSIBLE;
use holo_testing::{Need, ScratchRoot, binaries::built};
use libtest_mimic::{Failed, Trial};
use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The plugins that version 3 has as well.
const CLASSIC: &[&str] = &["files", "ssh-keys", "users-groups"];

/// The scenarios whose output differs in version 3, which reports failures by exit status, and has no dependencies,
/// checks or ownership.
const DIFFERENT: &[&str] = &[
    "ssh-keys/11-scrubbing-without-a-home",
    "ssh-keys/12-moved-keys",
    "ssh-keys/20-symlinks-and-worse",
    "ssh-keys/21-no-home",
    "ssh-keys/22-odd-home",
    "users-groups/52-common-keys",
    "users-groups/60-one-number-twice",
    "users-groups/61-another-name",
];

/// Prefixes of the names of scenarios that need programs that not every system has.
const NEEDING: &[(&str, &[Need])] = &[
    ("promises/", &[Need::Program("python3")]),
    ("ansible/02", &[ANSIBLE]),
    ("files/45", &[Need::ExtendedAttributes, Need::Program("setfacl"), Need::Program("getfacl")]),
];

pub(crate) fn trials() -> Vec<Trial> {
    let topics = folders_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("test-scenarios"));
    let scenarios: Vec<PathBuf> = topics
        .iter()
        .flat_map(|topic| folders_in(topic))
        .filter(|folder| folder.join("source-tree").exists())
        .collect();
    let mut trials: Vec<Trial> = scenarios.iter().map(|folder| scenario(folder)).collect();
    let is_different = |folder: &Path| DIFFERENT.iter().any(|different| folder.ends_with(different));
    let of_classics = scenarios.iter().filter(|folder| CLASSIC.contains(&&*topic_of(folder)) && !is_different(folder));
    trials.extend(of_classics.map(|folder| scenario_as_version_3(folder)));
    trials.push(Trial::test("every_folder_says_what_it_is_about", move || {
        // Without scenarios, all of this would pass.
        assert!(!scenarios.is_empty(), "there are no scenarios");
        topics.iter().chain(&scenarios).try_for_each(|folder| says_what_it_is_about(folder))
    }));
    trials
}

/// Returns the subdirectories of a directory, sorted by name.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn name_of(folder: &Path) -> Cow<'_, str> {
    folder.file_name().unwrap_or_default().to_string_lossy()
}

fn topic_of(folder: &Path) -> Cow<'_, str> {
    folder.parent().map_or(Cow::Borrowed(""), name_of)
}

fn needs_of(name: &str) -> &'static [Need] {
    NEEDING.iter().find(|(begin, _)| name.starts_with(begin)).map_or(&[], |(_, needs)| needs)
}

fn scenario(folder: &Path) -> Trial {
    let (name, folder) = (format!("{}/{}", topic_of(folder), name_of(folder)), folder.to_owned());
    holo_testing::trial(&name, needs_of(&name), move || {
        let root = ScratchRoot::new();
        let copy = copied(&folder, &root)?;
        let is_closed = close_states(&copy)?;
        passes(&root, &copy)?;
        if is_closed { hides_states(&root, &copy) } else { Ok(()) }
    })
}

/// Adds the state directory, with access only for its owner, to the trees of a scenario. Returns false if the scenario
/// has another mode for it.
fn close_states(copy: &Path) -> std::io::Result<bool> {
    let dashes = format!("{}\n", "-".repeat(40));
    let section = format!("directory 0700 ./var/lib/holo/\n{dashes}");
    let [source, expected] = ["source-tree", "expected-tree"].map(|name| copy.join(name));
    let mut tree = fs::read(&source)?;
    if tree.contains_str(" ./var/lib/holo/\n") {
        return Ok(false);
    }
    tree.extend_from_slice(section.as_bytes());
    fs::write(source, tree)?;
    // Scenarios with steps compare no tree.
    let Ok(tree) = fs::read(&expected) else { return Ok(true) };
    let mut headers = tree.find_iter(&dashes).map(|at| at + dashes.len());
    let is_below =
        |at: &usize| tree[*at..].lines().next().is_some_and(|header| header.contains_str(" ./var/lib/holo/"));
    let Some(first) = headers.find(is_below) else { return Ok(false) };
    fs::write(expected, [&tree[..first], section.as_bytes(), &tree[first..]].concat())?;
    Ok(true)
}

/// Asserts that the user nobody can read nothing in the state directory. Only root can become that user.
fn hides_states(root: &ScratchRoot, copy: &Path) -> Result<(), Failed> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // Parent directories may be closed to that user too, which would hide the tested modes.
    let script = "cd \"$1\" && exec setpriv --reuid=65534 --regid=65534 --clear-groups find holo -readable -print";
    let run = root.run("sh", &["-c".as_ref(), script.as_ref(), "sh".as_ref(), copy.join("target/var/lib").as_os_str()]);
    if run.stdout.is_empty() && run.stderr.contains_str("holo") { Ok(()) } else { Err(run.to_string().into()) }
}

/// Copies a scenario, so that no run writes to the sources and runs do not interfere. The files next to the scenario
/// and its topic are copied too.
fn copied(folder: &Path, root: &ScratchRoot) -> std::io::Result<PathBuf> {
    let topic = folder.parent().unwrap();
    let (name, topic_name) = (name_of(folder), topic_of(folder));
    for (beside, at) in [(topic, "."), (folder, &*topic_name)] {
        let copy = root.join("tmp").join(at);
        fs::create_dir_all(&copy)?;
        for entry in fs::read_dir(beside.parent().unwrap())? {
            let path = entry?.path();
            if path != beside && !path.join("source-tree").exists() {
                symlink(&path, copy.join(path.file_name().unwrap()))?;
            }
        }
    }
    let copy = Path::new("tmp").join(&*topic_name).join(&*name);
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_input = ["source-tree", "state.jsonl", "env.sh", "steps"].contains(&&*name_of(&path));
        if is_input || name_of(&path).starts_with("expected-") {
            root.write(copy.join(name_of(&path).as_ref()), fs::read(&path)?);
        }
    }
    Ok(root.join(copy))
}

fn passes(root: &ScratchRoot, folder: &Path) -> Result<(), Failed> {
    let run = root.run(built("holo"), &["test".as_ref(), folder.as_os_str()]);
    if run.success() { Ok(()) } else { Err(run.to_string().into()) }
}

/// Runs the scenario with a configuration that limits the plugin to version 3.
fn scenario_as_version_3(folder: &Path) -> Trial {
    let (name, folder) = (format!("{}/{}/as_version_3", topic_of(folder), name_of(folder)), folder.to_owned());
    holo_testing::trial(&name, needs_of(&name), move || {
        let id = topic_of(&folder);
        let plugin = built(&format!("holo-{id}"));
        let info = r"[ $1 != info ] || { printf 'MIN_API_VERSION=3\nMAX_API_VERSION=3\n'; exit; }";
        let root =
            ScratchRoot::new().script("plugin", format!("#!/bin/sh\n{info}\nexec '{}' \"$@\"\n", plugin.display()));
        let copy = copied(&folder, &root)?;
        let holorc = Path::new("tmp").join(&*id).join("holorc");
        root.write(holorc, format!("plugin {id}={}\n", root.join("plugin").display()));
        passes(&root, &copy)
    })
}

/// Checks that `README.md` begins with one sentence that describes the scenario or topic.
fn says_what_it_is_about(folder: &Path) -> Result<(), Failed> {
    let path = folder.join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let first = text.lines().next().unwrap_or_default();
    let begins_well = first.starts_with(|letter: char| letter.is_uppercase() || letter == '`');
    if begins_well && first.ends_with('.') {
        Ok(())
    } else {
        Err(format!("{}: the first line is no sentence: {first}", path.display()).into())
    }
}
