/// A central writes a value, with response or without: bluetoothd does not tell which. Dropped without an answer it is answered
/// with `unlikely`.
public final class WriteRequest: Sendable {
    public let connection: PeripheralConnection
    public let attribute: LocalAttribute
    /// A value longer than what fits one request may be written with rising offsets.
    public let offset: Int
    /// 512 bytes at most.
    public let value: [UInt8]
    /// The link's ATT MTU in bytes; nil where bluetoothd did not tell.
    public let mtu: Int?
    /// Nil: nobody waits for it.
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

    /// The first answer counts. Where a characteristic also takes writes without response BlueZ 5.66 has answered already, with
    /// success, and this reaches nobody.
    public func succeed() { answer?.give(.success(())) }

    public func fail(with error: AttributeError) { answer?.give(.failure(error)) }
}
