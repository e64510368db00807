//! The direction of data: sibling modules do not import each other in a circle, and only the reporter writes to the
//! streams, where no control character of a file or a program reaches a terminal. ARCHITECTURE.md is correct: the files that it names exist, and are those that a change has to touch.
//!
//! Each child of a module stands for everything below it. A module and its parent may name each other's items; a module
//! and its sibling may not, even indirectly.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// A module's path from the root of its crate; empty for the root itself.
type Module = Vec<String>;

/// A crate, reduced to its imports.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Module, Source>,
    /// Modules with a `#[path]` attribute, whose file may belong to two crates.
    by_attribute: Vec<String>,
}

/// The names that a module uses and re-exports.
#[derive(Default)]
struct Source {
    /// Re-exported names, with the path that each stands for.
    reexports: BTreeMap<String, Vec<String>>,
    /// Used paths, with their first segment as written.
    paths: BTreeSet<Vec<String>>,
}

impl Crate {
    fn read(root: &Path) -> Crate {
        let mut found = Crate::default();
        found.add(root, root.parent().unwrap(), Vec::new());
        found
    }

    /// Adds the module in a file, and its submodules, whose files are in `folder`.
    fn add(&mut self, file: &Path, folder: &Path, module: Module) {
        let text = fs::read_to_string(file).unwrap();
        let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display())).unwrap();
        let mut source = Source::default();
        for item in &parsed.items {
            match item {
                Item::Mod(child) if is_test(&child.attrs) => {}
                Item::Mod(child) if child.attrs.iter().any(|attribute| attribute.path().is_ident("path")) => {
                    self.by_attribute.push(child.ident.to_string());
                }
                Item::Mod(child) if child.content.is_none() => {
                    let name = child.ident.to_string();
                    let path = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
                    let path = path.into_iter().find(|path| path.exists()).unwrap();
                    self.add(&path, &folder.join(&name), [&module[..], &[name]].concat());
                }
                item => source.visit_item(item),
            }
        }
        self.modules.insert(module, source);
    }

    /// Returns the module that a path refers to, if it belongs to this crate.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let mut module = from.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => module.clear(),
            "self" => {}
            "super" => {
                module.pop()?;
            }
            first => {
                let is_ours = self.modules.contains_key(&[&module[..], &[first.to_owned()]].concat())
                    || self.modules[from].reexports.contains_key(first);
                if !is_ours {
                    return None;
                }
                rest = path;
                return self.descend(module, rest, depth);
            }
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|segment| segment == "super") {
            module.pop()?;
            rest = &rest[1..];
        }
        self.descend(module, rest, depth)
    }

    fn descend(&self, mut module: Module, mut rest: &[String], depth: usize) -> Option<Module> {
        while let Some(segment) = rest.first() {
            let child = [&module[..], std::slice::from_ref(segment)].concat();
            if self.modules.contains_key(&child) {
                module = child;
                rest = &rest[1..];
                continue;
            }
            // Using a re-exported name counts as importing the module that defines it.
            if let Some(path) = self.modules.get(&module)?.reexports.get(segment).filter(|_| depth < 8) {
                return self.resolve(&module, path, depth + 1).or(Some(module));
            }
            break;
        }
        Some(module)
    }

    /// Returns the circles among the children of each module, each with the names of its members.
    fn circles(&self) -> BTreeSet<String> {
        let mut edges: BTreeMap<Module, BTreeSet<(String, String)>> = BTreeMap::new();
        for (from, source) in &self.modules {
            for to in source.paths.iter().filter_map(|path| self.resolve(from, path, 0)) {
                let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
                if let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) {
                    edges.entry(from[..shared].to_vec()).or_default().insert((one.clone(), other.clone()));
                }
            }
        }
        edges.iter().flat_map(|(parent, edges)| circles_of(parent, edges)).collect()
    }
}

/// Returns the strongly connected components with more than one member.
fn circles_of(parent: &Module, edges: &BTreeSet<(String, String)>) -> BTreeSet<String> {
    let mut reach: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for (from, _) in edges {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(node) = next.pop() {
            let targets = edges.iter().filter(|(start, _)| start == node).map(|(_, end)| end);
            next.extend(targets.filter(|target| seen.insert(*target)));
        }
        reach.insert(from, seen);
    }
    let reaches = |one: &String, other: &String| reach.get(one).is_some_and(|seen| seen.contains(other));
    let members = |one: &String| -> Vec<&str> {
        let both = reach.keys().filter(|other| reaches(one, other) && reaches(other, one));
        both.map(|other| other.as_str()).collect()
    };
    let circles = reach.keys().map(|one| members(one)).filter(|members| members.len() > 1);
    circles.map(|members| [parent.join("::"), members.join(" ")].join(": ")).collect()
}

