//! A server's address.

use http::Uri;

use crate::error::WorkerError;

/// Where a server listens, from `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
    /// Before every path; for servers behind a proxy.
    base: String,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, WorkerError> {
        let bad = |why: &str| WorkerError::BadAddress { address: text.to_owned(), why: why.to_owned() };
        let uri: Uri = text.trim().parse().map_err(|_| bad("it is not a URL; write http://host:port"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(bad("this version has no TLS yet; use http:// on a network you trust")),
            _ => return Err(bad("it must begin with http://")),
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("it names no host"))?;
        Ok(Address {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(80),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// For connecting: brackets around IPv6 belong to the URL, not to the address.
    pub(crate) fn target(&self) -> (&str, u16) {
        (self.host.trim_start_matches('[').trim_end_matches(']'), self.port)
    }

    /// For the `Host` header.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "http://{}{}", self.authority(), self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused_with_a_reason() {
        let good = [
            ("http://127.0.0.1:7411", "http://127.0.0.1:7411"),
            ("http://host", "http://host:80"),
            ("http://[::1]:7411/", "http://[::1]:7411"),
            ("http://proxy:1/bowline/", "http://proxy:1/bowline"),
        ];
        for (text, expected) in good {
            assert_eq!(Address::parse(text).expect(text).to_string(), expected);
        }
        let bad = [("https://x", "TLS"), ("x:1", "http://"), ("", "URL"), ("ftp://x", "http://"), ("/path", "http://")];
        for (text, expected) in bad {
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert_eq!(Address::parse("http://[::1]:2").expect("good").target(), ("::1", 2));
    }
}
