//! Compares the engine `go` with Go, and its functions with Sprig: each of thousands of templates is either rendered to
//! the same text or rejected. No template is rendered to a different text.

use holo_testing::{Need, Random, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fmt::Write;

/// Renders each template of a JSON list, and writes the results as JSON.
const PROGRAM: &str = r#"package main

import (
	"encoding/json"
	"os"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
)

type input struct {
	Data      interface{}
	Templates []string
}

type output struct {
	Text  string
	Error string
}

func plain(value interface{}) interface{} {
	switch it := value.(type) {
	case json.Number:
		if whole, err := it.Int64(); err == nil {
			return int(whole)
		}
		floating, _ := it.Float64()
		return floating
	case []interface{}:
		for index := range it {
			it[index] = plain(it[index])
		}
	case map[string]interface{}:
		for key := range it {
			it[key] = plain(it[key])
		}
	}
	return value
}

func render(text string, dot interface{}) (result output) {
	defer func() {
		if recover() != nil {
			result = output{Error: "panic"}
		}
	}()
	functions := sprig.TxtFuncMap()
	// Ours is that of Go, which takes texts too.
	delete(functions, "slice")
	parsed, err := template.New("t").Option("missingkey=error").Funcs(functions).Parse(text)
	var written strings.Builder
	if err == nil {
		err = parsed.Execute(&written, dot)
	}
	if err != nil {
		return output{Error: err.Error()}
	}
	return output{Text: written.String()}
}

func main() {
	var in input
	decoder := json.NewDecoder(os.Stdin)
	decoder.UseNumber()
	if err := decoder.Decode(&in); err != nil {
		panic(err)
	}
	dot := map[string]interface{}{"data": plain(in.Data), "Data": plain(in.Data)}
	results := []output{}
	for _, text := range in.Templates {
		results = append(results, render(text, dot))
	}
	json.NewEncoder(os.Stdout).Encode(results)
}
"#;

const DATA: &str = r#"{
    "port": 8080, "ratio": 0.5, "large": 1e21, "small": 0.00001, "negative": -3, "zero": 0, "name": "web", "empty": "",
    "text": "a \"b\" <c> & d\n\te é ✓", "on": true, "off": false, "none": null, "nothing": [], "list": [3, "a", 1.5, true, null],
    "words": ["b", "a", "c", "a"], "table": {"b": 1, "a": {"x": [1, 2]}, "c": ""}, "hosts": [{"name": "a", "ip": "1"}, {"name": "b", "ip": "2"}],
    "version": "1.24.3", "number": "017", "lines": "a: 1\nb: 2\n"
}"#;

