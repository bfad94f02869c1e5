import Glibc
import OTAClient
import OTASigning
import OTAUpdate

/// Connects the commands to the module OTAClient: passes the user's arguments to OTAClient, shows the progress, and handles signals.
struct Wiring {
    let console: Console
    let invocation: Invocation

    /// Performs a task for a device.
    ///
    /// - Parameters:
    ///   - trust: the trusted keys of the virtual device that a push to `sim:` creates; nil if the task does not create a device.
    ///   - bases: the possible running images of the device, as bases of a delta; nil if the task sends no delta.
    ///   - usedTime: returns the time since the start of the command, which counts towards `--timeout`.
    /// - Throws: the error of the task; `Failure` with the code `interrupted` after a signal.
    func perform(
        _ task: UpdateTask<VerifiedUpdate>, on target: DeviceOptions, trust: TrustStore? = nil,
        bases: BaseImages? = nil, usedTime: @escaping @Sendable () -> Duration = { .zero }
    ) async throws -> UpdateResult {
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        var options = Updater.Options()
        options.updateProtocol = target.session.updateProtocol.forced
        options.timeLimit = target.limit
        options.usedTime = usedTime
        options.adapter = target.radio.adapter
        options.pairing = target.radio.pairing.responder(console)
        options.requirement = target.radio.pairing.requirement
        options.logger = console.logger
        options.loggedData = console.loggedData
        options.links = links
        options.keysOfNewDevice = trust
        options.bases = bases
        options.note = { [console] in console.note("\($0)") }
        let updater = Updater(try target.address(), options)
        // A task in virtual time cannot react to a signal. Therefore no handler is installed, and a signal ends the process at once.
        if updater.isInVirtualTime { return try await perform(task, updater, AsyncStream { $0.finish() }) }
        do {
            return try await Interrupts.during(onFirst: stopping) { try await perform(task, updater, $0) }
        } catch let error as UpdateError where error.code == .interrupted {
            var failure = Failure(error, in: invocation)
            if Interrupts.signal == SIGTERM { failure.exit = .terminated }
            throw failure
        }
    }

    private func perform(
        _ task: UpdateTask<VerifiedUpdate>, _ updater: Updater, _ interrupts: AsyncStream<Void>
    ) async throws -> UpdateResult {
        console.phases.beginSession()
        let reporter = ProgressReporter(console)
        defer { reporter.finish() }
        return try await updater.perform(task, interrupts: interrupts) { reporter.report($0, at: $1) }
    }

    /// Scans for devices and shows the found devices.
    ///
    /// - Parameter adapters: the adapters that scan; empty: the first powered adapter.
    /// - Throws: `BlueZError`; `Failure` if a signal interrupts the scan.
    func scan(_ search: DeviceSearch, over adapters: [String]) async throws -> [ScannedDevice] {
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let scan = DeviceScan(search, over: adapters, logger: console.logger, links: links)
        let display = ScanDisplay(console)
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
    var stopping: @Sendable () -> Void {
        { [console] in console.note("stopping; press Ctrl-C again to stop at once") }
    }

    private var stopped: Failure { .interrupted(by: Interrupts.signal ?? SIGINT) }
}
