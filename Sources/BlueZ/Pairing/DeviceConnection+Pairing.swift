import DBus

extension DeviceConnection {
    /// Makes a bond with the device, as the connection's `PairingResponder` answers; does nothing where there is one.
    ///
    /// - Throws: `pairing-failed` when either side refused or a passkey was wrong; `in-progress`; what ended the link.
    public func pair() async throws(BlueZError) {
        // Of a device that has a bond over LE bluetoothd believes that another one over BR/EDR is wanted (`pair_device`, 5.66). It is
        // asked: what it answered to a write may be here before what it has told of the bond which that write led to.
        let isPaired = try await call(
            "pair", device.path, BlueZName.properties, "Get", [.string(BlueZName.device), .string("Paired")])
        guard isPaired.first?.unwrapped.boolean != true else { return }
        // bluetoothd gives a person 60 s to answer.
        _ = try await call("pair", device.path, BlueZName.device, "Pair", timeout: .seconds(90))
    }
}
