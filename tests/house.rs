//! Rules for the repository that no compiler checks: dependencies, and completeness.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(repository().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

/// Returns the crates in a section of a manifest.
fn dependencies(manifest: &str, section: &str) -> Vec<String> {
    let text = read(manifest);
    let section = text.split(&format!("\n[{section}]\n")).nth(1).unwrap_or_default().split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split(['.', ' ']).next()).filter(|name| !name.is_empty());
    names.filter(|name| !name.starts_with('#')).map(str::to_owned).collect()
}

/// Returns the crates of the workspace that a manifest depends on, without dev-dependencies.
fn depends_on(manifest: &str) -> BTreeSet<String> {
    dependencies(manifest, "dependencies").into_iter().filter(|name| name.starts_with("holo-")).collect()
}

/// Returns the directories of all crates, starting with the dispatcher's.
fn crates() -> Vec<String> {
    let below = |folder: &str| names(folder).into_iter().map(|name| format!("{folder}/{name}")).collect::<Vec<_>>();
    [[".", "agent", "build", "fleet", "secret"].map(str::to_owned).to_vec(), below("crates"), below("plugins")].concat()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn dependencies_point_one_way() {
    assert_eq!(
        depends_on("Cargo.toml"),
        set(&[
            "holo-change",
            "holo-definitions",
            "holo-diff",
            "holo-events",
            "holo-facts",
            "holo-index",
            "holo-process",
            "holo-protocol",
            "holo-schedule",
            "holo-state",
            "holo-system",
            "holo-testing"
        ])
    );
    assert_eq!(depends_on("crates/holo-protocol/Cargo.toml"), set(&[]));
    assert_eq!(depends_on("crates/holo-testing/Cargo.toml"), set(&["holo-process", "holo-state"]));
    assert_eq!(depends_on("crates/holo-process/Cargo.toml"), set(&["holo-protocol"]));
    assert_eq!(depends_on("crates/holo-system/Cargo.toml"), set(&["holo-process"]));
    assert_eq!(depends_on("crates/holo-definitions/Cargo.toml"), set(&["holo-protocol", "holo-system"]));
    assert_eq!(depends_on("crates/holo-facts/Cargo.toml"), set(&["holo-definitions", "holo-process", "holo-system"]));
    assert_eq!(depends_on("crates/holo-change/Cargo.toml"), set(&["holo-protocol", "holo-state"]));
    assert_eq!(depends_on("crates/holo-events/Cargo.toml"), set(&["holo-protocol"]));
    assert_eq!(depends_on("crates/holo-schedule/Cargo.toml"), set(&["holo-protocol"]));
    assert_eq!(depends_on("crates/holo-state/Cargo.toml"), set(&["holo-protocol"]));
    assert_eq!(depends_on("crates/holo-index/Cargo.toml"), set(&[]));
    assert_eq!(depends_on("crates/holo-metrics/Cargo.toml"), set(&[]));
    assert_eq!(depends_on("crates/holo-diff/Cargo.toml"), set(&["holo-index"]));
    assert_eq!(depends_on("secret/Cargo.toml"), set(&["holo-process", "holo-system"]));
    assert_eq!(depends_on("crates/holo-check/Cargo.toml"), set(&["holo-definitions", "holo-process"]));
    assert_eq!(
        depends_on("fleet/Cargo.toml"),
        set(&[
            "holo-change",
            "holo-check",
            "holo-definitions",
            "holo-facts",
            "holo-metrics",
            "holo-process",
            "holo-system"
        ]),
        "it runs the dispatcher, and installs bundles with the engine for changes on disk"
    );
    let agent = depends_on("agent/Cargo.toml");
    assert_eq!(
        agent,
        set(&["holo-definitions", "holo-events", "holo-metrics", "holo-process", "holo-schedule", "holo-system"]),
        "it runs the dispatcher, and links nothing of it"
    );
    assert_eq!(
        depends_on("build/Cargo.toml"),
        set(&["holo-check", "holo-definitions", "holo-process", "holo-system", "holo-users-groups"]),
        "it checks users and groups as their plugin does, and runs the dispatcher"
    );
    let sdk = [
        "holo-change",
        "holo-definitions",
        "holo-diff",
        "holo-facts",
        "holo-index",
        "holo-process",
        "holo-protocol",
        "holo-system",
    ];
    let sdk = set(&sdk);
    assert_eq!(depends_on("crates/holo-plugin/Cargo.toml"), sdk);
    assert_eq!(depends_on("crates/holo-bridge/Cargo.toml"), set(&["holo-change", "holo-plugin"]));
    assert_eq!(depends_on("crates/holo-download/Cargo.toml"), set(&["holo-change", "holo-plugin"]));
    assert_eq!(depends_on("crates/holo-probe/Cargo.toml"), set(&["holo-download", "holo-process"]));
    for plugin in names("plugins") {
        let manifest = format!("plugins/{plugin}/Cargo.toml");
        // Bridges to other systems share additional crates, and so do plugins that download files.
        let mut expected = set(&["holo-change", "holo-plugin"]);
        let shared = set(&["holo-bridge", "holo-download"]);
        expected.extend(depends_on(&manifest).intersection(&shared).cloned());
        assert_eq!(depends_on(&manifest), expected, "{plugin}");
    }
}

#[test]
fn every_dependency_is_used() {
    for folder in crates() {
        let manifest = format!("{folder}/Cargo.toml");
        let sources = |folders: &[&str]| -> Vec<PathBuf> {
            let mut files = Vec::new();
            folders.iter().for_each(|name| collect(&repository().join(&folder).join(name), &mut files));
            files
        };
        let all: String = sources(&["src", "tests", "benches"]).iter().map(read).collect();
        let program = without_tests(&sources(&["src"]));
        for (section, text) in [("dependencies", &program), ("dev-dependencies", &all)] {
            for name in dependencies(&manifest, section) {
                let name = name.replace('-', "_");
                let is_named = text.match_indices(&format!("{name}::")).any(|(index, _)| {
                    !text[..index].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
                });
                let is_used = is_named || text.contains(&format!("use {name} as "));
                assert!(is_used, "{manifest}: nothing uses {name} of [{section}]");
            }
        }
    }
}

/// Returns the text of sources without unit tests, which are modules in the same or in separate files.
fn without_tests(files: &[PathBuf]) -> String {
    let (mut texts, mut tests) = (Vec::new(), Vec::new());
    for file in files {
        let content = read(file);
        // An indented attribute applies to a statement, which counts as code.
        let mut parts = content.split("\n#[cfg(test)]\n");
        let mut text = parts.next().unwrap().to_owned();
        for part in parts {
            let item = part.lines().find(|line| line.starts_with(char::is_lowercase)).unwrap();
            if let Some(name) = item.strip_prefix("mod ").and_then(|item| item.strip_suffix(';')) {
                let is_top = file.ends_with("src/lib.rs");
                let folder = if is_top { file.with_file_name("") } else { file.with_extension("") };
                tests.extend([folder.join(name), folder.join(format!("{name}.rs"))]);
            }
            let end = if item.ends_with(';') { item } else { "\n}\n" };
            text += part.split_once(end).unwrap().1;
        }
        texts.push((file, text));
    }
    texts.retain(|(file, _)| !tests.iter().any(|test| file.starts_with(test)));
    texts.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn integration_tests_are_one_binary_a_crate() {
    for folder in crates() {
        if !repository().join(&folder).join("tests").exists() {
            continue;
        }
        // The tests of the root package that only read sources need no built binaries.
        let expected = if folder == "." { set(&["architecture.rs", "house.rs", "it"]) } else { set(&["it"]) };
        assert_eq!(names(&format!("{folder}/tests")), expected, "{folder}");
    }
}

#[test]
fn every_plugin_has_what_belongs_to_it() {
    let (pages, snippets, scenarios) = (names("man"), names("holorc.d"), names("test-scenarios"));
    for plugin in names("plugins") {
        assert!(pages.contains(&format!("holo-{plugin}.8")), "no man page for {plugin}");
        assert!(snippets.iter().any(|name| name.ends_with(&format!("-{plugin}"))), "no snippet for {plugin}");
        assert!(scenarios.contains(&plugin), "no scenarios for {plugin}");
        assert_eq!(
            read(format!("holorc.d/{}", snippet(&snippets, &plugin))).lines().last(),
            Some(&*format!("plugin {plugin}"))
        );
    }
}

#[test]
fn a_plugins_program_is_one_call_of_its_library() {
    for plugin in names("plugins") {
        let main = read(format!("plugins/{plugin}/src/main.rs"));
        let library = format!("holo_{}", plugin.replace('-', "_"));
        let expected = format!(
            "//! The program of the plugin `{plugin}`.\n\n\
             fn main() -> std::process::ExitCode {{\n    {library}::run()\n}}\n"
        );
        assert_eq!(main, expected, "{plugin}");
    }
}

#[test]
fn every_crate_says_what_it_is() {
    for folder in ["crates", "plugins"] {
        for name in names(folder) {
            let readme = read(format!("{folder}/{name}/README.md"));
            let title = readme.lines().next().unwrap_or_default();
            assert!(title.starts_with("# holo-") && title.ends_with(&name), "{folder}/{name}/README.md: {title}");
            assert!(read(format!("{folder}/{name}/Cargo.toml")).contains("\ndescription = "), "{folder}/{name}");
        }
    }
}

fn snippet<'a>(snippets: &'a BTreeSet<String>, plugin: &str) -> &'a str {
    snippets.iter().find(|name| name.ends_with(&format!("-{plugin}"))).unwrap()
}

