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
import re
import runpy
import select
import shlex
import shutil
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
# The number of last lines of a failed command that are passed on.
LAST_LINES = 20
# The maximum size of a file whose text is compared.
MAX_TEXT = 1 << 20
# In an argument, the path of the temporary file of its step.
SOURCE = "\0"
# A text that is one expression, whose value keeps its type.
SINGLE = re.compile(r"^\s*\{\{((?:(?!\}\}|\{\{).)*)\}\}\s*$", re.DOTALL)
SURROGATES = re.compile("[\ud800-\udfff]")
# Plugins of Ansible with the filters and tests of expressions and templates.
FILTERS = ["core", "encryption", "mathstuff", "urls", "urlsplit"]
TESTS = ["core", "files", "mathstuff", "uri"]


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

    def arguments(self, task, step):
        """Returns the arguments of a module, with those of Ansible's own that this version has."""
        internal = {
            "check_mode": task["check"],
            "diff": task["diff"],
            "module_name": step["name"],
            "no_log": task["no_log"],
            "remote_tmp": task["directory"],
            "selinux_special_fs": SPECIAL_FILE_SYSTEMS,
            "shell_executable": "/bin/sh",
            "tmpdir": None,
            "verbosity": 0,
            "version": self.version,
        }
        arguments = dict(step["args"])
        arguments.update(("_ansible_" + name, value) for name, value in internal.items() if name in self.internal)
        return arguments

    def report_no_log(self, descriptor):
        """Has the module report which arguments it declares as `no_log`, as soon as it declares them."""
        original = self.basic.AnsibleModule.__init__

        def declare(module, *args, **keywords):
            self.basic.AnsibleModule.__init__ = original
            write(descriptor, json.dumps(no_log_names(args[0] if args else keywords.get("argument_spec"))).encode())
            os.close(descriptor)
            original(module, *args, **keywords)

        self.basic.AnsibleModule.__init__ = declare

    def become_module(self, task, step, no_log):
        """Runs a module, which ends by an exception."""
        self.report_no_log(no_log)
        for name, value in task["environment"].items():
            # Each character is a byte.
            os.environb[name.encode()] = value.encode("latin-1")
        self.basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": self.arguments(task, step)}).encode()
        if self.has_profiles():
            self.basic._ANSIBLE_PROFILE = "legacy"
        sys.argv[:] = [step["module"]]
        importlib.invalidate_caches()
        # A module that needs the distribution's own Python starts itself again with these.
        names = {"_module_fqn": step["module"], "_modlib_path": os.path.dirname(self.package)}
        runpy.run_module(step["module"], init_globals=names, run_name="__main__", alter_sys=True)


class Child:
    """The process of a task, and what it has said."""

    def __init__(self, task):
        self.deadline = time.monotonic() + task["timeout"]
        self.limit = task["limit"]
        self.said = bytearray()
        self.no_log = bytearray()
        self.status = None
        # The reason for which it is told to end, and whether it is killed by now.
        self.reason = None
        self.is_killed = False
        stdout, stderr, no_log = os.pipe(), os.pipe(), os.pipe()
        host = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            end_with(host)
            os.setpgid(0, 0)
            os.dup2(stdout[1], 1)
            os.dup2(stderr[1], 2)
            self.no_log_descriptor = no_log[1]
            return
        for pipe in (stdout, stderr, no_log):
            os.close(pipe[1])
        self.open = {stdout[0]: self.take_stdout, stderr[0]: self.take_stderr, no_log[0]: self.take_no_log}
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

    def take_no_log(self, chunk):
        if len(self.no_log) < self.limit:
            self.no_log += chunk

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

    def result(self):
        """Returns the answer of the module and the lines around it."""
        for descriptor in list(self.open):
            self.close(descriptor)
        return Result(b"" if self.reason == "limit" else bytes(self.said), self.reason, self.status, self.no_log)


