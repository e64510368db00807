//! Tests of `holo-secret` against other programs.

use crate::machine::{AGE, Machine, run};
use holo_process::Program;
use holo_testing::trial_of;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, case: fn()| trial_of(name, &AGE, case);
    vec![
        trial("what_age_encrypts_is_decrypted", what_age_encrypts_is_decrypted),
        trial("age_decrypts_what_is_encrypted", age_decrypts_what_is_encrypted),
        trial("what_cannot_be_decrypted_is_said_with_the_reason", what_cannot_be_decrypted_is_said_with_the_reason),
        trial("who_cannot_be_encrypted_for_is_named", who_cannot_be_encrypted_for_is_named),
        trial("the_example_of_the_man_page_is_true", the_example_of_the_man_page_is_true),
        trial("programs_ask_for_many_at_once", programs_ask_for_many_at_once),
    ]
}

fn what_age_encrypts_is_decrypted() {
    let machine = Machine::with_ssh();
    let armored = machine.encrypt("a secret\nof two lines");
    assert_eq!(machine.secret(&["decrypt"], &armored), ("a secret\nof two lines".to_owned(), String::new()));
    let machine = Machine::with_age();
    let recipient = run(Program::new("age-keygen").args(["-y", &machine.path("etc/holo/age.key")]), "");
    let armored = run(Program::new("age").args(["-a", "-r", recipient.trim()]), "x");
    assert_eq!(machine.secret(&["decrypt"], &format!("\n\n{armored}\n\n")), ("x".to_owned(), String::new()));
}

fn age_decrypts_what_is_encrypted() {
    let (one, other) = (Machine::with_ssh(), Machine::with_age());
    let decrypted = |armored: &str, key: String| run(Program::new("age").args(["-d", "-i", &key]), armored);
    let (armored, _) = one.secret(&["encrypt"], "for one");
    assert_eq!(decrypted(&armored, one.path("etc/ssh/ssh_host_ed25519_key")), "for one");
    let public = one.path("etc/ssh/ssh_host_ed25519_key.pub");
    let recipient = run(Program::new("age-keygen").args(["-y", &other.path("etc/holo/age.key")]), "");
    let (armored, _) = other.secret(&["encrypt", "-R", &public, "-r", recipient.trim()], "for both");
    assert_eq!(decrypted(&armored, one.path("etc/ssh/ssh_host_ed25519_key")), "for both");
    assert_eq!(decrypted(&armored, other.path("etc/holo/age.key")), "for both");
    assert_eq!(one.secret(&["decrypt"], &armored).0, "for both");
}

fn what_cannot_be_decrypted_is_said_with_the_reason() {
    let machine = Machine::with_ssh();
    let armored = machine.encrypt("x");
    let wrong = |machine: &Machine, text: &str| {
        let (said, wrong) = machine.secret(&["decrypt"], text);
        assert_eq!(said, "");
        wrong
    };
    let no_key =
        "!! this machine has no key for it: there is neither /etc/holo/age.key nor /etc/ssh/ssh_host_ed25519_key\n";
    assert_eq!(wrong(&Machine::without_keys(), &armored), no_key);
    let other = Machine::with_age();
    let not_ours = "!! it is not encrypted for /etc/holo/age.key; encrypt it again with holo-secret encrypt\n";
    assert_eq!(wrong(&other, &armored), not_ours);
    other.write("etc/ssh/ssh_host_ed25519_key", "nonsense\n");
    let both = format!("{}; /etc/ssh/ssh_host_ed25519_key: this is not a private key of SSH\n", not_ours.trim_end());
    assert_eq!(wrong(&other, &armored), both);
    let open = Machine::with_ssh();
    let key = open.path("etc/ssh/ssh_host_ed25519_key");
    let sealed = open.encrypt("x");
    for (mode, is_used) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o666, false)] {
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let (said, wrong) = open.secret(&["decrypt"], &sealed);
        assert_eq!(said == "x", is_used, "{mode:o}: {wrong}");
        assert_eq!(wrong.contains("other users may read this private key"), !is_used, "{mode:o}: {wrong}");
    }
    // Some distributions have a group for a program of the SSH server.
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let group = std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(&key).unwrap());
    open.write("etc/group", &format!("root:x:77:\nssh_keys:x:{group}:\n"));
    assert_eq!(open.secret(&["decrypt"], &sealed).0, "x");
    let with_passphrase = Machine::without_keys();
    let key = with_passphrase.path("etc/ssh/ssh_host_ed25519_key");
    run(Program::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "words", "-f", &key]), "");
    assert!(wrong(&with_passphrase, &armored).contains("this key has a passphrase"));
    // A changed letter, a missing line, and invalid armor.
    let lines: Vec<&str> = armored.lines().collect();
    let mut letters: Vec<char> = armored.chars().collect();
    let middle = armored.find('\n').unwrap() + 100;
    letters[middle] = if letters[middle] == 'A' { 'B' } else { 'A' };
    let shorter = [&lines[..2], &lines[3..]].concat().join("\n");
    for text in [letters.into_iter().collect::<String>(), shorter, "secret".to_owned(), String::new()] {
        let wrong = wrong(&machine, &text);
        assert!(
            wrong.starts_with("!! the encrypted value is damaged: ") || wrong.contains("not encrypted for"),
            "{wrong}"
        );
    }
}

