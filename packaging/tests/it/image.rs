//! Images: a Debian that does not run is applied to, from outside and from inside, and boots into its desired state.

use crate::repository;
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time for creating a system, and for the apply at its first boot.
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) fn trials() -> Vec<Trial> {
    let programs = ["bash", "mmdebstrap", "apt-ftparchive", "chroot", "pgrep", "strip"].map(Need::Program);
    let needs: Vec<Need> = NEEDS_TO_BOOT.iter().copied().chain(programs).collect();
    vec![
        trial_of("what is left by apply --root is done at the first boot", &needs, from_outside),
        trial_of("HOLO_OFFLINE=1 in a chroot does the same", &needs, from_inside),
        trial_of("commands of docs/images.md work", &needs, guide_works),
        trial_of("an apply --root does not change the machine", &needs, machine_is_untouched),
        trial_of("only one holo works on a root, and it ends with a signal", &needs, one_at_a_time),
    ]
}

/// A Debian as small as it can be while it boots, which is created once per run: mmdebstrap takes most of a minute. It contains the holo of
/// this build, a repository with the package `tool`, and the packages that resource files come from.
const BASE: &str = r#"
root=$1 repository=$2
suite=$(. /etc/os-release && [[ $ID == debian ]] && echo "$VERSION_CODENAME" || echo bookworm)
sources=()
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [[ ! -s $file ]] || { sources=("$file"); break; }
done
proxies=()
while read -r line; do proxies+=(--aptopt="$line"); done < <(apt-config dump | grep -iE '^Acquire::.*proxy' || :)
mmdebstrap --quiet --variant=minbase --include=systemd-sysv "${proxies[@]}" "$suite" "$root" "${sources[@]}"
DESTDIR=$root "$repository/packaging/install" holo
strip "$root"/usr/bin/holo* "$root"/usr/lib/holo/holo-*
# Packages come from the repository inside only.
rm -rf "$root"/etc/apt/sources.list*
mkdir "$root/srv/repository"
echo 'deb [trusted=yes] file:/srv/repository ./' >"$root/etc/apt/sources.list"
cd "$root/srv/repository"
package() {
    "$BUILD/holo-build" --no-check --format debian "$1.toml"
    rm "$1.toml"
}
cat >tool.toml <<END
[package]
name = "tool"
version = "1.0"
author = "J <j@x>"
[[file]]
path = "/opt/tool"
content = "x"
END
cat >holo.toml <<END
[package]
name = "holo"
version = "4.0.0"
author = "J <j@x>"
provides = ["holo-files", "holo-users-groups"]
[[directory]]
path = "/usr/share/holo"
END
package tool
package holo
apt-ftparchive packages . >Packages
apt-ftparchive release . >Release
chroot "$root" apt-get update -qq
chroot "$root" apt-get install -qq -y holo >/dev/null
echo stock >"$root/etc/motd"
"#;

fn scratch() -> ScratchRoot {
    ScratchRoot::new().time_limit(PATIENCE)
}

/// The directory with that system.
static BASE_DIRECTORY: Mutex<Option<(ScratchRoot, PathBuf)>> = Mutex::new(None);

/// Removes that directory, after all tests.
pub(crate) fn remove_base() {
    *BASE_DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Returns the directory, which the first call creates.
fn base() -> PathBuf {
    let mut base = BASE_DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, root) = base.get_or_insert_with(|| {
        let scratch = scratch();
        let root = scratch.path().join("base");
        let build = built("holo-build");
        for plugin in crate::PLUGINS.iter().copied().chain(["holo", "holo-secret"]) {
            let _ = built(plugin);
        }
        let script = format!("export BUILD='{}'\n{BASE}", build.parent().unwrap().display());
        let run = shell(&scratch, "bash", &script, &[&root, &repository()]);
        assert!(run.success(), "{run}");
        (scratch, root)
    });
    root.clone()
}

fn shell(scratch: &ScratchRoot, shell: &str, script: &str, arguments: &[&Path]) -> Run {
    let arguments = arguments.iter().map(|argument| argument.as_os_str());
    // As a user would call it, without the variables for tests.
    let script = format!("unset HOLO_ROOT_DIR HOLO_HISTORY TMPDIR; {script}");
    let arguments: Vec<&OsStr> = ["-ec", &script, shell].map(OsStr::new).into_iter().chain(arguments).collect();
    scratch.run(shell, &arguments)
}

