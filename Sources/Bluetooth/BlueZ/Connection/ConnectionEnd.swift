import DBus

/// The end of a link, with its reason.
public struct ConnectionEnd: Sendable, Equatable {
    public let reason: DisconnectReason
    /// The error that all operations on the connection throw after the end of the link.
    public let error: BlueZError
}

/// The reason for the end of a link. bluetoothd reports the reason since BlueZ 5.83. With an older bluetoothd, this program can
/// determine only some reasons. The reason is then `unknown` in all other cases.
public enum DisconnectReason: String, Sendable {
    case unknown
    /// This program ended the link, or its use of a shared link.
    case requested
    /// The adapter received no packet from the device within the supervision timeout of the link.
    case timeout
    case endedByDevice = "ended-by-device"
    /// Another program on this machine ended the link.
    case endedByHost = "ended-by-host"
    case authentication
    case suspended
    case adapterOff = "adapter-off"
    case adapterRemoved = "adapter-removed"
    case serviceEnded = "bluetoothd-ended"

    /// Reads the arguments of the signal `Device1.Disconnected`.
    init(_ arguments: [DBusValue]) {
        self =
            switch arguments.first?.string {
            case "org.bluez.Reason.Timeout": .timeout
            case "org.bluez.Reason.Local": .endedByHost
            case "org.bluez.Reason.Remote": .endedByDevice
            case "org.bluez.Reason.Authentication": .authentication
            case "org.bluez.Reason.Suspend": .suspended
            default: .unknown
            }
    }

    /// Derives the reason from an error of the connection machine.
    init(_ error: BlueZError) {
        self =
            switch error.code {
            case .adapterOff: .adapterOff
            case .noSuchAdapter: .adapterRemoved
            case .serviceUnavailable, .busUnavailable: .serviceEnded
            default: .unknown
            }
    }
}
