import Glibc
public import Subprocess
public import SystemPackage

/// A program of others, or our own, that was run to its end.
public struct Command: Sendable {
    public let status: TerminationStatus
    public let output: [UInt8]
    public let error: [UInt8]

    public var succeeded: Bool { status.isSuccess }
    public var outputText: String { String(decoding: output, as: UTF8.self) }
    public var errorText: String { String(decoding: error, as: UTF8.self) }

    /// Runs a program, by its path or by its name, until it ends. It reads and writes files instead of pipes, so that nobody has to
    /// keep pace with it: under load the end of what came through a pipe was once missing.
    ///
    /// - Parameter input: what it finds on its standard input.
    public static func run(
        _ program: String, _ arguments: [String], environment: Environment = .inherit,
        in workingDirectory: FilePath? = nil, input: [UInt8] = []
    ) async throws -> Command {
        let (standardInput, output, error) = (try NamelessFile(), try NamelessFile(), try NamelessFile())
        try standardInput.descriptor.writeAll(toAbsoluteOffset: 0, input)
        let result = try await Subprocess.run(
            program.contains("/") ? .path(FilePath(program)) : .name(program), arguments: Arguments(arguments),
            environment: environment, workingDirectory: workingDirectory,
            input: .fileDescriptor(standardInput.descriptor, closeAfterSpawningProcess: false),
            output: .fileDescriptor(output.descriptor, closeAfterSpawningProcess: false),
            error: .fileDescriptor(error.descriptor, closeAfterSpawningProcess: false))
        return Command(status: result.terminationStatus, output: try output.contents(), error: try error.contents())
    }
}

/// A temporary file that is gone when nobody has it open any more.
private final class NamelessFile: Sendable {
    let descriptor: FileDescriptor

    init() throws {
        var template = Array("/tmp/otaflash-command-XXXXXX".utf8CString)
        let opened = mkstemp(&template)
        guard opened >= 0 else { throw Errno(rawValue: errno) }
        unlink(template)
        descriptor = FileDescriptor(rawValue: opened)
    }

    deinit { try? descriptor.close() }

    func contents() throws -> [UInt8] {
        let size = Int(try descriptor.seek(offset: 0, from: .end))
        return try [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            while count < size {
                let rest = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[count...])
                let read = try descriptor.read(fromAbsoluteOffset: Int64(count), into: rest)
                guard read > 0 else { break }
                count += read
            }
        }
    }
}
