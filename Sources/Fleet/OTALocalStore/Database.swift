internal import CSQLite
internal import Glibc
internal import SystemPackage

/// A connection to an SQLite database file, with its prepared statements.
///
/// The connection writes with a rollback journal, and waits for the disk after each transaction
/// (docs/decisions/0027-the-fleet-store.md). Every other process can use the file at the same time.
final class Database {
    private let handle: OpaquePointer
    private let patience: Patience
    private var statements: [String: Statement] = [:]

    /// Opens an existing file.
    ///
    /// - Parameter wait: the maximum time that an operation waits for another connection to unlock the file.
    init(_ path: FilePath, waiting wait: Duration) throws(DatabaseError) {
        var handle: OpaquePointer?
        let status = sqlite3_open_v2(path.string, &handle, SQLITE_OPEN_READWRITE, nil)
        // SQLite returns a handle even if it could not open the file. If there is not enough memory, it returns no handle.
        guard let handle else { throw DatabaseError(status, "out of memory") }
        guard status == SQLITE_OK else {
            defer { sqlite3_close_v2(handle) }
            throw DatabaseError(of: handle)
        }
        self.handle = handle
        patience = Patience(wait)
        sqlite3_extended_result_codes(handle, 1)
        // The connection owns `patience`, so the pointer is valid until the connection is closed.
        sqlite3_busy_handler(
            handle,
            { context, _ in context.map { Unmanaged<Patience>.fromOpaque($0).takeUnretainedValue().wait() } ?? 0 },
            Unmanaged.passUnretained(patience).toOpaque())
    }

    deinit {
        statements.removeAll()
        sqlite3_close_v2(handle)
    }

    /// The maximum time that an operation waits for another connection to unlock the file.
    var wait: Duration {
        get { patience.limit }
        set { patience.limit = newValue }
    }

    /// True if a transaction is open.
    var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// True if the file was deleted, moved or replaced by another file since this connection opened it.
    var hasMoved: Bool {
        var moved: CInt = 0
        return sqlite3_file_control(handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0
    }

    /// Runs a statement that returns no row.
    ///
    /// - Parameter values: the values of the statement's parameters, in order.
    func run(_ sql: String, _ values: Value...) throws(DatabaseError) {
        _ = try rows(sql, values) { _ in }
    }

    /// Runs a statement and returns the converted rows.
    func rows<Element>(_ sql: String, _ values: Value..., convert: (Row) -> Element) throws(DatabaseError) -> [Element]
    {
        try rows(sql, values, convert: convert)
    }

    /// Runs a statement and returns the converted first row; nil if there is no row.
    func row<Element>(_ sql: String, _ values: Value..., convert: (Row) -> Element) throws(DatabaseError) -> Element? {
        try rows(sql, values, convert: convert).first
    }

    private func rows<Element>(
        _ sql: String, _ values: [Value], convert: (Row) -> Element
    ) throws(DatabaseError) -> [Element] {
        patience.start()
        let statement = try prepared(sql)
        // A statement that is not reset holds a lock on the file.
        defer { statement.reset() }
        for (index, value) in values.enumerated() { try check(statement.bind(value, at: CInt(index + 1))) }
        var rows: [Element] = []
        while true {
            switch statement.step() {
            case SQLITE_ROW: rows.append(convert(statement.row))
            case SQLITE_DONE: return rows
            default: throw DatabaseError(of: handle)
            }
        }
    }

    private func prepared(_ sql: String) throws(DatabaseError) -> Statement {
        if let statement = statements[sql] { return statement }
        var pointer: OpaquePointer?
        try check(sqlite3_prepare_v3(handle, sql, -1, CUnsignedInt(SQLITE_PREPARE_PERSISTENT), &pointer, nil))
        guard let pointer else { throw DatabaseError(SQLITE_MISUSE, "an empty statement") }
        let statement = Statement(pointer)
        statements[sql] = statement
        return statement
    }

    private func check(_ status: CInt) throws(DatabaseError) {
        guard status == SQLITE_OK else { throw DatabaseError(of: handle) }
    }
}

/// The value of a statement's parameter.
enum Value {
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
}

/// A prepared statement.
private final class Statement {
    let row: Row
    private var pointer: OpaquePointer { row.statement }

