import OTASimulator
import OTATransport
import OTAUpdate

/// A transport to a virtual device that applies a world's faults. Without faults it changes nothing.
struct FaultyTransport: Transport {
    private let base: any Transport
    private let time: VirtualTime
    private let agent: FaultAgent?

    init(_ base: any Transport, _ time: VirtualTime, _ agent: FaultAgent?) {
        self.base = base
        self.time = time
        self.agent = agent
    }

    func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result {
        guard let agent else { return try await base.withLink(body) }
        if agent.missesAttempt() {
            try? await time.sleep(for: .seconds(10))
            throw LinkError(.timedOut, "no device answers at this address")
        }
        agent.revertTrial()
        return try await base.withLink { link in
            let faulty = FaultyLink(link, agent)
            return await withTaskGroup(of: Void.self) { group in
                group.addTask { await faulty.carry(time) }
                let result = await body(faulty)
                faulty.close()
                group.cancelAll()
                return result
            }
        }
    }
}
