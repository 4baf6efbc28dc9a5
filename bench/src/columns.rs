//! How rows are printed, as they come.

/// Prints the headings of columns, each with its width.
pub fn print_head(columns: &[(&str, usize)]) {
    let headings: Vec<String> = columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
    let rules: Vec<String> = columns.iter().map(|(_, width)| "-".repeat(*width)).collect();
    print(columns, &headings);
    print(columns, &rules);
}

/// One line, with a cell for each column; Markdown reads it as a table's.
pub fn print(columns: &[(&str, usize)], cells: &[String]) {
    let padded = |(cell, (_, width)): (&String, &(&str, usize))| format!(" {cell:<width$} ");
    let cells: Vec<String> = cells.iter().zip(columns).map(padded).collect();
    anstream::println!("|{}|", cells.join("|"));
}
