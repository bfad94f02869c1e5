import CNATS
import Glibc

/// A message that was received.
public struct NATSMessage: Sendable {
    public var subject: String
    /// The subject for a reply; nil if no reply is expected.
    public var reply: String?
    public var headers: NATSHeaders
    public var payload: [UInt8]

    init(subject: String, reply: String? = nil, headers: NATSHeaders = NATSHeaders(), payload: [UInt8] = []) {
        self.subject = subject
        self.reply = reply
        self.headers = headers
        self.payload = payload
    }

    /// The status in the first line of the headers, such as 404 or 503; nil for a message without a status.
    var status: Int? { headers["Status"].flatMap { Int($0) } }
    /// The text after the status in the first line of the headers.
    var statusText: String? { headers["Description"] }
}

/// The headers of a message. Names are case-sensitive, as in the server.
public struct NATSHeaders: Sendable, ExpressibleByDictionaryLiteral {
    private(set) var values: [String: [String]] = [:]

    public init() {}

    public init(dictionaryLiteral elements: (String, String)...) {
        for (name, value) in elements { self[name] = value }
    }

    /// The first value with this name.
    public subscript(_ name: String) -> String? {
        get { values[name]?.first }
        set { values[name] = newValue.map { [$0] } }
    }

    /// True if each name and each value can be part of a header line. A name consists of visible ASCII characters without `:`. A value
    /// contains no ASCII control characters.
    var areWritable: Bool {
        values.allSatisfy { name, values in
            !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x3A }
                && values.allSatisfy { $0.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }
        }
    }
}

// MARK: - Messages of libnats

extension NATSMessage {
    /// Copies a message of libnats. Returns nil if its headers are malformed.
    init?(copying message: OpaquePointer) {
        guard let subject = natsMsg_GetSubject(message), let headers = NATSHeaders(copying: message) else { return nil }
        let reply = natsMsg_GetReply(message).map { String(cString: $0) }
        let bytes = UnsafeRawBufferPointer(
            start: natsMsg_GetData(message), count: Int(max(0, natsMsg_GetDataLength(message))))
        self.init(
            subject: String(cString: subject), reply: reply?.isEmpty == true ? nil : reply, headers: headers,
            payload: [UInt8](bytes))
    }

    /// Passes a new message of libnats to `body`, and destroys the message afterwards.
    static func withLibraryMessage(
        subject: String, reply: String?, headers: NATSHeaders, payload: [UInt8], _ body: (OpaquePointer) -> natsStatus
    ) -> natsStatus {
        var message: OpaquePointer?
        var status = payload.withUnsafeBytes { bytes in
            natsMsg_Create(
                &message, subject, reply, bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
                CInt(clamping: bytes.count))
        }
        guard status == NATS_OK, let message else { return status == NATS_OK ? NATS_NO_MEMORY : status }
        defer { natsMsg_Destroy(message) }
        for (name, values) in headers.values {
            for value in values where status == NATS_OK { status = natsMsgHeader_Add(message, name, value) }
        }
        return status == NATS_OK ? body(message) : status
    }
}

extension NATSHeaders {
    fileprivate init?(copying message: OpaquePointer) {
        var names: UnsafeMutablePointer<UnsafePointer<CChar>?>?
        var count: CInt = 0
        let status = natsMsgHeader_Keys(message, &names, &count)
        if status == NATS_NOT_FOUND { return }
        guard status == NATS_OK, let names else { return nil }
        // The message owns the strings, and this function must free the arrays.
        defer { free(names) }
        for index in 0..<Int(max(0, count)) {
            guard let name = names[index] else { return nil }
            var found: UnsafeMutablePointer<UnsafePointer<CChar>?>?
            var valueCount: CInt = 0
            guard natsMsgHeader_Values(message, name, &found, &valueCount) == NATS_OK, let found else { return nil }
            defer { free(found) }
            values[String(cString: name)] = (0..<Int(max(0, valueCount))).compactMap {
                found[$0].map { String(cString: $0) }
            }
        }
    }
}
