/// A central's request to write a value, with or without response; bluetoothd does not report which. If the request is
/// released without an answer, the central gets the error `unlikely`.
public final class WriteRequest: Sendable {
    public let connection: PeripheralConnection
    public let attribute: LocalAttribute
    /// The offset in bytes. A value that does not fit into one request may be written in several, with increasing offsets.
    public let offset: Int
    /// The bytes, 512 at most.
    public let value: [UInt8]
    /// The ATT MTU of the link in bytes. Nil if bluetoothd did not report it.
    public let mtu: Int?
    /// The pending answer. Nil if the central does not wait for one.
    private let answer: Answer<Void>?

    init(
        _ connection: PeripheralConnection, _ attribute: LocalAttribute, offset: Int, _ value: [UInt8],
        mtu: Int? = nil, _ answer: Answer<Void>?
    ) {
        self.connection = connection
        self.attribute = attribute
        self.offset = offset
        self.value = value
        self.mtu = mtu
        self.answer = answer
    }

    /// Answers with success. Only the first answer counts. If the characteristic also supports writes without response,
    /// BlueZ 5.66 has already answered with success, and this answer is dropped.
    public func succeed() { answer?.give(.success(())) }

    public func fail(with error: AttributeError) { answer?.give(.failure(error)) }
}
