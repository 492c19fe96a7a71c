//! Fetches pages over HTTP with the system's `curl`. This program knows the machine's proxies and certificates. Like
//! any other program, it gets a deadline and a limit on its output.

use super::command::{Command, Limits};
use super::missing::{Missing, shown};

/// An address with credentials. The token is passed on stdin, because all users of a machine can read a command line.
#[derive(Clone)]
pub struct Page {
    url: String,
    token: Option<String>,
    body: Option<String>,
}

impl Page {
    pub fn new(url: impl Into<String>) -> Page {
        Page { url: url.into(), token: None, body: None }
    }

    /// Adds the header `Authorization: Bearer ...`, if there is a token.
    pub fn token(self, token: Option<&str>) -> Page {
        Page { token: token.map(str::to_string), ..self }
    }

    /// Uses the method POST with this JSON body.
    pub fn post(self, body: &str) -> Page {
        Page { body: Some(body.to_string()), ..self }
    }

    pub fn get(&self, limits: Limits) -> Result<String, Missing> {
        let host = self.url.strip_prefix("http://").or_else(|| self.url.strip_prefix("https://"));
        let fault = match host {
            None => Some("it is not an http or https address"),
            Some(host) if host.starts_with(['/', '?', '#']) || host.is_empty() => Some("the address has no host"),
            Some(_) => None,
        };
        if let Some(said) = fault {
            return Err(Missing::Unreachable { what: shown_url(&self.url), said: said.to_string() });
        }
        let mut config = format!("url = {}\n", quoted(&self.url));
        if let Some(token) = &self.token {
            config.push_str(&format!("header = {}\n", quoted(&format!("Authorization: Bearer {token}"))));
        }
        if let Some(body) = &self.body {
            config.push_str(&format!("header = \"Content-Type: application/json\"\ndata = {}\n", quoted(body)));
        }
        if config.len() > 4096 {
            return Err(Missing::Unreachable {
                what: shown_url(&self.url),
                said: "the address or token is too long".into(),
            });
        }
        // `-q` must come first; it disables the user's own settings. The status is printed last, on a separate line.
        let args = [
            "-q",
            "--silent",
            "--show-error",
            "--proto",
            "=http,https",
            "--location",
            "--max-redirs",
            "3",
            "--write-out",
            "\n%{http_code}",
            "--config",
            "-",
        ];
        let said = Command::new("curl").args(args).stdin(config.into_bytes()).output(limits);
        let said = said.map_err(|missing| self.named(missing))?;
        match said.rsplit_once('\n') {
            Some((page, "200")) => Ok(page.to_string()),
            Some((_, status)) => {
                Err(Missing::Refused { what: shown_url(&self.url), status: status.trim().parse().unwrap_or(0) })
            }
            None => Err(Missing::Silent { what: shown_url(&self.url) }),
        }
    }

    /// Replaces curl by the page in the name of the source.
    fn named(&self, missing: Missing) -> Missing {
        let what = shown_url(&self.url);
        match missing {
            Missing::TimedOut { within, .. } => Missing::TimedOut { what, within },
            Missing::TooMuch { most, .. } => Missing::TooMuch { what, most },
            Missing::NotText { at, .. } => Missing::NotText { what, at },
            Missing::Exited { said, .. } => Missing::Unreachable { what, said },
            missing => missing,
        }
    }
}

/// The address without its user name and password, for messages and files.
pub fn shown_url(url: &str) -> String {
    let shown = shown(url);
    let Some((scheme, rest)) = shown.split_once("://") else { return shown };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://***{}", &rest[at..]),
        None => shown,
    }
}

/// The text as a string of curl's configuration.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_authorises() {
        let rows = [
            ("http://node:9400/metrics", "http://node:9400/metrics"),
            ("https://ann:secret@node:9400/metrics?a=b@c", "https://***@node:9400/metrics?a=b@c"),
            ("https://node/a@b", "https://node/a@b"),
            ("http://node\n/x", "http://node /x"),
            ("ann:secret", "ann:secret"),
        ];
        for (url, wanted) in rows {
            assert_eq!(shown_url(url), wanted, "{url}");
        }
    }
}
