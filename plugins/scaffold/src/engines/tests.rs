//! Templates of Jet and Go, with their results.
use super::*;
use crate::source::Files;
use crate::template_context::{Dot, TemplateContext};
use holo_plugin::facts::Knowledge;
use holo_testing::fuzz::Target;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;

fn data() -> Value {
    json!({
        "port": 8080,
        "ratio": 0.5,
        "name": "web",
        "on": true,
        "off": false,
        "none": null,
        "nothing": [],
        "text": "{{ .data.name }}[[ data.name ]]",
        "hosts": [{"name": "a", "ip": "10.0.0.1"}, {"name": "b", "ip": "10.0.0.2"}],
        "users": {"fred": 1, "anna": 2},
        "odd-key": "x",
        "deep": {"list": [1, 2, 3]},
    })
}

fn files(root: &Path) {
    let sum = format!("{}1{}", "(".repeat(30), ")".repeat(30)) + &" + 1".repeat(80);
    let (begin, end) = ("[[ if true ]]".repeat(30), "[[ end ]]".repeat(30));
    fs::create_dir(root.join("_partials")).unwrap();
    for (name, text) in [
        ("_partials/head", "head of {{ .name }}\n"),
        ("_partials/jet-head", "head of [[ .name ]] [[ data.port ]]"),
        ("_partials/bad", "\n{{ .data.bad }}[[ data.bad ]]"),
        ("_partials/deep", &format!("{begin}[[ {sum} ]][[ include \"deep\" ]]{end}")),
        ("_partials/again", "{{ template \"again\" . }}"),
        ("_partials/host", "host={{ .Data.name }}[[ Data.name ]]"),
        ("_partials/round", "{{ render \"_partials/round\" . }}[[ render(\"_partials/round\", .) ]]"),
        ("_partials/x.jet", "jet [[ Data.port ]]"),
        ("_partials/x.templ", "go {{ .Data.port }}"),
        ("plain", "{{ text }} [[ text ]]"),
    ] {
        fs::write(root.join(name), text).unwrap();
    }
    let service = |service: &str, address: &str| json!({ "cluster": "eu", "service": service, "protocol": "http", "address": address, "port": 80, "host": "h" });
    let services = json!([service("db", "10.0.0.3"), service("web", "10.0.0.1"), service("web", "10.0.0.2")]);
    let snapshot = root.join(holo_plugin::facts::REGISTRY_SNAPSHOT);
    fs::create_dir_all(snapshot.parent().unwrap()).unwrap();
    fs::write(snapshot, services.to_string()).unwrap();
}

fn context(root: &Path) -> Arc<TemplateContext> {
    let Value::Object(table) = data() else { panic!() };
    let knowledge = Knowledge::new(root, None).with_layer(Path::new("x.toml"), table);
    Arc::new(TemplateContext::new(knowledge, Files::below_directory(root), renderer))
}

fn render_with(language: &str, delimiters: Option<&[String; 2]>, template: &str) -> Result<String, String> {
    let root = tempfile::tempdir().unwrap();
    files(root.path());
    let engine = renderer(language, context(root.path()), delimiters).unwrap().unwrap();
    // In files that serve both languages, only one of them is used.
    let rendered = engine.render("a.conf", template, Dot::All);
    rendered.map_err(|fault| fault.to_string())
}

fn render(language: &str, template: &str) -> Result<String, String> {
    render_with(language, None, template)
}

#[track_caller]
fn becomes(language: &str, cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        assert_eq!(render(language, template).as_deref(), Ok(*expected), "{template}");
    }
}

#[track_caller]
fn fails(language: &str, cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        let fault = render(language, template).unwrap_err();
        assert!(fault.contains(expected), "{template}: {fault}");
    }
}

