package import Glibc

/// An object that the event loop serves in each round in addition to jobs, such as a bus connection. The loop calls it only on the
/// loop's thread.
package protocol LoopClient: AnyObject {
    /// The descriptors and events to wait for in the next round.
    var interests: [pollfd] { get }
    /// Receives the results of poll(2) for `interests`, in the same order.
    func ready(_ entries: ArraySlice<pollfd>)
    /// Does work that needs no waiting. Returns true if work is left for the next round.
    func turn() -> Bool
    /// The latest time for the next call of `turn`; nil for no limit.
    var deadline: ContinuousClock.Instant? { get }
}

/// Runs an actor's jobs on its own thread, and waits with poll(2) for descriptors and a deadline.
///
/// Blocking calls would starve the cooperative thread pool, and libdbus needs one thread for all its calls. A `LoopThread` owns the loop.
package final class EventLoop: SerialExecutor, @unchecked Sendable {
    private struct Queue {
        var work: [Work] = []
        /// Whether the thread waits or is about to wait, so that it must be woken.
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

    // Only the loop's thread uses the following properties.
    private var thread: pthread_t?
    private var entries: [pollfd] = []
    private var waiters: [Waiter] = []
    private var lastWaiter: UInt64 = 0
    package weak var client: (any LoopClient)?

    /// Starts a loop and its thread. The thread retains the loop until `stop`.
    static func start() throws(DescriptorError) -> EventLoop {
        let loop = EventLoop(alarm: try WakePipe())
        var thread = pthread_t()
        let context = Unmanaged.passRetained(loop)
        // The loop's thread handles no signals. A new thread inherits the mask.
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
            throw .system("cannot start a thread", status)
        }
        pthread_detach(thread)
        return loop
    }

    private init(alarm: consuming WakePipe) { self.alarm = alarm }

    /// Ends the thread after all queued work has run. Work that is enqueued later never runs.
    func stop() {
        change { $0.stopping = true }
    }

    // MARK: - Jobs

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        change { $0.work.append(.job(job)) }
    }

    /// Runs `body` on the thread, after all work that was queued before.
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

    /// Runs the queued work. Returns false if the queue was empty and `stop` was called.
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
        // The timeout is rounded up, so that the deadline is over when poll returns. It is at most a minute; then the loop checks again.
        return left > .seconds(60) ? 60_000 : CInt(left / .milliseconds(1)) + 1
    }

    // MARK: - Waiting for a descriptor

    /// Waits for one of `events` on `descriptor`, once.
    ///
    /// - Throws: `cancelled` if the task is cancelled, `closed` after `endWaits`.
    package func wait(
        for events: CInt, on descriptor: CInt, isolation: isolated (any Actor) = #isolation
    ) async throws(DescriptorError) {
        checkIsolated()
        guard !Task.isCancelled else { throw .cancelled }
        lastWaiter += 1
        let id = lastWaiter
        let result = await withTaskCancellationHandler {
            // This use captures `isolation`. Otherwise the closure would run outside the actor without a compiler warning.
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

    /// Ends all waits on a descriptor with `closed`. Call it before the descriptor is closed.
    package func endWaits(on descriptor: CInt) {
        for waiter in waiters where waiter.entry.fd == descriptor { endWait(waiter.id, .failure(.closed)) }
    }

    private func endWait(_ id: UInt64, _ result: Result<Void, DescriptorError>) {
        checkIsolated()
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).resume(result)
    }
}

/// Owns an event loop. The loop's thread ends when the last reference to this object is released.
///
/// So an actor on the loop must keep a reference to this object, because `unownedExecutor` retains nothing. Code on the loop must not
/// block while other actors use the loop.
package final class LoopThread: Sendable {
    package let loop: EventLoop

    package init() throws(DescriptorError) { loop = try .start() }

    deinit { loop.stop() }

    package var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Runs `body` on the loop's thread. `body` may block if no other code uses the thread yet.
    package func run<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in loop.perform { continuation.resume(returning: body()) } }
    }
}

/// Wakes poll(2) from another thread. It is a pair of sockets, because Swift's Glibc provides neither eventfd nor pipe2.
private struct WakePipe: ~Copyable, Sendable {
    private let reading: CInt
    private let writing: CInt

    init() throws(DescriptorError) {
        var ends: [CInt] = [-1, -1]
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else {
            throw .system("cannot create a socket pair", errno)
        }
        (reading, writing) = (ends[0], ends[1])
    }

    deinit {
        _ = close(reading)
        _ = close(writing)
    }

    var interest: pollfd { pollfd(fd: reading, events: Int16(POLLIN), revents: 0) }

    func signal() {
        // An error is ignored: if the buffer is full, poll(2) wakes anyway.
        var byte: UInt8 = 0
        _ = send(writing, &byte, 1, CInt(MSG_NOSIGNAL))
    }

    func clear() {
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { buffer in
            while read(reading, buffer.baseAddress, buffer.count) > 0 {}
        }
    }
}
