import DBus
import DescriptorIO

/// A central's request to read a value. If the last reference to the request is released without an answer, the central gets the error
/// ``AttributeError/unlikely``.
public final class ReadRequest: Sendable {
    public let connection: PeripheralConnection
    public let attribute: LocalAttribute
    /// The offset of the first requested byte in the value. A central reads a long value with several requests and increasing
    /// offsets.
    public let offset: Int
    private let answer: PeripheralAnswer<[UInt8]>

    init(
        _ connection: PeripheralConnection, _ attribute: LocalAttribute, offset: Int,
        _ answer: PeripheralAnswer<[UInt8]>
    ) {
        self.connection = connection
        self.attribute = attribute
        self.offset = offset
        self.answer = answer
    }

    /// Answers the request with a value. Only the first answer to a request has an effect.
    ///
    /// - Parameter value: the bytes from `offset` to the end of the attribute's value, at most 512 bytes.
    public func succeed(with value: [UInt8]) { answer.give(.success(value)) }

    /// Answers the request with an error. Only the first answer to a request has an effect.
    public func fail(with error: AttributeError) { answer.give(.failure(error)) }
}

/// A central's request to write a value. bluetoothd does not report whether the central wants a response. If the last reference to the
/// request is released without an answer, the central gets the error ``AttributeError/unlikely``. Exception: if the characteristic also
/// supports writes without response, no answer has an effect (``succeed()``).
public final class WriteRequest: Sendable {
    public let connection: PeripheralConnection
    public let attribute: LocalAttribute
    /// The offset of the first written byte in the attribute's value. A central may write a long value with several requests and
    /// increasing offsets.
    public let offset: Int
    /// The written bytes, at most 512.
    public let value: [UInt8]
    /// The ATT MTU of the link in bytes; nil if bluetoothd did not report the MTU.
    public let mtu: Int?
    /// The maximum length in bytes of a notification that arrives complete at this central: MTU − 5, and at most 512. If the MTU is
    /// unknown, the minimum MTU of 23 applies.
    ///
    /// The header of a notification has three bytes. Some centrals accept several notifications in one packet. For these centrals, BlueZ
    /// 5.66 adds a length field of two bytes to each notification, even if a packet contains only one notification. BlueZ truncates a value
    /// that does not fit in the remaining bytes.
    public var maximumNotificationLength: Int { min(max(23, mtu ?? 23) - 5, 512) }
    /// The pending answer; nil if bluetoothd does not wait for an answer.
    private let answer: PeripheralAnswer<Void>?

    init(
        _ connection: PeripheralConnection, _ attribute: LocalAttribute, offset: Int, _ value: [UInt8],
        mtu: Int? = nil, _ answer: PeripheralAnswer<Void>?
    ) {
        self.connection = connection
        self.attribute = attribute
        self.offset = offset
        self.value = value
        self.mtu = mtu
        self.answer = answer
    }

    /// Answers the request with success. Only the first answer to a request has an effect. If the characteristic also supports writes
    /// without response, no answer has an effect, because BlueZ 5.66 has already reported success to the central.
    public func succeed() { answer?.give(.success(())) }

    /// Answers the request with an error. Only the first answer to a request has an effect. If the characteristic also supports writes
    /// without response, no answer has an effect (see ``succeed()``).
    public func fail(with error: AttributeError) { answer?.give(.failure(error)) }
}

/// Resumes the waiting task exactly once. If this object is released without an answer, the task gets the error `unlikely`.
final class PeripheralAnswer<Value: Sendable>: Sendable {
    typealias Waiting = CheckedContinuation<Result<Value, AttributeError>, Never>
    private let waiting: Guarded<Waiting?>

    init(_ waiting: Waiting) { self.waiting = Guarded(waiting) }

    deinit { give(.failure(.unlikely)) }

    func give(_ answer: Result<Value, AttributeError>) { waiting.exchange(nil)?.resume(returning: answer) }
}

/// An error code of the Attribute Protocol, as the answer to a read or a write (Core Specification, Vol 3, Part F, 3.4.1.1).
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

extension AttributeError {
    /// The D-Bus error that BlueZ 5.66 converts to this code (`dbus_error_to_att_ecode` in `src/gatt-database.c`).
    ///
    /// Some codes have an error name of their own. For all other codes, the name is `Failed`, and the message is the code as a hexadecimal
    /// number, such as `0x80`. BlueZ accepts the numbers 0x80 to 0x9F. For any other number, such as 0xFC or 0xFD, the central gets 0x0E
    /// ("unlikely error"). Each conversion was checked with a central.
    var asDBusError: DBusError {
        let (name, message) =
            switch code {
            // bluetoothd converts `NotPermitted` to 0x02 for a read and to 0x03 for a write.
            case 0x02, 0x03: ("NotPermitted", "not permitted")
            case 0x06: ("NotSupported", "not supported")
            case 0x07: ("InvalidOffset", "invalid offset")
            case 0x08: ("NotAuthorized", "not authorized")
            case 0x0D: ("InvalidValueLength", "invalid length")
            case 0xFE: ("InProgress", "in progress")
            default: ("Failed", "0x" + String(code, radix: 16))
            }
        return .remote("org.bluez.Error." + name, message)
    }
}
