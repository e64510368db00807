"""Prints everything that characterises a machine, one line each: a key, a tab, and its value."""

import grp, hashlib, os, pwd, stat, struct, subprocess

SCOPES = ["/etc", "/usr/local", "/opt", "/srv", "/home", "/root", "/var/spool/cron"]


def show(key, *values):
    key = key if isinstance(key, bytes) else key.encode()
    key = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in key)
    print(key, " ".join(str(value) for value in values), sep="\t")


def owner(uid):
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return uid


def group(gid):
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return gid


def acl(value):
    tags = {1: "user:", 2: "user:", 4: "group:", 8: "group:", 16: "mask", 32: "other"}
    entries = []
    for tag, perm, number in struct.iter_unpack("<HHI", value[4:]):
        name = owner(number) if tag == 2 else group(number) if tag == 8 else ""
        entries.append(f"{tags[tag]}{name}:{perm}")
    return ",".join(entries)


def file(path):
    status = os.lstat(path)
    words = [stat.filemode(status.st_mode), f"{owner(status.st_uid)}:{group(status.st_gid)}"]
    if stat.S_ISLNK(status.st_mode):
        # Every symlink has the mode 0777.
        words = [words[1], "->", os.readlink(path)]
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as content:
            words += [status.st_size, hashlib.sha256(content.read()).hexdigest()[:16]]
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        value = os.getxattr(path, name, follow_symlinks=False)
        words += [name, acl(value) if name.startswith("system.posix_acl") else value.hex()]
    show(path, *words)


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()


for scope in SCOPES:
    for directory, directories, files in os.walk(scope.encode()):
        # The resource files are how the machines differ.
        directories[:] = [name for name in directories if os.path.join(directory, name) != b"/etc/holo"]
        for name in directories + files:
            file(os.path.join(directory, name))
for line in run("dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev} ${Version}\n"):
    show("package " + line.split()[0], *line.split()[1:])
for name in run("apt-mark", "showmanual"):
    show("manual " + name)
for line in run("dpkg-statoverride", "--list") + run("dpkg-divert", "--list"):
    show("dpkg " + line)
for user in pwd.getpwall():
    # Packages and tools choose the numbers of system accounts.
    number = "system" if 100 <= user.pw_uid < 1000 else user.pw_uid
    show("user " + user.pw_name, number, group(user.pw_gid), user.pw_gecos, user.pw_dir, user.pw_shell)
for entry in grp.getgrall():
    number = "system" if 100 <= entry.gr_gid < 1000 else entry.gr_gid
    show("group " + entry.gr_name, number, ",".join(sorted(entry.gr_mem)))
for line in open("/etc/shadow"):
    name, password, _, *aging, _ = line.split(":")
    show("password " + name, "one" if password.lstrip("!*") else "none")
    show("aging " + name, *(field or "-" for field in aging))
for line in run("locale", "-a"):
    show("locale " + line)
# Programs start other units of the test machine when they need them.
own = {name.split("_")[0] for name in os.listdir("/var/lib/vendor")} | {"fstrim", "getty@tty5"}
own |= {name.rsplit(".", 1)[0] for name in os.listdir("/etc/systemd/system")}


def is_own(unit):
    stem = unit.rsplit(".", 1)[0]
    return stem in own or stem.split("@")[0] + "@" in own


enabled = {line.split()[0]: line.split()[1] for line in run("systemctl", "list-unit-files", "--no-legend", "--plain")}
for line in run("systemctl", "list-units", "--all", "--no-legend", "--plain", "--type=service,timer,socket,path"):
    unit, load, active, sub = line.split()[:4]
    if load == "loaded" and is_own(unit):
        show("unit " + unit, active, sub)
for unit, state in enabled.items():
    show("enabled " + unit, state)
for line in run("update-alternatives", "--get-selections"):
    show("alternative " + line.split()[0], *line.split()[1:])
show("default target", *run("systemctl", "get-default"))
for line in run("systemctl", "--global", "list-unit-files", "--no-legend", "--plain", "--state=enabled,masked"):
    show("of users " + line.split()[0], line.split()[1])
