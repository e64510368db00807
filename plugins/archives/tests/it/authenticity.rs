//! Checksums from a list next to the download, and signatures by minisign and OpenPGP.

use crate::support::{apply, define, fails, root, settled, sha256};
use holo_download::testing::{Reply, Server};
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::sync::{Arc, Mutex};

/// A case: its claim, its requirements, and the test.
type Case = (&'static str, &'static [Need], fn());

/// The current contents on a server; the last one for a path is used.
type Contents = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

pub(crate) fn trials() -> Vec<Trial> {
    const SUMS: &[Need] = &[Need::Program("sha256sum"), Need::Program("sha512sum"), Need::Program("b2sum")];
    const GNUPG: &[Need] = &[Need::Program("gpg"), Need::Program("gpgv")];
    let cases: [Case; 9] = [
        ("the checksum is the one that a list has", &[], listed),
        ("a list may have another file of the same name", &[], namesakes),
        ("a list that contradicts itself is refused", &[], contradictions),
        ("lists in every form that sha256sum writes are read", SUMS, forms_of_lists),
        ("a list that cannot be asked does not undo what is there", &[], list_is_gone),
        ("a signature of minisign is verified before the download takes its place", &[], minisign),
        ("a list of checksums is signed in place of the download", &[], signed_list),
        ("a signature of OpenPGP is verified by gpgv", GNUPG, openpgp),
        ("signatures of revoked and expired keys, and of broken digests, are refused", GNUPG, untrustworthy_signatures),
    ];
    cases.into_iter().map(|(name, needs, test)| trial_of(name, needs, test)).collect()
}

pub(crate) const BODY: &[u8] = b"The quick brown fox jumps over the lazy dog.\n";
pub(crate) const KEY: &str = "RWRob2xvdGVzdFXG6H/E4mjZbOYbcFcv1om4H892LvC8v+MTgCq1r2em";
/// The signature of the body by the key.
pub(crate) const SIGNATURE: &str = "untrusted comment: a signature
RURob2xvdGVzdM2e6foX3P4+R+VZWKtspiNcoxQdW4TVURIFUa3622rU5wgBWN4U9/vT1MB/RNXqMsMmk0xap9wOweNOTJ2/0wg=
trusted comment: made for a test
Zl1cFJdxHv6DVRUMx4wruEXoPprTfWRQNvS6Npo3kw0h94SjR48B8k9LfXgk3vBMLTmueo/yTJU1JrMX+RycAQ==
";

/// A server whose files can be changed.
fn server(files: &[(&str, &[u8])]) -> (Server, Contents) {
    let files = files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect();
    let files = Arc::new(Mutex::new(files));
    let served: Contents = Arc::clone(&files);
    let server = Server::new(move |asked| {
        let found = served.lock().unwrap().iter().rev().find(|(path, _)| *path == asked.path).cloned();
        found.map_or_else(|| Reply::new(404), |(_, content)| Reply::of(content))
    });
    (server, files)
}

fn list(content: &[u8]) -> Vec<u8> {
    format!("{}  app.tar\n{}  other\n", &sha256(content)[7..], "0".repeat(64)).into_bytes()
}

fn set(files: &Contents, path: &str, content: &[u8]) {
    files.lock().unwrap().push((path.to_owned(), content.to_vec()));
}

fn listed() {
    let (server, files) = server(&[("/app.tar", b"one"), ("/SUMS", &list(b"one"))]);
    let keys = format!("url = {:?}\nchecksum_url = {:?}", server.url("/app.tar"), server.url("/SUMS"));
    let root = root(&keys);
    let check = root.holo(&["check"]);
    assert!(check.stdout_lossy().contains("would download") && server.asked().is_empty(), "{check}");
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "one");
    settled(&root);
    set(&files, "/app.tar", b"two");
    assert_eq!(
        root.holo(&["check"]).status,
        Some(3),
        "the list is not asked, and what is there is not known to be the newest"
    );
    set(&files, "/SUMS", &list(b"two"));
    define(&root, &format!("{keys}\nonline = true"));
    let check = root.holo(&["check"]);
    assert!(check.stdout_lossy().contains("would download"), "{check}");
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "two");
    // A download that does not match the list is refused.
    set(&files, "/SUMS", &list(b"three"));
    fails(&root, "the checksum is sha256:");
    set(&files, "/SUMS", b"nothing\n");
    fails(&root, "has no checksum of app.tar");
    assert_eq!(root.read("srv/app.tar"), "two");
    define(&root, &format!("{keys}\nchecksum = {:?}", sha256(b"two")));
    fails(&root, "cannot be given together with checksum");
}

