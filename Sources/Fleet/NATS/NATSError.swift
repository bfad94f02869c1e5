/// An error of a NATS operation. Two errors are equal if their `code` and `serverCode` are equal. The messages are not compared.
public struct NATSError: Error, Sendable, Equatable {
    /// The kind of an error. The raw values do not change between releases.
    public enum Code: String, Sendable, CaseIterable {
        /// The caller passed a malformed address, name, subject or header, or a file that cannot be read. Nothing was sent.
        case invalidArguments = "invalid-arguments"
        /// No server is reachable at the given addresses.
        case connectionFailed = "connection-failed"
        /// The server ended the connection before it sent its first message (INFO), or its first message is another one. The program at this
        /// address can be another server, or a proxy whose server does not run. A server with `handshake_first: true` in its configuration
        /// waits for a TLS handshake at this time. libnats 3.4 cannot start it before the first message.
        case noServerInformation = "no-server-information"
        /// The TLS handshake failed: the server or this program refused the TLS settings or the certificate of the other side.
        case tlsFailed = "tls-failed"
        /// The server refused the credentials, or they have expired.
        case authorizationFailed = "authorization-failed"
        /// The connection is interrupted, and the library tries to restore it. Nothing was sent.
        case notConnected = "not-connected"
        /// The connection was lost before the reply arrived. The server may have received the message.
        case disconnected
        /// This program closed the connection, or the server ended it for good.
        case closed
        /// No reply arrived in time. The server may have received the message.
        case timedOut = "timed-out"
        /// The Swift task was cancelled. The server may have received the message.
        case cancelled
        /// No program answers requests to the subject. For a bucket, either the bucket does not exist, or its servers are not ready.
        case noResponders = "no-responders"
        /// The server does not permit this user to publish to the subject, or to subscribe to it.
        case permissionDenied = "permission-denied"
        /// The message, record or object is larger than the limit.
        case tooLarge = "too-large"
        /// The stored value or message has another revision than the caller expected. The server has stored nothing.
        case conflict
        /// The server could not handle the request at this time, and has stored nothing. A later attempt can succeed.
        case tryAgain = "try-again"
        /// The stream or the bucket does not exist.
        case notFound = "not-found"
        /// A limit of the bucket, the account or the disk is reached.
        case storeFull = "store-full"
        /// A stream with this name already exists, but with other settings.
        case otherSettings = "other-settings"
        /// The received object does not match its size or its digest.
        case corruptObject = "corrupt-object"
        /// The messages of a subscription arrived faster than the program read them.
        case slowReader = "slow-reader"
        /// The server reported an error with the number ``NATSError/serverCode``.
        case serverError = "server-error"
        /// A received message is malformed.
        case protocolError = "protocol-error"
        /// No memory or thread is available.
        case resourcesExhausted = "resources-exhausted"
    }

    public var code: Code
    /// The number of a JetStream error (`err_code`), such as 10071; nil for other errors.
    public var serverCode: Int?
    /// A description of the error for the user, without a full stop at the end.
    public var message: String
    /// The text of the server or of the library that caused this error; nil if there is no such text.
    public var cause: String?

    public init(_ code: Code, _ message: String, cause: String? = nil, serverCode: Int? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
        self.serverCode = serverCode
    }

    /// True if the server may have received and handled the message. If false, the operation had no effect.
    public var isOutcomeUnknown: Bool {
        switch code {
        case .disconnected, .timedOut, .cancelled, .closed, .protocolError: true
        default: false
        }
    }

    public static func == (left: NATSError, right: NATSError) -> Bool {
        left.code == right.code && left.serverCode == right.serverCode
    }
}

extension NATSError: CustomStringConvertible {
    public var description: String {
        "\(code.rawValue): \(message)" + (cause.map { " (\($0))" } ?? "")
    }
}

extension NATSError {
    static var taskCancelled: NATSError { NATSError(.cancelled, "the task was cancelled") }
    static var notConnected: NATSError { NATSError(.notConnected, "the connection to the NATS server is interrupted") }
    static var disconnected: NATSError {
        NATSError(.disconnected, "the connection to the NATS server was lost before the reply arrived")
    }
    static var closed: NATSError { NATSError(.closed, "the connection to the NATS server is closed") }

    static func malformed(_ what: String, cause: String? = nil) -> NATSError {
        NATSError(.protocolError, "malformed \(what) from the NATS server", cause: cause)
    }
}
