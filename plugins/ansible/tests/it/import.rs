//! Tests of `holo-ansible import`.

use crate::ansible::{Version, with_each, with_newest};
use holo_testing::{Need, Run, ScratchRoot, binaries};
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;
use std::time::Duration;

const ROLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/from-ansible/roles/site");
const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/from-ansible.md");
const RESOURCES: &str = "out/etc/holo/resources/ansible";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = with_each("a role is imported, and has the same result as before", &[Need::Root], same_result);
    trials.extend(with_each("the guide shows what is to do as it is", &[], guide_example));
    trials.extend(with_newest("an imported playbook has the same effect", &[Need::Root], same_effect));
    trials.extend(with_newest("verifying names what differs from the playbook", &[Need::Root], different));
    trials.extend(with_each("tasks that cannot be imported are marked", &[], marked));
    trials.extend(with_each("keywords of tasks and plays have the same meaning, or are to do", &[], keywords));
    trials.extend(with_each("a loop whose items depend on the machine or on tasks is to do", &[], run_time_values));
    trials.extend(with_each("no name in a playbook can add to the definitions", &[], hostile_names));
    trials.extend(with_each("files of two roles are not mixed up", &[], conflicting));
    trials.extend(with_each("a playbook that cannot be read is an error", &[], unreadable));
    trials
}

fn import(root: &ScratchRoot, version: Version, source: &Path, more: &[&str]) -> Run {
    let (plugin, python) = (binaries::built("holo-ansible"), version.python().display().to_string());
    let (source, output) = (source.display().to_string(), root.join("out").display().to_string());
    let arguments = [&["import", "--python", &python, &source, "--output", &output], more].concat();
    root.run(plugin, &arguments)
}

fn same_result(version: Version) {
    let root = ScratchRoot::new().time_limit(Duration::from_secs(300));
    let run = import(&root, version, Path::new(ROLE), &["--verify"]);
    let said = run.stdout_lossy();
    assert!(said.starts_with("8 tasks: 8 imported, 0 to do\n"), "{run}");
    assert!(run.success() && said.contains("8 of 8 tasks"), "{run}");
    let guide = fs::read_to_string(GUIDE).unwrap();
    assert!(said.lines().all(|line| guide.contains(&format!("    {line}\n"))), "{run}");
    let definitions = root.read(format!("{RESOURCES}/10-site.toml")).to_string();
    let excerpt = guide.split("the last\nfour:\n\n").nth(1).unwrap().split("\n\n- ").next().unwrap();
    let excerpt: Vec<&str> = excerpt.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    assert!(definitions.ends_with(&format!("\n{}\n", excerpt.join("\n"))), "{definitions}");
    for expected in [
        "name = \"Create the directories (uploads)\"\nmodule = \"ansible.builtin.file\"\nargs.path = \"/srv/site/uploads\"",
        "when = [\"certificate.stat.exists\"]",
        "refresh_only = true\nsubscribes = [\"ansible:Configure the site\", \"ansible:Redirect to HTTPS\"]",
    ] {
        assert!(definitions.contains(expected), "{definitions}");
    }
    assert!(root.read("out/etc/holo/data/common.toml").to_string().contains("site_port = 8080\n"));
    assert!(root.exists(format!("{RESOURCES}/templates/site.conf.j2")));
}

/// The example of the guide for tasks that are to do.
fn guide_example(version: Version) {
    let root = ScratchRoot::new();
    let copied = root.run("cp", &["-r", ROLE, &root.join("site").display().to_string()]);
    assert!(copied.success(), "{copied}");
    let tasks = root.read("site/tasks/main.yml").to_string();
    let name = "- name: Look for a certificate\n";
    root.write("site/tasks/main.yml", tasks.replace(name, &format!("{name}  delegate_to: monitor\n")));
    let run = import(&root, version, &root.join("site"), &[]);
    let guide = fs::read_to_string(GUIDE).unwrap();
    assert!(run.status == Some(3) && guide.contains(&format!("\n    {}", run.stdout_lossy())), "{run}");
    let definitions = root.read(format!("{RESOURCES}/10-site.toml")).to_string();
    let comments = guide.lines().filter_map(|line| line.strip_prefix("    # TODO"));
    let comments: Vec<&str> = comments.collect();
    assert_eq!(comments.len(), 2, "{guide}");
    assert!(comments.iter().all(|text| definitions.contains(&format!("# TODO{text}\n"))), "{definitions}");
}

