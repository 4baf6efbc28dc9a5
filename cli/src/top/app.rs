//! The screen's state, its keys, and the looks at the cluster beside it.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use outrigger_model::ClaimState;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::draw;
use super::overview::{NodeOverview, Overview};
use crate::args::{Source, Top, TopSort};
use crate::claims::ClaimOutput;
use crate::error::chain;

/// How long a key may wait to be seen.
const KEYS_EVERY: Duration = Duration::from_millis(200);
/// The orders that `s` goes through.
const ORDERS: [TopSort; 7] = [
    TopSort::Name,
    TopSort::Cpu,
    TopSort::Memory,
    TopSort::Price,
    TopSort::Pods,
    TopSort::Age,
    TopSort::Verdict,
];

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Nodes,
    Claims,
    Commands,
}

impl View {
    pub(super) const ALL: [Self; 3] = [Self::Nodes, Self::Claims, Self::Commands];

    const fn next(self) -> Self {
        match self {
            Self::Nodes => Self::Claims,
            Self::Claims => Self::Commands,
            Self::Commands => Self::Nodes,
        }
    }
}

/// What lies over the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Nothing,
    Detail,
    Keys,
    /// The filter is being written.
    Filter,
}

/// Whether the screen goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Quit,
}

/// All that the screen shows.
pub(super) struct App {
    pub(super) overview: Overview,
    pub(super) view: View,
    pub(super) over: Over,
    pub(super) sort: TopSort,
    pub(super) filter: String,
    pub(super) selected: usize,
    /// Why the last look has failed; what is shown is older then.
    pub(super) failure: Option<String>,
}

/// A look at the cluster, or why there was none.
type Look = Result<Overview, String>;

/// Shows the screen until somebody leaves it, who does not wait for a cluster that does not answer.
pub(super) fn run(command: &Top, overview: Overview) -> io::Result<()> {
    let (ask, asked) = channel::<()>();
    let (tell, looks) = channel::<Look>();
    let source = command.source.clone();
    std::thread::spawn(move || look_when_asked(&source, &asked, &tell));
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, command, overview, &ask, &looks);
    ratatui::restore();
    ended
}

fn look_when_asked(source: &Source, asked: &Receiver<()>, tell: &Sender<Look>) {
    while asked.recv().is_ok() {
        let look = Overview::look(source).map_err(|error| chain(&error));
        if tell.send(look).is_err() {
            return;
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    command: &Top,
    overview: Overview,
    ask: &Sender<()>,
    looks: &Receiver<Look>,
) -> io::Result<()> {
    let mut app = App::new(command, overview);
    // Files that were read once cannot have changed on standard input, and a Snapshot never does.
    let is_live = command.source.files.is_empty() && command.source.snapshot.is_none();
    let every = Duration::from_secs(command.every);
    let mut due = Instant::now() + every;
    loop {
        terminal.draw(|frame| draw::draw(&app, frame))?;
        if is_live && Instant::now() >= due {
            due = Instant::now() + every;
            let _ = ask.send(());
        }
        while let Ok(look) = looks.try_recv() {
            app.take(look);
        }
        if !event::poll(KEYS_EVERY)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && app.press(key) == Next::Quit
        {
            return Ok(());
        }
    }
}

impl App {
    pub(super) fn new(command: &Top, overview: Overview) -> Self {
        Self {
            overview,
            view: View::Nodes,
            over: Over::Nothing,
            sort: command.sort,
            filter: command.filter.clone(),
            selected: 0,
            failure: None,
        }
    }

    /// The nodes as they are listed.
    pub(super) fn nodes(&self) -> Vec<&NodeOverview> {
        self.overview.arranged(self.sort, &self.filter)
    }

    /// The claims as they are listed: those that are on their way first.
    pub(super) fn claims(&self) -> Vec<&ClaimOutput> {
        let mut claims: Vec<&ClaimOutput> = self.overview.claims.iter().collect();
        claims.sort_by_key(|claim| (!is_on_its_way(claim), claim.name.clone()));
        claims
    }

    /// How many rows the list has.
    pub(super) fn rows(&self) -> usize {
        match self.view {
            View::Nodes => self.nodes().len(),
            View::Claims => self.overview.claims.len(),
            View::Commands => self.overview.commands.len(),
        }
    }

    fn take(&mut self, look: Look) {
        match look {
            Ok(overview) => {
                self.overview = overview;
                self.failure = None;
            }
            Err(failure) => self.failure = Some(failure),
        }
        self.select(self.selected);
    }

    fn select(&mut self, row: usize) {
        self.selected = row.min(self.rows().saturating_sub(1));
    }

    /// Does what a key means.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_interrupt {
            return Next::Quit;
        }
        match self.over {
            Over::Filter => self.write_filter(key.code),
            Over::Detail | Over::Keys => match key.code {
                KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
                KeyCode::Down | KeyCode::Char('j') => self.select(self.selected + 1),
                _ => self.over = Over::Nothing,
            },
            Over::Nothing => return self.press_in_list(key.code),
        }
        Next::Stay
    }

    fn write_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.over = Over::Nothing;
            }
            KeyCode::Enter => self.over = Over::Nothing,
            _ => {}
        }
        self.select(0);
    }

    fn press_in_list(&mut self, key: KeyCode) -> Next {
        const PAGE: usize = 15;
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected + 1),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(PAGE)),
            KeyCode::PageDown => self.select(self.selected + PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            KeyCode::Tab => {
                self.view = self.view.next();
                self.select(0);
            }
            KeyCode::Char('s') => {
                let at = ORDERS.iter().position(|order| *order == self.sort).unwrap_or_default();
                self.sort = ORDERS[(at + 1) % ORDERS.len()];
            }
            KeyCode::Char('/') => self.over = Over::Filter,
            KeyCode::Enter if self.rows() > 0 => self.over = Over::Detail,
            KeyCode::Char('?' | 'h') => self.over = Over::Keys,
            _ => {}
        }
        Next::Stay
    }
}

/// Whether a claim's node is neither there to stay nor over.
pub(super) fn is_on_its_way(claim: &ClaimOutput) -> bool {
    claim.state != ClaimState::Initialized && !claim.state.is_terminal()
}
