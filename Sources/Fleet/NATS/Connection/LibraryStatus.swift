import CNATS

/// Converts a status of libnats to an error.
extension NATSError {
    /// Creates the error for a status that is not `NATS_OK`.
    ///
    /// - Parameter what: the failed operation, as the start of the message.
    init(_ status: natsStatus, _ what: String, cause: String? = nil) {
        let code: Code =
            switch status {
            case NATS_NO_SERVER, NATS_IO_ERROR, NATS_TIMEOUT, NATS_STALE_CONNECTION: .connectionFailed
            case NATS_SSL_ERROR, NATS_SECURE_CONNECTION_WANTED, NATS_SECURE_CONNECTION_REQUIRED: .tlsFailed
            case NATS_CONNECTION_AUTH_FAILED: .authorizationFailed
            case NATS_NOT_PERMITTED: .permissionDenied
            case NATS_CONNECTION_CLOSED, NATS_INVALID_SUBSCRIPTION, NATS_DRAINING: .closed
            case NATS_CONNECTION_DISCONNECTED, NATS_INSUFFICIENT_BUFFER: .notConnected
            case NATS_MAX_PAYLOAD: .tooLarge
            case NATS_ADDRESS_MISSING, NATS_INVALID_SUBJECT, NATS_INVALID_ARG, NATS_INVALID_TIMEOUT: .invalidArguments
            case NATS_NO_MEMORY, NATS_SYS_ERROR, NATS_FAILED_TO_INITIALIZE: .resourcesExhausted
            case NATS_PROTOCOL_ERROR, NATS_LINE_TOO_LONG: .protocolError
            case NATS_NO_RESPONDERS: .noResponders
            default: .serverError
            }
        self.init(code, what, cause: cause ?? natsStatus_GetText(status).map { String(cString: $0) })
    }

    /// Returns the error for a status that a call to libnats returned on this thread; nil if the status is `NATS_OK`. The cause of the
    /// error is ``lastText``.
    static func last(_ status: natsStatus, _ what: String) -> NATSError? {
        status == NATS_OK ? nil : NATSError(status, what, cause: lastText)
    }

    /// The library's text for the last failed call on this thread; nil if there is no such text.
    static var lastText: String? {
        var status = NATS_OK
        guard let text = nats_GetLastError(&status), status != NATS_OK, text.pointee != 0 else { return nil }
        return String(cString: text)
    }
}
