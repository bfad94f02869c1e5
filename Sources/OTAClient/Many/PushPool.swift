package import OTAUpdate

/// Runs the pushes to several devices in the order of a ``PushQueue``.
///
/// All events go through one mailbox to one loop. Only this loop has mutable state.
package struct PushPool<Value: Sendable>: Sendable {
    package enum Event: Sendable {
        case started(Int)
        case progress(Int, UpdateProgress, Duration)
        /// The device could not be reached. Its push starts again later.
        case postponed(Int, any Error)
        case ended(Int)
        /// A connection failed while other links were up, so fewer devices are updated at the same time from now on.
        case limited(PushQueue.Lane, Int)
        /// A device rolled back or did not return, so no further device starts.
        case halted(Int)
    }

    package enum Outcome: Sendable {
        case ended(Result<Value, any Error>, Duration)
        case notStarted
    }

    package typealias Report = @Sendable (UpdateProgress, Duration) -> Void
    /// Performs the push to one device. Each element of the stream requests the push to stop.
    package typealias Push = @Sendable (Int, AsyncStream<Void>, @escaping Report) async throws -> Value

    private enum Message: Sendable {
        case progress(Int, UpdateProgress, Duration)
        case ended(Int, Result<Value, any Error>, Duration)
        case interrupted
        /// No further device starts. The running pushes stop by themselves.
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

    /// Runs the pushes until all have ended, or until no further push may start.
    ///
    /// - Parameters:
    ///   - count: the number of devices in the queue.
    ///   - interrupts: the first element stops all running pushes; no further push starts.
    ///   - limit: no further push starts after this time; nil: no limit.
    ///   - report: called in order with each event.
    /// - Returns: the outcome of each device.
    package func run<C: Clock>(
        _ queue: PushQueue, count: Int, interrupts: AsyncStream<Void>, clock: C, limit: Duration? = nil,
        report: (Event) -> Void
    ) async -> [Outcome] where C.Duration == Duration {
        var queue = queue
        var outcomes = [Outcome](repeating: .notStarted, count: count)
        var stops: [Int: AsyncStream<Void>.Continuation] = [:]
        let (mailbox, post) = AsyncStream.makeStream(of: Message.self)
        await withDiscardingTaskGroup { group in
            group.addTask { for await _ in interrupts { post.yield(.interrupted) } }
            if let limit {
                group.addTask { if (try? await clock.sleep(for: limit)) != nil { post.yield(.halted) } }
            }
            func startNext() {
                for index in queue.start() {
                    let (stream, stop) = AsyncStream.makeStream(of: Void.self)
                    stops[index] = stop
                    report(.started(index))
                    let push = push
                    group.addTask {
                        let begun = clock.now
                        let result: Result<Value, any Error>
                        do {
                            result = .success(
                                try await push(index, stream) { post.yield(.progress(index, $0, $1)) })
                        } catch {
                            result = .failure(error)
                        }
                        post.yield(.ended(index, result, begun.duration(to: clock.now)))
                    }
                }
            }
            startNext()
            guard !queue.isFinished else { return group.cancelAll() }
            for await message in mailbox {
                switch message {
                case .progress(let index, let progress, let time):
                    let lowered = queue.note(progress, of: index)
                    report(.progress(index, progress, time))
                    if let lowered { report(.limited(queue.lane(of: index), lowered)) }
                case .ended(let index, let result, let duration):
                    stops[index] = nil
                    let wasHalted = queue.isHalted
                    let isPostponed = queue.ended(index, end(result))
                    if isPostponed, case .failure(let error) = result {
                        report(.postponed(index, error))
                    } else {
                        report(.ended(index))
                    }
                    // A postponed device keeps its last error, in case its push cannot start again.
                    outcomes[index] = .ended(result, duration)
                    if queue.isHalted, !wasHalted { report(.halted(index)) }
                case .interrupted:
                    queue.halt()
                    for stop in stops.values { stop.yield() }
                case .halted: queue.halt()
                }
                startNext()
                if queue.isFinished { break }
            }
            group.cancelAll()
        }
        return outcomes
    }
}