#[test]
fn go() {
    becomes(
        "go",
        &[
            ("plain } text {\n", "plain } text {\n"),
            ("port={{ .data.port }}\n", "port=8080\n"),
            ("{{ .facts.kernel.name }}", "Linux"),
            ("{{.data.ratio}} {{.data.on}} {{ \"a\\tb\" }} {{ `{{` }}", "0.5 true a\tb {{"),
            ("{{ lookup \"hosts.1.ip\" }} {{ lookup \"nowhere\" \"x\" }}", "10.0.0.2 x"),
            ("{{ (index .data.hosts 1).name }} {{ index .data \"odd-key\" }}", "b x"),
            ("a {{- \" b \" -}} c", "a b c"),
            ("a {{/* a comment }} */}} c {{- /* another */ -}} d", "a  cd"),
            ("{{ if .data.off }}1{{ else if eq .data.name \"x\" \"web\" }}2{{ else }}3{{ end }}", "2"),
            ("{{ if and .data.on (not .data.off) (gt .data.port 80) }}yes{{ end }}", "yes"),
            ("{{ or .data.none .data.name .data.missing }}", "web"),
            ("{{ range .data.hosts }}{{ .name }}={{ $.data.name }} {{ else }}none{{ end }}", "a=web b=web "),
            ("{{ range $i, $h := .data.hosts }}{{ $i }}{{ $h.ip }},{{ end }}", "010.0.0.1,110.0.0.2,"),
            ("{{ range $name, $id := .data.users }}{{ $name }}:{{ $id }} {{ end }}", "anna:2 fred:1 "),
            ("{{ range .data.nothing }}x{{ else }}none{{ end }}", "none"),
            ("{{ with .data.hosts }}{{ len . }}{{ end }}{{ with .data.none }}x{{ else }}y{{ end }}", "2y"),
            ("{{ with $x := .data.name }}{{ $x }}{{ . }}{{ end }}", "webweb"),
            ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $x := 3 }}{{ end }}{{ $x }}", "2"),
            ("{{ .data.port | printf \"%s:%d%%\" .data.name | printf \"%q\" }}", "\"web:8080%\""),
            ("{{ print 1 \"a\" }}{{ println \"b\" -2 }}", "1ab -2\n"),
            ("{{ template \"head\" .data }}", "head of web\n"),
            // Text from data is not rendered again.
            ("{{ .data.text }}", "{{ .data.name }}[[ data.name ]]"),
        ],
    );
}

#[test]
fn registrations_are_the_same_in_all_languages() {
    let all = "eu 10.0.0.1:80,eu 10.0.0.2:80,";
    let jinja =
        "{% for s in registrations('eu', '*', 'web', '*') %}{{ s.cluster }} {{ s.address }}:{{ s.port }},{% endfor %}";
    becomes("jinja", &[(jinja, all)]);
    let go = "{{ range registrations \"eu\" \"*\" \"web\" \"*\" }}{{ .cluster }} {{ .address }}:{{ .port }},{{ end }}";
    becomes("go", &[(go, all), ("{{ len (registrations) }}", "3"), ("{{ len (registrations \"us\") }}", "0")]);
    let jet = "[[ range i, s := registrations(\"eu\", \"*\", \"web\", \"*\") ]][[ s.cluster ]] [[ s.address ]]:[[ s.port ]],[[ end ]]";
    becomes("jet", &[(jet, all), ("[[ len(registrations()) ]]", "3")]);
    let rendered = render("jinja", "{{ registrations('*', '*', 'db').prometheus_file_sd }}").unwrap();
    let targets: Value = serde_json::from_str(&rendered).unwrap();
    assert_eq!(targets[0]["targets"], json!(["10.0.0.3:80"]));
    becomes("go", &[("{{ registrations \"*\" \"*\" \"db\" | prometheus_file_sd }}", rendered.as_str())]);
    becomes("jet", &[("[[ registrations(\"*\", \"*\", \"db\").prometheus_file_sd ]]", rendered.as_str())]);
    fails("jinja", &[("{{ registrations(1) }}", "registrations takes cluster, protocol, service and address")]);
    fails("go", &[("{{ registrations \"\" \"\" \"\" \"\" \"\" }}", "registrations takes cluster, protocol")]);
    fails("jet", &[("[[ registrations(1) ]]", "a name is a string")]);
}

