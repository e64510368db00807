//! Mutated inputs for everything that the dispatcher and plugins parse: no input causes a panic, or needs much time or
//! memory. `CONTRIBUTING.md` describes how to fuzz for longer.

use holo_diff::{Labels, Patch, PatchedText, merge};
use holo_protocol::session::Answer;
use holo_protocol::{
    API_VERSION_3, API_VERSION_4, Diagnosis, EntityReport, FilePair, Health, Info, Message, Progress, Span,
};
use holo_testing::fuzz::Target;
use holo_testing::{Random, ScratchRoot, binaries::built};
use libtest_mimic::{Failed, Trial};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The plugins with definitions, and the words that occur in them.
const PLUGINS: [&str; 10] =
    ["ansible", "archives", "exec", "files", "packages", "promises", "ral", "scaffold", "services", "users-groups"];
const TOML: [&str; 22] = [
    "[[",
    "]]",
    "[",
    "]",
    "{",
    "}",
    "=",
    "\"",
    "'''",
    "\\u0000",
    ",",
    ".",
    "#",
    "true",
    "name = ",
    "requires = ",
    "template = true",
    "receive = ",
    "retries = ",
    "health_check = ",
    "{{",
    "2026-11-27",
];
/// Keys that definitions have in common, and texts that are unusual values.
const KEYS: [&str; 12] = [
    "name",
    "path",
    "ensure",
    "requires",
    "before",
    "after",
    "only_if",
    "foreach",
    "receive",
    "template",
    "sensitive",
    "x",
];
const TEXTS: [&str; 16] = [
    "",
    "/",
    "/etc/x",
    "../..",
    "/etc/../x",
    "*",
    "\0",
    "\n",
    "\u{1b}[2J",
    "{{ data.x }}",
    "{{",
    "file:/etc/x",
    "é",
    "-1",
    "99999999999999999999s",
    "(",
];
/// The directories that a root has afterwards.
const FOLDERS: [&str; 10] = ["etc", "home", "opt", "root", "run", "srv", "tmp", "usr", "var", "proc"];
/// The number of files that a plugin reads at once.
const TOGETHER: u64 = 50;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![scan_reports, answers, messages, patches, configuration];
    trials
        .extend(PLUGINS.map(|plugin| Trial::test(format!("definitions/{plugin}"), move || read(&definitions(plugin)))));
    trials.push(Trial::test("keys", || read(&keys())));
    trials.push(Trial::test("edits", || read(&edits())));
    trials.push(Trial::test("extraction", || read(&extraction())));
    trials
}

/// The number of inputs for a parser, and for a program.
const PARSED: u64 = 5000;
const READ: u64 = TOGETHER * 3;

fn target(name: &str) -> Target<'static> {
    Target::new(env!("CARGO_MANIFEST_DIR"), name).inputs(PARSED)
}

fn scan_reports() {
    let words = ["ENTITY: ", "NEEDS: ", "LIMIT: ", "POLL: ", "ACTION: ", ": ", "\n", "RECEIVES: ", "#", "("];
    target("reports").words(&words).run(|input| {
        for version in [API_VERSION_3, API_VERSION_4] {
            drop(EntityReport::parse_all(input, version));
        }
    });
}

fn answers() {
    let words =
        ["\"answer\":", "\"request\":", "\"entity\":", "[[[[[[[[", "{\"a\":", "\\ud800", "\"text\":", ",", "255,"];
    target("answers").words(&words).run(|input| drop(serde_json::from_slice::<Answer>(input)));
}

fn messages() {
    let words = ["send ", "keep ", "replaced ", "progress: ", "changed: ", "\t", "/", "MIN_API_VERSION="];
    target("messages").words(&words).run(|input| {
        for line in input.split(|&byte| byte == b'\n') {
            drop(Message::parse(line, API_VERSION_4));
            drop(Diagnosis::parse(line));
            drop(Span::parse(line));
            drop(Health::parse(line));
            drop(FilePair::parse(line, API_VERSION_4));
            let _ = Progress::parse(&String::from_utf8_lossy(line));
        }
        drop(Info::parse(input));
    });
}

