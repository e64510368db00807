//! The same configuration for several configuration managers, on a booted system.

use super::{Scene, Step, content};
use crate::timing::site::{Site, Words, holo, words};
use anyhow::Result;
use holo_testing::{Need, Overlay, overlay};
use std::path::Path;

/// The directory into which `benches/peers` puts the other programs.
const PEERS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/peers");
/// The configurations for them.
const CONFIGURATIONS: &str = "srv/peers";
/// The managed files.
const FILES: &str = "/srv/bench";
const USERS: [&str; 3] = ["bench-1", "bench-2", "bench-3"];
const SHELL: &str = "/usr/sbin/nologin";
const PACKAGE: &str = "sed";
/// The number of entities that are not files: users, a package and a service.
const OTHERS: usize = USERS.len() + 2;

const TWELVE: [&str; 12] = [
    "packages",
    "files",
    "archives",
    "users-groups",
    "ssh-keys",
    "scaffold",
    "promises",
    "ral",
    "ansible",
    "services",
    "exec",
    "run-scripts",
];

pub(super) fn scene() -> Scene {
    let steps = [
        peer("holo, first run", "holo, nothing to do", prepare_holo, |_| holo(&["apply"])),
        peer("shell script, first run", "shell script, nothing to do", reset, |_| {
            Ok(words(&["sh", "/srv/peers/script"]))
        }),
        peer("cf-agent, first run", "cf-agent, nothing to do", reset, |_| {
            Ok(words(&["cf-agent", "--no-lock", "--file", "/srv/peers/policy.cf"]))
        }),
        peer("pyinfra, first run", "pyinfra, nothing to do", reset, |_| {
            let program = format!("{PEERS}/pyinfra/bin/pyinfra");
            Ok(words(&[&program, "@local", "/srv/peers/deploy.py", "-y"]))
        }),
        peer("puppet apply, first run", "puppet apply, nothing to do", reset, |_| {
            Ok(words(&["puppet", "apply", "/srv/peers/site.pp"]))
        }),
        peer("ansible-playbook, first run", "ansible-playbook, nothing to do", reset, |_| {
            let environment = ["env", "LC_ALL=C.UTF-8", "ANSIBLE_PIPELINING=1", "ansible-playbook"];
            let options = ["--connection=local", "--inventory=localhost,", "/srv/peers/playbook.yml"];
            let python = ["--extra-vars", "ansible_python_interpreter=/usr/bin/python3"];
            Ok(words(&[&environment[..], &options, &python].concat()))
        }),
        peer(
            "holo with Ansible's modules, first run",
            "holo with Ansible's modules, nothing to do",
            prepare_tasks,
            |_| holo(&["apply"]),
        ),
    ];
    Scene {
        name: "the same configuration for other programs",
        entities: "entities",
        sizes: &[20, 200],
        needs: &[overlay::NEEDS_TO_BOOT, &[Need::Path(PEERS)]],
        system: Some(|| Overlay::booted_with(&[Path::new(PEERS)])),
        prepare,
        steps: steps.into_iter().flatten().collect(),
        ratios: &[],
        remarks: "Three users, a package that is installed, a service that is started, and files of 400 bytes for the \
            rest. What a sceptic would object to:\n\n\
            - The others are general tools: `ansible-playbook` and `pyinfra` are made for many machines at once, and \
            load Python and their modules for this one. On a fleet they work in parallel, which this does not show.\n\
            - Ansible does not gather facts here, has pipelining enabled and is told its Python, which makes it faster \
            than by default. Puppet always collects facts and compiles a catalog. pyinfra runs a shell command for \
            each fact.\n\
            - With nothing to do, holo only compares the stamps of files and of the account files, and asks dpkg for the \
            package and systemd for the service. The others read each file. Without its memory, after `--verify`, holo \
            also reads them.\n\
            - Guarantees differ: holo syncs, keeps the original state, writes a record, and refuses to overwrite manual \
            changes. The script writes to a temporary file and renames it; it syncs nothing and keeps nothing.\n\
            - The script starts three programs for each file. One in C, or a cleverer one, would be faster.\n\
            - For cf-agent, the package is looked up with `package_method => apt`, because Debian has no package \
            modules for it, and locks are disabled, because it would otherwise skip promises for a minute.",
    }
}

