package import Glibc

/// What a loop serves beside jobs, such as a bus connection. Called on the loop's thread only.
package protocol LoopClient: AnyObject {
    /// What to wait for in the next round.
    var interests: [pollfd] { get }
    /// What became of `interests`, in the same order.
    func ready(_ entries: ArraySlice<pollfd>)
    /// Does what needs no waiting; true when some of it is left for the next round.
    func turn() -> Bool
    /// When `turn` must be called whatever happens.
    var deadline: ContinuousClock.Instant? { get }
}

/// A thread of its own that runs an actor's jobs and waits with poll(2) for descriptors and a deadline. Blocking calls would
/// starve the cooperative pool, and libdbus needs one thread for all its calls. Owned by a `LoopThread`.
package final class EventLoop: SerialExecutor, @unchecked Sendable {
    private struct Queue {
        var work: [Work] = []
        /// The thread waits, or is about to: it has to be woken.
        var asleep = false
        var stopping = false
    }

    private enum Work {
        case job(UnownedJob)
        case closure(@Sendable () -> Void)
    }

    private struct Waiter {
        var id: UInt64
        var entry: pollfd
        var resume: (Result<Void, DescriptorError>) -> Void
    }

    private let queue = Guarded(Queue())
    private let alarm: WakePipe

    // From here on confined to the thread.
    private var thread: pthread_t?
    private var entries: [pollfd] = []
    private var waiters: [Waiter] = []
    private var lastWaiter: UInt64 = 0
    package weak var client: (any LoopClient)?

    /// The thread holds the loop until `stop`.
    static func start() throws(DescriptorError) -> EventLoop {
        let loop = EventLoop(alarm: try WakePipe())
        var thread = pthread_t()
        let context = Unmanaged.passRetained(loop)
        // Signals belong to the program's own threads; a new thread inherits the mask.
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        let status = pthread_create(
            &thread, nil,
            { context in
                guard let context else { return nil }
                Unmanaged<EventLoop>.fromOpaque(context).takeRetainedValue().run()
                return nil
            }, context.toOpaque())
        pthread_sigmask(SIG_SETMASK, &before, nil)
        guard status == 0 else {
            context.release()
            throw .system("no thread could be started", status)
        }
        pthread_detach(thread)
        return loop
    }

    private init(alarm: consuming WakePipe) { self.alarm = alarm }

    /// Ends the thread once everything queued has run. What is enqueued later never runs.
    func stop() {
        change { $0.stopping = true }
    }

    // MARK: - Jobs

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        change { $0.work.append(.job(job)) }
    }

    /// Runs `body` on the thread, after everything queued before.
    package func perform(_ body: @escaping @Sendable () -> Void) {
        change { $0.work.append(.closure(body)) }
    }

    private func change(_ body: (inout Queue) -> Void) {
        let wasAsleep = queue.with { queue in
            body(&queue)
            defer { queue.asleep = false }
            return queue.asleep
        }
        if wasAsleep { alarm.signal() }
    }

    var isCurrent: Bool { thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false }

    package func isIsolatingCurrentContext() -> Bool? { isCurrent }

    package func checkIsolated() { precondition(isCurrent, "called from outside the loop's thread") }

    // MARK: - Rounds

    private func run() {
        thread = pthread_self()
        while runQueued() {
            let hurried = client?.turn() ?? false
            wait(hurried: hurried)
        }
    }

    /// False when nothing is left and nothing more may come.
    private func runQueued() -> Bool {
        let (work, stopping) = queue.with { queue in
            defer { queue.work.removeAll(keepingCapacity: true) }
            return (queue.work, queue.stopping)
        }
        for item in work {
            switch item {
            case .job(let job): job.runSynchronously(on: asUnownedSerialExecutor())
            case .closure(let body): body()
            }
        }
        return !(stopping && work.isEmpty)
    }

    private func wait(hurried: Bool) {
        entries.removeAll(keepingCapacity: true)
        entries.append(alarm.interest)
        let client = client
        if let client { entries.append(contentsOf: client.interests) }
        let firstWaiter = entries.count
        let waiting = waiters.map(\.id)
        entries.append(contentsOf: waiters.lazy.map(\.entry))
        let timeout = hurried ? 0 : client?.deadline.map(Self.milliseconds(until:)) ?? -1
        let mayWait = queue.with { queue in
            queue.asleep = queue.work.isEmpty && !queue.stopping
            return queue.asleep
        }
        let found = poll(&entries, nfds_t(entries.count), mayWait ? timeout : 0)
        queue.with { $0.asleep = false }
        guard found > 0 else { return }
        if entries[0].revents != 0 { alarm.clear() }
        client?.ready(entries[1..<firstWaiter])
        for (id, entry) in zip(waiting, entries[firstWaiter...]) where entry.revents != 0 {
            endWait(id, .success(()))
        }
    }

    private static func milliseconds(until deadline: ContinuousClock.Instant) -> CInt {
        let left = ContinuousClock.now.duration(to: deadline)
        guard left > .zero else { return 0 }
        // Rounded up, so that it is past when poll returns; at most a minute, after which the loop looks again.
        return left > .seconds(60) ? 60_000 : CInt(left / .milliseconds(1)) + 1
    }

    // MARK: - Waiting for a descriptor

    /// Waits once. Throws `cancelled`, and `closed` after `endWaits`.
    package func wait(
        for events: CInt, on descriptor: CInt, isolation: isolated (any Actor) = #isolation
    ) async throws(DescriptorError) {
        checkIsolated()
        guard !Task.isCancelled else { throw .cancelled }
        lastWaiter += 1
        let id = lastWaiter
        let result = await withTaskCancellationHandler {
            // Without it this closure would run off the actor, and the compiler would not say so.
            _ = isolation
            return await withCheckedContinuation { continuation in
                checkIsolated()
                let entry = pollfd(fd: descriptor, events: Int16(events), revents: 0)
                waiters.append(Waiter(id: id, entry: entry) { continuation.resume(returning: $0) })
            }
        } onCancel: {
            perform { self.endWait(id, .failure(.cancelled)) }
        }
        try result.get()
    }

    /// Before a descriptor is closed.
    package func endWaits(on descriptor: CInt) {
        for waiter in waiters where waiter.entry.fd == descriptor { endWait(waiter.id, .failure(.closed)) }
    }

    private func endWait(_ id: UInt64, _ result: Result<Void, DescriptorError>) {
        checkIsolated()
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).resume(result)
    }
}
