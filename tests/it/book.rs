//! The pages of the book in `docs/`: each command is run, in order, and its output must be the one that the page shows.
//!
//! A page with commands begins with a comment that names where they are run:
//!
//! - `<!-- run: root -->`: in an empty directory that is also the root of holo;
//! - `<!-- run: machine PLUGIN… -->`: in a copy of this machine, with these plugins;
//! - `<!-- run: booted PLUGIN… -->`: the same, with systemd;
//! - `<!-- run by: PATH -->`: by another test.
//!
//! Commands begin with `$ ` or `# ` in a block of the language `console`. The comment `<!-- file: PATH -->` before a block
//! makes the test write it to this path, and `<!-- script: PATH -->` makes it executable. `<!-- not run: REASON -->` before a
//! block excludes it.

use crate::examples::Example;
use crate::transcript::{Shell, document, follow, install, steps};
use bstr::ByteSlice;
use holo_testing::overlay::{NEEDS, NEEDS_TO_BOOT};
use holo_testing::{Need, Overlay, ScratchRoot, binaries, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;

/// The programs that commands of pages need, apart from holo's own.
const PROGRAMS: [&str; 6] = ["bash", "useradd", "ssh-keygen", "python3", "dpkg-deb", "apt-get"];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |page: String| {
        let place = place(&document(&page));
        let programs = PROGRAMS.map(Need::Program);
        let needs: Vec<Need> = match place.split(' ').next() {
            Some("machine") => NEEDS.iter().copied().chain(programs).collect(),
            Some("booted") => NEEDS_TO_BOOT.iter().copied().chain(programs).collect(),
            _ => vec![Need::Program("bash"), Need::Path("/usr/bin/python3")],
        };
        trial_of(&format!("commands of {page}"), &needs, move || commands_work(&page))
    };
    let links = trial_of("links of the book lead to its pages", &[Need::Program("mandoc")], links_lead_to_pages);
    let needs = [NEEDS, &[Need::Program("ucf"), Need::Program("ucfr")]].concat();
    let readme = trial_of("examples of the README, in order", &needs, readme_examples_work);
    pages().into_iter().map(trial).chain([links, readme]).collect()
}