/// What a playbook does in ways that are easily lost. Each task that depends on one of them changes something only if it works.
const PLAYBOOK: &str = r#"
- hosts: all
  ignore_errors: true
  environment: { OF_PLAY: 'yes' }
  vars:
    states: { zebra: 1, ape: 2, cat: 3 }
    of_fact: "{{ ansible_local.test.key | default('none') }}"
  pre_tasks:
    - { command: 'true', notify: early }
    - { command: 'false' }
    - { command: 'false', register: x, failed_when: x.rc == 1 }
    - { command: 'false', register: x, until: x.rc == 0, retries: 1, delay: 0 }
    - { debug: { msg: x }, changed_when: true, notify: of a play }
    - { fail: { msg: x }, register: x }
    - { command: 'true', when: x is failed and x.msg == 'x' }
    - { assert: { that: 1 == 2 }, register: x }
    - { command: 'true', when: x is failed }
    - { set_fact: { a: 1 }, register: x }
    - { command: 'true', when: x is not skipped and not x.changed and x.ansible_facts.a == 1 }
    - { debug: { msg: x }, register: x }
    - { command: 'true', when: x.msg == 'x' }
    - { command: 'echo {{ unknown }}', register: x }
    - { command: 'true', when: x is failed }
    - { shell: 'echo a; echo b', register: x, changed_when: x.stdout_lines | length == 2 }
    - { command: echo, register: x }
    - { command: 'true', register: x, notify: early, when: x.stdout is truthy }
    - { set_fact: { count: '{{ count | default(0) | int + 1 }}' }, changed_when: true, notify: of a play }
    - { copy: { content: 'count {{ count }}', dest: /etc/imported-8 } }
    - { command: 'true', delegate_to: elsewhere, notify: early }
    - { copy: { content: 'not imported', dest: /etc/imported-5 }, delegate_to: elsewhere }
  roles:
    - role: one
  tasks:
    - { copy: { content: '{{ states | dict2items | map(attribute="key") | join(" ") }}', dest: /etc/imported-1 } }
    - { file: { path: /etc/ansible/facts.d, state: directory } }
    - { copy: { content: '{"key": "value"}', dest: /etc/ansible/facts.d/test.fact } }
    - { copy: { content: '{{ of_fact }}', dest: /etc/imported-2 } }
    - { setup: { filter: ansible_local } }
    - { copy: { content: '{{ of_fact }}', dest: /etc/imported-3 } }
    - { set_fact: { is_first: true } }
    - { include_tasks: included.yml, when: is_first }
    - { copy: { content: '{{ states }}', dest: /etc/imported-6 } }
    - { copy: { content: { b: 1, a: 2 }, dest: /etc/imported-7 } }
    - { copy: { content: 'a{{ lookup("dict", {"a": 1}).value }}{{ lookup("dict", {}) }}', dest: /etc/imported-9 } }
    - { command: 'true', loop: "{{ q('dict', states) }}" }
  handlers:
    - { name: early, command: 'true' }
    - { name: of a play, command: 'true' }
"#;

fn same_effect(version: Version) {
    let root = ScratchRoot::new().time_limit(Duration::from_secs(300));
    root.write("play.yml", PLAYBOOK);
    root.write(
        "included.yml",
        "- set_fact: { is_first: false }\n- copy: { content: '{{ is_first }}', dest: /etc/imported-4 }\n",
    );
    root.write(
        "roles/one/tasks/main.yml",
        "- { command: printenv OF_PLAY, notify: [in a file, \"one : in a file too\"] }\n",
    );
    root.write("roles/one/handlers/main.yml", "- import_tasks: more.yml\n");
    root.write(
        "roles/one/handlers/more.yml",
        "- { name: in a file, command: 'true' }\n- { name: in a file too, command: 'true' }\n",
    );
    let run = import(&root, version, &root.join("play.yml"), &["--verify"]);
    assert!(run.stdout_lossy().starts_with("40 tasks: 38 imported, 2 to do\n"), "{run}");
    assert!(run.success() && run.stdout_lossy().contains("38 of 38 tasks and 11 of 11 files"), "{run}");
}

