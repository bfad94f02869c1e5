import DescriptorIO
package import OTAUpdate

/// Runs the pushes to several devices in the order of a ``PushQueue``.
///
/// All events go through one mailbox to one loop. The loop owns all mutable state except the queue. A lock protects the queue, because each
/// push asks the queue directly for permission to enter a stage.
package struct PushPool<Value: Sendable>: Sendable {
    /// An event of the pool. Each event except `limited` contains the index of the device.
    package enum Event: Sendable {
        case started(Int)
        case progress(Int, UpdateProgress, Duration)
        /// The device could not be reached. Its push starts again later, unless the queue halts before.
        case postponed(Int, any Error)
        /// The push to the device succeeded.
        case ended(Int, Value)
        /// The push to the device failed, and does not start again.
        case failed(Int, any Error)
        /// The push has ended before its first change on the device, because other devices are updated first, or because the queue has
        /// halted. Unless the queue has halted, the push starts again later.
        case heldBack(Int)
        /// A connection failed while other links were up. So fewer devices of this lane are updated at the same time from now on. The
        /// number is the new limit.
        case limited(PushQueue.Lane, Int)
        /// The device rolled back, or did not come back after its restart. The pool therefore starts no further push.
        case halted(Int)
    }

    package enum Outcome: Sendable {
        case ended(Result<Value, any Error>, Duration)
        case notStarted
    }

    package typealias Report = @Sendable (UpdateProgress, Duration) -> Void
    /// Performs the push to one device. Each element of the stream is a request to stop the push.
    package typealias Push =
        @Sendable (Int, AsyncStream<Void>, @escaping StageGate, @escaping Report) async throws -> Value

    private enum Message: Sendable {
        case progress(Int, UpdateProgress, Duration)
        /// The push has entered a stage. The number is the new limit of the device's lane; nil if the limit is not lowered.
        case entered(Int, limit: Int?)
        case ended(Int, Result<Value, any Error>, Duration)
        case interrupted
        /// The time limit has passed, so no further push starts. The pool does not stop the running pushes.
        case halted
    }

    private let push: Push
    private let end: @Sendable (Result<Value, any Error>) -> PushQueue.End

    /// Creates a pool.
    ///
    /// - Parameters:
    ///   - end: returns the meaning of a push's result for the queue.
    ///   - push: performs the push to the device with this index.
    package init(end: @escaping @Sendable (Result<Value, any Error>) -> PushQueue.End, push: @escaping Push) {
        self.end = end
        self.push = push
    }

    /// Runs the pushes until all started pushes have ended and no further push can start.
    ///
    /// - Parameters:
    ///   - count: the number of devices in the queue.
    ///   - interrupts: each element requests all running pushes to stop. After the first element, no further push starts.
    ///   - limit: no further push starts after this time; nil: no limit.
    ///   - report: called in order with each event.
    /// - Returns: the outcome of each device.
    package func run<C: Clock>(
        _ queue: PushQueue, count: Int, interrupts: AsyncStream<Void>, clock: C, limit: Duration? = nil,
        report: (Event) -> Void
    ) async -> [Outcome] where C.Duration == Duration {
        let queue = Guarded(queue)
        var outcomes = [Outcome](repeating: .notStarted, count: count)
        var stops: [Int: AsyncStream<Void>.Continuation] = [:]
        // The failures of the devices whose push starts again later.
        var postponed: [Int: any Error] = [:]
        var mailbox = Mailbox(clock, wake: Message.halted)
        let post = mailbox.post
        await withDiscardingTaskGroup { group in
            group.addTask { for await _ in interrupts { post.yield(.interrupted) } }
            mailbox.arm(limit, in: &group)
            func startNext() {
                for index in queue.with({ $0.start() }) {
                    let (stream, stop) = AsyncStream.makeStream(of: Void.self)
                    stops[index] = stop
                    report(.started(index))
                    let push = push
                    let enter: StageGate = { stage, error in
                        let (isPermitted, limit) = queue.with { queue in
                            (queue.enter(stage, index), error.flatMap { queue.connectionFailed($0, of: index) })
                        }
                        post.yield(.entered(index, limit: limit))
                        return isPermitted
                    }
                    group.addTask {
                        let begun = clock.now
                        let result: Result<Value, any Error>
                        do {
                            result = .success(
                                try await push(index, stream, enter) { post.yield(.progress(index, $0, $1)) })
                        } catch {
                            result = .failure(error)
                        }
                        post.yield(.ended(index, result, begun.duration(to: clock.now)))
                    }
                }
            }
            startNext()
            guard !queue.with({ $0.isFinished }) else { return group.cancelAll() }
            for await message in mailbox.messages {
                switch message {
                case .progress(let index, let progress, let time): report(.progress(index, progress, time))
                case .entered(let index, let limit):
                    if let limit { report(.limited(queue.with { $0.lane(of: index) }, limit)) }
                case .ended(let index, let result, let duration):
                    stops[index] = nil
                    let (next, hasHalted) = queue.with {
                        let wasHalted = $0.isHalted
                        return ($0.ended(index, end(result)), $0.isHalted && !wasHalted)
                    }
                    // If the push to the device starts again later, its new outcome replaces this one. If a halt prevents this, the device
                    // keeps this outcome.
                    outcomes[index] = next == .heldBack ? .notStarted : .ended(result, duration)
                    switch (next, result) {
                    case (.heldBack, _): report(.heldBack(index))
                    case (.again, .failure(let error)):
                        postponed[index] = error
                        report(.postponed(index, error))
                    case (_, .failure(let error)): report(.failed(index, error))
                    case (_, .success(let value)): report(.ended(index, value))
                    }
                    if next != .again { postponed[index] = nil }
                    if hasHalted { report(.halted(index)) }
                case .interrupted:
                    queue.with { $0.halt() }
                    for stop in stops.values { stop.yield() }
                case .halted: queue.with { $0.halt() }
                }
                startNext()
                if queue.with({ $0.isFinished }) { break }
            }
            // After a halt, these pushes do not start again, so their failures are final.
            for (index, error) in postponed.sorted(by: { $0.key < $1.key }) { report(.failed(index, error)) }
            group.cancelAll()
        }
        return outcomes
    }
}
