package import OTAFleet
package import OTAGateway

/// The updatable Bluetooth devices in range, as the scans of a gateway find them.
///
/// The table is a value: each scan passes its result to ``scanned(_:)``, and the table returns what the gateway must know. ``RadioFinder``
/// runs the scans.
package struct RadioTable: Sendable {
    /// A device that a scan has found.
    package struct Found: Sendable {
        let device: DeviceID
        /// The signal strength in dBm; nil: unknown.
        let rssi: Int?
        /// The adapter that updates the device; nil: the first powered adapter.
        let adapter: String?

        package init(_ device: DeviceID, rssi: Int?, adapter: String? = nil) {
            (self.device, self.rssi, self.adapter) = (device, rssi, adapter)
        }
    }

    private struct Entry {
        var found: Found
        /// The signal strength that the gateway knows, in dBm.
        var reported: Int?
        var isRead = false
        /// The number of failed attempts to read the product and the version, and the scan after which the next attempt is due.
        var failures = 0
        var nextRead = 0
        /// The number of scans in a row that did not find the device.
        var missed = 0
        var isConnected = false
    }

    /// A device counts as out of range after this number of scans in a row without the device. A scan of 10 s can miss a device that
    /// advertises every few seconds.
    package static let toleratedMisses = 5
    /// A smaller change of the signal strength, in dB, is not reported. The strength of one advertisement varies by some decibels.
    package static let significantChange = 6

    private var entries: [DeviceID: Entry] = [:]
    private var scans = 0

    package init() {}

    /// Records the result of a scan.
    ///
    /// - Returns: the devices that are lost, and the devices whose signal strength has changed. A new device is reported only by
    ///   ``read(_:)``, because the gateway needs its product.
    package mutating func scanned(_ devices: [Found]) -> [Sighting] {
        scans += 1
        var changes: [Sighting] = []
        for found in devices {
            var entry = entries[found.device] ?? Entry(found: found)
            (entry.found, entry.missed) = (found, 0)
            if entry.isRead, let rssi = found.rssi,
                entry.reported.map({ abs($0 - rssi) >= Self.significantChange }) ?? true
            {
                entry.reported = rssi
                changes.append(.heard(found.device, product: nil, version: nil, rssi: rssi))
            }
            entries[found.device] = entry
        }
        let heard = Set(devices.map(\.device))
        // A device does not advertise while it is connected.
        for (device, entry) in entries where !heard.contains(device) && !entry.isConnected {
            entries[device]?.missed += 1
            guard entry.missed + 1 > Self.toleratedMisses else { continue }
            entries[device] = nil
            if entry.isRead { changes.append(.lost(device)) }
        }
        return changes
    }

    /// The devices whose product and version must be read now, from the strongest to the weakest signal.
    package var unread: [DeviceID] {
        entries.filter { !$1.isRead && $1.missed == 0 && $1.nextRead <= scans }
            .sorted { ($1.value.found.rssi ?? .min, $0.key) < ($0.value.found.rssi ?? .min, $1.key) }
            .map(\.key)
    }

    /// Records that the product and the version of a device were read.
    ///
    /// - Returns: the last signal strength of the device in dBm; nil: unknown.
    package mutating func read(_ device: DeviceID) -> Int? {
        let rssi = entries[device]?.found.rssi
        entries[device]?.isRead = true
        entries[device]?.reported = rssi
        return rssi
    }

    /// Records that the product and the version of a device could not be read. The next attempt follows after 1, 2, 4 … 32 scans.
    package mutating func failedToRead(_ device: DeviceID) {
        guard var entry = entries[device] else { return }
        entry.nextRead = scans + 1 << min(entry.failures, 5)
        entry.failures += 1
        entries[device] = entry
    }

    /// Records whether the gateway is connected to a device.
    package mutating func connected(_ isConnected: Bool, _ device: DeviceID) {
        entries[device]?.isConnected = isConnected
    }

    /// The adapter that updates a device; nil: the first powered adapter.
    package func adapter(of device: DeviceID) -> String? { entries[device]?.found.adapter }
}
