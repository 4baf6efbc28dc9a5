//! Launch templates of our own that nobody uses any more are deleted.

use super::{Launches, Tick};
use crate::chain::chain;
use crate::launch::templates::Templates;
use crate::ports::{Sweep, WrittenTemplate};

impl Tick<'_> {
    /// Without an answer nothing is concluded about templates; the rest goes on.
    pub(super) async fn ask_for_templates(&mut self) {
        self.templates = None;
        if !self.time_for_a_sweep() {
            return;
        }
        match self.ports.cloud.own_templates().await {
            Ok(templates) => self.templates = Some(templates),
            Err(error) => tracing::warn!(error = chain(&error), "EC2 does not show our launch templates"),
        }
    }

    /// What the sweep finds unused is noted in it; what is to be deleted now is returned.
    pub(super) fn unused_templates(&self, launches: Launches<'_>, sweep: &mut Sweep) -> Vec<WrittenTemplate> {
        let Some(written) = &self.templates else {
            sweep.templates.clone_from(&self.sweep.templates);
            return Vec::new();
        };
        let Launches { intents, health } = launches;
        let seen = Templates { written, intents, health };
        let now = self.ports.now();
        seen.unused(sweep, &self.sweep, self.settings.guards, now).into_iter().cloned().collect()
    }

    /// One that could not be deleted is found again.
    pub(super) async fn delete_templates(&mut self, templates: Vec<WrittenTemplate>) {
        for WrittenTemplate { id, name, .. } in templates {
            if self.time_is_up() {
                return;
            }
            match self.ports.cloud.delete_template(&id).await {
                Ok(()) => {
                    tracing::info!(template = name, id, "nobody uses the launch template; it is deleted");
                    self.summary.templates.push(name);
                }
                Err(error) => {
                    tracing::warn!(template = name, error = chain(&error), "it was not deleted");
                }
            }
        }
    }
}
