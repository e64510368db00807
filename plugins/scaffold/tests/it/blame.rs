//! The origins of the lines of a scaffold's files: templates, partials, data and manual changes.

use bstr::ByteSlice;
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;

const SOURCE: &str = "usr/share/holo/scaffold/app";

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name, test: fn()| trial_of(name, &[], test);
    vec![
        trial("each line says from which template and line it is", lines),
        trial("Go's templates are followed too, and files that are none", other_engines),
        trial("what is not of the scaffold is not told", others),
    ]
}

/// Returns the origin of each line.
fn blamed(root: &ScratchRoot, path: &str) -> Vec<String> {
    let run = root.holo(&["blame", path]);
    assert!(run.success(), "{run}");
    let source = format!("{}/", root.join(SOURCE).display());
    let origin = |line: &[u8]| line.split_once_str("\t").unwrap().0.to_str_lossy().replace(&source, "");
    run.stdout.lines().map(origin).collect()
}

fn lines() {
    let root = ScratchRoot::new()
        .plugin("scaffold")
        .resource(
            "scaffold/app.toml",
            "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\n[scaffold.data]\nports = [1, 2]\n",
        )
        .file(
            format!("{SOURCE}/{{{{ \"main\" }}}}.conf.jinja"),
            "first\n{% for port in data.ports %}\nlisten {{ port }};\n{% endfor %}\n{% include \"tail\" %}\nlast\n",
        )
        .file(format!("{SOURCE}/_partials/tail.jinja"), "of the tail\n{{ data.ports | length }} of them\n");
    assert!(root.holo(&["apply"]).success());
    let text = root.read("etc/app/main.conf").to_str_lossy().replace("last\n", "by hand\nlast\n");
    root.write("etc/app/main.conf", &text);
    let name = "{{ \"main\" }}.conf.jinja";
    let blamed = blamed(&root, "/etc/app/main.conf");
    let told: Vec<(&str, &str)> =
        text.lines().zip(blamed.iter().map(String::as_str)).filter(|(line, _)| !line.is_empty()).collect();
    let template = |line| format!("template {name}:{line}");
    assert_eq!(
        told,
        [
            ("first", &*format!("{name}:1")),
            ("listen 1;", &template(3)),
            ("listen 2;", &template(3)),
            ("of the tail", "_partials/tail.jinja:1"),
            ("2 of them", "template _partials/tail.jinja:2"),
            ("by hand", "edited"),
            ("last", &format!("{name}:6")),
        ],
        "{text}"
    );
}

fn other_engines() {
    let root = ScratchRoot::new()
        .plugin("scaffold")
        .resource(
            "scaffold/app.toml",
            "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\nengine = \"go\"\n[scaffold.data]\nname = \"n\"\n",
        )
        .file(format!("{SOURCE}/sub/a.conf.tmpl"), "one\nname = {{ .data.name }}\n{{ template \"p\" . }}")
        .file(format!("{SOURCE}/_partials/p.tmpl"), "partial\n")
        .file(format!("{SOURCE}/plain"), "x\ny\n");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(
        blamed(&root, "/etc/app/sub/a.conf"),
        ["sub/a.conf.tmpl:1", "template sub/a.conf.tmpl:2", "_partials/p.tmpl:1"]
    );
    assert_eq!(blamed(&root, "/etc/app/plain"), ["plain:1", "plain:2"]);
}

fn others() {
    let root = ScratchRoot::new()
        .plugin("scaffold")
        .resource("scaffold/app.toml", "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\n")
        .file(format!("{SOURCE}/a"), "a\n");
    assert!(root.holo(&["apply"]).success());
    root.write("etc/app/other", "a person's\n");
    let run = root.holo(&["blame", "/etc/app/other"]);
    assert_eq!(run.status, Some(1), "{run}");
}