#[test]
fn mistakes_in_go_are_said_with_their_lines() {
    fails(
        "go",
        &[
            ("1\n2 {{ .data.missing }}\n", "a.conf:2: there is no missing"),
            (
                "{{ .data.port }}\n{{ if true }}\n{{ range .data.hosts }}\n{{ .nope }}{{ end }}{{ end }}",
                "a.conf:4: there is no nope",
            ),
            ("{{ if .data.missing }}{{ end }}", "a.conf:1: there is no missing"),
            ("x\n{{ $x }}", "a.conf:2: "),
            ("\n{{ if true }}x", "a.conf:2: this block has no end"),
            ("{{ range .data.port }}{{ end }}\n{{ nothing 1 }}", "a.conf:2: there is no function nothing"),
            ("x\n{{ end }}y", "a.conf:2: from here on"),
            ("{{ define \"x\" }}x", "a.conf:1: "),
            ("{{ uuidv4 }}", "a.conf:1: the function uuidv4 of Sprig is not supported"),
            ("{{ set .data \"a\" 1 }}", "set changes a table, which is supported for a variable"),
            ("{{ now }}", "which has no text of its own"),
            ("{{ eq .data.port \"8080\" }}", "incompatible types"),
            ("{{ fail \"that is all\" }}", "a.conf:1: that is all"),
            ("{{ lookup \"a..b\" }}", "is not a key"),
            (
                "{{ template \"nothing\" }}",
                "a.conf:1: there is no template \"nothing\", neither defined nor in _partials",
            ),
            ("{{ template \"bad\" . }}", "_partials/bad:2: there is no bad"),
            ("{{ template \"again\" . }}", "recursion limit"),
        ],
    );
}

#[test]
fn jet() {
    becomes(
        "jet",
        &[
            ("plain ]] {{ text }}\n", "plain ]] {{ text }}\n"),
            ("port=[[ data.port ]] [[ .data.name ]]\n", "port=8080 web\n"),
            ("[[ facts.kernel.name ]]", "Linux"),
            ("a {* a [[ comment ]] *}b", "a b"),
            ("a [[- \" b \" -]] c", "a b c"),
            ("[[ data.hosts[1].ip ]] [[ data[\"odd-key\"] ]]", "10.0.0.2 x"),
            ("[[ data.hosts[data.hosts[0].name == \"a\" ? 1 : 0].name]]", "b"),
            ("[[ if data.off ]]1[[ else if data.name == \"web\" && !data.off ]]2[[ else ]]3[[ end ]]", "2"),
            ("[[ if isset(data.missing) || isset(data.hosts[9]) ]]1[[ else ]]2[[ end ]]", "2"),
            ("[[ isset(data.name) ? data.name : \"none\" ]]", "web"),
            ("[[ 1 + 2 * 3 - 8 / 4 ]] [[ (1 + 2) * 3 % 4 ]] [[ -data.port ]] [[ 1 / 2.0 ]]", "5 1 -8080 0.5"),
            ("[[ data.port >= 8080 ? \"a\" + data.port : \"b\" ]]", "a8080"),
            ("[[ range data.hosts ]][[ .name ]]=[[ data.name ]] [[ end ]]", "a=web b=web "),
            ("[[ range i := data.hosts ]][[ i ]][[ .name ]] [[ end ]]", "0a 1b "),
            ("[[ range name, id := data.users ]][[ name ]]:[[ id ]] [[ end ]]", "anna:2 fred:1 "),
            ("[[ range data.nothing ]]x[[ else ]]none[[ end ]]", "none"),
            ("[[ x := data.name ]][[ x = x + 1 ]][[ x ]]", "web1"),
            ("[[ data.name | upper | replace: \"E\", \"3\" ]] [[ upper(\"a\") ]] [[ lower: \"B\" ]]", "W3B A b"),
            ("[[ len(data.hosts) ]] [[ range split(\"a,b\", \",\") ]][[ . ]];[[ end ]]", "2 a;b;"),
            ("[[ data.users | json ]] [[ data.name | raw ]]", "{\"anna\":2,\"fred\":1} web"),
            ("[[ hasPrefix(data.name, \"we\") && hasSuffix(data.name, \"b\") ]] [[ trimSpace(\" x \") ]]", "true x"),
            ("[[ replace(\"aaa\", \"a\", \"b\", 2) ]] [[ replace(\"aaa\", \"a\", \"b\", -1) ]]", "bba bbb"),
            ("[[ lookup(\"hosts.1.ip\") ]] [[ lookup(\"nowhere\", 1) ]]", "10.0.0.2 1"),
            ("[[ include \"jet-head\" data ]]", "head of web 8080"),
            ("[[ data.text ]]", "{{ .data.name }}[[ data.name ]]"),
        ],
    );
}

