/// Owner of an event loop: its thread ends when the last one lets go of it, which is why an actor that lives there holds the
/// owner and not only what `unownedExecutor` gives. Nothing on it may block that others wait for.
package final class LoopThread: Sendable {
    package let loop: EventLoop

    package init() throws(DescriptorError) { loop = try .start() }

    deinit { loop.stop() }

    package var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Runs `body` there: what has to block, on a thread that nobody else uses yet.
    package func run<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in loop.perform { continuation.resume(returning: body()) } }
    }
}