#[test]
fn the_man_pages_name_every_option() {
    let overview = read("man/holo.8");
    let command = <holo::cli::Cli as clap::CommandFactory>::command();
    for verb in command.get_subcommands() {
        let name = verb.get_name();
        let file = holo::cli::manual_page(name).unwrap_or_else(|| panic!("{name} has no manual page"));
        let page = read(format!("man/{file}")).replace("\\-", "-");
        assert!(overview.contains(&format!("\n.It Cm {name}")), "holo.8 does not list {name}");
        assert!(page.contains(&format!(".Cm {name}")), "{file} does not name {name}");
        let options = [verb].into_iter().chain(verb.get_subcommands()).flat_map(clap::Command::get_arguments);
        for long in options.filter_map(clap::Arg::get_long).filter(|long| *long != "help") {
            assert!(page.contains(&format!("Fl -{long}")), "{file} does not name --{long} of {name}");
        }
    }
}

#[test]
fn man_pages_begin_alike_and_have_examples() {
    for page in names("man") {
        let text = read(format!("man/{page}"));
        let (name, section) = page.rsplit_once('.').unwrap();
        // Without the second line, groff shows "BSD" in the header.
        let title = format!(
            "\n.ds doc-volume-operating-system Holo\n.Dt {} {section}\n.Os Holo 4\n.Sh NAME\n.Nm {name}\n",
            name.to_uppercase()
        );
        assert!(text.starts_with(".Dd ") && text.contains(&title), "{page}");
        assert!(text.contains("\n.Sh EXAMPLES\n"), "{page} has no examples");
    }
}

