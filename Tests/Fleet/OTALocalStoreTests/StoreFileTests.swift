import DescriptorIO
import Glibc
import OTALocalStore
import OTAStore
import StoreContract
import SystemPackage
import Testing

@Suite("File of a store: other processes, damage and limits") struct StoreFileTests {
    private func error(_ body: () async throws -> Void) async throws -> StoreError {
        do { try await body() } catch let error as StoreError { return error }
        throw Violation.noError
    }

    private enum Violation: Error { case noError }

    @Test("a locked file is store-unavailable after a limited time, and usable after the lock is released")
    func locked() async throws {
        let folder = try StoreFolder()
        let store = try await folder.open(waiting: .milliseconds(30))
        let key = try RecordKey.of(.devices, "a")
        let other = try PlainConnection(folder.file)
        other.run("BEGIN EXCLUSIVE")
        for operation: @Sendable () async throws -> Void in [
            { _ = try await store.read(key) }, { _ = try await store.records(in: .devices) },
            { _ = try await store.write([], at: key, expecting: .absent) },
            { _ = try await store.withChanges(of: .devices) { for try await _ in $0 {} } },
            { _ = try await folder.open(waiting: .milliseconds(30)) },
        ] {
            let error = try await error(operation)
            #expect(error.code == .unavailable && error.context.contains("for more than 0.03 seconds"))
            #expect(error.hint?.contains("fuser -v \(folder.file)") == true)
        }
        other.run("COMMIT")
        #expect(try await store.write([], at: key, expecting: .absent) == .written(Revision(1)))
    }

    @Test("a reader of another process does not block reads, and a write that it blocks is not stored")
    func reader() async throws {
        let folder = try StoreFolder()
        let store = try await folder.open(waiting: .milliseconds(30))
        let key = try RecordKey.of(.devices, "a")
        let other = try PlainConnection(folder.file)
        other.run("BEGIN")
        other.run("SELECT * FROM record")
        #expect(try await store.read(key) == nil)
        let error = try await error { _ = try await store.write([1], at: key, expecting: .absent) }
        #expect(error.code == .unavailable)
        other.run("COMMIT")
        #expect(try await store.read(key) == nil)
        #expect(try await store.write([2], at: key, expecting: .absent) == .written(Revision(1)))
    }

    @Test("an operation continues when another process releases its lock in time")
    func released() async throws {
        let folder = try StoreFolder()
        let store = try await folder.open(waiting: .seconds(60))
        let key = try RecordKey.of(.devices, "a")
        let other = try PlainConnection(folder.file)
        other.run("BEGIN EXCLUSIVE")
        async let outcome = store.write([], at: key, expecting: .absent)
        try await Task.sleep(for: .milliseconds(20))
        other.run("COMMIT")
        #expect(try await outcome == .written(Revision(1)))
    }

    @Test("a store can wait longer for its file at the start than in later operations")
    func lockedAtStart() async throws {
        let folder = try StoreFolder()
        _ = try await folder.open()
        let other = try PlainConnection(folder.file)
        other.run("BEGIN EXCLUSIVE")
        let file = folder.file
        async let opened = LocalStore(file, waiting: .milliseconds(1), opening: .seconds(60))
        try await Task.sleep(for: .milliseconds(50))
        other.run("COMMIT")
        let store = try await opened
        other.run("BEGIN EXCLUSIVE")
        let error = try await error { _ = try await store.records(in: .devices) }
        #expect(error.code == .unavailable && error.context.contains("for more than 0.001 seconds"))
    }

    @Test(
        "a file that is not a database is store-corrupt, and is not changed",
        arguments: [
            Array("no database\n".utf8), [UInt8](repeating: 0xA5, count: 20_000), [UInt8](repeating: 0, count: 4096),
            Array("SQLite format 3\0".utf8) + [UInt8](repeating: 0xFF, count: 5000),
        ])
    func notADatabase(bytes: [UInt8]) async throws {
        let folder = try StoreFolder()
        try folder.write(bytes)
        let error = try await error { _ = try await folder.open() }
        #expect(error.code == .corrupt && error.hint?.contains("mv \(folder.file) \(folder.file).damaged") == true)
        #expect(try folder.bytes == bytes)
    }

    @Test("an empty file becomes a store, because a process can end between the creation of the file and of its tables")
    func emptyFile() async throws {
        let folder = try StoreFolder()
        try folder.write([])
        let store = try await folder.open()
        #expect(try await store.read(.of(.devices, "a")) == nil)
    }

