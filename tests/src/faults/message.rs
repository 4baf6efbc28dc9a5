//! A request as HTTP writes it: read from a connection, named, and answered or refused in its
//! server's own form.

use std::io::{BufRead, ErrorKind, Write};

use anyhow::{Context, Result};

/// Headers that are the client's business with the server; the others are the proxy's own.
const PASSED_ON: [&str; 4] = ["authorization", "accept", "content-type", "x-amz-target"];

/// A request.
pub(super) struct Message {
    /// Method and path.
    pub(super) line: String,
    /// Those that are passed on, with lower-case names.
    pub(super) headers: Vec<(String, String)>,
    /// Whether the client takes a compressed answer; the proxy asks for none.
    pub(super) takes_gzip: bool,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// One request with a length, or without a body.
    pub(super) fn read(client: &mut impl BufRead) -> Result<Self> {
        let mut next = || {
            let mut line = String::new();
            match client.read_line(&mut line)? {
                0 => Err(std::io::Error::from(ErrorKind::UnexpectedEof)),
                _ => Ok(line.trim_end().to_owned()),
            }
        };
        let first = next()?;
        let line = first.rsplit_once(' ').context("no request line")?.0.to_owned();
        let (mut headers, mut length, mut takes_gzip) = (Vec::new(), 0, false);
        loop {
            let header = next()?;
            let Some((name, value)) = header.split_once(':') else { break };
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            if name == "content-length" {
                length = value.parse()?;
            } else if name == "accept-encoding" {
                takes_gzip = value.contains("gzip");
            } else if PASSED_ON.contains(&name.as_str()) {
                headers.push((name, value));
            }
        }
        let mut body = vec![0; length];
        client.read_exact(&mut body)?;
        Ok(Self { line, headers, takes_gzip, body })
    }

    /// What a rule knows it by: the line, and the action where AWS is asked.
    pub(super) fn name(&self) -> String {
        match self.target().or_else(|| self.action()) {
            Some(action) => format!("{} {action}", self.line),
            None => self.line.clone(),
        }
    }

    /// The body of a refusal: a Status object, or an error of AWS in JSON or XML with `words` for
    /// its code.
    pub(super) fn refusal(&self, status: u16, words: &str) -> String {
        if self.target().is_some() {
            let body = serde_json::json!({ "__type": format!("com.amazonaws#{words}"), "message": "a test refuses" });
            body.to_string()
        } else if self.action().is_some() {
            format!(
                "<?xml version=\"1.0\"?><Response><Errors><Error><Code>{words}</Code><Message>a test refuses</Message></Error>\
                 </Errors><RequestID>test</RequestID></Response>"
            )
        } else {
            let reason = if status == 410 { "Expired" } else { "" };
            let told = serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": words, "reason": reason,
            });
            told.to_string()
        }
    }

    /// The action of AWS's JSON protocol.
    fn target(&self) -> Option<String> {
        let target = self.headers.iter().find(|(name, _)| name == "x-amz-target");
        target.map(|(_, value)| value.clone())
    }

    /// The action of AWS's query protocol.
    fn action(&self) -> Option<String> {
        let form = std::str::from_utf8(&self.body).ok()?;
        form.split('&').find_map(|pair| pair.strip_prefix("Action=")).map(str::to_owned)
    }
}

/// Sends so many hundredths of a body under the length of the whole.
pub(super) fn answer(
    client: &mut impl Write,
    status: u16,
    headers: &str,
    body: &[u8],
    percent: usize,
) -> Result<()> {
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
    )?;
    client.write_all(&body[..length * percent / 100])?;
    Ok(client.flush()?)
}