/// A `holo` that changes the imported tasks first stands for mistakes of the import.
fn different(version: Version) {
    let root = ScratchRoot::new().time_limit(Duration::from_secs(300));
    root.write(
        "play.yml",
        "- hosts: all
  gather_facts: false
  tasks:
    - { name: mode, copy: { content: x, dest: /etc/imported-1, mode: '0600' } }
    - { name: content, copy: { content: x, dest: /etc/imported-2 } }
    - { name: path, copy: { content: x, dest: /etc/imported-3 } }
    - { name: refused, command: 'true' }
    - { name: condition, command: 'true', ignore_errors: true }
    - { name: result, command: 'true' }
    - { include_tasks: included.yml, when: false }
    - { name: end, command: 'false' }
    - { name: after the end, command: 'true' }
",
    );
    root.write("included.yml", "- { name: included, command: 'true' }\n");
    let holo = format!(
        "#!/bin/sh
sed -i -e 's/0600/0644/; s|imported-3|imported-4|; /imported-2/i args.mode = \"0644\"' -e '/name = \"content\"/,/dest/s/\"x\"/\"y\"/' \\
    -e '/name = \"refused\"/a nonsense = 1' -e '/name = \"included\"/,/when/s/^when.*//' -e '/name = \"result\"/a changed_when = false' \\
    -e '/\"ansible:refused\"/d' /etc/holo/resources/ansible/10-play.toml
exec {} \"$@\"
",
        binaries::built("holo").display()
    );
    root.write("holo", holo);
    let script =
        "chmod +x holo; cp \"$0\" .; exec ./holo-ansible import --python \"$1\" play.yml --output out --verify";
    let python = version.python().display().to_string();
    let script = format!("cd {}; {script}", root.path().display());
    let run = root.run("sh", &["-c", &script, &binaries::built("holo-ansible").display().to_string(), &python]);
    assert_eq!(run.status, Some(1), "{run}");
    let said = run.stdout_lossy();
    for expected in [
        ">> refused (",
        "): changed in the playbook, not run here\n",
        ">> result (",
        "): changed in the playbook, ok here\n",
        ">> included (",
        "): not run in the playbook, changed here\n",
        ">> /etc/imported-1: differs\n",
        ">> /etc/imported-2: differs\n",
        ">> /etc/imported-3: only in the playbook\n",
        ">> /etc/imported-4: only here\n",
        "\n5 of 8 tasks and 0 of 4 files are equal, and the playbook failed at: end\n",
    ] {
        assert!(said.contains(expected), "{expected}: {run}");
    }
    assert!(run.stderr_lossy().contains("ansible:refused: nonsense: unknown key"), "{run}");
}

fn marked(version: Version) {
    let root = ScratchRoot::new();
    root.write(
        "play.yml",
        "- hosts: all
  vars: { known: [1], empty: }
  tasks:
    - ping:
    - { command: 'date', register: now, delegate_to: other }
    - { copy: { dest: /x, content: '{{ now.stdout }}' } }
    - { file: { path: '/{{ item }}', state: touch }, loop: '{{ ansible_mounts }}' }
    - { command: 'true', tags: [never] }
    - { copy: { dest: /y, content: '{{ groups }}' } }
    - { copy: { dest: /z, content: '{{ known | sort }}' }, when: empty is none }
    - block: [ping: ]
      rescue: [{ fail: { msg: x } }]
    - { meta: end_play }
    - { nonsense: { a: b } }
    - { include_role: { name: missing } }
    - { command: 'true', notify: missing }
    - { copy: { dest: /y, content: '{{ secret }}' } }
  vars_prompt: [{ name: secret }]
",
    );
    let run = import(&root, version, &root.join("play.yml"), &[]);
    assert_eq!(run.status, Some(3), "{run}");
    assert!(run.stdout_lossy().starts_with("15 tasks: 3 imported, 12 to do\n"), "{run}");
    let definitions = root.read(format!("{RESOURCES}/10-play.toml.jinja")).to_string();
    for reason in [
        "delegate_to: has no counterpart",
        "now is set by a task that is to do",
        "the items of the loop are only known when the task is run: ",
        "the tag never has no counterpart",
        "the variable groups only exists in a controller",
        "rescue: has no counterpart",
        "meta: end_play has no counterpart",
        "there is no module nonsense",
        "the role missing was not found",
        "there is no handler missing",
        "secret is set by a task that is to do",
    ] {
        assert!(definitions.contains(&format!("# TODO: {reason}")), "{reason}: {definitions}");
    }
    assert!(
        definitions.contains("expressions.content = \"known | sort\"\nwhen = [\"empty is none\"]"),
        "{definitions}"
    );
}

