import DescriptorIO
import OTAEngine
import OTALinks
import OTATestSupport
import OTAUpdate

/// A relay between a client and a served device. It forwards values in both directions and can lose, double or reorder them.
struct Relay: Sendable {
    /// The probabilities of the injected faults for one value.
    struct Harm: Sendable {
        var loss = 0.0
        var doubling = 0.0
        /// The value arrives after the next one.
        var delay = 0.0
    }
    /// An action during the transfer.
    ///
    /// The relay runs it when it has received the client's value with this number. It forwards nothing until the action ends.
    struct Moment: Sendable {
        let value: Int
        let action: @Sendable (Relay) async -> Void
    }
    /// The endpoint for the client.
    private enum Front {
        case udp(UDPListener)
        case serial(PseudoTerminal)
    }
    private static let channel = Channel(service: 1, characteristic: 2)

    /// The device address for the client.
    let address: String
    /// Sends a value to the device in place of the client.
    let inject: @Sendable ([UInt8]) -> Void

    /// Relays the device at this address during `body`.
    static func before<Result: Sendable>(
        _ device: String, harm: Harm = Harm(), seed: UInt64 = 1, at moment: Moment? = nil,
        _ body: (Relay) async throws -> Result
    ) async throws -> Result {
        let place = String(device.drop { $0 != ":" }.dropFirst())
        if device.hasPrefix("udp:") {
            let listener = try await UDPListener(at: UDPAddress(host: "127.0.0.1", port: 0))
            return try await relay(
                .udp(listener), at: "udp:127.0.0.1:\(listener.port)",
                over: UDPTransport(try UDPAddress(parsing: place), channel: channel), Fate(harm, seed), moment, body)
        }
        let terminal = try PseudoTerminal()
        return try await relay(
            .serial(terminal), at: "serial:\(terminal.path)",
            over: SerialTransport(try SerialAddress(parsing: place), channel: channel), Fate(harm, seed), moment, body)
    }

    private static func relay<Outcome: Sendable>(
        _ front: Front, at address: String, over transport: some Transport, _ fate: Fate,
        _ moment: Moment?, _ body: (Relay) async throws -> Outcome
    ) async throws -> Outcome {
        try await transport.withLink { link, events in
            link.submit(.subscribe(channel))
            let relay = Relay(address: address) { link.submit(.send([$0], channel)) }
            return try await withThrowingTaskGroup(of: Void.self) { group in
                let client = Guarded<SocketAddress?>(nil)
                group.addTask { await carryDown(front, fate, client, relay, moment) }
                group.addTask { try await carryUp(events, fate.other, front, client) }
                defer { group.cancelAll() }
                return try await body(relay)
            }
        }
    }

    private static func carryDown(
        _ front: Front, _ fate: Fate, _ client: Guarded<SocketAddress?>, _ relay: Relay, _ moment: Moment?
    ) async {
        var fate = fate
        var count = 0
        func pass(_ value: [UInt8]) async {
            count += 1
            if let moment, moment.value == count { await moment.action(relay) }
            fate.passing(value).forEach(relay.inject)
        }
        switch front {
        case .udp(let listener):
            while let (value, sender) = await listener.receive() {
                client.with { $0 = sender }
                await pass(value)
            }
        case .serial(let terminal):
            while let value = try? await terminal.device.receive() { await pass(value) }
        }
    }

    /// Sends to the client of the last request. A device sends only answers.
    private static func carryUp(
        _ events: LinkEvents, _ fate: Fate, _ front: Front, _ client: Guarded<SocketAddress?>
    ) async throws {
        var fate = fate
        for try await case .notified(let value, _) in events {
            for value in fate.passing(value) {
                switch front {
                case .udp(let listener):
                    if let client = client.with({ $0 }) { await listener.send(value, to: client) }
                case .serial(let terminal): try? await terminal.device.send(value)
                }
            }
        }
    }

    /// Injects the faults into a sequence of values, by a seed.
    private struct Fate {
        private let harm: Harm
        private var random: SplitMix64
        private var held: [UInt8]?

        init(_ harm: Harm, _ seed: UInt64) {
            self.harm = harm
            random = SplitMix64(seed: seed)
        }

        /// The faults of the other direction.
        var other: Fate {
            var random = random
            return Fate(harm, random.next())
        }

        /// Returns the values to forward after this value arrives.
        mutating func passing(_ value: [UInt8]) -> [[UInt8]] {
            if happens(harm.loss) { return [] }
            let values = Array(repeating: value, count: happens(harm.doubling) ? 2 : 1)
            guard let held else {
                guard happens(harm.delay) else { return values }
                self.held = value
                return []
            }
            self.held = nil
            return values + [held]
        }

        private mutating func happens(_ probability: Double) -> Bool {
            Double.random(in: 0..<1, using: &random) < probability
        }
    }
}