fn who_cannot_be_encrypted_for_is_named() {
    let machine = Machine::without_keys();
    let wrong = |arguments: &[&str]| machine.secret(&[&["encrypt"], arguments].concat(), "x").1;
    assert_eq!(
        wrong(&[]),
        "!! there is neither /etc/holo/age.key nor /etc/ssh/ssh_host_ed25519_key.pub; say for whom it is, with \
         --recipient\n"
    );
    assert_eq!(wrong(&["-r", "age1nobody"]), "!! age1nobody: this is not a public key\n");
    machine.write("keys", "# mine\n\nnonsense\n");
    let keys = machine.path("keys");
    assert_eq!(wrong(&["-R", &keys]), "!! /keys:3: this is not a public key of age or SSH\n");
    machine.write("keys", "# none\n");
    assert_eq!(wrong(&["-R", &keys]), "!! there is no public key in these files\n");
    assert_eq!(wrong(&["-R", &machine.path("none")]), "!! /none: no such file or directory\n");
}

fn programs_ask_for_many_at_once() {
    let machine = Machine::with_ssh();
    let armored = machine.encrypt("one");
    let asked = serde_json::json!([armored, "two", armored]).to_string();
    let (answer, wrong) = machine.secret(&["decrypt", "--json"], &asked);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&answer[0]["text"], &answer[2]["text"], wrong.as_str()), (&"one".into(), &"one".into(), ""));
    assert!(answer[1]["error"].as_str().unwrap().starts_with("the encrypted value is damaged: "), "{answer}");
    assert!(machine.secret(&["decrypt", "--json"], "{").1.starts_with("!! input: not a list of texts: "));
}

fn the_example_of_the_man_page_is_true() {
    let page = include_str!("../../../man/holo-secret.8");
    let example =
        page.split("runs these commands.").nth(1).unwrap().split(".Bd -literal -offset indent\n").nth(1).unwrap();
    let lines: Vec<&str> = example.split(".Ed").next().unwrap().lines().collect();
    let commands: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
    let answers: Vec<&str> = lines.iter().copied().filter(|line| !line.starts_with("$ ")).collect();
    let machine = Machine::with_ssh();
    let binaries = holo_testing::binaries::built("holo-secret").parent().unwrap().display().to_string();
    let mut shell = Program::new("sh");
    shell.args(["-ec", &commands.join("\n")]).env("HOLO_ROOT_DIR", machine.root()).current_dir(machine.root());
    shell.env("PATH", format!("{binaries}:/usr/bin:/bin"));
    assert_eq!(run(&mut shell, "").lines().collect::<Vec<_>>(), answers);
    assert_eq!(answers, ["hunter2"]);
}
