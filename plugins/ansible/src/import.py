"""Imports playbooks and roles of Ansible: writes definitions, data and files as a tree below a root directory.

The first arguments are the source of host.py, which has the filters and tests of expressions, and the path of the plugin.
"""

import argparse
import collections
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import types

host = types.ModuleType("host")
exec(sys.argv.pop(1), host.__dict__)
PLUGIN = sys.argv.pop(1)

RESOURCES = "etc/holo/resources/ansible"
DATA = "etc/holo/data/common.toml"
# Modules whose free form is a command.
FREE_FORM = ["command", "shell", "script", "raw"]
# The part of the controller for these is done by the plugin.
ACTIONS = [
    "assemble", "command", "copy", "dnf", "package", "script", "service", "shell", "template", "unarchive", "uri", "yum",
    "assert", "debug", "fail", "include_vars", "set_fact", "ansible.posix.patch",
]
EMULATED = ["assert", "debug", "fail", "include_vars", "set_fact"]
# Modules that read files of their role.
WITH_FILES = ["assemble", "copy", "include_vars", "script", "template", "unarchive", "uri", "ansible.posix.patch"]
# Keywords without an effect on a single machine, or on the state of the machine.
IGNORED = ["name", "tags", "run_once", "diff", "any_errors_fatal", "throttle", "collections", "debugger", "become_method", "become_flags", "become"]
# Variables that only a controller has.
MAGIC = ["hostvars", "groups", "group_names", "play_hosts", "ansible_play_hosts", "ansible_play_batch", "inventory_dir",
         "inventory_file", "playbook_dir", "role_name", "ansible_role_name", "ansible_parent_role_names", "ansible_search_path",
         "inventory_hostname_short", "ansible_host", "ansible_user", "ansible_ssh_user", "ansible_connection", "ansible_version",
         "ansible_run_tags", "ansible_loop", "ansible_index_var", "playbook_name", "vars"]
# Conditions whose result a task can change.
CHANGEABLE = re.compile(r"\b(exists|file|directory|link|link_exists|mount|same_file)\b")
LOOKUPS = ["dict", "env", "file", "first_found", "flattened", "vars"]
# Names in expressions whose values depend on the machine or on the time.
CHANGING = ["inventory_hostname", "role_path", "now", "lookup:?", "lookup:env", "lookup:file", "lookup:first_found", "lookup:vars"]
LOOPS = {
    "loop": "%s",
    "with_list": "%s",
    "with_items": "(%s) | flatten(levels=1)",
    "with_flattened": "(%s) | flatten",
    "with_dict": "(%s) | dict2items",
    "with_first_found": "[lookup('first_found', %s)]",
}


class Unsupported(Exception):
    """The reason why a task cannot be imported."""


