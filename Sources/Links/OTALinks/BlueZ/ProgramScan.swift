package import BlueZ

/// The features by which a scan finds a program of a device (`LinkTarget.program`): the address of the device, or the name of its other
/// program.
package struct ProgramScan: Sendable, Equatable {
    /// The address of the session's device.
    package let address: BluetoothAddress
    /// The name of the device's other program.
    ///
    /// It has 13 bytes. Nordic's firmware loader stores at most 16 bytes (sdk-nrf-bm, `ble_rmem.h`). The name contains the whole address of
    /// the device, so that no other device has it.
    package let name: String

    package init(_ address: BluetoothAddress) {
        self.address = address
        let digits = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
        name = "FL_" + String((0..<10).map { digits[Int(address.value >> (5 * UInt64($0)) & 31)] })
    }

    /// Returns whether a device that was heard is a program of the session's device.
    package func fits(_ device: BluetoothDevice) -> Bool { device.address == address || device.name == name }

    /// The description of a scan without success.
    package func failure(after limit: Duration) -> String {
        "\(address) and a device with the name “\(name)” were not seen within \(limit.components.seconds) s"
    }
}

extension BluetoothDevice {
    /// True if the address does not change by itself: a public address, or a static random address, whose two highest bits are 1 (Bluetooth
    /// Core Specification, volume 6, part B, 1.3.2.1).
    var hasFixedAddress: Bool { addressKind == .public || address.value >> 46 == 3 }
}

extension BlueZClient {
    /// Scans for a program of a device.
    ///
    /// - Throws: ``BlueZError/Code/noSuchDevice`` if no device fits within `limit`.
    nonisolated func find(
        _ search: ProgramScan, over adapter: String?, limit: Duration
    ) async throws -> BluetoothDevice {
        // The scan has no filter for services. With one, the kernel would discard the packets with the name.
        try await withScan(over: adapter) { scan in
            try await withThrowingTaskGroup(of: BluetoothDevice?.self) { group in
                group.addTask {
                    for try await event in scan {
                        switch event {
                        case .appeared(let device), .changed(let device): if search.fits(device) { return device }
                        case .disappeared: break
                        }
                    }
                    return nil
                }
                group.addTask {
                    try await Task.sleep(for: limit)
                    return nil
                }
                defer { group.cancelAll() }
                if let found = try await group.next(), let found { return found }
                throw BlueZError(.noSuchDevice, search.failure(after: limit))
            }
        }
    }
}
