import OTAFirmware
import OTAUpdate

/// The report of a push as JUnit XML. It has one test case for each phase, or for each device of a push to several devices. So a CI service
/// shows the failed phase or device, and the durations.
package struct JUnitReport {
    /// The beginning of each report.
    static let heading = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"otaflash\""

    package struct Case {
        enum Outcome {
            /// The lines of the result for the user; empty if this case has no result.
            case passed([TerminalLine])
            case failed(Failure)
            case skipped(String)
        }

        let name: String
        let seconds: Double
        var outcome = Outcome.passed([])
        var warnings: [String] = []
    }

    /// The full name of the command, such as `push`.
    let command: String
    let cases: [Case]
    /// Names and values that describe the run, such as the device.
    let properties: [(name: String, value: String)]

    /// Returns the test cases of the phases of a command.
    ///
    /// - Parameters:
    ///   - failure: the failure in the current phase; nil if the command succeeded.
    ///   - lines: the result for the user.
    ///   - warnings: the warnings of the command.
    static func cases(
        _ phases: PhaseTimes, failure: Failure?, lines: [TerminalLine], warnings: [String]
    ) -> [Case] {
        phases.ended().enumerated().map { index, phase in
            var phaseCase = Case(name: phase.name, seconds: phase.duration.seconds)
            if index == phases.current {
                phaseCase.outcome = failure.map { .failed($0) } ?? .passed(lines)
                phaseCase.warnings = warnings
            }
            return phaseCase
        }
    }

    var text: String {
        let (failures, skipped) = cases.reduce(into: (0, 0)) { counts, one in
            switch one.outcome {
            case .passed: break
            case .failed: counts.0 += 1
            case .skipped: counts.1 += 1
            }
        }
        let counts = [
            ("tests", "\(cases.count)"), ("failures", "\(failures)"), ("errors", "0"), ("skipped", "\(skipped)"),
            ("time", Self.seconds(cases.reduce(0) { $0 + $1.seconds })),
        ]
        var text = Self.heading + Self.attributes(counts) + ">\n"
        text += "  <testsuite" + Self.attributes([("name", "otaflash \(command)")] + counts) + ">\n    <properties>\n"
        for property in properties {
            text += "      <property" + Self.attributes([("name", property.name), ("value", property.value)]) + "/>\n"
        }
        text += "    </properties>\n"
        for one in cases {
            text +=
                "    <testcase"
                + Self.attributes([
                    ("classname", "otaflash.\(command)"), ("name", one.name), ("time", Self.seconds(one.seconds)),
                ])
            let contents = Self.element(one.outcome) + Self.element(one.warnings)
            text += contents.isEmpty ? "/>\n" : ">\n\(contents)    </testcase>\n"
        }
        return text + "  </testsuite>\n</testsuites>"
    }

    /// Returns the element with the outcome of a test case.
    private static func element(_ outcome: Case.Outcome) -> String {
        switch outcome {
        case .passed(let lines):
            let output = lines.map { $0.rendered(hasColours: false) }
            return output.isEmpty ? "" : "      <system-out>\(escaped(output))</system-out>\n"
        case .failed(let failure):
            let hints = failure.hints.map { "hint: \($0)" }
            return "      <failure\(attributes([("type", failure.code), ("message", failure.message)]))>"
                + "\(escaped(hints))</failure>\n"
        case .skipped(let reason): return "      <skipped\(attributes([("message", reason)]))/>\n"
        }
    }

    /// Returns the element with the warnings; empty without warnings.
    private static func element(_ warnings: [String]) -> String {
        guard !warnings.isEmpty else { return "" }
        return "      <system-err>\(escaped(warnings.map { "warning: \($0)" }))</system-err>\n"
    }

    private static func seconds(_ seconds: Double) -> String { Figures.decimal(seconds, places: 3) }

    private static func attributes(_ pairs: [(String, String)]) -> String {
        pairs.map { " \($0)=\"\(escaped([$1]))\"" }.joined()
    }

    /// Returns the lines as text for XML. Control characters and invisible characters are escaped, for example as `\u{1B}`, because XML 1.0
    /// does not allow most of them (section 2.2). XML also does not allow U+FFFE and U+FFFF, which are replaced by U+FFFD.
    private static func escaped(_ lines: [String]) -> String {
        var text = ""
        for scalar in lines.map(\.escapingUnprintable).joined(separator: "\n").unicodeScalars {
            switch scalar {
            case "&": text += "&amp;"
            case "<": text += "&lt;"
            case ">": text += "&gt;"
            case "\"": text += "&quot;"
            case "\u{FFFE}", "\u{FFFF}": text += "\u{FFFD}"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

/// The durations of the phases of a session, for a report.
///
/// `@unchecked Sendable` is safe, because only one task at a time uses an object of this class.
final class PhaseTimes: @unchecked Sendable {
    struct Phase {
        let name: String
        var duration = Duration.zero
    }

    /// The name of the first phase. In this phase, before the session, the command reads the arguments, the keys and the file.
    static let preparation = "prepare"

    private var phases: [Phase]
    /// The index of the current phase.
    private(set) var current = 0
    /// The time at which the current phase began, and the time of the last event. Both are measured from the start of the session, on the
    /// session's clock.
    private var began = Duration.zero
    private var last = Duration.zero
    /// The time on the real clock at which the preparation began. After `beginSession()`, the time at which the session began.
    private var start = ContinuousClock.now
    private(set) var isInSession = false

    init() { phases = [Phase(name: Self.preparation)] }

    /// Ends the preparation and starts the session. The durations of the session's phases come from the times of the events.
    func beginSession() {
        phases[current].duration = start.duration(to: .now)
        isInSession = true
        start = .now
        begin(UpdatePhase.connect.rawValue)
    }

    /// Records an event of the session.
    ///
    /// - Parameter time: the time since the session started. The clock can be virtual.
    func record(_ progress: UpdateProgress, at time: Duration) {
        last = max(last, time)
        guard case .phase(let phase) = progress else { return }
        phases[current].duration += last - began
        began = last
        begin(phase.rawValue)
    }

    /// Returns the phases in the order of their first start. A repeated phase has the sum of its durations.
    func ended() -> [Phase] {
        var phases = phases
        // The session's clock is known only up to the last event, so the real clock measures the time after this event. If the session ran
        // in virtual time, the real clock can show an earlier time than the last event. Therefore the later of the two times is used.
        phases[current].duration += isInSession ? max(last, start.duration(to: .now)) - began : start.duration(to: .now)
        return phases
    }

    private func begin(_ name: String) {
        // A repeated phase, such as a second connection attempt, is not listed twice.
        if let known = phases.firstIndex(where: { $0.name == name }) {
            current = known
        } else {
            phases.append(Phase(name: name))
            current = phases.count - 1
        }
    }
}
