/// A central's request to read a value. If the request is released without an answer, the central gets the error
/// `unlikely`.
public final class ReadRequest: Sendable {
    public let connection: PeripheralConnection
    public let attribute: LocalAttribute
    /// The offset in bytes. A value that does not fit into one response is read with increasing offsets.
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

    /// Answers with a value. Only the first answer counts.
    ///
    /// - Parameter value: the bytes from `offset` on, 512 at most.
    public func succeed(with value: [UInt8]) { answer.give(.success(value)) }

    public func fail(with error: AttributeError) { answer.give(.failure(error)) }
}
