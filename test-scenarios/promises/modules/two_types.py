#!/usr/bin/env python3
"""One module for two types: "upper" and "lower" keep the text of a file in capital or small letters.

It says with each change which process it is, so that it shows that there is one for both types.
"""

import json
import os
import sys

CHANGES = {"upper": str.upper, "lower": str.lower}


def evaluate(request):
    path = os.path.join(os.environ.get("HOLO_ROOT_DIR", "/"), request["promiser"].lstrip("/"))
    with open(path, encoding="utf-8") as file:
        text = file.read()
    changed = CHANGES[request["promise_type"]](text)
    if changed == text:
        return "kept"
    with open(path, "w", encoding="utf-8") as file:
        file.write(changed)
    print(f"log_info=Changed '{request['promiser']}' as {request['promise_type']} in process {os.getpid()}")
    return "repaired"


def main():
    sys.stdin.readline()
    sys.stdin.readline()
    print("two_types 1.0.0 v1 json_based\n", flush=True)
    for line in iter(sys.stdin.readline, ""):
        if line == "\n":
            continue
        request = json.loads(line)
        operation = request["operation"]
        result = {"validate_promise": "valid", "terminate": "success"}.get(operation) or evaluate(request)
        print(json.dumps({"operation": operation, "result": result}) + "\n", flush=True)
        if operation == "terminate":
            return


if __name__ == "__main__":
    main()
