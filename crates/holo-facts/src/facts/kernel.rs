//! Facts from the running kernel: the kernel itself, processors, memory and mounts, and the container or virtual machine in which it runs,
//! with the names of `systemd-detect-virt`.

use serde_json::{Map, Value, json};
use std::path::Path;

pub(super) fn add(facts: &mut Map<String, Value>) {
    let name = rustix::system::uname();
    let text = |text: &std::ffi::CStr| Value::from(text.to_string_lossy().into_owned());
    facts.insert("architecture".to_owned(), text(name.machine()));
    facts.insert(
        "kernel".to_owned(),
        json!({ "name": text(name.sysname()), "release": text(name.release()), "version": text(name.version()) }),
    );
    let information = read("/proc/cpuinfo");
    let count = cpus(&read("/sys/devices/system/cpu/online")).unwrap_or_else(|| cpus_listed(&information));
    facts.insert("processors".to_owned(), json!({ "count": count, "model": model(&information) }));
    let memory = read("/proc/meminfo");
    facts.insert("memory".to_owned(), json!({ "total": bytes(&memory, "MemTotal") }));
    facts.insert("swap".to_owned(), json!({ "total": bytes(&memory, "SwapTotal") }));
    facts.insert("mounts".to_owned(), mounts(&read("/proc/self/mounts")));
}

/// Returns the content of a kernel file; empty if it cannot be read.
pub(super) fn read(path: &str) -> String {
    std::fs::read(path).map(|content| String::from_utf8_lossy(&content).into_owned()).unwrap_or_default()
}

/// Returns the number of CPUs in a list of ranges, such as `0-3,8`.
fn cpus(ranges: &str) -> Option<u64> {
    let count = |range: &str| -> Option<u64> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    ranges.trim().split(',').map(count).try_fold(0_u64, |sum, count| sum.checked_add(count?))
}

fn cpus_listed(information: &str) -> u64 {
    information.lines().filter(|line| line.starts_with("processor")).count() as u64
}

fn model(information: &str) -> String {
    // `model name` is `Model` on ARM and `uarch` on RISC-V.
    let of = |key: &str| {
        let pairs = information.lines().filter_map(|line| line.split_once(':'));
        pairs.into_iter().find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    ["model name", "Model", "uarch"].iter().find_map(|key| of(key)).unwrap_or_default()
}

/// Returns the value of a line of `/proc/meminfo` in bytes.
fn bytes(memory: &str, key: &str) -> u64 {
    let line = memory.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kilobytes.unwrap_or(0_u64).saturating_mul(1024)
}

fn mounts(table: &str) -> Value {
    let mount = |line: &str| {
        let mut fields = line.split(' ').map(unescape);
        let (source, path, kind, options) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let options: Vec<&str> = options.split(',').collect();
        Some(json!({ "source": source, "path": path, "type": kind, "options": options }))
    };
    table.lines().filter_map(mount).collect()
}

/// Decodes blanks and backslashes, which the kernel writes as three octal digits.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let escape = part.split_at_checked(3);
        match escape.and_then(|(digits, rest)| Some((u8::from_str_radix(digits, 8).ok()?, rest))) {
            Some((byte, rest)) => bytes.extend([&[byte], rest.as_bytes()].concat()),
            None => bytes.extend([b"\\", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

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
    fn processors_are_counted() {
        assert_eq!(cpus("0-3,8\n"), Some(5));
        assert_eq!(cpus("0\n"), Some(1));
        assert_eq!(cpus(""), None);
        assert_eq!(cpus("3-0"), None);
        assert_eq!(cpus("0-18446744073709551615"), None);
        let information = "processor\t: 0\nmodel name\t: Some CPU @ 3\n\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(cpus_listed(information), 2);
        assert_eq!(model(information), "Some CPU @ 3");
        assert_eq!(model("processor\t: 0\nmodel\t\t: 1\nModel\t\t: Raspberry\n"), "Raspberry");
    }

    #[test]
    fn memory_is_in_bytes() {
        let memory = "MemTotal:        8000 kB\nMemFree: 1 kB\nSwapTotal:  0 kB\n";
        assert_eq!((bytes(memory, "MemTotal"), bytes(memory, "SwapTotal"), bytes(memory, "Mem")), (8_192_000, 0, 0));
        assert_eq!(bytes("MemTotal: 99999999999999999 kB", "MemTotal"), u64::MAX);
    }

    #[test]
    fn mounts_have_their_real_names() {
        let table = "/dev/sda1 / ext4 rw,noatime 0 0\n//host/a\\040b /mnt/a\\040\\134b cifs ro 0 0\nodd\n";
        assert_eq!(
            mounts(table),
            json!([
                { "source": "/dev/sda1", "path": "/", "type": "ext4", "options": ["rw", "noatime"] },
                { "source": "//host/a b", "path": "/mnt/a \\b", "type": "cifs", "options": ["ro"] },
            ])
        );
        assert_eq!(unescape("a\\9\\é\\"), "a\\9\\é\\");
    }

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
