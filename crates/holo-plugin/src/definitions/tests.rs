//! Tests of findings and reports for definitions on a host.
use super::*;
use crate::{Sink, Stream};
use holo_protocol::environment as names;
use std::fs;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Thing {
    #[serde(rename = "name")]
    _name: String,
}

impl Definition for Thing {
    const TABLE: &'static str = "thing";
}

struct Said(String);

impl Sink for Said {
    fn write(&mut self, _: Stream, bytes: &[u8]) {
        self.0.push_str(&String::from_utf8_lossy(bytes));
    }
}

/// Returns the definitions in the files, and the findings without the path of the directory.
fn read(files: &[(&str, &str)]) -> (Definitions<Thing>, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let path = |name: &str| Some(if name == names::ROOT_DIR { "/".into() } else { folder.path().into() });
    let host = Host::from_environment(path).unwrap();
    let mut said = Said(String::new());
    let definitions = super::read(&host, &mut Output::new(&mut said));
    (definitions, said.0.replace(&format!("{}/", folder.path().display()), ""))
}

#[test]
fn mistakes_are_said_and_keep_orphans_from_being_scrubbed() {
    let (definitions, said) = read(&[
        ("a.toml", "[[thing]]\nname = \"a\"\nhealth_check = [{ command = \"x | y\" }]\n"),
        ("b.toml", "[[thing]]\nsize = 1\n"),
    ]);
    assert!(definitions.valid.contains_key("thing:a"));
    let (missing, rest) = said.split_once('\n').unwrap();
    assert_eq!(missing, "!! b.toml:1: [[thing]]: name: is missing");
    let (doubt, rest) = rest.split_once('\n').unwrap();
    assert!(doubt.starts_with(">> a.toml:3: thing:a: health_check: no shell is called, and \"|\""), "{doubt}");
    assert_eq!(
        rest,
        ">> scrubbing is suspended until this is fixed, because the definition of an entity may be missing\n"
    );
}

#[test]
fn a_report_has_the_place_of_the_definition_and_its_edges() {
    let (definitions, _) =
        read(&[("01.toml", "[[thing]]\nname = \"a\"\nrequires = [\"x:y\"]\nafter = [\n\"z:z\",\n]\n")]);
    let mut report = EntityReport::new("thing:a");
    complete(&definitions.valid["thing:a"].common, &mut report);
    assert_eq!((&report.edges.requires[..], &report.edges.after[..]), (&["x:y".into()][..], &["z:z".into()][..]));
    assert!(report.sources[0].ends_with(b"/01.toml"));
    let [written, own] = &report.edges.written[..] else { panic!("{report:?}") };
    assert!(written.location.ends_with(b"/01.toml:5") && written.id == "z:z");
    assert!(own.location.ends_with(b"/01.toml:1") && own.id == "thing:a");
}

#[test]
fn templates_are_rendered_before_they_are_read() {
    let (definitions, said) = read(&[
        ("a.toml.jinja", "[[thing]]\nname = \"{{ facts.kernel.name }}\"\n# {{ '{{ not rendered twice }}' }}\n"),
        ("b.toml.jinja", "\n[[thing]]\nname = \"{{ facts.nonsense }}\"\n"),
    ]);
    assert!(definitions.valid.contains_key("thing:Linux"));
    assert!(said.starts_with("!! b.toml.jinja:3: ") && said.contains("nonsense"), "{said}");
    let (_, said) =
        read(&[("a.toml.jinja", "{# a comment #}\n[[thing]]\nname = \"{{ facts.kernel.name }}\"\nodd = 1\n")]);
    assert!(said.starts_with("!! a.toml.jinja:4 as rendered: thing:Linux: odd: unknown key"), "{said}");
}

#[test]
fn conditions_leave_out() {
    let (definitions, said) = read(&[(
        "a.toml",
        "[[thing]]\nname = \"a\"\nif = \"facts.kernel.name == 'Linux'\"\n\
         [[thing]]\nname = \"b\"\nif = \"facts.kernel.name == 'Plan 9'\"\n\
         [[thing]]\nname = \"c\"\nunless = \"facts.kernel.name == 'Linux'\"\n\
         [[thing]]\nname = \"d\"\nif = \"facts.odd\"\n",
    )]);
    let skipped = |name: &str| definitions.valid[name].common.skipped.clone();
    assert_eq!(skipped("thing:a"), None);
    assert_eq!(skipped("thing:b").unwrap(), "facts.kernel.name == 'Plan 9' is false");
    assert_eq!(skipped("thing:c").unwrap(), "facts.kernel.name == 'Linux' is true");
    assert!(said.starts_with("!! a.toml:12: thing:d: if: the expression cannot be evaluated: facts.odd: "), "{said}");
    assert!(!definitions.valid.contains_key("thing:d") && !definitions.is_orphan("thing:d"));
}