/// Templates, each of which tests one feature.
const LISTED: &[&str] = &[
    "{{ print 1 2 }}",
    "{{ print 1 \"a\" 2 3 nil }}",
    "{{ println 1 \"a\" }}",
    "{{ 017 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1_000 }} {{ 'a' }}",
    "{{ 3.0 }} {{ 1e6 }} {{ 1e21 }} {{ 1e-7 }} {{ .data.large }} {{ .data.small }} {{ .data.ratio }}",
    "{{ printf \"%s\" 5 }}",
    "{{ printf \"%d %5d|%-5d|%05d %x %X %o %b %c %q %U\" 1 2 3 4 255 255 8 5 65 66 67 }}",
    "{{ printf \"%v %+v %#v %T\" .data.name .data.port .data.on .data.name }}",
    "{{ printf \"%6.2f|%e|%g|%v\" 3.14159 1234.5 0.00001 2.0 }}",
    "{{ printf \"%s|%10s|%-10s|%.2s|%q|%x\" \"abc\" \"abc\" \"abc\" \"abc\" \"a\\\"b\" \"abc\" }}",
    "{{ printf \"%t %v\" true .data.list }}",
    "{{ printf \"%d\" \"a\" }} {{ printf \"%d\" }} {{ printf \"a\" 1 }} {{ printf \"%!\" }} {{ printf \"%z\" 1 }}",
    "{{ printf \"%*d\" 5 1 }}",
    "{{ printf \"%[2]v %[1]v\" 1 2 }}",
    "{{ printf \"%v %v\" nil .data.table }}",
    "{{ html .data.text }}",
    "{{ js .data.text }}",
    "{{ urlquery .data.text }}",
    "{{ slice .data.name 1 }} {{ slice .data.name 1 2 }} {{ slice .data.list 1 3 }}",
    "{{ slice .data.name 5 }}",
    "{{ len .data.text }} {{ len .data.table }}",
    "{{ index .data.list 1 }} {{ index .data.table \"a\" \"x\" 1 }}",
    "{{ index .data.table \"zz\" }}",
    "{{ index .data.list 9 }}",
    "{{ .data }}",
    "{{ .data.list }} {{ .data.table }}",
    "{{ .data.none }}",
    "{{ .data.missing }}",
    "{{ if .data.missing }}a{{ end }}",
    "{{ with .data.table }}{{ .b }}{{ .a.x }}{{ else }}no{{ end }}",
    "{{ with $x := .data.port }}{{ $x }}{{ . }}{{ end }}",
    "{{ range .data.list }}[{{ . }}]{{ end }}",
    "{{ range $i, $v := .data.words }}{{ $i }}={{ $v }},{{ else }}none{{ end }}",
    "{{ range $k, $v := .data.table }}{{ $k }}:{{ $v }};{{ end }}",
    "{{ range .data.nothing }}a{{ else }}b{{ end }}",
    "{{ range .data.words }}{{ if eq . \"c\" }}{{ break }}{{ end }}{{ . }}{{ end }}",
    "{{ range .data.words }}{{ if eq . \"a\" }}{{ continue }}{{ end }}{{ . }}{{ end }}",
    "{{ define \"x\" }}<{{ . }}>{{ end }}{{ template \"x\" .data.name }}{{ template \"x\" }}",
    "{{ block \"y\" .data.port }}({{ . }}){{ end }}",
    "{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 3 }}{{ $y }}{{ end }}{{ $x }}",
    "{{ $x }}",
    "{{ eq 1 1.0 }}",
    "{{ eq 1 \"1\" }}",
    "{{ eq .data.port 80 8080 }} {{ ne 1 2 }}",
    "{{ lt 1 2 }} {{ gt \"b\" \"a\" }} {{ le 1.5 1.5 }} {{ ge 2 3 }}",
    "{{ lt 1 \"a\" }}",
    "{{ and 1 0 2 }} {{ or 0 \"\" \"x\" }} {{ not 0 }}",
    "{{ and }}",
    "{{ (index .data.hosts 1).name }}",
    "{{ .data.name.x }}",
    "{{ .data.list.x }}",
    "{{ nothing }}",
    "{{ if }}",
    "{{ end }}",
    "{{ if true }}",
    "{{ .data.name",
    "{{ \"a\nb\" }}",
    "a {{- \" b \" -}} c",
    "{{/* a comment */}}x{{- /* another */ -}} y",
    "{{ `raw \\n` }} {{ \"tab\\t\\u00e9\\x41\" }}",
    "{{ true }} {{ false }}",
    "{{ nil }}",
    "{{ .data.name | printf \"%s-%s\" \"a\" | len }}",
    "{{ call .data.name }}",
    "{{ $.data.name }}{{ range .data.words }}{{ $.data.port }}{{ end }}",
    "{{- /* */ -}}",
    "{{ 1 | 2 }}",
    "{{ print (len .data.words) .data.port }}",
    "{{ range $i, $c := .data.name }}{{ $i }}{{ end }}",
    "{{ 9223372036854775807 }} {{ -1 }} {{ +1 }}",
    "{{ 9223372036854775808 }}",
    "{{ 1.5.x }}",
    "{{ .data . }}",
    "{{ break }}",
    "{{ quote .data.text }} {{ squote \"a'b\" }} {{ quote 1 nil \"x\" }}",
    "{{ \"Hello World-foo_bar éa\" | title }}",
    "{{ upper .data.text }} {{ lower \"ÄB\" }} {{ trim \"  a \" }}",
    "{{ trimAll \"$a\" \"$5a.00a\" }} {{ trimSuffix \"-\" \"a-\" }} {{ trimPrefix \"-\" \"-a-\" }}",
    "{{ replace \"a\" \"bb\" .data.text }}",
    "{{ contains \"e\" .data.name }} {{ hasPrefix \"w\" .data.name }} {{ hasSuffix \"x\" .data.name }}",
    "{{ indent 4 .data.lines }}|{{ nindent 2 .data.lines }}",
    "{{ repeat 3 \"ab\" }}",
    "{{ substr 0 2 .data.name }} {{ substr 1 -1 .data.name }} {{ substr -1 2 .data.name }} {{ substr 1 99 .data.name }}",
    "{{ trunc 2 .data.name }} {{ trunc -2 .data.name }} {{ trunc 9 .data.name }} {{ trunc -9 .data.name }}",
    "{{ join \"-\" .data.list }} {{ join \",\" .data.words }} {{ join \",\" 5 }}",
    "{{ split \".\" .data.version }} {{ (split \".\" .data.version)._1 }} {{ splitList \".\" .data.version }} {{ splitList \"\" \"abc\" }}",
    "{{ cat 1 \"a\" nil true }}",
    "{{ default \"x\" .data.empty }} {{ default 5 0 }} {{ default 5 }} {{ .data.empty | default \"d\" }} {{ default \"a\" .data.nothing }}",
    "{{ coalesce 0 \"\" nil .data.name }}",
    "{{ empty .data.nothing }} {{ empty 1 }} {{ empty nil }}",
    "{{ ternary \"a\" \"b\" true }} {{ false | ternary \"a\" \"b\" }}",
    "{{ list 1 \"a\" nil }} {{ first .data.list }} {{ last .data.words }} {{ rest .data.words }} {{ initial .data.words }}",
    "{{ first .data.nothing }} {{ rest .data.nothing }}",
    "{{ append .data.words \"z\" }} {{ prepend .data.words \"z\" }} {{ uniq .data.words }} {{ sortAlpha .data.words }} {{ reverse .data.words }}",
    "{{ has \"a\" .data.words }} {{ has 4 .data.list }} {{ without .data.words \"a\" \"b\" }}",
    "{{ dict \"a\" 1 \"b\" }} {{ get (dict \"a\" 1) \"a\" }} {{ get (dict) \"a\" }} {{ hasKey .data.table \"a\" }}",
    "{{ $d := dict \"a\" 1 }}{{ $_ := set $d \"b\" 2 }}{{ $d }}{{ $_ = unset $d \"a\" }}{{ $d }}",
    "{{ $d := dict \"a\" 1 }}{{ set $d \"b\" 2 }}{{ $d }}",
    "{{ $d := dict \"a\" (dict \"x\" 1) \"z\" 0 }}{{ $m := merge $d (dict \"a\" (dict \"x\" 2 \"y\" 3) \"b\" 4 \"z\" 5) }}{{ $m }}{{ $d }}",
    "{{ keys (dict \"a\" 1) }} {{ values (dict \"a\" 1) }} {{ pluck \"a\" (dict \"a\" 1) (dict \"b\" 2) (dict \"a\" 3) }}",
    "{{ toString 1.0 }} {{ toString .data.list }}",
    "{{ int \"12\" }} {{ int64 3.9 }} {{ float64 \"1.5\" }} {{ int true }} {{ int \"x\" }} {{ int \"017\" }} {{ int \"0x1f\" }} {{ atoi \"017\" }} {{ atoi \"x\" }} {{ int nil }}",
    "{{ add 1 2 3 }} {{ add 1.9 \"2\" }} {{ sub 5 2 }} {{ mul 2 3 4 }} {{ div 7 2 }} {{ div -7 2 }} {{ mod -7 3 }} {{ max 1 5 3 }} {{ min 4 2 }}",
    "{{ div 1 0 }}",
    "{{ floor 1.5 }} {{ ceil 1.2 }} {{ round 123.5555 3 }} {{ round 2.5 0 }} {{ round -2.5 0 }} {{ round 123.5 0 0.6 }}",
    "{{ until 3 }} {{ until 0 }} {{ until -3 }}",
    "{{ seq 3 }} {{ seq 0 }} {{ seq -2 }} {{ seq 2 5 }} {{ seq 5 2 }} {{ seq 1 2 8 }} {{ seq 8 -3 1 }} {{ seq 1 -2 8 }}",
    "{{ toJson .data }} {{ toJson .data.text }} {{ toJson nil }} {{ toJson 1.0 }} {{ toJson 1e21 }}",
    "{{ toPrettyJson .data.table }} {{ toRawJson .data.text }}",
    "{{ (fromJson \"{\\\"a\\\": [1, 2.5, 1e7]}\").a }} {{ fromJson \"x\" }}",
    "{{ b64enc .data.text }} {{ b64enc .data.text | b64dec }}",
    "{{ b64dec \"?\" }}",
    "{{ sha256sum .data.text }}",
    "{{ regexMatch \"^w.b$\" .data.name }} {{ regexFind \"[0-9]+\" .data.version }} {{ regexReplaceAll \"([0-9])\\\\.\" .data.version \"${1}-\" }} {{ regexReplaceAll \"a(x*)b\" \"-ab-axxb-\" \"$1W\" }}",
    "{{ regexMatch \"(\" \"a\" }}",
    "{{ env \"NOTHING_OF_THAT_NAME\" }}",
    "{{ dateInZone \"2006-01-02T15:04:05Z07:00 Jan Mon MST PM 3 _2 1 06 -0700 .000\" 1700000000 \"UTC\" }}",
    "{{ dateInZone \"Monday, 02-Jan-06 15:04\" 0 \"UTC\" }}",
    "{{ semverCompare \">=1.20.0\" .data.version }} {{ semverCompare \"^1.2.0\" \"1.9.0\" }} {{ semverCompare \"~1.2.0\" \"1.3.0\" }} {{ semverCompare \"1.2.x\" \"1.2.7\" }} {{ semverCompare \">=1.0 <2.0\" \"1.5.0\" }} {{ semverCompare \"1.2\" \"1.2.9\" }} {{ semverCompare \"<1.0.0 || >=2.0.0\" \"2.1.0\" }}",
    "{{ semverCompare \">1.0.0\" \"2.0.0-rc1\" }} {{ semverCompare \"=1.2.3\" \"v1.2.3\" }} {{ semverCompare \"*\" \"1.0.0\" }} {{ semverCompare \"< 2\" \"1.9.9\" }}",
    "{{ (semver .data.version).Minor }} {{ (semver \"1.2\").Patch }} {{ (semver \"1.2.3-rc1+b\").Prerelease }}",
    "{{ fail \"no\" }}",
    "{{ kindOf .data.list }} {{ kindOf .data.table }} {{ kindOf 1 }} {{ kindOf \"\" }} {{ kindOf 1.5 }} {{ kindOf true }} {{ kindIs \"string\" \"\" }} {{ kindOf nil }}",
    "{{ typeOf .data.list }} {{ typeOf .data.table }} {{ typeOf 1 }} {{ typeOf nil }} {{ typeOf 1.0 }}",
    "{{ unixEpoch now | len }}",
    "{{ .data.name | upper | repeat 2 | quote }}",
    "{{ if and .data.on (gt .data.port 80) (contains \"e\" .data.name) }}y{{ end }}",
    "{{ range until 3 }}{{ add . 1 }}{{ end }}",
    "{{ uuidv4 }}",
];

