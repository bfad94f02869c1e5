import BlueZ
import Glibc

/// An iBeacon advertisement: the manufacturer data of Apple (Apple, "Proximity Beacon Specification", Release R1).
public struct IBeacon: Sendable, Hashable {
    /// Apple's company identifier.
    public static let company: UInt16 = 0x004C
    private static let header: [UInt8] = [0x02, 0x15]

    public var uuid: BluetoothUUID
    public var major: UInt16
    public var minor: UInt16
    /// The signal strength at a distance of 1 m, in dBm.
    public var measuredPower: Int8

    public init(uuid: BluetoothUUID, major: UInt16, minor: UInt16, measuredPower: Int8) {
        self.uuid = uuid
        self.major = major
        self.minor = minor
        self.measuredPower = measuredPower
    }

    /// Parses manufacturer data without the company identifier. Nil: the data is not an iBeacon.
    public init?(manufacturerData data: [UInt8]) {
        guard data.count == 23, data.starts(with: Self.header) else { return nil }
        uuid = BluetoothUUID(UInt128(bigEndian: data[2..<18]))
        major = UInt16(bigEndian: data[18..<20])
        minor = UInt16(bigEndian: data[20..<22])
        measuredPower = Int8(bitPattern: data[22])
    }

    /// The manufacturer data without the company identifier: 23 bytes, all numbers big-endian.
    public var manufacturerData: [UInt8] {
        Self.header + uuid.value.bigEndianBytes + major.bigEndianBytes + minor.bigEndianBytes
            + [UInt8(bitPattern: measuredPower)]
    }

    /// Estimates the distance in metres from the signal strength in dBm, for free space: the power falls by 20 dB when the distance
    /// increases tenfold. Walls and bodies make the estimate too large.
    public func distance(rssi: Int) -> Double { pow(10, (Double(measuredPower) - Double(rssi)) / 20) }
}

extension FixedWidthInteger {
    init(bigEndian bytes: some Sequence<UInt8>) { self = bytes.reduce(0) { $0 << 8 | Self($1) } }

    var bigEndianBytes: [UInt8] {
        stride(from: Self.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: self >> $0) }
    }
}
