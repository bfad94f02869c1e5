import DescriptorIO
import Logging
import OTAClient

/// The log of a command. `--verbose` writes the log to stderr. `output` gets the log and each frame.
struct CommandLog: LogHandler {
    var logLevel: Logger.Level
    var metadata = Logger.Metadata()
    /// True if the entries of level `debug` and all higher levels are written to stderr.
    let isVerbose: Bool
    /// True if each log entry on stderr is a JSON object on one line, like the events of `--progress json`.
    let asEvents: Bool
    /// The address of the device in each JSON object; nil if the command has no device or several devices.
    let device: String?
    let output: (any LogOutput)?

    /// The key of the metadata with the device of an entry, if the command has several devices. The entry then names the device first.
    static let deviceKey = "device"

    /// Held while an entry is written, so that the log and stderr have the entries of all devices in the same order.
    private static let writing = Lock()

    init(_ settings: OutputSettings, asEvents: Bool, output: (any LogOutput)?) {
        logLevel = output == nil ? .debug : .trace
        isVerbose = settings.isVerbose
        self.asEvents = asEvents
        device = settings.device
        self.output = output
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var details = metadata.merging(event.metadata ?? [:]) { $1 }
        let named = details.removeValue(forKey: Self.deviceKey)?.description
        let text = details.sorted { $0.key < $1.key }
            .reduce(event.message.description) { "\($0) \($1.key)=\($1.value)" }
        let entry = LogEntry(level: event.level.rawValue, device: named, text: text)
        Self.writing.locked { write(entry, ofLevel: event.level) }
    }

    private func write(_ entry: LogEntry, ofLevel level: Logger.Level) {
        output?.write(entry)
        guard isVerbose, level >= .debug else { return }
        let writer = StandardStream.error.writer
        guard asEvents else {
            try? writer.write(.line("otaflash: \(level): \(entry.device.map { "\($0): " } ?? "")\(entry.text)"))
            return
        }
        var object = ProgressEvent(.log, message: entry.text)
        object.device = (entry.device ?? device).map { GivenDevice(given: $0) }
        object.level = entry.level
        if let line = try? JSONLine(object) { try? writer.write(line) }
    }
}

/// Formats the arguments of a command for its log.
package enum LoggedArguments {
    /// The options whose value is a secret.
    private static let secret = ["--passkey"]

    /// Returns the command line, with `***` in place of each secret.
    package static func text(_ arguments: [String]) -> String {
        var words: [String] = []
        for word in arguments {
            if let last = words.last, secret.contains(last) {
                words.append("***")
            } else if let option = secret.first(where: { word.hasPrefix($0 + "=") }) {
                words.append(option + "=***")
            } else if let pin = word.firstRange(of: "pin-value=") {
                // otaflash refuses a PIN in a PKCS#11 URI, but the log contains the arguments of a refused command, too.
                words.append(Shell.quoted(String(word[..<pin.upperBound])) + "***")
            } else {
                words.append(Shell.quoted(word))
            }
        }
        return (["otaflash"] + words).joined(separator: " ")
    }

    /// The names and values of the environment variables that change the effect of a command, as text for the log. None of these variables
    /// contains a secret.
    static var environment: String {
        let names = [
            "OTAFLASH_TRUST", "OTAFLASH_BASES", "OTAFLASH_STATE_DIR", "OTAFLASH_PKCS11_MODULE", "XDG_RUNTIME_DIR",
            "DBUS_SYSTEM_BUS_ADDRESS", "LANG",
        ]
        return names.compactMap { name in Environment.value(name).map { "\(name)=\(Shell.quoted($0))" } }
            .joined(separator: " ")
    }
}