fn namesakes() {
    let vulnerable = format!("{}  archive/1.0-vulnerable/app.tar\n", &sha256(b"vulnerable")[7..]);
    let (server, files) = server(&[("/dist/app.tar", b"vulnerable"), ("/SUMS", vulnerable.as_bytes())]);
    let root = root(&format!("url = {:?}\nchecksum_url = {:?}", server.url("/dist/app.tar"), server.url("/SUMS")));
    fails(&root, "has no checksum of app.tar");
    assert!(!root.exists("srv/app.tar"));
    set(&files, "/SUMS", &[vulnerable.as_bytes(), &list(b"one")].concat());
    fails(&root, "the checksum is sha256:");
    assert!(!root.exists("srv/app.tar"));
    set(&files, "/dist/app.tar", b"one");
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "one");
}

fn contradictions() {
    let both = [list(b"one"), list(b"two")].concat();
    let (server, files) = server(&[("/dist/app.tar", b"one"), ("/SUMS", &both)]);
    let root = root(&format!("url = {:?}\nchecksum_url = {:?}", server.url("/dist/app.tar"), server.url("/SUMS")));
    let words = "SUMS: lines 1 and 3 have different checksums of app.tar";
    fails(&root, words);
    assert!(!root.exists("srv/app.tar"));
    let other_spelling = format!("{}  ./dist/app.tar\n", &sha256(b"two")[7..]);
    set(&files, "/SUMS", &[&list(b"one"), other_spelling.as_bytes()].concat());
    fails(&root, words);
    // A duplicated line is not a contradiction.
    set(&files, "/SUMS", &[list(b"one"), list(b"one")].concat());
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "one");
}

fn forms_of_lists() {
    let home = ScratchRoot::new();
    // The name in the list, and the path of the URL.
    let names = [
        ("app.tar", "/pub/app.tar"),
        ("./dist/app.tar", "/pub/dist/app.tar"),
        ("dist/*app (new) = .tar", "/pub/dist/*app%20(new)%20=%20.tar"),
        ("back\\slash.tar", "/pub/back%5Cslash.tar"),
        ("two\nlines.tar", "/pub/two%0Alines.tar"),
    ];
    for (name, path) in names {
        home.write(name.trim_start_matches("./"), BODY);
        // The digest of another file comes first, as do digests of other algorithms.
        home.write("other", "other");
        for command in ["sha256sum", "sha256sum --binary", "sha256sum --tag", "sha512sum", "sha512sum --tag"] {
            let script = format!("b2sum --tag -- \"$1\"; {command} -- other \"$1\"");
            let written = home.run("sh", &["-c", &script, "sh", name]);
            assert!(written.success(), "{written}");
            let (server, _) = server(&[(path, BODY), ("/SUMS", &written.stdout)]);
            let root = root(&format!("url = {:?}\nchecksum_url = {:?}", server.url(path), server.url("/SUMS")));
            let run = apply(&root);
            assert_eq!(root.read("srv/app.tar"), BODY, "{written}: {run}");
        }
    }
}

fn list_is_gone() {
    let (server, files) = server(&[("/app.tar", b"one"), ("/SUMS", &list(b"one"))]);
    let root = root(&format!("url = {:?}\nchecksum_url = {:?}", server.url("/app.tar"), server.url("/SUMS")));
    apply(&root);
    files.lock().unwrap().clear();
    let run = apply(&root);
    assert!(run.stderr_lossy().contains("going on with the checksum of the last time"), "{run}");
    assert_eq!(run.stdout_lossy().matches("downloaded").count(), 0, "{run}");
    fs::remove_file(root.join("srv/app.tar")).unwrap();
    fails(&root, "404");
}

