/// An error code of the Attribute Protocol, which a device returns for a failed read or write (Bluetooth Core Specification, volume 3,
/// part F, 3.4.1.1).
public struct ATTError: Error, Sendable, Hashable {
    public let code: UInt8

    public init(code: UInt8) { self.code = code }

    public static let readNotPermitted = ATTError(code: 0x02)
    public static let writeNotPermitted = ATTError(code: 0x03)
    public static let insufficientAuthentication = ATTError(code: 0x05)
    public static let attributeNotFound = ATTError(code: 0x0A)
    /// Unlikely Error. The simulator also uses it when the device has no such connection.
    public static let unlikely = ATTError(code: 0x0E)

    /// Whether the device requires a bond: insufficient authentication, authorization, key size or encryption.
    public var demandsBond: Bool { [0x05, 0x08, 0x0C, 0x0F].contains(code) }
}
