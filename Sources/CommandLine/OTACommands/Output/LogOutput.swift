import FoundationEssentials
import Glibc

/// The destination of the log of a command: the file of `--log`, or the memory of a push without `--log`.
package protocol LogOutput: AnyObject, Sendable {
    func write(_ entry: LogEntry)
}

/// One line of a log.
package struct LogEntry: Sendable {
    private static let process = getpid()

    let time = Date.now
    /// The level of a message, such as `debug`, or the kind of an output, such as `warning`, `result` or `exit`.
    let level: String
    /// The device, if the command has several devices and the line is about one of them.
    let device: String?
    let text: String

    package init(level: String, device: String?, text: String) {
        (self.level, self.device, self.text) = (level, device, text)
    }

    /// The line in a file, with a line feed. Unprintable characters are escaped.
    var line: String {
        let time = time.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        let name = device.map { "\($0): " } ?? ""
        return TerminalLine("\(time) \(Self.process) \(level): \(name)\(text)").rendered(hasColours: false) + "\n"
    }
}