/// Values and functions for random templates.
const VALUES: &[&str] = &[
    "1",
    "0",
    "-3",
    "2.5",
    "\"\"",
    "\"ab\"",
    "\"A b\"",
    "\"1.24.3\"",
    "true",
    "false",
    "nil",
    ".data.port",
    ".data.ratio",
    ".data.name",
    ".data.text",
    ".data.list",
    ".data.words",
    ".data.table",
    ".data.nothing",
    ".data.none",
    ".data.large",
    ".data.hosts",
    ".data",
    "\"%v\"",
    "\"%05.1f\"",
    "\"%q\"",
    "\"%x\"",
    "\"%8s|\"",
    "\"a\"",
    "2",
    "3",
    ".data.number",
];
const FUNCTIONS: &[&str] = &[
    "print",
    "println",
    "printf",
    "len",
    "index",
    "slice",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and",
    "or",
    "not",
    "html",
    "js",
    "urlquery",
    "upper",
    "lower",
    "title",
    "trim",
    "trimAll",
    "trimSuffix",
    "trimPrefix",
    "replace",
    "contains",
    "hasPrefix",
    "hasSuffix",
    "quote",
    "squote",
    "indent",
    "nindent",
    "repeat",
    "substr",
    "trunc",
    "join",
    "split",
    "splitList",
    "cat",
    "default",
    "coalesce",
    "empty",
    "ternary",
    "list",
    "first",
    "last",
    "rest",
    "initial",
    "append",
    "prepend",
    "uniq",
    "sortAlpha",
    "reverse",
    "has",
    "without",
    "dict",
    "get",
    "hasKey",
    "toString",
    "int",
    "int64",
    "float64",
    "atoi",
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "max",
    "min",
    "floor",
    "ceil",
    "round",
    "until",
    "seq",
    "toJson",
    "toPrettyJson",
    "toRawJson",
    "fromJson",
    "b64enc",
    "b64dec",
    "sha256sum",
    "regexMatch",
    "regexFind",
    "regexReplaceAll",
    "kindOf",
    "kindIs",
    "typeOf",
    "semverCompare",
];

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [
        Need::Program("go"),
        // From the package golang-github-masterminds-sprig-dev.
        Need::Path("/usr/share/gocode/src/github.com/Masterminds/sprig"),
    ];
    vec![trial_of("no template becomes another text than with Go", &needs, as_go)]
}

