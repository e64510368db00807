//! Commands with their output, as in the manual pages and the book, which tests run one after another.

use holo_testing::{Overlay, Run, ScratchRoot, binaries};
use libtest_mimic::Trial;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A command, and the output that a document shows for it.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) output: String,
}

/// A system on which commands are run.
pub(crate) trait Shell {
    /// Runs a shell script, which may fail.
    fn shell(&self, script: &str) -> Run;
}

impl Shell for Overlay {
    fn shell(&self, script: &str) -> Run {
        self.run("bash", &["-c", script])
    }
}

impl Shell for ScratchRoot {
    fn shell(&self, script: &str) -> Run {
        self.run("bash", &["-c", script])
    }
}

/// Returns the commands in a text, which begin with `$ ` or `# `. A here-document belongs to its command.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(command) = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")) {
            let mut command = command.to_owned();
            while let Some(end) = open_end(&command) {
                let line = lines.next().unwrap_or_else(|| panic!("`{command}` does not end"));
                let _ = write!(command, "\n{line}");
                if end.as_deref() == Some(line) {
                    break;
                }
            }
            steps.push(Step { command, output: String::new() });
        } else if let Some(step) = steps.last_mut() {
            step.output += &format!("{line}\n");
        } else {
            panic!("a transcript begins with output: {line}");
        }
    }
    steps
}

/// Returns whether more lines belong to the command: until a certain one, or as long as they end with a backslash.
fn open_end(command: &str) -> Option<Option<String>> {
    let first = command.lines().next().unwrap_or_default();
    match first.split_once("<<") {
        Some((_, end)) => Some(Some(end.split([' ', '>']).next().unwrap_or_default().trim_matches('\'').to_owned())),
        None => command.ends_with('\\').then_some(None),
    }
}

/// Runs a command in the directory and with the exported variables that the previous command has left.
fn run(system: &impl Shell, command: &str) -> Run {
    system.shell(&format!(
        "exec 2>&1\n[ ! -e \"$TMPDIR/.transcript\" ] || . \"$TMPDIR/.transcript\"\n{command}\n\
         status=$?; {{ export -p; echo \"cd '$PWD'\"; }} >\"$TMPDIR/.transcript\"; exit $status"
    ))
}

/// Returns true if documents get what commands really print.
pub(crate) fn blesses() -> bool {
    std::env::var_os("HOLO_BLESS").is_some()
}

/// Runs the commands, and panics if the output of one differs from the document's. With `HOLO_BLESS=1`, the actual output
/// replaces that in the document.
pub(crate) fn follow(system: &impl Shell, steps: &[Step], page: &str) {
    assert!(!steps.is_empty(), "{page} has no commands");
    let blesses = blesses();
    let (mut wrong, mut text, mut cursor) = (String::new(), document(page), 0);
    for step in steps {
        let Step { command, output } = step;
        let run = run(system, command);
        let actual = run.stdout_lossy();
        let is_right = is_like(output.trim_matches('\n'), actual.trim_matches('\n'));
        if !is_right {
            let _ = write!(wrong, "\n$ {command}\n{actual}\nThe page shows:\n{output}");
        }
        if blesses {
            let new = if is_right { output } else { &*actual };
            cursor = bless(&mut text, cursor, step, new, if page.starts_with("man/") { "\\e" } else { "\\" });
        }
    }
    if blesses {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(page), text).unwrap();
    } else {
        assert!(wrong.is_empty(), "{page}: {wrong}");
    }
}

/// Replaces the output of a step in a page, and returns its end. Steps that are not shown in the page are left out.
fn bless(page: &mut String, cursor: usize, step: &Step, actual: &str, backslash: &str) -> usize {
    let escaped = |text: &str| text.replace('\\', backslash);
    let shown = |prompt: &str| format!("\n{prompt} {}\n{}", escaped(&step.command), escaped(&step.output));
    let places = ["$", "#"].map(|prompt| (page[cursor..].find(&shown(prompt)), shown(prompt).len()));
    let Some((place, length)) = places.into_iter().filter_map(|(place, length)| Some((place?, length))).min() else {
        return cursor;
    };
    let end = cursor + place + length;
    let begin = end - escaped(&step.output).len();
    let mut actual = escaped(actual);
    if ["```", ".Ed"].iter().any(|fence| page[end..].starts_with(fence)) {
        actual.truncate(actual.trim_end_matches('\n').len());
        actual += if actual.is_empty() { "" } else { "\n" };
    }
    page.replace_range(begin..end, &actual);
    // The next command begins with this line break.
    begin + actual.len() - 1
}