#[test]
fn every_man_page_is_referred_to() {
    let all: String = names("man").iter().map(|page| read(format!("man/{page}"))).collect();
    for page in names("man") {
        let (name, section) = page.rsplit_once('.').unwrap();
        assert!(all.contains(&format!(".Xr {name} {section}")), "no page refers to {page}");
        assert!(
            read("docs/reference.md").contains(&format!("man/{page}")),
            "docs/reference.md does not refer to {page}"
        );
        assert!(
            read("packaging/contents").contains(&format!(" man/{page} ")),
            "packaging/contents does not install {page}"
        );
    }
}

#[test]
fn links_of_documents_lead_somewhere() {
    let documents =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benches/README.md"];
    let pages = names("docs").into_iter().filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    for document in documents.map(str::to_owned).into_iter().chain(pages) {
        let text = without_code(&read(&document));
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                repository().join(&document)
            } else {
                repository().join(&document).parent().unwrap().join(path)
            };
            assert!(target.exists(), "{document}: {link} leads nowhere");
            if !anchor.is_empty() && target.extension().is_some_and(|extension| extension == "md") {
                assert!(anchors(&target).contains(anchor), "{document}: there is no heading for {link}");
            }
        }
    }
}

/// Returns a text in Markdown without fenced blocks, in which nothing is a link.
fn without_code(text: &str) -> String {
    text.split("\n```").step_by(2).collect()
}

