import Gauntlet
import OTAEngine
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

@Suite("Time limit and cancellation of a run") struct UpdateRunnerTests {
    private func run(limit: Duration?, used: Duration = .zero) throws -> (Result<UpdateReport, UpdateError>, Duration) {
        let world = try World(try ExampleRelease(bytes: 200_000))
        let (time, transport, bundle) = (world.time, world.transport, world.release.bundle)
        return try time.run {
            let start = time.now
            var outcome: Result<UpdateReport, UpdateError>
            do throws(UpdateError) {
                outcome = .success(
                    try await UpdateRunner(clock: time, limit: limit, used: used).run(
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

    @Test("the time that has passed before a run counts, and the error has the whole limit")
    func usedBefore() throws {
        for used in [3599, 3600, 4000] as [Int64] {
            let (outcome, duration) = try run(limit: .seconds(3600), used: .seconds(used))
            let rest = Duration.seconds(max(3600 - used, 0))
            #expect(duration >= rest && duration <= rest + .seconds(2), "\(used)")
            guard case .failure(let error) = outcome else {
                Issue.record("the run did not end at its limit")
                continue
            }
            #expect(error.code == .timedOut && error.context == "not finished after 3600 s")
        }
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
