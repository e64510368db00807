//! Tests of templates.

use super::*;
use crate::Knowledge;
use std::fs;

fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in [("etc/os-release", "ID=debian\nNAME='Debian <GNU>'\n")].iter().chain(files) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

const DATA: (&str, &str) = (
    "etc/holo/data/common.toml",
    "port = 80\nodd = '{{ facts.os.id }}{% raw %}'\nhosts = {'a.b' = ['x y', \"it's\"]}\nnothing = ''\n",
);

fn templates(root: &tempfile::TempDir) -> Templates {
    Knowledge::new(root.path(), None).templates()
}

fn render(source: &str) -> Result<String, String> {
    let root = root(&[DATA]);
    templates(&root).render("x.jinja", source, &Default::default()).map_err(|fault| fault.to_string())
}

#[test]
fn nested_loops_come_to_an_end() {
    let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% set c = a * b %}{% endfor %}{% endfor %}";
    let error = render(&format!("\n{nested}")).unwrap_err();
    assert_eq!(error, "x.jinja:2: it needs more than 20000000 steps; is there an endless loop?");
    assert_eq!(render("{% for a in range(90000) %}{{ a }}{% endfor %}").unwrap().len(), 438_890);
}

#[test]
fn every_value_is_limited() {
    let doubled = |body: &str| {
        format!(
            "\n{{% set ns = namespace(s='0123456789abcdef', l=[1]) %}}{{% for i in range(60) %}}{body}{{% endfor %}}"
        )
    };
    let text = "a value would exceed the limit of 8 MiB";
    let items = "a list would have more than 1048576 items";
    let levels = "lists or tables are more than 64 levels deep";
    for (source, problem) in [
        (doubled("{% set ns.s = ns.s ~ ns.s %}"), text),
        (doubled("{% set ns.s = ns.s + ns.s %}"), text),
        (doubled("{% set ns.s = ns.s * 2 %}"), text),
        (doubled("{% set ns.s = 'x' ~ (ns.s|upper ~ ns.s)|lower if i is odd else ns.s ~ ns.s %}"), text),
        (doubled("{% set ns.s = ns.s|replace('a', 'aa') ~ ns.s|join('--') %}"), text),
        (doubled("{% set ns.s = [ns.s, ns.s]|join(ns.s) %}"), text),
        (doubled("{% set ns.s = '%s%s'|format(ns.s, ns.s) %}"), text),
        ("\n{{ ('x' * 9999999)|regex_replace('x+', '$0$0') }}".to_owned(), text),
        (
            doubled("{% set copy %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = copy %}"),
            "the template prints more than 32 MiB",
        ),
        (doubled("{% set ns.l = ns.l + ns.l %}"), items),
        (doubled("{% set ns.l = ns.l * 2 %}"), items),
        (doubled("{% set ns.l = [ns.l, ns.l] %}"), text),
        (doubled("{% set ns.l = dict(a=ns.l, b=ns.l) %}"), text),
        (
            format!(
                "{}{{% set ns.l = [ns.l] %}}{{{{ [ns.l] }}}}",
                doubled("{% for j in range(9) %}{% set ns.l = [ns.l] %}{% endfor %}")
            ),
            levels,
        ),
        ("\n{{ 'x'|indent(width=100000000000) }}".to_owned(), text),
        ("\n{{ 'x\\ny'|indent(100000000000) }}".to_owned(), text),
        ("\n{{ '%100000000000d'|format(1) }}".to_owned(), text),
        ("\n{{ '%*d'|format(100000000000, 1) }}".to_owned(), text),
        ("\n{{ [1]|batch(100000000000, 0) }}".to_owned(), text),
        ("\n{{ [1]|slice(100000000000) }}".to_owned(), text),
        ("\n{{ 'x' * 100000000000 }}".to_owned(), "repeated string is too large"),
        ("\n{{ range(100000000000) }}".to_owned(), "range has too many elements"),
        (
            "\n{% macro f(s, n) %}{{ f(s ~ s, n - 1) if n else s }}{% endmacro %}{{ f('0123456789abcdef', 30) }}"
                .to_owned(),
            text,
        ),
    ] {
        let error = render(&source).unwrap_err();
        assert_eq!(error, format!("x.jinja:2: {problem}"), "{source}");
    }
    let raw = |times: usize| format!("{{% for i in range({times}) %}}{}{{% endfor %}}", "x".repeat(1000));
    assert_eq!(render(&raw(20_000)).unwrap_err(), "x.jinja: the result exceeds the limit of 16 MiB");
    let raw = raw(99_999);
    let captured = format!("\n{{% set x %}}{raw}{{% endset %}}");
    let nested = format!("\n{{% set x %}}{{% for j in range(9) if j %}}{raw}{{% endfor %}}{{% endset %}}");
    let filtered = format!("\n{{% filter upper %}}{{% if true %}}{raw}{{% endif %}}{{% endfilter %}}");
    for source in [captured, nested, filtered] {
        assert_eq!(render(&source).unwrap_err(), "x.jinja:2: the template prints more than 32 MiB");
    }
    let root = root(&[DATA]);
    let templates = templates(&root);
    let expression = templates.expression("('x' * 9999999) ~ ('x' * 9999999) == 'x'").unwrap();
    assert!(expression.holds().unwrap_err().to_string().ends_with(text));
}

