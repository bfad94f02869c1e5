/// An error of a store. Two errors are equal if their codes are equal.
public struct StoreError: Error, Sendable, Equatable {
    public enum Code: String, Sendable, CaseIterable {
        /// The store cannot be reached or opened, or another process has locked it for too long. A later try can succeed.
        case unavailable = "store-unavailable"
        /// The store does not have records any more that this process has read, for example because an older copy was restored.
        case recordsLost = "store-records-lost"
        /// The server of the store refused the credentials, or does not permit this user the operation.
        case accessRefused = "store-access-refused"
        /// The TLS connection to the server of the store failed: the server's certificate is not from a trusted CA, or has another name.
        case untrustedServer = "store-server-untrusted"
        /// The disk is full, or the store has reached its maximum size.
        case full = "store-full"
        /// The store is damaged, or the file is not a store.
        case corrupt = "store-corrupt"
        /// A later release of otaflash has written the store.
        case tooNew = "store-too-new"
        /// A record, an event or an object has more bytes than ``StoreLimits`` allows.
        case recordTooLarge = "record-too-large"
        /// The bytes of an object do not have the digest that is its name.
        case objectDamaged = "object-damaged"
    }

    /// The code of the error, for scripts. The codes do not change between releases.
    public let code: Code
    /// The description of the error for the user, without a full stop.
    public let context: String
    /// The recommended next step, without a full stop; nil if the only advice is to try again.
    public let hint: String?
    /// The message of the library or the server that caused the error; nil if the store itself found the error.
    public let cause: String?

    public init(_ code: Code, _ context: String, hint: String? = nil, cause: String? = nil) {
        self.code = code
        self.context = context
        self.hint = hint
        self.cause = cause
    }

    public static func == (left: StoreError, right: StoreError) -> Bool { left.code == right.code }
}
