//! How the screen looks, from 80 columns on.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use outrigger_model::CapacityType;

use super::app::{App, Over, View};
use super::overview::{NodeOverview, Used};
use super::{pods, totals, verdict};
use crate::claims::{ClaimOutput, age};
use crate::consolidate::CommandOutput;
use crate::consolidate::text::destinations;
use crate::output::or_dash;

/// How wide a bar is.
const BAR: usize = 5;
/// Below this a node is half empty, above that it is nearly full.
const LOW: f64 = 0.5;
const HIGH: f64 = 0.9;

const KEYS: [&str; 9] = [
    "up, down, j, k     another row",
    "PgUp, PgDn, g, G   further",
    "Tab                nodes, claims, commands",
    "Enter              all about the row",
    "s                  sort by name, cpu, memory, price, pods, age, verdict",
    "/                  filter nodes; Esc forgets the filter",
    "?                  this",
    "q, Esc             leave",
    "",
];

/// Draws all of it.
pub(super) fn draw(app: &App, frame: &mut Frame<'_>) {
    let [head, tabs, list, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(totals(&app.overview)).bold(), head);
    frame.render_widget(headline(app), tabs);
    match app.view {
        View::Nodes => draw_nodes(app, frame, list),
        View::Claims => draw_claims(app, frame, list),
        View::Commands => draw_commands(app, frame, list),
    }
    frame.render_widget(foot_line(app), foot);
    match app.over {
        Over::Detail => draw_over(frame, detail(app)),
        Over::Keys => draw_over(frame, KEYS.iter().map(|line| (*line).to_owned()).collect()),
        Over::Nothing | Over::Filter => {}
    }
}

fn headline(app: &App) -> Line<'static> {
    let count = |view: View| match view {
        View::Nodes => app.overview.nodes.len(),
        View::Claims => app.overview.claims.len(),
        View::Commands => app.overview.commands.len(),
    };
    let tab = |view: View| {
        let text = format!(" {view:?} {} ", count(view));
        if view == app.view { text.reversed() } else { text.dim() }
    };
    Line::from_iter(View::ALL.map(tab))
}

fn foot_line(app: &App) -> Line<'_> {
    if let Some(failure) = &app.failure {
        return Line::from(format!("not looked at anew: {failure}")).red();
    }
    if app.over == Over::Filter {
        return Line::from(format!("/{}_", app.filter));
    }
    let order = format!("{:?}", app.sort).to_lowercase();
    let filter = if app.filter.is_empty() { String::new() } else { format!(", only {}", app.filter) };
    let at = app.overview.taken_at.strftime("%H:%M:%S UTC");
    Line::from(format!("{at}  by {order}{filter}  Enter detail  s sort  / filter  Tab view  ? keys  q quit"))
        .dim()
}

fn draw_table(app: &App, frame: &mut Frame<'_>, area: Rect, table: Table<'_>) {
    let mut state = TableState::default().with_selected((app.rows() > 0).then_some(app.selected));
    let table = table.column_spacing(1).row_highlight_style(Style::new().reversed());
    frame.render_stateful_widget(table, area, &mut state);
}

fn heading(cells: &[&'static str]) -> Row<'static> {
    Row::new(cells.iter().map(|cell| Cell::from(*cell))).dim()
}

fn draw_nodes(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let columns = [
        Constraint::Fill(2),
        Constraint::Length(12),
        Constraint::Length(4),
        Constraint::Length(2),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(4),
        Constraint::Fill(2),
    ];
    let headings = ["NODE", "TYPE", "PAID", "Z", "CPU", "MEMORY", "PODS", "$/H", "AGE", "VERDICT"];
    let rows = app.nodes().into_iter().map(|node| node_row(app, node));
    draw_table(app, frame, area, Table::new(rows, columns).header(heading(&headings)));
}

fn node_row(app: &App, node: &NodeOverview) -> Row<'static> {
    let price = node.price_per_hour.map(|price| format!("{:.3}", price.dollars()));
    let style = if node.command.is_some() { Style::new().fg(Color::Yellow) } else { Style::new() };
    Row::new([
        Cell::from(node.name.clone()),
        Cell::from(or_dash(node.instance_type.as_ref())),
        Cell::from(paid(node.capacity_type)),
        Cell::from(node.zone.as_deref().and_then(|zone| zone.chars().next_back()).unwrap_or('-').to_string()),
        bar(node.cpu),
        bar(node.memory),
        Cell::from(pods(node)),
        Cell::from(or_dash(price)),
        Cell::from(age(app.overview.taken_at.duration_since(node.created_at))),
        Cell::from(verdict(node)).style(style),
    ])
}

const fn paid(way: Option<CapacityType>) -> &'static str {
    match way {
        Some(CapacityType::Spot) => "spot",
        Some(CapacityType::OnDemand) => "od",
        Some(CapacityType::Reserved) => "rsvd",
        None => "-",
    }
}

/// A share as a bar and in percent.
fn bar(used: Used) -> Cell<'static> {
    let share = used.share();
    let full = (1..=BAR).filter(|part| share * BAR as f64 > *part as f64 - 0.5).count();
    let text = format!("{}{} {:.0}", "█".repeat(full), "░".repeat(BAR - full), share * 100.0);
    let colour = match share {
        share if share > HIGH => Color::Green,
        share if share < LOW => Color::Red,
        _ => Color::Reset,
    };
    Cell::from(text).style(Style::new().fg(colour))
}

