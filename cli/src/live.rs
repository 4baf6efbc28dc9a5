//! A simulation while it runs: a timeline that scrolls, and under it on a terminal where the world
//! stands.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use outrigger_simulation::{Figures, Happening, Kind, Observer};
use owo_colors::OwoColorize;

use crate::args::Speed;
use crate::output::say;

/// How long a run takes on a terminal when nobody says how fast it should go.
const RUN_SECONDS: f64 = 25.0;

/// How fast virtual time may pass.
#[derive(Debug)]
pub(crate) struct Paced {
    begun: Instant,
    /// Virtual seconds for each real one; `None` for as many as the machine can.
    speed: Option<f64>,
}

impl Paced {
    /// The speed that was asked for, or one that suits the place.
    pub(crate) fn new(asked: Option<Speed>, live: bool, duration: Duration) -> Self {
        let speed = match asked {
            Some(Speed::Max) => None,
            Some(Speed::Times(speed)) => Some(speed),
            None => live.then(|| duration.as_secs_f64() / RUN_SECONDS),
        };
        Self { begun: Instant::now(), speed }
    }

    fn wait(&self, elapsed: Duration) {
        let Some(speed) = self.speed else { return };
        let due = Duration::try_from_secs_f64(elapsed.as_secs_f64() / speed).unwrap_or_default();
        std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
    }
}

/// Shows a run.
pub(crate) struct Live {
    shown: bool,
    bar: Option<ProgressBar>,
    pace: Paced,
}

impl Live {
    /// An observer that prints the timeline where `shown`, with a line of figures below it where
    /// `live`.
    pub(crate) fn new(shown: bool, live: bool, pace: Paced) -> Self {
        let bar = live.then(|| {
            let style = ProgressStyle::with_template("{bar:12.green/dim} {wide_msg}");
            ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { shown, bar, pace }
    }

    /// Takes the line of figures away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Live {
    fn looks(&self) -> bool {
        self.shown
    }

    /// Figures are for the line below, and for the clock where time passes slowly.
    fn counts(&self) -> bool {
        self.bar.is_some() || self.pace.speed.is_some()
    }

    fn happened(&mut self, happening: &Happening) {
        if !self.shown {
            return;
        }
        let line = line(happening);
        match &self.bar {
            Some(bar) => bar.suspend(|| say!("{line}")),
            None => say!("{line}"),
        }
    }

    fn stands(&mut self, figures: &Figures) {
        if let Some(bar) = &self.bar {
            bar.set_length(figures.duration.as_secs());
            bar.set_position(figures.elapsed.as_secs());
            bar.set_message(standing(figures));
        }
        self.pace.wait(figures.elapsed);
    }
}

fn line(happening: &Happening) -> String {
    let at = clock(happening.at);
    let text = &happening.text;
    let at = at.dimmed();
    match happening.kind {
        Kind::Workload => format!("{at}  {}", text.cyan()),
        Kind::Launch => format!("{at}  {}", text.green()),
        Kind::Event => format!("{at}  {}", text.yellow()),
        Kind::Trouble => format!("{at}  {}", text.red()),
        Kind::Pods | Kind::Node => format!("{at}  {text}"),
        Kind::Function => format!("{at}  {}", text.dimmed()),
    }
}

fn standing(figures: &Figures) -> String {
    let Figures { elapsed, running, waiting, nodes, starting, cost_per_hour, spent, .. } = figures;
    let (at, cost) = (clock(*elapsed), cost_per_hour.dollars());
    format!("{at}  pods {running} run, {waiting} wait  nodes {nodes} +{starting}  ${cost:.3}/h  ${spent:.4}")
}

/// Minutes and seconds of virtual time.
fn clock(at: Duration) -> String {
    let tenths = at.as_millis() / 100;
    format!("{:>3}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_reads_as_minutes_and_seconds() {
        assert_eq!(clock(Duration::from_millis(61_250)), "  1:01.2");
        assert_eq!(clock(Duration::from_hours(1)), " 60:00.0");
    }
}
