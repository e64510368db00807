//! Keys are parsed and listed as by OpenSSH: all key types that it can generate, and lines that are hard to parse.

use data_encoding::BASE64;
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;

const SOURCE: &str = "usr/share/holo/ssh-keys/jane/x.pub";

pub(crate) fn trials() -> Vec<Trial> {
    const KEYGEN: &[Need] = &[Need::Program("ssh-keygen")];
    vec![
        trial_of("keys of every type are listed as by ssh-keygen", KEYGEN, every_kind),
        trial_of("lines are read as by ssh-keygen", KEYGEN, hard_lines),
    ]
}

/// Returns a root with the plugin. OpenSSH escapes letters that are not in the locale's character set.
fn root() -> ScratchRoot {
    ScratchRoot::new().plugin("ssh-keys").dir("home/jane").env("LC_ALL", "C.UTF-8")
}

/// Returns the keys that `ssh-keygen -l` lists for a file.
fn listed_by_openssh(root: &ScratchRoot, text: &[u8]) -> Vec<String> {
    root.write("listed.pub", text);
    let run = root.run("ssh-keygen", &["-l", "-f", "listed.pub"]);
    run.stdout_lossy().lines().map(str::to_owned).collect()
}

/// Returns the keys that a scan lists.
fn listed_by_us(root: &ScratchRoot, text: &[u8]) -> Vec<String> {
    root.write(SOURCE, text);
    let run = root.holo(&["scan"]);
    // The scan may report errors in the file, which do not matter here.
    assert!(matches!(run.status, Some(0 | 1)), "{run}");
    let text = run.stdout_lossy().into_owned();
    text.lines().filter_map(|line| line.trim_start().strip_prefix("key is ")).map(str::to_owned).collect()
}

