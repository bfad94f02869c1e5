import DescriptorIO

/// The thread a connection lives on, as an executor.
///
/// An actor that shares it talks to its connection and its packet sockets without a hop:
///
///     actor Adapter {
///         nonisolated let executor: DBusExecutor
///         nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }
///     }
///
/// The thread ends when the last one lets go of it, which is why such an actor holds the executor and not only what
/// `unownedExecutor` gives. Nothing on it may block.
public final class DBusExecutor: Sendable {
    private let thread: LoopThread
    var loop: EventLoop { thread.loop }

    init() throws(DBusError) {
        do throws(DescriptorError) { thread = try LoopThread() } catch { throw DBusError(error) }
    }

    public var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }
}
