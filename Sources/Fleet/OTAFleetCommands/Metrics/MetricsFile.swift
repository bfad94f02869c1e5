import ArgumentParser
import DescriptorIO
package import OTACommands
import OTASigning
import SystemPackage

/// The option for a file with metrics.
struct MetricsOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Write metrics for Prometheus to this file every 15 s; suffix .prom.",
            discussion: "The file is text for the textfile collector of node_exporter. Default: no file.",
            valueName: "file"),
        completion: .file(extensions: ["prom"]))
    var metricsFile: String?

    /// Runs `body`, and writes the metrics until it ends, if the option is given. A later failure of a write is only a warning.
    ///
    /// - Throws: the errors of ``MetricsFile/init(_:interval:text:)`` and of `body`.
    func write<Result: Sendable>(
        _ metrics: Guarded<FleetMetrics>, _ console: Console, during body: () async throws -> Result
    ) async throws -> Result {
        guard let metricsFile else { return try await body() }
        let file = try MetricsFile(metricsFile) { metrics.with { $0 }.text }
        let warnings = RepeatedWarnings(console)
        return try await file.write(during: body) { warnings.warn($0.message, hint: $0.hint) }
    }
}

/// A file with metrics as Prometheus text. Each write replaces the file with `rename`, so that a reader sees only complete contents.
package struct MetricsFile: Sendable {
    private let path: FilePath
    private let interval: Duration
    private let text: @Sendable () -> String

    /// Writes the file for the first time.
    ///
    /// - Parameter text: returns the current metrics.
    /// - Throws: `usage` for a name without the suffix `.prom`, because node_exporter ignores other files, and a mistyped name could be a
    ///   key; `cannot-create` or `write-failed` if the file cannot be written.
    package init(
        _ path: String, interval: Duration = .seconds(15), text: @escaping @Sendable () -> String
    ) throws(Failure) {
        guard path.hasSuffix(".prom") else {
            throw .usage(
                "--metrics-file \(path): expected a file name with the suffix .prom",
                hint: "node_exporter reads only such files: --metrics-file otaflash.prom")
        }
        (self.path, self.interval, self.text) = (FilePath(path), interval, text)
        if let failure = write() { throw failure }
    }

    /// Writes the file at each interval during `body`, and once after it.
    ///
    /// - Parameter failed: receives the failure of a write. The next write follows as usual.
    /// - Throws: the errors of `body`.
    package func write<Result: Sendable>(
        during body: () async throws -> Result, failed: @escaping @Sendable (Failure) -> Void
    ) async throws -> Result {
        @Sendable func writeOrReport() { if let failure = write() { failed(failure) } }
        // This write begins after the task group has ended, so that two writes never run at the same time.
        defer { writeOrReport() }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                while (try? await Task.sleep(for: interval)) != nil { writeOrReport() }
            }
            defer { group.cancelAll() }
            return try await body()
        }
    }

    private func write() -> Failure? {
        do throws(SigningError) {
            let file = try OutputFile(path, replaces: true)
            try file.write(Array(text().utf8))
            try file.commit()
            return nil
        } catch {
            let isFull = error.code == SigningError.Code.writeFailed.rawValue
            return Failure(
                isFull ? "write-failed" : "cannot-create", isFull ? .inputOutput : .cannotCreate,
                "cannot write the metrics: \(error.context)",
                hint: isFull
                    ? "check that the disk has free space: df"
                    : "create the folder, or allow this user to write to it: --metrics-file FILE.prom")
        }
    }
}
