//! Compares with CFEngine's agent: the same modules keep the same promises on copies of the same tree.

use crate::machine::{Ends, Machine, RESOURCES, module, promise};
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const NEEDS: &[Need] = &[Need::Program("cf-agent"), Need::Program("python3")];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("both keep the same promises, and say the same", NEEDS, same),
        trial_of("both only look where they are told to", NEEDS, only_look),
        trial_of("the agent lets an attribute into the next promise, and the plugin does not", NEEDS, leak),
        trial_of("the guide's policy and the guide's definitions do the same", NEEDS, guide),
    ]
}

/// A promise for both programs.
struct Promised {
    kind: &'static str,
    promiser: &'static str,
    /// Attributes in the agent's language and in TOML.
    policy: &'static str,
    toml: &'static str,
}

const fn promised(kind: &'static str, promiser: &'static str, policy: &'static str, toml: &'static str) -> Promised {
    Promised { kind, promiser, policy, toml }
}

/// The modules by promise type.
const MODULES: [(&str, &str); 5] = [
    ("line", "keep_line.py"),
    ("own", "own_lines.sh"),
    ("mode", "look_first.py"),
    ("upper", "two_types.py"),
    ("lower", "two_types.py"),
];

/// CFEngine's agent with its own root and work directory.
struct Agent {
    root: ScratchRoot,
}

