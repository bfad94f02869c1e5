import OTASigning

/// Text as a shell takes it.
enum Shell {
    /// `text` as one word.
    static func quoted(_ text: String) -> String { text.shellQuoted }
}
