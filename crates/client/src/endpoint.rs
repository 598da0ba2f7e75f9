//! Where a server is.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::Scheme;

/// A server's address, such as `http://127.0.0.1:7411`. A path before `/api` is allowed, for proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    /// Without a slash at its end.
    base: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    #[error("`{0}` is not a server's address; write it like `http://127.0.0.1:7411`")]
    NotAnAddress(String),
    #[error("`{0}` asks for TLS, which is not supported yet; use http:// on a network that you trust")]
    Tls(String),
}

impl Endpoint {
    /// For opening a connection: a name, or an address without brackets.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// What the `Host` header says.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub(crate) fn path(&self, path_and_query: &str) -> String {
        format!("{}{path_and_query}", self.base)
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Endpoint, BadEndpoint> {
        let bad = || BadEndpoint::NotAnAddress(text.to_owned());
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = whole.parse().map_err(|_| bad())?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => {}
            Some(scheme) if *scheme == Scheme::HTTPS => return Err(BadEndpoint::Tls(text.to_owned())),
            Some(_) | None => return Err(bad()),
        }
        let authority = uri.authority().ok_or_else(bad)?;
        let odd = authority.as_str().contains('@') || authority.as_str().ends_with(':') || authority.host().is_empty();
        if odd || uri.query().is_some() {
            return Err(bad());
        }
        Ok(Endpoint {
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(80),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, ()>) {
        let found = text.parse::<Endpoint>().map(|e| e.to_string());
        assert_eq!(found.as_deref().map_err(|_| ()), expected, "{text}");
    }

    #[test]
    fn addresses() {
        check("http://127.0.0.1:7411", Ok("http://127.0.0.1:7411"));
        check("http://127.0.0.1:7411/", Ok("http://127.0.0.1:7411"));
        check("build.example:7411", Ok("http://build.example:7411"));
        check("http://[::1]:7411/bowline/", Ok("http://[::1]:7411/bowline"));
        check("http://example.com", Ok("http://example.com:80"));
        check("https://example.com", Err(()));
        check("ftp://example.com", Err(()));
        check("http://", Err(()));
        check("http://127.0.0.1:", Err(()));
        check("", Err(()));
        check("http://user:secret@example.com", Err(()));
        check("http://example.com?x=1", Err(()));
    }

    #[test]
    fn loopback() {
        for (text, loopback) in [("localhost:1", true), ("[::1]:1", true), ("127.9.9.9:1", true), ("10.0.0.1:1", false)]
        {
            assert_eq!(text.parse::<Endpoint>().expect(text).is_loopback(), loopback, "{text}");
        }
    }
}
