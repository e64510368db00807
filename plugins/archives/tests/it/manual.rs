//! The examples of the man page, verbatim, with a test server in place of example.org.

use crate::authenticity;
use crate::support::samples::{Tar, gzip, xz, zip};
use crate::support::{apply, settled, sha256};
use holo_download::testing::{Reply, Server};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::MetadataExt;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![the_examples_do_what_the_page_says,]
}

const PAGE: &str = include_str!("../../../../man/holo-archives.8");

/// Returns the definitions in the page.
fn examples() -> Vec<String> {
    let blocks = PAGE.split(".Bd -literal").skip(1).filter_map(|block| block.split_once('\n')?.1.split_once(".Ed"));
    blocks.map(|(text, _)| text.to_owned()).filter(|text| text.starts_with("[[archive]]")).collect()
}

fn the_examples_do_what_the_page_says() {
    let app = gzip(&Tar::new().file("app-1.2/bin/app", "app\n").end());
    let suite =
        Tar::new().file("bin/app", "").file("bin/other", "").file("etc/a.conf", "").file("etc/b.conf.example", "");
    let (served, suite) = (app.clone(), suite.end());
    let server = Server::new(move |asked| match (&*asked.path, asked.header("authorization")) {
        ("/app-1.2.tar.gz", None) => Reply::of(served.clone()),
        // fred:secret
        ("/licence.key", Some("Basic ZnJlZDpzZWNyZXQ=")) => Reply::of("key\n"),
        ("/rules", None) => Reply::of(authenticity::BODY),
        ("/rules.minisig", None) => Reply::of(authenticity::SIGNATURE),
        ("/suite.tar.gz", None) => Reply::of(suite.clone()),
        ("/tool-1.2.xz", None) => Reply::of(xz(b"tool\n")),
        ("/site.zip", None) => Reply::of(zip(&[(b"index.html", 0o100_644, b"site\n")])),
        _ => Reply::new(404),
    });
    let mut examples = examples();
    assert_eq!(examples.len(), 7);
    let absent = examples.pop().unwrap();
    for example in &mut examples {
        *example = example.replace("https://example.org", &server.url(""));
        // The service to be restarted is not defined, which would cause a warning.
        *example = example.replace("notifies = [\"service:www\"]\n", "");
        if let Some((before, after)) = example.split_once("\"sha256:") {
            *example = format!("{before}{:?}{}", sha256(&app), after.split_once('"').unwrap().1);
        }
    }
    let root = ScratchRoot::new().plugin("archives").file("etc/licence.password", "secret\n");
    let us = fs::metadata("/proc/self").unwrap().uid();
    root.write("etc/passwd", format!("daemon:x:{us}:{us}::/:\n"));
    root.write("usr/share/holo/archives/examples.toml", examples.concat());
    apply(&root);
    assert_eq!(root.read("opt/app/bin/app"), "app\n");
    assert!(!root.exists("var/cache/app.tar.gz"));
    assert_eq!(root.read("srv/rules"), authenticity::BODY);
    assert_eq!(root.read("srv/licence.key"), "key\n");
    assert_eq!(fs::metadata(root.join("srv/licence.key")).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(root.read("srv/www/index.html"), "site\n");
    assert_eq!((root.exists("opt/suite/bin/app"), root.exists("opt/suite/bin/other")), (true, false));
    assert_eq!((root.exists("opt/suite/etc/a.conf"), root.exists("opt/suite/etc/b.conf.example")), (true, false));
    assert_eq!(fs::metadata(root.join("usr/local/bin/tool")).unwrap().mode() & 0o7777, 0o755);
    root.write("opt/suite/etc/a.conf", "a person's\n");
    settled(&root);
    root.write("usr/share/holo/archives/examples.toml", [&*examples[2], &examples[3], &absent].concat());
    apply(&root);
    assert!(!root.exists("opt/app") && root.exists("srv/www/index.html"));
    assert!(root.exists("opt/suite/etc/a.conf") && !root.exists("opt/suite/bin"));
    settled(&root);
}
