import FoundationEssentials
import Glibc
import OTASigning
import Synchronization
import SystemPackage

/// The file of `--log`, which users attach to a bug report. Each entry is one line and is written immediately.
///
/// The file is created with mode 0600. A later run of otaflash appends to the file, so that the file contains all attempts. A file that is
/// not a log is refused, because an appended line would damage the file.
final class LogFile: Sendable {
    /// The first line of each log file.
    private static let heading = "# otaflash log: time (UTC), process, level, text\n"

    private let file: FileDescriptor
    private let process = getpid()
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
                    FilePath(path), .readWrite, options: [.append, .create, .nonBlocking, .closeOnExec],
                    permissions: .ownerReadWrite)
            }
        } catch {
            let parent = FilePath(path).removingLastComponent()
            let folder = Shell.quoted(parent.isEmpty ? "." : parent.string)
            throw Failure(
                "cannot-create", .cannotCreate, "cannot write the log \(path): \(error)",
                hint: error == .noSuchFileOrDirectory
                    ? "create the folder: mkdir -p \(folder)"
                    : "check that you may write to the folder: ls -ld \(folder)")
        }
        guard accepts() else {
            try? file.close()
            throw Failure(
                "output-exists", .cannotCreate, "\(path) is not a log of otaflash, or is also the standard output",
                hint: "use another name for --log")
        }
    }

    deinit { try? file.close() }

    /// Writes an entry. Unprintable characters are escaped.
    func write(_ level: String, _ text: String) {
        let time = Date.now.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        append(TerminalLine("\(time) \(process) \(level): \(text)").rendered(hasColours: false) + "\n")
    }

    /// Returns true if the file is empty, a log, or a device file such as `/dev/null`. Writes the heading to an empty file.
    private func accepts() -> Bool {
        guard let status = try? file.stat() else { return false }
        if status.type == .characterSpecial { return true }
        guard status.type == .regular else { return false }
        // Without this check, the result on stdout and the log could be written to the same file.
        if let output = try? FileDescriptor.standardOutput.stat(), output.rawValue.st_dev == status.rawValue.st_dev,
            output.rawValue.st_ino == status.rawValue.st_ino
        {
            return false
        }
        if status.size == 0 {
            append(Self.heading)
            return true
        }
        var bytes = [UInt8](repeating: 0, count: Self.heading.utf8.count)
        let count = (try? bytes.withUnsafeMutableBytes { try file.read(fromAbsoluteOffset: 0, into: $0) }) ?? 0
        guard bytes[..<count].elementsEqual(Self.heading.utf8) else { return false }
        // If the disk was full in an earlier run, the last entry in the file is incomplete and has no line feed. The next entry must begin
        // on a new line.
        var last: UInt8 = 0
        let length = try? withUnsafeMutableBytes(of: &last) {
            try file.read(fromAbsoluteOffset: status.size - 1, into: $0)
        }
        if length == 1, last != UInt8(ascii: "\n") { append("\n") }
        return true
    }

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