    @Test("several connections can create the file at the same time")
    func createdTogether() async throws {
        for _ in 0..<20 {
            let folder = try StoreFolder()
            let key = try RecordKey.of(.devices, "a")
            let outcomes = try await withThrowingTaskGroup { group in
                for _ in 0..<4 {
                    group.addTask { try await folder.open().write([], at: key, expecting: .absent) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(outcomes.count { $0 == .written(Revision(1)) } == 1 && outcomes.count { $0 == .conflict } == 3)
        }
    }

    @Test(
        "the database of another program is store-corrupt, and is not changed",
        arguments: [
            ["CREATE TABLE mine (x)"], ["PRAGMA user_version = 1"], ["PRAGMA application_id = 7"],
            ["CREATE TABLE mine (x)", "PRAGMA journal_mode = WAL"],
            ["PRAGMA application_id = \(0x4F54_4153)", "CREATE TABLE mine (x)"],
        ])
    func foreign(statements: [String]) async throws {
        let folder = try StoreFolder()
        try folder.write([])
        for statement in statements { try await folder.python(statement) }
        let before = try folder.bytes
        let error = try await error { _ = try await folder.open() }
        #expect(error.code == .corrupt && error.context.contains("another program"))
        #expect(try folder.bytes == before)
    }

    @Test("the store of a later release is store-too-new, and is not changed")
    func tooNew() async throws {
        let folder = try StoreFolder()
        _ = try await folder.open()
        try await folder.python("PRAGMA user_version = 2")
        let before = try folder.bytes
        let error = try await error { _ = try await folder.open() }
        #expect(error.code == .tooNew && error.context.contains("version 2") && error.hint != nil)
        #expect(try folder.bytes == before)
    }

    @Test("damaged pages are store-corrupt when they are read, and are not changed")
    func damagedPages() async throws {
        let folder = try StoreFolder()
        let key = try RecordKey.of(.devices, "a")
        do {
            let store = try await folder.open()
            _ = try await store.write([UInt8](repeating: 1, count: 4096), at: key, expecting: .absent)
        }
        var bytes = try folder.bytes
        for index in 4096..<bytes.count { bytes[index] = 0xA5 }
        try folder.write(bytes)
        let store = try await folder.open()
        for operation: @Sendable () async throws -> Void in [
            { _ = try await store.read(key) }, { _ = try await store.write([], at: key, expecting: Revision(1)) },
        ] {
            let error = try await error(operation)
            #expect(error.code == .corrupt && error.hint?.contains("mv ") == true && error.cause != nil)
        }
        #expect(try folder.bytes == bytes)
    }

    @Test(
        "rows that no store writes are store-corrupt",
        arguments: [
            "DROP TABLE record", "DELETE FROM counter", "UPDATE counter SET value = 0",
        ])
    func foreignRows(statement: String) async throws {
        let folder = try StoreFolder()
        let store = try await folder.open()
        let key = try RecordKey.of(.devices, "a")
        _ = try await store.write([], at: key, expecting: .absent)
        try await store.append(StoreContract.event("a", attempt: 1, "confirmed"))
        try await folder.python(statement)
        let error = try await error {
            _ = try await store.records(in: .devices)
            _ = try await store.events(after: 0)
            _ = try await store.write([], at: .of(.devices, "b"), expecting: .absent)
        }
        #expect(error.code == .corrupt)
    }

    @Test("a row with an invalid name is reported once, and does not make the other rows unreadable")
    func invalidNames() async throws {
        let folder = try StoreFolder()
        let reports = Guarded<[StoreError]>([])
        let store = try await LocalStore(folder.file, skip: { error in reports.with { $0.append(error) } })
        let (a, b) = (try RecordKey.of(.devices, "a"), try RecordKey.of(.devices, "b"))
        for key in [a, b] { _ = try await store.write([], at: key, expecting: .absent) }
        for attempt: UInt32 in 1...2 {
            try await store.append(StoreContract.event("a", attempt: attempt, "confirmed"))
        }
        try await folder.python(
            "UPDATE record SET name = 'b/c' WHERE name = 'b'", "UPDATE event SET kind = '' WHERE number = 1")
        for _ in 1...2 {
            #expect(try await store.records(in: .devices).map(\.key) == [a])
            #expect(try await store.events(after: 0).map(\.event.attempt) == [2])
        }
        try await store.withChanges(of: .devices) { changes in
            var iterator = changes.makeAsyncIterator()
            #expect(try await iterator.next()?.key == a)
            _ = try await store.write([], at: b, expecting: .absent)
            #expect(try await iterator.next()?.key == b)
        }
        let errors = reports.with { $0 }
        #expect(errors.map(\.code) == [.corrupt, .corrupt])
        #expect(errors.map { $0.context.contains("'devices/b/c'") } == [true, false])
        let hints = errors.compactMap(\.hint)
        #expect(hints.first?.hasSuffix("'DELETE FROM record WHERE rowid = 2'") == true)
        #expect(hints.last?.hasSuffix("'DELETE FROM event WHERE rowid = 1'") == true)
    }

    @Test("a file with a write-ahead log changes back to a rollback journal, and keeps its records")
    func writeAheadLog() async throws {
        let folder = try StoreFolder()
        let key = try RecordKey.of(.devices, "a")
        do { _ = try await folder.open().write([1], at: key, expecting: .absent) }
        #expect(try await folder.python("PRAGMA journal_mode = WAL") == ["wal"])
        let store = try await folder.open()
        #expect(try await store.read(key)?.bytes == [1])
        #expect(try await folder.python("PRAGMA journal_mode") == ["delete"])
    }

    @Test(
        "a path that is not a file that only this user can write is store-unavailable",
        arguments: [
            ("link", "it is not a regular file"), ("folder", "it is not a regular file"),
            ("group", "other users can write to it"), ("others", "other users can write to it"),
        ])
    func foreignPath(kind: String, reason: String) async throws {
        let folder = try StoreFolder()
        try folder.write([])
        switch kind {
        case "link":
            rename(folder.file.string, folder.file.string + ".old")
            symlink(folder.file.string + ".old", folder.file.string)
        case "folder":
            unlink(folder.file.string)
            mkdir(folder.file.string, 0o700)
        default: chmod(folder.file.string, kind == "group" ? 0o620 : 0o602)
        }
        let error = try await error { _ = try await folder.open() }
        #expect(error.code == .unavailable && error.context.hasSuffix(reason), "\(error.context)")
        #expect(error.hint?.contains(folder.file.string) == true)
        rmdir(folder.file.string)
    }

    @Test(
        "a watch ends with store-records-lost after the file was deleted or replaced, and the process uses the new file",
        arguments: ["deleted", "replaced", "overwritten"])
    func replaced(_ how: String) async throws {
        let folder = try StoreFolder()
        let store = try await folder.open()
        let (a, b) = (try RecordKey.of(.devices, "a"), try RecordKey.of(.devices, "b"))
        _ = try await store.write([1], at: a, expecting: .absent)
        let copy = try folder.bytes
        _ = try await store.write([2], at: b, expecting: .absent)
        let error = try await error {
            try await store.withChanges(of: .devices) { changes in
                for try await record in changes where record.key == b {
                    if how != "overwritten" { unlink(folder.file.string) }
                    if how != "deleted" { try folder.write(copy) }
                }
            }
        }
        #expect(error.code == .recordsLost)
        #expect(error.context.hasSuffix(how == "overwritten" ? "has read a later write" : "while this process used it"))
        #expect(error.hint?.contains("otaflash rollout list") == true)
        #expect(try await store.records(in: .devices).map(\.key) == (how == "deleted" ? [] : [a]))
        #expect(try await store.write([3], at: b, expecting: .absent) == .written(Revision(how == "deleted" ? 1 : 2)))
        let other = try await folder.open()
        #expect(try await other.read(b)?.bytes == [3], "both use the same file")
        try await store.withChanges(of: .devices) { changes in
            let record = try await changes.first { $0.key == b }
            #expect(record?.bytes == [3])
        }
    }

    @Test("a full disk is store-full, and the store keeps all acknowledged writes")
    func full() async throws {
        let folder = try StoreFolder()
        let lines = try await folder.runWriter("count", ["a", "--file-size", "150000"])
        #expect(lines.last?.hasPrefix("store-full: ") == true, "\(lines.last ?? "")")
        let written = lines.filter { $0.first?.isNumber == true }
        #expect(written.count > 50)
        let store = try await folder.open()
        let record = try #require(try await store.read(.of(.devices, "a")))
        let last = try #require(written.last?.split(separator: " ").first.flatMap { Int($0) })
        // The next write can be acknowledged before its event does not fit any more.
        let number = try #require(Int(String(decoding: record.bytes, as: UTF8.self)))
        #expect(number == last || number == last + 1)
        #expect(try await store.events(after: 0).count == last)
        #expect(try await folder.python("PRAGMA integrity_check") == ["ok"])
    }

    @Test(
        "the outcome of a failed commit is unknown, and the next read shows whether the record is stored",
        arguments: [false, true])
    func unknown(isStored: Bool) async throws {
        let folder = try StoreFolder()
        // Each round commits a write, an event and a write of the shared record. So the 4th commit is a write.
        var arguments = ["--fail-truncation", "4", "--rounds", "3"]
        if isStored { arguments.append("--truncates") }
        let lines = try await folder.runWriter("count", ["a"] + arguments)
        let words = lines.map { String($0.prefix { $0 != " " }) }
        #expect(words == ["1", "shared", "unknown,", "2", "shared", "3", "shared"])
        #expect(lines[2] == (isStored ? "unknown, stored" : "unknown, not stored"))
        let store = try await folder.open()
        #expect(try await store.read(.of(.devices, "a"))?.bytes == Array("3".utf8))
        #expect(try await store.events(after: 0).count == 3)
    }

    @Test("an event whose commit fails is store-unavailable, and can be appended again")
    func unknownEvent() async throws {
        let folder = try StoreFolder()
        let lines = try await folder.runWriter("count", ["a", "--fail-truncation", "5", "--rounds", "3"])
        #expect(lines.last?.hasPrefix("store-unavailable: ") == true, "\(lines.last ?? "")")
        let store = try await folder.open()
        let event = try StoreContract.event("a", attempt: 2, "written", count: 200)
        try await store.append(event)
        #expect(try await store.events(after: 0).last?.event == event)
    }
}
