extension LinkError {
    /// What a first connection is not tried again for.
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
