//! Runs every scenario below `test-scenarios/`, each as a test of its own, and sees to it that each says what it proves.
//!
//! Those of the plugins that version 3 has are run a second time with the plugin as one process an operation, as version 3 has it: nobody
//! may be able to tell the difference.

use holo_testing::require::ANSIBLE;
use holo_testing::{Need, ScratchRoot, binaries::built};
use libtest_mimic::{Failed, Trial};
use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The plugins that version 3 has as well.
const CLASSIC: &[&str] = &["files", "ssh-keys", "users-groups"];

/// The scenarios that look different in version 3: it is told of failures by an exit status, which is shown then, and knows of no dependencies, no checks
/// and nothing that is owned.
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

/// The beginnings of the names of scenarios that start programs that not every system has.
const NEEDING: &[(&str, &[Need])] = &[("promises/", &[Need::Program("python3")]), ("ansible/02", &[ANSIBLE])];

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
        // An empty walk would make all of this pass.
        assert!(!scenarios.is_empty(), "there are no scenarios");
        topics.iter().chain(&scenarios).try_for_each(|folder| says_what_it_is_about(folder))
    }));
    trials
}

/// The folders in a folder, in the order of their names.
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

fn scenario(folder: &Path) -> Trial {
    let (name, folder) = (format!("{}/{}", topic_of(folder), name_of(folder)), folder.to_owned());
    let needs = NEEDING.iter().find(|(begin, _)| name.starts_with(begin)).map_or(&[][..], |(_, needs)| needs);
    holo_testing::trial(&name, needs, move || {
        let root = ScratchRoot::new();
        let copy = copied(&folder, &root)?;
        passes(&root, &copy)
    })
}

/// Copies a scenario to where its run may leave what it makes: nothing is written into the sources, and two runs do not meet. What is beside
/// the scenario and its topic is there too.
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
        let is_input = ["source-tree", "env.sh", "steps"].contains(&&*name_of(&path));
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

/// The scenario, beside a configuration that has the plugin speak version 3 only.
fn scenario_as_version_3(folder: &Path) -> Trial {
    let (name, folder) = (format!("{}/{}/as_version_3", topic_of(folder), name_of(folder)), folder.to_owned());
    Trial::test(name, move || {
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

/// A `README.md` begins with one sentence, which says what a scenario proves or what a topic is.
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