/// Compares output with a document's, in which `…` stands for any text of a line, and a line `…` for any lines. All
/// times, durations and IDs of runs are equal.
fn is_like(expected: &str, actual: &str) -> bool {
    let lines = |text: &str| -> Vec<String> { text.lines().map(|line| masked(line.trim_end())).collect() };
    are_like(&lines(expected), &lines(actual))
}

fn are_like(expected: &[String], actual: &[String]) -> bool {
    match (expected, actual) {
        ([], []) => true,
        ([first, rest @ ..], _) if first == "…" => (0..=actual.len()).any(|count| are_like(rest, &actual[count..])),
        ([first, rest @ ..], [line, others @ ..]) => is_line_like(first, line) && are_like(rest, others),
        _ => false,
    }
}

/// Replaces the words of a line that differ in each run, and removes the age of a time, which is only shown if it is a second or more.
fn masked(line: &str) -> String {
    if let Some((before, after)) = line.split_once(" ago)")
        && let Some((before, _)) = before.rsplit_once(", ")
    {
        return masked(&format!("{before}){after}"));
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-:.".contains(letter);
    let mut words = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (word, others) = rest.split_at(end);
        let shape: String = word.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
        words += match &*shape {
            _ if shape.starts_with("00000000T000000-") => "RUN",
            _ if shape.starts_with("0000-00-00T00:00:00") => "TIME",
            "0000-00-00" => "DATE",
            "00:00:00" => "CLOCK",
            "0.000" => "DURATION",
            _ => word,
        };
        let separator = others.chars().next().map_or(0, char::len_utf8);
        words += &others[..separator];
        rest = &others[separator..];
    }
    words
}

fn is_line_like(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        steps_end_where_the_next_begins,
        output_may_differ_in_times_and_at_ellipses,
        output_replaces_that_of_the_page
    ]
}

fn steps_end_where_the_next_begins() {
    let steps = steps("$ cat >x <<'END'\n# text\nEND\n# cat x\n# text\n$ echo a \\\n    b\na b\n");
    let pairs: Vec<(&str, &str)> = steps.iter().map(|step| (&*step.command, &*step.output)).collect();
    assert_eq!(pairs[0], ("cat >x <<'END'\n# text\nEND", ""));
    // Output cannot begin like a command.
    assert_eq!(pairs[1..3], [("cat x", ""), ("text", "")]);
    assert_eq!(pairs[3], ("echo a \\\n    b", "a b\n"));
}

fn output_may_differ_in_times_and_at_ellipses() {
    let run = |id: &str, time: &str| format!("run {id} of {time}, 1 changed\n");
    let shown = run("20261122T091403-8f2c1", "2026-11-22 09:14:03");
    assert!(is_like(&shown, &run("20300101T000000-1", "2030-01-01 00:00:00")));
    assert!(!is_like(&shown, &shown.replace("1 changed", "2 changed")));
    assert!(is_like("(`holo apply` of 2026-11-22 09:14:03)", "(`holo apply` of 2030-01-01 00:00:00, 1.0 s ago)"));
    for (expected, actual, is_right) in [
        ("a … d", "a b c d", true),
        ("a … d", "a b c", false),
        ("a\n…\nd", "a\nb\nc\nd", true),
        ("a\n…\nd", "a\nd\ne", false),
        ("a", "a\nb", false),
        ("", "", true),
    ] {
        assert_eq!(is_like(expected, actual), is_right, "{expected:?} {actual:?}");
    }
}

fn output_replaces_that_of_the_page() {
    let mut page = "```console\n$ date\nold\n$ date\nold\n```\n".to_owned();
    let step = Step { command: "date".to_owned(), output: "old\n".to_owned() };
    let cursor = bless(&mut page, 0, &step, "old\n", "\\");
    let _ = bless(&mut page, cursor, &step, "new\n\n", "\\");
    assert_eq!(page, "```console\n$ date\nold\n$ date\nnew\n```\n");
}

/// Makes `holo` and plugins available in a system, with only these plugins configured and no resource files.
pub(crate) fn install(machine: &Overlay, plugins: &[&str]) {
    machine.must("rm -rf /etc/holo /etc/holorc.d /usr/share/holo /var/lib/holo; mkdir -p /usr/share/holo/generators");
    machine.must(&format!("ln -sf {} /usr/bin/holo", binaries::built("holo").display()));
    for plugin in plugins {
        let _ = binaries::built(&format!("holo-{plugin}"));
        machine.must(&format!("mkdir -p /usr/share/holo/{plugin}"));
    }
    machine.write("/etc/holorc", plugins.iter().map(|plugin| format!("plugin {plugin}\n")).collect::<String>());
}

/// Returns a file of this repository.
pub(crate) fn document(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}
