//! The cost of a plugin grows in proportion to the number of its entities, even if all of them share one object: one file, one user, one
//! directory, one file of definitions.
//!
//! Two counts are compared for few entities and for four times as many: the system calls of all processes (`strace -f -c`), and the blocks of
//! code that the plugin executes in user space (`valgrind --tool=none --stats=yes`). Unlike times, they hardly depend on the machine and its
//! load. `valgrind --tool=callgrind` finds the function that a failure is about.

use holo_testing::require::is_complete;
use holo_testing::{Need, Run, ScratchRoot, binaries::built, disturb, trial_of};
use libtest_mimic::Trial;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// If this variable names a file, more entities are counted, and the results are written to its section [`SECTION`].
const TABLE: &str = "HOLO_TEST_GROWTH";
const SECTION: &str = "## Growth\n";
const HEAD: &str = "The costs of a few entities and of four times as many that share one object, and the exponents of their growth; 0.00 if it is \
    constant. `benches/README.md` describes the counts.\n\n\
    | | | system calls of 250 | of 1,000 | N^ | blocks of code of 250 | of 1,000 | N^ |\n|---|---|--:|--:|--:|--:|--:|--:|\n";
/// The number of entities is multiplied by this.
const FACTOR: usize = 4;
/// An exponent of one and a logarithm are allowed.
const MAX_EXPONENT: f64 = 1.2;
/// The time after which a file counts as unchanged since it was examined.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
/// A count of fewer than this for each entity counts as constant. Waiting takes a few calls more or less each time.
const LEAST: u64 = 4;

/// Entities of a plugin that share an object.
struct Case {
    name: &'static str,
    plugin: &'static str,
    needs: &'static [Need],
    /// Defines this number of entities.
    define: fn(&ScratchRoot, usize),
    /// The file or directory below `usr/share/holo/PLUGIN` that defines them; empty for all files there.
    definitions: &'static str,
    /// The arguments of its check.
    check: &'static [&'static str],
    /// True if the plugin looks through the records of all entities whenever it removes a directory. This is known to take more than linear
    /// time, so the blocks of code of the removal are not compared.
    looks_through_records: bool,
    /// False if the plugin starts itself as a supervisor of programs, which is not possible in valgrind.
    runs_in_valgrind: bool,
    /// False if the entities are never known to be in their desired state: scripts, and promises that can only be evaluated.
    settles: bool,
}

impl Case {
    const fn new(plugin: &'static str, name: &'static str, define: fn(&ScratchRoot, usize)) -> Case {
        Case {
            name,
            plugin,
            needs: &[],
            define,
            definitions: "10.toml",
            check: &["check"],
            looks_through_records: false,
            runs_in_valgrind: true,
            settles: true,
        }
    }

    const fn defined_by(self, definitions: &'static str) -> Case {
        Case { definitions, ..self }
    }

    const fn needing(self, needs: &'static [Need]) -> Case {
        Case { needs, ..self }
    }

    const fn looking_through_records(self) -> Case {
        Case { looks_through_records: true, ..self }
    }

    /// A check that also asks for previews.
    const fn previewed(self) -> Case {
        Case { check: &["check", "--diff"], ..self }
    }

    const fn unsettled(self) -> Case {
        Case { settles: false, ..self }
    }

    /// A plugin that runs this program for its entities.
    const fn running(self, programs: &'static [Need]) -> Case {
        Case { needs: programs, runs_in_valgrind: false, ..self }
    }
}

const CASES: [Case; 21] = [
    Case::new("files", "overlays of one directory", overlays).defined_by("20-x"),
    Case::new("files", "overlays of one file", layers).defined_by(""),
    Case::new("files", "patches of one file", patches).defined_by(""),
    Case::new("files", "files in one directory", declared),
    Case::new("files", "one ACL", acl).needing(&[Need::ExtendedAttributes]),
    Case::new("files", "paths below one directory", recursive),
    Case::new("files", "lines of one file", lines),
    Case::new("files", "blocks of one file", blocks),
    Case::new("files", "values of one file", values),
    Case::new("scaffold", "templates", scaffold),
    Case::new("archives", "files of one archive", archive),
    Case::new("archives", "archives in one directory", archives).looking_through_records(),
    Case::new("ssh-keys", "keys of one set", keys).defined_by("jane"),
    Case::new("ssh-keys", "sets of one user", sets).defined_by("jane").previewed(),
    Case::new("users-groups", "users of one group", users),
    Case::new("packages", "packages", packages),
    Case::new("services", "units", units).running(&[Need::Program("systemctl")]),
    Case::new("exec", "commands", commands),
    Case::new("run-scripts", "scripts", scripts).defined_by("").unsettled(),
    Case::new("promises", "promises about one file", promises).running(&[Need::Program("python3")]).unsettled(),
    Case::new("ral", "resources of one provider", resources).running(&[Need::Program("bash")]),
];

