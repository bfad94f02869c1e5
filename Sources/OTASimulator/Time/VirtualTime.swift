/// A clock that stands still while there is work and jumps to the next sleeper when there is none; and the executor of
/// all that works by it, on the thread that calls `run`.
///
/// One and the same program takes one and the same course under it, in every process. Nothing that runs under it may
/// leave it: no Dispatch, no detached task, no actor with an executor of its own.
public final class VirtualTime: TaskExecutor, Clock, @unchecked Sendable {
    public struct Instant: InstantProtocol, Sendable {
        /// Time since the clock was made.
        public let offset: Duration

        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        public func duration(to other: Instant) -> Duration { other.offset - offset }
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    /// Nothing could happen any more: no job, no sleeper, no result.
    public struct Stalled: Error, Equatable {}

    private let lock = Lock()
    private var time = Instant(offset: .zero)
    private var jobs: [UnownedJob] = []
    private var sleepers = SleeperQueue()
    private var lastTicket: SleeperQueue.Ticket = 0

    public init() {}

    public var now: Instant { lock.locked { time } }
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// Sleepers that are kept in memory, cancelled ones included.
    package var sleeperPlaces: Int { lock.locked { sleepers.places } }

    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        lock.locked { jobs.append(job) }
    }

    /// Sleeps, and lets all other work go first even where `deadline` has passed.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let ticket = lock.locked {
            lastTicket += 1
            return lastTicket
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (sleeper: SleeperQueue.Sleeper) in
                // Who is cancelled before this has the flag set, who is cancelled after it finds the ticket.
                let cancelled = lock.locked {
                    if Task.isCancelled { return true }
                    sleepers.insert(sleeper, until: deadline, ticket: ticket)
                    return false
                }
                if cancelled { sleeper.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            lock.locked { sleepers.remove(ticket) }?.resume(throwing: CancellationError())
        }
    }

    /// Runs `body` and its child tasks to the end, on this thread and in this time.
    ///
    /// - Throws: What `body` throws, and `Stalled` when it waits for something that cannot come any more; it is cancelled
    ///   then, so that what listens to cancellation is taken down.
    public func run<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) throws -> Result {
        let outcome = Outcome<Result>()
        let task = Task(executorPreference: self) {
            do { outcome.result = .success(try await body()) } catch { outcome.result = .failure(error) }
        }
        while true {
            runJobs()
            if let result = outcome.result { return try result.get() }
            guard let sleeper = wakeEarliest() else { break }
            sleeper.resume()
        }
        task.cancel()
        runJobs()
        throw Stalled()
    }

    private final class Outcome<Value>: @unchecked Sendable {
        var result: Result<Value, any Error>?
    }

    private func runJobs() {
        let executor = asUnownedTaskExecutor()
        var batch: [UnownedJob] = []
        while true {
            batch.removeAll(keepingCapacity: true)
            // What these enqueue comes behind them.
            lock.locked { swap(&batch, &jobs) }
            if batch.isEmpty { return }
            for job in batch { job.runSynchronously(on: executor) }
        }
    }

    private func wakeEarliest() -> SleeperQueue.Sleeper? {
        lock.locked {
            guard let (instant, sleeper) = sleepers.popEarliest() else { return nil }
            time = max(time, instant)
            return sleeper
        }
    }
}
