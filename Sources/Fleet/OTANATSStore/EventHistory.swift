import NATS
import OTAStore

/// The history of a fleet, as a stream of events.
///
/// An event has the subject `otaflash.event.ROLLOUT.DEVICE.GATEWAY.ATTEMPT.KIND`. Therefore a server can permit each gateway to append only
/// its own events. In the subject, `=` replaces a period in a name. DEVICE is `_` if the event is about the rollout, and `_=DIGEST` if it is
/// about a refused record of the rollout.
struct EventHistory: Sendable {
    private static let prefix = "otaflash.event"
    /// The time in which the server does not store a second event with the same identifier, even from another gateway. From the same
    /// gateway, a second event is not stored as long as the history contains the first one.
    private static let duplicateWindow = Duration.seconds(86_400)

    private let stream: StoredStream

    init(_ client: NATSClient, apiPrefix: String = StoredStream.defaultAPIPrefix) throws(NATSError) {
        stream = try StoredStream("otaflash_events", client, apiPrefix: apiPrefix)
    }

    func create(replicas: Int) async throws(NATSError) {
        try await stream.create(
            subjects: ["\(Self.prefix).>"], maximumAge: StoreLimits.eventAge, maximumBytes: StoreLimits.historyBytes,
            duplicateWindow: Self.duplicateWindow, replicas: replicas)
    }

    func append(_ event: FleetEvent) async throws(NATSError) {
        let tokens = [
            event.rollout.token, event.device.token, event.gateway.token, "\(event.attempt)", event.kind.token,
        ]
        let subject = ([Self.prefix] + tokens).joined(separator: ".")
        do throws(NATSError) {
            _ = try await stream.store(event.bytes, subject: subject, identifier: event.identifier, expecting: 0)
        } catch  where error.code == .conflict {
            // The history already contains this event from this gateway.
        }
    }

    func events(after number: UInt64) async throws(NATSError) -> [StoredEvent] {
        var (events, last) = ([StoredEvent](), number)
        while events.count < StoreLimits.eventsPerRead, last < .max,
            let message = try await stream.next(from: last + 1, filter: "\(Self.prefix).>")
        {
            last = message.sequence
            // Skip a message that is not an event of a fleet. It must not make the other events unreadable.
            if let event = FleetEvent(message) { events.append(StoredEvent(number: last, event: event)) }
        }
        return events
    }
}

extension FleetEvent {
    /// Creates the event of a message. Returns nil if the message's subject does not have the form of an event's subject, or if the payload
    /// is larger than `StoreLimits.eventBytes`.
    fileprivate init?(_ message: StoredStream.Message) {
        let tokens = message.subject.split(separator: ".", omittingEmptySubsequences: false)
        guard tokens.count == 7, let rollout = RecordName(token: tokens[2]), let device = RecordName(token: tokens[3]),
            let gateway = RecordName(token: tokens[4]), let attempt = UInt32(tokens[5]),
            let kind = RecordName(token: tokens[6]),
            message.payload.count <= StoreLimits.eventBytes
        else { return nil }
        self.init(
            rollout: rollout, device: device, gateway: gateway, attempt: attempt, kind: kind, bytes: message.payload)
    }
}

extension RecordName {
    fileprivate var token: String { description.replacing(".", with: "=") }

    fileprivate init?(token: Substring) { self.init(String(token.replacing("=", with: "."))) }
}
