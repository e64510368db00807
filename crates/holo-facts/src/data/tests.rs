//! Tests of data, each below its own root.

use super::*;
use crate::Knowledge;
use serde_json::json;
use std::fs;

/// Creates a root with these files for the machine `web1`, which runs Debian.
fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let always = [("etc/hostname", "web1\n"), ("etc/os-release", "ID=debian\n")];
    for (path, content) in always.iter().chain(files) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn data(files: &[(&str, &str)]) -> Value {
    let root = root(files);
    Knowledge::new(root.path(), None).data().unwrap().value().clone()
}

/// Returns the error from reading the files, without the path of the root.
fn fault(files: &[(&str, &str)]) -> String {
    let root = root(files);
    let fault = Knowledge::new(root.path(), None).data().unwrap_err().to_string();
    fault.replace(&format!("{}/", root.path().display()), "")
}

#[test]
fn without_any_there_is_none_and_facts_are_not_asked() {
    let root = root(&[("etc/holo/facts.d/site.toml", "=")]);
    let knowledge = Knowledge::new(root.path(), None);
    assert_eq!(knowledge.data().unwrap().value(), &json!({}));
    assert_eq!(knowledge.take_warnings(), []);
    let _ = knowledge.facts();
    assert_eq!(knowledge.take_warnings().len(), 1);
}

const CONSTRAINTS: (&str, &str) = (
    "etc/holo/data/hierarchy.toml",
    "[values.\"web.port\"]\nrequired = true\nvalidate = \"value is number and value < 65536\"\n\n[values.name]\n\
     validate = \"value is matching('^[a-z]+$') and value != facts.os.id\"\n[values.address]\nvalidate = 'value is ipaddr'\n\
     [values.\"web.hosts\"]\nvalidate = 'value | length > 0'\n",
);

#[test]
fn values_are_as_the_hierarchy_wants_them() {
    let valid = "web = { port = 80, hosts = ['a'] }\nname = 'web'\naddress = '192.0.2.1/24'\n";
    data(&[CONSTRAINTS, ("etc/holo/data/common.toml", valid)]);
    data(&[CONSTRAINTS, ("usr/share/holo/data/common.yaml", "web:\n  port: 80\n")]);
    let wrong = |text: &str| fault(&[CONSTRAINTS, ("etc/holo/data/common.toml", text)]);
    let here = "etc/holo/data/hierarchy.toml";
    let missing = "web.port is required, and missing; set it in one of the layers host/web1, os/debian, common";
    assert_eq!(wrong("[web]\n"), format!("{here}:1: {missing}"));
    let rule = format!("is not valid by `value is number and value < 65536` in {here}:1: it does not hold");
    let expected = format!("etc/holo/data/common.toml:2: web.port: 70000 {rule}");
    assert_eq!(wrong("[web]\nport = 70000\n"), expected);
    assert!(wrong("web.port = 'x'\n").contains("web.port: \"x\" is not valid"));
    assert!(wrong("web.port = 80\nname = 'debian'\n").starts_with("etc/holo/data/common.toml:2: name: \"debian\" is"));
    assert!(wrong("web.port = 80\nweb.hosts = []\n").starts_with("etc/holo/data/common.toml:2: web.hosts: [] is"));
    // A value of another type than the expression expects is invalid too.
    let other = wrong("web.port = 80\nname = 1\n");
    assert!(other.starts_with("etc/holo/data/common.toml:2: name: 1 is not valid by `value is matching("), "{other}");
    assert!(other.ends_with("value is not a string"), "{other}");
    // All errors are reported at once.
    let all = wrong("name = 'B'\naddress = '192.0.2.256'\n");
    for part in ["name: \"B\" is not valid", "address: \"192.0.2.256\" is not valid", missing] {
        assert!(all.contains(part), "{all}");
    }
}

#[test]
fn a_constraint_that_cannot_be_is_an_error_with_its_line() {
    let wrong = |constraint: &str| {
        let text = format!("\n[values]\n{constraint}\n");
        fault(&[("etc/holo/data/hierarchy.toml", &text), ("etc/holo/data/common.toml", "a = 1\n")])
    };
    for (constraint, words) in [
        ("a = { validate = 'value <' }", "a: validate: value <: syntax error"),
        ("'a..b' = { required = true }", "is not a key"),
        ("a = { env = 'A=B' }", "is not the name of a variable"),
        ("a = { require = true }", "unknown key"),
    ] {
        let wrong = wrong(constraint);
        assert!(wrong.starts_with("etc/holo/data/hierarchy.toml:3: ") && wrong.contains(words), "{wrong}");
    }
}

