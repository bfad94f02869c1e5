import Glibc
public import Subprocess
public import SystemPackage

/// The exit status and the output of a program that has ended.
public struct Command: Sendable {
    public let status: TerminationStatus
    public let output: [UInt8]
    public let error: [UInt8]

    public var succeeded: Bool { status.isSuccess }
    public var outputText: String { String(decoding: output, as: UTF8.self) }
    public var errorText: String { String(decoding: error, as: UTF8.self) }

    /// Runs a program and waits until the program ends.
    ///
    /// The program's standard streams are files. This function does not use pipes, because a busy computer once lost the end of the output
    /// in a pipe.
    ///
    /// - Parameters:
    ///   - program: the path of the program, or a name for a search in `PATH`.
    ///   - input: the contents of the program's standard input.
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

/// A temporary file without a name. The kernel removes the file when its last descriptor is closed.
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

/// The Python environment that `scripts/setup` creates. It contains third-party Python programs for the tests.
public enum PythonEnvironment {
    /// The path of the Python interpreter.
    public static var python: String {
        let cache = variable("XDG_CACHE_HOME") ?? (variable("HOME") ?? "") + "/.cache"
        return cache + "/otaflash/venv/bin/python"
    }

    private static func variable(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }
}