#[test]
fn expressions_may_be_long_but_not_endless() {
    let sum = |terms: usize| format!("\n{{{{ {}1 }}}}", "1 + ".repeat(terms));
    assert_eq!(render(&sum(250)).unwrap(), "\n251");
    let joined = format!("{{{{ ''{} }}}}", " ~ 'x'".repeat(250));
    assert_eq!(render(&joined).unwrap(), "x".repeat(250));
    let not = format!("\n{{{{ {}1 }}}}", "not ".repeat(100_000));
    let path = format!("\n{{{{ facts{} }}}}", ".a".repeat(100_000));
    let cases = format!("\n{{% if false %}}{}{{% endif %}}", "{% elif false %}".repeat(100_000));
    for source in [sum(100_000), not, path, cases] {
        let error = render(&source).unwrap_err();
        assert!(error.ends_with("line 2: an expression has more than 2000 operators or alternatives"), "{error}");
    }
}

#[test]
fn checks_of_values_do_not_change_them() {
    for (source, result) in [
        ("{{ 1 ~ 2 * 3 ~ 'x' }} {{ (1 + 2) * 3 }} {{ -1 ~ -2 }}", "16x 9 -1-2"),
        ("{{ [1, 2][1] }} {{ {'a': [1] + [2]}.a|length }} {{ ('a' ~ 'b')|upper ~ 'c'|upper }}", "2 2 ABC"),
        ("{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }};{% endfor %}", "3;7;"),
        ("{% for a in ('b' ~ 'c')|list if a == 'c' %} {{ a }}{% else %}-{% endfor %}", " c"),
        ("{% for a in [{'x': [1, 2]}][0].x[1:] recursive %}<{{ a }}>{% endfor %}", "<2>"),
        ("{% set recursive = [1] %}{% for a in recursive recursive %}{{ a }}r{% endfor %}", "1r"),
        ("{% set recursive = [1] %}{% for a in recursive + recursive %}{{ a }}r{% endfor %}", "1r1r"),
        ("{% for a in ['x']if a in['x'] and a not in'' recursive%}{{ a }}r{% endfor %}", "xr"),
        ("{% for a in (([1]) + [2]) %}<{{ a }}>{% endfor %}{% for c in 'ab' %}{{ c }},{% endfor %}", "<1><2>a,b,"),
        (
            "{% for a in x|default([3]) %}<{{ a }}>{% else %}-{% endfor %}{% for a in dict(b=1) %}<{{ a }}>{% endfor %}",
            "<3><b>",
        ),
        ("{% macro f(a, b='x' ~ 'y') %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1] + [2]) }} {{ f('a' ~ 'b') }}", "12 abxy"),
        ("{% set x = 'a' ~ 1 if false or true else 'b' ~ 2 -%}  {{- x -}}  {{ x[0 + 0:1 + 0] }}", "a1a"),
        ("{{ ['b', 'a']|sort|join('-') }} {{ 'x'|indent(2, true) }} {{ '%03d'|format(7) }}", "a-b   x 007"),
        ("{{ range(3)|map('string')|list ~ '' }}{{ [1, 2]|batch(2, 0) }}", "['0', '1', '2'][[1,2]]"),
    ] {
        assert_eq!(render(source).unwrap(), result, "{source}");
    }
    for source in ["\n\n{{ no_such ~ 'x' }}", "\n\n{% for x in no_such %}raw{% endfor %}"] {
        assert_eq!(render(source).unwrap_err(), render("\n\n{{ no_such }}").unwrap_err());
    }
}

