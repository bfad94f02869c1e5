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