fn value(random: &mut Random, depth: usize) -> String {
    if depth == 0 || random.chance(55) {
        return (*random.pick(VALUES)).to_owned();
    }
    format!("({})", call(random, depth - 1))
}

fn call(random: &mut Random, depth: usize) -> String {
    let mut text = (*random.pick(FUNCTIONS)).to_owned();
    for _ in 0..random.below(4) {
        write!(text, " {}", value(random, depth)).unwrap();
    }
    text
}

fn template(random: &mut Random) -> String {
    let made = match random.below(6) {
        0 => format!("{{{{ if {} }}}}a{{{{ else }}}}b{{{{ end }}}}", value(random, 2)),
        1 => format!(
            "{{{{ range $k, $v := {} }}}}{{{{ $k }}}}={{{{ $v }}}};{{{{ else }}}}-{{{{ end }}}}",
            value(random, 2)
        ),
        2 => format!("{{{{ with {} }}}}{{{{ . }}}}{{{{ end }}}}", value(random, 2)),
        3 => format!("{{{{ {} | {} }}}}", value(random, 1), random.pick(FUNCTIONS)),
        _ => format!("{{{{ {} }}}}", call(random, 2)),
    };
    if random.chance(20) { format!("x \n{} {{{{- \" y\" }}}}", made.replacen("{{ ", "{{- ", 1)) } else { made }
}

