import DescriptorIO

/// The warnings of a command, or of one of several devices, for the result.
final class Warnings: Sendable {
    /// The maximum number of warnings: a gateway runs for years, and the records of others cause some of its warnings.
    private static let most = 100
    private let list = Guarded<[String]>([])

    /// Adds a warning, unless the list has it already or is full.
    func add(_ text: String) {
        list.with { if $0.count < Self.most, !$0.contains(text) { $0.append(text) } }
    }

    /// The first 100 warnings in the order of their first occurrence; nil if there are none.
    var texts: [String]? {
        let texts = list.with { $0 }
        return texts.isEmpty ? nil : texts
    }
}