fn patches() {
    let words = ["@@ -1,2 +1,3 @@\n", "+", "-", " ", "\n", "--- a\n", "+++ b\n", "\\ No newline at end of file\n"];
    target("patches").words(&words).run(|input| {
        let half = input.get(..input.len() / 2).unwrap_or_default();
        if let Ok(patch) = Patch::parse(input) {
            drop(patch.apply(half));
            drop(PatchedText::new(half).apply_exactly(&patch.reversed()));
        }
        drop(merge(half, input, b"a\nb\n", Labels { one: "1", base: "2", other: "3" }));
    });
}

/// holorc, and a snippet.
fn configuration() {
    let root = ScratchRoot::new().file("etc/holorc.d/x", "");
    target("holorc").words(&["plugin ", "=", "#", "\n", "../", "\t"]).inputs(1000).run(|input| {
        root.write("etc/holorc", input);
        drop(holo::host::config::read(&holo::host::root::Root::new(Some(root.path().into()))));
    });
}

/// Returns the TOML files in all scenarios of a plugin.
fn scenario_files(plugin: &str) -> Vec<String> {
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("test-scenarios").join(plugin);
    let mut trees: Vec<PathBuf> =
        fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path().join("source-tree")).collect();
    trees.sort();
    let trees = trees.iter().filter_map(|tree| fs::read_to_string(tree).ok());
    let files = trees.flat_map(|tree| tree.split("\n----").map(ToOwned::to_owned).collect::<Vec<_>>());
    let toml = files.filter_map(|file| Some(file.split_once(".toml\n")?.1.to_owned()));
    toml.collect()
}

/// Removes, copies or replaces a value of a TOML document.
fn mutated_toml(input: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(input).ok()?;
    let mut document = toml::Value::Table(text.parse().ok()?);
    let donor = random_value(&mut document, random).clone();
    let value = random_value(&mut document, random);
    match (value, random.below(5)) {
        (toml::Value::Table(table), 0 | 1) => {
            let keys: Vec<String> = table.keys().cloned().collect();
            if !keys.is_empty() {
                table.remove(random.pick(&keys));
            }
        }
        (toml::Value::Table(table), 2) => {
            table.insert((*random.pick(&KEYS)).to_owned(), donor);
        }
        (toml::Value::Array(list), 0 | 1) => {
            let copies = random.below(40);
            list.extend(std::iter::repeat_n(donor, copies));
        }
        (toml::Value::String(text), 0) => *text = text.repeat(random.below(300)),
        (toml::Value::String(text), 1) => text.push_str(random.pick::<&str>(&TEXTS)),
        (value, 3) => *value = toml::Value::String((*random.pick(&TEXTS)).to_owned()),
        (value, 4) => *value = random.pick(&[i64::MIN, -1, 0, 1, 1 << 40, i64::MAX]).to_owned().into(),
        (value, _) => *value = donor,
    }
    toml::to_string(&document).ok().map(String::into_bytes)
}

/// Returns a value in a document, or the document itself.
fn random_value<'a>(value: &'a mut toml::Value, random: &mut Random) -> &'a mut toml::Value {
    if random.chance(15) {
        return value;
    }
    let inner = match value {
        toml::Value::Table(table) => table.len(),
        toml::Value::Array(list) => list.len(),
        _ => 0,
    };
    if inner == 0 {
        return value;
    }
    let at = random.below(inner);
    let inner = match value {
        toml::Value::Table(table) => table.iter_mut().nth(at).map(|(_, inner)| inner),
        toml::Value::Array(list) => list.get_mut(at),
        _ => None,
    };
    random_value(inner.unwrap(), random)
}

/// Files of which one is mutated, and what reads them.
struct Subject {
    plugin: &'static str,
    target: Target<'static>,
    file: File,
    /// A verb for a single file, in addition to a scan of many.
    verb: Option<&'static str>,
}

