/// A central reads a value. Dropped without an answer it is answered with `unlikely`.
public final class ReadRequest: Sendable {
    public let connection: PeripheralConnection
    public let attribute: LocalAttribute
    /// A value longer than what fits one answer is read with rising offsets.
    public let offset: Int
    private let answer: Answer<[UInt8]>

    init(
        _ connection: PeripheralConnection, _ attribute: LocalAttribute, offset: Int, _ answer: Answer<[UInt8]>
    ) {
        self.connection = connection
        self.attribute = attribute
        self.offset = offset
        self.answer = answer
    }

    /// The first answer counts.
    ///
    /// - Parameter value: the bytes from `offset` on, 512 of them at most.
    public func succeed(with value: [UInt8]) { answer.give(.success(value)) }

    public func fail(with error: AttributeError) { answer.give(.failure(error)) }
}
