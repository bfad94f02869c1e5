import DBus

extension DeviceConnection {
    /// Makes a bond with the device, as the connection's `PairingResponder` answers; does nothing where there is one.
    ///
    /// - Throws: `pairing-failed` when either side refused or a passkey was wrong; `in-progress`; what ended the link.
    public func pair() async throws(BlueZError) {
        do throws(BlueZError) {
            // bluetoothd gives a person 60 s to answer.
            _ = try await call("pair", device.path, BlueZName.device, "Pair", timeout: .seconds(90))
        } catch {
            guard error.code != .alreadyDone else { return }
            throw error
        }
    }
}
