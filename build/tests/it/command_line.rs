//! The options, the destinations of a package, and the exit status.

use crate::support::{BASE, Desk, FORMATS};
use holo_testing::{Need, ScratchRoot, binaries, trial_of, trials};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = trials![
        name_is_suggested_for_each_format,
        format_depends_on_the_distribution,
        deprecated_options_warn,
        existing_files_are_only_overwritten_by_force,
        output_can_be_a_directory_or_a_pipe,
        only_regular_files_are_replaced,
        description_is_read_from_standard_input,
        packages_are_reproducible,
        failures_of_the_system_exit_with_2,
        wrong_command_lines_exit_with_2,
    ];
    let needs = [Need::Root, Need::Program("setpriv")];
    trials.push(trial_of("any_user_can_build", &needs, any_user_can_build));
    // tar calls it.
    let needs = [Need::Program("xz")];
    trials.push(trial_of("time_is_that_of_the_source", &needs, time_is_that_of_the_source));
    let relative = contents_are_read_relative_to_the_description;
    trials.push(trial_of("contents_are_read_relative_to_the_description", &needs, relative));
    trials
}

fn name_is_suggested_for_each_format() {
    let desk = Desk::new(BASE);
    for (format, name) in FORMATS {
        let run = desk.run(&["--format", format, "--suggest-filename", "p.toml"]);
        assert!(run.success() && run.stdout == format!("{name}\n") && run.stderr.is_empty(), "{run}");
        assert!(!desk.root.exists(name));
        // As in the original, --output has no effect.
        let run = desk.run(&["-o", "x", "--format", format, "--suggest-filename", "p.toml"]);
        assert!(run.success() && run.stdout == format!("{name}\n") && run.stderr.is_empty(), "{run}");
    }
}

fn format_depends_on_the_distribution() {
    let suggest = |release: &str| {
        let desk = Desk { root: ScratchRoot::new().file("p.toml", BASE).file("etc/os-release", release) };
        desk.run(&["--suggest-filename", "p.toml"])
    };
    assert_eq!(suggest("ID=arch\n").stdout, "foo-1.0-1-any.pkg.tar.xz\n");
    assert_eq!(suggest("ID=x\nID_LIKE=\"y debian\"\n").stdout, "foo_1.0-1_all.deb\n");
    assert_eq!(suggest("ID=mageia\n").stdout, "foo-1.0-1.noarch.rpm\n");
    let unknown = suggest("ID=alpine\n");
    let error = "!! the package format of this distribution is unknown; choose one with --format\n";
    assert!(unknown.status == Some(2) && unknown.stderr == error, "{unknown}");
}

fn deprecated_options_warn() {
    let desk = Desk::new(BASE);
    for (format, name) in FORMATS {
        let run = desk.run(&[&format!("--{format}"), "--reproducible", "--suggest-filename", "p.toml"]);
        let warning = format!("!! --{format} is deprecated - use \"--format {format}\" instead\n");
        assert!(run.success() && run.stdout == format!("{name}\n") && run.stderr == warning, "{run}");
    }
    let both = desk.run(&["--debian", "--rpm", "--suggest-filename", "p.toml"]);
    let warning = |option: &str| format!("!! --{option} is deprecated - use \"--format {option}\" instead\n");
    assert!(both.success() && both.stderr == warning("debian") + &warning("rpm"), "{both}");
}

fn existing_files_are_only_overwritten_by_force() {
    let desk = Desk::new(BASE);
    for (format, name) in FORMATS {
        desk.root.write(name, "mine");
        let build = |force: &[&str]| desk.run(&[&["--no-check", "--format", format, "p.toml"], force].concat());
        let refused = build(&[]);
        let error = format!("!! {name} exists already; --force overwrites it\n");
        assert!(refused.status == Some(2) && refused.stderr == error, "{refused}");
        assert_eq!(desk.root.read(name), "mine");
        assert!(build(&["-f"]).success());
        assert_ne!(desk.root.read(name), "mine");
    }
    // No temporary file is left.
    assert_eq!(desk.sh("ls -A | wc -l").trim(), "9");
}