#[test]
fn an_expression_that_fails_names_both_places() {
    for (expression, words) in [("valu", "undefined"), ("value is matching('[')", "is not a valid pattern")] {
        let text = format!("\n[values]\na = {{ validate = \"{expression}\" }}\n");
        let wrong = fault(&[("etc/holo/data/hierarchy.toml", &text), ("etc/holo/data/common.toml", "a = 'x'\n")]);
        let beginning = format!(
            "etc/holo/data/common.toml:1: a: \"x\" is not valid by `{expression}` in etc/holo/data/hierarchy.toml:3: "
        );
        assert!(wrong.starts_with(&beginning) && wrong.contains(words), "{wrong}");
    }
}

#[test]
fn a_hierarchy_in_another_language_is_refused_by_name() {
    for kind in ["yaml", "yml", "json"] {
        let path = format!("etc/holo/data/hierarchy.{kind}");
        let wrong = fault(&[(&path, "{}"), ("usr/share/holo/data/hierarchy.toml", "")]);
        assert_eq!(
            wrong,
            format!("{path}: the hierarchy is written in TOML, as hierarchy.toml; this file would not be read")
        );
    }
}

#[test]
fn the_more_specific_wins_and_the_machines_own_before_the_packages() {
    let found = data(&[
        ("etc/holo/data/host/web1.toml", "a = 'host'\n"),
        ("etc/holo/data/common.toml", "a = 'own'\nb = 'own'\nc = 'own'\n"),
        ("usr/share/holo/data/host/web1.json", r#"{"b": "package host", "d": "package host"}"#),
        ("usr/share/holo/data/os/debian.toml", "d = 'package os'\ne = 'package os'\n"),
        ("usr/share/holo/data/common.toml", "e = 'package'\nf = 'package'\n"),
        ("usr/share/holo/data/os/fedora.toml", "f = 'not this one'\n"),
    ]);
    let expected = json!({
        "a": "host", "b": "own", "c": "own", "d": "package host", "e": "package os", "f": "package"
    });
    assert_eq!(found, expected);
}

const HOST: (&str, &str) = ("etc/holo/data/host/web1.toml", "t = {x = 1}\nl = [1]\nu = {v = {a = 1}, w = 1}\n");
const COMMON: (&str, &str) =
    ("etc/holo/data/common.toml", "t = {x = 2, y = 2}\nl = [2, 3]\nu = {v = {b = 2}, w = 2, z = 2, l = [9]}\n");

#[test]
fn first_takes_values_as_a_whole() {
    assert_eq!(data(&[HOST, COMMON]), json!({"t": {"x": 1}, "l": [1], "u": {"v": {"a": 1}, "w": 1}}));
}

#[test]
fn deep_puts_tables_into_each_other_and_joins_no_lists() {
    let hierarchy = ("etc/holo/data/hierarchy.toml", "merge = 'deep'\n");
    let expected = json!({
        "t": {"x": 1, "y": 2}, "l": [1], "u": {"v": {"a": 1, "b": 2}, "w": 1, "z": 2, "l": [9]}
    });
    assert_eq!(data(&[HOST, COMMON, hierarchy]), expected);
}

#[test]
fn keys_have_rules_of_their_own() {
    let rules = "merge = 'first'\n[keys]\n'u.v' = 'deep'\nl = 'concatenate'\n'u.l' = 'first'\n";
    let found = data(&[HOST, COMMON, ("usr/share/holo/data/hierarchy.toml", rules)]);
    let expected = json!({"t": {"x": 1}, "l": [1, 2, 3], "u": {"v": {"a": 1, "b": 2}, "w": 1, "l": [9]}});
    assert_eq!(found, expected);
    let first_in_deep = ("etc/holo/data/hierarchy.toml", "merge = 'deep'\nkeys = {u = 'first'}\n");
    assert_eq!(data(&[HOST, COMMON, first_in_deep])["u"], json!({"v": {"a": 1}, "w": 1}));
    // A rule affects its own key, but not the surrounding tables.
    let far = ("etc/holo/data/hierarchy.toml", "keys = {'a.b.c' = 'deep'}\n");
    let deep = ("etc/holo/data/common.toml", "a = {b = {c = {d = 1}, x = 1}, y = 1}\n");
    assert_eq!(
        data(&[far, deep, ("etc/holo/data/host/web1.toml", "a = {z = 2}\n")]),
        json!({"a": {"b": {"c": {"d": 1}}, "z": 2}})
    );
    assert_eq!(data(&[far, deep, ("etc/holo/data/host/web1.toml", "a = 1\n")]), json!({"a": 1}));
}

#[test]
fn another_kind_of_value_hides_what_is_less_specific() {
    let found = data(&[
        ("etc/holo/data/hierarchy.toml", "merge = 'deep'\nkeys = {l = 'concatenate'}\n"),
        ("etc/holo/data/host/web1.json", r#"{"t": {"a": 1}, "l": [1], "n": null, "e": {}}"#),
        ("etc/holo/data/os/debian.json", r#"{"t": "text", "l": "text"}"#),
        ("etc/holo/data/common.json", r#"{"t": {"b": 2}, "l": [2], "n": 1, "e": {"f": 1}}"#),
    ]);
    assert_eq!(found, json!({"t": {"a": 1}, "l": [1], "n": null, "e": {"f": 1}}));
}

#[test]
fn says_where_values_come_from() {
    let root = root(&[HOST, COMMON, ("etc/holo/data/hierarchy.toml", "merge = 'deep'\nkeys = {l = 'concatenate'}\n")]);
    let knowledge = Knowledge::new(root.path(), None);
    let data = knowledge.data().unwrap();
    let explain = |key: Option<&str>| -> Vec<String> {
        let name = |at: Standing<'_>| format!("{}:{}", at.file.file_stem().unwrap().display(), at.line.unwrap());
        let origins = data.explain(key).unwrap().into_iter();
        origins
            .map(|Origin { key, value, from, over }| {
                let from: Vec<_> = from.into_iter().map(name).collect();
                let over: Vec<_> = over.into_iter().map(|(at, value)| format!("{} {value}", name(at))).collect();
                format!("{key}={value} from {} over {}", from.join("+"), over.join("+"))
            })
            .collect()
    };
    assert_eq!(explain(Some("t")), ["t.x=1 from web1:1 over common:1 2", "t.y=2 from common:1 over "]);
    assert_eq!(explain(Some("t.x")), ["t.x=1 from web1:1 over common:1 2"]);
    assert_eq!(explain(Some("l")), ["l=[1,2,3] from web1:2+common:2 over "]);
    assert_eq!(explain(Some("l.2")), ["l=[1,2,3] from web1:2+common:2 over "]);
    assert_eq!(explain(Some("l.3")), [""; 0]);
    assert_eq!(explain(Some("nothing")), [""; 0]);
    assert_eq!(explain(None).len(), 8);
    assert!(data.explain(Some("a..b")).is_err());
}

#[test]
fn layers_are_templates_over_facts() {
    let found = data(&[
        ("etc/holo/facts.d/site.toml", "site = 'north'\nempty = ''\nodd = '{{ facts.os.id }}'\n"),
        (
            "etc/holo/data/hierarchy.toml",
            "layers = ['{{ facts.odd }}', 'empty/{{ facts.empty }}', 'site/{{ facts.site }}', 'site/north', 'a b']\n",
        ),
        ("etc/holo/data/site/north.toml", "a = 1\n"),
        ("etc/holo/data/a b.toml", "b = 2\n"),
        ("etc/holo/data/debian.toml", "a = 'rendered twice'\n"),
        ("etc/holo/data/empty/.toml", "a = 'a layer for nobody'\n"),
        ("etc/holo/data/common.toml", "c = 'not in this hierarchy'\n"),
    ]);
    assert_eq!(found, json!({"a": 1, "b": 2}));
}

#[test]
fn no_layer_leaves_its_directory() {
    for layer in ["../../hostname", "/etc/hostname", "a/../../b", "..", ".", "{{ facts.evil }}"] {
        let fault = fault(&[
            ("etc/holo/facts.d/site.toml", "evil = '../../../secret'\n"),
            ("etc/secret.toml", "secret = true\n"),
            ("etc/holo/data/hierarchy.toml", &format!("# x\nlayers = ['common',\n  '{layer}']\n")),
        ]);
        assert!(fault.starts_with("etc/holo/data/hierarchy.toml:3: layers: the layer "), "{fault}");
        assert!(fault.ends_with("would leave the directory"), "{fault}");
    }
}

#[test]
fn mistakes_are_named_with_their_line() {
    let of_hierarchy = |text| fault(&[("etc/holo/data/hierarchy.toml", text)]);
    assert_eq!(
        of_hierarchy("layers = [\n  'common',\n  'site/{{ facts.nowhere.at }}',\n]\n"),
        "etc/holo/data/hierarchy.toml:3: layers: `facts.nowhere` is undefined"
    );
    assert_eq!(
        of_hierarchy("\nlayer = []\n"),
        "etc/holo/data/hierarchy.toml:2: layer: unknown key, did you mean layers?"
    );
    assert_eq!(
        of_hierarchy("\nmerge = 'last'\n"),
        "etc/holo/data/hierarchy.toml:2: merge: expected one of first, deep, concatenate, found \"last\""
    );
    assert!(
        of_hierarchy("layers = ''\n").starts_with("etc/holo/data/hierarchy.toml:1: layers: expected a list, found")
    );
    assert!(
        of_hierarchy("[keys]\na = 'last'\n").starts_with("etc/holo/data/hierarchy.toml:2: keys.a: expected one of")
    );
    assert!(of_hierarchy("merge = 'concatenate'\n").contains(":1: merge: expected one of first, deep; lists"));
    assert!(
        of_hierarchy("[keys]\n'a..b' = 'deep'\n")
            .starts_with("etc/holo/data/hierarchy.toml:2: keys: \"a..b\" is not a key")
    );
    assert!(fault(&[("etc/holo/data/common.toml", "a = 1\nb\n")]).starts_with("etc/holo/data/common.toml:2: "));
    assert!(fault(&[("etc/holo/data/common.json", "[]")]).starts_with("etc/holo/data/common.json: "));
    assert!(
        fault(&[("etc/holo/data/common.toml/x", "")]).contains("etc/holo/data/common.toml: this is not a regular file")
    );
}

#[test]
fn a_layer_of_ones_own_is_the_most_specific() {
    let root = root(&[
        ("etc/holo/data/hierarchy.toml", "layers = [\"common\"]\n"),
        ("etc/holo/data/common.toml", "port = 80\nname = \"web\"\n"),
    ]);
    let knowledge = Knowledge::new(root.path(), None);
    let table: toml::Table = toml::from_str("port = 81\nday = 1979-05-27").unwrap();
    let own = crate::from_toml("own", table).unwrap();
    let with_own = knowledge.with_layer(Path::new("own.toml"), own);
    assert_eq!(with_own.data().unwrap().value(), &json!({"port": 81, "name": "web", "day": "1979-05-27"}));
    let origins = with_own.data().unwrap().explain(Some("port")).unwrap();
    assert_eq!(origins[0].from, [Standing { file: Path::new("own.toml"), line: None }]);
    assert_eq!((origins[0].over[0].0.line, origins[0].over[0].1), (Some(1), &json!(80)));
    assert_eq!(knowledge.data().unwrap().value()["port"], 80);
    // Facts are shared.
    assert!(std::ptr::eq(with_own.facts(), knowledge.facts()));
    assert!(crate::from_toml("own", toml::from_str("x = [nan]").unwrap()).is_err());
}

#[test]
fn layers_can_be_yaml() {
    let files = [
        ("etc/holo/data/host/web1.yml", "web:\n  port: 8080\n"),
        ("etc/holo/data/common.yaml", "web:\n  port: 80\nntp: [a, b]\n"),
        ("usr/share/holo/data/common.toml", "ntp = [\"c\"]\nmotd = \"from a package\"\n"),
        ("etc/holo/data/hierarchy.toml", "merge = \"deep\"\n"),
    ];
    assert_eq!(data(&files), json!({"web": {"port": 8080}, "ntp": ["a", "b"], "motd": "from a package"}));
    let root = root(&files);
    let data = Knowledge::new(root.path(), None);
    let data = data.data().unwrap();
    let origins = data.explain(Some("web.port")).unwrap();
    assert_eq!(origins[0].from[0].line, Some(2));
    assert!(origins[0].from[0].file.ends_with("host/web1.yml"));
    assert_eq!(origins[0].over[0].0.line, Some(2));
    assert_eq!(
        fault(&[("etc/holo/data/common.yaml", "a: 1\na: 2\n")]),
        "etc/holo/data/common.yaml:2: a: is already set in line 1"
    );
}
