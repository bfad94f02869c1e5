import Glibc
import OTAClient
import OTASigning
import OTAUpdate

/// The tasks of the module OTAClient, with the user's arguments, with progress, and until a signal arrives.
extension Console {
    /// Performs a task for a device.
    ///
    /// - Parameter options: the options of a push, such as the bases of a delta. This method sets the options that all commands have.
    /// - Throws: the error of the task.
    func perform(
        _ task: UpdateTask<VerifiedUpdate>, on target: DeviceOptions, _ options: Updater.Options = Updater.Options()
    ) async throws -> UpdateResult {
        try await perform(on: target, options) { try await $0.perform(task, interrupts: $1, report: $2) }
    }

    /// Runs `body` with an updater for a device. Its other parameters are the signals of the user, and the function that shows the progress.
    func perform(
        on target: DeviceOptions, _ options: Updater.Options,
        _ body:
            @escaping @Sendable (Updater, AsyncStream<Void>, @escaping @Sendable (UpdateProgress, Duration) -> Void)
            async throws -> UpdateResult
    ) async throws -> UpdateResult {
        let links = LinkGuard(logger)
        defer { links.stop() }
        var options = options
        options.updateProtocol = target.session.updateProtocol.forced
        options.timeLimit = target.limit
        options.adapter = target.radio.adapter
        options.pairing = target.radio.pairing.responder(self)
        options.requirement = target.radio.pairing.requirement
        options.logger = logger
        options.loggedData = loggedData
        options.links = links
        options.note = { note("\($0)") }
        let updater = Updater(try target.address(), options)
        // A task in virtual time cannot react to a signal. Therefore no handler is installed, and a signal ends the process at once.
        if updater.isInVirtualTime { return try await perform(body, updater, AsyncStream { $0.finish() }) }
        return try await Interrupts.during(onFirst: stopping) { try await perform(body, updater, $0) }
    }

    private func perform(
        _ body:
            @Sendable (Updater, AsyncStream<Void>, @escaping @Sendable (UpdateProgress, Duration) -> Void)
            async throws -> UpdateResult,
        _ updater: Updater, _ interrupts: AsyncStream<Void>
    ) async throws -> UpdateResult {
        phases.beginSession()
        let reporter = ProgressReporter(self)
        defer { reporter.finish() }
        return try await body(updater, interrupts) { reporter.report($0, at: $1) }
    }

    /// Scans for devices and shows the found devices.
    ///
    /// - Parameter adapters: the adapters that scan; empty: the first powered adapter.
    /// - Throws: `BlueZError`; `Failure` if a signal interrupts the scan.
    func scan(_ search: DeviceSearch, over adapters: [String]) async throws -> [ScannedDevice] {
        let links = LinkGuard(logger)
        defer { links.stop() }
        let scan = DeviceScan(search, over: adapters, logger: logger, links: links)
        let display = ScanDisplay(self)
        defer { display.finish() }
        return try await untilSignalled { try await scan.run { display.show($0, $1) } }
    }

    /// Runs `body`. The first signal cancels `body`. A second signal ends the process immediately.
    ///
    /// - Throws: the error of `body`; `Failure` with the code `interrupted` after a signal.
    func untilSignalled<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        do {
            let value = try await Interrupts.during(onFirst: stopping) { stops in
                try await withThrowingTaskGroup(of: Value?.self) { group in
                    group.addTask { try await body() }
                    group.addTask {
                        for await _ in stops { return nil }
                        return nil
                    }
                    defer { group.cancelAll() }
                    return try await group.next() ?? nil
                }
            }
            guard let value, Interrupts.signal == nil else { throw stopped }
            return value
        } catch {
            throw Interrupts.signal == nil ? error : stopped
        }
    }

    /// The function to call after the first signal. It prints a note that the command is stopping.
    var stopping: @Sendable () -> Void { { note("stopping; press Ctrl-C again to stop at once") } }

    private var stopped: Failure { .interrupted(by: Interrupts.signal ?? SIGINT) }
}