fn minisign() {
    let (server, files) = server(&[("/app.tar", b"something else"), ("/app.tar.minisig", SIGNATURE.as_bytes())]);
    let url = server.url("/app.tar");
    let keys = format!("url = {url:?}\nsignature_url = {:?}\nminisign_key = {KEY:?}", server.url("/app.tar.minisig"));
    let root = root(&keys).file("srv/app.tar", "a person's\n");
    fails(&root, &format!("{url}: its signature is wrong"));
    assert_eq!(root.read("srv/app.tar"), "a person's\n");
    assert!(!root.exists("srv/app.tar.holopart"), "{}", root.dump());
    set(&files, "/app.tar", BODY);
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), BODY);
    settled(&root);
    set(&files, "/app.tar.minisig", b"no signature");
    settled(&root);
    fs::remove_file(root.join("srv/app.tar")).unwrap();
    fails(&root, "its signature is not one of minisign");
    // A matching checksum does not imply a signature.
    root.write("srv/app.tar", BODY);
    define(&root, &format!("{keys}\nchecksum = {:?}", sha256(BODY)));
    set(&files, "/app.tar.minisig", SIGNATURE.as_bytes());
    apply(&root);
    settled(&root);
    for (keys, words) in [
        ("minisign_key = \"x\"", "is not a public key of minisign"),
        ("keyring = \"/etc/keys\"", "needs signature_url"),
    ] {
        define(&root, &format!("url = {url:?}\n{keys}"));
        fails(&root, words);
    }
}

fn signed_list() {
    let (server, files) =
        server(&[("/app.tar", b"one"), ("/SUMS", &list(b"one")), ("/SUMS.minisig", SIGNATURE.as_bytes())]);
    let root = root(&format!(
        "url = {:?}\nchecksum_url = {:?}\nsignature_url = {:?}\nminisign_key = {KEY:?}",
        server.url("/app.tar"),
        server.url("/SUMS"),
        server.url("/SUMS.minisig")
    ));
    fails(&root, &format!("{}: its signature is wrong", server.url("/SUMS")));
    assert!(!root.exists("srv/app.tar"));
    // The signed file is a list without checksums.
    set(&files, "/SUMS", BODY);
    fails(&root, "has no checksum of app.tar");
}

/// A GnuPG home directory with a body to sign.
struct Gpg(ScratchRoot);

impl Gpg {
    fn new() -> Gpg {
        Gpg(ScratchRoot::new().dir("keys").mode("keys", 0o700).file("body", BODY))
    }

    /// Runs gpg, and returns its stdout.
    fn run(&self, arguments: &[&str]) -> Vec<u8> {
        let common = ["--homedir", "keys", "--batch", "--quiet", "--passphrase", "", "--pinentry-mode", "loopback"];
        let run = self.0.run("gpg", &[&common, arguments].concat());
        assert!(run.success(), "{run}");
        run.stdout.into()
    }

    /// Creates a key for this user at this time, and returns its fingerprint.
    fn key(&self, user: &str, time: &str, expiry: &str) -> String {
        self.run(&["--faked-system-time", time, "--quick-generate-key", user, "ed25519", "sign", expiry]);
        let listed = String::from_utf8(self.run(&["--list-keys", "--with-colons", user])).unwrap();
        listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap().trim_end_matches(':').to_owned()
    }

    /// Returns a detached signature of the body.
    fn sign(&self, options: &[&str]) -> Vec<u8> {
        self.run(&[options, &["--output", "-", "--detach-sign", "body"]].concat())
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        // A remaining agent ends by itself when the directory is removed.
        let _ = self.0.run("gpgconf", &["--homedir", "keys", "--kill", "all"]);
    }
}

fn openpgp() {
    let gpg = Gpg::new();
    gpg.key("test@example.org", "20200101T000000", "never");
    let (keyring, signature) = (gpg.run(&["--export"]), gpg.sign(&["--armor"]));
    let (server, files) = server(&[("/app.tar", BODY), ("/app.tar.asc", &signature)]);
    let root: ScratchRoot = root(&signed_by_keyring(&server)).file("etc/keys.gpg", &keyring);
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), BODY);
    settled(&root);
    set(&files, "/app.tar", b"something else");
    fs::remove_file(root.join("srv/app.tar")).unwrap();
    fails(&root, "its signature is not accepted by gpgv: BAD signature from ");
    set(&files, "/app.tar", BODY);
    let root = root.mode("etc/keys.gpg", 0o666);
    fails(&root, "keys.gpg is writable for other users (mode 0666), and is not used; to fix this: chmod go-w ");
    let root = root.mode("etc/keys.gpg", 0o644);
    root.write("etc/keys.gpg", "");
    fails(&root, "its signature is not accepted by gpgv: ");
    assert!(!root.exists("srv/app.tar"));
}

