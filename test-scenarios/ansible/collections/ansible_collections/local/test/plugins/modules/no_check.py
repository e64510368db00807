"""Adds a line to a file below $HOLO_ROOT_DIR whenever it is run, and knows no check mode."""

import os

from ansible.module_utils.basic import AnsibleModule


def main():
    module = AnsibleModule(argument_spec={"path": {"type": "str", "required": True}, "line": {"type": "str"}})
    line = module.params["line"]
    if line is None:
        names = ("HOLO_REFRESH", "HOLO_RECEIVED", "HOLO_CACHE_DIR", "HOLO_API_VERSION")
        line = " ".join("%s=%r" % (name, os.environ.get(name)) for name in names)
    with open(os.environ["HOLO_ROOT_DIR"].rstrip("/") + module.params["path"], "a") as file:
        file.write(line + "\n")
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
