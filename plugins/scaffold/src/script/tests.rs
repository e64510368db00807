//! Templates of both languages, with what becomes of them.
use super::*;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

fn scripts(dialect: Dialect, root: &Path) -> Scripts {
    let json = json!({
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
    });
    let serde_json::Value::Object(table) = json else { panic!() };
    let (open, close) = dialect.delimiters();
    Scripts {
        dialect,
        delimiters: (open.to_owned(), close.to_owned()),
        knowledge: Knowledge::new(root, None).with_layer(Path::new("x.toml"), table),
        partials: Arc::new(|name| match name {
            "head" => Ok(Some("head of {{ .name }}\n".to_owned())),
            "jet-head" => Ok(Some("head of [[ .name ]] [[ data.port ]]".to_owned())),
            "bad" => Ok(Some("\n{{ .data.bad }}[[ data.bad ]]".to_owned())),
            "deep" => {
                let sum = format!("{}1{}", "(".repeat(30), ")".repeat(30)) + &" + 1".repeat(80);
                let (begin, end) = ("[[ if true ]]".repeat(30), "[[ end ]]".repeat(30));
                Ok(Some(format!("{begin}[[ {sum} ]][[ include \"deep\" ]]{end}")))
            }
            "again" => Ok(Some("{{ template \"again\" . }}".to_owned())),
            _ => Ok(None),
        }),
    }
}

fn render(dialect: Dialect, template: &str) -> Result<String, String> {
    let root = tempfile::tempdir().unwrap();
    scripts(dialect, root.path()).render("a.conf", template).map_err(|fault| fault.to_string())
}

#[track_caller]
fn becomes(dialect: Dialect, cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        assert_eq!(render(dialect, template).as_deref(), Ok(*expected), "{template}");
    }
}

#[track_caller]
fn fails(dialect: Dialect, cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        let fault = render(dialect, template).unwrap_err();
        assert!(fault.contains(expected), "{template}: {fault}");
    }
}

#[test]
fn go() {
    becomes(
        Dialect::Go,
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
            // Text that comes from data is not rendered.
            ("{{ .data.text }}", "{{ .data.name }}[[ data.name ]]"),
        ],
    );
}

#[test]
fn what_go_has_and_we_have_not_is_said() {
    fails(
        Dialect::Go,
        &[
            ("1\n2 {{ .data.missing }}\n", "a.conf:2: .data.missing is undefined"),
            ("{{ .facts.missing.x }}", "a.conf:1: .facts.missing is undefined"),
            ("{{ .missing }}", ".missing is undefined"),
            ("{{ $x }}", "$x is undefined"),
            ("{{ if .data.missing }}{{ end }}", "undefined"),
            ("\n{{ if true }}x", "a.conf:2: this if has no end"),
            ("x{{ end }}", "there is nothing that this end could belong to"),
            ("{{ if true }}{{ else }}{{ else }}{{ end }}", "another else"),
            ("{{ range .data.hosts }}{{ else if true }}{{ end }}", "unexpected if"),
            ("{{ .data.port", "{{ is not closed"),
            ("{{ \"a }}", "\" is not closed"),
            ("{{ /* x }}", "not closed"),
            ("{{ define \"x\" }}{{ end }}", "define is not supported"),
            ("{{ block \"x\" . }}{{ end }}", "block is not supported"),
            ("{{ range .data.hosts }}{{ break }}{{ end }}", "break is not supported"),
            ("{{ urlquery \"x\" }}", "there is no function urlquery; there are and, eq"),
            ("{{ printf \"%5d\" 1 }}", "only %s, %v, %d, %q and %% are supported"),
            ("{{ printf \"%d\" }}", "too few"),
            ("{{ printf \"x\" 1 }}", "too many"),
            ("{{ .data.hosts }}", ".data.hosts is a list, which has no text of its own"),
            ("{{ .data.none }}", "is null"),
            ("{{ . }}", "everything there is"),
            ("{{ range .data.port }}{{ end }}", ".data.port is a number; range wants a list or a table"),
            ("{{ eq .data.port \"8080\" }}", "a number and a string cannot be compared"),
            ("{{ lt .data.hosts 1 }}", "cannot be compared"),
            ("{{ index .data.hosts 7 }}", "a list has nothing at 7"),
            ("{{ index .data.hosts -1 }}", "a list has nothing at -1"),
            ("{{ lookup \"a..b\" }}", "is not a key"),
            ("{{ lookup \"nowhere\" }}", "there is no data at nowhere"),
            ("{{ 'a' }}", "character constants"),
            ("{{ 0x1f }}", "0x1f is not a supported number"),
            ("{{ .data.name .data.port }}", "not a function"),
            ("{{ . | 1 }}", "a function is expected after |"),
            ("{{ }}", "a value is expected"),
            ("{{ template \"nothing\" }}", "there is no template \"nothing\""),
            ("{{ template \"bad\" . }}", "_partials/bad:2: .data.bad is undefined"),
            ("{{ template \"again\" . }}", "deeper than 8"),
            ("{{ # }}", "unexpected '#'"),
        ],
    );
}

