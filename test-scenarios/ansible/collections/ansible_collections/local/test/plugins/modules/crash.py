"""Ends in all the ways in which a module should not."""

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from ansible.module_utils.basic import AnsibleModule


def note(*pids):
    with open(os.path.join(os.environ["HOLO_ROOT_DIR"], "pids"), "w") as file:
        file.write(" ".join(str(pid) for pid in pids))


def leave():
    return subprocess.Popen(["sleep", "600"])


class Cycle:
    """Something that is only found to be garbage, with a file that ends with it."""

    def __init__(self):
        self.me = self
        self.file = tempfile.NamedTemporaryFile(dir=os.environ["HOLO_ROOT_DIR"] + "/work")


def tell(word):
    with open(os.environ["HOLO_ROOT_DIR"] + "/work/told", "a") as file:
        file.write(word + "\n")


def end_late():
    time.sleep(0.2)
    tell("thread")


def main():
    how = [
        "raise", "exit", "no answer", "fail quietly", "kill", "kill parent", "flood", "sleep", "deaf", "leave", "words",
        "change always", "write to parent", "end late", "not a number", "surrogate", "long answer", "long output",
        "object after answer", "hidden", "long failure", "long warning", "long error",
    ]
    module = AnsibleModule(
        argument_spec={
            "how": {"type": "str", "choices": how},
            "secret": {"type": "str"},
            "hidden": {"type": "str", "no_log": True},
            "password": {"type": "str", "no_log": False},
        },
        supports_check_mode=True,
    )
    how, secret = module.params["how"], module.params["secret"]
    if how == "raise":
        raise RuntimeError("broken: %s" % secret)
    if how == "exit":
        os._exit(7)
    if how == "no answer":
        print("words and no answer")
        sys.exit(0)
    if how == "fail quietly":
        print('{"failed": true}')
        sys.exit(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "kill parent":
        os.kill(os.getppid(), signal.SIGKILL)
        note(os.getpid())
        time.sleep(600)
    if how == "flood":
        while True:
            print("x" * 1024 * 1024)
    if how in ("sleep", "deaf"):
        if how == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note(os.getpid(), leave().pid)
        sys.stderr.write("sleeping\n")
        sys.stderr.flush()
        time.sleep(600)
    if how == "leave":
        note(leave().pid)
    if how == "words":
        print("words before the answer: %s" % secret)
        sys.stderr.write("words on standard error: %s\n" % secret)
        module.deprecate("%s is old" % secret, version="99.0.0", collection_name="local.test")
    if how == "change always":
        module.exit_json(changed=True, msg="once more")
    if how == "write to parent":
        # Everything beyond the three is closed, so nothing can be said in the name of the host.
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, b"{}\n")
            except OSError:
                continue
            module.fail_json(msg="descriptor %d is open" % descriptor)
    if how == "not a number":
        print('{"changed": true, "msg": "not a number", "ratio": NaN, "size": 1%s, "invocation": {}}' % ("0" * 400))
        sys.exit(0)
    if how == "surrogate":
        print('{"changed": true, "msg": "a lone \\udce9", "invocation": {}}')
        sys.exit(0)
    if how == "long answer":
        module.exit_json(changed=True, msg="long", all="x" * 3000000)
    if how == "long output":
        print("x" * 3000000)
        module.exit_json(changed=True, msg="done")
    if how == "long failure":
        module.fail_json(msg="x" * 3000000)
    if how == "long warning":
        module.exit_json(warnings=["x" * 3000000])
    if how == "long error":
        sys.stderr.write("shown\n" + "x" * 3000000 + "\nnot shown\n")
    if how == "object after answer":
        atexit.register(print, '{"failed": true}')
        module.exit_json(changed=True, msg="the answer")
    if how == "hidden":
        print("hidden: %s" % module.params["hidden"])
    if how == "end late":
        global cycle
        cycle = Cycle()
        threading.Thread(target=end_late).start()
        atexit.register(tell, "atexit")
        # What is left in a buffer is written, too.
        sys.stdout.write("in a buffer")
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
