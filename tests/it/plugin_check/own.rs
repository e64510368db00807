//! Our own plugins, which have no findings.

use super::{check, ensure, repository};
use holo_testing::{ScratchRoot, binaries::built};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeSet;
use std::fs;

/// A plugin with sample resources in `resources/`, and a system in `root/`.
struct Sample {
    plugin: &'static str,
    /// The plugin, or its tested feature.
    what: &'static str,
    fill: fn(ScratchRoot) -> ScratchRoot,
}

const SAMPLES: [Sample; 16] = [
    good("ansible", "a task", |root| {
        root.file("resources/x.toml", "[[task]]\nname = \"x y\"\nmodule = \"ping\"\nargs = { data = \"z\" }\n")
    }),
    good("archives", "a download", |root| {
        let definition = "[[archive]]\npath = \"/var/x\"\nurl = \"file:///srv/x\"\n";
        root.file("resources/x.toml", definition).file("root/srv/x", "not to be extracted\n")
    }),
    good("exec", "a command with a guard", |root| {
        root.file("resources/x.toml", "[[exec]]\nname = \"x\"\ncommand = \"true\"\ncreates = \"/x\"\n")
    }),
    good("exec", "a command that runs at every apply", |root| {
        root.file("resources/x.toml", "[[exec]]\nname = \"x\"\ncommand = \"true\"\n")
    }),
    good("files", "overlays", |root| {
        root.file("root/etc/os-release", "ID=unittest\n")
            .file("root/etc/motd", "stock\n")
            .file("root/etc/issue", "stock\n")
            .file("resources/10-ours/etc/motd", "ours\n")
            .script("resources/20-more/etc/motd.holoscript", "#!/bin/sh\ncat\necho more\n")
            .symlink("resources/20-more/etc/issue", "motd")
    }),
    good("files", "declared files", |root| {
        root.file("resources/x.toml", "[[file]]\npath = \"/etc/x/y\"\ncontent = \"z\"\nmode = \"0600\"\n")
    }),
    good("packages", "packages that come and go", |root| {
        let definitions = "[[package]]\nname = \"nginx\"\n[[package]]\nname = \"vi\"\nensure = \"absent\"\n";
        root.file("resources/x.toml", definitions)
    }),
    good("promises", "a promise", |root| {
        let module = "[[module]]\ntype = \"line\"\npath = \"/usr/lib/line.py\"\n";
        let promise = "[[promise]]\ntype = \"line\"\npromiser = \"/etc/x\"\nattributes = { line = \"y\" }\n";
        root.file("resources/x.toml", format!("{module}{promise}"))
    }),
    good("ral", "a resource", |root| {
        let resource = "[[resource]]\ntype = \"row\"\nname = \"x\"\nattributes = { ensure = \"present\" }\n";
        root.file("resources/x.toml", resource)
    }),
    good("run-scripts", "scripts", |root| {
        let subscriber = "#!/bin/sh\n# holo: subscribes file:/etc/x\n:\n";
        root.script("resources/10-always", "#!/bin/sh\n:\n").script("resources/20-subscriber", subscriber)
    }),
    good("scaffold", "a tree", |root| {
        root.file("resources/x.toml", "[[scaffold]]\ntarget = \"/etc/x\"\nsource = \"tree\"\n")
            .file("resources/tree/a.conf.jinja", "{{ facts.kernel.name }}\n")
    }),
    good("services", "a service", |root| {
        root.file("resources/x.toml", "[[service]]\nname = \"sshd\"\nenable = true\n")
    }),
    good("ssh-keys", "keys", |root| {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC5bdvhBGmPIe+H26T6NYSni7qEaHNMD3U+PRVoFb4La a\n";
        root.dir("root/home/jane").file("resources/jane/a.pub", key)
    }),
    good("ssh-keys", "keys that change between key sets", |root| {
        let one = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC5bdvhBGmPIe+H26T6NYSni7qEaHNMD3U+PRVoFb4La";
        let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
        root.file("root/home/jane/.ssh/authorized_keys", format!("{one} holo=ssh-keyset:jane/a\n"))
            .file("resources/jane/a.pub", format!("{other} x\n"))
            .file("resources/jane/b.pub", format!("{one} x\n"))
    }),
    good("users-groups", "what is there already", |root| {
        root.file("root/etc/passwd", "jane:x:1000:1000::/home/jane:/bin/sh\n")
            .file("root/etc/group", "jane:x:1000:\n")
            .file("resources/x.toml", "[[group]]\nname = \"jane\"\n[[user]]\nname = \"jane\"\ngroup = \"jane\"\n")
    }),
    good("users-groups", "what is to be made", |root| {
        root.file("root/etc/passwd", "")
            .file("root/etc/group", "")
            .file("resources/x.toml", "[[group]]\nname = \"jane\"\n[[user]]\nname = \"jane\"\ngroup = \"jane\"\n")
    }),
];

const fn good(plugin: &'static str, what: &'static str, fill: fn(ScratchRoot) -> ScratchRoot) -> Sample {
    Sample { plugin, what, fill }
}

pub(super) fn all() -> Vec<Trial> {
    let samples = SAMPLES.iter().map(|sample| {
        Trial::test(format!("own/{}/{}", sample.plugin, sample.what.replace(' ', "_")), || is_good(sample))
    });
    samples.chain([Trial::test("own/each_has_a_sample", each_has_a_sample)]).collect()
}

fn is_good(sample: &Sample) -> Result<(), Failed> {
    let root = (sample.fill)(ScratchRoot::new().dir("root/etc"));
    let plugin = built(&format!("holo-{}", sample.plugin));
    let run = check(&root, &["--resources", "resources", "--root", "root", plugin.to_str().unwrap()])?;
    ensure(run.stderr.is_empty(), "should find nothing", &run)?;
    ensure(run.stdout.ends_with(b" checks passed, 0 failed, 0 warnings\n"), "should count", &run)
}

fn each_has_a_sample() -> Result<(), Failed> {
    let plugins: BTreeSet<_> =
        fs::read_dir(repository("plugins")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let sampled: BTreeSet<_> = SAMPLES.iter().map(|sample| sample.plugin.into()).collect();
    if plugins == sampled { Ok(()) } else { Err(format!("there are {plugins:?}, and samples for {sampled:?}").into()) }
}
