"""Has an action plugin as well."""

from ansible.module_utils.basic import AnsibleModule


def main():
    AnsibleModule(argument_spec={}, supports_check_mode=True).exit_json(changed=False)


if __name__ == "__main__":
    main()