fn draw_claims(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let columns = [
        Constraint::Fill(2),
        Constraint::Length(11),
        Constraint::Length(12),
        Constraint::Length(4),
        Constraint::Length(11),
        Constraint::Length(4),
        Constraint::Fill(3),
    ];
    let row = |claim: &ClaimOutput| {
        let old = claim.created_at.map(|at| age(app.overview.taken_at.duration_since(at)));
        Row::new([
            Cell::from(claim.name.clone()),
            Cell::from(format!("{:?}", claim.state)),
            Cell::from(or_dash(claim.instance_type.as_ref())),
            Cell::from(paid(claim.capacity_type)),
            Cell::from(or_dash(claim.zone.as_ref())),
            Cell::from(or_dash(old)),
            Cell::from(claim.message.clone().or_else(|| claim.node.clone()).unwrap_or_default()),
        ])
    };
    let rows = app.claims().into_iter().map(row);
    let headings = ["CLAIM", "STATE", "TYPE", "PAID", "ZONE", "AGE", "NODE, OR WHY"];
    draw_table(app, frame, area, Table::new(rows, columns).header(heading(&headings)));
}

fn draw_commands(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let columns = [
        Constraint::Length(2),
        Constraint::Length(13),
        Constraint::Fill(3),
        Constraint::Fill(3),
        Constraint::Length(9),
        Constraint::Length(9),
    ];
    let row = |(at, command): (usize, &CommandOutput)| {
        Row::new([
            Cell::from((at + 1).to_string()),
            Cell::from(format!("{:?}", command.reason)),
            Cell::from(command.delete.join(", ")),
            Cell::from(destinations(command)),
            Cell::from(command.evictions.to_string()),
            Cell::from(format!("{:.4}", command.savings_per_hour)),
        ])
    };
    let rows = app.overview.commands.iter().enumerate().map(row);
    let headings = ["#", "REASON", "ENDS", "PODS GO TO", "EVICTIONS", "SAVES $/H"];
    draw_table(app, frame, area, Table::new(rows, columns).header(heading(&headings)));
}

/// All about the selected row.
fn detail(app: &App) -> Vec<String> {
    match app.view {
        View::Nodes => app.nodes().get(app.selected).map(|node| node_detail(node)),
        View::Claims => app.claims().get(app.selected).map(|claim| claim_detail(claim)),
        View::Commands => app.overview.commands.get(app.selected).map(command_detail),
    }
    .unwrap_or_default()
}

fn node_detail(node: &NodeOverview) -> Vec<String> {
    let way = or_dash(node.capacity_type);
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    let mut lines = vec![
        format!("Node      {}", node.name),
        format!("NodePool  {}", or_dash(node.node_pool.as_ref())),
        format!("Machine   {} {way} {}", or_dash(node.instance_type.as_ref()), or_dash(node.zone.as_ref())),
        format!("Cpu       {:.2} of {:.2} cores", node.cpu.used, node.cpu.available),
        format!("Memory    {:.1} of {:.1} GiB", gib(node.memory.used), gib(node.memory.available)),
        format!("Pods      {}", pods(node)),
        format!("Since     {}", node.created_at),
    ];
    lines.extend(node.price_per_hour.map(|price| format!("Costs     {}", crate::plan::text::money(price))));
    lines.extend(node.closed.map(|closed| format!("Takes no pods: {closed}")));
    lines.extend(node.reason.as_ref().map(|reason| {
        let becomes = if node.command.is_some() { "Can end" } else { "Stays" };
        format!("{becomes}: {reason}")
    }));
    lines
}

fn claim_detail(claim: &ClaimOutput) -> Vec<String> {
    let way = or_dash(claim.capacity_type);
    let mut lines = vec![
        format!("Claim     {}", claim.name),
        format!("NodePool  {}", or_dash(claim.node_pool.as_ref())),
        format!("Machine   {} {way} {}", or_dash(claim.instance_type.as_ref()), or_dash(claim.zone.as_ref())),
        format!("State     {:?}", claim.state),
        format!("Node      {}", or_dash(claim.node.as_ref())),
    ];
    lines.extend(claim.message.clone());
    lines
}

fn command_detail(command: &CommandOutput) -> Vec<String> {
    let mut lines = vec![
        format!("{:?}, saves ${:.4}/h", command.reason, command.savings_per_hour),
        format!("Ends {}", command.delete.join(", ")),
        format!("Pods go to {}", destinations(command)),
        format!("Evictions {}", command.evictions),
    ];
    lines.extend(command.waits_for.iter().map(|budget| format!("It waits for {budget}")));
    lines.extend(command.causes.iter().cloned());
    lines
}

fn draw_over(frame: &mut Frame<'_>, lines: Vec<String>) {
    let area = frame.area();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(4).min(area.height);
    let [row] = Layout::vertical([Constraint::Length(height)]).flex(Flex::Center).areas(area);
    let [centre] = Layout::horizontal([Constraint::Percentage(90)]).flex(Flex::Center).areas(row);
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(Clear, centre);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(Block::bordered()), centre);
}
