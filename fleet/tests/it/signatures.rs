//! Tests of signatures against `ssh-keygen`.

use crate::desk::{SSH, desk, fail, key, succeed};
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, case: fn()| trial_of(name, &SSH, case);
    vec![
        trial("ssh_keygen_verifies_what_we_sign", ssh_keygen_verifies_what_we_sign),
        trial("what_ssh_keygen_signs_is_accepted", what_ssh_keygen_signs_is_accepted),
        trial("who_may_not_sign_is_refused_with_the_reason", who_may_not_sign_is_refused_with_the_reason),
        trial("the_list_of_signers_is_checked", the_list_of_signers_is_checked),
        trial("what_cannot_sign_is_named", what_cannot_sign_is_named),
    ]
}

const FILE: &str = "web-1.0.tar.zst";
const SIGNERS: &str = "etc/holo/allowed_signers";

/// Returns a desk with a bundle that is not signed, and the key of Anna, who may sign.
fn signing_desk() -> ScratchRoot {
    let desk = desk();
    succeed(&desk, &["bundle", "build", "web"]);
    let public = key(&desk, "anna");
    desk.write(SIGNERS, format!("anna namespaces=\"holo-bundle,holo-data\" {public}"));
    desk
}

fn sign_by_hand(desk: &ScratchRoot, key: &str, namespace: &str) {
    // It does not overwrite a signature.
    assert!(desk.run("rm", &["-f", &format!("{FILE}.sig")]).success());
    let signed = desk.run("ssh-keygen", &["-Y", "sign", "-q", "-f", key, "-n", namespace, FILE]);
    assert!(signed.success(), "{signed}");
}

fn verified(desk: &ScratchRoot) -> String {
    succeed(desk, &["bundle", "verify", FILE]).lines().next().unwrap().to_owned()
}

fn refused(desk: &ScratchRoot) -> String {
    fail(desk, &["bundle", "verify", FILE])
}

fn ssh_keygen_verifies_what_we_sign() {
    let desk = signing_desk();
    let said = succeed(&desk, &["bundle", "sign", FILE, "--key", "anna"]);
    assert_eq!(said, "web-1.0.tar.zst.sig: web 1.0, signed with anna\n");
    let command = format!("ssh-keygen -Y verify -f {SIGNERS} -I anna -n holo-bundle -s {FILE}.sig <{FILE}");
    let verified = desk.run("sh", &["-c", &command]);
    assert!(verified.success(), "{verified}");
    // The key of the configuration, and by its public half.
    desk.write("fleet.toml", "signing_key = \"/anna\"\n");
    succeed(&desk, &["--config", "fleet.toml", "bundle", "sign", FILE]);
    assert_eq!(self::verified(&desk), format!("{FILE}: web 1.0, 5 files, 240 bytes, signed by anna"));
    let json = succeed(&desk, &["bundle", "verify", FILE, "--json"]);
    assert!(json.contains("\"signed_by\":\"anna\""), "{json}");
}

fn what_ssh_keygen_signs_is_accepted() {
    let desk = signing_desk();
    sign_by_hand(&desk, "anna", "holo-bundle");
    let by = |who: &str| format!("{FILE}: web 1.0, 5 files, 240 bytes, signed by {who}");
    assert_eq!(verified(&desk), by("anna"));
    // Several lines, patterns, comments, and several names for one key.
    let public = desk.read("anna.pub").to_string();
    let other = key(&desk, "other");
    for (names, shown) in [("*@example.org", "*@example.org"), ("bob,anna", "bob"), ("\"anna b\"", "anna b")] {
        desk.write(SIGNERS, format!("# Operators\n\nother {other}{names} {public}"));
        assert_eq!(verified(&desk), by(shown), "{names}");
    }
    desk.write(SIGNERS, format!("anna namespaces=\"git\" {public}"));
    let said = refused(&desk);
    assert!(said.starts_with(&format!("holo-fleet: {FILE}: the signature is not of anyone who may sign")), "{said}");
    desk.write(SIGNERS, format!("first namespaces=\"git\" {public}second namespaces=\"holo-*\" {public}"));
    assert_eq!(verified(&desk), by("second"));
    desk.write("list", format!("anna {public}"));
    succeed(&desk, &["bundle", "verify", FILE, "--signers", "list"]);
}

