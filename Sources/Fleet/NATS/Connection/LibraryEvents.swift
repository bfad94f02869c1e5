import CNATS
import DescriptorIO

/// An event that libnats reports with a callback.
enum LibraryEvent: Sendable {
    case message(NATSMessage)
    /// A message with malformed headers arrived.
    case malformedMessage(subject: String)
    case disconnected
    case reconnected
    /// The connection ended for good. The text is the library's last error.
    case closed(String)
    /// An error that is not the result of a call to libnats, with the library's text. Example: the server refused a message.
    case failed(natsStatus, String)
}

/// The receivers of the callbacks of libnats.
///
/// libnats runs the callbacks on its own threads, and a callback can still run after the end of its subscription. Therefore a callback gets
/// the number of its receiver, never a pointer to an object. A callback for a removed receiver does nothing.
enum LibraryEvents {
    typealias Receiver = @Sendable (LibraryEvent) -> Void

    private static let receivers = Guarded(NumberedTable<Receiver>())

    /// Adds a receiver and returns its number.
    static func add(_ receiver: @escaping Receiver) -> UInt { receivers.with { $0.add(receiver) } }

    static func remove(_ number: UInt) { receivers.with { $0[number] = nil } }

    fileprivate static func post(_ event: LibraryEvent, to context: UnsafeMutableRawPointer?) {
        let number = UInt(bitPattern: context)
        // The receiver runs outside the lock, because it may resume a task that removes a receiver.
        receivers.with { $0[number] }?(event)
    }

    /// Returns the receiver's number in the form of a pointer. libnats passes this pointer to each callback, as the argument `closure`.
    static func context(_ number: UInt) -> UnsafeMutableRawPointer? { UnsafeMutableRawPointer(bitPattern: number) }

    static let onMessage: natsMsgHandler = { _, _, message, context in
        guard let message else { return }
        defer { natsMsg_Destroy(message) }
        if let copy = NATSMessage(copying: message) {
            post(.message(copy), to: context)
        } else {
            post(.malformedMessage(subject: natsMsg_GetSubject(message).map { String(cString: $0) } ?? ""), to: context)
        }
    }
    static let onDisconnected: natsConnectionHandler = { _, context in post(.disconnected, to: context) }
    static let onReconnected: natsConnectionHandler = { _, context in post(.reconnected, to: context) }
    static let onClosed: natsConnectionHandler = { connection, context in
        var text: UnsafePointer<CChar>?
        let status = natsConnection_GetLastError(connection, &text)
        post(.closed(status == NATS_OK ? "" : text.map { String(cString: $0) } ?? ""), to: context)
    }
    static let onError: natsErrHandler = { _, _, status, context in
        post(.failed(status, NATSError.lastText ?? ""), to: context)
    }
}

/// Values with numbers. A number is never used again.
struct NumberedTable<Value> {
    private var values: [UInt: Value] = [:]
    private var last: UInt = 0

    /// Adds a value, and returns its number.
    mutating func add(_ value: Value) -> UInt {
        last += 1
        values[last] = value
        return last
    }

    subscript(number: UInt) -> Value? {
        get { values[number] }
        set { values[number] = newValue }
    }
}