class Importer:
    def __init__(self, output):
        import yaml

        self.yaml = yaml
        self.output = os.path.join(output, RESOURCES)
        self.root = output
        self.data = {}
        self.lines = []
        self.names = set()
        self.count = {True: 0, False: 0}
        self.previous = None
        self.may_fail = False
        self.notifications = []
        self.handlers = []
        self.play_handlers = []
        self.roles = []
        # Variables that tasks set, and how often; then those of tasks that could not be imported.
        self.volatile = collections.Counter()
        self.unknown = set()
        self.used_roots = set()
        # The role of each copied file, and the roles that have other files of the same names.
        self.copied = {}
        self.conflicting = set()
        self.owners = {}
        self.plays = 0
        # Those of the first play.
        self.hosts = None
        self.quote = quote
        # The number of includes whose condition was evaluated before.
        self.kept = 0
        self.gathers_facts = False
        self.uses_facts = False
        # The files and lines of imported tasks, by entity, and those of the other tasks.
        self.originals = {}
        self.left = set()
        self.expressions = host.Expressions(lambda: {})
        self.environment = self.expressions.environment

    # Reading

    def read(self, path, default=None):
        if default is not None and not os.path.exists(path):
            return default
        with open(path, encoding="utf-8") as file:
            loader = type("Loader", (self.yaml.SafeLoader,), {})
            loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))
            loader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: self.located(loader, node, path))
            loader.add_multi_constructor("!vault", lambda loader, suffix, node: Vault())
            # Dates stay texts, as no module wants another value.
            loader.yaml_implicit_resolvers = {
                letter: [(tag, regex) for tag, regex in resolvers if not tag.endswith("timestamp")]
                for letter, resolvers in loader.yaml_implicit_resolvers.items()
            }
            return self.yaml.load(file, loader) or default

    def located(self, loader, node, path):
        located = Located()
        yield located
        located.update(loader.construct_mapping(node))
        located.path = "%s:%d" % (os.path.realpath(path), node.start_mark.line + 1)

    def main_file(self, folder):
        for name in ("main.yml", "main.yaml", "main"):
            if os.path.isfile(os.path.join(folder, name)):
                return os.path.join(folder, name)
        return os.path.join(folder, "main.yml")

    def add_role(self, path, context, tasks_from="main"):
        path = os.path.abspath(path)
        if path not in self.roles:
            self.roles.append(path)
            for folder in ("files", "templates", "vars"):
                self.copy(path, folder)
            meta = self.read(self.main_file(os.path.join(path, "meta")), {})
            self.add_listed_roles(meta.get("dependencies") or [], path, context)
            for folder in ("defaults", "vars"):
                values = self.read(self.main_file(os.path.join(path, folder)), {})
                self.add_variables(values, path, overrides=folder == "vars")
            self.handlers += self.handlers_in(self.main_file(os.path.join(path, "handlers")), dict(context, role=path))
            self.find_volatile(path)
        file = os.path.join(path, "tasks", tasks_from)
        file = self.main_file(os.path.join(path, "tasks")) if tasks_from == "main" else file if os.path.exists(file) else file + ".yml"
        self.add_file(file, dict(context, role=path))

    def handlers_in(self, path, context):
        """Returns the handlers of a file, and those of files that it imports."""
        found = []
        for handler in self.read(path, []):
            name = handler.get("ansible.builtin.import_tasks", handler.get("import_tasks"))
            imported = os.path.join(os.path.dirname(path), str(name))
            is_plain = not {"when", "vars"} & set(handler)
            found += self.handlers_in(imported, context) if is_plain and os.path.isfile(imported) else [(handler, context)]
        return found

    def add_listed_roles(self, roles, beside, context):
        for role in roles:
            role = {"role": role} if isinstance(role, str) else dict(role)
            name = role.pop("role", None) or role.pop("name", None)
            inherited = self.passed_on(self.with_inherited(role, context))
            parameters = {key: value for key, value in role.items() if key not in KEYWORDS}
            inherited["vars"] = dict(inherited.get("vars") or {}, **parameters)
            try:
                self.add_named_role(name, beside, dict(context, inherited=inherited), is_listed=True)
            except Unsupported as reason:
                self.add_todo({"role": name}, reason)

    def find_volatile(self, path):
        """Collects the variables that tasks of a role set."""
        for folder in ("tasks", "handlers"):
            for at, _, files in os.walk(os.path.join(path, folder)):
                for name in sorted(files):
                    if name.endswith((".yml", ".yaml")):
                        self.volatile.update(self.assigned(self.read(os.path.join(at, name), []), path))

    def assigned(self, value, role):
        """Returns the variables that tasks set."""
        if isinstance(value, list):
            return [name for one in value for name in self.assigned(one, role)]
        if not isinstance(value, dict):
            return []
        names = [value["register"]] if isinstance(value.get("register"), str) else []
        for key, inner in value.items():
            short = str(key).rpartition(".")[2]
            if short == "set_fact":
                words = inner if isinstance(inner, dict) else re.findall(r"(\w+)\s*=", str(inner))
                names += list(words)
            elif short == "include_vars":
                for at, _, files in os.walk(os.path.join(role, "vars")):
                    for name in files:
                        if name.endswith((".yml", ".yaml")) and os.path.join(at, name) != self.main_file(os.path.join(role, "vars")):
                            names += list(self.read(os.path.join(at, name), {}))
            elif key in ("block", "rescue", "always"):
                names += self.assigned(inner, role)
        return names

    def add_variables(self, values, owner, overrides=True):
        for name, value in values.items():
            if self.owners.get(name, owner) != owner and self.data[name] != value:
                # Its value depends on the role or play.
                self.unknown.add(name)
            elif overrides or name not in self.data:
                self.data[name] = value
            self.owners[name] = owner

    def add_named_role(self, name, beside, context, tasks_from="main", is_listed=False):
        if "/" not in str(name):
            name = str(name).rpartition(".")[2]
        for folder in (os.path.dirname(beside), os.path.join(os.path.dirname(beside), "roles"), os.path.join(beside, "roles")):
            path = os.path.abspath(os.path.join(folder, name))
            if os.path.isdir(path):
                if is_listed and path in self.roles:
                    return None
                return self.add_role(path, context, tasks_from)
        raise Unsupported("the role %s was not found" % name)

    def copy(self, role, name):
        """Copies a directory of a role. Files of earlier roles are kept."""
        source = os.path.join(role, name)
        for at, _, files in os.walk(source):
            folder = os.path.join(self.output, name, os.path.relpath(at, source))
            os.makedirs(folder, exist_ok=True)
            for file in files:
                path, copied = os.path.join(at, file), os.path.join(folder, file)
                if not os.path.lexists(copied):
                    shutil.copy2(path, copied, follow_symlinks=False)
                elif path != os.path.join(source, "main.yml") and self.copied.get(copied, role) != role:
                    self.conflicting.add(role)
                self.copied.setdefault(copied, role)

    def add_playbook(self, path):
        folder = os.path.dirname(os.path.abspath(path))
        for name in ("files", "templates", "vars"):
            self.copy(folder, name)
        plays = self.read(path)
        if not isinstance(plays, list) or not all(isinstance(play, dict) for play in plays):
            raise Unsupported("it is not a list of plays")
        for play in plays:
            name = play.get("ansible.builtin.import_playbook", play.get("import_playbook"))
            if name is not None:
                if {"when", "vars"} & set(play) or is_never(play) or has_template(str(name)):
                    self.add_todo(play, "import_playbook: with when, vars, the tag never or an expression has no counterpart")
                else:
                    self.add_playbook(os.path.join(folder, name))
                continue
            self.plays += 1
            self.hosts = self.hosts or play.get("hosts")
            if play.get("hosts") not in (self.hosts, "all"):
                self.add_todo({"hosts": play.get("hosts")}, "the next tasks are for other machines than those before")
            for key in [key for key in play if key not in PLAY]:
                self.add_todo({key: play[key]}, "%s: of a play has no counterpart" % key)
            self.add_variables(play.get("vars") or {}, self.plays)
            for file in host.as_list(play.get("vars_files")):
                try:
                    path = os.path.join(folder, self.now(file))
                    self.add_variables(self.read(path) or {}, self.plays)
                except (Unsupported, OSError, TypeError) as error:
                    self.add_todo({"vars_files": [file]}, error)
            self.unknown.update(one["name"] for one in play.get("vars_prompt") or [])
            inherited = self.passed_on({key: value for key, value in play.items() if key != "vars"})
            context = {"role": folder, "folder": folder, "inherited": inherited}
            # Those of roles come first.
            self.play_handlers = [(handler, context) for handler in play.get("handlers") or []]
            self.volatile.update(self.assigned([play.get(key) for key in ("pre_tasks", "tasks", "post_tasks", "handlers")], folder))
            self.gathers_facts |= "gather_facts" not in play or self.truth(play, "gather_facts") is not False
            self.add_tasks(play.get("pre_tasks") or [], context)
            self.add_handlers()
            self.add_listed_roles(play.get("roles") or [], os.path.join(folder, "roles", "x"), context)
            self.add_tasks(play.get("tasks") or [], context)
            self.add_handlers()
            self.add_tasks(play.get("post_tasks") or [], context)
            self.add_handlers()

    # Tasks

    def add_tasks(self, tasks, context):
        for task in tasks:
            context = dict(context, path=getattr(task, "path", None))
            try:
                self.add_task(dict(task), context)
            except Unsupported as reason:
                self.add_todo(task, reason, context)
            except Exception as error:
                self.add_todo(task, "cannot be read: %s" % error, context)

    def with_inherited(self, task, context):
        """Returns a task or role with the keywords of its blocks, includes and play."""
        inherited = dict(context.get("inherited") or {})
        for key in ("when", "tags"):
            if key in inherited and key in task:
                task[key] = host.as_list(inherited[key]) + host.as_list(task[key])
        for key in ("vars", "environment"):
            if key in inherited and isinstance(inherited[key], dict) and isinstance(task.get(key, {}), dict):
                task[key] = dict(inherited[key], **(task.get(key) or {}))
        return dict(inherited, **task)

    def add_task(self, task, context):
        task = self.with_inherited(task, context)
        if "block" in task:
            return self.add_block(task, context)
        if is_never(task):
            raise Unsupported("the tag never has no counterpart")
        module = self.module_of(task)
        short = module[len("ansible.builtin.") :] if module.startswith("ansible.builtin.") else module
        if short in ("include_tasks", "include_role", "include"):
            self.keep_condition(task, short, context)
        if short in ("include_tasks", "import_tasks", "include"):
            return self.add_include(task, module, context)
        if short in ("include_role", "import_role"):
            args = self.arguments(task, module)
            if any("{{" in str(value) for value in args.values()) or "loop" in task:
                raise Unsupported("the role depends on an expression")
            return self.add_named_role(args.get("name") or args["role"], context["role"], dict(context, inherited=self.passed_on(task)), args.get("tasks_from", "main"))
        if short == "meta":
            action = self.arguments(task, module).get("_raw_params")
            is_flush = action == "flush_handlers" and not self.notifications
            if ("when" in task and not is_flush) or action not in ("flush_handlers", "noop", "reset_connection", "refresh_inventory", "clear_host_errors"):
                raise Unsupported("meta: %s has no counterpart" % action)
            if action == "flush_handlers":
                self.add_handlers()
            self.count[True] += 1
            return None
        self.add_definition(task, module, short, context)

    def keep_condition(self, task, short, context):
        """Has the condition of an include evaluated before its tasks, as these can change it."""
        conditions = [one for one in self.conditions(task.get("when")) if isinstance(one, str)]
        used = {name for one in conditions for name in self.used(one)}
        if used & {*self.volatile, "lookup", "ansible_facts", "ansible_local"} or any(CHANGEABLE.search(one) for one in conditions):
            self.kept += 1
            name = "included_%d" % self.kept
            table = {"module": "ansible.builtin.set_fact", "args": {name: True}, "vars": task.get("vars") or {}, "when": conditions}
            self.write("%s: condition" % (task.get("name") or short), table, None, None)
            task["when"] = ["%s is defined" % name]

    def used(self, text, variables=None, found=None):
        """Returns the variables and lookups of an expression, and those of their values."""
        import jinja2
        from jinja2 import meta, nodes

        variables = self.data if variables is None else variables
        found = set() if found is None else found
        try:
            tree = self.environment.parse(text if has_template(text) else "{{ (%s) }}" % text)
        except jinja2.TemplateError as error:
            raise Unsupported("%s: %s" % (text, error))
        names = meta.find_undeclared_variables(tree) - found
        found |= names | {"lookup:" + self.lookup_in(node) for node in tree.find_all(nodes.Call) if self.lookup_in(node)}
        for name in names:
            for part in texts_in(variables.get(name)):
                if has_template(part):
                    self.used(part, variables, found)
        return found

    def lookup_in(self, node):
        """Returns the name of the lookup that a call is, if it is one."""
        from jinja2 import nodes

        if not isinstance(node.node, nodes.Name) or node.node.name not in ("lookup", "query", "q"):
            return None
        return node.args[0].value.rpartition(".")[2] if node.args and isinstance(node.args[0], nodes.Const) else "?"

    def passed_on(self, task):
        kept = ("delegate_to", "module_defaults", "notify", "when", "vars", "environment", "become", "become_user", "no_log", "ignore_errors", "check_mode",
                "tags", "timeout", "connection")
        return {key: task[key] for key in kept if key in task}

    def add_block(self, task, context):
        for key in ("rescue", "always"):
            if key in task:
                self.count[False] += len(list(self.leaves(task))) - 1
                raise Unsupported("%s: has no counterpart" % key)
        self.add_tasks(task["block"], dict(context, inherited=self.passed_on(task)))

    def leaves(self, task):
        inner = [one for key in ("block", "rescue", "always") for one in task.get(key) or []]
        if not inner:
            yield task
        for one in inner:
            yield from self.leaves(one)

    def module_of(self, task):
        keywords = set(KEYWORDS) | set(LOOPS)
        if "action" in task or "local_action" in task:
            raise Unsupported("action: is written in the old form")
        names = [key for key in task if key not in keywords and not key.startswith("with_")]
        if len(names) != 1:
            raise Unsupported("the module is not clear: %s" % ", ".join(names))
        return names[0]

    def arguments(self, task, module):
        written = task[module]
        args = dict(task.get("args") or {})
        if isinstance(written, dict):
            return dict(args, **written)
        if written is None:
            return args
        from ansible.parsing.splitter import parse_kv

        is_command = module.rpartition(".")[2] in FREE_FORM
        parsed = parse_kv(str(written), check_raw=is_command or "=" not in str(written))
        return dict(parsed, **args)

    def defaults_of(self, task, module):
        """Returns the arguments of a module in `module_defaults`."""
        groups = task.get("module_defaults") or {}
        for name in groups:
            if name.startswith("group/") or (name != module and name.rpartition(".")[2] == module.rpartition(".")[2]):
                raise Unsupported("module_defaults: %s has no counterpart" % name)
        return groups.get(module) or {}

    def add_include(self, task, module, context):
        args = self.arguments(task, module)
        name = args.get("file") or args.get("_raw_params")
        if "apply" in args:
            raise Unsupported("apply: has no counterpart")
        if "import" not in module:
            context = dict(context, is_included="when" in task or "{{" in name)
        if any(key in task for key in LOOPS if key != "with_first_found"):
            self.unknown.update(self.volatile)
            raise Unsupported("an include in a loop has no counterpart")
        folders = [context["folder"], os.path.join(context["role"], "tasks")]
        if "with_first_found" in task:
            raise Unsupported("an include with with_first_found has no counterpart")
        if "{{" not in name:
            for folder in folders:
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    return self.add_file(path, dict(context, inherited=self.passed_on(task)))
            raise Unsupported("there is no file %s" % name)
        # One of the files that there are.
        expression = self.expression(name)
        pattern = re.escape(re.sub(r"\{\{.*?\}\}", "\0", name)).replace(re.escape("\0"), "[^/]+") + "$"
        folder = os.path.join(context["role"], "tasks")
        found = sorted(os.path.relpath(os.path.join(at, one), folder) for at, _, files in os.walk(folder) for one in files)
        # A file that includes itself would never end.
        found = [one for one in found if re.match(pattern, one) and os.path.join(folder, one) not in context.get("files", [])]
        if not found:
            raise Unsupported("no file fits %s" % name)
        for one in found:
            inherited = self.passed_on(task)
            inherited["when"] = host.as_list(inherited.get("when")) + ["(%s) == %s" % (expression, self.literal(one))]
            path = os.path.join(folder, one)
            self.add_file(path, dict(context, inherited=inherited))

    def add_file(self, path, context):
        if path in context.get("files", []):
            raise Unsupported("%s includes itself" % os.path.basename(path))
        files = context.get("files", []) + [path]
        self.add_tasks(self.read(path, []), dict(context, folder=os.path.dirname(path), files=files))

    # Expressions

    def check(self, node_text, is_template=False):
        import jinja2
        from jinja2 import meta, nodes

        try:
            tree = self.environment.parse(node_text if is_template else "{{ (%s) }}" % node_text)
        except jinja2.TemplateError as error:
            raise Unsupported("%s: %s" % (node_text, error))
        for node in tree.find_all(nodes.Filter):
            if node.name not in self.environment.filters:
                raise Unsupported("there is no filter %s" % node.name)
        for node in tree.find_all(nodes.Test):
            if node.name not in self.environment.tests:
                raise Unsupported("there is no test %s" % node.name)
        for name in filter(None, map(self.lookup_in, tree.find_all(nodes.Call))):
            if name not in LOOKUPS:
                raise Unsupported("the lookup %s has no counterpart" % name)
        names = meta.find_undeclared_variables(tree)
        self.uses_facts |= any(name.startswith("ansible_") for name in names - {"ansible_check_mode", "ansible_managed"})
        for name in sorted(names & set(MAGIC)):
            raise Unsupported("the variable %s only exists in a controller" % name)
        for name in sorted(names & self.unknown):
            raise Unsupported("%s is set by a task that is to do" % name)
        for name in names:
            self.check_value(self.data.get(name))
        return node_text

    def check_value(self, value, depth=0):
        """Checks a variable that is a template itself."""
        if isinstance(value, Vault):
            raise Unsupported("a value is encrypted with ansible-vault")
        if isinstance(value, str) and ("{{" in value or "{%" in value) and depth < 5:
            self.check(value, is_template=True)
        if isinstance(value, dict) and isinstance(self.ordered(value), dict) and list(value) != sorted(value, key=str):
            raise Unsupported("the order of %s would be lost" % ", ".join(map(str, value)))
        if isinstance(value, (list, dict)):
            for one in value.values() if isinstance(value, dict) else value:
                self.check_value(one, depth + 1)

    def expression(self, text):
        """Returns the expression that has the value of a template."""
        if "{%" in text or "{#" in text or "{{-" in text or "-}}" in text:
            raise Unsupported("an argument is a template with blocks")
        text = self.expressions.with_backslashes(text)
        single = host.SINGLE.match(text)
        if single:
            return self.check(single.group(1).strip())
        parts = re.split(r"\{\{(.*?)\}\}", text, flags=re.DOTALL)
        joined = [self.literal(part) if number % 2 == 0 else "(%s)" % part.strip() for number, part in enumerate(parts) if number % 2 or part]
        return self.check(" ~ ".join(joined))

    def literal(self, value):
        """Returns an expression for a value, which may contain templates."""
        if isinstance(value, Vault):
            raise Unsupported("a value is encrypted with ansible-vault")
        if isinstance(value, str):
            return self.expression(value) if has_template(value) else self.quote(value)
        if isinstance(value, bool) or value is None:
            return {True: "true", False: "false", None: "none"}[value]
        if isinstance(value, (int, float)):
            return repr(value)
        if isinstance(value, list):
            return "[%s]" % ", ".join(self.grouped(one) for one in value)
        if isinstance(value, dict):
            # A text must not contain the end of an expression.
            return "{%s }" % ", ".join("%s: %s" % (self.literal(name), self.grouped(one)) for name, one in value.items())
        return quote(value)

    def ordered(self, value):
        """Returns a value in which tables whose keys are not sorted are expressions, as data have no order."""
        if isinstance(value, list):
            return [self.ordered(one) for one in value]
        if not isinstance(value, dict) or contains(value, Vault):
            return value
        if list(value) == sorted(value, key=str):
            return {name: self.ordered(one) for name, one in value.items()}
        before, self.quote = self.quote, raw_quote
        try:
            text = "{{ %s }}" % self.literal(value)
        except Unsupported:
            return value
        finally:
            self.quote = before
        return text if "\\" not in text and host.SINGLE.match(text) else value

    def grouped(self, value):
        return "(%s)" % self.literal(value) if isinstance(value, str) and has_template(value) else self.literal(value)

    def conditions(self, written):
        found = []
        for one in host.as_list(written):
            if isinstance(one, bool):
                found.append(one)
            elif has_template(str(one)):
                found.append(self.expression(str(one)))
            else:
                found.append(self.check(str(one).strip()))
        return found

    def now(self, value, variables=None, item=None):
        """Returns the value that a template has with the variables of the import."""
        if not has_template(json.dumps(value, default=str)):
            return value
        try:
            self.enter(value, variables, item)
            return self.expressions.render_value(value)
        except Exception as error:
            raise Unsupported("%s is only known when the task is run: %s" % (value, error))

    def enter(self, value, variables=None, item=None):
        """Sets the variables for a template, whose value must not depend on the machine or on tasks."""
        self.expressions.scope = dict(self.data, **dict(variables or {}, **(item or {})))
        self.expressions.trusted = set(self.expressions.scope)
        used = {name for text in texts_in(value) for name in self.used(text, self.expressions.scope)}
        for name in sorted(used - set(item or {})):
            if name in self.volatile or name in self.unknown or name in MAGIC or name in CHANGING or name.startswith("ansible_"):
                raise ValueError("it uses %s" % name)

    def items(self, task):
        """Returns the items of a loop, with the variables for each."""
        key = next((key for key in LOOPS if key in task), None)
        if key is None:
            return [{}]
        control = task.get("loop_control") or {}
        if set(control) - {"label", "loop_var", "index_var", "pause"}:
            raise Unsupported("loop_control: %s has no counterpart" % ", ".join(sorted(control)))
        if "register" in task:
            raise Unsupported("register: of a loop has no counterpart")
        if "until" in task:
            raise Unsupported("until: in a loop has no counterpart")
        expression = self.check(LOOPS[key] % self.literal(task[key]))
        try:
            self.enter("{{ %s }}" % expression, task.get("vars"))
            items = self.expressions.value(expression)
            if not isinstance(items, list):
                raise ValueError("it is not a list")
            items = json.loads(json.dumps(items))
        except Exception as error:
            raise Unsupported("the items of the loop are only known when the task is run: %s" % error)
        named = [{control.get("loop_var", "item"): item} for item in items]
        if "index_var" in control:
            named = [dict(one, **{control["index_var"]: index}) for index, one in enumerate(named)]
        return named

    # Definitions

    def add_definition(self, task, module, short, context, subscribes=None):
        if short == "debug" and not {"notify", "register", "failed_when", "changed_when"} & set(task):
            self.count[True] += 1
            return
        self.check_module(module, short)
        items = self.items(task)
        tables = [self.table(task, module, short, context, item) for item in items]
        topics = [[self.now(one, task.get("vars"), item) for one in host.as_list(task.get("notify"))] for item in items]
        if not tables:
            self.lines += [comment("%s: the loop has no items with these variables." % (task.get("name") or short)), ""]
        for number, ((table, item), notified) in enumerate(zip(tables, topics)):
            name = str(task.get("name") or short)
            if item:
                value = next(iter(item.values()))
                name += " (%s)" % (value if isinstance(value, (str, int)) else number + 1)
            self.write(name, table, subscribes, context["path"])
            self.notifications += [(topic, self.previous) for topic in notified]
        self.count[True] += 1

    def table(self, task, module, short, context, item):
        """Returns the definition for an item of a loop."""
        if context.get("is_included") and self.volatile[task.get("register")] > 1:
            # A task of a file that is not included does not replace the earlier answer.
            raise Unsupported("register: %s is also registered elsewhere" % task["register"])
        unknown = [key for key in task if key not in KEYWORDS and key not in LOOPS and key != module]
        if unknown:
            raise Unsupported("%s has no counterpart" % ", ".join(unknown))
        if task.get("delegate_to") not in (None, "localhost", "127.0.0.1"):
            raise Unsupported("delegate_to: has no counterpart")
        if str(task.get("connection") or "local").rpartition(".")[2] not in ("local", "ssh", "smart", "paramiko"):
            raise Unsupported("connection: has no counterpart")
        if self.whole(task, "poll", 1) == 0 and self.whole(task, "async", 0):
            raise Unsupported("a task in the background has no counterpart")
        if context["role"] in self.conflicting and short in WITH_FILES:
            raise Unsupported("an earlier role has files of the same names")
        table = {"module": module}
        args, expressions = {}, {}
        for name, value in dict(self.defaults_of(task, module), **self.arguments(task, module)).items():
            if value is None:
                continue
            if short == "assert" and name == "that":
                args[name] = self.conditions(value)
            elif has_template(json.dumps(value, default=str)) or contains_none(value):
                literal = self.literal(value)
                if item and self.depends_only_on(literal, item):
                    self.enter(None, item=item)
                    args[name] = self.expressions.value(literal)
                else:
                    expressions[name] = literal
            elif short == "copy" and name == "content" and isinstance(value, (list, dict)):
                args[name] = json.dumps(value)
            else:
                args[name] = value
        if short == "template":
            self.check_template(args.get("src"), context)
        if short == "debug" and "msg" not in [*args, *expressions]:
            if "register" in task:
                raise Unsupported("register: of debug without msg has no counterpart")
            args, expressions = {}, {}
        table["args"], table["expressions"] = args, expressions
        for value in (task.get("vars") or {}).values():
            self.check_value(value)
        table["vars"] = {name: without_none(self.ordered(value)) for name, value in dict(task.get("vars") or {}, **item).items()}
        for key in ("when", "changed_when", "failed_when"):
            if key in task and task[key] not in (None, []):
                table[key] = self.conditions(task[key])
        if task.get("register"):
            table["register"] = task["register"]
        self.add_retries(task, table)
        if self.truth(task, "ignore_errors", item):
            # A failure that is ignored would not be retried.
            table["may_fail" if "until" in task else "ignore_errors"] = True
        if task.get("become_user") and self.truth(task, "become", item):
            user = self.now(task["become_user"], task.get("vars"), item)
            if user != "root":
                table["become_user"] = user
        if task.get("environment"):
            environment = self.now(task["environment"], task.get("vars"), item)
            if not isinstance(environment, dict):
                raise Unsupported("environment: is not a table")
            table["environment"] = {name: str(value) for name, value in environment.items()}
        if self.truth(task, "no_log", item):
            table["sensitive"] = sorted([*args, *expressions])
        is_check = self.truth(task, "check_mode", item)
        if is_check:
            raise Unsupported("check_mode: true has no counterpart")
        if is_check is False:
            table["check_mode"] = False
        limits = [limit for limit in (self.whole(task, key, 0) for key in ("async", "timeout")) if limit]
        if limits:
            table["timeout"] = "%ds" % min(limits)
        return table, item

    def truth(self, task, key, item=None):
        """Returns the boolean of a keyword, which can be a text or a number, or None without it."""
        from ansible.module_utils.parsing.convert_bool import boolean

        value = self.now(task.get(key), task.get("vars"), item)
        try:
            return None if value is None else boolean(value)
        except TypeError:
            raise Unsupported("%s: %s is not a boolean" % (key, value))

    def whole(self, task, key, default):
        value = self.now(task.get(key, default), task.get("vars"))
        try:
            return int(value or 0)
        except (TypeError, ValueError):
            raise Unsupported("%s: %s is not a number" % (key, value))

    def depends_only_on(self, expression, names):
        from jinja2 import meta

        used = meta.find_undeclared_variables(self.environment.parse("{{ (%s) }}" % expression))
        return used <= set(names) and "lookup" not in expression and "omit" not in expression

    def add_retries(self, task, table):
        if "until" not in task and "retries" not in task:
            return
        table["retries"] = self.whole(task, "retries", 3)
        table["retry_delay"] = "%ds" % self.whole(task, "delay", 5)
        if "until" in task:
            until = ["not (%s)" % " and ".join("(%s)" % one for one in self.conditions(task["until"]))]
            failed = table.get("failed_when")
            if failed:
                until = ["(%s) or (%s)" % (" and ".join("(%s)" % one for one in failed), until[0])]
            table["failed_when"] = until

    def check_module(self, module, short):
        import ansible

        if short in EMULATED:
            return
        parts = module.split(".")
        package = os.path.dirname(ansible.__file__)
        if len(parts) < 3 or module.startswith("ansible.builtin."):
            base, name, action = os.path.join(package, "modules"), parts[-1], os.path.join(package, "plugins", "action")
            if not os.path.exists(os.path.join(base, name + ".py")):
                routing = os.path.join(package, "config", "ansible_builtin_runtime.yml")
                routed = self.routing(routing).get(name, {}).get("redirect")
                if routed is None:
                    raise Unsupported("there is no module %s" % module)
                return self.check_module(routed, routed)
        else:
            roots = [os.path.join(root, "ansible_collections", *parts[:2], "plugins") for root in self.collections]
            roots = [root for root in roots if os.path.isdir(root)]
            if not roots:
                raise Unsupported("the collection %s is not installed" % ".".join(parts[:2]))
            base, name, action = os.path.join(roots[0], "modules"), parts[-1], os.path.join(roots[0], "action")
            self.used_roots.add(os.path.abspath(os.path.join(roots[0], *[".."] * 4)))
            if not os.path.exists(os.path.join(base, name + ".py")):
                routed = self.routing(os.path.join(os.path.dirname(roots[0]), "meta", "runtime.yml")).get(name, {}).get("redirect")
                if routed is None:
                    raise Unsupported("there is no module %s" % module)
                return self.check_module(routed, routed)
        if os.path.exists(os.path.join(action, name + ".py")) and short not in ACTIONS:
            raise Unsupported("%s has an action plugin, which has no counterpart" % module)

    def routing(self, path):
        cached = self.__dict__.setdefault("routings", {})
        if path not in cached:
            loader = getattr(self.yaml, "CSafeLoader", self.yaml.SafeLoader)
            with open(path) as file:
                cached[path] = (self.yaml.load(file, loader) or {}).get("plugin_routing", {}).get("modules", {})
        return cached[path]

    def check_template(self, source, context):
        if source is None:
            return
        for folder in (os.path.join(context["role"], "templates"), context["role"]):
            path = os.path.join(folder, source)
            if os.path.isfile(path):
                with open(path, encoding="utf-8") as file:
                    self.check(file.read(), is_template=True)
                return
        raise Unsupported("there is no template %s" % source)

    def add_handlers(self):
        """Adds the handlers that were notified since the last time."""
        notified, self.notifications = self.notifications, []
        handlers = [(handler, dict(context, path=handler.path)) for handler, context in self.handlers + self.play_handlers]
        by_name, known = {}, set()
        for handler, context in handlers:
            name = self.name_of(handler)
            if by_name.get(name, (None, None))[1] != context["role"]:
                # A later role replaces handlers.
                by_name[name] = handler.path, context["role"]
        for handler, context in handlers:
            name = self.name_of(handler)
            topics = host.as_list(handler.get("listen"))
            if by_name[name][0] == handler.path:
                topics = topics + [name, "%s : %s" % (os.path.basename(context["role"]), name)]
            known.update(topics)
            by = [name for topic, name in notified if topic in topics]
            if not by:
                continue
            inherited = {key: value for key, value in (context.get("inherited") or {}).items() if key != "when"}
            task = {key: value for key, value in dict(inherited, **handler).items() if key != "listen"}
            try:
                if "block" in task:
                    raise Unsupported("a block as a handler has no counterpart")
                module = self.module_of(task)
                short = module[len("ansible.builtin.") :] if module.startswith("ansible.builtin.") else module
                if short in ("include_tasks", "import_tasks", "meta"):
                    raise Unsupported("%s as a handler has no counterpart" % short)
                self.add_definition(task, module, short, context, by)
                # A handler can notify others that come later.
                notified += [one for one in self.notifications]
                self.notifications = []
            except Unsupported as reason:
                self.add_todo(handler, reason, context)
        for topic in dict.fromkeys(topic for topic, _ in notified if topic not in known):
            self.add_todo({"notify": topic}, "there is no handler %s" % topic)

    def name_of(self, handler):
        try:
            return self.now(handler.get("name"))
        except Unsupported:
            return handler["name"]

    def write(self, name, table, subscribes, path):
        name = one_line(re.sub(r"\{\{\s*(.*?)\s*\}\}", r"\1", str(name)))
        unique, number = name, 1
        while unique in self.names:
            number += 1
            unique = "%s (%d)" % (name, number)
        self.names.add(unique)
        self.originals[unique] = path
        may_fail = table.pop("may_fail", False) or "ignore_errors" in table
        lines = ["[[task]]", "name = %s" % toml(unique), "module = %s" % toml(table.pop("module"))]
        for key in ("args", "expressions", "vars", "environment"):
            for inner, value in (table.pop(key, None) or {}).items():
                lines.append("%s.%s = %s" % (key, toml_key(inner), toml(value)))
        lines += ["%s = %s" % (key, toml(value)) for key, value in table.items()]
        if subscribes:
            lines.append("refresh_only = true")
            lines.append("subscribes = %s" % toml(["ansible:" + one for one in dict.fromkeys(subscribes)]))
        if self.previous:
            key = "after" if self.may_fail else "requires"
            lines.append("%s = %s" % (key, toml(["ansible:" + self.previous])))
        self.previous, self.may_fail = unique, may_fail
        self.lines += lines + [""]

    def add_todo(self, task, reason, context=None):
        self.unknown.update(self.assigned(task, (context or {}).get("role", "/")))
        self.left |= {getattr(one, "path", None) for one in [task, *self.leaves(task)]}
        text = self.yaml.dump([plain(task)], sort_keys=False, allow_unicode=True, default_flow_style=False)
        self.lines += [comment("TODO: " + one_line(reason))] + [comment(line, "  ") for line in text.splitlines()] + [""]
        self.count[False] += 1

    def finish(self, name):
        self.add_handlers()
        os.makedirs(self.output, exist_ok=True)
        lines = self.lines
        if self.gathers_facts and self.uses_facts:
            # As in the playbook, they are those of the beginning.
            lines = ["[[task]]", 'name = "Gathering Facts"', 'module = "ansible.builtin.setup"', ""] + lines
        defaults = ["/usr/share/ansible/collections"]
        if self.used_roots - set(defaults) or sys.executable != "/usr/bin/python3":
            folders = sorted(folder for folder in self.used_roots if folder not in sys.path) or defaults
            lines = ["[[host]]", "python = %s" % toml(sys.executable), "collections = %s" % toml(folders), ""] + lines
        text = "\n".join(lines)
        is_raw = "{{" in text and "{% endraw" not in text
        head = "# Imported from %s.\n" % name
        if is_raw:
            # The expressions of vars are not for definitions.
            text = "{% raw %}\n" + text + "{% endraw %}\n"
        with open(os.path.join(self.output, "10-%s.toml%s" % (name, ".jinja" if is_raw else "")), "w") as file:
            file.write(head + text)
        data = {key: without_none(self.ordered(value)) for key, value in self.data.items()}
        path = os.path.join(self.root, DATA)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("# Variables of %s.\n" % name)
            for key, value in data.items():
                if contains(value, Vault):
                    file.write(comment("TODO: %s is encrypted with ansible-vault\n" % one_line(key)) + "\n")
                else:
                    file.write("%s = %s\n" % (toml_key(key), toml(value)))