fn who_may_not_sign_is_refused_with_the_reason() {
    let desk = signing_desk();
    let start =
        format!("holo-fleet: {FILE}: the signature is not of anyone who may sign for holo-bundle in /{SIGNERS}: ");
    let unsigned =
        format!("holo-fleet: {FILE}: it is not signed: there is no {FILE}.sig; sign it with holo-fleet bundle sign\n");
    assert_eq!(refused(&desk), unsigned);
    sign_by_hand(&desk, "anna", "holo-data");
    let said = refused(&desk);
    assert!(said.starts_with(&start) && said.contains("namespace"), "{said}");
    key(&desk, "eve");
    sign_by_hand(&desk, "eve", "holo-bundle");
    assert_eq!(refused(&desk), format!("{start}its key is not in the list\n"));
    sign_by_hand(&desk, "anna", "holo-bundle");
    let whole = desk.read(FILE);
    desk.write(FILE, [whole.as_slice(), b"x"].concat());
    let said = refused(&desk);
    assert!(said.starts_with(&start) && said.contains("incorrect signature"), "{said}");
    desk.write(FILE, whole);
    desk.write(format!("{FILE}.sig"), "nonsense\n");
    let said = refused(&desk);
    assert!(said.starts_with(&start), "{said}");
    assert!(!said.contains("not in the list"), "{said}");
    sign_by_hand(&desk, "anna", "holo-bundle");
    let public = desk.read("anna.pub").to_string();
    for (limit, word) in [("valid-before=\"20200101\"", "expired"), ("valid-after=\"20990101\"", "not yet valid")] {
        desk.write(SIGNERS, format!("anna {limit} {public}"));
        let said = refused(&desk);
        assert!(said.starts_with(&start) && said.contains(word), "{limit}: {said}");
    }
    desk.write(SIGNERS, format!("anna valid-after=\"20200101\",valid-before=\"20990101\" {public}"));
    verified(&desk);
}

fn the_list_of_signers_is_checked() {
    let desk = signing_desk();
    sign_by_hand(&desk, "anna", "holo-bundle");
    for mode in [0o666, 0o664] {
        let desk = desk_with_mode(&desk, mode);
        let said = refused(desk);
        assert!(said.contains(&format!("/{SIGNERS}: ")) && said.contains("chmod"), "{mode:o}: {said}");
    }
    assert!(desk.run("rm", &[SIGNERS]).success());
    let said = refused(&desk);
    assert!(said.contains(&format!("/{SIGNERS}: there is no such file; write the public keys")), "{said}");
}

fn desk_with_mode(desk: &ScratchRoot, mode: u32) -> &ScratchRoot {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(desk.join(SIGNERS), mode).unwrap();
    desk
}

fn what_cannot_sign_is_named() {
    let desk = signing_desk();
    let said = fail(&desk, &["bundle", "sign", FILE]);
    assert!(said.contains("/etc/holo/fleet.toml: signing_key is missing"), "{said}");
    let said = fail(&desk, &["bundle", "sign", FILE, "--key", "missing"]);
    assert!(said.starts_with("holo-fleet: missing: cannot sign: "), "{said}");
    desk.write("nonsense.tar.zst", "nonsense");
    let said = fail(&desk, &["bundle", "sign", "nonsense.tar.zst", "--key", "anna"]);
    assert!(said.starts_with("holo-fleet: nonsense.tar.zst: this is not a bundle: "), "{said}");
    assert!(!desk.exists("nonsense.tar.zst.sig"));
    let said = fail(&desk, &["bundle", "verify", "nowhere"]);
    assert_eq!(said, "holo-fleet: nowhere: no such file or directory\n");
}
