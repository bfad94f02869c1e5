import Gauntlet
import OTAEngine
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

@Suite struct UpdateRunnerTests {
    private func run(limit: Duration?) throws -> (Result<UpdateReport, UpdateError>, Duration) {
        let world = try World(try Release(bytes: 200_000))
        let (time, transport, bundle) = (world.time, world.transport, world.release.bundle)
        return try time.run {
            let start = time.now
            var outcome: Result<UpdateReport, UpdateError>
            do throws(UpdateError) {
                outcome = .success(
                    try await UpdateRunner(clock: time, limit: limit).run(
                        ProfileSession(.push(bundle, PushOptions()), seed: 1), over: transport,
                        interrupts: AsyncStream<Void> { $0.finish() }))
            } catch {
                outcome = .failure(error)
            }
            return (outcome, start.duration(to: time.now))
        }
    }

    @Test("a run that reaches its limit ends with timed-out, within 2 s")
    func limit() throws {
        let (outcome, duration) = try run(limit: .seconds(1))
        #expect(throws: UpdateError(.timedOut, "")) { try outcome.get() }
        #expect(duration >= .seconds(1) && duration <= .seconds(3))
    }

    @Test("a run that is done before its limit does not wait for it")
    func doneBefore() throws {
        let (outcome, duration) = try run(limit: .seconds(3600))
        #expect(try outcome.get().outcome == .confirmed)
        #expect(duration < .seconds(100))
        #expect(try run(limit: nil).1 == duration)
    }
}
