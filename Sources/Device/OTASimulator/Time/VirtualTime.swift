import DescriptorIO

/// A clock for simulated time, and the executor of all tasks that `run` starts. The tasks run on the thread that calls `run`.
///
/// The time does not change while a task can run. When no task can run, the clock jumps to the earliest wake-up time of a sleeping task.
/// Therefore every run of a test has the same order of events.
///
/// Code under this executor must not use Dispatch, detached tasks, or actors with their own executor. The clock cannot detect such work,
/// and jumps ahead while such work still runs.
public final class VirtualTime: TaskExecutor, Clock, @unchecked Sendable {
    public struct Instant: InstantProtocol, Sendable {
        /// The time since the creation of the clock.
        public let offset: Duration

        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        public func duration(to other: Instant) -> Duration { other.offset - offset }
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    /// `run` throws this error if `body` has not finished, no task can run, and no task sleeps.
    public struct Stalled: Error, Equatable {}

    private let lock = Lock()
    private var time = Instant(offset: .zero)
    private var jobs: [UnownedJob] = []
    private var sleepers = SleeperQueue()
    private var lastTicket: SleeperQueue.Ticket = 0

    public init() {}

    public var now: Instant { lock.locked { time } }
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// The number of entries in the queue of sleeping tasks. The queue may also contain entries of cancelled tasks.
    package var sleeperPlaces: Int { lock.locked { sleepers.places } }

    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        lock.locked { jobs.append(job) }
    }

    /// Suspends the calling task until `deadline`. The task continues only when no other task can run, even if `deadline` is in the past.
    ///
    /// - Throws: `CancellationError` if the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let ticket = lock.locked {
            lastTicket += 1
            return lastTicket
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (sleeper: SleeperQueue.Sleeper) in
                // A cancellation before this check sets `Task.isCancelled`. After a later cancellation, `onCancel` waits for the lock, and
                // then finds the ticket in the queue.
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

    /// Runs `body` and all its child tasks to the end, on the calling thread and with this clock.
    ///
    /// - Throws: the errors of `body`; `Stalled` if `body` waits for an event that can no longer happen. `run` cancels `body` before it
    ///   throws `Stalled`, so that `body` can release its resources.
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
            // A job of this batch may enqueue a new job. The new job runs in the next batch.
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

/// The sleeping tasks of a `VirtualTime`, ordered by wake-up time. Tasks with the same wake-up time wake in the order of their `sleep`
/// calls.
///
/// The queue consists of a binary heap of wake-up times and a dictionary of continuations. A cancelled task leaves the dictionary
/// immediately, but its heap entry stays. The queue removes such an entry when the entry reaches the top of the heap. The queue also
/// rebuilds the heap when the cancelled entries outnumber the valid entries by more than 64.
struct SleeperQueue {
    typealias Sleeper = CheckedContinuation<Void, any Error>
    typealias Ticket = UInt64

    private struct Entry {
        let instant: VirtualTime.Instant
        let ticket: Ticket

        static func < (left: Entry, right: Entry) -> Bool {
            left.instant < right.instant || (left.instant == right.instant && left.ticket < right.ticket)
        }
    }

    private var heap: [Entry] = []
    private var sleepers: [Ticket: Sleeper] = [:]

    /// The number of heap entries, including the entries of cancelled tasks.
    var places: Int { heap.count }

    mutating func insert(_ sleeper: Sleeper, until instant: VirtualTime.Instant, ticket: Ticket) {
        sleepers[ticket] = sleeper
        heap.append(Entry(instant: instant, ticket: ticket))
        siftUp(from: heap.count - 1)
    }

    /// Removes the sleeper with this ticket and returns the sleeper. Returns nil if the queue does not contain the ticket.
    mutating func remove(_ ticket: Ticket) -> Sleeper? {
        guard let sleeper = sleepers.removeValue(forKey: ticket) else { return nil }
        if heap.count > 2 * sleepers.count + 64 {
            heap.removeAll { sleepers[$0.ticket] == nil }
            for index in stride(from: heap.count / 2 - 1, through: 0, by: -1) { siftDown(from: index) }
        }
        return sleeper
    }

    mutating func popEarliest() -> (instant: VirtualTime.Instant, sleeper: Sleeper)? {
        while let first = heap.first {
            heap.swapAt(0, heap.count - 1)
            heap.removeLast()
            siftDown(from: 0)
            if let sleeper = sleepers.removeValue(forKey: first.ticket) { return (first.instant, sleeper) }
        }
        return nil
    }

    private mutating func siftUp(from start: Int) {
        var child = start
        while child > 0, heap[child] < heap[(child - 1) / 2] {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func siftDown(from start: Int) {
        var parent = start
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && heap[child] < heap[least] {
                least = child
            }
            if least == parent { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}

extension Duration {
    /// The duration in whole nanoseconds, rounded towards zero. A duration of more than 292 years exceeds an `Int64` and gives a wrong
    /// number.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds &* 1_000_000_000 &+ attoseconds / 1_000_000_000
    }

    /// The duration in whole milliseconds, rounded towards zero.
    var milliseconds: Int64 { nanoseconds / 1_000_000 }
}
