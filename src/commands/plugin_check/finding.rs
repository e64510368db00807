//! Findings, as data.

use std::collections::HashSet;
use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// The plugin violates the interface.
    Failure,
    /// The interface permits it, but it is probably a mistake.
    Warning,
}

/// A violation or a probable mistake.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// The operation that revealed it, such as `apply note:a`. Empty if the finding is about the plugin as a whole.
    subject: String,
    text: String,
    rule: Option<Rule>,
}

/// The sections that state the rules: headings of `holo-plugin-interface(7)`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Names,
    Environment,
    Version3,
    Info,
    Scan,
    LimitedScans,
    Apply,
    ForceApply,
    Diff,
    Doctor,
    Health,
    Blame,
    Adopt,
    Dependencies,
    Check,
    MoreMessages,
    Sessions,
    Answers,
    Order,
    WhenASessionDies,
}

impl Rule {
    fn heading(self) -> &'static str {
        match self {
            Rule::Names => "Names",
            Rule::Environment => "ENVIRONMENT",
            Rule::Version3 => "VERSION 3",
            Rule::Info => "info",
            Rule::Scan => "scan",
            Rule::LimitedScans => "Limited scans",
            Rule::Apply => "apply",
            Rule::ForceApply => "force-apply",
            Rule::Diff => "diff",
            Rule::Doctor => "doctor",
            Rule::Health => "health",
            Rule::Blame => "blame",
            Rule::Adopt => "adopt",
            Rule::Dependencies => "Dependencies",
            Rule::Check => "check",
            Rule::MoreMessages => "More messages",
            Rule::Sessions => "Sessions",
            Rule::Answers => "Answers",
            Rule::Order => "Order",
            Rule::WhenASessionDies => "When a session dies",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.text)?;
        self.rule.map_or(Ok(()), |rule| write!(f, " (holo-plugin-interface(7), {})", rule.heading()))
    }
}

/// Counts findings, and passes each new one on.
pub(super) struct Findings<'a> {
    show: &'a mut dyn FnMut(&Finding),
    shown: HashSet<String>,
    passed: usize,
    failed: usize,
    warnings: usize,
}

impl<'a> Findings<'a> {
    pub(super) fn new(show: &'a mut dyn FnMut(&Finding)) -> Findings<'a> {
        Findings { show, shown: HashSet::new(), passed: 0, failed: 0, warnings: 0 }
    }

    /// Counts a check, and adds a finding if the condition does not hold. Returns the condition.
    pub(super) fn expect(
        &mut self,
        severity: Severity,
        rule: impl Into<Option<Rule>>,
        subject: &str,
        holds: bool,
        text: impl Into<String>,
    ) -> bool {
        if holds {
            self.passed += 1;
        } else {
            self.add(&Finding { severity, subject: subject.to_owned(), text: text.into(), rule: rule.into() });
        }
        holds
    }

    /// Adds a note for the user that does not depend on the plugin's behaviour.
    pub(super) fn note(&mut self, text: String) {
        self.add(&Finding { severity: Severity::Warning, subject: String::new(), text, rule: None });
    }

    fn add(&mut self, finding: &Finding) {
        // The same mistake shows up in each stage.
        if self.shown.insert(finding.to_string()) {
            match finding.severity {
                Severity::Failure => self.failed += 1,
                Severity::Warning => self.warnings += 1,
            }
            (self.show)(finding);
        }
    }

    pub(super) fn failed(&self) -> bool {
        self.failed > 0
    }
}

impl fmt::Display for Findings<'_> {
    /// Writes the summary: `41 checks passed, 1 failed, 0 warnings`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        write!(
            f,
            "{} passed, {} failed, {}",
            number(self.passed, "check"),
            self.failed,
            number(self.warnings, "warning")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: [Rule; 19] = [
        Rule::Names,
        Rule::Environment,
        Rule::Version3,
        Rule::Info,
        Rule::Scan,
        Rule::Apply,
        Rule::ForceApply,
        Rule::Diff,
        Rule::Doctor,
        Rule::Health,
        Rule::Blame,
        Rule::Adopt,
        Rule::Dependencies,
        Rule::Check,
        Rule::MoreMessages,
        Rule::Sessions,
        Rule::Answers,
        Rule::Order,
        Rule::WhenASessionDies,
    ];

    #[test]
    fn rules_name_existing_headings() {
        let page = include_str!("../../../man/holo-plugin-interface.7");
        for rule in RULES {
            let heading = rule.heading();
            let is_there = page.lines().any(|line| {
                let title = line.strip_prefix(".Ss ").or_else(|| line.strip_prefix(".Sh "));
                title.is_some_and(|title| title.split(" Ar id").next() == Some(heading))
            });
            assert!(is_there, "{heading}");
        }
    }

    #[test]
    fn finding_is_reported_once() {
        let mut lines = Vec::new();
        let mut show = |finding: &Finding| lines.push(finding.to_string());
        let mut findings = Findings::new(&mut show);
        for holds in [true, false, false] {
            findings.expect(Severity::Failure, Rule::Apply, "apply a:b", holds, "it is blue");
        }
        findings.note("it is late".to_owned());
        assert!(findings.failed());
        assert_eq!(findings.to_string(), "1 check passed, 1 failed, 1 warning");
        assert_eq!(lines, ["apply a:b: it is blue (holo-plugin-interface(7), apply)", "it is late"]);
    }
}
