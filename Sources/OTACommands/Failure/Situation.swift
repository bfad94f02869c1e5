/// What the user named, for hints that can be typed as they stand.
package struct Situation: Sendable {
    /// The command's name, such as `push`.
    package var command: String
    /// The bundle, image or key that the command is about.
    package var file: String?
    package var device: String?

    package init(command: String, file: String? = nil, device: String? = nil) {
        self.command = command
        self.file = file
        self.device = device
    }

    /// This command once more, with something added or another verb.
    func line(_ verb: String? = nil, withFile: Bool = true, adding extra: String = "") -> String {
        var words = ["otaflash", verb ?? command]
        if withFile, let file { words.append(Shell.quoted(file)) }
        if let device { words += ["--device", Shell.quoted(device)] }
        if !extra.isEmpty { words.append(extra) }
        return words.joined(separator: " ")
    }
}
