"""Runs Ansible's modules: one process that is started once, and forks for each task.

The plugin starts it, with the directories of collections as arguments. The first line that it writes says what it has found, or why it
cannot work. Then it reads requests from its standard input, a JSON object a line, and answers each with a line on its standard output.
It ends with its input.

The child of a task has what this process has imported, and nothing that another child has done.
"""

import atexit
import ctypes
import gc
import importlib
import importlib.machinery
import json
import os
import runpy
import select
import signal
import sys
import tempfile
import threading
import time

# A module may leave a process behind that holds its output open: so long is that read after the module's end.
LINGER = 0.5
# The time that a module has to end when it is told to.
GRACE = 5.0
# The same when this process is to end itself.
LAST_GRACE = 0.5
ENDING = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
# The file systems on which Ansible leaves SELinux contexts alone, unless its configuration says otherwise.
SPECIAL_FILE_SYSTEMS = ["fuse", "nfs", "vboxsf", "ramfs", "9p", "vfat"]
# The number of the operation of prctl(2) by which a process gets a signal when its parent ends.
PR_SET_PDEATHSIG = 1
# More than this process ever has open.
DESCRIPTORS = 64


class Collections:
    """Finds collections in directories: of each the first directory that has it counts, whatever packages there are."""

    def __init__(self, roots):
        self.roots = [root for root in roots if os.path.isdir(os.path.join(root, "ansible_collections"))]

    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] != "ansible_collections" or len(parts) > 3:
            return None
        places = [place for place in (os.path.join(root, *parts) for root in self.roots) if os.path.isdir(place)]
        if not places:
            return None
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = places[:1] if len(parts) == 3 else places
        return spec

    def invalidate_caches(self):
        pass


class Ansible:
    """The part of Ansible that modules import."""

    def __init__(self, roots):
        import ansible
        from ansible.module_utils import basic
        from ansible.module_utils.common import parameters
        from ansible.release import __version__

        self.basic = basic
        self.internal = parameters.PASS_VARS
        self.version = __version__
        self.package = os.path.dirname(os.path.abspath(ansible.__file__))
        self.collections = Collections(roots + sys.path)
        sys.meta_path.insert(0, self.collections)
        if self.has_profiles():
            # Otherwise each child would import them.
            importlib.import_module("ansible.module_utils._internal._json._profiles._module_legacy_c2m")
            importlib.import_module("ansible.module_utils._internal._json._profiles._module_legacy_m2c")

    def has_profiles(self):
        return hasattr(self.basic, "_ANSIBLE_PROFILE")

    def header(self):
        return {"package": self.package, "collections": self.collections.roots}

    def arguments(self, task):
        """Returns the arguments of a module, with those of Ansible's own that this version has."""
        internal = {
            "check_mode": task["check"],
            "diff": task["diff"],
            "module_name": task["name"],
            "no_log": task["no_log"],
            "remote_tmp": task["directory"],
            "selinux_special_fs": SPECIAL_FILE_SYSTEMS,
            "shell_executable": "/bin/sh",
            "tmpdir": None,
            "verbosity": 0,
            "version": self.version,
        }
        arguments = dict(task["args"])
        arguments.update(("_ansible_" + name, value) for name, value in internal.items() if name in self.internal)
        return arguments

    def become_module(self, task):
        """Runs a module, which ends by an exception."""
        for name, value in task["environment"].items():
            # Each character is a byte.
            os.environb[name.encode()] = value.encode("latin-1")
        self.basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": self.arguments(task)}).encode()
        if self.has_profiles():
            self.basic._ANSIBLE_PROFILE = "legacy"
        sys.argv[:] = [task["module"]]
        importlib.invalidate_caches()
        # A module that needs the distribution's own Python starts itself again with these.
        names = {"_module_fqn": task["module"], "_modlib_path": os.path.dirname(self.package)}
        runpy.run_module(task["module"], init_globals=names, run_name="__main__", alter_sys=True)