fn signed_by_keyring(server: &Server) -> String {
    let (url, signature) = (server.url("/app.tar"), server.url("/app.tar.asc"));
    format!("url = {url:?}\nsignature_url = {signature:?}\nkeyring = \"/etc/keys.gpg\"")
}

fn untrustworthy_signatures() {
    let gpg = Gpg::new();
    let [good, revoked, foreign] =
        ["good@e.org", "revoked@e.org", "foreign@e.org"].map(|user| gpg.key(user, "20200101T000000", "never"));
    let expired = gpg.key("expired@e.org", "20200101T000000", "30d");
    let at_that_time = |key: &str, options: &[&str]| {
        gpg.sign(&[options, &["--faked-system-time", "20200102T000000!", "--local-user", key]].concat())
    };
    let refused = |id: &str, why: &str| format!("its signature is not accepted: the key {} {why}", &id[24..]);
    let weak =
        |name: &str| format!("its signature is not accepted: it is made with {name}; SHA-256 or stronger is required");
    let [by_good, by_foreign] = [&good, &foreign].map(|key| gpg.sign(&["--local-user", key]));
    gpg.0.write("other", "something else");
    let of_other = gpg.run(&["--local-user", &good, "--output", "-", "--detach-sign", "other"]);
    let bad = "its signature is not accepted by gpgv: BAD signature from ";
    let signatures = [
        (gpg.sign(&["--local-user", &revoked]), refused(&revoked, "has been revoked")),
        (at_that_time(&expired, &[]), refused(&expired, "has expired")),
        (
            at_that_time(&good, &["--default-sig-expire", "1"]),
            "its signature is not accepted: it has expired".to_owned(),
        ),
        (gpg.sign(&["--local-user", &good, "--digest-algo", "SHA1"]), weak("SHA-1")),
        (gpg.sign(&["--local-user", &good, "--digest-algo", "RIPEMD160"]), weak("RIPEMD-160")),
        (
            gpg.sign(&["--local-user", &good, "--digest-algo", "MD5", "--allow-weak-digest-algos"]),
            "its signature is not accepted by gpgv: ".to_owned(),
        ),
        (gpg.sign(&["--local-user", &good, "--local-user", &revoked]), refused(&revoked, "has been revoked")),
        ([&by_good[..], &of_other].concat(), bad.to_owned()),
        ([&by_foreign[..], &by_good, &of_other].concat(), bad.to_owned()),
        ([&by_foreign[..], &by_good, BODY].concat(), "its signature is not accepted by gpgv: ".to_owned()),
        (by_foreign.clone(), "its signature is not accepted by gpgv: Can't check signature: No public key".to_owned()),
        // A signed message is not a signature of another file.
        (
            gpg.run(&["--local-user", &good, "--output", "-", "--sign", "body"]),
            "its signature is not accepted by gpgv: not a detached signature".to_owned(),
        ),
    ];
    let certificate = gpg.0.read(format!("keys/openpgp-revocs.d/{revoked}.rev")).to_string();
    gpg.0.write("revocation", certificate.replace("\n:---", "\n---"));
    gpg.run(&["--import", "revocation"]);
    let keyring = gpg.run(&["--export", &good, &revoked, &expired]);
    let (server, files) = server(&[("/app.tar", BODY)]);
    let root: ScratchRoot = root(&signed_by_keyring(&server)).file("etc/keys.gpg", &keyring);
    for (signature, words) in signatures {
        set(&files, "/app.tar.asc", &signature);
        fails(&root, &words);
        assert!(!root.exists("srv/app.tar"), "{words}");
    }
    for signatures in [&[&by_good][..], &[&by_good, &by_good], &[&by_foreign, &by_good], &[&by_good, &by_foreign]] {
        set(&files, "/app.tar.asc", &signatures.iter().copied().flatten().copied().collect::<Vec<_>>());
        let _first = fs::remove_file(root.join("srv/app.tar"));
        apply(&root);
        assert_eq!(root.read("srv/app.tar"), BODY);
    }
}
