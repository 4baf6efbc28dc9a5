//! Documents of a YAML stream, each read as it comes by.

use std::io::{self, BufRead, Read};

use serde_json::Value;

use super::stream::{Sink, read_document};

/// How deeply collections may lie in one another; schemas of custom resources reach about 60.
const MAX_DEPTH: usize = 256;

/// Why a stream cannot be read.
pub(super) enum Error {
    Unreadable(io::Error),
    NotYaml { line: usize, source: Box<serde_saphyr::Error> },
}

/// Reads all documents.
pub(super) fn read(input: impl BufRead, sink: &mut impl Sink) -> Result<(), Error> {
    let mut lines = Lines { input, line: Vec::new(), number: 0, failure: None };
    lines.advance().map_err(Error::Unreadable)?;
    while lines.skip_to_content().map_err(Error::Unreadable)? {
        let line = lines.number;
        let document = Document { lines: &mut lines, taken: 0, content: false };
        let read = serde_saphyr::with_deserializer_from_reader_with_options(document, options(), |yaml| {
            read_document::<Value, _>(yaml, sink)
        });
        if let Some(failure) = lines.failure.take() {
            return Err(Error::Unreadable(failure));
        }
        read.map_err(|source| Error::NotYaml { line, source: Box::new(source) })?;
        let rest = Document { lines: &mut lines, taken: 0, content: true };
        io::copy(&mut { rest }, &mut io::sink()).map_err(Error::Unreadable)?;
    }
    Ok(())
}

/// What the parser objects to, on one line: it draws the text around it as well, and advises who
/// calls it.
pub(super) fn problem(error: &serde_saphyr::Error) -> String {
    const ADVICE: &str = ", set DuplicateKeyPolicy";
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    match line.split_once(ADVICE) {
        Some((twice, _)) if twice.ends_with(": apiVersion") || twice.ends_with(": kind") => {
            format!("{twice}; between two objects there is a line ---")
        }
        Some((twice, _)) => twice.to_owned(),
        None => line.to_owned(),
    }
}

/// The parser's limits guard against documents that grow when they are read; those that only bound
/// the size are lifted, since a cluster's dump is large by nature.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // YAML 1.2: a label with the value no or n is a text.
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
            max_depth: MAX_DEPTH,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    }
}

/// A file, line by line.
struct Lines<R> {
    input: R,
    /// The line that was read but belongs to nobody yet; empty at the end.
    line: Vec<u8>,
    number: usize,
    failure: Option<io::Error>,
}

impl<R: BufRead> Lines<R> {
    fn advance(&mut self) -> io::Result<()> {
        self.line.clear();
        self.number += 1;
        self.input.read_until(b'\n', &mut self.line).map(drop)
    }

    /// Passes over what lies between documents. False at the end of the file.
    fn skip_to_content(&mut self) -> io::Result<bool> {
        while !self.line.is_empty() {
            match Line::classify(&self.line) {
                Line::Blank | Line::Marker => self.advance()?,
                Line::MarkerWithContent | Line::Directive | Line::Content => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// What a line is to the cutting of a stream into documents. In YAML no document has a `---` at the
/// beginning of a line within itself, not even in a block of text.
enum Line {
    Blank,
    Marker,
    MarkerWithContent,
    Directive,
    Content,
}

impl Line {
    fn classify(line: &[u8]) -> Self {
        let line = line.trim_ascii_end();
        let is_blank = |text: &[u8]| matches!(text.trim_ascii_start().first(), None | Some(b'#'));
        match line.strip_prefix(b"---") {
            Some(rest) if is_blank(rest) => Self::Marker,
            Some([b' ' | b'\t', ..]) => Self::MarkerWithContent,
            _ if line == b"..." || is_blank(line) => Self::Blank,
            _ if line.starts_with(b"%") => Self::Directive,
            _ => Self::Content,
        }
    }
}

/// The lines up to the next document.
struct Document<'a, R> {
    lines: &'a mut Lines<R>,
    /// How much of the line at hand was given out.
    taken: usize,
    /// Whether anything but directives was given out, so that a marker ends the document.
    content: bool,
}

impl<R: BufRead> Read for Document<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == 0 {
            match Line::classify(&self.lines.line) {
                Line::Marker | Line::MarkerWithContent if self.content => return Ok(0),
                Line::Marker | Line::Directive | Line::Blank => {}
                Line::MarkerWithContent | Line::Content => self.content = true,
            }
        }
        let rest = &self.lines.line[self.taken..];
        let given = rest.len().min(out.len());
        out[..given].copy_from_slice(&rest[..given]);
        self.taken += given;
        if self.taken == self.lines.line.len() && given > 0 {
            self.taken = 0;
            if let Err(failure) = self.lines.advance() {
                // The parser would tell it in words of its own.
                self.lines.line.clear();
                self.lines.failure = Some(failure);
            }
        }
        Ok(given)
    }
}
