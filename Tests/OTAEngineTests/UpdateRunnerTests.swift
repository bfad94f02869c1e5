import Gauntlet
import OTAEngine
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

@Suite("Time limit and cancellation of a run") struct UpdateRunnerTests {
    private func run(limit: Duration?) throws -> (Result<UpdateReport, UpdateError>, Duration) {
        let world = try World(try ExampleRelease(bytes: 200_000))
        let (time, transport, bundle) = (world.time, world.transport, world.release.bundle)
        return try time.run {
            let start = time.now
            var outcome: Result<UpdateReport, UpdateError>
            do throws(UpdateError) {
                outcome = .success(
                    try await UpdateRunner(clock: time, limit: limit).run(
                        UpdateSession(try ProfileConversation(.push(bundle, UpdateOptions())), seed: 1),
                        over: transport,
                        interrupts: AsyncStream<Void> { $0.finish() }))
            } catch {
                outcome = .failure(error)
            }
            return (outcome, start.duration(to: time.now))
        }
    }

    @Test("a run that reaches its time limit ends with timed-out at most 2 s later")
    func limit() throws {
        let (outcome, duration) = try run(limit: .seconds(1))
        #expect(throws: UpdateError(.timedOut, "")) { try outcome.get() }
        #expect(duration >= .seconds(1) && duration <= .seconds(3))
    }

    @Test("a run that ends before its time limit does not wait for the limit")
    func doneBefore() throws {
        let (outcome, duration) = try run(limit: .seconds(3600))
        #expect(try outcome.get().outcome == .confirmed)
        #expect(duration < .seconds(100))
        #expect(try run(limit: nil).1 == duration)
    }

    @Test("a run whose task is cancelled before its time limit ends with interrupted, not with timed-out")
    func cancelled() throws {
        let world = try World(try ExampleRelease(bytes: 1000))
        let (time, transport, bundle) = (world.time, world.transport, world.release.bundle)
        let jobs = Jobs()
        Task(executorPreference: jobs) {
            do throws(UpdateError) {
                _ = try await UpdateRunner(
                    clock: time, limit: .seconds(1),
                    report: { _, _ in
                        withUnsafeCurrentTask { $0?.cancel() }
                        // The sleeping tasks see the cancellation before the run reads its messages.
                        jobs.run()
                    }
                ).run(
                    UpdateSession(try ProfileConversation(.push(bundle, UpdateOptions())), seed: 1), over: transport,
                    interrupts: AsyncStream<Void> { $0.finish() })
            } catch {
                jobs.error = error
            }
        }
        jobs.run()
        #expect(jobs.error?.code == .interrupted)
    }
}

/// Runs its tasks on the calling thread, one job after the other, also from inside a job.
private final class Jobs: TaskExecutor, @unchecked Sendable {
    private var waiting: [UnownedJob] = []
    var error: UpdateError?

    func enqueue(_ job: consuming ExecutorJob) { waiting.append(UnownedJob(job)) }

    func run() {
        while !waiting.isEmpty { waiting.removeFirst().runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
