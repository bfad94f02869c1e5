import CNATS
import Glibc

/// The options of a connection, as an object of libnats. This class owns the libnats object.
final class LibraryOptions {
    let pointer: OpaquePointer

    deinit { natsOptions_Destroy(pointer) }

    /// - Parameters:
    ///   - receiver: the receiver of the connection's events, as the number that `LibraryEvents.add` returned.
    ///   - credentials: the file of the user, as the number that `LibraryCredentials.add` returned; nil: no user.
    init(_ options: NATSOptions, receiver: UInt, credentials: UInt?) throws(NATSError) {
        try options.check()
        var created: OpaquePointer?
        guard natsOptions_Create(&created) == NATS_OK, let created else {
            throw NATSError(.resourcesExhausted, "no memory for a connection to a NATS server")
        }
        pointer = created
        try setServers(options)
        try setTimes(options)
        try setSecurity(options, credentials)
        let context = LibraryEvents.context(receiver)
        try set(natsOptions_SetErrorHandler(pointer, LibraryEvents.onError, context))
        try set(natsOptions_SetClosedCB(pointer, LibraryEvents.onClosed, context))
        try set(natsOptions_SetDisconnectedCB(pointer, LibraryEvents.onDisconnected, context))
        try set(natsOptions_SetReconnectedCB(pointer, LibraryEvents.onReconnected, context))
        // With this setting, one thread of the library delivers the messages of all subscriptions. Without it, each subscription has its
        // own thread.
        try set(natsOptions_UseGlobalMessageDelivery(pointer, true))
    }

    private func set(_ status: natsStatus) throws(NATSError) {
        if let error = NATSError.last(status, "the settings of the connection are not valid") { throw error }
    }

    private func setServers(_ options: NATSOptions) throws(NATSError) {
        let copies = options.servers.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        var servers = copies.map { UnsafePointer<CChar>($0) }
        try set(natsOptions_SetServers(pointer, &servers, CInt(clamping: servers.count)))
        try set(natsOptions_SetName(pointer, options.name))
    }

    private func setTimes(_ options: NATSOptions) throws(NATSError) {
        try set(natsOptions_SetTimeout(pointer, Self.milliseconds(options.connectTimeout)))
        try set(natsOptions_SetPingInterval(pointer, Self.milliseconds(options.pingInterval)))
        try set(natsOptions_SetMaxPingsOut(pointer, 2))
        try set(natsOptions_SetWriteDeadline(pointer, Self.milliseconds(options.writeDeadline)))
        // By default, the library closes the connection for good after 60 attempts for each server.
        try set(natsOptions_SetMaxReconnect(pointer, CInt.max))
        let wait = Self.milliseconds(options.reconnectWait)
        try set(natsOptions_SetReconnectWait(pointer, wait))
        try set(natsOptions_SetReconnectJitter(pointer, wait, wait))
        // By default, the library accepts up to 8 MiB of messages while it is not connected, and sends them later. With 0, it refuses a
        // message with an error, and the caller knows that this message will not be sent.
        try set(natsOptions_SetReconnectBufSize(pointer, 0))
        try set(natsOptions_SetFailRequestsOnDisconnect(pointer, true))
    }

    private func setSecurity(_ options: NATSOptions, _ credentials: UInt?) throws(NATSError) {
        if options.certificateAuthority != nil || options.servers.contains(where: { $0.hasPrefix("tls://") }) {
            try set(natsOptions_SetSecure(pointer, true))
        }
        if let file = options.certificateAuthority {
            try Self.checkReadable(file, "the file with the certificates of the CAs")
            try set(natsOptions_LoadCATrustedCertificates(pointer, file))
        }
        guard let file = options.credentials, let credentials else { return }
        let user = try NKey.User(file: file)
        let context = LibraryEvents.context(credentials)
        if user.token == nil {
            try set(natsOptions_SetNKey(pointer, user.key, LibraryCredentials.onSign, context))
        } else {
            try set(
                natsOptions_SetUserCredentialsCallbacks(
                    pointer, LibraryCredentials.onToken, context, LibraryCredentials.onSign, context))
        }
    }

    private static func checkReadable(_ file: String, _ what: String) throws(NATSError) {
        guard access(file, R_OK) == 0 else {
            throw NATSError(
                .invalidArguments, "\(what) cannot be read: \(file)", cause: strerror(errno).map { String(cString: $0) }
            )
        }
    }

    static func milliseconds(_ duration: Duration) -> Int64 {
        max(1, Int64(min(duration, .seconds(86_400)) / .milliseconds(1)))
    }
}
