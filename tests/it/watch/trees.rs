//! What is below the directory of an entity: rendered and extracted files, and what a directory is recursive for.

use super::{PATIENCE, Watching};
use holo_testing::{ScratchRoot, binaries::built};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time within which a repair is done, on a machine that is not busy.
const SOON: Duration = Duration::from_secs(1);

const SCAFFOLD: &str = "[[scaffold]]\ntarget = \"/srv/tree\"\nsource = \"tree\"\npurge = true\nlimit = \"99/1h\"\n";
const ARCHIVE: &str = "[[archive]]\npath = \"/srv/app.tar\"\nurl = \"file:///usr/share/app.tar\"\nextract_to = \"/srv/app\"\n\
                       limit = \"99/1h\"\n";
const RECURSIVE: &str = "[[file]]\npath = \"/srv/shared\"\nensure = \"directory\"\nmode = \"0750\"\nfile_mode = \"0640\"\n\
                         recurse = true\nlimit = \"99/1h\"\n";

/// Returns a root with a scaffold, an archive and a recursive directory, which have been applied.
fn root() -> ScratchRoot {
    let root = ["archives", "files", "scaffold"].iter().fold(ScratchRoot::new(), |root, plugin| root.plugin(plugin));
    let root = root.binary(built("holo")).file("etc/os-release", "ID=unittest\n").dir("etc/holorc.d");
    let root = root.resource("scaffold/tree/one", "{{ data.name }}\n").resource("scaffold/tree/below/two", "two\n");
    let root = root.resource("scaffold/tree.toml", format!("{SCAFFOLD}data = {{ name = \"it\" }}\n"));
    let root = root.file("content/bin/run", "run\n").file("content/doc", "doc\n").dir("usr/share");
    let root = root.resource("archives/app.toml", ARCHIVE);
    let root = root.file("srv/shared/a", "").file("srv/shared/below/b", "").resource("files/shared.toml", RECURSIVE);
    let (tar, content) = (root.join("usr/share/app.tar"), root.join("content"));
    let tarred = root.run("tar", &["-cf", tar.to_str().unwrap(), "-C", content.to_str().unwrap(), "bin", "doc"]);
    assert!(tarred.success(), "{tarred}");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    root
}

/// Lets an entity drift, and expects that it is repaired soon, once.
#[track_caller]
fn is_repaired(watching: &mut Watching, id: &str, drift: impl FnOnce(), is_restored: impl Fn() -> bool) {
    drift();
    let begun = Instant::now();
    while !is_restored() {
        assert!(begun.elapsed() < PATIENCE, "{id} is not repaired");
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = begun.elapsed();
    watching.expect("drifted", id);
    watching.expect("repaired", id);
    let loaded = fs::read_to_string("/proc/loadavg").unwrap();
    let load: f64 = loaded.split(' ').next().unwrap().parse().unwrap();
    assert!(took < SOON.mul_f64(load.max(1.0)), "{id} was repaired after {took:?} with a load of {load}");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(super) fn scaffold() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply", "--on-edit=overwrite"]);
    let path = |name: &str| root.join("srv/tree").join(name);
    let text = |name: &str| fs::read_to_string(path(name)).unwrap_or_default();
    let mut repaired = |drift: &dyn Fn(), is_restored: &dyn Fn() -> bool| {
        is_repaired(&mut watching, "scaffold:/srv/tree", drift, is_restored);
    };
    repaired(&|| fs::write(path("below/two"), "edited\n").unwrap(), &|| text("below/two") == "two\n");
    repaired(&|| fs::remove_file(path("one")).unwrap(), &|| text("one") == "it\n");
    repaired(&|| fs::write(path("below/more"), "").unwrap(), &|| !path("below/more").exists());
    repaired(&|| fs::remove_dir_all(path("below")).unwrap(), &|| text("below/two") == "two\n");
    // The new directory is watched, too.
    repaired(&|| fs::remove_file(path("below/two")).unwrap(), &|| text("below/two") == "two\n");
    // What its own repairs have written has not drifted.
    watching.expect_silence();
    watching.stop(&root);
}

pub(super) fn archive() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply", "--force"]);
    let path = |name: &str| root.join("srv/app").join(name);
    let text = |name: &str| fs::read_to_string(path(name)).unwrap_or_default();
    let mut repaired = |drift: &dyn Fn(), is_restored: &dyn Fn() -> bool| {
        is_repaired(&mut watching, "archive:/srv/app.tar", drift, is_restored);
    };
    repaired(&|| fs::write(path("bin/run"), "edited\n").unwrap(), &|| text("bin/run") == "run\n");
    repaired(&|| fs::remove_file(path("bin/run")).unwrap(), &|| text("bin/run") == "run\n");
    repaired(&|| fs::remove_dir_all(path("bin")).unwrap(), &|| text("bin/run") == "run\n");
    // The archive has no such file.
    fs::write(path("bin/more"), "").unwrap();
    watching.expect_silence();
    watching.stop(&root);
}

