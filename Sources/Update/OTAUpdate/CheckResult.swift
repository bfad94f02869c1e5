/// The result of a conformance check for one rule of a protocol's specification.
package struct CheckResult: Sendable, Equatable {
    package enum Verdict: String, Sendable, CaseIterable {
        case passed, failed, skipped
    }
    /// The stable name of the rule, such as `unknown-opcode`.
    package var rule: String
    /// The section of the specification, as a link target.
    package var section: String
    /// The behaviour of a correct device, as a sentence without a subject.
    package var statement: String
    package var verdict: Verdict
    /// The deviation, the reason why the rule was skipped, or a remark; nil: none.
    package var detail: String?
    /// What to look for in the firmware; nil if the rule has not failed.
    package var fix: String?

    package init(
        rule: String, section: String, statement: String, verdict: Verdict, detail: String? = nil, fix: String? = nil
    ) {
        (self.rule, self.section, self.statement) = (rule, section, statement)
        (self.verdict, self.detail, self.fix) = (verdict, detail, fix)
    }
}