KEYWORDS = IGNORED + [
    "args", "async", "become_user", "block", "always", "rescue", "changed_when", "check_mode", "delay", "delegate_to", "environment",
    "failed_when", "ignore_errors", "ignore_unreachable", "listen", "loop_control", "module_defaults", "no_log", "notify", "poll", "register",
    "retries", "until", "vars", "when", "action", "local_action", "delegate_facts", "port", "remote_user", "connection", "timeout",
]


# Keywords of a play. `serial` and the others of several machines are not among them.
PLAY = IGNORED + [
    "hosts", "vars", "vars_files", "vars_prompt", "gather_facts", "pre_tasks", "roles", "tasks", "post_tasks", "handlers", "become_user",
    "check_mode", "connection", "environment", "ignore_errors", "ignore_unreachable", "module_defaults", "no_log", "order", "port",
    "remote_user", "strategy", "timeout",
]


class Located(dict):
    """A table of a file, with its path and line."""


def is_never(task):
    """Returns true for what is only run on demand."""
    return "never" in re.split(r"[\s,]+", ",".join(map(str, host.as_list(task.get("tags")))))


class Vault:
    """An encrypted value."""


def quote(text):
    """Returns a text as a literal for TOML and for expressions."""
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def one_line(text):
    """Returns a text without line breaks and other control characters."""
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", str(text)).strip()