pub(super) fn twelve_plugins() -> Scene {
    Scene {
        name: "twelve plugins",
        entities: "entities",
        sizes: &[20],
        needs: &[overlay::NEEDS_TO_BOOT],
        system: Some(Overlay::booted),
        prepare: |site| site.plugins(&TWELVE),
        steps: vec![
            Step::new("scan, no entities", |_| holo(&["scan", "-s"])).after(Site::settle).changes_nothing(),
            Step::new("apply, no entities", |_| holo(&["apply"])).changes_nothing(),
            Step::new("first apply", |_| holo(&["apply"])).after(|site| {
                reset(site)?;
                site.plugins(&TWELVE)?;
                write_definitions(site, site.size - 2)?;
                let exec = "[[exec]]\nname = \"bench\"\ncommand = \"true\"\ncreates = \"/etc/passwd\"\n";
                site.write("usr/share/holo/exec/bench.toml", exec)?;
                site.write("usr/share/holo/scaffold/bench/template", "{{ data.name }}\n")?;
                let scaffold =
                    "[[scaffold]]\ntarget = \"/srv/scaffold\"\nsource = \"bench\"\ndata = { name = \"x\" }\n";
                site.write("usr/share/holo/scaffold/bench.toml", scaffold)
            }),
            Step::new("apply, nothing to do", |_| holo(&["apply"])).after(Site::settle).changes_nothing(),
            Step::new("apply --verify, nothing to do", |_| holo(&["apply", "--verify"])).changes_nothing(),
            Step::new("check", |_| holo(&["check"])).changes_nothing(),
            Step::new("scan", |_| holo(&["scan", "-s"])),
            Step::new("`holo version`", |_| holo(&["version"])),
        ],
        ratios: &[],
        remarks: "All plugins are configured; the entities are 13 files, three users, a package, a service, a command \
            and a directory of templates. There is no other program to compare with. A service is asked for in each \
            run, so that one plugin is started and `systemctl` runs. Modules of other systems would also run each time.",
    }
}

/// Returns the steps of a program.
fn peer(
    first: &'static str,
    again: &'static str,
    configure: fn(&Site) -> Result<()>,
    words: fn(&Site) -> Result<Words>,
) -> [Step; 2] {
    let settle = if first.starts_with("holo") { Site::settle } else { |_: &Site| Ok(()) };
    [
        Step::new(first, words).after(configure).checked(|site, _| is_done(site, "-size 0")),
        Step::new(again, words).after(settle).checked(|site, _| is_done(site, "-newer /srv/stamp")),
    ]
}

/// Unpacks the other programs, which are not installed so that none of their services start, and writes configurations.
fn prepare(site: &Site) -> Result<()> {
    let system = site.system()?;
    system.must(&format!("set -- {PEERS}/debs/*.deb; [ ! -e $1 ] || dpkg --unpack --force-depends \"$@\""));
    let files: Vec<(String, String)> = files(site.size - OTHERS);
    let (mut puppet, mut pyinfra, mut ansible, mut policy, mut script) = (
        String::new(),
        "from io import StringIO\nfrom pyinfra.operations import apt, files, server, systemd\n".to_owned(),
        "- hosts: all\n  gather_facts: false\n  tasks:\n".to_owned(),
        "body common control { inputs => { \"/usr/share/cfengine3/masterfiles/lib/stdlib.cf\" }; bundlesequence => { \"main\" }; }\n\
         body perms mode644 { mode => \"0644\"; rxdirs => \"false\"; }\nbundle agent main\n{\nfiles:\n".to_owned(),
        "set -eu\nput() {\n    printf %s \"$2\" | cmp -s - \"$1\" || { printf %s \"$2\" >\"$1.new\"; mv \"$1.new\" \"$1\"; }\n    \
         [ \"$(stat -c %a \"$1\")\" = 644 ] || chmod 644 \"$1\"\n}\n".to_owned(),
    );
    for (path, text) in &files {
        puppet += &format!("file {{ '{path}': content => {text:?}, mode => '0644' }}\n");
        pyinfra += &format!("files.put(src=StringIO({text:?}), dest=\"{path}\", mode=\"644\")\n");
        ansible += &format!("  - copy: {{ dest: {path}, content: {text:?}, mode: \"0644\" }}\n");
        policy += &format!("\"{path}\" create => \"true\", content => \"{text}\", perms => mode644;\n");
        script += &format!("put {path} '{text}'\n");
    }
    policy += "users:\n";
    for user in USERS {
        puppet += &format!("user {{ '{user}': ensure => present, shell => '{SHELL}' }}\n");
        pyinfra += &format!("server.user(user=\"{user}\", shell=\"{SHELL}\", create_home=False)\n");
        ansible += &format!("  - user: {{ name: {user}, shell: {SHELL}, create_home: false }}\n");
        policy += &format!("\"{user}\" policy => \"present\", shell => \"{SHELL}\";\n");
        script += &format!("getent passwd {user} >/dev/null || useradd --no-create-home --shell {SHELL} {user}\n");
    }
    puppet += &format!("package {{ '{PACKAGE}': ensure => present }}\nservice {{ 'bench': ensure => running }}\n");
    pyinfra +=
        &format!("apt.packages(packages=[\"{PACKAGE}\"])\nsystemd.service(service=\"bench.service\", running=True)\n");
    ansible += &format!("  - apt: {{ name: {PACKAGE} }}\n  - systemd: {{ name: bench.service, state: started }}\n");
    policy += &format!("packages:\n\"{PACKAGE}\" package_policy => \"add\", package_method => apt;\n");
    policy += "services:\n\"bench\" service_policy => \"start\";\n}\n";
    script +=
        &format!("dpkg-query -W -f '${{db:Status-Abbrev}}' {PACKAGE} | grep -q ^ii || apt-get -qq install {PACKAGE}\n");
    script += "systemctl is-active --quiet bench || systemctl start bench\n";
    for (name, text) in [
        ("site.pp", puppet),
        ("deploy.py", pyinfra),
        ("playbook.yml", ansible),
        ("policy.cf", policy),
        ("script", script),
    ] {
        site.write(&format!("{CONFIGURATIONS}/{name}"), &text)?;
    }
    system.must("chmod 600 /srv/peers/policy.cf");
    reset(site)
}

