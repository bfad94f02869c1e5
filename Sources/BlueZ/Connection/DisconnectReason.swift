import DBus

/// Why a link ended. BlueZ before 5.83 tells nobody; then it is `unknown` unless it can be seen from here.
public enum DisconnectReason: String, Sendable {
    case unknown
    /// By this program.
    case requested
    /// Nothing was heard of the device for as long as the link allows.
    case timeout
    case endedByDevice = "ended-by-device"
    /// By another program on this machine.
    case endedByHost = "ended-by-host"
    case authentication
    case suspended
    case adapterOff = "adapter-off"
    case adapterRemoved = "adapter-removed"
    case serviceEnded = "bluetoothd-ended"

    /// The arguments of `Device1.Disconnected`.
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

    /// What the error of the connection machine says of it.
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
