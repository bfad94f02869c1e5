/// What a bundle is for: it equals the name the device gives itself, byte for byte.
public struct ProductName: Sendable, Hashable, CustomStringConvertible {
    /// What a text must be, for people.
    public static let rule = "1 to 63 characters of A-Z a-z 0-9 . _ -, such as acme-thermostat"

    public let text: String

    /// Nil unless `text` obeys the `rule`.
    public init?(_ text: some StringProtocol) {
        guard (1...63).contains(text.utf8.count),
            text.utf8.allSatisfy({ $0.isASCIILetterOrDigit || ".-_".utf8.contains($0) })
        else { return nil }
        self.text = String(text)
    }

    public var description: String { text }
}
