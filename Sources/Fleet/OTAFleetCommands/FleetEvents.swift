import ArgumentParser
import DescriptorIO
import OTACommands
import OTAFleet
import OTASigning
import OTAStore

/// An event of the fleet's history in the result of a command.
struct FleetHistoryEvent: Encodable, Sendable {
    let number: UInt64
    let rollout: String
    /// Nil if the event is about the whole rollout.
    let device: String?
    let gateway, kind: String
    let attempt: UInt32?
    let text, at: String?

    /// Creates the event. If its JSON is malformed, the event has no text and no time.
    init(_ stored: StoredEvent) {
        let event = stored.event
        number = stored.number
        rollout = event.rollout.description
        device = event.isAboutRollout ? nil : event.device.description
        gateway = event.gateway.description
        kind = event.kind.description
        attempt = event.attempt == 0 ? nil : event.attempt
        let json = try? JSON(parsing: event.bytes[...])
        text = json?["text"]?.string
        at = json?["at"]?.string
    }

    static let titles = TerminalLine("time  rollout  device  gateway  attempt  kind  text")

    var line: TerminalLine {
        let words = [
            at ?? "-", rollout, device ?? "-", gateway, attempt.map { "attempt \($0)" } ?? "-", kind, text ?? "",
        ]
        return TerminalLine(words.filter { !$0.isEmpty }.joined(separator: "  "))
    }
}

/// The command `fleet events`, which shows the history.
struct FleetEvents: Command {
    static let name = "fleet events"
    static let configuration = CommandConfiguration(
        commandName: "events", abstract: "Show the history: each end of an update, and each refused record.",
        discussion: """
            Example: otaflash fleet events --rollout spring --follow

            The first line has the titles of the columns. The kind is 'updated', or the error code of the attempt or of the refused record, such as link-lost or record-untrusted. A \
            word that does not apply is a '-'. The store keeps events for 90 days. The gateways write them without a signature.

            With --follow and --format json, events prints all events together when it ends. If the store loses its newest events, for \
            example because an older copy is restored, --follow warns, and continues with the new events.
            """)

    @Option(help: ArgumentHelp("Show only the events of this rollout. Default: all rollouts.", valueName: "name"))
    var rollout: String?

    @Option(
        name: .customLong("device"),
        help: ArgumentHelp(
            "Show only the events of the device with this ID (example: sim-hall). Default: all devices.",
            valueName: "id"))
    var deviceID: String?

    @Flag(help: "Also print each new event, until Ctrl-C. Default: print the stored events, and end.")
    var follow = false

    @Option(
        help: TimeLimit.help("With --follow, stop with exit 0 after this time", "no limit"),
        transform: TimeLimit.init(option:))
    var timeout: TimeLimit?

    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    /// The time between two reads with --follow.
    private static let pollTime = Duration.seconds(1)

    func answer(_ console: Console) async throws -> FleetEventsAnswer {
        let rollout = try rollout.map { try RolloutName(reading: $0).text }
        let device = try deviceID.map { try DeviceID(reading: $0).text }
        return try await store.withStore(for: console) { store in
            let shown = Shown(console)
            // Prints the events after the last printed event. The read starts at this event: if the store does not have it any more, the
            // store uses its number again, and a read after this number would skip the new events.
            @Sendable func show() async throws {
                while true {
                    var events = try await store.events(after: shown.last.map { max($0.number, 1) - 1 } ?? 0)
                    if let last = shown.last {
                        if events.isEmpty || events.first?.number == last.number && events.first != last {
                            // In a cluster, a server that is late can answer some reads. It does not have the event yet.
                            guard !events.isEmpty || shown.countMiss() >= 3 else { return }
                            console.warn(
                                "the store does not contain the event \(last.number) any more, for example because an older copy was "
                                    + "restored; only new events follow",
                                hint: "show the events that are left: otaflash fleet events")
                            return try await shown.moveToEnd(of: store)
                        }
                        // A full history drops its oldest events, so a greater number is no loss.
                        if events.first == last { events.removeFirst() }
                    }
                    shown.endMisses()
                    guard !events.isEmpty else { return }
                    try shown.add(events) { event in
                        (rollout == nil || event.rollout.description == rollout)
                            && (device == nil || event.device.description == device)
                    }
                }
            }
            guard follow else {
                try await show()
                return FleetEventsAnswer(events: shown.events, isEmpty: shown.isEmpty && console.isText)
            }
            try await Interrupts.during(onFirst: {}) { stops in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        while !Task.isCancelled {
                            try await show()
                            try? await Task.sleep(for: Self.pollTime)
                        }
                    }
                    group.addTask { for await _ in stops { return } }
                    if let timeout { group.addTask { try? await Task.sleep(for: timeout.duration) } }
                    try await group.next()
                    group.cancelAll()
                }
            }
            return FleetEventsAnswer(events: shown.events, isEmpty: false)
        }
    }

    /// The events until now. With text as the format, the events are printed at once and not kept.
    private final class Shown: Sendable {
        private struct State {
            var last: StoredEvent?
            /// The number of reads in a row that did not find the last event.
            var misses = 0
            var isEmpty = true
            var events: [FleetHistoryEvent] = []
        }
        private let console: Console
        private let state = Guarded(State())

        init(_ console: Console) { self.console = console }

        var last: StoredEvent? { state.with(\.last) }
        var isEmpty: Bool { state.with(\.isEmpty) }
        var events: [FleetHistoryEvent] { state.with(\.events) }

        func add(_ stored: [StoredEvent], where matches: (FleetEvent) -> Bool) throws {
            let events = stored.filter { matches($0.event) }.map { FleetHistoryEvent($0) }
            let isFirst = state.with {
                let isFirst = $0.isEmpty
                $0.last = stored.last ?? $0.last
                $0.isEmpty = isFirst && events.isEmpty
                if !console.isText { $0.events += events }
                return isFirst
            }
            guard console.isText, !events.isEmpty else { return }
            try console.printLines((isFirst ? [FleetHistoryEvent.titles] : []) + events.map(\.line))
        }

        /// Records that a read did not find the last event. Returns the number of such reads in a row.
        func countMiss() -> Int {
            state.with {
                $0.misses += 1
                return $0.misses
            }
        }

        func endMisses() { state.with { $0.misses = 0 } }

        /// Moves to the last event of the store, and prints nothing.
        func moveToEnd(of store: any FleetStore) async throws {
            state.with { ($0.last, $0.misses) = (nil, 0) }
            while let event = try await store.events(after: last?.number ?? 0).last { state.with { $0.last = event } }
        }
    }
}

/// The result of `fleet events`. With text as the format, each event is printed when it is read.
struct FleetEventsAnswer: CommandAnswer {
    let events: [FleetHistoryEvent]
    let isEmpty: Bool

    private enum CodingKeys: CodingKey { case events }

    var lines: [TerminalLine] { isEmpty ? ["no events"] : [] }
}
