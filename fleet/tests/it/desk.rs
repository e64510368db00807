//! The machine of an operator, with the bundle of a web server.

use holo_testing::binaries::built;
use holo_testing::{Need, Run, ScratchRoot};
use std::ffi::OsStr;
use std::path::PathBuf;

pub(crate) const SSH: [Need; 1] = [Need::Program("ssh-keygen")];

/// The files of the example, below `web/`.
const EXAMPLE: [(&str, &str); 6] = [
    ("holo-bundle.toml", "name = \"web\"\nversion = \"1.0\"\nmin_holo = \"4.0\"\n"),
    (
        "usr/share/holo/files/50-web.toml.jinja",
        "[[file]]\npath = \"/etc/nginx/conf.d/site.conf\"\nowner = \"root\"\n\
         content = \"server_name {{ data.site }};\"\n",
    ),
    ("usr/share/holo/packages/50-web.toml", "[[package]]\nname = \"nginx\"\n"),
    (
        "usr/share/holo/services/50-web.toml",
        "[[service]]\nname = \"nginx\"\nensure = \"running\"\nafter = [\"package:nginx\"]\n",
    ),
    ("etc/holo/data/common.toml", "site = \"example.org\"\n"),
    ("etc/holorc.d/50-web", "# Nothing to add.\n"),
];

pub(crate) fn fleet() -> PathBuf {
    built("holo-fleet")
}

/// Returns a machine with the example in `web/`.
pub(crate) fn desk() -> ScratchRoot {
    // The check of a bundle finds holo there, and its plugins beside it.
    let programs = ["holo", "holo-files", "holo-packages", "holo-services"].map(built);
    let folder = programs[0].parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let desk = ScratchRoot::in_memory().env("PATH", path);
    EXAMPLE.iter().fold(desk, |desk, (path, text)| desk.file(format!("web/{path}"), text))
}

/// Runs `holo-fleet` below a root.
pub(crate) fn run(root: &ScratchRoot, arguments: &[impl AsRef<OsStr>]) -> Run {
    root.run(fleet(), arguments)
}

/// Runs `holo-fleet`, which must succeed, and returns its output.
#[track_caller]
pub(crate) fn succeed(root: &ScratchRoot, arguments: &[impl AsRef<OsStr>]) -> String {
    let run = run(root, arguments);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    run.stdout_lossy().into_owned()
}

/// Runs `holo-fleet`, which must fail, and returns its messages without the path of the root.
#[track_caller]
pub(crate) fn fail(root: &ScratchRoot, arguments: &[impl AsRef<OsStr>]) -> String {
    let run = run(root, arguments);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stdout.is_empty(), "{run}");
    run.stderr_lossy().replace(&root.path().display().to_string(), "")
}

/// Makes an SSH key, and returns its public key.
pub(crate) fn key(root: &ScratchRoot, name: &str) -> String {
    let made = root.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name]);
    assert!(made.success(), "{made}");
    root.read(format!("{name}.pub")).to_string()
}