fn keywords(version: Version) {
    let root = ScratchRoot::new();
    root.write(
        "play.yml",
        "- hosts: web
  gather_facts: 'no'
  serial: 2
  force_handlers: true
  timeout: 30
  vars_files: [missing.yml]
  tasks:
    - { command: id, name: checked, check_mode: true }
    - { command: id, name: checked too, check_mode: 'yes' }
    - { command: id, name: read, check_mode: 'no' }
    - { command: id, name: as root, become_user: games }
    - { command: id, name: as root too, become: 'no', become_user: games }
    - { command: id, name: as a user, become: 'yes', become_user: games }
    - { command: id, name: ignored, ignore_errors: 'yes' }
    - { command: id, name: secret, no_log: 'true', timeout: 7 }
    - { command: id, name: unclear, no_log: perhaps }
    - { command: id, name: of a block, connection: docker }
    - block: [{ command: id, name: never run }]
      tags: never
    - { setup: {}, name: notifies, notify: '{{ handler_name }}' }
- hosts: db
  become: true
  tasks:
    - { command: id, name: as a user of a play, become_user: games, when: ansible_facts is defined }
- ansible.builtin.import_playbook: more.yml
- import_playbook: more.yml
  when: false
",
    );
    root.write("more.yml", "- hosts: all\n  gather_facts: false\n  tasks: [{ command: id, name: in a file }]\n");
    let run = import(&root, version, &root.join("play.yml"), &[]);
    assert!(run.stdout_lossy().starts_with("19 tasks: 8 imported, 11 to do\n"), "{run}");
    let definitions = root.read(format!("{RESOURCES}/10-play.toml.jinja")).to_string();
    let task = |name: &str| {
        let part = definitions.split("[[task]]\n").find(|part| part.starts_with(&format!("name = \"{name}\"\n")));
        part.unwrap_or_else(|| panic!("{name}: {definitions}")).to_owned()
    };
    let user = "become_user = \"games\"";
    assert!(task("read").contains("check_mode = false\ntimeout = \"30s\"\n"), "{definitions}");
    assert!(!task("as root").contains(user) && !task("as root too").contains(user), "{definitions}");
    assert!(task("as a user").contains(user) && task("as a user of a play").contains(user), "{definitions}");
    assert!(task("ignored").contains("ignore_errors = true"), "{definitions}");
    assert!(task("secret").contains("sensitive = [\"_raw_params\"]\ntimeout = \"7s\"\n"), "{definitions}");
    assert!(task("in a file").contains("module = \"command\""), "{definitions}");
    assert_eq!(definitions.matches("name = \"Gathering Facts\"").count(), 1, "{definitions}");
    for reason in [
        "serial: of a play has no counterpart",
        "force_handlers: of a play has no counterpart",
        "[Errno 2] No such file or directory",
        "check_mode: true has no counterpart",
        "no_log: perhaps is not a boolean",
        "connection: has no counterpart",
        "the tag never has no counterpart",
        "{{ handler_name }} is only known when the task is run",
        "the next tasks are for other machines than those before",
        "import_playbook: with when",
    ] {
        assert!(definitions.contains(&format!("# TODO: {reason}")), "{reason}: {definitions}");
    }
    assert_eq!(definitions.matches("name: notifies").count(), 1, "{definitions}");
}

