import DBus

extension DeviceConnection {
    /// Pairs with the device, with the answers of the connection's `PairingResponder`. Does nothing if a bond exists.
    ///
    /// - Throws: `pairing-failed` if either side refused or a passkey was wrong; `in-progress`; the error that ended the
    ///   link.
    public func pair() async throws(BlueZError) {
        // For a device that has an LE bond, bluetoothd assumes that `Pair` requests a second bond over BR/EDR
        // (`pair_device`, 5.66). Therefore bluetoothd is asked for the current state. The local state may be old: the reply
        // to a write can arrive before the report of the bond that the write caused.
        let isPaired = try await call(
            "pair", device.path, BlueZName.properties, "Get", [.string(BlueZName.device), .string("Paired")])
        guard isPaired.first?.unwrapped.boolean != true else { return }
        // bluetoothd gives a person 60 s to answer.
        _ = try await call("pair", device.path, BlueZName.device, "Pair", timeout: .seconds(90))
    }
}
