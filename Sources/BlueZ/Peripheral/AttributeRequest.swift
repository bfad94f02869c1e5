import DBus
import DescriptorIO

/// A central's request to read a value. If the request is released without an answer, the central gets the error
/// `unlikely`.
public final class ReadRequest: Sendable {
    public let connection: PeripheralConnection
    public let attribute: LocalAttribute
    /// The offset in bytes. A value that does not fit into one response is read with increasing offsets.
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

    /// Answers with a value. Only the first answer counts.
    ///
    /// - Parameter value: the bytes from `offset` on, 512 at most.
    public func succeed(with value: [UInt8]) { answer.give(.success(value)) }

    public func fail(with error: AttributeError) { answer.give(.failure(error)) }
}

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

    /// Answers with success. Only the first answer counts. If the characteristic also supports writes without response,
    /// BlueZ 5.66 has already answered with success, and this answer is dropped.
    public func succeed() { answer?.give(.success(())) }

    public func fail(with error: AttributeError) { answer?.give(.failure(error)) }
}

/// Resumes the waiting task exactly once, also if no answer is given.
final class PeripheralAnswer<Value: Sendable>: Sendable {
    typealias Waiting = CheckedContinuation<Result<Value, AttributeError>, Never>
    private let waiting: Guarded<Waiting?>

    init(_ waiting: Waiting) { self.waiting = Guarded(waiting) }

    deinit { give(.failure(.unlikely)) }

    func give(_ answer: Result<Value, AttributeError>) { waiting.exchange(nil)?.resume(returning: answer) }
}

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

extension AttributeError {
    /// The D-Bus error that BlueZ 5.66 converts to this code (`dbus_error_to_att_ecode` in `src/gatt-database.c`). Each
    /// conversion was sent and checked on a central. BlueZ has names for some codes and transfers 0x80 to 0x9F as numbers.
    /// A central gets all other codes, including 0xFC and 0xFD, as 0x0E, "unlikely error".
    var asDBusError: DBusError {
        let (name, message) =
            switch code {
            // bluetoothd selects the code that matches the request: read or write.
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
