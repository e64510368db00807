//! Proxies configured by environment variables.

use crate::address::{Address, Credentials};
use std::net::IpAddr;
use std::sync::OnceLock;
use ureq::Proxy;
use ureq::http::Uri;
use url::{Host, Url};

/// The reason why a proxy cannot be used. The message does not show the proxy's URL, which may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the proxy that {0} names is not a URL such as \"http://proxy.example.org:3128\"")]
pub struct ProxyError(&'static str);

/// The default port of a proxy.
const HTTP_PORT: u16 = 80;

/// The route to a server.
pub(super) enum Route {
    Direct,
    /// Through a tunnel of the proxy.
    Tunnel(Proxy),
    /// By sending the absolute URL to the proxy.
    Forward {
        proxy: Uri,
        credentials: Option<Credentials>,
    },
}

/// The proxies for each scheme, with the names of their variables.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    http: Option<(&'static str, String)>,
    https: Option<(&'static str, String)>,
    exceptions: Vec<Exception>,
}

/// Servers that are contacted without a proxy.
#[derive(Debug, PartialEq, Eq)]
enum Exception {
    All,
    /// A host, and all subdomains of it.
    Domain(String, Option<u16>),
    /// Addresses with this prefix.
    Network(IpAddr, u32),
}

impl Proxies {
    /// Returns the proxies in this process's environment.
    pub(super) fn of_environment() -> &'static Proxies {
        static PROXIES: OnceLock<Proxies> = OnceLock::new();
        PROXIES.get_or_init(|| Proxies::new(|name| std::env::var(name).ok()))
    }

    fn new(variable: impl Fn(&'static str) -> Option<String>) -> Proxies {
        let first = |names: &[&'static str]| {
            let mut values = names.iter().filter_map(|name| Some((*name, variable(name)?.trim().to_owned())));
            values.find(|(_, value)| !value.is_empty())
        };
        let exceptions = first(&["no_proxy", "NO_PROXY"]).map(|(_, value)| value).unwrap_or_default();
        Proxies {
            http: first(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]),
            https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            exceptions: exceptions.split([',', ' ']).filter_map(Exception::parse).collect(),
        }
    }

    /// Returns the route to the server of an address.
    ///
    /// # Errors
    /// If the proxy's URL is invalid.
    pub(super) fn route(&self, address: &Address) -> Result<Route, ProxyError> {
        let url = address.bare();
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        let Some((variable, proxy)) = proxy else { return Ok(Route::Direct) };
        if self.exceptions.iter().any(|exception| exception.is_for(&url)) {
            return Ok(Route::Direct);
        }
        let text = if proxy.contains("://") { proxy.clone() } else { format!("http://{proxy}") };
        let invalid = || ProxyError(variable);
        let parsed = Url::parse(&text).ok().filter(|proxy| proxy.host_str().is_some_and(|host| !host.is_empty()));
        let parsed = parsed.ok_or_else(invalid)?;
        // Proxies of other kinds only support tunnels.
        if url.scheme() == "http" && parsed.scheme() == "http" {
            let (host, port) = (parsed.host_str().unwrap_or_default(), parsed.port().unwrap_or(HTTP_PORT));
            let proxy = format!("http://{host}:{port}/").parse().map_err(|_| invalid())?;
            return Ok(Route::Forward { proxy, credentials: Credentials::of(&parsed) });
        }
        Proxy::new(&text).map(Route::Tunnel).map_err(|_| invalid())
    }
}

impl Exception {
    fn parse(text: &str) -> Option<Exception> {
        let text = text.trim();
        if text == "*" {
            return Some(Exception::All);
        }
        let address = |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        if let Some(address) = address(text) {
            return Some(Exception::Network(address, 128));
        }
        if let Some((network, bits)) = text.split_once('/') {
            return Some(Exception::Network(address(network)?, bits.parse().ok()?));
        }
        let (name, port) = match text.rsplit_once(':').map(|(name, port)| (name, port.parse())) {
            Some((name, Ok(port))) => (name, Some(port)),
            _ => (text, None),
        };
        let name = name.trim_start_matches('*').trim_start_matches('.').to_ascii_lowercase();
        (!name.is_empty()).then_some(Exception::Domain(name, port))
    }

