import Logging

/// The log of `--verbose`: a line on stderr for each message.
struct StandardErrorLog: LogHandler {
    var logLevel = Logger.Level.debug
    var metadata = Logger.Metadata()
    /// One JSON object a line, as the progress is.
    let asEvents: Bool

    init(asEvents: Bool) { self.asEvents = asEvents }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let details = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
        let text = details.reduce(event.message.description) { "\($0) \($1.key)=\($1.value)" }.printable
        var line = "otaflash: \(event.level): \(text)"
        if asEvents {
            var object = ProgressEvent(.log, message: text)
            object.level = event.level.rawValue
            guard let json = try? JSON.line(object) else { return }
            line = json
        }
        try? StandardStream.error.write(line + "\n")
    }
}