/// The resource files that a package would bring, and those of an administrator.
const RESOURCES: &[(&str, &str)] = &[
    (
        "usr/share/holo/files/10-site.toml",
        "[[file]]\npath = \"/etc/site.conf\"\ncontent = \"port = 8080\\n\"\nowner = \"site\"\ngroup = \"web\"\nmode = \"0640\"\n\
         [[file]]\npath = \"/etc/systemd/system/site.service\"\ncontent = \"\"\"\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/bin/cp /etc/site.conf /run/site\n[Install]\nWantedBy=multi-user.target\n\"\"\"\n",
    ),
    (
        "usr/share/holo/users-groups/10-site.toml",
        "[[group]]\nname = \"web\"\nsystem = true\n[[user]]\nname = \"site\"\nsystem = true\nhome = \"/srv/site\"\ncreate_home = true\ngroups = [\"web\"]\n",
    ),
    ("usr/share/holo/packages/10-site.toml", "[[package]]\nname = \"tool\"\n"),
    (
        "usr/share/holo/services/10-site.toml",
        "[[service]]\nname = \"site\"\nensure = \"running\"\nenable = true\nsubscribes = [\"file:/etc/site.conf\"]\n",
    ),
    (
        "usr/share/holo/exec/10-site.toml",
        "[[exec]]\nname = \"inside\"\ncommand = \"echo $$ $(id -un) >/srv/inside\"\nshell = true\ncreates = \"/srv/inside\"\noffline = true\n\
         [[exec]]\nname = \"later\"\ncommand = \"touch /srv/later\"\ncreates = \"/srv/later\"\n\
         [[exec]]\nname = \"never\"\ncommand = \"touch /srv/never\"\nrefresh_only = true\n",
    ),
    ("usr/share/holo/files/50-site/etc/motd", "ours\n"),
    (
        "usr/share/holo/ssh-keys/site/laptop.pub",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMCXp8Xq1mHyYyCw1V8cuzzrQ8o8m0pQ9X8y8q2P1c2d jane@laptop\n",
    ),
    ("usr/share/holo/run-scripts/10-site", "#!/bin/sh\ntouch /srv/script\n"),
];

/// What is left for the first boot. The script runs at every apply.
const DEFERRED: [&str; 3] = ["service:site", "exec:later", "script:10-site"];

/// A copy of the base with the resource files.
struct Image {
    scratch: ScratchRoot,
    root: PathBuf,
}

