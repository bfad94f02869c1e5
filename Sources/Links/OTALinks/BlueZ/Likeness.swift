package import BlueZ

/// The features by which a restarted device is recognized if it advertises under a new address.
package struct Likeness: Sendable, Equatable {
    /// The address of the device before its restart.
    package var address: BluetoothAddress
    /// The advertised name, and the name in the GAP service. They can differ.
    package var names: Set<String>
    /// The update services of the device.
    package var services: Set<BluetoothUUID>
    /// The addresses that bluetoothd knew while a link to the device was open. They are of other devices.
    package var others: Set<BluetoothAddress>

    /// Returns the likeness of a device, or the reason why the device cannot be recognized under a new address.
    package static func of(
        _ device: BluetoothDevice, names: Set<String>, services: Set<BluetoothUUID>, others: Set<BluetoothAddress>
    ) -> Result<Likeness, Unrecognizable> {
        let reason =
            if device.isPaired {
                Unrecognizable.paired.text
            } else if device.addressKind == .public {
                "a device with a public address keeps its address"
            } else if names.isEmpty {
                "a device without a name is not recognized under a new address"
            } else {
                nil as String?
            }
        if let reason { return .failure(Unrecognizable(text: reason)) }
        return .success(Likeness(address: device.address, names: names, services: services, others: others))
    }

    /// Returns whether a device can be the restarted device.
    ///
    /// A device with a bond is another known device. A connected device is in use.
    package func fits(_ device: BluetoothDevice) -> Bool {
        device.addressKind == .random && device.address != address && isNamesake(device) && !device.isPaired
            && !device.isConnected && !others.contains(device.address)
    }

    /// Returns whether a device has the name and an update service of the device.
    package func isNamesake(_ device: BluetoothDevice) -> Bool {
        device.name.map(names.contains) == true && !services.isDisjoint(with: device.serviceUUIDs)
    }
}

/// The reason why a device cannot be recognized under a new address.
package struct Unrecognizable: Error, Equatable {
    package var text: String

    package static let paired = Unrecognizable(text: "bluetoothd resolves the private addresses of a paired device")
}

/// Chooses the device of the next link in a scan: the restarted device at its known address, or a candidate.
package struct CandidateScan {
    let likeness: Likeness
    /// The candidates that must be left alone.
    let rejected: Set<String>
    /// The candidates, in the order of their appearance.
    package private(set) var candidates: [BluetoothDevice] = []
    /// The devices with the same name that bluetoothd already knew before the restart.
    private var earlier: Set<BluetoothAddress> = []

    package init(_ likeness: Likeness, rejected: Set<String>) {
        self.likeness = likeness
        self.rejected = rejected
    }

    /// Records an event of the scan. Returns true if it is of the device at its known address.
    package mutating func note(_ event: ScanEvent) -> Bool {
        switch event {
        case .appeared(let device), .changed(let device):
            if device.address == likeness.address { return true }
            if likeness.isNamesake(device), likeness.others.contains(device.address) { earlier.insert(device.address) }
            if likeness.fits(device), !rejected.contains(device.address.description),
                !candidates.contains(where: { $0.address == device.address })
            {
                candidates.append(device)
            }
        case .disappeared(let device): candidates.removeAll { $0.address == device.address }
        }
        return false
    }

    /// The description of a scan that has found neither the device nor a candidate.
    package func failure(after limit: Duration) -> String {
        let name = likeness.names.sorted().map { "“\($0)”" }.joined(separator: " or ")
        let seen = "\(earlier.count) with this name \(earlier.count == 1 ? "was" : "were") there before the restart"
        let seconds = limit.components.seconds
        return "\(likeness.address) was not seen within \(seconds) s, and no new device with the name \(name)"
            + (earlier.isEmpty ? "" : "; \(seen)")
    }
}