class Child:
    """The process of a task, and what it has said."""

    def __init__(self, task):
        self.deadline = time.monotonic() + task["timeout"]
        self.limit = task["limit"]
        self.said = bytearray()
        self.status = None
        # The reason for which it is told to end, and whether it is killed by now.
        self.reason = None
        self.is_killed = False
        stdout, stderr = os.pipe(), os.pipe()
        host = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            end_with(host)
            os.setpgid(0, 0)
            os.dup2(stdout[1], 1)
            os.dup2(stderr[1], 2)
            return
        os.close(stdout[1])
        os.close(stderr[1])
        self.open = {stdout[0]: self.take_stdout, stderr[0]: self.take_stderr}
        try:
            os.setpgid(self.pid, self.pid)
        except OSError:
            # It has done so itself, and may even be over.
            pass

    def take_stdout(self, chunk):
        self.said += chunk
        if len(self.said) > self.limit:
            self.end("limit", GRACE)

    def take_stderr(self, chunk):
        write(2, chunk)

    def end(self, reason, grace, number=signal.SIGTERM):
        """Tells it to end, with everything in its process group."""
        if self.reason is None and self.status is None:
            self.reason = reason
            self.deadline = time.monotonic() + grace
            self.signal(number)

    def signal(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def look_at_clock(self):
        if self.status is not None or time.monotonic() < self.deadline:
            return
        if self.reason is None:
            self.end("late", GRACE)
        elif not self.is_killed:
            self.is_killed = True
            self.signal(signal.SIGKILL)

    def reap(self):
        # Its number is its own until it has been waited for.
        if self.status is None and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if self.reason is not None:
                self.signal(signal.SIGKILL)
            self.status = os.waitpid(self.pid, 0)[1]
            self.deadline = time.monotonic() + LINGER

    def is_over(self):
        return self.status is not None and (not self.open or time.monotonic() >= self.deadline)

    def read(self, descriptor):
        chunk = os.read(descriptor, 1 << 16)
        if chunk:
            self.open[descriptor](chunk)
        else:
            self.close(descriptor)

    def close(self, descriptor):
        del self.open[descriptor]
        os.close(descriptor)

    def answer(self):
        for descriptor in list(self.open):
            self.close(descriptor)
        said = b"" if self.reason == "limit" else self.said
        return {"stdout": said.decode("utf-8", "replace"), "reason": self.reason, "status": self.status}


class Host:
    """Reads requests, and has a child do each."""

    def __init__(self):
        # The children's input is empty, and what they or anything that is imported prints is no answer.
        self.requests, self.answers = os.dup(0), os.dup(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        self.child = None
        self.told = None
        self.pending = b""
        self.woken, waker = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        # What is ignored, as with nohup, stays so.
        self.ending = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
        for number in self.ending:
            signal.signal(number, self.on_end)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def on_end(self, number, frame):
        if self.child is None:
            self.leave(number)
        self.told = number
        self.child.end("told", GRACE, number)

    def leave(self, number):
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def say(self, answer):
        write(self.answers, json.dumps(answer).encode() + b"\n")

    def request(self):
        """Returns the next request, or none at the end of the input."""
        while b"\n" not in self.pending:
            chunk = os.read(self.requests, 1 << 16)
            if not chunk:
                return None
            self.pending += chunk
        line, _, self.pending = self.pending.partition(b"\n")
        return json.loads(line.decode())

    def next_task(self):
        """Has children do what is asked for. In a child this returns its task, otherwise nothing."""
        while True:
            task = self.request()
            if task is None:
                return None
            content = keep(task)
            self.child = Child(task)
            if self.child.pid == 0:
                self.forget()
                return task
            self.attend(self.child)
            if content:
                remove(content)
            answer, self.child = self.child.answer(), None
            if self.told:
                self.leave(self.told)
            self.say(answer)

    def forget(self):
        """Makes the child an ordinary process."""
        signal.set_wakeup_fd(-1)
        for number in self.ending + [signal.SIGCHLD]:
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, DESCRIPTORS)

    def attend(self, child):
        while not child.is_over():
            waiting = select.poll()
            for descriptor in [self.woken] + list(child.open):
                waiting.register(descriptor, select.POLLIN)
            if child.reason is None:
                # Only the end of the input counts while a task is done.
                waiting.register(self.requests, 0)
            left = max(child.deadline - time.monotonic(), 0)
            # A child that was killed is waited for.
            ready = waiting.poll(None if child.is_killed and child.status is None else min(left * 1000 + 1, 1 << 30))
            for descriptor, _ in ready:
                if descriptor == self.requests:
                    child.end("told", LAST_GRACE)
                elif descriptor == self.woken:
                    os.read(self.woken, 1 << 10)
                else:
                    child.read(descriptor)
            child.reap()
            child.look_at_clock()


def end_with(host):
    """Has this process killed when its parent is gone, as nobody would look after it any more."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != host:
        os._exit(1)


def leave_after(work):
    """Does something, and ends the process as Python does then, but takes apart only what is new: the rest takes longer than most modules."""
    status = 0
    try:
        work()
    except SystemExit as error:
        if isinstance(error.code, int):
            status = error.code & 0xFF
        elif error.code is not None:
            sys.stderr.write("%s\n" % (error.code,))
            status = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # It is closed, by whomever.
            status = status or 120
    os._exit(status)


def write(descriptor, text):
    while text:
        text = text[os.write(descriptor, text) :]


def keep(task):
    """Puts content that a module is to copy into a file, and returns that."""
    content = task["content"]
    if content is None:
        return None
    descriptor, path = tempfile.mkstemp(dir=task["directory"])
    with os.fdopen(descriptor, "wb") as file:
        file.write((content if isinstance(content, str) else json.dumps(content)).encode())
    task["args"]["src"] = path
    return path


def remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        # The module has moved it to where it belongs.
        pass


def main():
    # The script's own directory has no libraries.
    del sys.path[0]
    host = Host()
    try:
        ansible = Ansible(sys.argv[1:])
    except Exception as error:
        host.say({"error": "%s: %s" % (type(error).__name__, error)})
        return 1
    host.say(ansible.header())
    # What is here now is the same in all children: they need not look through it for what is garbage.
    gc.freeze()
    task = host.next_task()
    if task is not None:
        leave_after(lambda: ansible.become_module(task))
    return 0


sys.exit(main())
