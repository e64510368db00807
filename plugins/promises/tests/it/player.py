"""Plays a module's part of a recorded dialogue, and writes down what it is asked.

The argument is a file of JSON: a list of what the module said, the header first, then the answer to each request. An empty answer is where
the module has crashed.
"""

import json
import sys


def hear(heard):
    """Writes down a request. Returns false at the end of the input."""
    for line in iter(sys.stdin.readline, ""):
        heard.write(line)
        heard.flush()
        if line == "\n":
            return True
    return False


with open(sys.argv[1], encoding="utf-8") as file:
    answers = json.load(file)
with open(sys.argv[1] + ".heard", "a", encoding="utf-8") as heard:
    for answer in answers:
        if not hear(heard):
            break
        if not answer:
            sys.exit(3)
        sys.stdout.write(answer)
        sys.stdout.flush()
    while hear(heard):
        pass
