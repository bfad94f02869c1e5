package import BlueZ
package import OTAUpdate

extension LinkError {
    /// Maps a Bluetooth error to a link error. No other code does this.
    package init(_ error: BlueZError) {
        let code: Code =
            switch error.code {
            case .busUnavailable, .serviceUnavailable, .accessDenied, .noSuchAdapter, .adapterOff: .unavailable
            case .noSuchDevice, .ambiguousDevice: .noSuchDevice
            case .timedOut: .timedOut
            case .notPaired, .pairingFailed: .notPermitted
            case .acquiredElsewhere: .inUse
            case .notPermitted, .noSuchObject, .invalidLength, .attributeError, .notSupported, .invalidArguments:
                .refused
            case .connectionFailed, .disconnected, .inProgress, .alreadyDone, .unexpectedReply, .failed, .cancelled:
                .lost
            }
        self.init(code, error.context)
    }

    /// Creates the error for a link that was connected and has ended.
    init(lost end: ConnectionEnd) {
        self.init(.lost, end.reason == .unknown ? end.error.context : "\(end.error.context) (\(end.reason.rawValue))")
    }
}
