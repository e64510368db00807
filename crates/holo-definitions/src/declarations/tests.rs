//! Tests of declarations, and of definitions that use them.
use super::*;
use crate::definition::Definition;
use crate::definitions::Definitions;
use crate::receive::NothingReceived;
use crate::testing::{NoTemplates, said};

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    quiet: bool,
}

impl Declaration for Module {
    const TABLE: &'static str = "module";
    const KEY: Option<&'static str> = Some("type");

    fn invalid_values(&self) -> Vec<Invalid> {
        Invalid::all([if self.path.is_empty() { Err(Invalid::new("path", "is empty")) } else { Ok(()) }])
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Use {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "what")]
    _what: String,
    #[serde(default)]
    args: BTreeMap<String, String>,
}

impl Definition for Use {
    const TABLE: &'static str = "use";
    const ENTITY_TYPE: &'static str = "used";

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        Ok(format!("{}:{}", keys.required("type")?, keys.required("what")?))
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        let bad = self.args.keys().filter(|name| name.starts_with("bad"));
        bad.map(|name| Invalid::new(format!("args.{name}"), "is no argument")).collect()
    }
}

/// Reads files with these texts, and removes the directory from the findings.
fn read(files: &[(&str, &str)]) -> (Definitions<Use>, Declarations<Module>, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let (mut definitions, declarations, mut findings) =
        Definitions::<Use>::read_with::<Module>(&folder.path().to_owned().into(), &NoTemplates, &NothingReceived);
    let unknown: Vec<String> = definitions
        .valid
        .iter()
        .filter(|(_, defined)| !declarations.valid.contains_key(&defined.definition.kind))
        .map(|(id, _)| id.clone())
        .collect();
    for id in unknown {
        findings.extend(definitions.refuse(&id, &[Invalid::new("type", "is unknown")]));
    }
    (definitions, declarations, said(&findings, folder.path()))
}

const USE: &str = "[[use]]\ntype = \"git\"\nwhat = \"/x\"\n";

#[test]
fn a_declaration_counts_for_all_files() {
    let (definitions, declarations, said) = read(&[
        ("a.toml", USE),
        ("b.toml", "[[module]]\ntype = \"git\"\npath = \"/p\"\n\n[[use]]\ntype = \"git\"\nwhat = \"/y\"\n"),
        ("c.toml", "[[module]]\ntype = \"git\"\nquiet = true\npath = \"/p\"\n"),
    ]);
    assert_eq!(said, "");
    assert_eq!(definitions.valid.keys().collect::<Vec<_>>(), ["used:git:/x", "used:git:/y"]);
    let module = Module { kind: "git".into(), path: "/p".into(), quiet: true };
    let (declared, location) = &declarations.valid["git"];
    assert_eq!((declared, location.line()), (&module, 1));
    assert!(location.path().ends_with("b.toml"));
}

#[test]
fn declarations_that_differ_contradict_each_other() {
    let module = |path: &str| format!("[[module]]\ntype = \"git\"\npath = \"{path}\"\n");
    let other = "[[module]]\ntype = \"other\"\npath = \"/o\"\n";
    let (_, declarations, said) =
        read(&[("10-a.toml", &module("/a/git.py")), ("20-b.toml", &format!("{}{other}", module("/b/git.py")))]);
    assert_eq!(said, "!! 20-b.toml:3: module git: path: \"/b/git.py\", where 10-a.toml:1 says \"/a/git.py\"\n");
    assert!(declarations.is_broken("git") && !declarations.is_broken("other"));
    assert_eq!(declarations.valid.keys().collect::<Vec<_>>(), ["other"]);
}

#[test]
fn everything_that_is_wrong_with_a_declaration_is_said() {
    let (_, declarations, said) = read(&[(
        "a.toml",
        "[[module]]\ntype = \"git\"\npath = \"\"\nquiet = 3\nodd = 1\n[[module]]\ntype = \"b\"\npath = \"/b\"\npath = \"/c\"\n\
         [[module]]\ntype = \"c\"\n",
    )]);
    assert_eq!(
        said,
        "!! a.toml:9: module b: path: is already set in line 8\n\
         !! a.toml:10: module c: path: is missing\n\
         !! a.toml:3: module git: path: is empty\n\
         !! a.toml:4: module git: quiet: expected true or false, found 3\n\
         !! a.toml:5: module git: odd: unknown key, expected one of type, path, quiet\n"
    );
    assert!(["b", "c", "git"].iter().all(|name| declarations.is_broken(name)) && declarations.valid.is_empty());
}

#[test]
fn a_declaration_without_a_name_may_be_what_is_missing() {
    let (definitions, _, said) =
        read(&[("a.toml", "[[module]]\npath = \"/p\"\n[[modul]]\ntype = \"x\"\n[[x]]\ny = 1\n")]);
    assert!(said.contains("!! a.toml:1: [[module]]: type: is missing\n"), "{said}");
    assert!(said.contains("!! a.toml:3: unknown table [[modul]], did you mean [[module]]?\n"), "{said}");
    assert!(said.contains("!! a.toml:5: unknown table [[x]], expected [[use]] or [[module]]\n"), "{said}");
    assert!(!definitions.is_orphan("used:git:/x"));
}

#[test]
fn a_definition_can_be_refused_later_at_its_own_line() {
    let (definitions, _, said) = read(&[("a.toml", &format!("\n\n{USE}args.x = \"1\"\n"))]);
    assert_eq!(said, "!! a.toml:4: used:git:/x: type: is unknown\n");
    assert!(
        definitions.valid.is_empty() && !definitions.is_orphan("used:git:/x") && definitions.is_orphan("used:git:/y")
    );
    let both = "[[module]]\ntype = \"git\"\npath = \"/p\"\n";
    let (definitions, _, _) = read(&[("a.toml", &format!("{both}{USE}\nargs.x = \"1\"\n"))]);
    let line = |key| definitions.valid["used:git:/x"].common.location_of(key).line();
    assert_eq!((line("type"), line("args.x"), line("args.y"), line("odd")), (5, 8, 8, 4));
}

#[test]
fn a_key_of_a_table_is_wrong_at_its_own_line() {
    let (_, _, said) = read(&[("a.toml", &format!("{USE}[use.args]\nx = \"1\"\nbad = \"2\"\nbad2 = \"3\"\n"))]);
    let complaint = |line, key| format!("!! a.toml:{line}: used:git:/x: args.{key}: is no argument\n");
    assert_eq!(said, [complaint(6, "bad"), complaint(7, "bad2")].concat());
}