class Result:
    """The answer of a module, as far as it has given one."""

    def __init__(self, said, reason, status, no_log):
        self.reason = reason
        self.status = status
        try:
            self.no_log = json.loads(no_log.decode())
        except ValueError:
            # It has not come so far, or does not use AnsibleModule.
            self.no_log = None
        lines = said.decode("utf-8", "surrogateescape").split("\n")
        objects = {number: parsed for number, parsed in enumerate(map(parse, lines)) if parsed is not None}
        # AnsibleModule adds the invocation to each answer. A program that prints another object is not the module.
        own = [number for number, parsed in objects.items() if "invocation" in parsed]
        self.line = max(own or objects, default=None)
        self.fields = objects.get(self.line)
        self.has_answered = self.fields is not None
        self.fields = self.fields or {}
        # The answer begins with an empty line.
        others = [(number, line) for number, line in enumerate(lines) if number != self.line and line.strip()]
        self.printed = "".join(line + "\n" for number, line in others)
        self.stray = [line for number, line in others if self.has_answered and number > self.line]

    def is_success(self):
        return self.has_answered and self.status == 0 and self.reason is None and not is_true(self.fields.get("failed"))

    def add(self, earlier):
        """Makes this the result of several modules."""
        self.printed = earlier.printed + self.printed
        self.stray = earlier.stray + self.stray
        self.no_log = (earlier.no_log or []) + (self.no_log or [])
        for name in ("warnings", "deprecations", "diff"):
            both = as_list(earlier.fields.get(name)) + as_list(self.fields.get(name))
            if both:
                self.fields[name] = both
        if is_true(earlier.fields.get("changed")):
            self.fields["changed"] = True
        if is_true(earlier.fields.get("skipped")) and not is_true(self.fields.get("changed")):
            self.fields["skipped"] = True

    def add_contents(self, step):
        """Adds the difference that a copied file makes, which modules themselves do not know."""
        dest = step["args"].get("dest")
        if dest is None or not is_true(self.fields.get("changed")):
            return
        if dest.endswith("/") or os.path.isdir(dest):
            dest = os.path.join(dest, step["args"].get("_original_basename") or "")
        texts = [text_in(dest), text_in(step["args"]["src"])]
        if None not in texts:
            self.fields["diff"] = as_list(self.fields.get("diff")) + [dict(zip(("before", "after"), texts))]

    def apply_conditions(self, task, expressions):
        """Has the definition decide what counts as a change and as a failure, as Ansible does: not of what was skipped."""
        fields = self.fields
        if "failed" not in fields and fields.get("rc") not in (None, 0, "0"):
            fields["failed"] = True
        if self.reason is not None or not self.has_answered or is_true(fields.get("skipped")):
            return
        failed = is_true(fields.get("failed")) or self.status != 0
        for name, conditions in (("changed", task["changed_when"]), ("failed", task["failed_when"])):
            if conditions is None:
                continue
            complete = self.complete()
            own = dict(complete, result=complete)
            if task["register"]:
                own[task["register"]] = complete
            try:
                fields[name] = all(condition if isinstance(condition, bool) else expressions().holds(condition, own)
                                   for condition in conditions)
            except Exception as error:
                fields.update(failed=True, msg="%s_when: %s" % (name, error))
                return
            if name == "failed" and not fields[name] and failed:
                # The message is the reason for a failure.
                self.status = 0
                fields.pop("msg", None)

    def complete(self):
        """Returns the answer with the fields that Ansible adds."""
        fields = dict(self.fields)
        for name in ("changed", "failed", "skipped"):
            fields[name] = is_true(fields.get(name)) or (name == "failed" and self.status != 0)
        for name in ("stdout", "stderr"):
            if isinstance(fields.get(name), str):
                fields.setdefault(name + "_lines", fields[name].splitlines())
        return fields

    def registered(self):
        """Returns the answer as later tasks see it."""
        fields = {name: value for name, value in self.complete().items() if name not in ("invocation", "diff")}
        # A number that only Python has becomes a text.
        return json.loads(json.dumps(fields), parse_constant=str, parse_int=whole)

    def normal(self, task):
        """Returns the small form of the answer in which the plugin receives it."""
        fields = self.fields
        failed = is_true(fields.get("failed")) or self.status != 0
        wanted = [name for name in task["wanted"] if fields.get(name) is not None]
        return {
            "reason": self.reason,
            "status": self.status,
            "answered": self.has_answered,
            "printed": self.printed,
            "stray": self.stray,
            "no_log": self.no_log,
            "failed": failed,
            "skipped": is_true(fields.get("skipped")),
            "changed": is_true(fields.get("changed")),
            "msg": message(fields.get("msg")),
            "exception": last_line(text_of(fields.get("exception"))),
            "details": last_lines(fields.get("stderr")) or last_lines(fields.get("stdout")) if failed else [],
            "warnings": texts(fields.get("warnings")),
            "deprecations": texts(fields.get("deprecations")),
            "fields": {name: scalar(fields[name]) for name in wanted},
            "diff": difference(fields.get("diff")),
            "registered": self.registered() if task["register"] else None,
        }


