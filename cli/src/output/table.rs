//! Aligned tables, which fit the terminal that they are printed on.

use std::sync::OnceLock;

use console::Alignment::Left;
use console::{Term, measure_text_width, pad_str, truncate_str};
use owo_colors::OwoColorize;

use super::{Format, say};

/// No column is made narrower than this to make a table fit.
const NARROWEST: usize = 8;
/// What stands for the rest of a cell.
const CUT: &str = "…";
const GAP: &str = "  ";

/// Whether tables are as wide as they like. Only `main` says so, once.
static WIDE: OnceLock<bool> = OnceLock::new();

/// Lets tables be as wide as they like where the format says so.
pub(crate) fn set_width(format: Format) {
    WIDE.get_or_init(|| format == Format::Wide);
}

/// Whether tables and names may be as long as they like.
pub(super) fn is_wide() -> bool {
    WIDE.get().copied().unwrap_or(false)
}

/// Prints rows under headings, each column as wide as its widest cell; the last column is left
/// ragged. On a terminal the widest columns are cut until a row fits.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) {
    let terminal = Term::stdout().size_checked().filter(|_| !is_wide());
    let width = terminal.map(|(_, columns)| usize::from(columns));
    for (index, line) in aligned(headings, rows, width).into_iter().enumerate() {
        if index == 0 { say!("{}", line.dimmed()) } else { say!("{line}") }
    }
}

fn aligned(headings: &[&str], rows: &[Vec<String>], fit: Option<usize>) -> Vec<String> {
    let heading: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    let all_rows = || std::iter::once(&heading).chain(rows);
    let widest = |column: usize| {
        all_rows().filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell)).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..headings.len()).map(widest).collect();
    if let Some(fit) = fit {
        narrow(&mut widths, fit.saturating_sub(GAP.len() * headings.len().saturating_sub(1)));
    }
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| pad_str(&truncate_str(cell, *width, CUT), *width, Left, None).into_owned());
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    all_rows().map(line).collect()
}

/// Takes from the widest until together they are no wider than `fit`, or none can give more.
fn narrow(widths: &mut [usize], fit: usize) {
    loop {
        let excess = widths.iter().sum::<usize>().saturating_sub(fit);
        let Some(&widest) = widths.iter().max().filter(|&&widest| excess > 0 && widest > NARROWEST) else {
            return;
        };
        // All of the widest give until they are as wide as the next, or all fits.
        let next = widths.iter().filter(|&&width| width < widest).max().copied().unwrap_or(0).max(NARROWEST);
        let alike = widths.iter().filter(|&&width| width == widest).count();
        let width = next.max(widest.saturating_sub(excess.div_ceil(alike)));
        widths.iter_mut().filter(|given| **given == widest).for_each(|given| *given = width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = rows(&[&["a", "b"], &["long one", "c"]]);
        assert_eq!(aligned(&["X", "Y"], &rows, None), ["X         Y", "a         b", "long one  c"]);
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let long = "x".repeat(70_000);
        let rows = rows(&[&["1", &long, "a-rather-long-name-of-a-node", "spot"]]);
        for fit in [40, 80, 139] {
            let lines = aligned(&["NEW", "NODEPOOL", "CHEAPEST", "CAPACITY"], &rows, Some(fit));
            assert!(lines.iter().all(|line| measure_text_width(line) <= fit), "{lines:?}");
        }
        let lines = aligned(&["NEW", "NODEPOOL", "CHEAPEST", "CAPACITY"], &rows, Some(60));
        insta::assert_snapshot!(lines.join("\n"));
        let whole = aligned(&["A", "B", "C", "D"], &rows, None);
        assert!(whole[1].contains(&long), "what is no terminal gets everything");
    }
}