/// Returns the anchors of the headings of a file, as most programs form them.
fn anchors(file: &Path) -> BTreeSet<String> {
    let text = without_code(&read(file));
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn the_book_lists_every_page() {
    let summary = read("docs/SUMMARY.md");
    for name in names("docs").iter().filter(|name| name.ends_with(".md") && *name != "SUMMARY.md") {
        assert!(summary.contains(&format!("]({name})")), "docs/SUMMARY.md does not list {name}");
    }
}

#[test]
fn rules_of_the_security_model_have_tests() {
    let text = read("docs/security.md");
    let rules: Vec<&str> = text.split("\n- ").skip(1).collect();
    assert!(rules.len() > 30, "docs/security.md has only {} rules", rules.len());
    for rule in rules {
        let rule = rule.split("\n\n").next().unwrap_or_default();
        let tests: Vec<&str> = rule.split("[test](../").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(!tests.is_empty(), "no test proves: {rule}");
        for test in tests {
            let (path, name) = test.split_once('#').unwrap();
            assert!(read(path).contains(&format!("fn {name}(")), "{path} has no test {name}, which proves: {rule}");
        }
    }
}

#[test]
fn quotes_of_the_man_pages_end_where_they_should() {
    // These macros extend to the end of their line, so any words after the quotation would be quoted too.
    let reach_on = [" Qq ", " Dq ", " Sq "];
    let others = [" Qq ", " Dq ", " Sq ", " No ", " | "];
    for page in names("man") {
        for line in read(format!("man/{page}")).lines().filter(|line| line.starts_with('.')) {
            let rests = reach_on.iter().filter_map(|quote| line.split_once(quote)).map(|(_, rest)| format!(" {rest}"));
            for rest in rests {
                assert!(!others.iter().any(|other| rest.contains(other)), "{page}: {line}");
            }
        }
    }
}

#[test]
fn every_toml_format_has_a_schema_that_its_page_names() {
    let named = |page: &str, schema: &str| {
        assert!(
            read(format!("man/{page}")).contains(&format!("/holo-schema/{schema}")),
            "{page} does not name {schema}"
        );
        schema.to_owned()
    };
    let mut expected: BTreeSet<String> = BTreeSet::new();
    expected.insert(named("holo-json.7", "holo-output.schema.json"));
    expected.insert(named("holo-agent.8", "holo-agent.schema.json"));
    expected.insert(named("holo-agent.8", "holo-agent-events.schema.json"));
    expected.insert(named("holo-facts.7", "holo-hierarchy.schema.json"));
    for schema in ["holo-fleet", "holo-fleet-operator", "holo-fleet-accounts", "holo-bundle"] {
        expected.insert(named("holo-fleet.8", &format!("{schema}.schema.json")));
    }
    for plugin in names("plugins") {
        let page = format!("holo-{plugin}.8");
        if read(format!("man/{page}")).contains(".Xr holo-definitions 5") {
            expected.insert(named(&page, &format!("holo-{plugin}.schema.json")));
        }
    }
    assert_eq!(names("schema"), expected);
}

#[test]
fn files_begin_with_their_purpose() {
    let mut files = Vec::new();
    for folder in ["src", "agent", "build", "crates", "plugins", "tests", "benches"] {
        collect(&repository().join(folder), &mut files);
    }
    assert!(files.len() > 40);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//! "), "{} does not begin with what it is for", file.display());
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
