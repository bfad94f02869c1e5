internal import OTAFirmware
internal import OTAFleet
internal import OTASigning
internal import OTAStore

/// The events that the store has not acknowledged yet, from the oldest to the newest. While the store does not answer, the outbox keeps
/// the events.
struct EventOutbox: Sendable {
    /// The maximum number of events. If this number is reached, the oldest event is removed. Without a maximum, the events could fill the
    /// memory while the store does not answer for days.
    private static let limit = 1000
    private static let retryTime = Duration.seconds(5)

    private let gateway: RecordName?
    private var events: [FleetEvent] = []
    private var isSending = false
    private var retry: Duration?

    init(_ gateway: GatewayName) { self.gateway = RecordName(gateway.text) }

    var isEmpty: Bool { events.isEmpty }
    /// The time of the next try after a failure; nil if no try is planned.
    var deadline: Duration? { isSending || events.isEmpty ? nil : retry }

    /// Adds an event.
    ///
    /// - Parameters:
    ///   - device: nil if the event is about the rollout, not about one device.
    ///   - record: the bytes of the refused record; nil if the event is not about a record. The same bytes give one event in the history.
    ///   - text: a description for people; nil if the kind is sufficient.
    mutating func add(
        _ kind: String, rollout: RolloutName, device: DeviceID? = nil, record: [UInt8]? = nil, attempt: Int = 0,
        text: String? = nil, at wall: Timestamp?
    ) {
        let place = record.map { "_.\(Hex.encode(SHA256.digest(of: $0).prefix))" } ?? device?.text ?? "_"
        guard let gateway, let kind = RecordName(kind), let rollout = RecordName(rollout.text),
            let device = RecordName(place)
        else { return }
        var members = [JSON.Member("schema", .number("1"))]
        if let text { members.append(JSON.Member("text", .string(String(text.prefix(1000))))) }
        if let wall { members.append(JSON.Member("at", .string(wall.description))) }
        if events.count >= Self.limit { events.removeFirst() }
        events.append(
            FleetEvent(
                rollout: rollout, device: device, gateway: gateway, attempt: UInt32(clamping: attempt), kind: kind,
                bytes: JSON.object(members).text))
    }

    /// Returns the event that the caller must append to the store now; nil if none is due.
    mutating func begin(at now: Duration) -> FleetEvent? {
        guard !isSending, now >= retry ?? .zero, let event = events.first else { return nil }
        isSending = true
        return event
    }

    /// Records the result of the append. An event that is too large for the store is removed, because the store can never accept it.
    mutating func end(_ event: FleetEvent, _ error: StoreError?, at now: Duration) {
        isSending = false
        retry = nil
        if let error, error.code != .recordTooLarge {
            retry = now + Self.retryTime
        } else if events.first == event {
            events.removeFirst()
        }
    }
}