/// The mutated file.
enum File {
    /// One of many in a folder, with this suffix.
    Resource(String, &'static str),
    /// The file that a definition concerns.
    Only { path: &'static str, definition: &'static str },
}

fn definitions(plugin: &'static str) -> Subject {
    let seeds = scenario_files(plugin);
    let target =
        seeds.into_iter().fold(target("definitions"), Target::seed).words(&TOML).mutate(mutated_toml).inputs(READ);
    // A mutated command must not be run, and the other plugins run some for a check.
    let verb = ["packages", "services", "users-groups"].contains(&plugin).then_some("check");
    Subject { plugin, target, file: File::Resource(format!("usr/share/holo/{plugin}"), ".toml"), verb }
}

fn keys() -> Subject {
    const WORDS: [&str; 8] = ["ssh-ed25519 ", "holo=ssh-keyset:jane/1", "\n", "#", ",", "restrict", "=\"", "\\"];
    let file = File::Resource("usr/share/holo/ssh-keys/jane".to_owned(), ".pub");
    Subject { plugin: "ssh-keys", target: target("keys").words(&WORDS).inputs(READ), file, verb: Some("apply") }
}

fn edits() -> Subject {
    const WORDS: [&str; 6] = ["[s]\n", "k = v\n", "abc\n", "\r\n", "# BEGIN ", "# END "];
    let file = File::Only { path: "etc/x", definition: EDITS };
    Subject { plugin: "files", target: target("edits").words(&WORDS).inputs(READ), file, verb: Some("apply") }
}

fn extraction() -> Subject {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins/archives");
    let target = Target::new(manifest.to_str().unwrap(), "archives").inputs(READ);
    let file = File::Only { path: "srv/x", definition: ARCHIVE };
    Subject { plugin: "archives", target, file, verb: Some("apply") }
}

const EDITS: &str = "[[line]]\npath = \"/etc/x\"\nmatch = \"^a\"\nline = \"abc\"\ninsert_after = \"b\"\n\
                     [[block]]\npath = \"/etc/x\"\ncontent = \"1\\n2\\n\"\n\
                     [[ini]]\npath = \"/etc/x\"\nsection = \"s\"\nkey = \"k\"\nvalue = \"v\"\n";
const ARCHIVE: &str = "[[archive]]\npath = \"/srv/y\"\nurl = \"file:///srv/x\"\nextract_to = \"/opt/x\"\n";

/// Runs the dispatcher with mutated files.
fn read(Subject { plugin, target, file, verb }: &Subject) -> Result<(), Failed> {
    let root = ScratchRoot::new()
        .plugin(plugin)
        .file("etc/os-release", "ID=debian\n")
        .file("etc/passwd", "root:x:0:0::/root:/bin/sh\njane:x:0:0::/home/jane:/bin/sh\n")
        .dir("home/jane")
        .time_limit(Duration::from_secs(60));
    let is_resource = matches!(file, File::Resource(..));
    if let File::Only { definition, .. } = file {
        root.write(format!("usr/share/holo/{plugin}/x.toml"), definition);
    }
    let run = |verb: &str, numbers: std::ops::Range<u64>| {
        if let File::Resource(folder, _) = file {
            drop(fs::remove_dir_all(root.join(folder)));
        }
        for number in numbers {
            let path = match file {
                File::Resource(folder, suffix) => format!("{folder}/{number}{suffix}"),
                File::Only { path, .. } => (*path).to_owned(),
            };
            root.write(path, target.input(number));
        }
        let command = format!("ulimit -v 1500000; exec {} {verb}", built("holo").display());
        root.run("sh", &["-c", &command])
    };
    let is_good = |run: &holo_testing::Run| {
        let said = run.stderr_lossy();
        run.status.is_some_and(|status| status < 128)
            && !["panicked", "ended by", "overflow"].iter().any(|bad| said.contains(bad))
    };
    let fail = |number: Option<u64>, run: &holo_testing::Run| {
        let keep = |number| target.keep(&target.input(number), "makes a plugin fail");
        let kept = number.map(keep).unwrap_or_default();
        Err(format!("{kept}\n{run}").into())
    };
    let mut is_accepted = false;
    for number in target.numbers() {
        if is_resource && number % TOGETHER == 0 {
            let scan = run("scan", number..number + TOGETHER);
            if !is_good(&scan) {
                let is_bad = |&number: &u64| !is_good(&run("scan", number..number + 1));
                return fail((number..number + TOGETHER).find(is_bad), &scan);
            }
            // Most of these files define the same entities, and so contradict each other.
            let is_read = !scan.stdout.trim_ascii().is_empty() || scan.stderr_lossy().contains(&format!("/{plugin}/"));
            assert!(is_read, "the plugin should read the files: {scan}");
        }
        if let Some(verb) = verb {
            let run = run(verb, number..number + 1);
            if !is_good(&run) {
                return fail(Some(number), &run);
            }
            is_accepted |= run.success();
        }
    }
    assert!(is_accepted || verb.is_none(), "there should be valid inputs");
    let mut folders: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    folders.sort();
    assert!(folders.iter().all(|name| FOLDERS.iter().any(|known| name == known)), "{folders:?}");
    Ok(())
}