fn run_time_values(version: Version) {
    let root = ScratchRoot::new();
    root.write(
        "play.yml",
        "- hosts: all
  vars: { of_fact: '{{ ansible_facts.x | default([]) }}', of_data: [1] }
  tasks:
    - { command: id, register: reg }
    - { command: id, loop: '{{ reg.stdout_lines | default([]) }}' }
    - { command: id, loop: '{{ ansible_facts.x | default([]) }}' }
    - { command: id, loop: '{{ of_fact }}' }
    - { command: id, loop: '{{ of_task }}', vars: { of_task: '{{ ansible_x | default([]) }}' } }
    - { command: id, loop: \"{{ q('env', 'HOME') }}\" }
    - { command: id, loop: '{{ hostless[inventory_hostname] | default([]) }}' }
    - { command: id, become: true, become_user: \"{{ reg.stdout | default('root') }}\" }
    - { command: id, environment: \"{{ ansible_env | default({}) }}\" }
    - { command: id, loop: '{{ of_data }}', become: true, become_user: '{{ user }}', vars: { user: games } }
    - { command: id, loop: '{{ of_inventory | default([]) }}' }
",
    );
    let run = import(&root, version, &root.join("play.yml"), &[]);
    assert!(run.stdout_lossy().starts_with("11 tasks: 3 imported, 8 to do\n"), "{run}");
    let definitions = root.read(format!("{RESOURCES}/10-play.toml.jinja")).to_string();
    assert_eq!(definitions.matches("only known when the task is run").count(), 8, "{definitions}");
    assert!(definitions.contains("become_user = \"games\""), "{definitions}");
    assert!(definitions.contains("# command: the loop has no items with these variables."), "{definitions}");
}

/// Texts that break out of a comment, a key or a literal, or that TOML does not allow, are escaped.
fn hostile_names(version: Version) {
    let root = ScratchRoot::new();
    let hostile = r"x\n[[task]]\nname = 'added'\r\x1b[31m\x7f\0\u0085\u2028\\\x22";
    root.write(
        "play.yml",
        format!(
            "- hosts: all
  vars: {{ \"{hostile}\": \"{hostile}\", \"key\\n\": 1, \"secret{hostile}\": !vault x }}
  tasks:
    - {{ name: \"none {hostile}\", command: id, loop: [] }}
    - {{ name: \"to do {hostile}\", command: id, \"{hostile}\": 1 }}
    - {{ name: \"{hostile}\", copy: {{ content: \"{hostile}\", \"{hostile}\": 1, dest: \"/{hostile}{{{{ one }}}}\" }}, vars: {{ one: 1 }} }}
"
        ),
    );
    let run = import(&root, version, &root.join("play.yml"), &[]);
    assert!(run.stdout_lossy().starts_with("3 tasks: 2 imported, 1 to do\n"), "{run}");
    let text = root.read(format!("{RESOURCES}/10-play.toml")).to_string();
    let definitions: toml::Table = toml::from_str(&text).unwrap();
    let tasks = definitions.get("task").and_then(toml::Value::as_array).unwrap();
    assert_eq!(tasks.len(), 1, "{text}");
    let texts = "x\n[[task]]\nname = 'added'\r\u{1b}[31m\u{7f}\0\u{85}\u{2028}\\\"";
    let args = tasks.first().and_then(|task| task.get("args")).unwrap();
    assert_eq!(args.get("content").and_then(toml::Value::as_str), Some(texts), "{text}");
    assert!(args.get(texts).is_some(), "{text}");
    let data: toml::Table = toml::from_str(&root.read("out/etc/holo/data/common.toml").to_string()).unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["key\n", texts], "{data}");
}

fn conflicting(version: Version) {
    let root = ScratchRoot::new();
    root.write("play.yml", "- {hosts: all, roles: [one, two]}\n");
    for role in ["one", "two"] {
        root.write(format!("roles/{role}/files/x"), format!("of {role}\n"));
        root.write(format!("roles/{role}/tasks/main.yml"), "- copy: { src: x, dest: /x }\n- ping:\n");
    }
    let run = import(&root, version, &root.join("play.yml"), &[]);
    assert!(run.stdout_lossy().starts_with("4 tasks: 3 imported, 1 to do\n"), "{run}");
    assert_eq!(root.read(format!("{RESOURCES}/files/x")), "of one\n");
}

fn unreadable(version: Version) {
    let root = ScratchRoot::new();
    for (content, reason) in [("- hosts: [", "line 1"), ("text", "is not a list of plays")] {
        root.write("play.yml", content);
        let run = import(&root, version, &root.join("play.yml"), &[]);
        assert_eq!(run.status, Some(1), "{run}");
        let said = run.stderr_lossy();
        assert!(said.starts_with("!! cannot import ") && said.contains(reason), "{run}");
    }
    let run = import(&root, version, &root.join("none.yml"), &[]);
    assert!(run.status == Some(1) && run.stderr_lossy().contains("No such file"), "{run}");
}
