/// A group of records of a store. The raw value is the name of the bucket. In a NATS store, this name has the prefix `otaflash_`.
public enum Bucket: String, CaseIterable, Sendable {
    case releases, rollouts, progress, devices, sightings, gateways

    /// The age at which a record of this bucket expires; nil if its records do not expire. The store measures the age from the last write
    /// of the record, with its own clock.
    public var maximumAge: Duration? {
        switch self {
        case .releases, .rollouts, .progress, .devices: nil
        case .sightings: .seconds(15 * 60)
        case .gateways: .seconds(90)
        }
    }
}

/// The place of a record: a bucket, and a name in this bucket.
public struct RecordKey: Hashable, Sendable, CustomStringConvertible {
    public let bucket: Bucket
    public let name: RecordName

    public init(_ bucket: Bucket, _ name: RecordName) {
        self.bucket = bucket
        self.name = name
    }

    /// The bucket and the name, such as `devices/ble-AABBCCDDEEFF`.
    public var description: String { "\(bucket.rawValue)/\(name)" }
}

/// The name of a record, such as `ble-AABBCCDDEEFF`: 1 to 64 letters, digits, `_` and `-`, only ASCII. A name can also consist of two such
/// parts with a period between them, for example a device and a gateway. Every name is valid as a subject of NATS and as a file name.
public struct RecordName: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The maximum length of one of the two parts, in characters.
    public static let maximumPartLength = 64

    public let description: String

    /// Returns nil if `text` is not a valid name.
    public init?(_ text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count <= 2, parts.allSatisfy(Self.isValid) else { return nil }
        description = text
    }

    /// The one or two parts of the name.
    public var parts: [String] { description.split(separator: ".").map(String.init) }

    private static func isValid(_ part: Substring.UTF8View) -> Bool {
        (1...maximumPartLength).contains(part.count)
            && part.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    public static func < (left: RecordName, right: RecordName) -> Bool { left.description < right.description }
}

/// The number of a write. Each write in a bucket has a greater number than all earlier writes in this bucket.
public struct Revision: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The revision of a record that does not exist.
    public static let absent = Revision(0)

    /// 0 for a record that does not exist; at least 1 for a record that exists.
    public let number: UInt64

    public init(_ number: UInt64) { self.number = number }

    public var description: String { String(number) }

    public static func < (left: Revision, right: Revision) -> Bool { left.number < right.number }
}

/// A record that was read from a store.
public struct StoredRecord: Hashable, Sendable {
    public let key: RecordKey
    /// The number of the write that stored these bytes.
    public let revision: Revision
    /// The contents, at most ``StoreLimits/recordBytes``. A store does not interpret them.
    public let bytes: [UInt8]

    public init(key: RecordKey, revision: Revision, bytes: [UInt8]) {
        self.key = key
        self.revision = revision
        self.bytes = bytes
    }
}
