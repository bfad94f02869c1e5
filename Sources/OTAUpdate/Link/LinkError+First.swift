extension LinkError {
    /// The error code that ends a session at its first connection, without a retry; nil: the connection is retried.
    package var finalAtFirst: UpdateError.Code? {
        switch code {
        case .unavailable: .linkUnavailable
        case .noSuchDevice: .noSuchDevice
        case .inUse: .deviceInUse
        case .notPermitted: .notPermitted
        case .timedOut, .lost, .refused: nil
        }
    }
}