/// A step, and the command that is counted.
const STEPS: [(&str, &[&str]); 5] = [
    ("first apply", &["apply"]),
    // Otherwise the plugin would not be asked about files that are known to be unchanged.
    ("nothing to do", &["apply", "--verify"]),
    ("check", &["check"]),
    ("diff", &["diff"]),
    ("removal", &["apply"]),
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |case: &'static Case| {
        let needs =
            [&[Need::Program("strace"), Need::Program("strip"), Need::Program("valgrind")], case.needs].concat();
        trial_of(&format!("{}: {}", case.plugin, case.name), &needs, || grows_in_proportion(case))
    };
    CASES.iter().map(trial).collect()
}

/// Counts with one entity, few of them, and `FACTOR` times as many.
type Counts = [u64; 3];

/// The counts of each step.
type Steps = [Counts; STEPS.len()];

fn grows_in_proportion(case: &Case) {
    let table = std::env::var_os(TABLE).map(PathBuf::from);
    let few = if table.is_some() { 250 } else { 24 };
    let numbers = [1, few, few * FACTOR];
    let (mut rows, mut problems) = (String::new(), String::new());
    let (calls, blocks) = steps_of(case, numbers, table.is_some());
    for (index, (step, _)) in STEPS.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(rows, "| {}: {} | {step} |", case.plugin, case.name);
        let blocks = blocks.map(|blocks| blocks[index]).filter(|_| table.is_some() || is_executed(step));
        for (what, counts) in [("system calls", Some(calls[index])), ("blocks of code", blocks)] {
            let Some(counts) = counts else {
                rows += " | | |";
                continue;
            };
            let exponent = exponent(counts, numbers);
            let _ = write!(rows, " {} | {} | {exponent:.2} |", counts[1], counts[2]);
            let is_known = case.looks_through_records && *step == "removal" && what == "blocks of code";
            if exponent > MAX_EXPONENT && !is_known {
                let _ = writeln!(problems, "{step}: {what} grow as N^{exponent:.2}: {counts:?} for {numbers:?}");
            }
        }
        rows.push('\n');
    }
    if let Some(table) = table {
        keep(&table, case, &rows);
    }
    assert!(problems.is_empty(), "{problems}");
}

/// Returns the exponent of the growth, apart from the cost that does not depend on the number.
fn exponent([one, few, many]: Counts, numbers: [usize; 3]) -> f64 {
    let [few, many] = [few, many].map(|count| count.saturating_sub(one));
    if many < LEAST * numbers[2] as u64 {
        return 0.0;
    }
    (many as f64 / few.max(1) as f64).ln() / (FACTOR as f64).ln()
}

/// Takes the steps with each of these numbers of entities, and returns the system calls, and the blocks of code unless the plugin does not
/// run in valgrind.
fn steps_of(case: &Case, numbers: [usize; 3], is_long: bool) -> (Steps, Option<Steps>) {
    let define = |stripped: bool| {
        numbers.map(|number| {
            let root = disturb::configure(ScratchRoot::in_memory(), case.plugin).env("HOLO_FILES_RECORD", "1");
            let root = root.file("etc/os-release", "ID=debian\n").time_limit(Duration::from_secs(300));
            if stripped {
                strip(&root, case.plugin);
            }
            (case.define)(&root, number);
            root
        })
    };
    let (to_trace, to_execute) = (define(false), case.runs_in_valgrind.then(|| define(true)));
    let (mut calls, mut blocks) = (Steps::default(), Steps::default());
    for (index, (step, arguments)) in STEPS.into_iter().enumerate() {
        let arguments = if step == "check" { case.check } else { arguments };
        if step == "nothing to do" {
            // From then on, records of unchanged files are written, whatever the time that the first apply took.
            sleep(SETTLED_AFTER);
        }
        calls[index] = count(case, step, numbers, &to_trace, |root| system_calls(root, arguments));
        if let Some(roots) = to_execute.as_ref().filter(|_| is_long || is_executed(step)) {
            blocks[index] = count(case, step, numbers, roots, |root| executed_blocks(root, arguments));
        }
    }
    (calls, to_execute.map(|_| blocks))
}

/// Returns true if blocks of code are counted in this step in the short version, too: valgrind takes long, and the other steps execute much
/// the same code.
fn is_executed(step: &str) -> bool {
    step == "first apply" || is_complete()
}

