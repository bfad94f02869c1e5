import Glibc
import SystemPackage

/// A file that is read once, into memory: what was verified is what is sent, whatever becomes of the file meanwhile.
enum WholeFile {
    /// More than any device has room for.
    static let limit = 256 << 20
    private static let pieceLength = 256 << 10

    /// All of it; a pipe will do.
    ///
    /// - Throws: `Failure`: `no-such-file`, `not-a-file`, `read-failed`, `empty-file`, `file-too-large`.
    static func contents(of name: String) throws(Failure) -> [UInt8] {
        let bytes = try read(name)
        guard !bytes.isEmpty else {
            throw Failure("empty-file", .malformed, "\(name) is empty", hint: "make or fetch it again")
        }
        return bytes
    }

    private static func read(_ name: String) throws(Failure) -> [UInt8] {
        do {
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

    private static func read(_ file: FileDescriptor, expecting size: Int, as name: String) throws -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size)
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceLength, alignment: 16)
        defer { piece.deallocate() }
        while true {
            let count = try file.read(into: piece)
            guard count > 0 else { return bytes }
            bytes.append(contentsOf: piece[..<count])
            guard bytes.count <= limit else { throw tooLarge(name) }
        }
    }

    private static func isFolder(_ name: String) -> Failure {
        Failure("not-a-file", .noInput, "\(name) is a folder", hint: "give a file in it: ls \(Shell.quoted(name))")
    }

    private static func tooLarge(_ name: String) -> Failure {
        Failure(
            "file-too-large", .malformed, "\(name) has more than the \(limit >> 20) MiB that are read",
            hint: "see that this is the file that was meant: ls -l \(Shell.quoted(name))")
    }

    private static func unreadable(_ name: String, _ error: any Error) -> Failure {
        let path = Shell.quoted(name)
        switch error as? Errno {
        case .noSuchFileOrDirectory, .notDirectory:
            return Failure(
                "no-such-file", .noInput, "there is no file \(name)", hint: "see that the path is right: ls -l \(path)")
        case .permissionDenied:
            return Failure(
                "read-failed", .inputOutput, "\(name) may not be read: \(error)", hint: "see who may: ls -l \(path)")
        default:
            return Failure(
                "read-failed", .inputOutput, "\(name) could not be read: \(error)",
                hint: "see that it is all there: ls -l \(path)")
        }
    }
}
