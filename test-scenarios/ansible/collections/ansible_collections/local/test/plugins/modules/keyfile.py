"""Keeps a line KEY=VALUE in a file below $HOLO_ROOT_DIR."""

import os

from ansible.module_utils.basic import AnsibleModule


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "str", "required": True},
            "key": {"type": "str", "required": True},
            "value": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "warning": {"type": "str"},
        },
        required_if=[("state", "present", ["value"])],
        supports_check_mode=True,
    )
    key, value = module.params["key"], module.params["value"]
    path = os.environ["HOLO_ROOT_DIR"].rstrip("/") + module.params["path"]
    before = ""
    if os.path.exists(path):
        with open(path) as file:
            before = file.read()
    lines = before.splitlines(True)
    wanted = ["%s=%s\n" % (key, value)] if module.params["state"] == "present" else []
    kept = [line for line in lines if not line.startswith(key + "=")]
    same = [line for line in lines if line.startswith(key + "=")] == wanted
    after = before if same else "".join(kept + wanted)
    if after != before and not module.check_mode:
        with open(path, "w") as file:
            file.write(after)
    if module.params["warning"]:
        module.warn(module.params["warning"])
    result = {"changed": after != before, "path": module.params["path"], "value": value, "lines": after.splitlines()}
    if result["changed"]:
        result["msg"] = "%s is %s" % (key, value) if wanted else "%s is gone" % key
        result["diff"] = {"before": before, "after": after}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