/// Returns the paths and contents of the managed files.
fn files(count: usize) -> Vec<(String, String)> {
    (0..count).map(|number| (format!("{FILES}/{number}.conf"), content("wanted", number))).collect()
}

/// Brings the system into the state before the first run.
fn reset(site: &Site) -> Result<()> {
    site.write("etc/systemd/system/bench.service", "[Service]\nExecStart=/bin/sleep infinity\n")?;
    let users = USERS.join(" ");
    site.system()?.must(&format!(
        "systemctl daemon-reload; systemctl stop bench; rm -rf {FILES} /var/lib/holo /usr/share/holo/*; mkdir {FILES}\n\
         for user in {users}; do ! getent passwd $user >/dev/null || userdel $user; done"
    ));
    Ok(())
}

fn prepare_holo(site: &Site) -> Result<()> {
    reset(site)?;
    site.plugins(&["files", "users-groups", "packages", "services"])?;
    write_definitions(site, site.size)
}

/// Writes definitions of this number of entities.
fn write_definitions(site: &Site, count: usize) -> Result<()> {
    let file = |(path, text): (String, String)| format!("[[file]]\npath = \"{path}\"\ncontent = {text:?}\n");
    let files: String = files(count - OTHERS).into_iter().map(file).collect();
    site.write("usr/share/holo/files/bench.toml", &files)?;
    let users = USERS.map(|user| format!("[[user]]\nname = \"{user}\"\nshell = \"{SHELL}\"\n")).concat();
    site.write("usr/share/holo/users-groups/bench.toml", &users)?;
    site.write("usr/share/holo/packages/bench.toml", &format!("[[package]]\nname = \"{PACKAGE}\"\n"))?;
    site.write("usr/share/holo/services/bench.toml", "[[service]]\nname = \"bench\"\n")
}

/// Writes definitions of tasks for Ansible's modules.
fn prepare_tasks(site: &Site) -> Result<()> {
    reset(site)?;
    site.plugins(&["ansible"])?;
    let mut number = 0;
    let mut task = |module: &str, args: String| {
        number += 1;
        format!("[[task]]\nname = \"{number}\"\nmodule = \"{module}\"\nargs = {{ {args} }}\n")
    };
    let mut definitions = String::new();
    for (path, text) in files(site.size - OTHERS) {
        definitions += &task("copy", format!("dest = \"{path}\", content = {text:?}, mode = \"0644\""));
    }
    for user in USERS {
        definitions += &task("user", format!("name = \"{user}\", shell = \"{SHELL}\", create_home = false"));
    }
    definitions += &task("apt", format!("name = \"{PACKAGE}\""));
    definitions += &task("systemd", "name = \"bench.service\", state = \"started\"".to_owned());
    site.write("usr/share/holo/ansible/bench.toml", &definitions)
}

/// Returns true if everything is in the desired state, and `find` finds no file with this property.
fn is_done(site: &Site, wrong: &str) -> Result<bool> {
    let (count, users) = (site.size - OTHERS, USERS.join(" "));
    let script = format!(
        "set -- {FILES}/*.conf; [ $# = {count} ] && [ -z \"$(find \"$@\" {wrong})\" ] && touch /srv/stamp\n\
         [ \"$(cat \"$@\" | wc -c)\" = {} ] && getent passwd {users} >/dev/null && systemctl is-active --quiet bench",
        files(count).iter().map(|(_, text)| text.len()).sum::<usize>()
    );
    Ok(site.system()?.sh(&script).success())
}
