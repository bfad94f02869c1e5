/// An error that a handler returns for a read or a write: an error code of the Attribute Protocol (Core Specification, Vol
/// 3, Part F, 3.4.1.1).
public struct AttributeError: Error, Sendable, Hashable {
    public let code: UInt8

    public init(code: UInt8) { self.code = code }

    public static let readNotPermitted = AttributeError(code: 0x02)
    public static let writeNotPermitted = AttributeError(code: 0x03)
    public static let requestNotSupported = AttributeError(code: 0x06)
    public static let invalidOffset = AttributeError(code: 0x07)
    public static let insufficientAuthorization = AttributeError(code: 0x08)
    public static let invalidLength = AttributeError(code: 0x0D)
    public static let unlikely = AttributeError(code: 0x0E)
    public static let procedureInProgress = AttributeError(code: 0xFE)
}
