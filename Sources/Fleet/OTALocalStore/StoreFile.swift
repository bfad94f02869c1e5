internal import CSQLite
internal import Glibc
internal import OTASigning
internal import OTAStore
internal import SystemPackage

/// A row of the table `record` or `event` with a name that no store writes.
struct InvalidRow: Error, Hashable {
    let table: String
    let number: Int64
    let names: [String]
}

/// The file of a store: its creation, its format, and the errors that concern it.
struct StoreFile: Sendable {
    let path: FilePath
    /// The maximum time that an operation waits for another process to unlock the file.
    let wait: Duration

    /// The number that marks the file as a store of otaflash: "OTAS" in ASCII. file(1) and SQLite call it the application id.
    static let application: Int64 = 0x4F54_4153
    /// The version of the tables.
    static let version: Int64 = 1

    // MARK: - Opening

    /// Opens the file, and creates it if it does not exist. A file that is not a store is not changed.
    func open() throws(StoreError) -> Database {
        try create()
        let database = try translated { () throws(DatabaseError) in try Database(path, waiting: wait) }
        // `PRAGMA journal_mode` below can change a file that uses a write-ahead log. Therefore first check that the file is a store.
        // The check reads several values in one transaction, so that no other process can create the tables between two of these reads.
        try translated { () throws(DatabaseError) in try database.run("BEGIN") }
        let isNew = try isNew(database)
        try translated { () throws(DatabaseError) in
            try database.run("COMMIT")
            let mode = try database.row("PRAGMA journal_mode = TRUNCATE") { $0.text(0) }
            guard mode == "truncate" else {
                throw DatabaseError(SQLITE_BUSY, "the journal mode is \(mode ?? "unknown")")
            }
            try database.run("PRAGMA synchronous = FULL")
        }
        if isNew { try createTables(database) }
        return database
    }

    private func createTables(_ database: Database) throws(StoreError) {
        try translated { () throws(DatabaseError) in try database.run("BEGIN IMMEDIATE") }
        // Another process may have created the tables since the check in `open()`.
        let isNew = try isNew(database)
        try translated { () throws(DatabaseError) in
            for statement in isNew ? Self.tables : [] { try database.run(statement) }
            try database.run("COMMIT")
        }
    }

    /// Checks the format of the file.
    ///
    /// - Returns: true if the file is empty, and still needs its tables.
    /// - Throws: `corrupt` if the file is not a store of otaflash; `tooNew`.
    private func isNew(_ database: Database) throws(StoreError) -> Bool {
        let (application, version, tables) = try translated { () throws(DatabaseError) in
            (
                try database.row("PRAGMA application_id") { $0.integer(0) } ?? 0,
                try database.row("PRAGMA user_version") { $0.integer(0) } ?? 0,
                try database.row("SELECT count(*) FROM sqlite_master") { $0.integer(0) } ?? 0
            )
        }
        if (application, version, tables) == (0, 0, 0) { return true }
        guard application == Self.application, version >= Self.version else {
            throw corrupt("the file \(path) is not a store of otaflash, but a database of another program")
        }
        guard version == Self.version else {
            throw StoreError(
                .tooNew,
                "a later release of otaflash has written the store \(path): it has version \(version), and this release "
                    + "supports version \(Self.version)",
                hint: "install the later release of otaflash on this computer")
        }
        return false
    }