pub(super) fn recursive() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply", "--force"]);
    let path = |name: &str| root.join("srv/shared").join(name);
    let chmod = |name: &str| fs::set_permissions(path(name), Permissions::from_mode(0o666)).unwrap();
    let mut repaired = |drift: &dyn Fn(), is_restored: &dyn Fn() -> bool| {
        is_repaired(&mut watching, "file:/srv/shared", drift, is_restored);
    };
    repaired(&|| chmod("below/b"), &|| mode(&path("below/b")) == 0o640);
    repaired(&|| fs::write(path("c"), "").unwrap(), &|| mode(&path("c")) == 0o640);
    repaired(&|| fs::create_dir(path("new")).unwrap(), &|| mode(&path("new")) == 0o750);
    repaired(&|| fs::write(path("new/d"), "").unwrap(), &|| mode(&path("new/d")) == 0o640);
    // Contents are not defined, and may change all the time.
    fs::write(path("c"), "content").unwrap();
    fs::remove_file(path("new/d")).unwrap();
    watching.expect_silence();
    watching.stop(&root);
}

/// Directories that come and go take no memory for good: at some time, all paths are watched anew.
pub(super) fn short_lived() {
    const AT_ONCE: usize = 300;
    const ROUNDS: usize = 5;
    let root = root();
    let mut watching = Watching::start(&root, &["--apply", "--force"]);
    let process = watching.process.id();
    for round in 0..ROUNDS {
        let all: Vec<_> = (0..AT_ONCE).map(|index| root.join(format!("srv/shared/{round}-{index}"))).collect();
        all.iter().for_each(|path| fs::create_dir(path).unwrap());
        all.iter().for_each(|path| fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap());
        until("they are repaired", &mut watching, || all.iter().all(|path| mode(path) == 0o750));
        until("they are watched", &mut watching, || watches(process).len() > AT_ONCE);
        all.iter().for_each(|path| fs::remove_dir(path).unwrap());
    }
    // The kernel never uses a number again for the same set.
    until("all is watched anew", &mut watching, || {
        watches(process).iter().max().is_some_and(|highest| *highest < ROUNDS * AT_ONCE)
    });
    fs::set_permissions(root.join("srv/shared/below/b"), Permissions::from_mode(0o666)).unwrap();
    until("what is left is watched", &mut watching, || mode(&root.join("srv/shared/below/b")) == 0o640);
    watching.stop(&root);
}

/// Waits until something is so. In the meantime, the output is read.
#[track_caller]
fn until(what: &str, watching: &mut Watching, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not so: {what}");
        watching.next(Duration::from_millis(10));
    }
}

/// Returns the numbers of the directories that a process watches.
fn watches(process: u32) -> Vec<usize> {
    let files = fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap().flatten();
    let texts: String = files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
    let numbers = texts.lines().filter_map(|line| line.strip_prefix("inotify wd:")?.split(' ').next());
    numbers.map(|number| usize::from_str_radix(number, 16).unwrap()).collect()
}

/// What is defined later is watched, too, also when the watch itself has made it.
pub(super) fn new() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply", "--on-edit=overwrite"]);
    let more = SCAFFOLD.replace("/srv/tree", "/srv/more");
    root.write("usr/share/holo/scaffold/more.toml", format!("{more}data = {{ name = \"more\" }}\n"));
    watching.expect("drifted", "scaffold:/srv/more");
    watching.until("watching");
    watching.expect("repaired", "scaffold:/srv/more");
    watching.expect_silence();
    let path = root.join("srv/more/below/two");
    let drift = || fs::write(&path, "edited\n").unwrap();
    is_repaired(&mut watching, "scaffold:/srv/more", drift, || fs::read(&path).unwrap_or_default() == b"two\n");
    watching.expect_silence();
    watching.stop(&root);
}