impl Image {
    fn new() -> Image {
        let scratch = scratch();
        let root = scratch.path().join("image");
        let run = shell(&scratch, "sh", "cp -a \"$1\" \"$2\"", &[&base(), &root]);
        assert!(run.success(), "{run}");
        let image = Image { scratch, root };
        for (path, content) in RESOURCES {
            image.write(path, content);
        }
        image.sh("chmod 755 usr/share/holo/run-scripts/10-site");
        image
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Runs a script in the directory of the image, but not in its system. It must succeed.
    #[track_caller]
    fn sh(&self, script: &str) -> String {
        let run = shell(&self.scratch, "sh", &format!("cd \"$1\"; {script}"), &[&self.root]);
        assert!(run.success(), "{script}: {run}");
        run.stdout_lossy().into_owned()
    }

    /// Runs a command in the image as the build of a container does: with `/proc`, and by the root of this machine.
    fn chroot(&self, command: &str) -> Run {
        let script = "exec unshare --mount sh -ec 'mount -t proc proc \"$1/proc\"; exec chroot \"$1\" sh -c \"$2\"' sh \"$1\" \"$2\"";
        shell(&self.scratch, "sh", script, &[&self.root, Path::new(command)])
    }

    fn holo(&self, command: &str) -> Run {
        let script = format!("'{}' {command} --root \"$1\"", built("holo").display());
        shell(&self.scratch, "sh", &script, &[&self.root])
    }

    /// Checks that everything is done that can be done, and only that.
    #[track_caller]
    fn is_as_far_as_possible(&self, checked: &str) {
        let pending: Vec<&str> = checked
            .lines()
            .filter_map(|line| line.strip_prefix("Working on ").or_else(|| line.strip_prefix("Executing ")))
            .collect();
        assert_eq!(pending, DEFERRED, "{checked}");
        assert_eq!(self.sh("cat etc/motd opt/tool"), "ours\nx");
        assert_eq!(
            self.sh("stat -c %a etc/site.conf; ls etc/systemd/system/multi-user.target.wants/site.service; ls srv"),
            "640\netc/systemd/system/multi-user.target.wants/site.service\ninside\nrepository\nsite\n"
        );
        assert_eq!(self.sh("grep -c AAAAIMCXp8Xq1m srv/site/.ssh/authorized_keys"), "1\n");
        let owner = "set -- $(stat -c '%u %g' etc/site.conf); grep -c \"^site:x:$1:\" etc/passwd; grep -c \"^web:x:$2:site\" etc/group";
        assert_eq!(self.sh(owner), "1\n1\n");
        assert_eq!(self.sh("ls run tmp"), "run:\nlock\n\ntmp:\n");
    }

    /// Boots the image, and checks that its first boot does what was left.
    fn boots_into_its_desired_state(&self) {
        let mut system = Overlay::booted_from(&self.root);
        wait_for_first_boot(&system);
        assert_eq!(system.must("cat /run/site; ls /srv"), "port = 8080\ninside\nlater\nrepository\nscript\nsite\n");
        assert_eq!(system.must("systemctl is-active site"), "active\n");
        // The script is due at every apply.
        assert_eq!(system.must("rm /usr/share/holo/run-scripts/10-site; holo check"), "");
        // The second boot applies nothing.
        let runs = system.must("holo history | wc -l");
        system.reboot();
        assert_eq!(system.must("holo history | wc -l"), runs);
        assert_eq!(system.must("systemctl show -P ConditionResult holo-first-boot"), "no\n");
        assert_eq!(system.must("holo check"), "");
    }
}

/// Waits until the apply at the first boot has ended and has left nothing to do.
#[track_caller]
fn wait_for_first_boot(system: &Overlay) {
    let begun = Instant::now();
    while !system.sh("test ! -e /var/lib/holo/.engine/first-boot && ! systemctl is-active -q holo-apply").success() {
        let journal = || system.sh("journalctl --no-pager -u 'holo*' | tail -60");
        assert!(begun.elapsed() < PATIENCE, "the first boot does not end: {}", journal());
        thread::sleep(Duration::from_millis(100));
    }
}

fn from_outside() {
    let image = Image::new();
    let applied = image.holo("apply");
    assert_eq!(applied.status, Some(0), "{applied}");
    assert_eq!(applied.stderr_lossy(), ">> deferred: the system is not running\n".repeat(DEFERRED.len()), "{applied}");
    let checked = image.holo("check");
    assert_eq!(checked.status, Some(3), "{checked}");
    image.is_as_far_as_possible(&checked.stdout_lossy());
    // The command ran in a container of its own.
    let process = image.sh("cat srv/inside");
    assert!(
        process.split_once(' ').unwrap().0.parse::<u32>().unwrap() < 1000 && process.ends_with(" root\n"),
        "{process}"
    );
    assert_eq!(image.holo("apply").stdout_lossy().matches("\nWorking on ").count(), 1, "only the service is left");
    image.boots_into_its_desired_state();
}

fn from_inside() {
    let image = Image::new();
    let holo = |command: &str| image.chroot(&format!("HOLO_OFFLINE=1 holo {command}"));
    let applied = holo("apply");
    assert_eq!(applied.status, Some(0), "{applied}");
    let checked = holo("check");
    assert_eq!(checked.status, Some(3), "{checked}");
    image.is_as_far_as_possible(&checked.stdout_lossy());
    image.boots_into_its_desired_state();
}

/// Returns the blocks of the guide: the comment before each, its language, and its text.
fn blocks() -> Vec<(String, String, String)> {
    let guide = fs::read_to_string(repository().join("docs/images.md")).unwrap();
    let mut blocks = Vec::new();
    let mut parts = guide.split("\n```");
    let mut before = parts.next().unwrap();
    while let (Some(block), Some(after)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        let comment = before.lines().last().unwrap_or_default().trim_matches(['<', '!', '-', '>', ' ']).to_owned();
        blocks.push((comment, language.to_owned(), format!("{text}\n")));
        before = after;
    }
    blocks
}

/// Runs the commands of a block, and compares their output.
#[track_caller]
fn follow(block: &str, run: impl Fn(&str) -> String) {
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("# ") {
            Some(command) => steps.push((command.to_owned(), String::new())),
            None => steps.last_mut().unwrap().1 += &format!("{line}\n"),
        }
    }
    assert!(!steps.is_empty());
    for (command, output) in steps {
        assert_eq!(run(&command), output, "{command}");
    }
}

