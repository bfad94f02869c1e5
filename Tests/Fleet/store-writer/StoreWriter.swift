import ArgumentParser
import CSQLite
import Glibc
import OTALocalStore
import OTAStore
import StoreContract
import SystemPackage

/// Writes to a store in a process of its own, which a test can kill. It prints one line for each acknowledged write.
@main struct StoreWriter: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "store-writer", subcommands: [Count.self, Race.self])
}

extension StoreWriter {
    /// Writes numbers until the process is killed or an error occurs. A line has a number and its revision, or the code of the error.
    struct Count: AsyncParsableCommand {
        @Argument(help: "The file of the store.") var file: String
        @Argument(help: "The name of this writer, and of its record.") var name: String
        @Option(help: "End after this number of writes.") var rounds = Int.max
        @Option(help: "Limit the size of all files of this process to this number of bytes.") var fileSize: UInt?
        @Option(help: "Let the n-th truncation of the journal fail.") var failTruncation: Int?
        @Flag(help: "The journal is truncated before the truncation fails.") var truncates = false

        func run() async throws {
            if let fileSize { limitFiles(to: fileSize) }
            let store = try await LocalStore(FilePath(file), waiting: .seconds(60))
            if let failTruncation { FailingTruncation.install(after: failTruncation, truncates: truncates) }
            let own = try RecordKey.of(.devices, name)
            let shared = try RecordKey.of(.devices, "shared")
            for number in 1...rounds {
                do {
                    let line = try await write(number, at: own, of: store)
                    try await store.append(
                        StoreContract.event(name, attempt: UInt32(number), "written", count: 200))
                    report(line)
                    // All writers also change one record.
                    let current = try await store.read(shared)
                    let outcome = try await store.write(
                        Array(name.utf8), at: shared, expecting: current?.revision ?? .absent)
                    if case .written(let revision) = outcome { report("shared \(revision)") }
                } catch let error as StoreError {
                    return report("\(error.code.rawValue): \(error.context), \(error.cause ?? "-")")
                }
            }
        }

        private func write(_ number: Int, at key: RecordKey, of store: LocalStore) async throws -> String {
            let before = try await store.read(key)
            let outcome = try await store.write(
                Array(String(number).utf8), at: key, expecting: before?.revision ?? .absent)
            switch outcome {
            case .written(let revision): return "\(number) \(revision)"
            case .conflict: return "conflict"
            case .unknown:
                let after = try await store.read(key)
                report(after == before ? "unknown, not stored" : "unknown, stored")
                return after == before
                    ? try await write(number, at: key, of: store) : "\(number) \(after?.revision ?? .absent)"
            }
        }

        private func limitFiles(to size: UInt) {
            // Without a handler, a write beyond the limit would end the process.
            signal(SIGXFSZ, SIG_IGN)
            var limit = rlimit(rlim_cur: rlim_t(size), rlim_max: rlim_t(size))
            setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
        }
    }

    /// Competes with other processes for the rounds of one record. A line has the number of a round that this process has won.
    struct Race: AsyncParsableCommand {
        @Argument(help: "The file of the store.") var file: String
        @Option var writers = 6
        @Option var rounds = 100
        @Option(help: "The number of processes that compete.") var processes = 1

        func run() async throws {
            let store = try await LocalStore(FilePath(file), waiting: .seconds(60))
            try await awaitOthers()
            try await race(for: .of(.devices, "raced"), in: store, writers: writers, rounds: rounds) { report("\($0)") }
        }

        /// Waits until all processes have started. A process that starts late would find no round left.
        private func awaitOthers() async throws {
            let path = FilePath(file + ".started")
            let started = try FileDescriptor.open(
                path, .writeOnly, options: [.create, .append], permissions: .ownerReadWrite)
            _ = try started.closeAfter { try started.writeAll([1]) }
            while try path.stat().size < processes { try await Task.sleep(for: .milliseconds(1)) }
        }
    }
}

/// Writes a line with one system call, so that a line is complete even if the process is killed.
private func report(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = write(STDOUT_FILENO, bytes, bytes.count)
}

/// Replaces the call ftruncate(2) of SQLite. SQLite calls it to commit a transaction.
private enum FailingTruncation {
    private nonisolated(unsafe) static var left = 0
    private nonisolated(unsafe) static var truncates = false

    static func install(after count: Int, truncates: Bool) {
        left = count
        self.truncates = truncates
        guard let system = sqlite3_vfs_find(nil), let replace = system.pointee.xSetSystemCall else { return }
        let call: @convention(c) (CInt, off_t) -> CInt = { descriptor, length in
            FailingTruncation.left -= 1
            guard FailingTruncation.left == 0 else { return ftruncate(descriptor, length) }
            if FailingTruncation.truncates { _ = ftruncate(descriptor, length) }
            errno = EIO
            return -1
        }
        _ = replace(system, "ftruncate", unsafeBitCast(call, to: sqlite3_syscall_ptr.self))
    }
}
