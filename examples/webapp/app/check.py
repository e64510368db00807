"""Tells by its exit status whether the application answers with its version: 0 is well, 2 is not."""
import pathlib
import sys
import urllib.request

settings = dict(line.split(" = ", 1) for line in pathlib.Path(sys.argv[1]).read_text().splitlines())
version = pathlib.Path(__file__).with_name("VERSION").read_text().strip()
try:
    answer = urllib.request.urlopen(f"http://127.0.0.1:{settings['port']}/", timeout=5).read().decode().strip()
except OSError as error:
    answer = str(error)
print(answer)
sys.exit(0 if answer.endswith(f"version {version}") else 2)
