/// Answers what a device asks while it is paired. What can be answered decides what bluetoothd tells the device that this machine
/// can do (Core Specification, Vol 3, Part H, 2.3.2), and so how safe the bond becomes.
public struct PairingResponder: Sendable {
    /// Gives the six digits that the device shows, 0 to 999 999; nil: refuse.
    public var passkey: (@Sendable (BluetoothDevice) async -> UInt32?)?
    /// Whether the device shows the same six digits.
    public var confirmation: (@Sendable (BluetoothDevice, UInt32) async -> Bool)?

    public init(
        passkey: (@Sendable (BluetoothDevice) async -> UInt32?)? = nil,
        confirmation: (@Sendable (BluetoothDevice, UInt32) async -> Bool)? = nil
    ) {
        self.passkey = passkey
        self.confirmation = confirmation
    }

    /// Nobody is asked. The link is encrypted then, and may lead to somebody else. A device that demands more lets a read or a write
    /// go unanswered for 30 s (BlueZ 5.66).
    public static let justWorks = PairingResponder()

    /// Nobody is there: as `justWorks` with a device that can neither show nor take digits; any other one is refused at once.
    public static let unattended = PairingResponder(passkey: { _ in nil })

    /// For a device whose passkey is known.
    public static func passkey(_ passkey: UInt32) -> PairingResponder { PairingResponder(passkey: { _ in passkey }) }

    var capability: String {
        switch (passkey, confirmation) {
        case (.some, .some): "KeyboardDisplay"
        case (.some, nil): "KeyboardOnly"
        case (nil, .some): "DisplayYesNo"
        case (nil, nil): "NoInputNoOutput"
        }
    }
}