/// Takes a step with each number of entities, and counts.
fn count(
    case: &Case,
    step: &str,
    numbers: [usize; 3],
    roots: &[ScratchRoot; 3],
    count: impl Fn(&ScratchRoot) -> (Run, u64),
) -> Counts {
    let mut numbers = numbers.iter();
    roots.each_ref().map(|root| {
        if step == "removal" {
            remove(root, case);
        }
        let (run, count) = count(root);
        let number = numbers.next();
        assert!(run.stderr.is_empty() || !case.settles, "{step} of {number:?}: {run}");
        let is_settled = ["nothing to do", "check", "diff"].contains(&step) && case.settles;
        assert!(!is_settled || run.success() && run.stdout.is_empty(), "{step} of {number:?}: {run}");
        count
    })
}

/// Lets the root's plugin be a copy of the program without debug information. valgrind would read it each time, which takes longer than
/// most plugins.
fn strip(root: &ScratchRoot, plugin: &str) {
    let (program, name) = (built(&format!("holo-{plugin}")), root.join(format!("plugin/holo-{plugin}")));
    let stripped = root.join("plugin/program");
    let run = root.run("strip", &["-o".as_ref(), stripped.as_os_str(), program.as_os_str()]);
    assert!(run.success(), "{run}");
    let wrapper = fs::read_to_string(&name).unwrap();
    root.write_script(
        format!("plugin/holo-{plugin}"),
        wrapper.replace(program.to_str().unwrap(), stripped.to_str().unwrap()),
    );
}

fn remove(root: &ScratchRoot, case: &Case) {
    let path = root.join(resource(case, case.definitions));
    if path.is_dir() {
        fs::remove_dir_all(&path).unwrap();
    } else {
        fs::remove_file(&path).unwrap();
    }
    fs::create_dir_all(root.join(resource(case, ""))).unwrap();
}

/// The system calls whose number depends on how fast the processes run: waits, reads of what another process has written so far, and
/// memory management.
const UNSTEADY: [&str; 17] = [
    "brk",
    "clock_nanosleep",
    "epoll_wait",
    "futex",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "poll",
    "ppoll",
    "read",
    "recvfrom",
    "restart_syscall",
    "rt_sigreturn",
    "sched_yield",
    "wait4",
    "waitid",
];

/// Runs holo, and counts the system calls of all processes, other than [`UNSTEADY`] ones.
fn system_calls(root: &ScratchRoot, arguments: &[&str]) -> (Run, u64) {
    let (log, holo) = (root.join("tmp/log"), built("holo"));
    let strace = ["-f", "-c", "-o", log.to_str().unwrap(), holo.to_str().unwrap()];
    let run = root.run("strace", &[&strace, arguments].concat());
    // Share, seconds, µs per call, calls, errors if there are any, name.
    let table = fs::read_to_string(log).unwrap();
    let count = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.last()?;
        if UNSTEADY.contains(name) || *name == "total" { None } else { words.get(3)?.parse::<u64>().ok() }
    };
    (run, table.lines().filter_map(count).sum())
}

/// Runs holo with the plugin in valgrind, and counts the blocks of code that the plugin executes.
fn executed_blocks(root: &ScratchRoot, arguments: &[&str]) -> (Run, u64) {
    let log = root.join("tmp/log");
    let into = format!("--log-file={}", log.display());
    // Most code is executed a few times only, so optimizing it takes longer than it saves.
    let quick = "--vex-iropt-level=0";
    let words = ["valgrind", "--tool=none", quick, "--stats=yes", "--child-silent-after-fork=yes", &into];
    let run = disturb::through(root, &words, arguments);
    let log = fs::read_to_string(log).unwrap();
    let count = log.lines().find_map(|line| line.split_once("scheduler: ")?.1.strip_suffix(" event checks."));
    (run, count.unwrap().replace(',', "").parse().unwrap())
}

/// Replaces the rows of a case in the section of the results.
fn keep(path: &Path, case: &Case, rows: &str) {
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = fs::read_to_string(path).unwrap_or_default();
    let (before, section) = text.split_once(SECTION).unwrap_or((&text, ""));
    let name = |row: &str| row.split(" | ").next().unwrap_or_default().trim_start_matches("| ").to_owned();
    let own = format!("{}: {}", case.plugin, case.name);
    let others = section.lines().filter(|row| row.starts_with("| ") && name(row) != own);
    let mut all: Vec<&str> = others.chain(rows.lines()).collect();
    all.sort_by_key(|row| CASES.iter().position(|case| format!("{}: {}", case.plugin, case.name) == name(row)));
    let rows: String = all.iter().map(|row| format!("{row}\n")).collect();
    fs::write(path, format!("{}\n\n{SECTION}\n{HEAD}{rows}", before.trim_end())).unwrap();
}

