import CSQLite
import Glibc
import OTALocalStore
import OTAStore
import OTATestSupport
import StoreContract
import SystemPackage
import Testing

/// A temporary folder with the file of a store. The folder is removed when the last reference is released.
final class StoreFolder: Sendable {
    let folder: FilePath
    let file: FilePath

    init() throws {
        var template = Array("/tmp/otaflash-store-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
        folder = FilePath(String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self))
        // Two folders that do not exist yet.
        file = folder.appending("state").appending("otaflash").appending("fleet.sqlite")
    }

    deinit {
        let otaflash = file.removingLastComponent()
        for suffix in ["", "-journal", "-wal", "-shm", ".old"] { unlink(file.string + suffix) }
        for path in [otaflash, otaflash.removingLastComponent(), folder] { rmdir(path.string) }
    }

    func open(
        waiting wait: Duration = .seconds(60), historyBytes: Int = StoreLimits.historyBytes, clock: ManualClock? = nil
    ) async throws(StoreError) -> LocalStore {
        let now: @Sendable () -> StoreTime = if let clock { { clock.now } } else { LocalStore.wallClock }
        return try await LocalStore(
            file, waiting: wait, pollInterval: .milliseconds(5), historyBytes: historyBytes, now: now)
    }

    var bytes: [UInt8] {
        get throws {
            let descriptor = try FileDescriptor.open(file, .readOnly)
            return try descriptor.closeAfter {
                var bytes = [UInt8](repeating: 0, count: Int(try descriptor.seek(offset: 0, from: .end)))
                let count = try bytes.withUnsafeMutableBytes { try descriptor.read(fromAbsoluteOffset: 0, into: $0) }
                #expect(count == bytes.count)
                return bytes
            }
        }
    }

    /// Replaces the contents of the file, and creates the folder if necessary.
    func write(_ bytes: [UInt8]) throws {
        let folder = file.removingLastComponent()
        mkdir(folder.removingLastComponent().string, 0o700)
        mkdir(folder.string, 0o700)
        let descriptor = try FileDescriptor.open(
            file, .writeOnly, options: [.create, .truncate], permissions: .ownerReadWrite)
        _ = try descriptor.closeAfter { try descriptor.writeAll(bytes) }
    }

    /// Runs SQL statements with the SQLite of Python, and returns the rows of the last statement: the columns are separated by `|`, and blobs
    /// are hexadecimal.
    @discardableResult
    func python(_ statements: String...) async throws -> [String] {
        let program = """
            import sqlite3, sys
            connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
            for statement in sys.argv[2:]:
                rows = connection.execute(statement).fetchall()
            for row in rows:
                print("|".join(value.hex() if isinstance(value, bytes) else str(value) for value in row))
            connection.close()
            """
        let run = try await Command.run("python3", ["-c", program, file.string] + statements)
        try #require(run.succeeded, "\(run.errorText)")
        return run.outputText.split(separator: "\n").map(String.init)
    }

    /// The path of the program `store-writer`, which the build creates next to the tests.
    static var writer: String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        let tests = FilePath(String(decoding: buffer.prefix(max(0, count)).map(UInt8.init(bitPattern:)), as: UTF8.self))
        return tests.removingLastComponent().appending("store-writer").string
    }

    /// Runs `store-writer` until it ends, and returns its lines.
    func runWriter(_ command: String, _ arguments: [String]) async throws -> [String] {
        let run = try await Command.run(Self.writer, [command, file.string] + arguments)
        #expect(run.succeeded, "\(run.errorText)")
        return run.outputText.split(separator: "\n").map(String.init)
    }
}

/// A connection to SQLite that is not a store.
final class PlainConnection: @unchecked Sendable {
    private var handle: OpaquePointer?

    init(_ file: FilePath) throws { try #require(sqlite3_open(file.string, &handle) == SQLITE_OK) }

    deinit { sqlite3_close_v2(handle) }

    func run(_ sql: String) { #expect(sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK, "\(sql)") }
}