#[test]
fn what_jet_has_and_we_have_not_is_said() {
    fails(
        "jet",
        &[
            ("1\n2 [[ data.missing ]]\n", "a.conf:2: data.missing is undefined"),
            ("[[ missing ]]", "missing is undefined"),
            ("[[ x = 1 ]]", "x is undefined; := makes it"),
            ("[[ if x := 1; x ]][[ end ]]", "an assignment is not supported here"),
            ("[[ extends \"x\" ]]", "extends is not supported"),
            ("[[ yield x() ]]", "yield is not supported"),
            ("[[ try ]][[ end ]]", "try is not supported"),
            ("[[ with data ]][[ end ]]", "with is not supported"),
            ("[[ exec(\"x\") ]]", "there is no function exec; there are file"),
            ("[[ data.name.upper() ]]", "data.name.upper is not a function"),
            ("[[ data.hosts[0 ]]", "[[ is not closed"),
            ("[[ 1 / 0 ]]", "no result"),
            ("[[ 9223372036854775807 + 1 ]]", "no result"),
            ("[[ data.port + true ]]", "cannot be compared or put together"),
            ("[[ data.name == 1 ]]", "cannot be compared"),
            ("[[ isset(1) ]]", "isset wants names"),
            ("{* x", "the comment {* is not closed"),
            ("[[ data.name ? 1 ]]", ": is expected"),
            ("[[ range a, b, c := data.hosts ]][[ end ]]", "at most two"),
            ("[[ include \"bad\" ]]", "_partials/bad:2: data.bad is undefined"),
        ],
    );
}

#[test]
fn all_languages_have_the_same_functions() {
    for (language, open, close, call) in [
        ("go", "{{", "}}", "lookup \"facts.kernel.name\""),
        ("jet", "[[", "]]", "lookup(\"facts.kernel.name\")"),
        ("jinja", "{{", "}}", "lookup(\"facts.kernel.name\")"),
    ] {
        let render = |call: &str| render(language, &format!("{open} {call} {close}"));
        assert_eq!(render(call).as_deref(), Ok("Linux"), "{language}");
        let (begin, comma, end) = if language == "go" { (" ", " ", "") } else { ("(", ", ", ")") };
        let call = |name: &str, arguments: &[&str]| render(&format!("{name}{begin}{}{end}", arguments.join(comma)));
        assert_eq!(call("lookup", &["\"data.hosts.1.ip\""]).as_deref(), Ok("10.0.0.2"));
        assert_eq!(call("lookup", &["\"data.deep.list.#\""]).as_deref(), Ok("3"));
        assert_eq!(call("lookup", &["\"Data.missing\"", "\"x\""]).as_deref(), Ok("x"));
        assert_eq!(call("lookup", &["\"environ.NOTHING_OF_THAT_NAME\"", "\"y\""]).as_deref(), Ok("y"));
        assert!(call("lookup", &["\"data.missing\""]).unwrap_err().contains("there is nothing at data.missing"));
        for query in ["data.hosts.#.ip", "data.hosts.#(a==1)", "data.h*", "data|@reverse"] {
            let refused = call("lookup", &[&format!("{query:?}"), "1"]).unwrap_err();
            assert!(refused.contains("queries and modifiers are not supported"), "{refused}");
        }
        for name in ["readFile", "file"] {
            assert_eq!(call(name, &["\"plain\""]).as_deref(), Ok("{{ text }} [[ text ]]"));
        }
        assert_eq!(call("readFile", &["\"/plain\""]).as_deref(), Ok("{{ text }} [[ text ]]"));
        assert!(call("readFile", &["\"../plain\""]).unwrap_err().contains("leads out of"));
        assert!(call("readFile", &["\"none\""]).unwrap_err().contains("there is no file none"));
        assert_eq!(call("write", &["\"a/b\"", "\"text\""]).as_deref(), Ok(""));
        for path in ["../x", "/x", "a/../b", ""] {
            assert!(
                call("write", &[&format!("{path:?}"), "\"\""]).unwrap_err().contains("not a path below the target")
            );
        }
    }
    assert_eq!(render("go", "{{ render \"_partials/host\" . }}").as_deref(), Ok("host=web[[ Data.name ]]"));
    assert_eq!(render("jet", "[[ render(\"_partials/host\", .) ]]").as_deref(), Ok("host={{ .Data.name }}web"));
    assert!(
        render("go", "{{ render \"_partials/round\" . }}").unwrap_err().contains("_partials/round, _partials/round")
    );
    assert!(
        render("jet", "[[ render(\"_partials/round\", .) ]]")
            .unwrap_err()
            .contains("render each other more than 10 times")
    );
    assert_eq!(
        render("go", "{{ jet \"a [[ data.port ]]\" }} {{ jet \"<data.name>\" \"<\" \">\" }}").as_deref(),
        Ok("a 8080 web")
    );
    assert_eq!(render("jet", "[[ template(\"a {{ .data.port }}\") ]]").as_deref(), Ok("a 8080"));
    assert_eq!(
        render("jet", "[[ template(\"_partials/x.templ\") ]] [[ template(\"_partials/x.jet\") ]]").as_deref(),
        Ok("go 8080 jet 8080")
    );
}

