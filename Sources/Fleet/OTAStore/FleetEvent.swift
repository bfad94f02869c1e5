/// An entry of the history of a fleet, such as the end of an attempt to update a device.
public struct FleetEvent: Hashable, Sendable {
    public let rollout: RecordName
    /// The device; `_` if the event is about the rollout, not about one device. `_.DIGEST` if the event is about a refused record of the
    /// rollout: DIGEST is the first 8 bytes of the record's SHA-256 in hex, so that two refused records are two events.
    public let device: RecordName
    public let gateway: RecordName
    /// The number of the attempt, as in the record of the device; 0 if the event is about the rollout.
    public let attempt: UInt32
    /// The kind of the event, such as `rolled-back`.
    public let kind: RecordName
    /// The event as JSON, at most ``StoreLimits/eventBytes``. A store does not interpret the bytes.
    public let bytes: [UInt8]

    public init(
        rollout: RecordName, device: RecordName, gateway: RecordName, attempt: UInt32, kind: RecordName, bytes: [UInt8]
    ) {
        self.rollout = rollout
        self.device = device
        self.gateway = gateway
        self.attempt = attempt
        self.kind = kind
        self.bytes = bytes
    }

    /// True if the event is about the rollout, not about one device. The ID of a device has no period.
    public var isAboutRollout: Bool { device.description == "_" || device.description.hasPrefix("_.") }

    /// The identifier of the event, which is unique in the store. If a gateway does not receive the acknowledgement of an event, it appends
    /// the event again. The store does not add an event whose identifier is already in the history, even if another gateway appends it. A
    /// NATS store compares events of different gateways only for one day.
    ///
    /// The identifier contains the rollout, because the attempts of a device start at 1 in each rollout.
    public var identifier: String { "\(rollout)/\(device)/\(attempt)/\(kind)" }
}

/// An event that was read from the history.
public struct StoredEvent: Hashable, Sendable {
    /// The number of the event in the history. The first event of a store has the number 1. A later event has a greater number. Numbers can
    /// be missing.
    public let number: UInt64
    public let event: FleetEvent

    public init(number: UInt64, event: FleetEvent) {
        self.number = number
        self.event = event
    }
}
