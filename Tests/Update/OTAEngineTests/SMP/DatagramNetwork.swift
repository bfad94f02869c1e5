import OTAEngine
import OTASMP
import OTASimulator
import OTAUpdate

/// A network between a client and a virtual SMP device. It loses, doubles and delays datagrams, by a seed.
///
/// In virtual time everything runs on one thread.
final class DatagramNetwork: Transport, @unchecked Sendable {
    struct Harm {
        /// The probabilities that a datagram is lost, and that it arrives twice.
        var loss = 0.0
        var doubling = 0.0
        /// The delay of each datagram.
        var way = Duration.zero
        /// The longest additional delay of a datagram. This delay is random, so datagrams are reordered.
        var longestWay = Duration.zero
        /// The device loses power once, when it has received this fraction of the image, 0...1.
        var resetAt: Double?
    }
    private static let caller: UInt16 = 1

    private let device: VirtualSMPDevice
    private let time: VirtualTime
    private var harm: Harm
    private var random: SplitMix64
    private(set) var lost = 0

    init(_ harm: Harm, before device: VirtualSMPDevice, in time: VirtualTime, seed: UInt64) {
        self.device = device
        self.time = time
        self.harm = harm
        random = SplitMix64(seed: seed)
    }

    func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async -> LinkError {
        let ends = Ends()
        async let carrying: Void = carry(ends)
        let link = SingleChannelLink(
            ends, channel: SMPChannel.value, maximumValueLength: 1472, receive: receive)
        let end = await link.run(opened: opened)
        await carrying
        return end
    }

    /// The client's endpoint.
    private struct Ends: ValuePipe {
        enum Passage: Sendable {
            case toDevice([UInt8])
            case toClient([UInt8])
            /// A timer of the device is due.
            case due
        }
        let passages = AsyncStream.makeStream(of: Passage.self)
        let arrivals = AsyncStream.makeStream(of: [UInt8].self)

        func send(_ value: [UInt8]) async throws(LinkError) { passages.continuation.yield(.toDevice(value)) }

        func receive() async throws(LinkError) -> [UInt8] {
            var next = arrivals.stream.makeAsyncIterator()
            guard let value = await next.next(isolation: #isolation) else { throw LinkError(.lost, "closed") }
            return value
        }

        func close() async {
            passages.continuation.finish()
            arrivals.continuation.finish()
        }
    }

    /// The time of the network, which is also the time of the device.
    private var now: Duration { time.now.offset }

    /// Carries datagrams until the client closes its endpoint.
    private func carry(_ ends: Ends) async {
        let (passages, arrivals) = (ends.passages.continuation, ends.arrivals.continuation)
        device.observe { _, _, value in
            passages.yield(.toClient(value))
            return true
        } onRestart: {
        }
        await withDiscardingTaskGroup { group in
            for await passage in ends.passages.stream {
                switch passage {
                case .due: break
                case .toDevice(let value): pass(in: &group) { self.hand(value, passages) }
                case .toClient(let value): pass(in: &group) { arrivals.yield(value) }
                }
                guard let due = device.poll(at: now) else { continue }
                group.addTask { await self.after(due - self.now) { passages.yield(.due) } }
            }
            group.cancelAll()
        }
    }

    /// Delivers a datagram never, once or twice, after a delay.
    private func pass(in group: inout DiscardingTaskGroup, _ arrive: @escaping @Sendable () -> Void) {
        guard !happens(harm.loss) else { return lost += 1 }
        for _ in 0..<(happens(harm.doubling) ? 2 : 1) {
            let way = harm.way + harm.longestWay * Double.random(in: 0...1, using: &random)
            group.addTask { await self.after(way, arrive) }
        }
    }

    private func after(_ way: Duration, _ body: () -> Void) async {
        guard (try? await time.sleep(until: time.now.advanced(by: way), tolerance: nil)) != nil else { return }
        body()
    }

    private func hand(_ value: [UInt8], _ passages: AsyncStream<Ends.Passage>.Continuation) {
        if !device.isConnected(Self.caller) {
            // The device receives nothing while it restarts.
            guard device.connect(Self.caller, valueLength: 4096, at: now) else { return }
            try? device.subscribe(Self.caller, to: SMPChannel.value, on: true, at: now)
        }
        try? device.write(Self.caller, SMPChannel.value, value, at: now)
        passages.yield(.due)
        guard let part = harm.resetAt, let (offset, size) = device.imageReception, Double(offset) >= part * Double(size)
        else { return }
        harm.resetAt = nil
        device.losePower(at: now)
    }

    private func happens(_ probability: Double) -> Bool { Double.random(in: 0..<1, using: &random) < probability }
}
