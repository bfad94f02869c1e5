public import BlueZ

/// The attributes of a beacon's configuration service. The UUIDs and the byte order are those of existing beacons with this service.
public enum BeaconService {
    public static let uuid = BluetoothUUID(0x2173_E519_9155_4862_AB64_7953_AB14_6156)
    public static let identifier = BluetoothUUID(0x2173_E519_9155_4862_AB64_7953_AB14_6157)
    public static let numbers = BluetoothUUID(0x2173_E519_9155_4862_AB64_7953_AB14_6158)
    public static let transmission = BluetoothUUID(0x2173_E519_9155_4862_AB64_7953_AB14_6159)
}

/// The settings of a beacon. Each characteristic has a part of them as its value.
public struct BeaconSettings: Sendable, Hashable {
    public var uuid: BluetoothUUID
    public var major: UInt16
    public var minor: UInt16
    public var transmission: Transmission

    public init(uuid: BluetoothUUID, major: UInt16, minor: UInt16, transmission: Transmission) {
        self.uuid = uuid
        self.major = major
        self.minor = minor
        self.transmission = transmission
    }

    /// Returns the value of a characteristic of the service. Nil: the service does not have this characteristic.
    ///
    /// - `identifier`: the UUID, 16 bytes in the order of its text.
    /// - `numbers`: major and minor, 16 bits each, little-endian.
    /// - `transmission`: the code of the power and the interval, 16 bits each, little-endian.
    public func value(of characteristic: BluetoothUUID) -> [UInt8]? {
        switch characteristic {
        case BeaconService.identifier: uuid.value.bigEndianBytes
        case BeaconService.numbers: pair(major, minor)
        case BeaconService.transmission: pair(transmission.powerCode, transmission.interval)
        default: nil
        }
    }

    /// Replaces the part of the settings that a characteristic has. Checks only the length, so that a manager can also show settings
    /// that ``Transmission/check()`` refuses.
    public mutating func decode(_ value: [UInt8], of characteristic: BluetoothUUID) throws(BeaconRefusal) {
        switch characteristic {
        case BeaconService.identifier:
            guard value.count == 16 else { throw .wrongLength }
            uuid = BluetoothUUID(UInt128(bigEndian: value))
        case BeaconService.numbers:
            (major, minor) = try numbers(value)
        case BeaconService.transmission:
            (transmission.powerCode, transmission.interval) = try numbers(value)
        default: throw .unknownAttribute
        }
    }

    /// The settings as a person reads them. The names are also the names of the options.
    public var fields: [(name: String, value: String)] {
        [
            ("uuid", "\(uuid)"), ("major", "\(major)"), ("minor", "\(minor)"),
            ("power", transmission.power.map { "\($0) dB" } ?? "unknown code \(transmission.powerCode)"),
            ("interval", "\(transmission.milliseconds) ms"),
        ]
    }

    /// Names the settings that differ from the written settings, such as `major 300 instead of 5`.
    public func differences(from written: Self) -> String {
        zip(fields, written.fields).filter { $0.value != $1.value }
            .map { "\($0.name) \($0.value) instead of \($1.value)" }.joined(separator: ", ")
    }

    private func pair(_ first: UInt16, _ second: UInt16) -> [UInt8] {
        [first, second].flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    }

    private func numbers(_ value: [UInt8]) throws(BeaconRefusal) -> (UInt16, UInt16) {
        guard value.count == 4 else { throw .wrongLength }
        return (UInt16(value[1]) << 8 | UInt16(value[0]), UInt16(value[3]) << 8 | UInt16(value[2]))
    }
}

/// Transmit power and advertising interval, as a beacon stores them.
public struct Transmission: Sendable, Hashable {
    /// The transmit power in dB for each code.
    private static let powers: [UInt16: Int] = [2: 0, 1: -6, 0: -23]
    /// 100 ms to 10.24 s.
    private static let intervals: ClosedRange<UInt16> = 160...16384

    public var powerCode: UInt16
    /// The advertising interval in units of 0.625 ms.
    public var interval: UInt16

    public init(powerCode: UInt16, interval: UInt16) {
        self.powerCode = powerCode
        self.interval = interval
    }

    /// The transmit power in dB. Nil: the code is unknown.
    public var power: Int? { Self.powers[powerCode] }

    /// Returns the code of a transmit power in dB.
    public static func powerCode(of power: Int) -> UInt16? { powers.first { $0.value == power }?.key }

    public var milliseconds: Double { Double(interval) * 0.625 }

    /// Returns the interval in units of 0.625 ms, rounded to the nearest unit. Nil: it does not fit into 16 bits.
    public static func interval(milliseconds: Double) -> UInt16? {
        UInt16(exactly: (milliseconds / 0.625).rounded())
    }

    /// Throws if a beacon must not transmit like this.
    public func check() throws(BeaconRefusal) {
        guard power != nil else { throw .unknownPower }
        guard Self.intervals.contains(interval) else { throw .intervalOutOfRange }
    }
}

/// Why a beacon refuses a write. The raw value is the error code of the Attribute Protocol. The codes from 0x80 are the
/// application's own.
public enum BeaconRefusal: UInt8, Error, Sendable, CaseIterable {
    case invalidOffset = 0x07
    case unknownAttribute = 0x0A
    case wrongLength = 0x0D
    case unknownPower = 0x80
    case intervalOutOfRange = 0x81

    public var attributeError: AttributeError { AttributeError(code: rawValue) }

    /// Finds the refusal in an error of a write.
    public init?(_ error: BlueZError) {
        switch error.code {
        case .invalidLength: self = .wrongLength
        case .attributeError: self.init(rawValue: error.attributeError ?? 0)
        default: return nil
        }
    }
}

extension BeaconRefusal: CustomStringConvertible {
    public var description: String {
        switch self {
        case .invalidOffset: "the beacon accepts only complete values"
        case .unknownAttribute: "the beacon does not have this setting"
        case .wrongLength: "the value has a wrong length"
        case .unknownPower: "the transmit power must be 0, -6 or -23 dB"
        case .intervalOutOfRange: "the advertising interval must be from 100 ms to 10.24 s"
        }
    }
}
