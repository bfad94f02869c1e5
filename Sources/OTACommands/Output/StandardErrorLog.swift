import Logging

/// The log of `--verbose`: one line on stderr for each message.
struct StandardErrorLog: LogHandler {
    var logLevel = Logger.Level.debug
    var metadata = Logger.Metadata()
    /// True to write one JSON object on each line, like the events of `--progress json`.
    let asEvents: Bool

    init(asEvents: Bool) { self.asEvents = asEvents }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let details = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
        let text = details.reduce(event.message.description) { "\($0) \($1.key)=\($1.value)" }
        let writer = StandardStream.error.writer
        guard asEvents else {
            try? writer.write(.line("otaflash: \(event.level): \(text)"))
            return
        }
        var object = ProgressEvent(.log, message: text)
        object.level = event.level.rawValue
        if let line = try? JSONLine(object) { try? writer.write(line) }
    }
}
