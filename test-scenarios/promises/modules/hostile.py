#!/usr/bin/env python3
"""Breaks the protocol in the way that its argument names, or the name of a file that its argument is the path of.

What the promiser says decides too: "good" is always answered as it should be, so that it shows what becomes of the promises after one that
was not.
"""

import json
import os
import signal
import subprocess
import sys
import time

MODE = os.path.basename(sys.argv[1])
HEADERS = {
    "no-header": "hello\n\n",
    "no-flags": "hostile 1.0.0 v1\n\n",
    "odd-flags": "hostile 1.0.0 v1 odd\n\n",
    "version-9": "hostile 1.0.0 v9 json_based\n\n",
    "both-flags": "hostile 1.0.0 v1 line_based json_based\n\n",
    "no-empty-line": "hostile 1.0.0 v1 json_based\nlog_info=hello\n",
    "text-before-header": "Welcome!\nhostile 1.0.0 v1 json_based\n\n",
}


def write(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def read():
    """Returns the request, or nothing at the end of the input."""
    for line in iter(sys.stdin.readline, ""):
        if line != "\n":
            return json.loads(line)
    return None


def reply(operation, result, **more):
    write(json.dumps({"operation": operation, "result": result, **more}) + "\n\n")


def flood():
    for number in range(30000):
        sys.stderr.write(f"flood {number} of what nobody wants to read\n")
    sys.stderr.flush()


def evaluate(request):
    """Answers a request to evaluate as the mode wants it. The result is returned if it is answered as it should be."""
    operation = request["operation"]
    good = json.dumps({"operation": operation, "result": "kept"})
    if MODE == "wrong-operation":
        reply("banana", "kept")
    elif MODE == "two-objects":
        write(json.dumps({"operation": operation, "result": "not_kept"}) + "\n" + good + "\n\n")
    elif MODE == "broken-json":
        write('{"operation": oops}\n\n')
    elif MODE == "broken-json-no-end":
        write('{"operation": oops}\n')
    elif MODE == "log-only":
        write("log_info=nothing but this\n\n")
    elif MODE == "no-result":
        write(json.dumps({"operation": operation}) + "\n\n")
    elif MODE == "odd-result":
        reply(operation, "success")
    elif MODE == "error-result":
        write("log_critical=there is a bug\n")
        reply(operation, "error")
    elif MODE == "unknown-level":
        write("log_banana=what is this\n" + good + "\n\n")
    elif MODE == "long-line":
        write("log_info=" + "x" * (2 << 20) + "\n" + good + "\n\n")
    elif MODE == "long-answer":
        for _ in range(20):
            write("log_verbose=" + "x" * ((1 << 20) - 100) + "\n")
        write(good + "\n\n")
    elif MODE == "called-program":
        write("Files a and b differ\n")
        reply(operation, "repaired")
    elif MODE == "crash-evaluate":
        sys.stderr.write("Traceback: something is wrong\n")
        sys.stderr.flush()
        os._exit(3)
    elif MODE == "half-answer":
        write('{"operation": "evaluate_promise"')
        os._exit(0)
    elif MODE == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif MODE == "silence":
        time.sleep(600)
    elif MODE == "ignores-sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    elif MODE == "flood":
        flood()
        reply(operation, "kept")
    elif MODE == "leaves-child":
        subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
        write(good + "\n\n")
        os._exit(0)
    elif MODE == "not-kept":
        reply(operation, "not_kept")
    elif MODE == "repaired-no-log":
        reply(operation, "repaired")
    elif MODE == "closes-stdout":
        os.close(1)
        time.sleep(600)
    else:
        return "kept"
    return None


def validate(request):
    operation = request["operation"]
    if MODE == "crash-validate":
        os._exit(4)
    if MODE == "silent-validate":
        time.sleep(600)
    if MODE == "invalid-no-log":
        reply(operation, "invalid")
    elif MODE == "validate-kept":
        reply(operation, "kept")
    elif MODE == "validate-classes":
        reply(operation, "valid", result_classes=["early"])
    elif MODE == "validate-no-json":
        write("log_info=only a log line\n\n")
    else:
        return "valid"
    return None


def main():
    if MODE == "answers-before-reading":
        write("hostile 1.0.0 v1 json_based\n\n")
        flood()
        for _ in range(2):
            reply("validate_promise", "valid")
            reply("evaluate_promise", "kept")
        sys.stdin.read()
        return
    greeting = sys.stdin.readline() + sys.stdin.readline()
    if MODE == "silent-header":
        time.sleep(600)
    if MODE == "exits-at-once":
        sys.exit(1)
    write(HEADERS.get(MODE, "hostile 1.0.0 v1 json_based\n\n"))
    assert greeting.startswith("cf-agent 3."), greeting
    while True:
        request = read()
        if request is None:
            return
        operation = request["operation"]
        if operation == "terminate":
            if MODE == "crash-terminate":
                os._exit(5)
            reply(operation, "success")
            if MODE == "stays":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
            return
        is_good = request["promiser"] == "good"
        answer = validate if operation == "validate_promise" else evaluate
        result = ("valid" if answer is validate else "kept") if is_good else answer(request)
        if result:
            reply(operation, result)
        if MODE == "exit-after-each-answer":
            os._exit(0)
        if MODE == "fails-after-each-answer":
            os._exit(7)


if __name__ == "__main__":
    main()