#[test]
fn jet() {
    becomes(
        Dialect::Jet,
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
        Dialect::Jet,
        &[
            ("1\n2 [[ data.missing ]]\n", "a.conf:2: data.missing is undefined"),
            ("[[ missing ]]", "missing is undefined"),
            ("[[ x = 1 ]]", "x is undefined; := makes it"),
            ("[[ if x := 1; x ]][[ end ]]", "an assignment is not supported here"),
            ("[[ extends \"x\" ]]", "extends is not supported"),
            ("[[ yield x() ]]", "yield is not supported"),
            ("[[ try ]][[ end ]]", "try is not supported"),
            ("[[ with data ]][[ end ]]", "with is not supported"),
            ("[[ exec(\"x\") ]]", "there is no function exec; there are hasPrefix"),
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
fn delimiters_can_be_others() {
    let root = tempfile::tempdir().unwrap();
    let mut scripts = scripts(Dialect::Go, root.path());
    scripts.delimiters = ("<<".to_owned(), ">>".to_owned());
    assert_eq!(scripts.render("x", "<< .data.port >> {{ x }}").unwrap(), "8080 {{ x }}");
}

#[test]
fn nothing_makes_it_go_too_deep() {
    for dialect in [Dialect::Go, Dialect::Jet] {
        let (open, close) = dialect.delimiters();
        let deep = |before: &str, inner: &str, after: &str, times: usize| {
            format!("{open} {}{inner}{} {close}", before.repeat(times), after.repeat(times))
        };
        assert_eq!(render(dialect, &deep("(", "1", ")", 30)).as_deref(), Ok("1"));
        assert!(render(dialect, &deep("(", "1", ")", 100_000)).is_err());
        assert!(render(dialect, &deep("", "1", " + 1", 100_000)).is_err());
        let blocks = |times: usize| {
            format!("{open} if true {close}").repeat(times) + "x" + &format!("{open} end {close}").repeat(times)
        };
        assert_eq!(render(dialect, &blocks(30)).as_deref(), Ok("x"));
        assert!(render(dialect, &blocks(31)).unwrap_err().contains("deeper than 30"));
    }
    assert!(render(Dialect::Jet, "[[ include \"deep\" ]]").unwrap_err().contains("include each other deeper than 8"));
    assert!(render(Dialect::Jet, &format!("[[ {}1 ]]", "!".repeat(100_000))).is_err());
}

#[test]
fn no_text_makes_it_panic() {
    let pieces = [
        "{{", "}}", "[[", "]]", "{*", "*}", "-", " ", "\n", ".", "$", "x", "data", ".name", "\"", "`", "'", "\\", "(",
        ")", "[", "]", "|", ":=", "=", ",", "if", "range", "end", "else", "1", "ä", "/*", "*/", "!", "?", ":", "%",
    ];
    // A walk without a goal, the same each time.
    let mut state = 88_172_645_463_325_252_u64;
    for _ in 0..20_000 {
        let mut template = String::new();
        for _ in 0..12 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            template.push_str(pieces[usize::try_from(state % pieces.len() as u64).unwrap()]);
        }
        for (dialect, open) in [(Dialect::Go, "{{"), (Dialect::Jet, "[[")] {
            let parsed = parser::parse(
                lexer::parts(&format!("{open}{template}"), dialect, dialect.delimiters()).unwrap_or_default(),
                dialect,
            );
            drop(parsed);
        }
    }
}
