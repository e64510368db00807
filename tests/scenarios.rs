//! Runs every scenario below `test-scenarios/`, each as a test of its own, and sees to it that each says what it proves.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use holo_testing::{ScratchRoot, binaries::built};
use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let topics = folders_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("test-scenarios"));
    let scenarios: Vec<PathBuf> = topics
        .iter()
        .flat_map(|topic| folders_in(topic))
        .filter(|folder| folder.join("source-tree").exists())
        .collect();
    let mut trials: Vec<Trial> = scenarios.iter().cloned().map(scenario).collect();
    trials.push(Trial::test("every_folder_says_what_it_is_about", move || {
        // An empty walk would make all of this pass.
        assert!(!scenarios.is_empty(), "there are no scenarios");
        topics.iter().chain(&scenarios).try_for_each(|folder| says_what_it_is_about(folder))
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The folders in a folder, in the order of their names; without those that a run leaves behind.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn scenario(folder: PathBuf) -> Trial {
    let parts: Vec<_> = folder.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    Trial::test(format!("{}/{}", parts[1], parts[0]), move || {
        // The root is not the scenario's: it only gives the runner an environment without surprises.
        let run = ScratchRoot::new().run(built("holo"), &["test".as_ref(), folder.as_os_str()]);
        if run.success() { Ok(()) } else { Err(run.to_string().into()) }
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
