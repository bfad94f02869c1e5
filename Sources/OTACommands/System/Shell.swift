import OTASigning
import SystemPackage

/// Text as a shell takes it.
enum Shell {
    /// `text` as one word.
    static func quoted(_ text: String) -> String { text.shellQuoted }

    /// The command that sets a variable to these paths, with `:` between. A relative path becomes an absolute one, below the current
    /// directory or, after `~/`, the home.
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