def comment(text, indent=""):
    return ("# %s%s" % (indent, re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", str(text)))).rstrip()


def raw_quote(text):
    """Returns the literal of a text in a template in which a backslash stands for itself."""
    for quote in "\"'":
        if quote not in text:
            return quote + text + quote
    raise Unsupported("a text has both kinds of quotes")


def has_template(text):
    return "{{" in text or "{%" in text


def contains(value, kind):
    if isinstance(value, dict):
        return any(contains(one, kind) for one in value.values())
    if isinstance(value, list):
        return any(contains(one, kind) for one in value)
    return isinstance(value, kind)


def texts_in(value):
    if isinstance(value, (list, dict)):
        return [text for one in (value.values() if isinstance(value, dict) else value) for text in texts_in(one)]
    return [value] if isinstance(value, str) else []


def without_none(value):
    """Replaces what TOML does not have with an expression."""
    if isinstance(value, dict):
        return {name: without_none(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_none(one) for one in value]
    return "{{ none }}" if value is None else value


def contains_none(value):
    return contains(value, type(None))


def plain(value):
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return "encrypted" if isinstance(value, Vault) else value


def toml_key(name):
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", str(name)) else quote(name)


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return "[%s]" % ", ".join(toml(one) for one in value if one is not None)
    if isinstance(value, dict):
        return "{ %s }" % ", ".join("%s = %s" % (toml_key(name), toml(one)) for name, one in value.items() if one is not None) if value else "{}"
    return quote(value)


def roots():
    named = os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(":")
    return [root for root in named if root] + ["/usr/share/ansible/collections"] + sys.path


# The last lines make the upper directory available outside of the namespace.
COPY = """set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
mount --rbind /dev "$1/root/dev"
mount --rbind /sys "$1/root/sys"
mount -t proc proc "$1/root/proc"
mount --bind -o ro "$1/root/proc/sys" "$1/root/proc/sys"
chroot "$1/root" sh -c "$3" || true
cd "$1/upper"
rm -rf dev etc/holo etc/holorc etc/holorc.d proc root/.ansible root/.cache root/.rpmdb run sys tmp usr/share/holo var/cache var/lib/apt var/lib/holo var/log var/tmp
cp -a . "$2"
"""


# What the plugin says of a failure with `ignore_errors`.
IGNORED_FAILURE = "the failure is ignored: "

# Has ansible-playbook skip the tasks that were not imported.
STRATEGY = """
from ansible.plugins.strategy import linear

class StrategyModule(linear.StrategyModule):
    def leave_out(self, task):
        one = task
        while one is not None:
            if one.get_path() in %r:
                task.when = [False]
            one = getattr(one, "_parent", None)

    def _queue_task(self, host, task, *others):
        self.leave_out(task)
        return super()._queue_task(host, task, *others)

    def _execute_meta(self, task, *others):
        self.leave_out(task)
        return super()._execute_meta(task, *others)
"""


class Copy:
    """A throw-away copy of this system, in which a command was run."""

    def __init__(self, folder, name, command):
        mount, self.upper = os.path.join(folder, name), os.path.join(folder, name + "-files")
        os.mkdir(mount)
        os.mkdir(self.upper)
        words = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", COPY, "sh", mount, self.upper, command]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLO_")}
        ended = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.output = ended.stdout.decode(errors="replace")
        self.errors = ended.stderr.decode(errors="replace")
        if ended.returncode:
            raise OSError("cannot copy the system: %s" % self.errors.strip())

    def files(self):
        """Returns what was changed, by path."""
        found = {}
        for at, folders, files in os.walk(self.upper):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in files + folders:
                path = os.path.join(at, name)
                state = os.lstat(path)
                content = b""
                if stat.S_ISDIR(state.st_mode) and is_same_folder(path[len(self.upper) :], state):
                    continue
                if stat.S_ISLNK(state.st_mode):
                    content = os.readlink(path).encode()
                elif stat.S_ISREG(state.st_mode):
                    with open(path, "rb") as file:
                        content = file.read()
                found[path[len(self.upper) :]] = (oct(state.st_mode), state.st_uid, state.st_gid, content)
        return found


def is_same_folder(path, state):
    """Returns true for a directory that is only there because of its content."""
    original = os.lstat(path) if os.path.lexists(path) else None
    return original and (original.st_mode, original.st_uid, original.st_gid) == (state.st_mode, state.st_uid, state.st_gid)


def playbook_results(output):
    """Returns the results of tasks, by file and line, in the output of ansible-playbook, and the place of the failure that has ended it."""
    results, path, ended = {}, None, None
    for line in output.splitlines():
        if line.startswith("task path: "):
            path = line[len("task path: ") :]
        result = re.match(r"(ok|changed|skipping|fatal|failed): \[", line)
        if result and path:
            word = {"skipping": "ok", "fatal": "failed"}.get(result.group(1), result.group(1))
            results[path] = worse(word, results.get(path))
            ended = path if word == "failed" else ended
        elif line == "...ignoring":
            ended = None
    return results, ended


def own_results(output, originals):
    """Returns the same of holo, and its errors in definitions."""
    results, ended, errors = {}, None, []
    for line in output.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        path = originals.get(event.get("id", "")[len("ansible:") :])
        if event.get("event") == "error":
            errors.append(event["text"])
        elif path and event.get("event") == "output" and IGNORED_FAILURE in event["text"]:
            results[path] = "failed"
        elif path and event.get("event") == "end" and not event.get("reason", "").startswith("requires "):
            word = {"changed": "changed", "failed": "failed"}.get(event.get("result"), "ok")
            results[path] = worse(word, results.get(path))
            ended = path if word == "failed" else ended
    return results, ended, errors


def worse(one, other):
    return max(one, other or "ok", key=["ok", "changed", "failed"].index)


def verify(source, output, originals, left):
    """Applies the imported tasks of a playbook and the definitions to copies of this system, and compares the results."""
    source, output = os.path.abspath(source), os.path.abspath(output)
    beside = os.path.join(os.path.dirname(PLUGIN), "holo")
    holo = beside if os.path.exists(beside) else shutil.which("holo") or "holo"
    program = os.path.join(os.path.dirname(sys.executable), "ansible-playbook")
    with tempfile.TemporaryDirectory(dir="/var/lib") as folder:
        playbook = source
        if os.path.isdir(source):
            playbook = os.path.join(folder, "play.yml")
            with open(playbook, "w") as file:
                json.dump([{"hosts": "localhost", "roles": [source]}], file)
        with open(os.path.join(folder, "imported.py"), "w") as file:
            file.write(STRATEGY % left)
        options = "ANSIBLE_STRATEGY=imported ANSIBLE_STRATEGY_PLUGINS=" + folder + " ANSIBLE_NOCOLOR=1 ANSIBLE_LOCALHOST_WARNING=0 ANSIBLE_STDOUT_CALLBACK=default LC_ALL=C.UTF-8 ANSIBLE_COLLECTIONS_PATH="
        words = [program, "-vv", "-i", "localhost,", "-c", "local", "-e", "ansible_python_interpreter=" + sys.executable, playbook]
        quoted = shlex.quote(":".join(roots()))
        theirs = Copy(folder, "playbook", "%s%s %s" % (options, quoted, " ".join(map(shlex.quote, words))))
        words = (shlex.quote(output + "/."), shlex.quote("plugin ansible=" + PLUGIN), shlex.quote(holo))
        ours = Copy(folder, "holo", "rm -rf /etc/holo /etc/holorc.d /usr/share/holo; cp -a %s /; echo %s >/etc/holorc; %s apply --json" % words)
        results, ended = playbook_results(theirs.output)
        own, own_ended, errors = own_results(ours.output, originals)
        files, own_files = theirs.files(), ours.files()
    for side, copy in ((results, theirs), (own, ours)):
        if not side and originals:
            sys.stderr.write("!! cannot verify: %s\n" % (copy.errors.strip() or copy.output.strip()))
            return 1
    for error in errors:
        sys.stderr.write("!! %s\n" % error.strip())
    entities = {path: name for name, path in originals.items() if path}
    names, different, has_ended = [], [], False
    for path in dict.fromkeys(filter(None, originals.values())):
        result, own_result = results.get(path), own.get(path)
        # A task of an included file that was skipped has no result in the playbook. After a failure, there are no more results.
        is_missing = result is None and own_result in (None, "ok") or None in (result, own_result) and has_ended
        if not is_missing:
            names.append(path)
            if result != own_result:
                different.append(path)
        has_ended |= path in (ended, own_ended)
    for name in different:
        words = results.get(name, "not run"), own.get(name, "not run")
        print(">> %s (%s): %s in the playbook, %s here" % (entities[name], name, *words))
    paths = [path for path in sorted(set(files) | set(own_files)) if files.get(path) != own_files.get(path)]
    for path in paths:
        print(">> %s: %s" % (one_line(path), "only in the playbook" if path not in own_files else "only here" if path not in files else "differs"))
    print("%d of %d tasks and %d of %d files are equal%s" % (
        len(names) - len(different), len(names), len(set(files) | set(own_files)) - len(paths), len(set(files) | set(own_files)),
        ", and the playbook failed at: %s" % entities.get(ended, ended) if ended else ""))
    return 1 if different or paths or errors else 0


def main():
    parser = argparse.ArgumentParser(prog="holo-ansible import", description="Import a playbook or role of Ansible.")
    parser.add_argument("--python", default=sys.executable, help="a Python that can import Ansible (%(default)s)")
    parser.add_argument("source", metavar="PLAYBOOK|ROLE")
    parser.add_argument("--output", metavar="DIR", required=True)
    parser.add_argument("--verify", action="store_true", help="apply both to throw-away copies of this system, and compare them")
    arguments = parser.parse_args()
    try:
        importer = Importer(arguments.output)
        importer.collections = roots()
        if os.path.isdir(arguments.source):
            importer.gathers_facts = True
            importer.add_role(arguments.source, {"inherited": {}})
        else:
            importer.add_playbook(arguments.source)
        name = os.path.basename(os.path.abspath(arguments.source)).rpartition(".")[0] or os.path.basename(os.path.abspath(arguments.source))
        importer.finish(re.sub(r"[^A-Za-z0-9_-]+", "-", name))
    except (OSError, ImportError, KeyError, TypeError, AttributeError, Unsupported) as error:
        sys.stderr.write("!! cannot import %s: %s\n" % (arguments.source, error))
        return 1
    except Exception as error:
        if type(error).__module__.split(".")[0] != "yaml":
            raise
        sys.stderr.write("!! cannot import %s: %s\n" % (arguments.source, error))
        return 1
    done, left = importer.count[True], importer.count[False]
    print("%d tasks: %d imported, %d to do" % (done + left, done, left))
    if arguments.verify and os.geteuid() != 0:
        sys.stderr.write("!! cannot verify: only root can make copies of the system\n")
        return 1
    if arguments.verify:
        return verify(arguments.source, arguments.output, importer.originals, importer.left)
    return 3 if left else 0


sys.exit(main())