/// The image is only booted once. The lines of the Containerfile are run in a chroot, as the build of a container would.
fn guide_works() {
    let image = Image::new();
    image.sh("rm -r usr/share/holo/*/*");
    let blocks = blocks();
    for (comment, _, text) in &blocks {
        if let Some(path) = comment.strip_prefix("file: ") {
            image.write(path, text);
        }
    }
    let console = |comment: &str| {
        let is_it = |(before, language, _): &&(String, String, String)| language == "console" && before == comment;
        blocks.iter().find(is_it).unwrap().2.clone()
    };
    let holo = built("holo");
    follow(&console(""), |command| {
        let path = format!("PATH='{}':$PATH", holo.parent().unwrap().display());
        image.sh(&format!("{path}; exec 2>&1; set +e; {}; true", command.replace("/srv/image", "$1")))
    });
    let dockerfile = blocks.iter().find(|(_, language, _)| language == "dockerfile").unwrap().2.clone();
    let argument = dockerfile.lines().find_map(|line| line.strip_prefix("ARG ")).unwrap();
    let last = dockerfile.lines().filter_map(|line| line.strip_prefix("RUN ")).next_back().unwrap();
    let script = &blocks.iter().find(|(comment, ..)| comment == "script").unwrap().2;
    image.write("srv/mkosi.postinst.chroot", script);
    for command in [format!("{argument} {last}"), "sh /srv/mkosi.postinst.chroot".to_owned()] {
        let run = image.chroot(&command);
        assert!(
            run.success() && run.stderr_lossy().ends_with(">> deferred: the system is not running\n"),
            "{command}: {run}"
        );
    }
    let system = Overlay::booted_from(&image.root);
    wait_for_first_boot(&system);
    follow(&console("booted"), |command| system.must(&format!("exec 2>&1; {command} || true")).to_string());
}

/// The directories of the machine that contain its system, other than those to which other programs write at any time.
const SYSTEM: &str = "/boot /etc /home /opt /srv /usr /var/lib";

fn machine_is_untouched() {
    let image = Image::new();
    // What may change of the machine itself: its clock, kernel, devices, processes and host name.
    let attack = "set +e; exec 2>&1; hostname changed; echo 1 >/proc/sys/vm/swappiness; echo h >/proc/sysrq-trigger; date -s @$(date +%s)
        mount -o remount,rw /proc/sys; mount -o remount,rw /sys; mknod /dev/disk b 1 0 && head -c1 /dev/disk; mknod /srv/disk b 1 0 && head -c1 /srv/disk
        kill $HOLO_OUTSIDE; ls /proc/$HOLO_OUTSIDE; ip link add dummy0 type dummy; touch /srv/inside";
    image.write("srv/attack", attack);
    image.write(
        "usr/share/holo/exec/10-site.toml",
        "[[exec]]\nname = \"attack\"\ncommand = \"sh /srv/attack\"\ncreates = \"/srv/inside\"\noffline = true\n",
    );
    let script = format!(
        "touch marker; sleep 3600 & outside=$!; export HOLO_OUTSIDE=$outside
         state() {{ hostname; cat /proc/sys/vm/swappiness; ls /dev /sys/class/net; ls /run | sed -n /holo/p; date +%Y; }}
         state >before
         '{}' apply --root image >log 2>&1
         state >after; diff before after; kill $outside
         find {SYSTEM} -xdev ! -type s -cnewer marker -print",
        built("holo").display()
    );
    let run = shell(&image.scratch, "sh", &format!("cd '{}'; {script}", image.scratch.path().display()), &[]);
    let log = image.sh("cat ../log");
    assert!(run.success(), "{run}\n{log}");
    assert_eq!(run.stdout_lossy(), "", "{log}");
    assert!(image.root.join("srv/inside").exists(), "{log}");
    for refused in
        ["change the host name", "vm/swappiness", "date: cannot set date", "/srv/disk", "/dev/disk", "No such process"]
    {
        assert!(log.contains(refused), "{refused}: {log}");
    }
}

fn one_at_a_time() {
    let image = Image::new();
    image.write(
        "usr/share/holo/exec/10-site.toml",
        "[[exec]]\nname = \"slow\"\ncommand = \"touch /srv/begun; exec sleep 3611\"\nshell = true\noffline = true\n",
    );
    let script = format!(
        "'{}' apply --root image >log 2>&1 & first=$!
         while [ ! -e image/srv/begun ]; do sleep 0.1; done
         '{0}' apply --root image >second && exit 1
         kill $first; wait $first || echo $?
         pgrep -fx 'sleep 3611' && exit 1
         rm image/usr/share/holo/exec/10-site.toml; '{0}' check --root image >/dev/null || echo $?",
        built("holo").display()
    );
    let run = shell(&image.scratch, "sh", &format!("cd '{}'; {script}", image.scratch.path().display()), &[]);
    assert!(run.stderr_lossy().contains("another holo is working on image; try again when it has ended"), "{run}");
    assert_eq!(run.stdout_lossy(), "143\n3\n", "{run}");
}