impl Agent {
    /// Creates a root with these files in `etc/`, and a work directory for the agent.
    fn new(files: &[(&str, &str)]) -> Agent {
        let root = ScratchRoot::new();
        for folder in ["inputs", "state", "ppkeys", "outputs", "modules"] {
            let path = root.join("work").join(folder);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        for (name, text) in files {
            root.write(format!("etc/{name}"), text);
        }
        // The agent looks up its programs there.
        std::os::unix::fs::symlink("/usr/bin", root.join("work/bin")).unwrap();
        let work = root.join("work");
        Agent { root: root.env("CFENGINE_TEST_OVERRIDE_WORKDIR", work) }
    }

    /// Runs a policy, and returns the agent's output.
    fn run(&self, policy: &str) -> String {
        self.root.write("policy.cf", policy);
        fs::set_permissions(self.root.join("policy.cf"), fs::Permissions::from_mode(0o600)).unwrap();
        let policy = self.root.join("policy.cf").display().to_string();
        let run = self.root.run("cf-agent", &["-KI", "-f", &policy]);
        assert!(run.success(), "{run}");
        format!("{}{}", run.stdout_lossy(), run.stderr_lossy())
    }
}

fn policy(promises: &[Promised], modules: &Path) -> String {
    let mut text = "body common control { bundlesequence => { \"main\" }; }\n\
         body action policy(p) { action_policy => \"$(p)\"; }\n\
         body classes ends(p) { promise_kept => { \"$(p)_kept\" }; promise_repaired => { \"$(p)_repaired\" }; \
         repair_failed => { \"$(p)_failed\" }; }\n"
        .to_owned();
    for (kind, file) in MODULES {
        let interpreter = if file.ends_with(".py") { "interpreter => \"/usr/bin/python3\"; " } else { "" };
        text += &format!("promise agent {kind} {{ {interpreter}path => \"{}/{file}\"; }}\n", modules.display());
    }
    text += "bundle agent main\n{\n";
    for (number, promised) in promises.iter().enumerate() {
        let Promised { kind, promiser, policy, .. } = promised;
        text += &format!("  {kind}:\n    \"{promiser}\" {policy}, classes => ends(\"p{number}\");\n");
    }
    text += "  reports:\n";
    for number in 0..promises.len() {
        for end in ["kept", "repaired", "failed"] {
            text += &format!("    p{number}_{end}::\n      \"p{number} {end}\";\n");
        }
    }
    text + "}\n"
}

fn definitions(promises: &[Promised]) -> String {
    let declared = MODULES.iter().map(|(kind, file)| module(kind, file));
    let defined = promises.iter().enumerate().map(|(number, Promised { kind, promiser, toml, .. })| {
        promise(kind, promiser, &format!("name = \"{number}\"\n{toml}"))
    });
    declared.chain(defined).collect()
}

/// Returns the sorted messages about changes and errors, without the locations of definitions.
fn told_by_agent(said: &str) -> Vec<String> {
    let lines = said.lines().map(str::trim);
    let texts = lines.filter_map(|line| {
        let (level, text) = line.split_once(": ")?;
        ["info", "error", "warning", "notice", "CRITICAL"].contains(&level).then(|| without_place(text))
    });
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

fn told_by_plugin(ends: &Ends, promises: &[Promised]) -> Vec<String> {
    let mut texts = Vec::new();
    for (number, Promised { kind, .. }) in promises.iter().enumerate() {
        let end = ends.of(&format!("{kind}:{number}"));
        texts.extend(end.changes);
        let marked = end.stderr.lines().filter_map(|line| line.strip_prefix("!! ").or(line.strip_prefix(">> ")));
        texts.extend(marked.map(without_place));
    }
    texts.sort();
    texts
}

fn without_place(text: &str) -> String {
    text.split_once(" (/").map_or(text, |(before, _)| before).to_owned()
}

fn results_of_agent(said: &str, count: usize) -> Vec<&'static str> {
    let result = |number: usize| {
        let has = |end: &str| said.lines().any(|line| line == format!("R: p{number} {end}"));
        match (has("repaired"), has("failed"), has("kept")) {
            (true, false, false) => "changed",
            (false, true, false) => "failed",
            (false, false, true) => "unchanged",
            _ => "something odd",
        }
    };
    (0..count).map(result).collect()
}

fn results_of_plugin(ends: &Ends, promises: &[Promised]) -> Vec<String> {
    let ids = promises.iter().enumerate().map(|(number, Promised { kind, .. })| format!("{kind}:{number}"));
    ids.map(|id| ends.result(&id)).collect()
}

/// Returns the files in `etc/` with their modes, except for those of the plugin.
fn files(root: &ScratchRoot) -> BTreeMap<String, (String, u32)> {
    let entries = fs::read_dir(root.join("etc")).unwrap().map(|entry| entry.unwrap());
    let ours = entries.filter(|entry| entry.file_name() != "holorc");
    ours.map(|entry| {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
        (entry.file_name().into_string().unwrap(), (fs::read_to_string(entry.path()).unwrap(), mode))
    })
    .collect()
}

fn same() {
    let promises = [
        promised("line", "/etc/new", "line => \"a b=c\"", "attributes = { line = \"a b=c\" }"),
        promised("line", "/etc/old", "line => \"one\"", "attributes = { line = \"one\" }"),
        promised(
            "line",
            "/etc/old",
            "line => \"two\", absent => \"true\"",
            "attributes = { line = \"two\", absent = true }",
        ),
        promised("line", "/etc/old", "line => { \"a\", \"b\" }", "attributes = { line = [\"a\", \"b\"] }"),
        promised("line", "relative", "line => \"x\"", "attributes = { line = \"x\" }"),
        promised("line", "/nowhere/x", "line => \"x\"", "attributes = { line = \"x\" }"),
        promised("line", "/etc/new", "bogus => \"x\", line => \"y\"", "attributes = { line = \"y\", bogus = \"x\" }"),
        promised("line", "/etc/new", "line => \"quotes ' and ü\"", "attributes = { line = \"quotes ' and ü\" }"),
        promised("own", "/etc/own", "text => \"a=b n\"", "attributes = { text = \"a=b n\" }"),
        promised(
            "own",
            "/etc/own2",
            "text => \"x $ y ' z\", end => \"\"",
            "attributes = { text = \"x $ y ' z\", end = \"\" }",
        ),
        promised("own", "relative", "text => \"x\", end => \"\"", "attributes = { text = \"x\", end = \"\" }"),
        promised("mode", "/etc/old", "mode => \"640\"", "attributes = { mode = \"640\" }"),
        promised("mode", "/etc/none", "mode => \"640\"", "attributes = { mode = \"640\" }"),
    ];
    let tree = [("old", "one\ntwo\nthree\n")];
    let (agent, machine) = (Agent::new(&tree), Machine::new(&definitions(&promises)));
    tree.iter().for_each(|(name, text)| machine.root.write(format!("etc/{name}"), text));
    let modules = machine.root.join(format!("{RESOURCES}/modules"));
    for round in 0..2 {
        let said = agent.run(&policy(&promises, &modules));
        let ends = machine.apply();
        assert_eq!(results_of_plugin(&ends, &promises), results_of_agent(&said, promises.len()), "{round}: {said}");
        assert_eq!(told_by_plugin(&ends, &promises), told_by_agent(&said), "{round}: {said}\n{}", ends.run);
        assert_eq!(files(&machine.root), files(&agent.root), "{round}");
    }
    assert_eq!(machine.root.read("etc/old"), "one\nthree\n");
}

fn only_look() {
    let promises = [
        promised(
            "mode",
            "/etc/a",
            "mode => \"600\", action => policy(\"warn\")",
            "attributes = { mode = \"600\" }\naction_policy = \"warn\"",
        ),
        promised(
            "mode",
            "/etc/a",
            "mode => \"644\", action => policy(\"warn\")",
            "attributes = { mode = \"644\" }\naction_policy = \"warn\"",
        ),
        promised(
            "line",
            "/etc/a",
            "line => \"x\", action => policy(\"warn\")",
            "attributes = { line = \"x\" }\naction_policy = \"warn\"",
        ),
    ];
    let tree = [("a", "a\n")];
    let (agent, machine) = (Agent::new(&tree), Machine::new(&definitions(&promises)));
    machine.root.write("etc/a", "a\n");
    let said = agent.run(&policy(&promises, &machine.root.join(format!("{RESOURCES}/modules"))));
    let ends = machine.apply();
    // Here, the end of the sentence is a separate error.
    let change = "Should change mode of '/etc/a' from 644 to 600";
    assert!(said.contains(&format!("warning: {change}, but only warnings promised")), "{said}");
    assert_eq!(ends.of("mode:0").stderr, format!(">> {change}\n!! only warnings are promised\n"));
    assert!(said.contains("doesn't support action_policy"), "{said}");
    assert!(ends.of("line:2").stderr.contains("cannot only look (no action_policy)"));
    assert_eq!(results_of_plugin(&ends, &promises), ["failed", "unchanged", "failed"]);
    assert!(said.contains("R: p1 kept"), "{said}");
    assert_eq!(files(&machine.root), files(&agent.root));
}

fn leak() {
    let promises = [
        promised("own", "/etc/a", "text => \"a\", end => \"!\"", "attributes = { text = \"a\", end = \"!\" }"),
        promised("own", "/etc/b", "text => \"b\"", "attributes = { text = \"b\" }"),
    ];
    let (agent, machine) = (Agent::new(&[]), Machine::new(&definitions(&promises)));
    agent.run(&policy(&promises, &machine.root.join(format!("{RESOURCES}/modules"))));
    assert!(machine.apply().run.success());
    assert_eq!((agent.root.read("etc/a"), agent.root.read("etc/b")), ("a!\n".into(), "b!\n".into()));
    assert_eq!((machine.root.read("etc/a"), machine.root.read("etc/b")), ("a!\n".into(), "b\n".into()));
}

/// Returns the code blocks of the guide by their language.
fn blocks() -> BTreeMap<String, String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/from-cfengine.md");
    let text = fs::read_to_string(guide).unwrap();
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.filter_map(|block| block.split_once('\n').map(|(word, text)| (word.to_owned(), text.to_owned()))).collect()
}