    init(_ pointer: OpaquePointer) { row = Row(statement: pointer) }

    deinit { sqlite3_finalize(pointer) }

    func bind(_ value: Value, at place: CInt) -> CInt {
        switch value {
        case .integer(let number): sqlite3_bind_int64(pointer, place, number)
        case .text(let text): csqlite_bind_text(pointer, place, text)
        case .bytes(let bytes):
            bytes.withUnsafeBytes { csqlite_bind_bytes(pointer, place, $0.baseAddress, sqlite3_uint64($0.count)) }
        }
    }

    func step() -> CInt { sqlite3_step(pointer) }

    func reset() {
        sqlite3_reset(pointer)
        // Releases the copies of the values, such as an object of 16 MiB.
        sqlite3_clear_bindings(pointer)
    }
}

/// The current row of a statement. It is valid only during the conversion of the row.
struct Row {
    fileprivate let statement: OpaquePointer

    func integer(_ column: CInt) -> Int64 { sqlite3_column_int64(statement, column) }

    func text(_ column: CInt) -> String { String(decoding: bytes(column), as: UTF8.self) }

    func bytes(_ column: CInt) -> [UInt8] {
        guard let start = sqlite3_column_blob(statement, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column))))
    }
}

/// Waits while another connection has locked the file.
///
/// SQLite's own waits grow to 100 ms. If another connection writes without a pause, the file is unlocked only for a short time between two
/// transactions. A connection that waits 100 ms between two tries could then fail to lock the file for a long time.
private final class Patience {
    var limit: Duration
    private var end = ContinuousClock.now

    init(_ limit: Duration) { self.limit = limit }

    /// Starts the time limit of a new operation.
    func start() { end = .now + limit }

    /// Waits 1 ms, and returns 1. After the time limit of the operation, returns 0 at once. SQLite then returns SQLITE_BUSY.
    func wait() -> CInt {
        guard ContinuousClock.now < end else { return 0 }
        usleep(1000)
        return 1
    }
}

/// An error of SQLite.
struct DatabaseError: Error, CustomStringConvertible {
    /// The primary result code, such as SQLITE_BUSY.
    let code: CInt
    /// The extended result code, such as SQLITE_IOERR_FSYNC.
    let extendedCode: CInt
    let message: String
    /// The errno of the failed system call; 0 if no system call failed.
    let systemError: CInt

    init(_ code: CInt, _ message: String) {
        extendedCode = code
        self.code = code & 0xFF
        self.message = message
        systemError = 0
    }

    /// True if a write failed because the disk is full, or because the user has reached the disk quota or the maximum file size.
    var isFull: Bool {
        code == SQLITE_FULL || extendedCode == Self.failedWrite && [EDQUOT, EFBIG].contains(systemError)
    }

    /// True if this error, as the result of a commit, shows that the transaction is not stored. A commit first writes to the file, and then
    /// truncates the journal. The transaction is stored only after the journal was truncated, and these errors occur before this step.
    var isBeforeCommit: Bool { code == SQLITE_BUSY || code == SQLITE_FULL || extendedCode == Self.failedWrite }

    /// SQLITE_IOERR_WRITE, a macro that Swift cannot use.
    private static let failedWrite = SQLITE_IOERR | 3 << 8

    /// The code and the reason, as the cause of a `StoreError`.
    var description: String { "SQLite \(extendedCode): \(reason)" }

    /// The reason for the user: the message of SQLite, and the system error if there is one.
    var reason: String { systemError == 0 ? message : "\(message) (\(Errno(rawValue: systemError)))" }

    /// The last error of a connection.
    init(of handle: OpaquePointer) {
        // sqlite3_system_errno() returns 0 after a failed commit. Therefore use `errno` of this thread. It is still the error of the failed
        // system call, unless a later system call of SQLite also failed.
        let lastError = errno
        extendedCode = sqlite3_extended_errcode(handle)
        code = extendedCode & 0xFF
        message = String(cString: sqlite3_errmsg(handle))
        systemError = [SQLITE_IOERR, SQLITE_CANTOPEN].contains(code) ? lastError : 0
    }
}
