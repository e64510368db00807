//! Tests of `holo-ansible import`.

use crate::ansible::{Version, with_each};
use holo_testing::{Need, Run, ScratchRoot, binaries};
use libtest_mimic::Trial;
use std::path::Path;
use std::time::Duration;

const ROLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/from-ansible/roles/site");
const RESOURCES: &str = "out/etc/holo/resources/ansible";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = with_each("a role is imported, and has the same result as before", &[Need::Root], same_result);
    trials.extend(with_each("tasks that cannot be imported are marked", &[], marked));
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
    let definitions = root.read(format!("{RESOURCES}/10-site.toml")).to_string();
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
",
    );
    let run = import(&root, version, &root.join("play.yml"), &[]);
    assert_eq!(run.status, Some(3), "{run}");
    assert!(run.stdout_lossy().starts_with("12 tasks: 2 imported, 10 to do\n"), "{run}");
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
    ] {
        assert!(definitions.contains(&format!("# TODO: {reason}")), "{reason}: {definitions}");
    }
    assert!(
        definitions.contains("expressions.content = \"known | sort\"\nwhen = [\"empty is none\"]"),
        "{definitions}"
    );
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