impl Source {
    fn use_tree(&mut self, tree: &UseTree, prefix: &[String], is_reexport: bool) {
        let mut take = |name: &str, shown: &str| {
            let path = if name == "self" { prefix.to_vec() } else { [prefix, &[name.to_owned()]].concat() };
            if is_reexport {
                self.reexports.insert(shown.to_owned(), path.clone());
            } else {
                self.paths.insert(path);
            }
        };
        match tree {
            UseTree::Path(path) => {
                self.use_tree(&path.tree, &[prefix, &[path.ident.to_string()]].concat(), is_reexport);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(tree, prefix, is_reexport)),
            UseTree::Name(name) => take(&name.ident.to_string(), &name.ident.to_string()),
            UseTree::Rename(name) => take(&name.ident.to_string(), &name.rename.to_string()),
            UseTree::Glob(_) => {
                self.paths.insert(prefix.to_vec());
            }
        }
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Fn(function) if is_test(&function.attrs) => {}
            Item::Use(import) if is_test(&import.attrs) => {}
            Item::Use(import) => {
                self.use_tree(&import.tree, &[], !matches!(import.vis, Visibility::Inherited));
            }
            item => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg_test = attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"));
        is_cfg_test || attribute.path().is_ident("test")
    })
}

/// Returns true for a module or a function that exists only in tests.
fn is_test_item(item: &Item) -> bool {
    match item {
        Item::Mod(module) => is_test(&module.attrs),
        Item::Fn(function) => is_test(&function.attrs),
        _ => false,
    }
}

/// Returns the root files of all crates of the workspace, by the names of their directories.
fn crates() -> BTreeMap<String, PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = ["", "agent", "build", "fleet", "secret"].map(|folder| repository.join(folder)).to_vec();
    for folder in ["crates", "plugins"] {
        folders.extend(fs::read_dir(repository.join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    let root = |folder: &PathBuf| {
        ["src/lib.rs", "src/main.rs"].iter().map(|name| folder.join(name)).find(|root| root.exists())
    };
    let name = |folder: &Path| match folder.strip_prefix(repository).unwrap().to_str().unwrap() {
        "" => "src".to_owned(),
        name => name.to_owned(),
    };
    folders.iter().filter_map(|folder| Some((name(folder), root(folder)?))).collect()
}

/// Known circles. None may be added, and fixed ones must be removed from the list.
const KNOWN_CIRCLES: &[&str] = &[];

/// Known modules with a `#[path]` attribute.
const KNOWN_ATTRIBUTES: &[&str] = &[];

#[test]
fn siblings_do_not_import_each_other_in_a_circle() {
    let crates = crates();
    assert!(crates.len() > 10);
    let (mut circles, mut attributes) = (BTreeSet::new(), BTreeSet::new());
    for (name, root) in &crates {
        let read = Crate::read(root);
        circles.extend(read.circles().into_iter().map(|circle| format!("{name} {circle}")));
        attributes.extend(read.by_attribute.into_iter().map(|module| format!("{name} {module}")));
    }
    let set = |known: &[&str]| -> BTreeSet<String> { known.iter().map(ToString::to_string).collect() };
    assert_eq!(circles, set(KNOWN_CIRCLES));
    assert_eq!(attributes, set(KNOWN_ATTRIBUTES));
}

#[test]
fn a_circle_is_found_through_re_exports_and_inner_modules() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a; mod b; mod c; pub use b::inner::Thing;");
    write("a.rs", "use crate::Thing; fn f() -> Thing { super::c::g() }");
    write("b.rs", "pub mod inner;");
    write("b/inner.rs", "pub struct Thing; #[cfg(test)] mod tests { use crate::c; }");
    write("c.rs", "pub fn g() {}");
    let circles = || Crate::read(&folder.path().join("lib.rs")).circles();
    assert_eq!(circles(), BTreeSet::new());
    write("b/inner.rs", "pub struct Thing(crate::a::X);");
    assert_eq!(circles(), BTreeSet::from([": a b".to_owned()]));
}

/// Finds code that bypasses the reporter: uses of its console, the streams of the process, macros that print, and clap's
/// `print`.
#[derive(Default)]
struct Printing {
    found: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Printing {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_item(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        if ident == "Console" {
            self.found.insert(ident.to_string());
        }
    }

    fn visit_use_name(&mut self, name: &'ast syn::UseName) {
        if ["stdout", "stderr"].iter().any(|stream| name.ident == stream) {
            self.found.insert(format!("use {}", name.ident));
        }
        visit::visit_use_name(self, name);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [.., parent, stream] = segments.as_slice()
            && (stream == "stdout"
                || stream == "stderr"
                || (parent == "io" && (stream == "Stdout" || stream == "Stderr")))
        {
            self.found.insert(segments.join("::"));
        }
        if let [.., "streams", _] = segments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            self.found.insert(segments.join("::"));
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "print" && call.args.is_empty() {
            self.found.insert(".print()".to_owned());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let name = called.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if ["print", "println", "eprint", "eprintln", "dbg"].contains(&&*name) {
            self.found.insert(format!("{name}!"));
        }
        // The arguments of most macros are expressions.
        let arguments = called.parse_body_with(Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated);
        arguments.iter().flatten().for_each(|argument| self.visit_expr(argument));
        visit::visit_macro(self, called);
    }
}

/// Returns the names that bypass the reporter.
fn printing(source: &str) -> BTreeSet<String> {
    let mut printing = Printing::default();
    printing.visit_file(&syn::parse_file(source).unwrap());
    printing.found
}

fn source_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| source_files(folder))).collect()
}