/// Returns the result of each template: its text, or an error if it is rejected.
fn ours(templates: &[String]) -> Vec<Result<String, String>> {
    let root = ScratchRoot::new().binary(built("holo")).plugin("scaffold").file("etc/holo/data/common.json", DATA);
    let mut definitions = String::new();
    for (number, template) in templates.iter().enumerate() {
        writeln!(definitions, "[[scaffold]]\ntarget = \"/srv/{number:05}\"\nsource = \"{number:05}\"\nengine = \"go\"")
            .unwrap();
        root.write(format!("usr/share/holo/scaffold/{number:05}/t"), template);
    }
    root.write("usr/share/holo/scaffold/all.toml", definitions);
    let run = root.holo(&["apply"]);
    let said = run.stderr_lossy().into_owned();
    assert!(!said.contains("panicked"), "{run}");
    let one = |number: usize| {
        let path = format!("srv/{number:05}/t");
        if root.exists(&path) {
            return Ok(String::from_utf8(root.read(&path).into()).unwrap());
        }
        let place = format!("/scaffold/{number:05}/t:");
        let line = said.lines().find(|line| line.contains(&place));
        assert!(line.is_some(), "{number}: {said}");
        Err(line.unwrap_or_default().replace(root.path().to_str().unwrap(), ""))
    };
    (0..templates.len()).map(one).collect()
}

fn gos(templates: &[String]) -> Vec<Result<String, String>> {
    let folder = tempfile::tempdir().unwrap();
    let data: serde_json::Value = serde_json::from_str(DATA).unwrap();
    let input = serde_json::json!({ "Data": data, "Templates": templates });
    let root =
        ScratchRoot::new().env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode").env("GOCACHE", folder.path());
    root.write("main.go", PROGRAM);
    root.write("input", input.to_string());
    let script = format!("cd {} && go run main.go <input", root.path().display());
    let run = root.run("sh", &["-c", &script]);
    assert!(run.success(), "{run}");
    let results: Vec<serde_json::Value> = serde_json::from_slice(&run.stdout).unwrap();
    let one = |result: &serde_json::Value| match result["Error"].as_str().unwrap() {
        "" => Ok(result["Text"].as_str().unwrap().to_owned()),
        error => Err(error.to_owned()),
    };
    results.iter().map(one).collect()
}

fn as_go() {
    let mut random = Random::new(20);
    let count = std::env::var("HOLO_TEST_CASES").map_or(1500, |count| count.parse().unwrap());
    let mut templates: Vec<String> = LISTED.iter().map(|text| (*text).to_owned()).collect();
    templates.extend((0..count).map(|_| template(&mut random)));
    let gos = gos(&templates);
    let ours: Vec<_> = templates.chunks(100).flat_map(ours).collect();
    let (mut different, mut refused, mut rendered) = (String::new(), Vec::new(), 0);
    for ((template, ours), gos) in templates.iter().zip(&ours).zip(&gos) {
        match (ours, gos) {
            (Ok(ours), Ok(gos)) if ours == gos => rendered += 1,
            (Ok(ours), gos) => writeln!(different, "{template}\n  ours: {ours:?}\n  Go:   {gos:?}").unwrap(),
            (Err(ours), Ok(gos)) => refused.push(format!("{template}\n  ours: {ours}\n  Go:   {gos:?}")),
            (Err(_), Err(_)) => {}
        }
    }
    assert!(different.is_empty(), "{}", different.lines().map(|line| format!("{line:.300}\n")).collect::<String>());
    // Templates that Go renders are rarely rejected.
    assert!(
        refused.len() * 20 < rendered,
        "{rendered} are rendered, and {} refused:\n{}",
        refused.len(),
        refused.join("\n")
    );
}