fn generate(root: &ScratchRoot, name: &str, kind: &str, bits: &str) -> String {
    let run = root.run("ssh-keygen", &["-q", "-t", kind, "-b", bits, "-N", "", "-C", "jane doe@home", "-f", name]);
    // Newer versions of OpenSSH cannot generate DSA keys.
    assert!(run.success() || kind == "dsa", "{run}");
    if run.success() { root.read(format!("{name}.pub")).to_string() } else { String::new() }
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// Builds a key of a hardware token from a plain key.
fn token(plain: &str, name: &str, length: usize, before: &[&[u8]]) -> String {
    let blob = BASE64.decode(plain.split(' ').nth(1).unwrap().as_bytes()).unwrap();
    let key = &blob[blob.len() - length..];
    let parts = [&[name.as_bytes()], before, &[key, b"ssh:"]].concat();
    let blob: Vec<u8> = parts.iter().flat_map(|part| string(part)).collect();
    format!("{name} {} jane's token\n", BASE64.encode(&blob))
}

fn every_kind() {
    let root = root();
    let mut kinds = Vec::new();
    for (kind, bits) in [
        ("rsa", "1024"),
        ("rsa", "1031"),
        ("rsa", "2048"),
        ("rsa", "3072"),
        ("rsa", "4096"),
        ("dsa", "1024"),
        ("ecdsa", "256"),
        ("ecdsa", "384"),
        ("ecdsa", "521"),
        ("ed25519", "256"),
    ] {
        let name = format!("{kind}-{bits}");
        kinds.push((name.clone(), generate(&root, &name, kind, bits)));
    }
    let plain = |name: &str| kinds.iter().find(|(known, _)| known == name).unwrap().1.clone();
    let tokens = [
        token(&plain("ed25519-256"), "sk-ssh-ed25519@openssh.com", 32, &[]),
        token(&plain("ecdsa-256"), "sk-ecdsa-sha2-nistp256@openssh.com", 65, &[b"nistp256"]),
    ];
    for (token, name) in tokens.into_iter().zip(["sk-ed25519", "sk-ecdsa"]) {
        root.write(format!("{name}.pub"), &token);
        kinds.push((name.to_owned(), token));
    }
    kinds.retain(|(_, key)| !key.is_empty());
    // Certify each of them too, by authorities of several types and with all fields of a certificate set.
    for (index, (name, _)) in kinds.clone().into_iter().enumerate() {
        let authority = ["ed25519-256", "rsa-2048", "ecdsa-521"][index % 3];
        let options = ["-n", "jane,root", "-z", "4711", "-V", "20200101:20400101", "-O", "source-address=10.0.0.0/8"];
        let file = format!("{name}.pub");
        let arguments = [&["-q", "-s", authority, "-I", "jane's"], &options[..], &[&file]].concat();
        let run = root.run("ssh-keygen", &arguments);
        assert!(run.success(), "{run}");
        kinds.push((format!("{name}-cert"), root.read(format!("{name}-cert.pub")).to_string()));
    }
    assert!(kinds.len() >= 22, "{}", kinds.len());
    for (name, key) in &kinds {
        let expected = listed_by_openssh(&root, key.as_bytes());
        assert_eq!(expected.len(), 1, "{name}: {key}");
        assert_eq!(listed_by_us(&root, key.as_bytes()), expected, "{name}");
    }
    // All keys in one file.
    let all: String = kinds.iter().map(|(_, key)| key.as_str()).collect();
    assert_eq!(listed_by_us(&root, all.as_bytes()), listed_by_openssh(&root, all.as_bytes()));
    // Neither side accepts a key with a byte removed or added.
    for (name, key) in kinds.iter().filter(|(name, _)| !name.starts_with("rsa-") && !name.starts_with("dsa-")) {
        let (kind, rest) = key.split_once(' ').unwrap();
        let blob = BASE64.decode(rest.split(' ').next().unwrap().as_bytes()).unwrap();
        for damaged in [&blob[..blob.len() - 1], &[&blob[..], b"x"].concat()] {
            let line = format!("{kind} {} x\n", BASE64.encode(damaged));
            assert_eq!(listed_by_openssh(&root, line.as_bytes()), [""; 0], "{name}");
            assert_eq!(listed_by_us(&root, line.as_bytes()), [""; 0], "{name}");
        }
    }
}

fn hard_lines() {
    let root = root();
    let ed25519 = generate(&root, "e", "ed25519", "256");
    let rsa = generate(&root, "r", "rsa", "2048");
    let blob = |key: &str| key.split(' ').nth(1).unwrap().to_owned();
    let key = format!("ssh-ed25519 {}", blob(&ed25519));
    let mut taken = 0;
    let lines: [&[u8]; 36] = [
        b"@",
        b"@\r",
        b"@ a  b ",
        b"@ a\tb",
        b"  \t@ a",
        b"@\t\tb",
        b"@ # no comment",
        b"@ #no comment",
        b"@ a#b",
        b"@ caf\xe9 \xc3\xa9 \x1b[31m \x7f \xe2\x80\xa8 \xc2\x85 \xf0\x9f\x98\x80",
        b"@ back\\slash \"quotes\"",
        b"no-pty @ a",
        b"no-pty\t@ a",
        b"command=\"a b, c\",no-pty @ a",
        b"command=\"say \\\"a b\\\" \" @ a",
        b"command=\"a\\\\\" @ a",
        b"from=\"*.example.org,!10.0.0.0/8\",environment=\"A=#b\" @ a",
        b"no-pty @",
        b"\tcommand=\"a \\\"b\\\"\",no-pty\t@ ",
        b"environment=\"A=#b\" @ # no comment",
        b"odd\x07\xff @",
        b"1024 35 @",
        b"command=\"open @",
        b"command=\"open @ a",
        b"@ @",
        b"# @",
        b" # @",
        b"",
        b"nonsense",
        b"no-pty,@ a",
        b"\x0c@ a",
        b"ED25519 % a",
        b"ssh-rsa % a",
        b"ecdsa-sha2-nistp256 % a",
        b"rsa-sha2-256 & a",
        b"rsa-sha2-512-cert-v01@openssh.com & a",
    ];
    for line in lines {
        let mut text = Vec::new();
        for byte in line {
            match byte {
                // In these names, `@` is literal.
                b'@' if !line.starts_with(b"rsa-sha2") => text.extend_from_slice(key.as_bytes()),
                b'%' => text.extend_from_slice(blob(&ed25519).as_bytes()),
                b'&' => text.extend_from_slice(blob(&rsa).as_bytes()),
                byte => text.push(*byte),
            }
        }
        text.push(b'\n');
        let expected = listed_by_openssh(&root, &text);
        assert_eq!(listed_by_us(&root, &text), expected, "{:?}", String::from_utf8_lossy(&text));
        taken += expected.len();
    }
    assert!(taken >= 15, "OpenSSH reads no more than {taken} of these lines; that proves little");
}