fn guide() {
    let blocks = blocks();
    // In the guide, modules are where packages install them.
    let machine = Machine::new(&blocks["toml"].replace("/usr/lib/holo/promises/", &format!("/{RESOURCES}/modules/")));
    let modules = machine.root.join(format!("{RESOURCES}/modules")).display().to_string();
    let policy = blocks["cfengine3"].replace("/var/cfengine/inputs/modules/promises/", &format!("{modules}/"));
    let tree = [("hosts", "127.0.0.1 localhost\n10.0.0.1 old\n"), ("secret", "hush\n")];
    let agent = Agent::new(&tree);
    tree.iter().for_each(|(name, text)| machine.root.write(format!("etc/{name}"), text));
    let said = agent.run(&policy);
    let ends = machine.apply();
    assert!(ends.run.success() && !said.contains("error"), "{said}\n{}", ends.run);
    assert_eq!(told_by_agent(&said).len(), 3, "{said}");
    assert_eq!(files(&machine.root), files(&agent.root));
    assert_ne!(files(&machine.root)["hosts"].0, tree[0].1);
    // Neither has further changes to make.
    assert_eq!(told_by_agent(&agent.run(&policy)), [""; 0]);
    let again = machine.apply();
    let results = ["line:database", "line:old", "mode:/etc/secret"].map(|id| again.result(id));
    assert_eq!(results, ["unchanged"; 3]);
}
