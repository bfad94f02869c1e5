import BlueZ
import OTABlueZ
import OTAUpdate

extension Failure {
    /// Converts an error of a Bluetooth command that runs no session, such as `gatt`. The codes are those of a session.
    init(_ error: BlueZError, in invocation: Invocation) {
        let link = LinkError(error)
        let again = invocation.line()
        let (exit, hint): (ExitStatus, String) =
            switch link.code {
            case .unavailable: (.unavailable, Self.machineAdvice)
            case .noSuchDevice: (.unavailable, Self.whereToLook)
            case .inUse: (.unavailable, "wait until the other program has ended, then run: \(again)")
            case .timedOut, .lost: (.linkLost, "check that the device is switched on and near, then run: \(again)")
            case .refused:
                (
                    .protocolBroken,
                    "list the services of the device: otaflash gatt services \(invocation.bluetoothDevice ?? "ble:ADDRESS")"
                )
            case .notPermitted: (.refused, Self.pairingAdvice(again))
            }
        self.init(link.code.rawValue, exit, error.context, hint: hint)
    }

    /// The hint for a machine without usable Bluetooth.
    static var machineAdvice: String { "find the missing part and the command that fixes it: otaflash doctor" }

    /// The hint for a Bluetooth device that was not found.
    static var whereToLook: String {
        "check that the device is switched on and in range; find its address: otaflash scan"
    }

    /// The hint for a device that demands pairing.
    static func pairingAdvice(_ again: String) -> String {
        "the device demands pairing: enter its six-digit passkey at the prompt, or run: \(again) --passkey NNNNNN"
    }
}
