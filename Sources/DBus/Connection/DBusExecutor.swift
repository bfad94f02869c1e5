import DescriptorIO

/// The thread of a connection, as an executor.
///
/// An actor that uses the same executor calls its connection and its packet sockets without a thread switch:
///
///     actor Adapter {
///         nonisolated let executor: DBusExecutor
///         nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }
///     }
///
/// The thread ends when the last reference to the executor is released. Therefore such an actor must hold the executor itself, not
/// only its `unownedExecutor`. Code on the thread must not block.
public final class DBusExecutor: Sendable {
    private let thread: LoopThread
    var loop: EventLoop { thread.loop }

    init() throws(DBusError) {
        do throws(DescriptorError) { thread = try LoopThread() } catch { throw DBusError(error) }
    }

    public var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }
}
