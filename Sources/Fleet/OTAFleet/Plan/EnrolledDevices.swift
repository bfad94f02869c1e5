public import OTAFirmware
internal import OTASigning

/// The list of the enrolled devices of a rollout. The rollout contains the digest of the list, because the list can be too long for a record.
///
/// The list is a text: the line `otaflash-enrolled-v1`, and then one device ID on each line, in ascending order.
public struct EnrolledDevices: Sendable, Hashable {
    public static let maximumCount = 100_000
    private static let title = "otaflash-enrolled-v1"

    public let devices: Set<DeviceID>

    /// Returns nil if there are more than ``maximumCount`` devices.
    public init?(_ devices: some Sequence<DeviceID>) {
        self.devices = Set(devices)
        guard self.devices.count <= Self.maximumCount else { return nil }
    }

    private init() { devices = [] }

    public static let none = EnrolledDevices()

    /// Parses the list that an operator has signed with the rollout.
    ///
    /// - Throws: `record-malformed`.
    public init(parsing bytes: [UInt8]) throws(FleetError) {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard lines.count >= 2, lines[0].elementsEqual(Self.title.utf8), lines[lines.count - 1].isEmpty,
            lines.count - 2 <= Self.maximumCount
        else { throw .malformed("the list of the enrolled devices does not have the form \(Self.title)") }
        var devices: Set<DeviceID> = []
        for line in lines.dropFirst().dropLast() {
            guard let device = DeviceID(String(decoding: line, as: UTF8.self)) else {
                throw .malformed("the list of the enrolled devices has an invalid device ID")
            }
            devices.insert(device)
        }
        self.devices = devices
    }

    public var encoded: [UInt8] {
        devices.sorted().reduce(into: Array("\(Self.title)\n".utf8)) { $0 += Array("\($1)\n".utf8) }
    }

    /// The digest of ``encoded``; nil if the list is empty.
    public var digest: SHA256Digest? { devices.isEmpty ? nil : SHA256.digest(of: encoded) }
}
