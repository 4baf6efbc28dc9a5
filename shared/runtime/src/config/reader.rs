//! Variables, read one by one, with every complaint noted.

/// Reads variables; one that is empty counts as not set.
pub(crate) struct Reader<'v> {
    variable: &'v dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl<'v> Reader<'v> {
    pub(super) const fn new(variable: &'v dyn Fn(&str) -> Option<String>) -> Self {
        Self { variable, problems: Vec::new() }
    }

    /// What is wrong.
    pub(super) fn into_problems(self) -> Vec<String> {
        self.problems
    }

    /// Notes what is wrong.
    pub(super) fn complain(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// A variable that may be empty.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// A variable that must be there; `what` says what it is.
    pub(super) fn required(&mut self, name: &str, what: &str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.complain(format!("{name} is not set; it must be {what}"));
            String::new()
        })
    }

    /// A variable that must be there and can be read; after a complaint anything, since nothing
    /// runs then.
    pub(super) fn parsed<T: Default>(
        &mut self,
        name: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> T {
        let Some(text) = self.optional(name) else {
            self.complain(format!("{name} is not set; allowed: {allowed}"));
            return T::default();
        };
        parse(&text).unwrap_or_else(|| {
            self.complain(format!("{name} is {text:?}; allowed: {allowed}"));
            T::default()
        })
    }

    /// One of two words.
    pub(super) fn either<T: Copy + Default>(&mut self, name: &str, words: [(&str, T); 2]) -> T {
        let allowed = words.map(|(word, _)| word).join(" or ");
        self.parsed(name, &allowed, |text| {
            words.into_iter().find(|(word, _)| *word == text).map(|(_, meaning)| meaning)
        })
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        self.parsed(name, "true or false", |text| text.parse().ok())
    }
}
