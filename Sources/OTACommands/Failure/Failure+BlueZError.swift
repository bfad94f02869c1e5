import BlueZ
import OTABlueZ
import OTAUpdate

extension Failure {
    /// Of a command that speaks Bluetooth without a session: under the codes that a session has for the same.
    init(_ error: BlueZError, in invocation: Invocation) {
        let link = LinkError(error)
        let again = invocation.line()
        let (exit, hint): (ExitStatus, String) =
            switch link.code {
            case .unavailable: (.unavailable, Self.machineAdvice)
            case .noSuchDevice: (.unavailable, Self.whereToLook)
            case .inUse: (.unavailable, "wait for the other program to end, then type: \(again)")
            case .timedOut, .lost: (.linkLost, "see that it is switched on and near, then type: \(again)")
            case .refused:
                (
                    .protocolBroken,
                    "see what it offers: otaflash gatt services \(invocation.bluetoothDevice ?? "ble:ADDRESS")"
                )
            case .notPermitted: (.refused, Self.pairingAdvice(again))
            }
        self.init(link.code.rawValue, exit, error.context, hint: hint)
    }

    /// What is missing, doctor knows.
    static var machineAdvice: String { "see what this machine lacks, and what to type: otaflash doctor" }

    static var whereToLook: String {
        "see that it is switched on and in reach, and name it by its address: otaflash scan"
    }

    static func pairingAdvice(_ again: String) -> String {
        "it wants to be paired: type the six digits that it shows when they are asked for, or: \(again) --passkey NNNNNN"
    }
}