fn output_can_be_a_directory_or_a_pipe() {
    let desk = Desk::new(BASE);
    for (format, name) in FORMATS {
        desk.build(format);
        let builder = binaries::built("holo-build");
        let builder = builder.display();
        desk.sh(&format!(
            "mkdir {format}; {builder} --no-check --format {format} -o {format} p.toml; cmp {name} {format}/{name}
            {builder} --no-check --format {format} --output x.{format} p.toml; cmp {name} x.{format}
            {builder} --no-check --format {format} --output - p.toml | cmp - {name}
            [ \"$(stat -c %a {name})\" = \"$(touch plain; stat -c %a plain)\" ]"
        ));
    }
}

fn only_regular_files_are_replaced() {
    let desk = Desk::new(BASE);
    let name = desk.build("rpm");
    let builder = binaries::built("holo-build");
    let build = format!("{} --no-check --format rpm", builder.display());
    desk.sh(&format!(
        "mkfifo fifo; ln -s target link; ln -s /dev/null null; touch target
        timeout 60 cat fifo >read & timeout 60 {build} -f -o fifo p.toml; wait; cmp read {name}; [ -p fifo ]
        {build} -f -o link p.toml; cmp target {name}; [ -L link ]
        {build} -f -o null p.toml; [ -L null ]; [ -c /dev/null ]
        ! {build} -o link p.toml; [ -L link ]"
    ));
}

fn description_is_read_from_standard_input() {
    let desk = Desk::new(&format!("{BASE}[[file]]\npath = '/x'\ncontentFrom = 'etc/x'\n"));
    desk.root.write("etc/x", "content\n");
    let builder = binaries::built("holo-build");
    let builder = builder.display();
    desk.sh(&format!(
        "{builder} --no-check --format rpm <p.toml; [ -s foo-1.0-1.noarch.rpm ]
        {builder} --no-check --format rpm -f - <p.toml"
    ));
    let error = desk.sh(&format!("echo x | {builder} --format rpm 2>&1 && false || echo $?"));
    assert_eq!(error, "!! stdin:1: expected KEY = VALUE or [[TABLE]]\n1\n");
}

fn packages_are_reproducible() {
    let text = format!("{BASE}tree = 'tree'\n[[file]]\npath = '/b'\ncontent = 'b'\n[[user]]\nname = 'u'\nuid = 7\n");
    let desk = Desk::new(&text);
    desk.sh("mkdir -p tree/etc/d; echo 1 >tree/etc/x; ln -s x tree/etc/y");
    let other = Desk::new(&text);
    other.sh("umask 022; mkdir -p tree/etc/d; ln -s x tree/etc/y; echo 1 >tree/etc/x; touch -d 2001-01-01 tree/etc/x");
    for (format, name) in FORMATS {
        assert_eq!(desk.build(format), name);
        let first = desk.root.read(name);
        other.build(format);
        assert_eq!(other.root.read(name), first, "{format}");
        desk.build(format);
        assert_eq!(desk.root.read(name), first, "{format}");
    }
}

fn time_is_that_of_the_source() {
    for (time, shown) in [("", "1970-01-01 00:00"), ("1000000000", "2001-09-09 01:46")] {
        let root = ScratchRoot::new().env("SOURCE_DATE_EPOCH", time).env("TZ", "UTC");
        let desk = Desk { root: root.file("p.toml", format!("{BASE}[[directory]]\npath = '/x'\n")) };
        let name = desk.build("pacman");
        let listed = desk.sh(&format!("tar --full-time -tvf {name}"));
        assert!(listed.lines().all(|line| line.contains(shown)), "{listed}");
    }
    let desk = Desk { root: ScratchRoot::new().env("SOURCE_DATE_EPOCH", "x").file("p.toml", BASE) };
    let run = desk.try_build("rpm");
    let error = "!! SOURCE_DATE_EPOCH=x is not a number of seconds since 1970\n";
    assert!(run.status == Some(2) && run.stderr == error, "{run}");
}

fn contents_are_read_relative_to_the_description() {
    let desk = Desk::new("");
    desk.root.write("site/p.toml", format!("{BASE}tree = 'tree'\n[[file]]\npath = '/x'\ncontentFrom = 'x'\n"));
    desk.root.write("site/x", "content\n");
    desk.root.write("site/tree/etc/y", "content\n");
    let run = desk.run(&["--no-check", "--format", "pacman", "site/p.toml"]);
    assert!(run.success(), "{run}");
    let names = desk.sh("tar -tf foo-1.0-1-any.pkg.tar.xz");
    assert_eq!(names, ".PKGINFO\n.MTREE\netc/\netc/y\nx\n");
}

fn failures_of_the_system_exit_with_2() {
    let desk = Desk::new(BASE);
    for (arguments, error) in [
        (&["--format", "rpm", "nope.toml"][..], "read nope.toml: no such file or directory"),
        (&["--format", "rpm", "-o", "no/such", "p.toml"], "write no/such: no such file or directory"),
        (
            &["--format", "debian", "--sign-key", "x", "p.toml"],
            "packages for Debian are not signed; sign the index of their repository instead",
        ),
        (
            &["--format", "pacman", "--sign-key", "x", "-o", "-", "p.toml"],
            "the signature of a package for pacman is a second file; name the first one with --output",
        ),
    ] {
        let run = desk.run(&[&["--no-check"], arguments].concat());
        assert!(run.status == Some(2) && run.stderr == format!("!! {error}\n"), "{run}");
    }
    let full = desk.root.run(
        "bash",
        &[
            "-c",
            &format!("{} --no-check --format debian -o - p.toml >/dev/full", binaries::built("holo-build").display()),
        ],
    );
    assert!(full.status == Some(2) && full.stderr == "!! write standard output: no space left on device\n", "{full}");
}

fn wrong_command_lines_exit_with_2() {
    let desk = Desk::new(BASE);
    for arguments in [&["--format", "apk"][..], &["--chekc"], &["--check", "--no-check"], &["a", "b"]] {
        assert_eq!(desk.run(arguments).status, Some(2), "{arguments:?}");
    }
}

fn any_user_can_build() {
    let desk = Desk::new(&format!("{BASE}[[file]]\npath = '/x'\ncontent = 'x'\nowner = 7\nmode = '4755'\n"));
    let builder = binaries::built("holo-build");
    desk.sh(&format!(
        "cp {} builder; chmod 777 . tmp; for format in debian pacman rpm; do
            setpriv --reuid 65534 --regid 65534 --clear-groups ./builder --no-check --format $format p.toml; done",
        builder.display()
    ));
    for (_, name) in FORMATS {
        assert!(desk.root.exists(name));
    }
}
