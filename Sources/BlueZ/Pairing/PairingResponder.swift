/// Answers a device's requests during pairing. The available answers determine the I/O capability that bluetoothd sends to
/// the device (Core Specification, Vol 3, Part H, 2.3.2), and with it the security of the bond.
public struct PairingResponder: Sendable {
    /// Returns the six digits that the device shows, from 0 to 999 999. Nil: refuse the pairing.
    public var passkey: (@Sendable (BluetoothDevice) async -> UInt32?)?
    /// Returns whether the device shows the same six digits.
    public var confirmation: (@Sendable (BluetoothDevice, UInt32) async -> Bool)?

    public init(
        passkey: (@Sendable (BluetoothDevice) async -> UInt32?)? = nil,
        confirmation: (@Sendable (BluetoothDevice, UInt32) async -> Bool)? = nil
    ) {
        self.passkey = passkey
        self.confirmation = confirmation
    }

    /// Pairs without questions. The link is then encrypted, but the device is not authenticated. If a device requires
    /// authentication, a read or a write gets no reply for 30 s (BlueZ 5.66).
    public static let justWorks = PairingResponder()

    /// For a program without a user. It pairs like `justWorks` with a device that can neither show nor accept digits. It
    /// refuses every other device at once.
    public static let unattended = PairingResponder(passkey: { _ in nil })

    /// Pairs with a device whose passkey is known.
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