/// Returns the path of a resource file.
fn resource(case: &Case, name: &str) -> String {
    format!("usr/share/holo/{}/{name}", case.plugin)
}

/// Writes a definition file with one text per entity.
fn each(root: &ScratchRoot, plugin: &str, number: usize, text: impl Fn(usize) -> String) {
    root.write(format!("usr/share/holo/{plugin}/10.toml"), (0..number).map(text).collect::<String>());
}

/// Writes a file with one text per entity.
fn write_each(root: &ScratchRoot, path: &str, number: usize, text: impl Fn(usize) -> String) {
    root.write(path, (0..number).map(text).collect::<String>());
}

fn overlays(root: &ScratchRoot, number: usize) {
    for index in 0..number {
        root.write(format!("etc/app/{index}"), "stock\n");
        root.write(format!("usr/share/holo/files/20-x/etc/app/{index}"), "ours\n");
    }
}

/// Each layer patches the line of the one below it.
fn layers(root: &ScratchRoot, number: usize) {
    root.write("etc/app", "0\nend\n");
    for index in 0..number {
        let patch = format!("--- a\n+++ b\n@@ -1,2 +1,2 @@\n-{index}\n+{}\n end\n", index + 1);
        root.write(format!("usr/share/holo/files/{index:05}/etc/app.holopatch"), patch);
    }
}

/// Each patch changes another line.
fn patches(root: &ScratchRoot, number: usize) {
    write_each(root, "etc/app", number, |index| format!("line {index}\n"));
    for index in 0..number {
        let patch = format!("--- a\n+++ b\n@@ -{0} +{0} @@\n-line {index}\n+ours {index}\n", index + 1);
        root.write(format!("usr/share/holo/files/{index:05}/etc/app.holopatch"), patch);
    }
}

fn declared(root: &ScratchRoot, number: usize) {
    each(root, "files", number, |index| format!("[[file]]\npath = \"/etc/app/{index}\"\ncontent = \"{index}\"\n"));
}

fn acl(root: &ScratchRoot, number: usize) {
    // The same users each time: the name service reads the file for each name.
    write_each(root, "etc/passwd", 1000, |index| format!("u{index}:x:{}:0::/:\n", 1000 + index));
    root.write("etc/app", "");
    let entries: Vec<String> = (0..number).map(|index| format!("\"user:u{index}:r\"")).collect();
    let definition = format!("[[file]]\npath = \"/etc/app\"\ncontent = \"x\"\nacl = [{}]\n", entries.join(", "));
    root.write("usr/share/holo/files/10.toml", definition);
}

fn recursive(root: &ScratchRoot, number: usize) {
    for index in 0..number {
        root.write(format!("srv/app/{index}"), "");
    }
    root.write(
        "usr/share/holo/files/10.toml",
        "[[file]]\npath = \"/srv/app\"\nensure = \"directory\"\nmode = \"0700\"\nrecurse = true\n",
    );
}

fn lines(root: &ScratchRoot, number: usize) {
    write_each(root, "etc/app", number, |index| format!("#key{index} = 1\n"));
    each(root, "files", number, |index| {
        let line = format!("name = \"{index}\"\nline = \"key{index} = 2\"\nmatch = \"^#?key{index} =\"\n");
        format!("[[line]]\npath = \"/etc/app\"\n{line}")
    });
}

fn blocks(root: &ScratchRoot, number: usize) {
    write_each(root, "etc/app", number, |index| format!("line {index}\n"));
    each(root, "files", number, |index| {
        format!("[[block]]\npath = \"/etc/app\"\nname = \"{index}\"\ncontent = \"a\\nb\\n\"\n")
    });
}

/// Half of the values are in one section, the others in one section each.
fn values(root: &ScratchRoot, number: usize) {
    write_each(root, "etc/app", number, |index| format!("[section {index}]\nkey = 1\n"));
    each(root, "files", number, |index| {
        let (section, key) = if index % 2 == 0 { ("one".to_owned(), index) } else { (format!("section {index}"), 0) };
        format!("[[ini]]\npath = \"/etc/app\"\nsection = \"{section}\"\nkey = \"key{key}\"\nvalue = \"2\"\n")
    });
}

fn scaffold(root: &ScratchRoot, number: usize) {
    for index in 0..number {
        root.write(format!("usr/share/holo/scaffold/app/{index}"), "{{ data.name }}\n");
    }
    let definition =
        "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\npurge = true\n[scaffold.data]\nname = \"x\"\n";
    root.write("usr/share/holo/scaffold/10.toml", definition);
}

