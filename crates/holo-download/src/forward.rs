//! Requests forwarded by a proxy: they are sent to the proxy, with the absolute URL in the request line.

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, TcpConnector, Transport};
use ureq::{Agent, Error};

/// Returns a client that sends its requests to a proxy.
pub(super) fn agent(config: Config, proxy: Uri) -> Agent {
    let resolver = ProxyResolver { proxy, resolver: DefaultResolver::default() };
    Agent::with_parts(config, TcpConnector::default().chain(AbsoluteForm), resolver)
}

/// Resolves every name to the address of the proxy, as the server's name may be unknown on this machine.
#[derive(Debug)]
struct ProxyResolver {
    proxy: Uri,
    resolver: DefaultResolver,
}

impl Resolver for ProxyResolver {
    fn resolve(&self, _: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        self.resolver.resolve(&self.proxy, config, timeout)
    }
}

/// Makes the request line contain the absolute URL.
#[derive(Debug)]
struct AbsoluteForm;

impl<In: Transport> Connector<In> for AbsoluteForm {
    type Out = Forwarded<In>;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Forwarded<In>>, Error> {
        let authority = details.uri.authority().map(ToString::to_string).unwrap_or_default();
        Ok(chained.map(|transport| Forwarded { transport, origin: Some(format!("http://{authority}")) }))
    }
}

/// A connection to a proxy.
#[derive(Debug)]
struct Forwarded<T> {
    transport: T,
    /// The start of the URL, until it has been sent.
    origin: Option<String>,
}

impl<T: Transport> Transport for Forwarded<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let Some(origin) = self.origin.take() else { return self.transport.transmit_output(amount, timeout) };
        let output = self.transport.buffers().output();
        // The first output is the request line: `GET /path HTTP/1.1`.
        let path = output.iter().position(|&byte| byte == b' ').map_or(0, |space| space + 1);
        let sent = amount + origin.len();
        if sent > output.len() || path > amount {
            return Err(Error::Other("the URL is too long for a proxy".into()));
        }
        output.copy_within(path..amount, path + origin.len());
        if let Some(space) = output.get_mut(path..path + origin.len()) {
            space.copy_from_slice(origin.as_bytes());
        }
        self.transport.transmit_output(sent, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.transport.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }
}
