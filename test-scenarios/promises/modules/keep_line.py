#!/usr/bin/env python3
"""Keeps a line in a file, or keeps it out: a promise module of the JSON-based protocol.

The promiser is the file, which is made if it does not exist. Attributes are "line", and "absent" if the line is not to be there. With
HOLO_ROOT_DIR set, the file is below that.
"""

import json
import os
import sys

CLASSES = {"present": "line_added", "absent": "line_removed"}


class Invalid(Exception):
    """What is promised cannot be kept."""


class Failed(Exception):
    """What is promised was not kept."""


def log(level, text):
    """Says something before the answer."""
    text = text.replace("\n", "\\n")
    sys.stdout.write(f"log_{level}={text}\n")
    sys.stdout.flush()


def truth(text):
    """All that comes are texts."""
    if text in ("true", "yes"):
        return True
    if text in ("false", "no"):
        return False
    raise Invalid(f"Attribute 'absent' is neither 'true' nor 'false': '{text}'")


def wanted(request):
    """Returns the file, the line, and whether it is to be there."""
    attributes = dict(request.get("attributes", {}))
    for name in attributes:
        if name not in ("line", "absent"):
            raise Invalid(f"Unknown attribute '{name}'")
    line = attributes.get("line")
    if not isinstance(line, str):
        raise Invalid("Attribute 'line' is missing" if line is None else "Attribute 'line' is not a string")
    if "\n" in line:
        raise Invalid("Attribute 'line' has a newline")
    promiser = request["promiser"]
    if not promiser.startswith("/"):
        raise Invalid(f"File path '{promiser}' must be absolute")
    path = os.path.join(os.environ.get("HOLO_ROOT_DIR", "/"), promiser.lstrip("/"))
    return path, line, not truth(attributes.get("absent", "false"))


def keep(request):
    """Returns the result, its classes, and what was done."""
    path, line, present = wanted(request)
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        lines = []
    except OSError as error:
        raise Failed(f"Cannot read '{request['promiser']}': {error.strerror}") from error
    log("verbose", f"File '{request['promiser']}' has {len(lines)} lines")
    if (line in lines) == present:
        return "kept", [], []
    if present:
        lines.append(line)
        done = f"Added line to '{request['promiser']}'"
    else:
        lines = [other for other in lines if other != line]
        done = f"Removed line from '{request['promiser']}'"
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(other + "\n" for other in lines)
    except OSError as error:
        raise Failed(f"Cannot write '{request['promiser']}': {error.strerror}") from error
    name = os.path.basename(path)
    return "repaired", [f"{name}_{CLASSES['present' if present else 'absent']}"], [done]


def answer(request):
    """Returns the answer to a request."""
    operation = request["operation"]
    said = {"operation": operation}
    if operation == "terminate":
        said["result"] = "success"
        return said
    said["promiser"] = request["promiser"]
    said["attributes"] = request.get("attributes", {})
    try:
        if operation == "validate_promise":
            wanted(request)
            said["result"] = "valid"
        else:
            said["result"], classes, done = keep(request)
            if classes:
                said["result_classes"] = classes
            if done:
                said["log"] = [{"level": "info", "message": text} for text in done]
    except Invalid as error:
        place = f"{request.get('filename')}:{request.get('line_number')}"
        log("error", f"{error} ({place})")
        said["result"] = "invalid"
    except Failed as error:
        log("error", str(error))
        said["result"] = "not_kept"
    return said


def read():
    """Returns the lines up to an empty one, or nothing at the end of the input."""
    lines = []
    for line in sys.stdin:
        if line == "\n":
            return lines
        lines.append(line.rstrip("\n"))
    return None


def main():
    greeting = (read() or [""])[0].split(" ")
    if len(greeting) < 3 or greeting[0] != "cf-agent" or not greeting[1].startswith("3.") or greeting[2] != "v1":
        log("critical", f"Cannot talk with '{' '.join(greeting)}'")
        sys.exit(1)
    sys.stdout.write("keep_line 1.0.0 v1 json_based\n\n")
    sys.stdout.flush()
    while True:
        lines = read()
        if lines is None:
            return
        request = json.loads(lines[0])
        sys.stdout.write(json.dumps(answer(request)) + "\n\n")
        sys.stdout.flush()
        if request["operation"] == "terminate":
            return


if __name__ == "__main__":
    main()
