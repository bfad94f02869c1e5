import DescriptorIO

/// The warnings of a command, or of one of several devices, for the result.
final class Warnings: Sendable {
    private let list = Guarded<[String]>([])

    /// Adds a warning, unless the list has it already.
    func add(_ text: String) {
        list.with { if !$0.contains(text) { $0.append(text) } }
    }

    /// The warnings in the order of their first occurrence; nil if there are none.
    var texts: [String]? {
        let texts = list.with { $0 }
        return texts.isEmpty ? nil : texts
    }
}
