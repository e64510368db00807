//! The user replaces files in the home directory, also while the plugin works there. Files of other users must not be read, written,
//! chowned or removed.

use data_encoding::{BASE64, BASE64_NOPAD};
use holo_testing::{Need, Run, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use rustix::process::Uid;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MALLORY: u32 = 54321;
const VICTIM: u32 = 54322;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIdzC/U28SStyTYU9/4RVVeARpSAo/wvLM9mqvU7bpfP";
/// A text in the victim's file next to the key.
const NOTE: &str = "not-for-mallory";

const SOURCE: &str = "usr/share/holo/ssh-keys/mallory/x.pub";
const HOME: &str = "home/mallory";
const FILE: &str = "home/mallory/.ssh/authorized_keys";

pub(crate) fn trials() -> Vec<Trial> {
    const NEEDS: &[Need] = &[Need::Root];
    let cases: [(&str, fn()); 7] = [
        ("traps in place of the file are refused", refused),
        ("a hard link to the user's own file is replaced, not written through", own_hard_link),
        ("an endless file is not read completely", endless),
        ("the file is swapped for traps during a run", swapped_file),
        ("the directory is swapped for traps during a run", swapped_directory),
        ("an edit that is saved during a run is not lost", saved_meanwhile),
        ("leftovers of a killed apply and traps at their path are removed", leftovers),
    ];
    let trials = cases.map(|(name, case)| trial_of(name, NEEDS, case));
    let attributes = trial_of(
        "the ACL and extended attributes of the file are kept",
        &[Need::Root, Need::ExtendedAttributes],
        attributes_stay,
    );
    trials.into_iter().chain([attributes]).collect()
}

/// Returns the key in the victims' files and its fingerprint. Neither may appear in any output.
fn secret_key() -> (String, String) {
    let blob = [b"\0\0\0\x0bssh-ed25519\0\0\0\x20", &[7; 32][..]].concat();
    let fingerprint = BASE64_NOPAD.encode(&Sha256::digest(&blob));
    (BASE64.encode(&blob), fingerprint)
}

/// A root with a user, and with files of victims.
struct Scene {
    root: ScratchRoot,
    before: BTreeSet<String>,
}

impl Scene {
    fn new() -> Scene {
        // If this file were read, the removal of the marked line would be visible.
        let (key, _) = secret_key();
        let marked = format!("ssh-ed25519 {key} holo=ssh-keyset:mallory/x\nssh-ed25519 {key} {NOTE}\n");
        // The limit is below the timeout for home directories: none of these operations may run into that.
        let root = ScratchRoot::new()
            .time_limit(Duration::from_secs(30))
            .plugin("ssh-keys")
            .file(SOURCE, format!("{KEY} x\n"))
            .dir("home/mallory/.ssh")
            .file(FILE, "# mine\n");
        // One directory is private to root, one is world-readable, and one is world-writable. Only the first two are beyond the permissions
        // of the user.
        for (name, owner, file_mode, folder_mode) in
            [("root", 0, 0o600, 0o700), ("open", 0, 0o644, 0o755), ("shared", VICTIM, 0o666, 0o777)]
        {
            let folder = root.join(format!("victims/{name}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("authorized_keys"), &marked).unwrap();
            for (path, mode) in [(folder.join("authorized_keys"), file_mode), (folder, folder_mode)] {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                chown(&path, Some(owner), Some(owner)).unwrap();
            }
        }
        for path in [HOME, "home/mallory/.ssh", FILE] {
            chown(root.join(path), Some(MALLORY), Some(MALLORY)).unwrap();
        }
        fs::set_permissions(root.join("home/mallory/.ssh"), fs::Permissions::from_mode(0o700)).unwrap();
        let before = victims(&root);
        Scene { root, before }
    }

    /// Runs holo, and asserts that the victims' files are unchanged and do not appear in the output.
    #[track_caller]
    fn holo(&self, arguments: &[&str]) -> Run {
        let run = self.root.holo(arguments);
        let (key, fingerprint) = secret_key();
        for secret in [&*key, &fingerprint, NOTE] {
            assert!(!run.stdout_lossy().contains(secret) && !run.stderr_lossy().contains(secret), "{secret}: {run}");
        }
        assert_eq!(victims(&self.root), self.before, "{run}");
        run
    }

    /// Runs every command that looks into the home directory.
    #[track_caller]
    fn all(&self) -> [Run; 4] {
        [self.holo(&["check"]), self.holo(&["diff"]), self.holo(&["apply"]), self.holo(&["apply", "--force"])]
    }
}

/// Returns all metadata and contents of the victims' files except for link counts.
fn victims(root: &ScratchRoot) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in ["root", "open", "shared"] {
        let folder = root.join(format!("victims/{name}"));
        let mut paths = vec![folder.clone()];
        paths.extend(fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()));
        for path in paths {
            let stat = fs::symlink_metadata(&path).unwrap();
            let content = if stat.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
            let about = (stat.ino(), stat.mode(), stat.uid(), stat.gid(), stat.mtime(), stat.mtime_nsec());
            found.insert(format!("{} {about:?} {content}", path.display()));
        }
    }
    found
}

/// Calls `act` with the credentials of the user.
fn as_mallory<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    holo_testing::others::as_user(MALLORY, act)
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn remove(path: &Path) {
    let _none = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

/// Creates a trap at a path.
type Trap = Box<dyn Fn(&Path) + Send + Sync>;

/// Returns the traps to put in place of a file or a directory.
fn traps(scene: &Scene, name: &'static str) -> Vec<(&'static str, Trap)> {
    let victim = |which: &str| scene.root.join(format!("victims/{which}/{name}"));
    let (root, open, shared) = (victim("root"), victim("open"), victim("shared"));
    let (links, shared_links) = (open.clone(), shared.clone());
    let mut traps: Vec<(&str, Trap)> = vec![
        ("a symlink to what root can read", Box::new(move |path| symlink(&root, path).unwrap())),
        ("a symlink to what all can read", Box::new(move |path| symlink(&open, path).unwrap())),
        ("a symlink to what all can write", Box::new(move |path| symlink(&shared, path).unwrap())),
        ("a symlink to nothing", Box::new(|path| symlink("nowhere", path).unwrap())),
        ("a FIFO", Box::new(fifo)),
    ];
    if name.is_empty() {
        traps.push(("a file", Box::new(|path| fs::write(path, "x").unwrap())));
    } else {
        traps.push(("a directory", Box::new(|path| fs::create_dir(path).unwrap())));
        // The sysctl fs.protected_hardlinks may be off.
        traps.push(("a hard link to root's", Box::new(move |path| fs::hard_link(&links, path).unwrap())));
        traps.push(("a hard link to another's", Box::new(move |path| fs::hard_link(&shared_links, path).unwrap())));
    }
    traps
}

/// Creates a trap and gives it to the user, who could have created it. Targets of hard links keep their owners.
fn put(trap: &Trap, path: &Path) {
    trap(path);
    let stat = fs::symlink_metadata(path).unwrap();
    if stat.nlink() == 1 || stat.is_dir() {
        rustix::fs::chownat(CWD, path, Some(Uid::from_raw(MALLORY)), None, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

fn refused() {
    for (name, place) in [("authorized_keys", FILE), ("", "home/mallory/.ssh")] {
        let scene = Scene::new();
        let path = scene.root.join(place);
        for (what, set) in traps(&scene, name) {
            remove(&path);
            put(&set, &path);
            let before = fs::symlink_metadata(&path).unwrap();
            for (run, command) in scene.all().iter().zip(["check", "diff", "apply", "force"]) {
                assert!(!run.success(), "{what} at {place}, {command}: {run}");
                // Every command except `diff` reports why it refuses.
                let said = format!("!! open {}", scene.root.join(place).display());
                assert!(command == "diff" || run.stderr_lossy().contains(&said), "{what}: {run}");
            }
            let after = fs::symlink_metadata(&path).unwrap();
            let about = |stat: &fs::Metadata| (stat.ino(), stat.mode(), stat.uid(), stat.gid());
            assert_eq!(about(&before), about(&after), "{what} at {place}");
        }
    }
    // Without a trap, all commands succeed.
    let scene = Scene::new();
    let [check, _, apply, _] = scene.all();
    assert!(check.stdout_lossy().contains("would add key 256 SHA256:") && apply.success(), "{check}{apply}");
    let stat = fs::metadata(scene.root.join(FILE)).unwrap();
    assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o7777), (MALLORY, MALLORY, 0o600));
}

fn own_hard_link() {
    let scene = Scene::new();
    let other = scene.root.join("home/mallory/other-name");
    fs::hard_link(scene.root.join(FILE), &other).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(scene.holo(&["apply"]).success());
    assert_eq!(fs::read_to_string(&other).unwrap(), "# mine\n");
    assert_eq!(fs::metadata(&other).unwrap().mode() & 0o7777, 0o644);
    assert_eq!(scene.root.read(FILE), format!("# mine\n{KEY} holo=ssh-keyset:mallory/x\n"));
}

fn endless() {
    let scene = Scene::new();
    let file = fs::File::options().write(true).open(scene.root.join(FILE)).unwrap();
    file.set_len(1 << 40).unwrap();
    for run in [scene.holo(&["check"]), scene.holo(&["apply"])] {
        assert!(!run.success() && run.stderr_lossy().contains("it is larger than 1 MiB"), "{run}");
    }
    assert_eq!(file.metadata().unwrap().len(), 1 << 40);
}

fn leftovers() {
    let scene = Scene::new();
    let temporary = scene.root.join("home/mallory/.ssh/.authorized_keys.holonew");
    let mut applied = 0;
    for (what, set) in traps(&scene, "authorized_keys") {
        remove(&temporary);
        put(&set, &temporary);
        scene.root.write(SOURCE, format!("{} x\n", if applied % 2 == 0 { OTHER } else { KEY }));
        let run = scene.holo(&["apply"]);
        assert_eq!(run.success(), what != "a directory", "{what}: {run}");
        assert_eq!(temporary.exists(), what == "a directory", "{what}");
        applied += i32::from(run.success());
    }
    assert!(applied > 5);
}

fn swapped_file() {
    swapped(FILE, "authorized_keys");
}

fn swapped_directory() {
    swapped("home/mallory/.ssh", "");
}

/// Swaps the real file or directory for a trap and back in a tight loop, while all commands run many times.
fn swapped(place: &str, name: &'static str) {
    let scene = Scene::new();
    let (path, traps) = (scene.root.join(place), traps(&scene, name));
    let pool = scene.root.join("home/mallory/pool");
    fs::create_dir(&pool).unwrap();
    let waiting: Vec<PathBuf> = (0..traps.len()).map(|number| pool.join(number.to_string())).collect();
    for ((_, set), path) in traps.iter().zip(&waiting) {
        put(set, path);
    }
    chown(&pool, Some(MALLORY), Some(MALLORY)).unwrap();
    let (is_over, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut refused, mut written) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            as_mallory(|| {
                let mut pause = 0_u32;
                while !is_over.load(Ordering::Relaxed) {
                    for trap in &waiting {
                        for _there_and_back in 0..2 {
                            let swapped = renameat_with(CWD, &path, CWD, trap, RenameFlags::EXCHANGE);
                            swaps.fetch_add(u64::from(swapped.is_ok()), Ordering::Relaxed);
                            // The pause varies so that swaps hit every step.
                            pause = (pause + 7) % 1009;
                            (0..pause * 10).for_each(|_| std::hint::spin_loop());
                        }
                    }
                }
            });
        });
        // If this panics, the other thread must still terminate.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..40 {
                // The source alternates so that there is always a change to write.
                scene.root.write(SOURCE, format!("{} x\n", if round % 2 == 0 { OTHER } else { KEY }));
                scene.holo(&["scan"]);
                for arguments in [&["check"][..], &["diff"], &["apply"], &["apply", "--force"]] {
                    let run = scene.holo(arguments);
                    if arguments.first() == Some(&"apply") {
                        *if run.success() { &mut written } else { &mut refused } += 1;
                    }
                }
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    let swaps = swaps.load(Ordering::Relaxed);
    assert!(swaps > 1000 && refused > 0, "{swaps} swaps, {refused} refused, {written} written");
}

/// The user's editor saves the file repeatedly by renaming a new file of the same size over it.
fn saved_meanwhile() {
    let scene = Scene::new();
    let path = scene.root.join(FILE);
    let (is_over, saved) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let number = saved.load(Ordering::Relaxed) + 1;
                let text = fs::read_to_string(&path).unwrap();
                let keys: String =
                    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
                let text = format!("# {number:09}\n{keys}");
                let new = path.with_extension("new");
                fs::write(&new, text).unwrap();
                chown(&new, Some(MALLORY), Some(MALLORY)).unwrap();
                fs::rename(&new, &path).unwrap();
                saved.store(number, Ordering::Relaxed);
                // Only holo writes now, and the saved content must survive. The content written by holo may be visible for a moment,
                // which lasts as long as a busy machine stops holo in between.
                let first = format!("# {number:09}\n");
                let deadline = Instant::now() + Duration::from_secs(60);
                loop {
                    std::thread::sleep(Duration::from_millis(3));
                    let found = fs::read_to_string(&path).unwrap();
                    if found.starts_with(&first) {
                        break;
                    }
                    assert!(Instant::now() < deadline, "{first} was saved, and is not in {found}");
                }
            }
        });
        let keys = [format!("{KEY} x\n"), format!("{OTHER} x\n"), String::new()];
        for key in keys.iter().cycle().take(40) {
            scene.root.write(SOURCE, key);
            let _ = scene.holo(&["apply"]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(saved.into_inner() > 100);
}

fn attributes_stay() {
    let scene = Scene::new();
    let path = scene.root.join(FILE);
    // Owner, a user, group, mask and others.
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, VICTIM), (4, 0, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
    {
        acl.extend(tag.to_le_bytes().into_iter().chain(permissions.to_le_bytes()).chain(id.to_le_bytes()));
    }
    for (name, value) in [("system.posix_acl_access", &acl[..]), ("user.note", b"mine")] {
        rustix::fs::setxattr(&path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
    }
    assert!(scene.holo(&["apply"]).success());
    let get = |name: &str| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::getxattr(&path, name, &mut value[..]).unwrap();
        value.truncate(length);
        value
    };
    assert!(fs::read_to_string(&path).unwrap().contains(KEY));
    assert_eq!(get("user.note"), b"mine");
    // The mode is managed, and so the ACL entry is kept but masked.
    let kept = get("system.posix_acl_access");
    assert_eq!(kept.len(), acl.len());
    assert_eq!((&kept[..30], &kept[32..]), (&acl[..30], &acl[32..]));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
}
