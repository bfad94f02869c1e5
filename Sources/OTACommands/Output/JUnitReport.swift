import OTAFirmware
import OTAUpdate

/// The report of a push as JUnit XML. It has one test case for each phase, so that a CI service shows the failed phase and the durations.
struct JUnitReport {
    /// The beginning of each report.
    static let heading = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"otaflash\""

    /// The full name of the command, such as `push`.
    let command: String
    let phases: [PhaseTimes.Phase]
    /// The index of the phase in which the command ended.
    let current: Int
    /// The failure in the phase `current`; nil if the command succeeded.
    let failure: Failure?
    /// Names and values that describe the run, such as the device.
    let properties: [(name: String, value: String)]
    /// The result for the user.
    let lines: [TerminalLine]

    var text: String {
        let seconds = Self.seconds(phases.reduce(.zero) { $0 + $1.duration })
        let counts = [
            ("tests", "\(phases.count)"), ("failures", failure == nil ? "0" : "1"), ("errors", "0"),
            ("skipped", "0"), ("time", seconds),
        ]
        var text = Self.heading + Self.attributes(counts) + ">\n"
        text += "  <testsuite" + Self.attributes([("name", "otaflash \(command)")] + counts) + ">\n    <properties>\n"
        for property in properties {
            text += "      <property" + Self.attributes([("name", property.name), ("value", property.value)]) + "/>\n"
        }
        text += "    </properties>\n"
        for (index, phase) in phases.enumerated() {
            text +=
                "    <testcase"
                + Self.attributes([
                    ("classname", "otaflash.\(command)"), ("name", phase.name), ("time", Self.seconds(phase.duration)),
                ])
            let contents = index == current ? outcome : ""
            text += contents.isEmpty ? "/>\n" : ">\n\(contents)    </testcase>\n"
        }
        return text + "  </testsuite>\n</testsuites>"
    }

    /// The elements of the test case for the phase in which the command ended: the failure, or the result for the user.
    private var outcome: String {
        guard let failure else {
            let output = lines.map { $0.rendered(hasColours: false) }
            return output.isEmpty ? "" : "      <system-out>\(Self.escaped(output))</system-out>\n"
        }
        let attributes = Self.attributes([("type", failure.code), ("message", failure.message)])
        let hints = failure.hints.map { "hint: \($0)" }
        return "      <failure\(attributes)>\(Self.escaped(hints))</failure>\n"
    }

    private static func seconds(_ duration: Duration) -> String { Figures.decimal(duration.seconds, places: 3) }

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

/// The durations of the phases of a session, for a report. Only one task at a time uses it.
final class PhaseTimes: @unchecked Sendable {
    struct Phase {
        let name: String
        var duration = Duration.zero
    }

    /// The first phase: reading the arguments, the keys and the file, before the session.
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
    private var isInSession = false

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
        // The time of the session is known only up to the last event, so the real clock measures the rest. In virtual time, the real clock
        // can show an earlier time than the last event. Therefore the later of the two times is used.
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
