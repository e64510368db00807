//! The container or virtual machine in which the system runs, with the names of `systemd-detect-virt(1)`.

use super::kernel::read;
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn facts() -> Value {
    let (kind, name) = match (container(), machine()) {
        (Some(name), _) => ("container", name),
        (None, Some(name)) => ("machine", name),
        (None, None) => ("none", "none".to_owned()),
    };
    json!({ "kind": kind, "name": name })
}

fn container() -> Option<String> {
    let is_there = |path: &str| Path::new(path).exists();
    // Container managers set this in the environment of the first process; systemd copies it to the file.
    let told =
        |text: &str| text.split(['\0', '\n']).find_map(|pair| pair.strip_prefix("container=").map(str::to_owned));
    let told = told(&read("/proc/1/environ")).or_else(|| Some(read("/run/systemd/container").trim().to_owned()));
    if let Some(name) = told.filter(|name| !name.is_empty()) {
        // Docker's tools and podman share this value.
        return Some(if name == "oci" && is_there("/.dockerenv") { "docker".to_owned() } else { name });
    }
    let release = read("/proc/sys/kernel/osrelease");
    if release.contains("Microsoft") || release.contains("WSL") {
        return Some("wsl".to_owned());
    }
    if is_there("/proc/vz") && !is_there("/proc/bc") {
        return Some("openvz".to_owned());
    }
    let marks = [("/run/.containerenv", "podman"), ("/.dockerenv", "docker")];
    let marked = marks.iter().find(|(path, _)| is_there(path)).map(|(_, name)| (*name).to_owned());
    marked.or_else(|| in_group(&read("/proc/1/cgroup")))
}

/// Returns the kind of container from the control group of its first process.
fn in_group(groups: &str) -> Option<String> {
    let parts = [("/docker", "docker"), ("/libpod", "podman"), ("/lxc", "lxc"), ("/kubepods", "docker")];
    parts.iter().find(|(part, _)| groups.contains(part)).map(|(_, name)| (*name).to_owned())
}

fn machine() -> Option<String> {
    let fields = ["product_name", "sys_vendor", "board_vendor", "bios_vendor"];
    let texts = fields.map(|field| read(&format!("/sys/class/dmi/id/{field}")));
    let named = by_names(&texts).map(str::to_owned);
    let by_hypervisor = || Some(read("/sys/hypervisor/type").trim().to_owned()).filter(|name| !name.is_empty());
    named.or_else(by_hypervisor).or_else(|| is_flagged(&read("/proc/cpuinfo")).then(|| "vm-other".to_owned()))
}

/// Prefixes of firmware strings of virtual machines; the first match is used.
const FIRMWARE: [(&str, &str); 17] = [
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("Amazon EC2", "amazon"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Oracle Corporation", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "microsoft"),
    ("Apple Virtualization", "apple"),
    ("Google Compute Engine", "google"),
];

fn by_names(texts: &[String; 4]) -> Option<&'static str> {
    let [product, vendor, ..] = texts.each_ref().map(|text| text.trim());
    if vendor == "Microsoft Corporation" && product == "Virtual Machine" {
        return Some("microsoft");
    }
    // Amazon's bare metal machines have this name.
    if vendor == "Amazon EC2" && product.ends_with(".metal") {
        return None;
    }
    texts.iter().find_map(|text| FIRMWARE.iter().find(|(name, _)| text.starts_with(name)).map(|(_, name)| *name))
}

/// Returns true if the processor reports a hypervisor.
fn is_flagged(information: &str) -> bool {
    let flags = information.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "hypervisor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_names_virtual_machines() {
        let by = |product: &str, vendor: &str| by_names(&[product, vendor, "", ""].map(str::to_owned));
        assert_eq!(by("Standard PC (Q35 + ICH9, 2009)\n", "QEMU\n"), Some("qemu"));
        assert_eq!(by("KVM\n", "Red Hat\n"), Some("kvm"));
        assert_eq!(by("Virtual Machine\n", "Microsoft Corporation\n"), Some("microsoft"));
        assert_eq!(by("Surface Pro\n", "Microsoft Corporation\n"), None);
        assert_eq!(by("m5.large\n", "Amazon EC2\n"), Some("amazon"));
        assert_eq!(by("m5.metal\n", "Amazon EC2\n"), None);
        assert_eq!(by("ThinkPad\n", "LENOVO\n"), None);
    }

    #[test]
    fn other_signs() {
        assert!(is_flagged("processor: 0\nflags\t\t: fpu hypervisor lahf\n"));
        assert!(!is_flagged("flags\t\t: fpu hypervisors\n"));
        assert_eq!(in_group("0::/docker/1234\n").as_deref(), Some("docker"));
        assert_eq!(in_group("0::/init.scope\n"), None);
    }
}
