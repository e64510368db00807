//! Network facts: interfaces with their addresses, and default routes.

use super::kernel::read;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::SockaddrIn;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of an interface.
#[derive(Debug, Default)]
struct Interface {
    mac: String,
    addresses: Vec<(IpAddr, u32)>,
}

/// A default route.
#[derive(Debug, PartialEq, Eq)]
struct DefaultRoute {
    metric: u32,
    interface: String,
    gateway: String,
}

pub(super) fn facts() -> Value {
    let interfaces = interfaces();
    let described: BTreeMap<_, _> = interfaces.iter().map(|(name, interface)| (name, describe(interface))).collect();
    let ipv4 = default_ipv4(&read("/proc/net/route"));
    let ipv6 = default_ipv6(&read("/proc/net/ipv6_route"));
    json!({
        "interfaces": described,
        "ipv4": way_out(ipv4, &interfaces, IpAddr::is_ipv4),
        "ipv6": way_out(ipv6, &interfaces, |address| matches!(address, IpAddr::V6(v6) if !v6.is_unicast_link_local())),
    })
}

fn interfaces() -> BTreeMap<String, Interface> {
    let mut interfaces: BTreeMap<String, Interface> = BTreeMap::new();
    for InterfaceAddress { interface_name, address, netmask, .. } in getifaddrs().into_iter().flatten() {
        let interface = interfaces.entry(interface_name).or_default();
        let Some(address) = address else { continue };
        let mask = netmask.as_ref();
        if let Some(v4) = address.as_sockaddr_in() {
            let mask = mask.and_then(|mask| mask.as_sockaddr_in()).map_or(Ipv4Addr::BROADCAST, SockaddrIn::ip);
            interface.addresses.push((v4.ip().into(), mask.to_bits().count_ones()));
        } else if let Some(v6) = address.as_sockaddr_in6() {
            let bits =
                mask.and_then(|mask| mask.as_sockaddr_in6()).map_or(128, |mask| mask.ip().to_bits().count_ones());
            interface.addresses.push((v6.ip().into(), bits));
        } else if let Some(link) = address.as_link_addr() {
            interface.mac = link.addr().filter(|mac| *mac != [0; 6]).map(|mac| colons(&mac)).unwrap_or_default();
        }
    }
    interfaces
}

fn colons(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let colon = if text.is_empty() { "" } else { ":" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{colon}{byte:02x}");
    }
    text
}

fn describe(interface: &Interface) -> Value {
    let of = |wanted: fn(&IpAddr) -> bool| -> Vec<String> {
        let addresses = interface.addresses.iter().filter(|(address, _)| wanted(address));
        addresses.map(|(address, bits)| format!("{address}/{bits}")).collect()
    };
    json!({ "mac": interface.mac, "ipv4": of(IpAddr::is_ipv4), "ipv6": of(IpAddr::is_ipv6) })
}

/// Returns the interface, gateway and source address of a default route.
fn way_out(
    route: Option<DefaultRoute>,
    interfaces: &BTreeMap<String, Interface>,
    wanted: fn(&IpAddr) -> bool,
) -> Value {
    let Some(route) = route else { return json!({ "interface": "", "gateway": "", "address": "" }) };
    let addresses = interfaces.get(&route.interface).map(|interface| &*interface.addresses).unwrap_or_default();
    let address = addresses.iter().find(|(address, _)| wanted(address)).map(|(address, _)| address.to_string());
    json!({ "interface": route.interface, "gateway": route.gateway, "address": address.unwrap_or_default() })
}

/// The flag of routes in use, in both tables.
const UP: u32 = 0x1;
/// The flag of unreachable routes.
const REJECT: u32 = 0x200;

/// Returns the best default route of `/proc/net/route`.
fn default_ipv4(table: &str) -> Option<DefaultRoute> {
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [interface, destination, gateway, flags, _, _, metric, mask, ..] = fields[..] else { return None };
        let hex = |field| u32::from_str_radix(field, 16).ok();
        // The kernel writes addresses as numbers in native byte order.
        let gateway = Ipv4Addr::from(hex(gateway)?.to_ne_bytes());
        let leads_everywhere = hex(destination)? == 0 && hex(mask)? == 0;
        (leads_everywhere && hex(flags)? & (UP | REJECT) == UP).then(|| DefaultRoute {
            metric: metric.parse().unwrap_or(u32::MAX),
            interface: interface.to_owned(),
            gateway: if gateway.is_unspecified() { String::new() } else { gateway.to_string() },
        })
    };
    best(table.lines().filter_map(route))
}

/// Returns the best default route of `/proc/net/ipv6_route`.
fn default_ipv6(table: &str) -> Option<DefaultRoute> {
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [destination, bits, _, _, gateway, metric, _, _, flags, interface] = fields[..] else { return None };
        let hex = |field| u32::from_str_radix(field, 16).ok();
        let address = |field| u128::from_str_radix(field, 16).map(Ipv6Addr::from_bits).ok();
        let gateway = address(gateway)?;
        let leads_everywhere = address(destination)?.is_unspecified() && hex(bits)? == 0;
        (leads_everywhere && hex(flags)? & (UP | REJECT) == UP && interface != "lo").then(|| DefaultRoute {
            metric: hex(metric).unwrap_or(u32::MAX),
            interface: interface.to_owned(),
            gateway: if gateway.is_unspecified() { String::new() } else { gateway.to_string() },
        })
    };
    best(table.lines().filter_map(route))
}

/// Returns the route with the lowest metric, or the first of several.
fn best(routes: impl Iterator<Item = DefaultRoute>) -> Option<DefaultRoute> {
    routes.min_by_key(|route| route.metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_best_way_out_by_ipv4() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t00000000\t010200C0\t0202\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let route = default_ipv4(table).unwrap();
        assert_eq!((&*route.interface, &*route.gateway), ("eth0", "192.0.2.1"));
        assert_eq!(default_ipv4(""), None);
        let direct = "ppp0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n";
        assert_eq!(default_ipv4(direct).unwrap().gateway, "");
    }

    #[test]
    fn the_best_way_out_by_ipv6() {
        let zero = "0".repeat(32);
        let table = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0
{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo
20010db8000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth0\n"
        );
        let route = default_ipv6(&table).unwrap();
        assert_eq!((&*route.interface, &*route.gateway, route.metric), ("eth0", "fe80::1", 1024));
        assert_eq!(default_ipv6(&table[table.find('\n').unwrap()..]), None);
    }

    #[test]
    fn the_own_address_is_one_that_others_can_reach() {
        let addresses = [("fe80::2", 64), ("192.0.2.7", 24), ("2001:db8::7", 64)];
        let addresses = addresses.map(|(address, bits)| (address.parse().unwrap(), bits)).to_vec();
        let interface = Interface { mac: String::new(), addresses };
        let described = describe(&interface);
        assert_eq!(described["ipv4"], json!(["192.0.2.7/24"]));
        assert_eq!(described["ipv6"], json!(["fe80::2/64", "2001:db8::7/64"]));
        let interfaces = BTreeMap::from([("eth0".to_owned(), interface)]);
        let route = || Some(DefaultRoute { metric: 0, interface: "eth0".to_owned(), gateway: String::new() });
        assert_eq!(way_out(route(), &interfaces, IpAddr::is_ipv4)["address"], "192.0.2.7");
        assert_eq!(way_out(None, &interfaces, IpAddr::is_ipv4)["address"], "");
        assert_eq!(colons(&[2, 0, 255, 16, 0, 1]), "02:00:ff:10:00:01");
    }
}
