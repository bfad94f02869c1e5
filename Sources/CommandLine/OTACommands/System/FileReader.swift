import Glibc
import OTASigning
import SystemPackage

/// Reads a file once into memory. So the sent bytes are the verified bytes, even if the file changes later.
package enum FileReader {
    /// The maximum file size in bytes. It is larger than the slots of usual devices.
    static let limit = 256 << 20
    private static let pieceLength = 256 << 10

    /// Reads a file or a pipe to its end.
    ///
    /// - Throws: `Failure` with the code `no-such-file`, `not-a-file`, `read-failed`, `empty-file` or `file-too-large`.
    package static func contents(of name: String) throws(Failure) -> [UInt8] {
        let bytes = try read(name)
        guard !bytes.isEmpty else {
            let title = StandardFile.title(of: name)
            throw Failure("empty-file", .malformed, "\(title) is empty", hint: "create or fetch it again")
        }
        return bytes
    }

    /// Returns the first bytes of a file, at most 4096; nil if the file cannot be read or is not a regular file.
    static func beginning(of name: String) -> [UInt8]? {
        guard
            let file = try? FileDescriptor.open(
                FilePath(name), .readOnly, options: [.closeOnExec, .nonBlocking])
        else { return nil }
        defer { try? file.close() }
        guard let status = try? file.stat(), status.type == .regular else { return nil }
        var bytes = [UInt8](repeating: 0, count: 4096)
        guard let count = try? bytes.withUnsafeMutableBytes({ try file.read(into: $0) }) else { return nil }
        return Array(bytes[..<count])
    }

    /// Returns true if both names belong to the same file. A name can be a link to the file.
    static func isSameFile(_ first: String, _ second: String) -> Bool {
        guard let first = try? FilePath(first).stat(), let second = try? FilePath(second).stat() else { return false }
        return first.deviceID == second.deviceID && first.inode == second.inode
    }

    private static func read(_ name: String) throws(Failure) -> [UInt8] {
        do {
            if name == StandardFile.name {
                return try read(StandardFile.input(), expecting: 0, as: name)
            }
            let file = try FileDescriptor.open(FilePath(name), .readOnly, options: .closeOnExec)
            return try file.closeAfter {
                let status = try file.stat()
                guard status.type != .directory else { throw isFolder(name) }
                guard status.size <= limit else { throw tooLarge(name) }
                return try read(file, expecting: Int(status.size), as: name)
            }
        } catch let failure as Failure {
            throw failure
        } catch {
            throw unreadable(name, error)
        }
    }

    /// - Parameter size: the size of the file in bytes; 0 for a pipe.
    private static func read(_ file: FileDescriptor, expecting size: Int, as name: String) throws -> [UInt8] {
        var bytes = try [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            askForLargePages(UnsafeMutableRawBufferPointer(buffer))
            while count < size {
                let read = try file.readWaiting(
                    into: UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[count...]))
                guard read > 0 else { return }
                count += read
            }
        }
        // The bytes of a pipe, and of a file that has grown.
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceLength, alignment: 16)
        defer { piece.deallocate() }
        while true {
            let count = try file.readWaiting(into: piece)
            guard count > 0 else { return bytes }
            bytes.append(contentsOf: piece[..<count])
            guard bytes.count <= limit else { throw tooLarge(name) }
        }
    }

    /// Asks the kernel for pages of 2 MiB. Without them, each 4 KiB that are read cost a page fault, which takes a fifth of the time to
    /// verify 16 MiB. If the kernel has none, the reading only takes longer.
    private static func askForLargePages(_ buffer: UnsafeMutableRawBufferPointer) {
        let pageSize = 4096
        guard let base = buffer.baseAddress else { return }
        let start = base.alignedUp(toMultipleOf: pageSize)
        let length = base + buffer.count - start
        guard length > 0 else { return }
        _ = madvise(start, length, MADV_HUGEPAGE)
    }

    private static func isFolder(_ name: String) -> Failure {
        Failure(
            "not-a-file", .noInput, "\(name) is a folder", hint: "give a file in the folder: ls \(Shell.quoted(name))")
    }

    private static func tooLarge(_ name: String) -> Failure {
        Failure(
            "file-too-large", .malformed,
            "\(StandardFile.title(of: name)) is larger than the limit of \(limit >> 20) MiB",
            hint: StandardFile.hint("check that this is the intended file", for: name))
    }

    private static func unreadable(_ name: String, _ error: any Error) -> Failure {
        switch error as? Errno {
        case .noSuchFileOrDirectory, .notDirectory:
            return Failure(
                "no-such-file", .noInput, "there is no file \(name)",
                hint: StandardFile.hint("check the path", for: name))
        case .permissionDenied:
            return Failure(
                "read-failed", .inputOutput, "no permission to read \(name): \(error)",
                hint: StandardFile.hint("check its permissions", for: name))
        default:
            return Failure(
                "read-failed", .inputOutput, "cannot read \(StandardFile.title(of: name)): \(error)",
                hint: StandardFile.hint("check that the file is complete", for: name))
        }
    }
}

/// The name `-`, which means standard input or standard output instead of a file. A file with this name must be given as `./-`.
package enum StandardFile {
    static let name = "-"
    static let inputTitle = "standard input"
    static let outputTitle = "standard output"

    /// Returns the text for an input file in messages: `standard input` for the name `-`, and the name itself for every other file.
    static func title(of name: String) -> String { name == Self.name ? inputTitle : name }

    /// Returns a hint for an input file: `advice` and a command with `ls`. For standard input (`-`), returns a different hint.
    static func hint(_ advice: String, for name: String) -> String {
        name == Self.name
            ? "check the program or the file that standard input comes from" : "\(advice): ls -l \(Shell.quoted(name))"
    }

    /// Returns the descriptor of standard input.
    ///
    /// - Throws: `usage` if standard input is a terminal, because an image is binary.
    static func input() throws(Failure) -> FileDescriptor {
        guard !StandardStream.input.isTerminal else {
            throw Failure.usage(
                "standard input is a terminal", hint: "pass the file with < FILE, or give its name in place of -")
        }
        return .standardInput
    }

    /// Returns the descriptor of standard output, for binary output.
    ///
    /// - Throws: `usage` if standard output is a terminal.
    static func output() throws(Failure) -> FileDescriptor {
        guard !StandardStream.output.isTerminal else {
            throw Failure.usage(
                "standard output is a terminal, and the output is binary",
                hint: "redirect it with > FILE, or use -o FILE")
        }
        return .standardOutput
    }

    /// Refuses the name `-` for a file that must not be standard input or standard output.
    package static func refuse(_ name: String, _ reason: String, hint: String) throws(Failure) {
        guard name == Self.name else { return }
        throw Failure.usage(reason, hint: hint)
    }
}