    fn is_for(&self, url: &Url) -> bool {
        match (self, url.host()) {
            (Exception::All, _) => true,
            (Exception::Network(network, bits), Some(Host::Ipv4(host))) => is_in(host.into(), *network, *bits),
            (Exception::Network(network, bits), Some(Host::Ipv6(host))) => is_in(host.into(), *network, *bits),
            (Exception::Domain(name, port), Some(host)) => {
                let host = host.to_string().to_ascii_lowercase();
                let is_name =
                    host.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
                is_name && port.is_none_or(|port| url.port_or_known_default() == Some(port))
            }
            (_, _) => false,
        }
    }
}

/// Returns true if an address belongs to a network.
fn is_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let same = |differing_bits: u32| differing_bits >= bits;
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let equal = (one.to_bits() ^ other.to_bits()).leading_zeros();
            same(equal) || equal == u32::BITS
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => same((one.to_bits() ^ other.to_bits()).leading_zeros()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(variables: &[(&'static str, &str)], url: &str) -> String {
        let find = |name| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        match Proxies::new(find).route(&url.parse().unwrap()) {
            Ok(Route::Direct) => "direct".to_owned(),
            Ok(Route::Tunnel(proxy)) => format!("tunnel {}:{}", proxy.host(), proxy.port()),
            Ok(Route::Forward { proxy, credentials }) => {
                let user = credentials.map(|credentials| format!(" {}", credentials.username)).unwrap_or_default();
                format!("forward {}:{}{user}", proxy.host().unwrap(), proxy.port_u16().unwrap())
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn each_scheme_has_its_proxy() {
        let all = [("http_proxy", "http://fred:x@a:3128"), ("https_proxy", "b:8080"), ("ALL_PROXY", "http://c:1")];
        assert_eq!(route(&all, "http://host/x"), "forward a:3128 fred");
        assert_eq!(route(&all, "https://host/x"), "tunnel b:8080");
        assert_eq!(route(&all[2..], "http://host/x"), "forward c:1");
        assert_eq!(route(&[], "http://host/x"), "direct");
        assert_eq!(route(&[("HTTPS_PROXY", "")], "https://host/x"), "direct");
        let wrong = route(&[("https_proxy", "http://fred:secret@")], "https://host/x");
        assert!(wrong.starts_with("the proxy that https_proxy names") && !wrong.contains("secret"), "{wrong}");
    }

    #[test]
    fn exceptions_are_names_addresses_and_networks() {
        let is_direct =
            |exceptions: &str, url: &str| route(&[("all_proxy", "p:1"), ("no_proxy", exceptions)], url) == "direct";
        for (exceptions, url) in [
            ("*", "http://a/x"),
            ("example.org", "http://example.org/x"),
            ("example.org", "https://www.EXAMPLE.org/x"),
            (".example.org", "http://www.example.org/x"),
            ("*.example.org", "http://www.example.org/x"),
            ("a, b c", "http://c/x"),
            ("a:8080", "http://a:8080/x"),
            ("a:80", "http://a/x"),
            ("10.1.2.3", "http://10.1.2.3/x"),
            ("10.0.0.0/8", "http://10.9.8.7:8080/x"),
            ("192.168.16.0/20", "https://192.168.31.255/x"),
            ("0.0.0.0/0", "http://1.2.3.4/x"),
            ("fd00::/8", "http://[fd12::1]/x"),
            ("[::1]", "http://[::1]:80/x"),
        ] {
            assert!(is_direct(exceptions, url), "{exceptions} {url}");
        }
        for (exceptions, url) in [
            ("", "http://a/x"),
            ("example.org", "http://notexample.org/x"),
            ("a:8080", "http://a/x"),
            ("10.0.0.0/8", "http://11.0.0.1/x"),
            ("192.168.16.0/20", "http://192.168.32.0/x"),
            ("10.1.2.3", "http://10.1.2.4/x"),
            ("10.0.0.0/8", "http://host/x"),
            ("fd00::/8", "http://[fe80::1]/x"),
            ("10.0.0.0/x", "http://10.0.0.1/x"),
        ] {
            assert!(!is_direct(exceptions, url), "{exceptions} {url}");
        }
    }
}