#[test]
fn facts_data_and_lookup_are_in_scope() {
    assert_eq!(render("{{ facts.os.id }}:{{ data.port + 1 }}\n").unwrap(), "debian:81\n");
    assert_eq!(render("{{ lookup('port') }} {{ lookup('no.such', 7) }}").unwrap(), "80 7");
    assert_eq!(render("{{ lookup('hosts.\"a.b\".0') }}\n\n").unwrap(), "x y\n\n");
    assert_eq!(render("{{ true }} {{ 1.0 }} {{ none }} {{ [true, 'x'] }}").unwrap(), r#"true 1.0 null [true,"x"]"#);
    assert_eq!(render("{% for key in data %}{{ key }} {% endfor %}").unwrap(), "hosts nothing odd port ");
    assert_eq!(render("{{ data.x is defined }} {{ data.x | default('d') }}").unwrap(), "false d");
}

#[test]
fn nothing_is_escaped_and_nothing_is_rendered_twice() {
    assert_eq!(render("{{ facts.os.name }}").unwrap(), "Debian <GNU>");
    let twice = "{{ facts.os.id }}{% raw %}";
    assert_eq!(render("{{ data.odd }}").unwrap(), twice);
    assert_eq!(render("{{ lookup('odd') }}{{ '{{ 1 }}' }}").unwrap(), format!("{twice}{{{{ 1 }}}}"));
    assert_eq!(render("${VAR} {% raw %}{{ as it is }}{% endraw %}").unwrap(), "${VAR} {{ as it is }}");
    let root = root(&[DATA]);
    let more = serde_json::json!({"input": "{{ facts.os.id }}\n"});
    assert_eq!(templates(&root).render("x", "{{ input }}", more.as_object().unwrap()).unwrap(), "{{ facts.os.id }}\n");
}

#[test]
fn undefined_names_come_with_their_line() {
    let undefined = |source: &str| render(source).unwrap_err();
    assert_eq!(undefined("a\n{{ facts.os.nothing }}"), "x.jinja:2: `facts.os.nothing` is undefined");
    assert_eq!(undefined("{{ nothing.at.all }}"), "x.jinja:1: `nothing` is undefined");
    assert_eq!(undefined("{% if data.x %}{% endif %}"), "x.jinja:1: `data.x` is undefined");
    assert_eq!(undefined("\n\n{{ lookup('no.such') }}"), "x.jinja:3: there is no data at no.such");
    assert_eq!(undefined("{{ lookup('') }}"), "x.jinja:1: \"\" is not a key: a part of it is empty");
    assert!(undefined("\n{% if %}").starts_with("x.jinja:2: syntax error: "));
    assert!(undefined("{{ 1 | nosuch }}").starts_with("x.jinja:1: unknown filter: "));
}

#[test]
fn facts_and_data_are_asked_for_only_if_a_template_uses_them() {
    let root = root(&[("etc/holo/facts.d/x.toml", "="), ("etc/holo/data/common.toml", "=")]);
    let knowledge = Knowledge::new(root.path(), None);
    let templates = knowledge.templates();
    let render = |source| templates.render("x", source, &Default::default());
    assert_eq!(render("{{ 1 + 1 }}{% if false %}{{ facts.os.id }}{{ data.x }}{% endif %}").unwrap(), "2");
    assert_eq!(knowledge.take_warnings(), []);
    assert_eq!(render("{{ facts.os.id }}").unwrap(), "debian");
    assert_eq!(knowledge.take_warnings().len(), 1);
    assert_eq!(render("{{ facts.os.id }}").unwrap(), "debian");
    assert_eq!(knowledge.take_warnings(), []);
    for source in ["{{ data.x }}", "{{ data }}", "{% for x in data %}{{ x }}{% endfor %}", "{{ lookup('x', 1) }}"] {
        let fault = render(source).unwrap_err().to_string();
        assert!(fault.starts_with("x:1: ") && fault.contains("common.toml:1: "), "{source}: {fault}");
    }
    assert!(templates.expression("data.x").unwrap().holds().unwrap_err().text.contains("common.toml:1: "));
}

#[test]
fn filters_write_what_configuration_files_want() {
    assert_eq!(render("{{ data.hosts | tojson }}").unwrap(), r#"{"a.b":["x y","it's"]}"#);
    assert_eq!(render("{{ facts.os.name | tojson }}").unwrap(), r#""Debian <GNU>""#);
    assert_eq!(render("{{ [1] | tojson(indent=2) }}").unwrap(), "[\n  1\n]");
    assert_eq!(render("{{ data.hosts | toml }}").unwrap(), r#"{ "a.b" = ["x y", "it's"] }"#);
    assert_eq!(render("{{ 'a' | toml }} {{ 80 | toml }} {{ [true] | toml }}").unwrap(), r#""a" 80 [true]"#);
    assert_eq!(render("{{ 'x y' | quote }} {{ 1 | quote }} {{ data.nothing | quote }}").unwrap(), "'x y' 1 ''");
    assert_eq!(render("{{ data.hosts['a.b'] | quote }}").unwrap(), r#"'x y' "it's""#);
    assert!(render("{{ none | toml }}").unwrap_err().starts_with("x.jinja:1: "));
    assert!(render("{{ {} | quote }}").unwrap_err().starts_with("x.jinja:1: "));
    for source in ["data.x | quote", "data.x | tojson", "[[data.x]] | tojson", "{'a': data.x} | toml", "[data.x]"] {
        let fault = render(&format!("{{{{ {source} }}}}")).unwrap_err();
        assert_eq!(fault, "x.jinja:1: the value is undefined", "{source}");
    }
}

#[test]
fn expressions_are_true_or_false() {
    let root = root(&[DATA]);
    let templates = templates(&root);
    let holds =
        |text: &str| templates.expression(text).and_then(|expression| expression.holds()).map_err(|f| f.to_string());
    for (text, truth) in [
        ("facts.os.id == 'debian' and lookup('port') > 79", true),
        ("facts.os.id in ['fedora', 'rhel']", false),
        ("'x y' in data.hosts['a.b']", true),
        ("data.nothing", false),
        ("data.port", true),
        ("0", false),
        ("[]", false),
        ("none", false),
        ("data.x is defined", false),
        ("lookup('web', false)", false),
        // A string stays a string, whatever it looks like.
        ("data.odd", true),
        ("'false'", true),
    ] {
        assert_eq!(holds(text), Ok(truth), "{text}");
    }
    assert_eq!(holds("facts.nothing").unwrap_err(), "facts.nothing: this is undefined");
    assert_eq!(holds("not nothing").unwrap_err(), "not nothing: `nothing` is undefined");
    assert!(holds("1 +").unwrap_err().starts_with("1 +: syntax error: "));
    assert!(holds("").is_err());
}

#[test]
fn delimiters_can_be_others() {
    let root = root(&[DATA]);
    let templates = templates(&root).with_delimiters("[[", "]]").unwrap();
    let source = "[# no #]{{ as it is }} [% if true %][[ facts.os.id ]][% endif %]\n";
    assert_eq!(templates.render("x", source, &Default::default()).unwrap(), "{{ as it is }} debian\n");
    let error = |open, close| self::templates(&root).with_delimiters(open, close).map(|_| ()).unwrap_err().to_string();
    assert!(error("", "]]").starts_with("delimiters \"\" and \"]]\": "));
}

#[test]
fn partials_come_from_whoever_gives_them() {
    let root = root(&[DATA]);
    let templates = templates(&root).with_partials(|name| match name {
        "good" => Ok(Some("port {{ data.port }}\n".to_owned())),
        "bad" => Ok(Some("\n{{ nothing }}".to_owned())),
        "long" => Ok(Some("x".repeat(1 << 20))),
        "denied" => Err(io::Error::from_raw_os_error(13)),
        _ => Ok(None),
    });
    let render = |source| templates.render("x", source, &Default::default()).map_err(|fault| fault.to_string());
    assert_eq!(render("{% include 'good' %}").unwrap(), "port 80\n");
    assert_eq!(render("{% include 'bad' %}").unwrap_err(), "bad:2: `nothing` is undefined");
    assert_eq!(render("\n{% include 'denied' %}").unwrap_err(), "x:2: denied: permission denied");
    let long = "\n{% set x %}{% for i in range(99) %}{% include 'long' %}{% endfor %}{% endset %}";
    assert_eq!(render(long).unwrap_err(), "long:1: the template prints more than 32 MiB");
    assert!(render("{% include 'none' %}").unwrap_err().contains("none"));
}

#[test]
fn filters_for_configuration_files() {
    let json = serde_json::json!({"table": {"a": 1, "b": {"c": [1, "x: y"]}}, "other": {"b": {"d": 2}}, "net": "192.0.2.77/26"});
    let serde_json::Value::Object(scope) = json else { panic!() };
    let render = |template: &str| Templates::new().render("t", template, &scope).map_err(|error| error.to_string());
    for (template, expected) in [
        ("{{ table | to_json }}", r#"{"a":1,"b":{"c":[1,"x: y"]}}"#),
        ("{{ 'aé' | b64encode }} {{ 'YcOp' | b64decode }}", "YcOp aé"),
        (r"{{ 'v1.24' | regex_replace('v(\\d+)\\.(?P<minor>\\d+)', '\\1-${minor}-$1') }}", "1-24-1"),
        ("{{ table | combine(other) | to_json }}", r#"{"a":1,"b":{"d":2}}"#),
        ("{{ table | combine(other, {'a': 2}, recursive=true) | to_json }}", r#"{"a":2,"b":{"c":[1,"x: y"],"d":2}}"#),
        ("{{ 'a' | hash }}", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
        ("{{ ('a' | hash('sha512'))[:8] }}", "1f40fc92"),
        ("{{ net | ipaddr('network') }}/{{ net | ipaddr('prefix') }}", "192.0.2.64/26"),
        ("{{ net | ipaddr('netmask') }} {{ net | ipaddr('broadcast') }}", "255.255.255.192 192.0.2.127"),
        ("{{ '0.0.0.0/0' | ipaddr('netmask') }} {{ '10.0.0.1' | ipaddr('broadcast') }}", "0.0.0.0 10.0.0.1"),
        ("{{ '2001:db8::5/64' | ipaddr('network') }} {{ '::1' | ipaddr('version') }}", "2001:db8:: 6"),
    ] {
        assert_eq!(render(template).as_deref(), Ok(expected), "{template}");
    }
    let yaml = render("{{ table | to_yaml }}").unwrap();
    assert_eq!(
        crate::from_yaml("t", yaml.as_bytes()).map(serde_json::Value::Object).as_ref(),
        Ok(&scope["table"]),
        "{yaml}"
    );
    for (template, words) in [
        ("{{ '?' | b64decode }}", "not base 64"),
        ("{{ 'a' | regex_replace('(', '') }}", "is not a valid pattern"),
        ("{{ 1 | combine({}) }}", "combine requires tables"),
        ("{{ 'a' | hash('md5') }}", "sha256 and sha512"),
        ("{{ '1.2.3.4/33' | ipaddr }}", "is not an address"),
        ("{{ net | ipaddr('size') }}", "ipaddr supports address"),
        ("{{ nothing | to_yaml }}", "undefined"),
    ] {
        let error = render(template).unwrap_err();
        assert!(error.contains(words), "{template}: {error}");
    }
}
