/// The number of signers of a file. The keys of each algorithm are counted, and the largest number is the number of signers: a signer can
/// have one key of each algorithm.
public struct SignerCount: Sendable, Equatable, CustomStringConvertible {
    /// The number of keys of each algorithm, in the order of `ImagePublicKey.Algorithm`.
    private let keys: [(algorithm: ImagePublicKey.Algorithm, count: Int)]

    package init(_ keys: some Sequence<ImagePublicKey>) {
        let numbers = Dictionary(grouping: keys, by: \.algorithm).mapValues(\.count)
        self.keys = ImagePublicKey.Algorithm.allCases.compactMap { algorithm in
            numbers[algorithm].map { (algorithm, $0) }
        }
    }

    public var signers: Int { keys.map(\.count).max() ?? 0 }

    /// The number of keys of each algorithm, as a text for the user, such as `1 Ed25519, 1 ML-DSA-65`. Nil if all keys have the same
    /// algorithm: the number of signers is then the number of keys.
    public var explanation: String? { keys.count > 1 ? description : nil }

    public var description: String { keys.map { "\($0.count) \($0.algorithm.name)" }.joined(separator: ", ") }

    /// The end of a message about the number of signers.
    var remark: String { explanation.map { " (the keys of each algorithm are counted: \($0))" } ?? "" }

    public static func == (left: SignerCount, right: SignerCount) -> Bool { left.description == right.description }
}
