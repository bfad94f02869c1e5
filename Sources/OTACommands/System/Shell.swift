import OTASigning
import SystemPackage

/// Formats text for a shell.
enum Shell {
    /// Quotes a text, so that a shell reads it as one word.
    static func quoted(_ text: String) -> String { text.shellQuoted }

    /// Returns the command that sets a variable to a list of paths, separated by `:`. A relative path becomes an absolute path in the
    /// current directory; `~` becomes the home directory.
    static func export(_ variable: String, _ paths: [FilePath]) -> String {
        let list = paths.map { path in
            let text = path.string
            let isInHome = text == "~" || text.hasPrefix("~/")
            let rest = (isInHome ? text.dropFirst() : text[...]).map { "\"$`\\".contains($0) ? "\\\($0)" : "\($0)" }
                .joined()
            return path.isAbsolute ? rest : isInHome ? "$HOME\(rest)" : "$PWD/\(rest)"
        }
        let tilde = paths.contains { $0.string.hasPrefix("~") } ? "; the shell does not expand ~ inside quotes" : ""
        return "export \(variable)=\"\(list.joined(separator: ":"))\"\(tilde)"
    }
}