/// Returns a tar with these files.
fn tar(names: impl Iterator<Item = String>) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_ustar();
        header.set_size(name.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, &name, name.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

fn archive(root: &ScratchRoot, number: usize) {
    root.write("srv/app.tar", tar((0..number).map(|index| index.to_string())));
    let keys = "path = \"/srv/app.tar\"\nurl = \"file:///srv/app.tar\"\nextract_to = \"/srv/app\"\n";
    root.write("usr/share/holo/archives/10.toml", format!("[[archive]]\n{keys}"));
}

fn archives(root: &ScratchRoot, number: usize) {
    for index in 0..number {
        root.write(format!("srv/{index}.tar"), tar([format!("file{index}")].into_iter()));
    }
    each(root, "archives", number, |index| {
        let keys = format!("path = \"/srv/{index}.tar\"\nurl = \"file:///srv/{index}.tar\"\n");
        format!("[[archive]]\n{keys}extract_to = \"/srv/app/{index}\"\n")
    });
}

fn key(index: usize) -> String {
    format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA{index:042} {index}\n")
}

fn keys(root: &ScratchRoot, number: usize) {
    fs::create_dir_all(root.join("home/jane")).unwrap();
    write_each(root, "usr/share/holo/ssh-keys/jane/all.pub", number, key);
}

fn sets(root: &ScratchRoot, number: usize) {
    fs::create_dir_all(root.join("home/jane")).unwrap();
    for index in 0..number {
        root.write(format!("usr/share/holo/ssh-keys/jane/{index}.pub"), key(index));
    }
}

fn users(root: &ScratchRoot, number: usize) {
    let members: Vec<String> = (0..number).map(|index| format!("u{index}")).collect();
    root.write("etc/group", format!("crew:x:999:{}\n", members.join(",")));
    write_each(root, "etc/passwd", number, |index| format!("u{index}:x:{}:100::/:\n", 1000 + index));
    each(root, "users-groups", number, |index| format!("[[user]]\nname = \"u{index}\"\ngroups = [\"crew\"]\n"));
}

fn packages(root: &ScratchRoot, number: usize) {
    each(root, "packages", number, |index| format!("[[package]]\nname = \"p{index}\"\n"));
}

fn units(root: &ScratchRoot, number: usize) {
    for index in 0..number {
        let text = "[Service]\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n";
        root.write(format!("usr/lib/systemd/system/u{index}.service"), text);
    }
    each(root, "services", number, |index| format!("[[service]]\nname = \"u{index}\"\nenable = true\n"));
}

fn commands(root: &ScratchRoot, number: usize) {
    each(root, "exec", number, |index| {
        format!("[[exec]]\nname = \"{index}\"\ncommand = \"true\"\nunless_command = \"false\"\n")
    });
}

fn scripts(root: &ScratchRoot, number: usize) {
    for index in 0..number {
        root.write_script(format!("usr/share/holo/run-scripts/{index}"), "#!/bin/sh\n");
    }
}

fn promises(root: &ScratchRoot, number: usize) {
    const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/test-scenarios/promises/modules/keep_line.py");
    let module = "[[module]]\ntype = \"line\"\npath = \"keep_line.py\"\nrespects_root = true\n";
    root.write("usr/share/holo/promises/keep_line.py", fs::read(MODULE).unwrap());
    root.write("usr/share/holo/promises/05.toml", format!("{module}interpreter = [\"/usr/bin/env\", \"python3\"]\n"));
    each(root, "promises", number, |index| {
        let attributes = format!("attributes = {{ line = \"line {index}\" }}\n");
        format!("[[promise]]\ntype = \"line\"\npromiser = \"/etc/app\"\nname = \"{index}\"\n{attributes}")
    });
}

/// A provider whose resources always have the desired text.
const PROVIDER: &str = "#!/bin/bash\neval \"$@\"\n[ $ral_action != describe ] || exec printf 'provider: {type: row, invoke: simple, \
    suitable: true, attributes: {name: , text: }}'\nprintf '# simple\\nname: %s\\ntext: a\\n' \"$name\"\n";

fn resources(root: &ScratchRoot, number: usize) {
    root.write_script("usr/share/holo/ral/row.prov", PROVIDER);
    root.write("usr/share/holo/ral/05.toml", "[[provider]]\npath = \"row.prov\"\nrespects_root = true\n");
    each(root, "ral", number, |index| {
        format!("[[resource]]\ntype = \"row\"\nname = \"{index}\"\nattributes = {{ text = \"a\" }}\n")
    });
}
