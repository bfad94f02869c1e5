package import OTAFirmware
internal import OTASigning

/// The limits of a store. A NATS server also enforces the limits of the records and of the history, as settings of its streams.
public enum StoreLimits {
    /// The maximum size of a record, in bytes.
    public static let recordBytes = 4096
    /// The maximum size of an event, in bytes.
    public static let eventBytes = 4096
    /// The maximum size of an object, in bytes: 16 MiB.
    public static let objectBytes = 16 << 20
    /// The age at which an event expires: 90 days.
    public static let eventAge: Duration = .seconds(90 * 86_400)
    /// The maximum size of the whole history, in bytes: 1 GiB. A store that exceeds this limit deletes its oldest events. ``MemoryStore``
    /// does not have this limit.
    public static let historyBytes = 1 << 30
    /// The maximum number of devices of a store on a server.
    public static let devices = 200_000
    /// The maximum size of a bucket that gateways write, in bytes. So a gateway cannot fill the disk of the server.
    ///
    /// - Returns: nil for a bucket that only operators and controllers write.
    public static func bytes(of bucket: Bucket) -> Int? {
        switch bucket {
        case .releases, .rollouts, .progress: nil
        case .devices: 256 << 20
        case .sightings: 16 << 20
        case .gateways: 4 << 20
        }
    }
    /// The maximum number of consumers that a server keeps for the records of devices. A consumer uses about 50 KiB of the server's memory.
    public static let consumers = 500
    /// The maximum lifetime of an unused consumer on a server of version 2.10 or later.
    public static let consumerAge: Duration = .seconds(300)
    /// The maximum number of events that one call of ``FleetStore/events(after:)`` returns.
    public static let eventsPerRead = 1000

    /// Checks the size of a record.
    ///
    /// - Throws: `recordTooLarge`.
    package static func check(_ bytes: [UInt8], at key: RecordKey) throws(StoreError) {
        guard bytes.count <= recordBytes else { throw tooLarge("the record \(key)", bytes.count, recordBytes) }
    }

    /// Checks the size of an event.
    ///
    /// - Throws: `recordTooLarge`.
    package static func check(_ event: FleetEvent) throws(StoreError) {
        guard event.bytes.count <= eventBytes else {
            throw tooLarge("the event \(event.identifier)", event.bytes.count, eventBytes)
        }
    }

    /// Checks the size and the digest of an object, before it is stored and after it was read.
    ///
    /// - Throws: `recordTooLarge`, `objectDamaged`.
    package static func check(_ bytes: [UInt8], digest: SHA256Digest) throws(StoreError) {
        guard bytes.count <= objectBytes else { throw tooLarge("the object \(digest)", bytes.count, objectBytes) }
        let actual = SHA256.digest(of: bytes)
        guard actual == digest else {
            throw StoreError(
                .objectDamaged, "the object \(digest) is damaged: its bytes have the SHA-256 digest \(actual)",
                hint: "publish the bundle again")
        }
    }

    private static func tooLarge(_ what: String, _ count: Int, _ limit: Int) -> StoreError {
        StoreError(.recordTooLarge, "\(what) has \(count) bytes, and a store accepts at most \(limit)")
    }
}

/// A wall-clock time: the number of milliseconds since 1970-01-01 00:00 UTC. A store needs it only for the age of records and events.
public struct StoreTime: Hashable, Comparable, Sendable {
    public let milliseconds: Int64

    public init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Returns the time `age` before this time.
    package func before(_ age: Duration) -> StoreTime {
        StoreTime(milliseconds: milliseconds &- Int64(age / .milliseconds(1)))
    }

    public static func < (left: StoreTime, right: StoreTime) -> Bool { left.milliseconds < right.milliseconds }
}