#[test]
fn expressions_of_data_have_values() {
    let root = tempfile::tempdir().unwrap();
    files(root.path());
    let context = context(root.path());
    for (text, expected) in [
        ("Facts.kernel.name", json!("Linux")),
        ("lookup('data.missing', 'y')", json!("y")),
        ("data.port > 80 && !data.off ? data.port + 1 : 0", json!(8081)),
        ("'a' + \"b\" == 'ab' || false", json!(true)),
        ("data.hosts", data()["hosts"].clone()),
    ] {
        assert_eq!(jet::evaluate(text, &context).ok(), Some(expected), "{text}");
    }
    for wrong in ["", "data.", "missing", "data.port +", "lookup('data.missing')"] {
        assert!(jet::evaluate(wrong, &context).is_err(), "{wrong}");
    }
}

#[test]
fn delimiters_can_be_others() {
    let delimiters = ["<<".to_owned(), ">>".to_owned()];
    assert_eq!(render_with("go", Some(&delimiters), "<< .data.port >> {{ x }}").unwrap(), "8080 {{ x }}");
}

#[test]
fn nothing_makes_it_go_too_deep() {
    for (language, open, close) in [("go", "{{", "}}"), ("jet", "[[", "]]")] {
        let deep = |before: &str, inner: &str, after: &str, times: usize| {
            format!("{open} {}{inner}{} {close}", before.repeat(times), after.repeat(times))
        };
        assert_eq!(render(language, &deep("(", "1", ")", 30)).as_deref(), Ok("1"));
        assert!(render(language, &deep("(", "1", ")", 100_000)).is_err());
        let blocks = |times: usize| {
            format!("{open} if true {close}").repeat(times) + "x" + &format!("{open} end {close}").repeat(times)
        };
        assert_eq!(render(language, &blocks(30)).as_deref(), Ok("x"));
        assert!(render(language, &blocks(5000)).is_err());
    }
    assert!(render("jet", "[[ include \"deep\" ]]").unwrap_err().contains("include each other deeper than 8"));
    assert!(render("jet", &format!("[[ {}1 ]]", "!".repeat(100_000))).is_err());
    assert!(render("jet", &format!("[[ 1{} ]]", " + 1".repeat(100_000))).is_err());
    let branches =
        |count: usize| format!("{{{{ if 0 }}}}{}\n{{{{- else }}}}y{{{{ end }}}}", "\n{{- else if 0 }}x".repeat(count));
    assert_eq!(render("go", &branches(100)).as_deref(), Ok("y"));
    let branches = render("go", &branches(100_000)).unwrap_err();
    assert_eq!(branches, "a.conf:102: a template has at most 100 else if and else with");
    let branches = format!("[[ if 0 ]]{}[[ else ]]y[[ end ]]", "[[ else if 0 ]]x".repeat(100_000));
    assert_eq!(render("jet", &branches).as_deref(), Ok("y"));
    assert!(render("go", "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}").is_err());
    for large in ["until 99999999999", "repeat 999999999 \"aaaaaaaa\"", "indent 999999999 \"a\"", "seq 1 999999999999"]
    {
        assert_eq!(render("go", &format!("{{{{ {large} }}}}")).unwrap_err(), TOO_LARGE, "{large}");
    }
}

const TOO_LARGE: &str = "a.conf:1: a value would exceed the limit of 8 MiB";

