//! Tests of encrypted data, as plugins read it.

use crate::machine::{AGE, Machine};
use holo_facts::{Knowledge, key};
use holo_testing::trial_of;
use libtest_mimic::Trial;
use serde_json::{Map, json};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, case: fn()| trial_of(name, &AGE, case);
    vec![
        trial("templates_have_what_is_encrypted", templates_have_what_is_encrypted),
        trial("nothing_shows_what_is_encrypted", nothing_shows_what_is_encrypted),
        trial("what_holds_something_encrypted_is_known", what_holds_something_encrypted_is_known),
        trial("only_what_needs_it_fails_without_a_key", only_what_needs_it_fails_without_a_key),
        trial("errors_do_not_tell_what_is_encrypted", errors_do_not_tell_what_is_encrypted),
    ]
}

/// Returns a machine with the password "hunter2" in each data language.
fn machine() -> Machine {
    let machine = Machine::with_ssh();
    let armored = machine.encrypt("hunter2\n");
    let indented = armored.lines().map(|line| format!("    {line}\n")).collect::<String>();
    machine.write(
        "etc/holo/data/common.toml",
        &format!("port = 80\n\n[toml]\nuser = \"u\"\npassword = \"\"\"\n{armored}\"\"\"\n"),
    );
    machine.write("etc/holo/data/host/x.yaml", &format!("yaml:\n  password: |\n{indented}"));
    machine.write("usr/share/holo/data/common.json", &json!({ "json": { "list": ["a", armored] } }).to_string());
    machine.write("etc/hostname", "x\n");
    machine
}

fn render(knowledge: &Knowledge, template: &str) -> Result<(String, bool), String> {
    let rendered = knowledge.renderer().render("t", template, &Map::new()).map_err(|error| error.to_string())?;
    Ok((rendered.text.clone(), rendered.is_sensitive()))
}

fn templates_have_what_is_encrypted() {
    let machine = machine();
    let knowledge = Knowledge::new(machine.root(), None);
    for template in [
        "{{ data.toml.password }}",
        "{{ data.yaml.password }}",
        "{{ data.json.list[1] }}",
        "{{ lookup('toml.password') }}",
        "{{ lookup('json.list.1') }}",
        "{% for key, value in data.yaml|items %}{{ value }}{% endfor %}",
    ] {
        assert_eq!(render(&knowledge, template), Ok(("hunter2".to_owned(), true)), "{template}");
    }
    let data = knowledge.data().unwrap();
    let opened = data.open("toml", key::find(data.sealed(), "toml").unwrap().unwrap());
    assert_eq!(opened.unwrap(), json!({ "user": "u", "password": "hunter2" }));
}

fn nothing_shows_what_is_encrypted() {
    let machine = machine();
    let knowledge = Knowledge::new(machine.root(), None);
    let data = knowledge.data().unwrap();
    let shown = json!({
        "port": 80,
        "toml": { "user": "u", "password": "(sensitive)" },
        "yaml": { "password": "(sensitive)" },
        "json": { "list": ["a", "(sensitive)"] },
    });
    assert_eq!(data.value(), &shown);
    assert_eq!(data.lookup("toml.password"), Ok(Some(&json!("(sensitive)"))));
    let explained = format!("{:?}", data.explain(None).unwrap());
    assert!(!explained.contains("AGE ENCRYPTED") && explained.contains("(sensitive)"), "{explained}");
    let read = knowledge.read_by("{{ data.toml.password }}").unwrap();
    assert_eq!(read["toml.password"].value, &json!("(sensitive)"));
}

fn what_holds_something_encrypted_is_known() {
    let machine = machine();
    let knowledge = Knowledge::new(machine.root(), None);
    for (template, is_sensitive) in [
        ("{{ data.port }} {{ data.toml.user }}", false),
        ("{{ data.toml.password | upper }}", true),
        ("{{ data.toml.password | hash }}", true),
        ("{{ data.toml.password | b64encode }}", true),
        ("{% if data.toml.password %}set{% endif %}", false),
        ("{{ data | tojson | length }}", false),
        ("{{ data | tojson }}", true),
    ] {
        assert_eq!(render(&knowledge, template).unwrap().1, is_sensitive, "{template}");
    }
}

fn only_what_needs_it_fails_without_a_key() {
    let machine = machine();
    std::fs::remove_file(machine.path("etc/ssh/ssh_host_ed25519_key")).unwrap();
    let knowledge = Knowledge::new(machine.root(), None);
    assert_eq!(render(&knowledge, "{{ data.port }}"), Ok(("80".to_owned(), false)));
    let wrong = render(&knowledge, "\n{{ data.toml.password }}").unwrap_err().replace(&machine.path(""), "/");
    let expected = "t:2: /etc/holo/data/common.toml:5: toml.password: this cannot be decrypted: this machine has no key \
                    for it: there is neither /etc/holo/age.key nor /etc/ssh/ssh_host_ed25519_key";
    assert_eq!(wrong, expected);
    let wrong = render(&knowledge, "{{ lookup('yaml.password') }}").unwrap_err().replace(&machine.path(""), "/");
    assert!(wrong.starts_with("t:1: /etc/holo/data/host/x.yaml:2: yaml.password: this cannot be decrypted"), "{wrong}");
    assert_eq!(render(&knowledge, "{{ data.toml.user }}{{ data.json.list[0] }}"), Ok(("ua".to_owned(), false)));
    for template in [
        "{{ data.toml }}",
        "{{ data | tojson }}",
        "{{ data.json.list }}",
        "{{ data.toml.password ~ 'x' }}",
        "{{ data.json.list | join }}",
        "{{ lookup('toml') | tojson }}",
        "{% for value in data.json.list %}{{ value }}{% endfor %}",
        "{% for key, value in data.yaml | items %}{{ value }}{% endfor %}",
        "{{ [data.toml] | map(attribute='password') | join }}",
    ] {
        let wrong = render(&knowledge, template).err().unwrap_or_default();
        assert!(wrong.contains("this cannot be decrypted: "), "{template}: {wrong}");
    }
    let holds = |condition: &str| holo_definitions::Templates::holds(&knowledge.renderer(), condition);
    assert_eq!(holds("data.port == 80"), Ok(true));
    assert!(holds("data.toml.password == 'x'").is_err());
}

fn errors_do_not_tell_what_is_encrypted() {
    let machine = machine();
    let knowledge = Knowledge::new(machine.root(), None);
    let wrong = render(&knowledge, "{{ 'x' | regex_replace('(' ~ data.toml.password, '') }}").unwrap_err();
    assert!(!wrong.contains("hunter2") && wrong.contains("encrypted value in data"), "{wrong}");
    // Unrelated errors are shown as usual.
    let wrong = render(&knowledge, "{{ data.toml.password }}{{ data.none }}").unwrap_err();
    assert!(wrong.contains("none"), "{wrong}");
}
