//! URLs of repositories, which may contain a user and a password.

/// The replacement for secrets.
const HIDDEN: &str = "***";

/// A URL, split into its public and secret parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The URL without user and password.
    pub(crate) plain: String,
    /// The host name, or an empty string for a local directory.
    pub(crate) host: String,
    /// The user and the password, percent-decoded.
    pub(crate) login: Option<(String, String)>,
}

impl Address {
    pub(crate) fn new(uri: &str) -> Address {
        let Some((scheme, rest)) = uri.split_once("://") else {
            return Address { plain: uri.to_owned(), host: String::new(), login: None };
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login.split_once(':').unwrap_or((login, ""))), place),
            None => (None, authority),
        };
        let host = if place.starts_with('[') {
            place.split_inclusive(']').next().unwrap_or(place)
        } else {
            place.split(':').next().unwrap_or(place)
        };
        Address {
            plain: format!("{scheme}://{place}{path}"),
            host: host.to_owned(),
            login: login.map(|(user, password)| (decoded(user), decoded(password))),
        }
    }
}

/// Replaces logins in the URLs of a text.
pub(crate) fn masked(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let end = after.find(|letter: char| letter == '/' || letter.is_whitespace() || "'\"".contains(letter));
        let (authority, following) = after.split_at(end.unwrap_or(after.len()));
        match authority.rsplit_once('@') {
            Some((login, host)) => {
                let user = login.split_once(':').map(|(user, _)| format!("{user}:")).unwrap_or_default();
                shown.push_str(&format!("{user}{HIDDEN}@{host}"));
            }
            None => shown.push_str(authority),
        }
        rest = following;
    }
    shown + rest
}

/// Decodes percent-encoded characters.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let number = after.get(..2).filter(|_| first == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
        });
        bytes.push(number.unwrap_or(first));
        rest = if number.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_is_separated_from_the_address() {
        let address = Address::new("https://me:p%40ss:w@example.org:8443/debian/");
        assert_eq!(address.plain, "https://example.org:8443/debian/");
        assert_eq!(address.host, "example.org");
        assert_eq!(address.login, Some(("me".to_owned(), "p@ss:w".to_owned())));
        assert_eq!(Address::new("http://[::1]:80/x").host, "[::1]");
        assert_eq!(Address::new("http://token@h/x").login, Some(("token".to_owned(), String::new())));
        for local in ["file:///srv/repo", "copy:/srv/repo", "cdrom:x"] {
            let address = Address::new(local);
            assert_eq!((&*address.plain, &*address.host, address.login), (local, "", None));
        }
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%+1%zz"), "%+1%zz");
    }

    #[test]
    fn passwords_are_masked_in_texts() {
        for (said, shown) in [
            ("https://me:secret@h/x", "https://me:***@h/x"),
            ("https://secret@h/x", "https://***@h/x"),
            ("E: https://me:se@cret@h is bad, http://h/a@b is not", "E: https://me:***@h is bad, http://h/a@b is not"),
            ("'https://me:secret@h' \"ftp://a:b@c\"", "'https://me:***@h' \"ftp://a:***@c\""),
            ("nothing", "nothing"),
            ("a://", "a://"),
        ] {
            assert_eq!(masked(said), shown);
        }
    }
}