    /// Creates the folder and an empty file if they do not exist. Only the owner can use the created folder and file.
    ///
    /// No code may open the file except through SQLite. When a process closes a file, the kernel releases all locks of this process on the
    /// file, including the locks of SQLite.
    private func create() throws(StoreError) {
        var status = stat()
        do throws(Errno) {
            // The folder of a name without a folder is the current directory, which exists.
            let folder = path.removingLastComponent()
            if !folder.isEmpty { try Folder.create(folder) }
            guard mknod(path.string, S_IFREG | S_IRUSR | S_IWUSR, 0) == 0 || errno == EEXIST else {
                throw Errno(rawValue: errno)
            }
            guard lstat(path.string, &status) == 0 else { throw Errno(rawValue: errno) }
        } catch {
            throw unusable("\(error)")
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw unusable("it is not a regular file") }
        guard status.st_uid == geteuid() else { throw unusable("it belongs to the user \(status.st_uid)") }
        guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw unusable("other users can write to it", hint: "chmod go-w \(path.string.shellQuoted)")
        }
    }

    private static let tables = [
        "PRAGMA application_id = \(application)",
        "PRAGMA user_version = \(version)",
        // The last revision, the last event number, and the size of all events in bytes.
        "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT",
        "INSERT INTO counter VALUES ('revision', 0), ('event', 0), ('history', 0)",
        """
        CREATE TABLE record (bucket TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL, written INTEGER NOT NULL,
            bytes BLOB NOT NULL, PRIMARY KEY (bucket, name)) STRICT
        """,
        "CREATE UNIQUE INDEX record_revision ON record (bucket, revision)",
        "CREATE TABLE object (digest BLOB PRIMARY KEY, bytes BLOB NOT NULL) STRICT",
        """
        CREATE TABLE event (number INTEGER PRIMARY KEY, identifier TEXT NOT NULL UNIQUE, rollout TEXT NOT NULL,
            device TEXT NOT NULL, gateway TEXT NOT NULL, attempt INTEGER NOT NULL, kind TEXT NOT NULL, bytes BLOB NOT NULL,
            appended INTEGER NOT NULL) STRICT
        """,
        "CREATE INDEX event_appended ON event (appended)",
    ]

    // MARK: - Errors

    /// Runs `body`, and converts each error of SQLite to an error of the store.
    func translated<Result>(_ body: () throws(DatabaseError) -> Result) throws(StoreError) -> Result {
        do { return try body() } catch { throw self.error(error) }
    }

    func error(_ error: DatabaseError) -> StoreError {
        let cause = error.description
        let file = path.string.shellQuoted
        switch error.code {
        case SQLITE_BUSY, SQLITE_LOCKED:
            return StoreError(
                .unavailable, "another process has locked the store \(path) for more than \(wait)",
                hint: "find the process: fuser -v \(file); end it or wait for its end, then try again", cause: cause)
        case _ where error.isFull:
            let folder = path.removingLastComponent().string.shellQuoted
            return StoreError(
                .full, "the disk of the store \(path) is full",
                hint: "delete other files; show the free space: df -h \(folder)",
                cause: cause)
        case SQLITE_NOTADB: return corrupt("the file \(path) is not a store of otaflash", cause: cause)
        case SQLITE_CORRUPT, SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_SCHEMA:
            return corrupt("the store \(path) is damaged", cause: cause)
        default:
            return unusable(error.reason, cause: cause)
        }
    }

    /// Returns the error for a commit that failed without a clear result: `what` may be stored or not.
    func uncertain(_ what: String, _ error: DatabaseError) -> StoreError {
        StoreError(
            .unavailable, "the disk of the store \(path) reported an error, and \(what) may be stored or not",
            hint: "try again", cause: error.description)
    }

    /// Returns the error for a file that was deleted or replaced while this process used it.
    func replaced() -> StoreError {
        lost("the store \(path) was deleted or replaced while this process used it")
    }

    /// Returns the error for a file that has lost records that this process has read.
    func outdated(_ count: Int64) -> StoreError {
        lost(
            "the store \(path) has lost its newest records: its last write has the number \(count), and this process "
                + "has read a later write")
    }

    private func lost(_ context: String) -> StoreError {
        StoreError(
            .recordsLost, context,
            hint:
                "show the rollouts that are left: otaflash rollout list; create a missing rollout again, with a new name"
        )
    }

    /// Returns the error for a row that is skipped.
    func invalid(_ row: InvalidRow) -> StoreError {
        let names = row.names.joined(separator: "/").prefix(200)
        return StoreError(
            .corrupt, "the store \(path) has an \(row.table) with an invalid name, which is ignored: '\(names)'",
            hint: "delete it: sqlite3 \(path.string.shellQuoted) 'DELETE FROM \(row.table) WHERE rowid = \(row.number)'"
        )
    }

    func corrupt(_ context: String, cause: String? = nil) -> StoreError {
        let file = path.string.shellQuoted
        let other = (path.string + ".damaged").shellQuoted
        return StoreError(
            .corrupt, context,
            hint:
                "end all otaflash processes, and move the file away: mv \(file) \(other); then publish the releases and "
                + "create the rollouts again", cause: cause)
    }

    private func unusable(_ reason: String, hint: String? = nil, cause: String? = nil) -> StoreError {
        StoreError(
            .unavailable, "cannot use the store \(path): \(reason)",
            hint: hint ?? "show the file: ls -l \(path.string.shellQuoted)", cause: cause)
    }
}