class Omit:
    """The value of `omit`, for arguments that are not passed."""


class Expressions:
    """Evaluates expressions and templates with Ansible's own filters and tests."""

    def __init__(self, get_facts):
        import jinja2

        self.get_facts = get_facts
        self.omit = Omit()
        self.scope = {}
        self.trusted = set()
        self.folder = "/"
        expressions = self

        class Context(jinja2.runtime.Context):
            def resolve_or_missing(self, key):
                return expressions.resolve(key, super().resolve_or_missing(key), jinja2.runtime.missing)

        class Environment(jinja2.Environment):
            context_class = Context

        class Undefined(jinja2.StrictUndefined):
            """Its fields are undefined as well, so that `default` can replace them."""

            def __getattr__(self, name):
                if name.startswith("__"):
                    raise AttributeError(name)
                return self

            def __getitem__(self, key):
                return self

        self.environment = Environment(
            undefined=Undefined,
            trim_blocks=True,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        )
        self.environment.globals.update(omit=self.omit, lookup=self.lookup, query=self.query, q=self.query)
        finders, hooks = sys.meta_path[:], sys.path_hooks[:]
        for folder, names, kind, into in (
            ("filter", FILTERS, "FilterModule", self.environment.filters),
            ("test", TESTS, "TestModule", self.environment.tests),
        ):
            for name in names:
                plugin = getattr(importlib.import_module("ansible.plugins.%s.%s" % (folder, name)), kind)()
                found = plugin.filters() if folder == "filter" else plugin.tests()
                into.update(found)
                into.update(("ansible.builtin." + name, function) for name, function in found.items())
        # That of Ansible 2.19 only handles its own undefined values.
        self.environment.filters.update((name, jinja2.filters.FILTERS[name]) for name in ("default", "d"))
        # These plugins import the controller's finder of collections, which would replace our own.
        sys.meta_path[:], sys.path_hooks[:] = finders, hooks
        for name in [name for name in sys.modules if name.partition(".")[0] == "ansible_collections"]:
            del sys.modules[name]

    def enter(self, task):
        """Sets the variables. Those of definitions and data may be templates themselves, answers of modules are not."""
        self.scope = dict(task["scope"], **task["registered"])
        self.trusted = set(task["scope"]) - set(task["registered"])
        self.folder = task["folder"]

    def resolve(self, key, value, missing):
        if value is missing and key.startswith("ansible_"):
            facts = self.get_facts()
            return facts if key == "ansible_facts" else facts.get(key[len("ansible_") :], facts.get(key, missing))
        return self.render_value(value) if key in self.trusted and value is self.scope.get(key) else value

    def render_value(self, value):
        if isinstance(value, list):
            return [self.render_value(item) for item in value]
        if isinstance(value, dict):
            return {name: self.render_value(item) for name, item in value.items()}
        if not isinstance(value, str) or ("{{" not in value and "{%" not in value):
            return value
        value = self.with_backslashes(value)
        single = SINGLE.match(value)
        if single:
            return self.value(single.group(1))
        return self.filled_in(self.environment, value)

    def filled_in(self, environment, text):
        """Renders a template. As in Ansible, the result ends with at least as many line breaks as the template."""
        result = environment.from_string(text).render(**self.scope)
        missing = (len(text) - len(text.rstrip("\n"))) - (len(result) - len(result.rstrip("\n")))
        return result + "\n" * missing

    def with_backslashes(self, text):
        """Returns a template in which a backslash in a string stands for itself, as in variables and arguments of a playbook."""
        if "\\" not in text:
            return text
        parts, is_inside = [], False
        for _, kind, part in self.environment.lex(text):
            is_inside = kind == "variable_begin" or (is_inside and kind != "variable_end")
            parts.append(part.replace("\\", "\\\\") if is_inside and kind == "string" else part)
        return "".join(parts)

    def value(self, text, more=None):
        import jinja2

        value = self.environment.compile_expression(text, undefined_to_none=False)(**dict(self.scope, **(more or {})))
        if isinstance(value, jinja2.Undefined):
            # It raises its own error.
            str(value)
        return list(value) if hasattr(value, "__next__") else value

    def holds(self, condition, more=None):
        return condition if isinstance(condition, bool) else is_condition(self.value(condition, more))

    def evaluate(self, task):
        """Returns whether the task is to be done, and the arguments that are expressions."""
        self.enter(task)
        if not all(self.holds(condition) for condition in task["when"]):
            return {"holds": False, "args": {}}
        args = {name: self.value(text) for name, text in task["expressions"].items()}
        if isinstance(args.get("content"), (list, dict)):
            # It would lose the order of its keys.
            args["content"] = json.dumps(self.without_omitted(args["content"]))
        # Errors of values that JSON does not have are those of the definition.
        return {"holds": True, "args": json.loads(json.dumps(self.without_omitted(args)))}

    def without_omitted(self, value):
        if isinstance(value, dict):
            return {name: self.without_omitted(item) for name, item in value.items() if item is not self.omit}
        if isinstance(value, (list, tuple)):
            return [self.without_omitted(item) for item in value if item is not self.omit]
        return value

    def render(self, source):
        import jinja2

        environment = self.environment.overlay(trim_blocks=source["trim"], lstrip_blocks=source["lstrip"])
        # As in a playbook, where this directory is that of the role.
        folders = [os.path.join(self.folder, "templates"), self.folder, source["folder"]]
        environment.loader = jinja2.FileSystemLoader(folders)
        return self.filled_in(environment, source["from"])

    def lookup(self, name, *terms, **options):
        name = name.rpartition(".")[2]
        if name == "first_found":
            return self.first_found(terms, options)
        if name == "env":
            return os.environ.get(terms[0], options.get("default", ""))
        if name == "vars":
            return self.value(terms[0])
        if name in ("dict", "flattened"):
            if name == "flattened":
                found = self.environment.filters["flatten"](list(terms))
            else:
                found = [item for term in terms for item in self.environment.filters["dict2items"](term)]
            if options.get("wantlist"):
                return found
            if found and all(isinstance(item, str) for item in found):
                return ",".join(found)
            return found[0] if len(found) == 1 else found
        if name == "file":
            with open(self.first_found(terms, {})) as file:
                return file.read().rstrip()
        raise ValueError("the lookup %s is not supported" % name)

    def query(self, *arguments, **options):
        return as_list(self.lookup(*arguments, **dict(options, wantlist=True)))

    def first_found(self, terms, options):
        names, folders = [], as_list(options.get("paths"))
        for term in terms:
            for one in as_list(term):
                if isinstance(one, dict):
                    names += as_list(one.get("files"))
                    folders += as_list(one.get("paths"))
                else:
                    names.append(one)
        for name in names + as_list(options.get("files")):
            for folder in folders + ["", "vars", "files", "templates"]:
                path = os.path.join(self.folder, folder, name)
                if os.path.exists(path):
                    return path
        raise ValueError("none of these files exists: %s" % ", ".join(map(str, names)))


