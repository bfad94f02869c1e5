import Dispatch
import Glibc

/// Runs `body`, and cancels it when this process gets SIGINT or SIGTERM. Returns after the cleanup of `body`, so that no link, scan or
/// advertisement remains.
///
/// - Returns: the result of `body`. Nil: a signal ended `body`.
public func untilSignal<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result?
{
    let task = Task(operation: body)
    let sources = [SIGINT, SIGTERM].map { number in
        signal(number, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: number)
        source.setEventHandler { task.cancel() }
        source.resume()
        return source
    }
    defer { for source in sources { source.cancel() } }
    let result = await task.result
    return task.isCancelled ? nil : try result.get()
}