#[test]
fn every_value_is_limited() {
    let doubled = |change: &str| {
        format!(
            "{{{{ $l := list 1 }}}}{{{{ $s := \"0123456789abcdef\" }}}}{{{{ range until 60 }}}}{{{{ {change} }}}}{{{{ end }}}}"
        )
    };
    for change in [
        "$s = print $s $s",
        "$s = printf \"%s%s\" $s $s",
        "$s = printf \"%[1]s%[1]s\" $s",
        "$s = html (print $s \"<\" $s)",
        "$s = cat $s $s",
        "$s = replace \"0\" \"00000000\" $s",
        "$s = join $s (list $s $s)",
        "$s = regexReplaceAll \".+\" $s \"$0$0$0$0$0$0$0$0\"",
        "$s = repeat 2 $s",
        "$l = list $l $l",
        "$l = dict \"a\" $l \"b\" $l",
    ] {
        assert_eq!(render("go", &doubled(change)).unwrap_err(), TOO_LARGE, "{change}");
    }
    let deep =
        render("go", &format!("{}{{{{ $l = list $l $s }}}}", doubled("$l = list $l")).replace("60", "80")).unwrap_err();
    assert_eq!(deep, "a.conf:1: lists or tables are more than 64 levels deep");
    assert_eq!(render("go", "{{ printf \"%99999999999999999999d\" 1 }}").unwrap_err(), TOO_LARGE);
    let steps = "it needs more than 100000 steps; is there an endless loop?";
    let recursive = "{{ define \"a\" }}{{ template \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}";
    assert!(render("go", recursive).is_err());
    let loops = "{{ range until 999 }}{{ range until 999 }}{{ $x := 1 }}{{ end }}{{ end }}";
    assert_eq!(render("go", &format!("\n{loops}")).unwrap_err(), format!("a.conf:2: {steps}"));
    let result = "the result exceeds the limit of 16 MiB";
    let raw = "x".repeat(1 << 20);
    assert_eq!(
        render("go", &format!("\n{{{{ range until 99 }}}}{raw}{{{{ end }}}}")).unwrap_err(),
        format!("a.conf:2: {result}")
    );

    let nested = |times: usize, body: &str| {
        format!("\n{}{body}{}", "[[ range data.deep.list ]]".repeat(times), "[[ end ]]".repeat(times))
    };
    let doubled = format!("[[ s := \"0123456789abcdef\" ]]{}", nested(4, "[[ s = s + s ]]"));
    assert_eq!(render("jet", &doubled).unwrap_err(), TOO_LARGE.replace(":1:", ":2:"));
    let doubled = doubled.replace("s + s", "replace(s, \"0\", s)");
    assert_eq!(render("jet", &doubled).unwrap_err(), TOO_LARGE.replace(":1:", ":2:"));
    assert_eq!(render("jet", &nested(12, "[[ x := 1 ]]")).unwrap_err(), format!("a.conf:2: {steps}"));
    assert_eq!(render("jet", &nested(4, &raw)).unwrap_err(), format!("a.conf:2: {result}"));
}

#[test]
fn no_text_makes_it_panic() {
    let pieces = [
        "{{", "}}", "[[", "]]", "{*", "*}", "-", " ", "\n", ".", "$", "x", "data", ".name", "\"", "`", "'", "\\", "(",
        ")", "[", "]", "|", ":=", "=", ",", "if", "range", "end", "else", "1", "ä", "/*", "*/", "!", "?", ":", "%",
        "set",
    ];
    let root = tempfile::tempdir().unwrap();
    files(root.path());
    let engines = [("go", "{{"), ("jet", "[[")]
        .map(|(language, open)| (renderer(language, context(root.path()), None).unwrap().unwrap(), open));
    let mut random = holo_testing::Random::new(7);
    for _ in 0..20_000 {
        let template: String = (0..12).map(|_| *random.pick(&pieces)).collect();
        for (engine, open) in &engines {
            drop(engine.render("x", &format!("{open}{template}"), Dot::All));
        }
    }
}

#[test]
fn no_template_makes_an_engine_panic() {
    // Without optimization, the deepest nesting that minijinja accepts needs more than the 2 MiB of a test.
    let fuzzed = thread::Builder::new().stack_size(8 << 20).spawn(|| NAMES.iter().for_each(|language| fuzz(language)));
    fuzzed.unwrap().join().unwrap();
}

fn fuzz(language: &str) {
    let words = [
        "{{",
        "}}",
        "{%",
        "%}",
        "[[",
        "]]",
        "range",
        "end",
        "endfor",
        "if",
        "include",
        "yield",
        "block",
        "define",
        "template",
        "printf",
        "repeat",
        "indent",
        "~",
        "*",
        "|",
        "(",
        ")",
        "..",
        "$x :=",
        "\"%999999999d\"",
        "-",
        "/ 0",
    ];
    let root = tempfile::tempdir().unwrap();
    files(root.path());
    let engine = renderer(language, context(root.path()), None).unwrap().unwrap();
    let target = Target::new(env!("CARGO_MANIFEST_DIR"), language).words(&words).inputs(3000);
    target.run(|input| drop(engine.render("a.conf", &String::from_utf8_lossy(input), Dot::All)));
}