class Host:
    """Reads requests, and has a child do each."""

    def __init__(self):
        # The children's input is empty, and what they or anything that is imported prints is no answer.
        self.requests, self.answers = os.dup(0), os.dup(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        self.child = None
        self.ansible = None
        self.expressions = None
        self.facts = None
        # Those of other modules than `setup`.
        self.more_facts = {}
        self.directory = None
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
        write(self.answers, json.dumps(clean(answer)).encode() + b"\n")

    def get_expressions(self):
        if self.expressions is None:
            self.expressions = Expressions(self.get_facts)
        return self.expressions

    def request(self):
        """Returns the next request, or none at the end of the input."""
        while b"\n" not in self.pending:
            chunk = os.read(self.requests, 1 << 16)
            if not chunk:
                return None
            self.pending += chunk
        line, _, self.pending = self.pending.partition(b"\n")
        return json.loads(line.decode())

    def serve(self, ansible):
        self.ansible = ansible
        while True:
            task = self.request()
            if task is None:
                return
            self.say(self.perform(task))

    def get_facts(self):
        """Returns Ansible's own facts, which its module `setup` gathers when an expression first needs them."""
        if "module_setup" in self.more_facts:
            # A task has gathered them.
            self.facts = self.facts or {}
        if self.facts is None:
            step = {"module": "ansible.modules.setup", "name": "ansible.builtin.setup", "args": {"gather_timeout": 30}}
            task = {"check": False, "diff": False, "no_log": True, "directory": None, "environment": {}}
            fields = self.run(step, dict(task, timeout=60, limit=1 << 24)).fields
            self.facts = facts_in(fields)
        return dict(self.facts, **self.more_facts)

    def run(self, step, task):
        self.child = Child(task)
        if self.child.pid == 0:
            self.forget()
            leave_after(lambda: self.ansible.become_module(task, step, no_log=3))
        self.attend(self.child)
        result, self.child = self.child.result(), None
        if self.told:
            self.leave(self.told)
        return result

    def perform(self, task):
        """Has children run the modules of a task, one after the other, and returns the answer."""
        if "expressions" in task:
            try:
                return self.get_expressions().evaluate(task)
            except Exception as error:
                return {"error": "%s: %s" % (type(error).__name__, error)}
        task["directory"] = task["directory"] or self.get_directory()
        if task["scope"]:
            self.get_expressions().enter(task)
        result = Result(json.dumps(task["answer"]).encode(), None, 0, b"") if "answer" in task else None
        for step in task.get("steps", []):
            try:
                source = keep(step, task, self.get_expressions)
            except Exception as error:
                return {"error": "%s: %s" % (type(error).__name__, error)}
            earlier, result = result, self.run(step, task)
            if task["diff"] and step["source"]:
                result.add_contents(step)
            remove(source)
            if earlier:
                result.add(earlier)
            self.more_facts.update(facts_in(result.fields))
            if not result.is_success():
                break
        result.apply_conditions(task, self.get_expressions)
        return result.normal(task)

    def get_directory(self):
        """Returns the directory for temporary files of another user than the plugin's, which has its own."""
        if self.directory is None:
            self.directory = tempfile.mkdtemp()
        return self.directory

    def forget(self):
        """Makes the child an ordinary process, which keeps the pipe for the names of secret arguments."""
        signal.set_wakeup_fd(-1)
        for number in self.ending + [signal.SIGCHLD]:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(self.child.no_log_descriptor, 3, inheritable=False)
        os.closerange(4, DESCRIPTORS)

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


def keep(step, task, expressions):
    """Makes the temporary file of a step: from a text, a file or a template. Returns its path."""
    source = step["source"]
    if source is None:
        return None
    if source["kind"] == "file" and not source["copies"]:
        path = source["from"]
    else:
        descriptor, path = tempfile.mkstemp(dir=task["directory"])
        with os.fdopen(descriptor, "wb") as file:
            if source["kind"] == "bytes":
                # Each character is a byte.
                file.write(source["from"].encode("latin-1"))
            elif source["kind"] == "template":
                file.write(expressions().render(source).encode())
            else:
                with open(source["from"], "rb") as original:
                    shutil.copyfileobj(original, file)
        if source["mode"]:
            os.chmod(path, source["mode"])
    argument = step["args"].get(source["argument"], SOURCE)
    quoted = shlex.quote(path) if argument != SOURCE else path
    step["args"][source["argument"]] = argument.replace(SOURCE, quoted)
    return path if source["kind"] != "file" or source["copies"] else None


def remove(path):
    try:
        if path is not None:
            os.unlink(path)
    except FileNotFoundError:
        # The module has moved it to where it belongs.
        pass


def parse(line):
    if not line.lstrip().startswith("{"):
        return None
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def no_log_names(specification):
    """Returns the names of arguments that are declared as `no_log`, with those in nested tables."""
    names = []
    for name, declared in (specification or {}).items():
        if not isinstance(declared, dict):
            continue
        if declared.get("no_log"):
            names += [name] + list(declared.get("aliases") or [])
        names += no_log_names(declared.get("options"))
    return names


def facts_in(fields):
    """Returns the facts in an answer, without their prefix."""
    facts = fields.get("ansible_facts")
    facts = facts if isinstance(facts, dict) else {}
    return {name[len("ansible_") :] if name.startswith("ansible_") else name: value for name, value in facts.items()}


def is_true(value):
    if isinstance(value, str):
        return value.lower() in ("true", "yes", "1")
    return isinstance(value, (bool, int, float)) and value != 0


def as_list(value):
    return value if isinstance(value, list) else [] if value is None else [value]


def text_of(value):
    """Returns the text of a message in the formats of all versions of Ansible, or None if it is empty."""
    if isinstance(value, dict):
        inner = value.get("msg", value.get("event"))
        return json.dumps(value) if inner is None else text_of(inner)
    if value is None or isinstance(value, str):
        return (value or "").strip() or None
    return json.dumps(value)


def whole(digits):
    number = int(digits)
    return number if abs(number) < 1 << 63 else digits


def is_condition(value):
    """Returns the truth of a condition, which may also be a text."""
    return value.strip().lower() not in ("", "false", "no", "0", "off", "n", "f") if isinstance(value, str) else bool(value)


def texts(value):
    return [text for text in map(text_of, as_list(value)) if text]


def message(value):
    return value.strip() or None if isinstance(value, str) else None if value is None else json.dumps(value)


def last_line(text):
    lines = last_lines(text)
    return lines[-1].strip() if lines else None


def last_lines(text):
    if not isinstance(text, str):
        return []
    return [line for line in text.splitlines() if line.strip()][-LAST_LINES:]


def scalar(value):
    """Returns a value as text, or None for a list or table."""
    if isinstance(value, (list, dict)):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def difference(diff):
    """Returns the texts before and after a change, of all files that differ."""
    sides = [[side(one["before"]), side(one["after"])] for one in as_list(diff)
             if isinstance(one, dict) and "before" in one and "after" in one]
    sides = [both for both in sides if both[0] != both[1]]
    return ["".join(texts) for texts in zip(*sides)] if sides else None


def text_in(path):
    """Returns the text of a file, which is empty if there is none; None if it has no text or is too long."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_TEXT + 1)
        return content.decode() if len(content) <= MAX_TEXT and b"\0" not in content else None
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        return None


def side(value):
    return value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def clean(value):
    """Replaces what is no Unicode, as in names of files."""
    if isinstance(value, str):
        return SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(name): clean(item) for name, item in value.items()}
    return value


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
    try:
        host.serve(ansible)
    finally:
        if host.directory is not None:
            shutil.rmtree(host.directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