/// Counts results whose error is a bare string, which callers cannot match on.
#[derive(Default)]
struct BareErrors {
    count: usize,
}

impl<'ast> Visit<'ast> for BareErrors {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_item(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if segment.ident == "Result"
            && let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments
            && let [_, syn::GenericArgument::Type(syn::Type::Path(error))] =
                arguments.args.iter().collect::<Vec<_>>()[..]
            && error.path.is_ident("String")
        {
            self.count += 1;
        }
        visit::visit_path_segment(self, segment);
    }
}

/// Libraries that still use bare strings as errors. None may be added.
const KNOWN_BARE_ERRORS: &[&str] =
    &["crates/holo-bridge/src", "plugins/ansible/src", "plugins/promises/src", "plugins/ral/src"];

#[test]
fn errors_of_libraries_are_types() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_tests = ["tests.rs", "cases.rs", "testing.rs"];
    let mut found = BTreeSet::new();
    for root in crates().values().filter(|root| *root != &repository.join("src/lib.rs")) {
        let files = source_files(root.parent().unwrap());
        let is_source = |file: &&PathBuf| file.extension().is_some_and(|extension| extension == "rs");
        for file in files.iter().filter(is_source).filter(|file| !of_tests.iter().any(|name| file.ends_with(name))) {
            let mut bare = BareErrors::default();
            bare.visit_file(&syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap());
            if bare.count > 0 {
                found.insert(file.strip_prefix(repository).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.retain(|file| !KNOWN_BARE_ERRORS.iter().any(|known| Path::new(file).starts_with(known)));
    assert_eq!(found, BTreeSet::new(), "errors are types whose names end in Error");
}

#[test]
fn a_bare_error_is_found_but_in_tests() {
    let count = |source: &str| {
        let mut bare = BareErrors::default();
        bare.visit_file(&syn::parse_file(source).unwrap());
        bare.count
    };
    assert_eq!(count("fn f() -> Result<(), String> { Ok(()) } struct S(std::result::Result<u8, String>);"), 2);
    assert_eq!(count("fn f() -> Result<String, E> { Ok(()) } #[cfg(test)] mod t { type R = Result<(), String>; }"), 0);
}

#[test]
fn only_the_reporter_writes_to_the_streams() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let in_rust = source_files(&sources).into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs"));
    let (reporter, others): (Vec<_>, Vec<_>) = in_rust.partition(|file| file.starts_with(sources.join("report")));
    assert!(!reporter.is_empty() && others.len() > 40);
    let past_the_reporter = |file: &PathBuf| {
        let found = printing(&fs::read_to_string(file).unwrap());
        // `report.rs` declares the console, and passes it to the consumers of events.
        let is_its_root = *file == sources.join("report.rs") && found == BTreeSet::from(["Console".to_owned()]);
        (!found.is_empty() && !is_its_root).then(|| format!("{}: {found:?}", file.display()))
    };
    assert_eq!(others.iter().filter_map(past_the_reporter).collect::<Vec<_>>(), Vec::<String>::new());
}

/// The files that use the streams of the process directly.
const STREAM_USERS: [&str; 10] = [
    "crates/holo-process/src/streams.rs",
    "src/report/console.rs",
    // An editor needs the terminal itself.
    "fleet/src/commands/data.rs",
    "secret/src/edit.rs",
    // It hands standard error to holo-fleet, which makes control characters visible itself.
    "agent/src/child.rs",
    // The standard output of this process is the lock.
    "crates/holo-process/src/groups.rs",
    // It hands the streams to a holo in a container, which makes control characters visible itself.
    "crates/holo-system/src/offline.rs",
    // Not part of any program that is installed.
    "crates/holo-testing/src/fuzz.rs",
    "crates/holo-testing/src/overlay.rs",
    "crates/holo-testing/src/require.rs",
];

#[test]
fn no_program_writes_to_a_terminal_without_making_control_characters_visible() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut users = BTreeSet::new();
    for root in crates().values() {
        for file in source_files(root.parent().unwrap()) {
            let is_source = file.extension().is_some_and(|end| end == "rs") && !file.ends_with("tests.rs");
            let found = if is_source { printing(&fs::read_to_string(&file).unwrap()) } else { BTreeSet::new() };
            let is_direct = |name: &String| ["io::", "use ", "!", ".print()"].iter().any(|part| name.contains(part));
            if found.iter().any(is_direct) {
                users.insert(file.strip_prefix(repository).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    assert_eq!(users, STREAM_USERS.map(ToOwned::to_owned).into());
}

#[test]
fn what_is_shown_past_the_reporter_is_found() {
    let found = |source: &str| printing(source).into_iter().collect::<Vec<_>>();
    assert_eq!(found("fn f(console: &mut crate::report::Console) {}"), ["Console"]);
    assert_eq!(found("use std::io::{self, stdout}; fn f() { io::stderr().lock(); }"), ["io::stderr", "use stdout"]);
    assert_eq!(found("fn f() { writeln!(io::stderr(), \"{x}\"); }"), ["io::stderr"]);
    assert_eq!(
        found("fn f(to: std::io::Stdout) { println!(); std::eprint!(); }"),
        ["eprint!", "println!", "std::io::Stdout"]
    );
    assert_eq!(found("fn f() { streams::write(to, bytes); usage.print(); }"), [".print()", "streams::write"]);
    assert_eq!(found("fn f(heard: Heard) { heard.stdout; Stream::Stdout; command.stderr(x); }"), [""; 0]);
    assert_eq!(found("#[cfg(test)] mod tests { fn f() { println!(); } }"), [""; 0]);
}

/// Typical changes, each with words that occur in every file that such a change touches: the files that mention the
/// verb `selectors` are those to edit for another verb.
const CHANGES: [(&str, &[&str]); 10] = [
    ("a verb", &["selectors"]),
    ("a common key of definitions", &["notifies", "retries"]),
    ("a provider", &["apk"]),
    ("a message of plugins", &["would_change", "wouldchange", "changedquietly", "changed quietly"]),
    ("an archive format", &["zip"]),
    ("an exit code", &["const failed", "exit::failed", "sh exit status"]),
    ("a template engine", &["jet"]),
    ("a fact", &["virtualization"]),
    ("a colour", &["hunk"]),
    ("a scenario", &["steps"]),
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the paths that a text names in backticks, with an example for each placeholder.
fn paths_in(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let top = [
        "src/",
        "agent/",
        "fleet/",
        "secret/",
        "crates/",
        "plugins/",
        "tests/",
        "benches/",
        "man/",
        "schema/",
        "holorc.d/",
        "test-scenarios/",
        "CHANGELOG.md",
    ];
    let is_path = |quoted: &&str| top.iter().any(|top| quoted.starts_with(top)) && !quoted.contains([' ', '*']);
    let example = |path: &str| path.replace("VERB", "selectors").replace("PLUGIN", "packages");
    quoted.filter(is_path).map(example).collect()
}

#[test]
fn the_files_that_architecture_names_exist() {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    // Indented lines are drawings.
    let text: String = text.lines().filter(|line| !line.starts_with("    ")).map(|line| format!("{line}\n")).collect();
    let paths = paths_in(&text);
    assert!(paths.len() > 80, "{}", paths.len());
    let missing: Vec<&String> = paths.iter().filter(|path| !repository().join(path).exists()).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn architecture_names_the_files_that_a_change_touches() {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    for (change, marks) in CHANGES {
        let row = text.lines().find(|line| line.starts_with(&format!("| {change} |")));
        let paths = paths_in(row.unwrap_or_default());
        assert!(!paths.is_empty(), "nothing is said of {change}");
        for path in paths {
            let file = repository().join(&path);
            // The trees of scenarios contain links and devices that must not be read.
            if path.starts_with("test-scenarios/") {
                continue;
            }
            let texts = if file.is_dir() { source_files(&file) } else { vec![file] };
            let is_touched = |file: &PathBuf| {
                let text = fs::read_to_string(file).unwrap().to_lowercase();
                marks.iter().any(|mark| text.contains(mark))
            };
            assert!(texts.iter().any(is_touched), "{change} does not touch {path}: none of {marks:?} is in it");
        }
    }
}
