//! The digest and the validator of a download, as received by other entities.

use crate::support::{apply, define, root, settled, sha256};
use holo_download::testing::{Reply, Server};
use holo_testing::overlay::NEEDS;
use holo_testing::{Overlay, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::sync::{Arc, Mutex};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![digest_and_validator_are_sent];
    trials.push(trial_of("a password that is sensitive is received and not shown", NEEDS, sensitive));
    trials
}

/// Creates a root in which a file receives the value with this name from the archive.
fn with_receiver(root: &ScratchRoot, name: &str) {
    let holorc = format!(
        "plugin archives={}\nplugin files={}\n",
        built("holo-archives").display(),
        built("holo-files").display()
    );
    root.write("etc/holorc", holorc);
    let receiver = format!("[[file]]\npath = '/etc/{name}'\nreceive = {{ content = 'archive:/srv/app.tar#{name}' }}\n");
    root.write(format!("usr/share/holo/files/{name}.toml"), receiver);
}

fn digest_and_validator_are_sent() {
    let served = Arc::new(Mutex::new(("\"one\"", "first")));
    let replied = Arc::clone(&served);
    let server = Server::new(move |asked| {
        let (etag, body) = *replied.lock().unwrap();
        if asked.header("if-none-match") == Some(etag) { Reply::new(304) } else { Reply::of(body).header("ETag", etag) }
    });
    let root = root(&format!("url = {:?}", server.url("/a")));
    with_receiver(&root, "sha256");
    with_receiver(&root, "etag");
    let digest = |body: &str| sha256(body.as_bytes()).split_off("sha256:".len());
    apply(&root);
    assert_eq!((root.read("etc/sha256"), root.read("etc/etag")), (digest("first").into(), "\"one\"".into()));
    settled(&root);
    *served.lock().unwrap() = ("\"two\"", "second");
    apply(&root);
    assert_eq!((root.read("etc/sha256"), root.read("etc/etag")), (digest("second").into(), "\"two\"".into()));
    // With a checksum in the definition, a check knows the future digest.
    *served.lock().unwrap() = ("\"three\"", "third");
    define(&root, &format!("url = {:?}\nchecksum = {:?}", server.url("/b"), sha256(b"third")));
    let check = root.holo(&["check", "--diff"]);
    assert!(check.stdout_lossy().contains(&format!("+{}\n", digest("third"))), "{check}");
    assert!(check.stderr_lossy().contains("receives content from archive:/srv/app.tar, which comes first"), "{check}");
    apply(&root);
    assert_eq!(root.read("etc/sha256"), digest("third"));
}

/// Sensitive values may only be used where they are never displayed.
fn sensitive() {
    let server = Server::new(|asked| match asked.header("authorization").or(asked.header("x-token")) {
        Some("Basic am9lOmh1bnRlcjI=" | "hunter2") => Reply::of("body"),
        _ => Reply::new(401),
    });
    let system = Overlay::new();
    let line = |id: &str| format!("plugin {id}={}\n", built(&format!("holo-{id}")).display());
    system.write("/etc/holorc", line("archives") + &line("exec"));
    system.must("rm -rf /etc/holorc.d");
    system.write("/etc/secret", "hunter2\n");
    let sender = "[[exec]]\nname = 'secret'\nsensitive = true\ncommand = ['cat', '/etc/secret']\n";
    system.write("/usr/share/holo/exec/10-test.toml", sender);
    let archive = |path: &str, keys: &str| {
        let text = format!("[[archive]]\npath = '{path}'\nurl = {:?}\n{keys}\n", server.url("/a"));
        system.write("/usr/share/holo/archives/10-test.toml", text);
        let check = system.holo(&["check", "--diff", "--json"]);
        let run = system.holo(&["apply", "--json"]);
        let kept =
            system.must("find /var/lib/holo /opt/app -type f ! -name 'state.db*' -exec cat {} + 2>/dev/null || true");
        assert!(!format!("{check}{run}{kept}").contains("hunter2"), "{check}{run}{kept}");
        run
    };
    let run = archive("/opt/app/a", "username = 'joe'\nreceive = { password = 'exec:secret#stdout' }");
    assert!(run.success() && system.read("/opt/app/a") == "body", "{run}");
    let run = archive("/opt/app/b", "receive = { headers.X-Token = 'exec:secret#stdout' }");
    assert!(run.success() && system.read("/opt/app/b") == "body", "{run}");
    let run = archive("/opt/app/c", "username = 'joe'\npassword = 'x'\nreceive = { owner = 'exec:secret#stdout' }");
    let said = "owner: a sensitive value cannot be received here, because it would be shown";
    assert!(run.status == Some(1) && run.to_string().contains(said), "{run}");
}
