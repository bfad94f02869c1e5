package import Glibc

/// An object that an ``EventLoop`` calls in each round, such as a D-Bus connection. The loop calls the object only on the loop's thread.
///
/// In a round, the loop runs its queued jobs, calls `turn`, waits with poll(2), and then calls `ready` if an event occurred.
package protocol LoopClient: AnyObject {
    /// The descriptors and the events that the loop must wait for.
    var interests: [pollfd] { get }
    /// Receives the results of poll(2), in the order of `interests`.
    func ready(_ entries: ArraySlice<pollfd>)
    /// Does the object's work that does not have to wait. Returns true if some of this work is left. The loop then starts the next round
    /// without waiting.
    func turn() -> Bool
    /// The time at which the loop calls `turn` even if no event occurs; nil if there is no such time.
    var deadline: ContinuousClock.Instant? { get }
}

/// Runs the jobs of actors on a separate thread. Between jobs, the thread waits with poll(2) for events of descriptors and for a
/// deadline.
///
/// There are two reasons for a separate thread. First: a thread of Swift's cooperative thread pool must not wait in poll(2), because the
/// wait would delay other tasks. Second: all calls to libdbus must run on the same thread.
///
/// A ``LoopThread`` owns the loop.
package final class EventLoop: SerialExecutor, @unchecked Sendable {
    private struct Queue {
        var work: [Work] = []
        /// True from the moment at which the thread finds the queue empty until poll(2) returns or a caller adds work. This caller must
        /// wake the thread.
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

    /// Starts a loop and its thread. The thread holds a reference to the loop until the thread ends.
    static func start() throws(DescriptorError) -> EventLoop {
        let loop = EventLoop(alarm: try WakePipe())
        var thread = pthread_t()
        let context = Unmanaged.passRetained(loop)
        // The new thread must not handle signals. A new thread inherits the signal mask of its creator. Therefore this code blocks all
        // signals during pthread_create.
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

    /// Ends the thread as soon as the queue is empty. Work that is added to the queue after the end of the thread never runs.
    func stop() {
        change { $0.stopping = true }
    }

    // MARK: - Jobs

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        change { $0.work.append(.job(job)) }
    }

    /// Adds `body` to the end of the queue. The loop's thread runs `body`.
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

    /// Runs the queued work. Returns false if the thread must end, because `stop` was called and the queue was empty.
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
        // The timeout is rounded up, so that the deadline has passed when poll(2) returns. The timeout is at most 60 s, because the
        // milliseconds of a long time could exceed `CInt`. If the deadline is more than 60 s away, the loop waits again in the next
        // round.
        return left > .seconds(60) ? 60_000 : CInt(left / .milliseconds(1)) + 1
    }

    // MARK: - Waiting for a descriptor

    /// Waits until one of `events` occurs on `descriptor`. The argument `events` contains flags of poll(2), such as POLLIN.
    ///
    /// - Throws: `cancelled` if the task is cancelled, `closed` if `endWaits(on:)` is called during the wait.
    package func wait(
        for events: CInt, on descriptor: CInt, isolation: isolated (any Actor) = #isolation
    ) async throws(DescriptorError) {
        checkIsolated()
        guard !Task.isCancelled else { throw .cancelled }
        lastWaiter += 1
        let id = lastWaiter
        let result = await withTaskCancellationHandler {
            // Without this line, the closure would not capture `isolation`, and then the closure would not run on the actor. The
            // compiler does not report this mistake.
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

    /// Ends all waits on a descriptor with the error `closed`. Call this method before you close the descriptor.
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
/// An actor on the loop must hold a reference to this object, because `unownedExecutor` does not keep the thread alive. Code on the loop
/// must not block if other actors use the loop, because these actors would have to wait.
package final class LoopThread: Sendable {
    package let loop: EventLoop

    package init() throws(DescriptorError) { loop = try .start() }

    deinit { loop.stop() }

    package var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Runs `body` on the loop's thread and returns the result of `body`. `body` may block the thread only while no other code uses the
    /// loop.
    package func run<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in loop.perform { continuation.resume(returning: body()) } }
    }
}

/// Two connected sockets that wake poll(2) from another thread. `WakePipe` uses sockets, because Swift's Glibc module does not provide
/// eventfd or pipe2.
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
        // Ignore an error of `send`. It means that the socket's buffer is full, and then the bytes in the buffer wake poll(2).
        var byte: UInt8 = 0
        _ = send(writing, &byte, 1, CInt(MSG_NOSIGNAL))
    }

    func clear() {
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { buffer in
            while read(reading, buffer.baseAddress, buffer.count) > 0 {}
        }
    }
}