/// The README's examples, with another program in place of sshd: what was changed on the machine is adopted, and a setting is
/// changed afterwards.
fn readme_examples_work() {
    let text = document("README.md");
    let section = text.split("\n## An example\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let blocks: Vec<String> = section
        .split("\n\n")
        .filter(|paragraph| paragraph.starts_with("    "))
        .map(|paragraph| paragraph.lines().map(|line| format!("{}\n", line.trim_start())).collect())
        .collect();
    let [script, overlay] = &blocks[..] else { panic!("{blocks:?}") };
    let machine = Overlay::new();
    install(&machine, &["files"]);
    // As on Debian, where the file is none of its package, which installs it by ucf.
    machine.write("/usr/share/openssh/sshd_config", "Port 22\n#PermitRootLogin yes\n");
    let install = "mkdir -p /etc/ssh && rm -f /etc/ssh/sshd_config
        ucf /usr/share/openssh/sshd_config /etc/ssh/sshd_config && ucfr openssh-server /etc/ssh/sshd_config";
    machine.must(install);
    machine.must("sed -i 's/^Port.*/Port 2222/; s/#Permit.*/PermitRootLogin prohibit-password/' /etc/ssh/sshd_config");
    let run = machine.holo(&["adopt", "/etc/ssh/sshd_config"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    let patch = machine.read("/etc/holo/resources/files/10-local/etc/ssh/sshd_config.holopatch");
    assert!(patch.contains_str("-Port 22\n") && patch.contains_str("+Port 2222\n"), "{patch}");
    let run = machine.holo(&["check"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");

    machine.script("/usr/sbin/sshd", "#!/bin/sh\n[ \"$1 $2\" = '-t -f' ] && grep -q '^PermitRootLogin no$' $3\n");
    machine.script("/etc/holo/resources/files/50-mysite/etc/ssh/sshd_config.holoscript", script);
    // The plugins of the other entities are not configured.
    let lines = overlay.lines().filter(|line| !line.starts_with("requires") && !line.starts_with("notifies"));
    let overlay: String = lines.map(|line| format!("{line}\n")).collect();
    machine.write("/etc/holo/resources/files/50-mysite.toml", overlay);
    let run = machine.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert_eq!(machine.read("/etc/ssh/sshd_config"), "Port 2222\nPermitRootLogin no\n");
    // Another change belongs to the first one only if nothing was applied to it in between.
    machine.must("sed -i 's/2222/2223/' /etc/ssh/sshd_config");
    let run = machine.holo(&["adopt", "/etc/ssh/sshd_config"]);
    assert!(run.success() && run.stdout.contains_str("90-local"), "{run}");
    let run = machine.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    assert_eq!(machine.read("/etc/ssh/sshd_config"), "Port 2223\nPermitRootLogin no\n");
}

/// In the book, links to manual pages must lead to their HTML versions, and no link leads out of it.
fn links_lead_to_pages() {
    let root = ScratchRoot::new().script("mdbook", "#!/bin/sh\n");
    let target = root.join("book");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/make-book");
    let run = root.run(program, &[root.join("mdbook").as_os_str(), target.as_os_str()]);
    assert!(run.success(), "{run}");
    let mut count = 0;
    for page in pages() {
        let name = Path::new(&page).file_name().unwrap();
        let text = fs::read_to_string(target.join("source").join(name)).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if !link.contains("://") && !path.is_empty() && !path.contains(' ') {
                assert!(!link.starts_with(".."), "{page}: {link} leads out of the book");
                assert!(target.join("source").join(path).exists(), "{page}: {link} leads nowhere in the book");
                count += 1;
            }
        }
    }
    assert!(count > 50, "{count} links");
}

fn pages() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    pages.sort();
    pages
}

/// Returns the place named at the beginning of a page: empty without commands, and `by PATH` if another test runs them.
fn place(page: &str) -> String {
    let comment = page.lines().next().and_then(|line| line.strip_prefix("<!-- run"));
    let place = comment.and_then(|comment| comment.strip_suffix(" -->")).unwrap_or_default();
    place.trim_start_matches(':').trim().replace("by: ", "by ")
}

fn commands_work(page: &str) {
    let text = document(page);
    let place = place(&text);
    if let Some(test) = place.strip_prefix("by ") {
        assert!(document(test).contains(page), "{test} does not run {page}");
        return;
    }
    let indented = text.lines().filter(|line| line.starts_with("    $ ") || line.starts_with("    # "));
    assert_eq!(indented.count(), 0, "{page} has commands outside of blocks of the language console");
    let blocks = blocks(&text);
    let mut plugins = place.split(' ').skip(1).collect::<Vec<_>>();
    match place.split(' ').next() {
        Some("root") => {
            let path = format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", binaries::built("holo").parent().unwrap().display());
            let _ = binaries::built("holo-files");
            let root = ScratchRoot::new().env("PATH", path).env("HOLO_HISTORY", "1");
            let _ = root.run("sh", &["-c", "rm -rf etc run usr var"]);
            run_blocks(&root, &blocks, page);
        }
        Some(kind @ ("machine" | "booted")) => {
            let machine = if kind == "booted" { Overlay::booted() } else { Overlay::new() };
            plugins.retain(|plugin| !plugin.is_empty());
            install(&machine, &plugins);
            prepare(page, &machine);
            machine.write("/tmp/.transcript", "cd /root\n");
            run_blocks(&machine, &blocks, page);
        }
        _ => assert!(blocks.iter().all(|block| block.language != "console"), "{page} has commands that are not run"),
    }
}

/// Makes the files that a page refers to.
fn prepare(page: &str, machine: &Overlay) {
    let link = |program: &str| format!("ln -sf {} /usr/bin/{program}", binaries::built(program).display());
    match page {
        "docs/secrets.md" => {
            machine.must(&link("holo-secret"));
            machine.must("rm -rf /etc/ssh/ssh_host_*; mkdir -p /etc/ssh; ssh-keygen -qt ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key");
        }
        "docs/webapp.md" => {
            let example = Example("webapp");
            example.install("app", "/srv/app", machine);
            machine.must(crate::webapp::ARCHIVES);
            let shown = [
                "holo/archives/30-webapp.toml.jinja",
                "holo/scaffold/30-webapp.toml",
                "holo/scaffold/webapp/app.conf.jinja",
                "holo/services/30-webapp.toml",
                "holo/files/30-webapp.toml",
                "holo/users-groups/30-webapp.toml",
                "data/common.toml",
            ];
            shown.iter().for_each(|file| example.is_fenced(file, page));
        }
        "docs/from-puppet.md" | "docs/service.md" => {
            machine.must(crate::together::REPOSITORY);
            if page == "docs/service.md" {
                let shown = ["packages/20-mysite.toml", "files/20-mysite/etc/greeter.conf", "services/20-mysite.toml"];
                shown.iter().for_each(|file| Example("greeter").is_fenced(file, page));
            }
        }
        _ => {}
    }
}

/// A fenced block of a page.
struct Block {
    language: String,
    text: String,
    /// The comment before it, such as `file: /etc/motd`.
    comment: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut comment = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: String =
                lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
            blocks.push(Block { language: language.to_owned(), text, comment: std::mem::take(&mut comment) });
        } else if let Some(text) = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->")) {
            comment = text.to_owned();
        } else if !line.is_empty() {
            comment.clear();
        }
    }
    blocks
}

fn run_blocks(system: &impl Shell, blocks: &[Block], page: &str) {
    let mut transcript = Vec::new();
    for Block { language, text, comment } in blocks {
        let kind = comment.split(": ").next().unwrap_or_default();
        let value = comment.split_once(": ").map(|(_, value)| value).unwrap_or_default();
        match kind {
            "file" | "script" => {
                let mode = if kind == "script" { "755" } else { "644" };
                let written = format!(
                    "mkdir -p \"$(dirname '{value}')\"; cat >'{value}' <<'END OF FILE'\n{text}END OF FILE\nchmod {mode} '{value}'"
                );
                transcript.push(crate::transcript::Step { command: written, output: String::new() });
            }
            "not run" => assert!(value.len() > 10, "{page}: why is this not run? {text}"),
            _ if language == "console" => transcript.extend(steps(text)),
            _ => {}
        }
    }
    follow(system, &transcript, page);
}
