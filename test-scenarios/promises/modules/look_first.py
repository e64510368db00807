#!/usr/bin/env python3
"""Keeps the permissions of a file: a promise module that can look without changing anything.

The promiser is the file, the attribute "mode" its permissions in octal digits. With HOLO_ROOT_DIR set, the file is below that.
"""

import json
import os
import stat
import sys


def evaluate(request):
    """Returns the result and the logs."""
    attributes = request["attributes"]
    path = os.path.join(os.environ.get("HOLO_ROOT_DIR", "/"), request["promiser"].lstrip("/"))
    mode = int(attributes["mode"], 8)
    try:
        actual = stat.S_IMODE(os.stat(path).st_mode)
    except OSError as error:
        return "not_kept", [("error", f"Cannot look at '{request['promiser']}': {error.strerror}")]
    if actual == mode:
        return "kept", [("verbose", f"'{request['promiser']}' has mode {mode:o}")]
    change = f"mode of '{request['promiser']}' from {actual:o} to {mode:o}"
    if attributes.get("action_policy") in ("warn", "nop"):
        return "not_kept", [("warning", f"Should change {change}, but only warnings promised")]
    os.chmod(path, mode)
    return "repaired", [("info", f"Changed {change}")]


def validate(request):
    attributes = request.get("attributes", {})
    unknown = [name for name in attributes if name not in ("mode", "action_policy")]
    if unknown:
        return "invalid", [("error", f"Unknown attribute '{unknown[0]}'")]
    try:
        int(attributes["mode"], 8)
    except (KeyError, ValueError, TypeError):
        return "invalid", [("error", "Attribute 'mode' is not a number of octal digits")]
    return "valid", []


def main():
    if not sys.stdin.readline().startswith("cf-agent 3.") or sys.stdin.readline() != "\n":
        sys.exit("this is no agent")
    print("look_first 1.0.0 v1 json_based action_policy\n", flush=True)
    operations = {"validate_promise": validate, "evaluate_promise": evaluate}
    for line in iter(sys.stdin.readline, ""):
        if line == "\n":
            continue
        request = json.loads(line)
        operation = request["operation"]
        result, logs = operations.get(operation, lambda _: ("success", []))(request)
        said = {"operation": operation, "result": result}
        said["log"] = [{"level": level, "message": text} for level, text in logs]
        print(json.dumps(said) + "\n", flush=True)
        if operation == "terminate":
            return


if __name__ == "__main__":
    main()
