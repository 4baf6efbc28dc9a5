//! The form of prose: how wide its lines are, and how long the sentences of documents.

use std::path::Path;

/// Prose is wrapped at this width.
pub(crate) const WIDTH: usize = 100;
/// A longer sentence has two ideas.
const SENTENCE_WORDS: usize = 30;
/// Of so many sentences one may be longer.
const SENTENCES_PER_LONG_ONE: usize = 33;
/// The page that people read first ends here.
const README_LINES: usize = 110;

/// What is wrong with a document.
pub(crate) fn complaints_about(name: &str, text: &str) -> Vec<String> {
    if Path::new(name).extension().is_none_or(|end| end != "md") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    if name == "README.md" && text.lines().count() > README_LINES {
        complaints.push(format!("{name}: {} lines, more than {README_LINES}", text.lines().count()));
    }
    let paragraphs = paragraphs(text);
    for line in paragraphs.iter().flat_map(|paragraph| &paragraph.lines) {
        let columns = line.text.chars().count();
        if columns > WIDTH && line.text.trim().contains(' ') && !line.is_row {
            complaints.push(format!("{name}:{}: {columns} columns, more than {WIDTH}", line.number));
        }
    }
    let sentences: Vec<String> = paragraphs.iter().flat_map(Paragraph::sentences).collect();
    let words = |sentence: &String| sentence.split_whitespace().count();
    let long: Vec<&String> = sentences.iter().filter(|sentence| words(sentence) > SENTENCE_WORDS).collect();
    if long.len() > sentences.len() / SENTENCES_PER_LONG_ONE {
        complaints.extend(long.into_iter().map(|sentence| {
            let begins: Vec<&str> = sentence.split_whitespace().take(8).collect();
            format!("{name}: {} words, more than {SENTENCE_WORDS}: {} ...", words(sentence), begins.join(" "))
        }));
    }
    complaints
}

/// Whether a line of Rust is a comment that could be wrapped: rows of tables and what is set in
/// cannot.
pub(crate) fn is_wide_comment(line: &str) -> bool {
    let comment = line.trim_start();
    let text = comment.trim_start_matches(['/', '!']);
    let is_set_in = text.starts_with(" |") || text.starts_with("   ") || text.starts_with(" `[");
    comment.starts_with("//") && line.chars().count() > WIDTH && !is_set_in
}

/// Lines that belong together: a paragraph, an entry of a list, or a row of a table.
#[derive(Default)]
struct Paragraph<'t> {
    lines: Vec<Line<'t>>,
}

struct Line<'t> {
    /// From one.
    number: usize,
    text: &'t str,
    /// Whether it is a row of a table, which cannot be wrapped.
    is_row: bool,
}

/// The prose of a document: neither headings, nor code, nor what is set in by four columns.
fn paragraphs(text: &str) -> Vec<Paragraph<'_>> {
    let mut paragraphs = vec![Paragraph::default()];
    let mut is_code = false;
    for (index, text) in text.lines().enumerate() {
        let line = Line { number: index + 1, text, is_row: text.starts_with('|') };
        if text.trim_start().starts_with("```") {
            is_code = !is_code;
            paragraphs.push(Paragraph::default());
            continue;
        }
        let goes_on = paragraphs.last().is_some_and(|paragraph| !paragraph.lines.is_empty());
        let is_set_in = text.starts_with("    ") && !goes_on;
        if is_code || is_set_in || text.trim().is_empty() || text.starts_with('#') {
            paragraphs.push(Paragraph::default());
        } else if line.is_row || begins_entry(text) || !goes_on {
            paragraphs.push(Paragraph { lines: vec![line] });
        } else if let Some(paragraph) = paragraphs.last_mut() {
            paragraph.lines.push(line);
        }
    }
    paragraphs
}

/// Whether a line begins an entry of a list.
fn begins_entry(line: &str) -> bool {
    let text = line.trim_start();
    let number = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    text.starts_with("- ") || (number.len() < text.len() && number.starts_with(". "))
}

impl Paragraph<'_> {
    /// Its sentences: what ends with a full stop, a colon or a semicolon, and cells of tables.
    fn sentences(&self) -> Vec<String> {
        let text: Vec<&str> =
            self.lines.iter().map(|line| line.text.trim().trim_start_matches("- ")).collect();
        let cells = if self.lines.iter().any(|line| line.is_row) { '|' } else { '\n' };
        let mut sentences = Vec::new();
        for cell in text.join(" ").replace("<br>", " ").split(cells) {
            let mut sentence = String::new();
            for word in cell.split_whitespace() {
                sentence.push_str(word);
                sentence.push(' ');
                if word.ends_with(['.', '!', '?', ':', ';']) {
                    sentences.push(std::mem::take(&mut sentence));
                }
            }
            sentences.push(sentence);
        }
        sentences.retain(|sentence| !sentence.trim().is_empty());
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::{complaints_about, is_wide_comment};

    fn words(count: usize) -> String {
        vec!["word"; count].join("\n")
    }

    #[test]
    fn wide_lines_and_long_sentences_are_named() {
        let wide = "one word and another ".repeat(6);
        let table = [
            (wide.clone(), vec!["X.md:1: 126 columns, more than 100"]),
            (format!("    {wide}"), vec![]),
            (format!("```\n{wide}\n```"), vec![]),
            (format!("| {wide} |"), vec![]),
            (format!("- {}.", words(30)), vec![]),
            (
                format!("- {}.", words(31)),
                vec!["X.md: 31 words, more than 30: word word word word word word word word ..."],
            ),
            (format!("{}.\n\n{}.", words(20), words(20)), vec![]),
            (format!("{}.\n{}", words(31), "Short.\n".repeat(40)), vec![]),
        ];
        for (text, expected) in table {
            assert_eq!(complaints_about("X.md", &text), expected, "{text}");
        }
        assert_eq!(complaints_about("x.rs", &wide), Vec::<String>::new());
    }

    #[test]
    fn comments_are_wrapped() {
        let words = "word ".repeat(20);
        assert!(is_wide_comment(&format!("    /// {words}")) && is_wide_comment(&format!("//! {words}")));
        for line in [format!("let x = 1; // {words}"), format!("//! | {words} |"), format!("//!     {words}")]
        {
            assert!(!is_wide_comment(&line), "{line}");
        }
    }

    #[test]
    fn the_first_page_is_short() {
        let complaints = complaints_about("README.md", &"Short.\n".repeat(111));
        assert_eq!(complaints, ["README.md: 111 lines, more than 110"]);
    }
}
