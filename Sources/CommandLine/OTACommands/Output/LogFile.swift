import Glibc
import OTASigning
import Synchronization
import SystemPackage

/// The file of `--log`, which users attach to a bug report. Each entry is one line and is written immediately.
///
/// The file is created with mode 0600. A later run of otaflash appends to the file, so that the file contains all attempts. A file that is
/// not a log is refused, because an appended line would damage the file. A link is refused, because the log has text of other people, such
/// as the source in a bundle: with a link in the folder, that text could become a file that the user's shell executes.
final class LogFile: LogOutput {
    /// The first line of each log file.
    static let heading = "# otaflash log: time (UTC), process, level, text\n"

    private let file: FileDescriptor
    private let hasFailed = Atomic(false)
    private let onFailure: @Sendable (Errno) -> Void

    /// Opens or creates a log.
    ///
    /// - Parameter onFailure: called once, after the first entry that cannot be written. Later entries are discarded.
    /// - Throws: `output-exists` if the file exists and is not a log of otaflash; `cannot-create` if the file cannot be opened.
    init(_ path: String, onFailure: @escaping @Sendable (Errno) -> Void) throws(Failure) {
        self.onFailure = onFailure
        try StandardFile.refuse(path, "the log is a file", hint: "give a name: --log otaflash.log; or use --verbose")
        do throws(Errno) {
            // With `.nonBlocking`, opening a special file, such as a serial port without a carrier, does not block.
            file = try Self.systemCall {
                try FileDescriptor.open(
                    FilePath(path), .readWrite, options: [.append, .create, .noFollow, .nonBlocking, .closeOnExec],
                    permissions: .ownerReadWrite)
            }
        } catch .tooManySymbolicLinkLevels {
            throw Self.refused(path, "is a symbolic link")
        } catch {
            let parent = FilePath(path).removingLastComponent()
            let folder = Shell.quoted(parent.isEmpty ? "." : parent.string)
            throw Failure(
                "cannot-create", .cannotCreate, "cannot write the log \(path): \(error)",
                hint: error == .noSuchFileOrDirectory
                    ? "create the folder: mkdir -p \(folder)"
                    : "check that you may write to the folder: ls -ld \(folder)")
        }
        if let reason = reasonToRefuse() {
            try? file.close()
            throw Self.refused(path, reason)
        }
    }

    private static func refused(_ path: String, _ reason: String) -> Failure {
        Failure("output-exists", .cannotCreate, "the log \(path) \(reason)", hint: "use another name for --log")
    }

    deinit { try? file.close() }

    func write(_ entry: LogEntry) { append(entry.line) }

    /// Returns nil if the file is `/dev/null`, a log, or a new file, and writes the heading to a new file.
    private func reasonToRefuse() -> String? {
        guard let status = try? file.stat() else { return "cannot be examined" }
        if status.type == .characterSpecial, status.rawValue.st_rdev == Self.nullDevice { return nil }
        guard status.type == .regular else { return "is not a regular file" }
        guard status.rawValue.st_nlink == 1 else { return "is a file with several names (hard links)" }
        // Without this check, the result on stdout and the log could be written to the same file.
        if let output = try? FileDescriptor.standardOutput.stat(), output.rawValue.st_dev == status.rawValue.st_dev,
            output.rawValue.st_ino == status.rawValue.st_ino
        {
            return "is also the standard output"
        }
        if status.size == 0 {
            append(Self.heading)
            return nil
        }
        var bytes = [UInt8](repeating: 0, count: Self.heading.utf8.count)
        let count = (try? bytes.withUnsafeMutableBytes { try file.read(fromAbsoluteOffset: 0, into: $0) }) ?? 0
        guard bytes[..<count].elementsEqual(Self.heading.utf8) else { return "exists and is not a log of otaflash" }
        // If the disk was full in an earlier run, the last entry in the file is incomplete and has no line feed. The next entry must begin
        // on a new line.
        var last: UInt8 = 0
        let length = try? withUnsafeMutableBytes(of: &last) {
            try file.read(fromAbsoluteOffset: status.size - 1, into: $0)
        }
        if length == 1, last != UInt8(ascii: "\n") { append("\n") }
        return nil
    }

    /// The device number of `/dev/null`: major 1, minor 3 (Linux, Documentation/admin-guide/devices.txt), as makedev(3) encodes them.
    private static let nullDevice: dev_t = 1 << 8 | 3

    private func append(_ text: String) {
        guard !hasFailed.load(ordering: .relaxed) else { return }
        do throws(Errno) {
            // Each line is written with one call, so that the lines of two processes do not mix.
            try file.writeAllWaiting(text)
        } catch {
            if hasFailed.exchange(true, ordering: .relaxed) == false { onFailure(error) }
        }
    }

    /// Runs a function of the module SystemPackage, and throws its error as `Errno`. The functions of this module throw only `Errno`, but
    /// do not declare the type.
    private static func systemCall<Value>(_ call: () throws -> Value) throws(Errno) -> Value {
        do { return try call() } catch { throw error as? Errno ?? .ioError }
    }
}
