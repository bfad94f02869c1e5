import DescriptorIO
import Glibc
import SystemPackage

/// The process of a nats-server.
///
/// A shell starts the server, and kills it at the end of the shell's standard input. Therefore the server ends in all cases, even if the
/// test program is killed.
final class ServerProcess: Sendable {
    private static let script = """
        exec 3<&0; "$@" <&- 3<&- 2>&1 & server=$!; echo "PID $server"
        (read _ <&3; kill -9 $server) & killer=$!; wait $server; kill $killer
        """

    private let shell: pid_t
    private let output: FileDescriptor
    /// The write end of the shell's standard input; nil after `end`.
    private let input: Guarded<FileDescriptor?>
    private let server = Guarded(pid_t?.none)

    /// The process ID of the server; nil before its start.
    var id: pid_t? { server.with { $0 } }

    init(program: String, arguments: [String]) throws {
        let (standardInput, input) = try FileDescriptor.closeOnExecPipe()
        let (output, standardOutput) = try FileDescriptor.closeOnExecPipe()
        defer {
            try? standardInput.close()
            try? standardOutput.close()
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, standardInput.rawValue, 0)
        posix_spawn_file_actions_adddup2(&actions, standardOutput.rawValue, 1)
        posix_spawn_file_actions_adddup2(&actions, standardOutput.rawValue, 2)
        // A thread of Swift's pool blocks signals, and a new process inherits the mask. The shell needs SIGCHLD.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var mask = sigset_t()
        sigemptyset(&mask)
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        let words = (["/bin/sh", "-c", Self.script, "sh", program] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        var process = pid_t()
        let status = posix_spawn(&process, "/bin/sh", &actions, &attributes, words + [nil], environ)
        guard status == 0 else { throw Errno(rawValue: status) }
        (shell, self.output, self.input) = (process, output, Guarded(input))
    }

    /// Reads the output until its end, and waits for the end of the shell. Yields the port when the server is ready.
    func read(_ started: AsyncThrowingStream<Int, any Error>.Continuation) {
        var (rest, log, port): ([UInt8], String, Int?) = ([], "", nil)
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while let count = try? buffer.withUnsafeMutableBytes({ try output.read(into: $0) }), count > 0 {
            rest += buffer.prefix(count)
            while let end = rest.firstIndex(of: 0x0A) {
                let line = String(decoding: rest[..<end], as: UTF8.self)
                rest.removeSubrange(...end)
                log += line + "\n"
                if line.hasPrefix("PID ") { server.with { $0 = pid_t(line.dropFirst(4)) } }
                if let start = line.firstRange(of: "client connections on 127.0.0.1:") {
                    port = Int(line[start.upperBound...].prefix { $0.isNumber })
                }
                if line.contains("Server is ready"), let port { started.yield(port) }
            }
        }
        var status: CInt = 0
        waitpid(shell, &status, 0)
        try? output.close()
        end()
        started.finish(throwing: ServerEnded(log: log))
    }

    /// Ends the server with SIGKILL. A server that does not run any more gets no signal, because the shell has ended.
    func end() { try? input.exchange(nil)?.close() }

    func signal(_ number: CInt) {
        if let server = server.with({ $0 }) { kill(server, number) }
    }

    /// Whether all threads of the server are stopped by a signal.
    var isStopped: Bool {
        guard let server = server.with({ $0 }), let folder = opendir("/proc/\(server)/task") else { return true }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard !name.hasPrefix("."), let file = fopen("/proc/\(server)/task/\(name)/stat", "r") else { continue }
            defer { fclose(file) }
            var line = [UInt8](repeating: 0, count: 512)
            let count = fread(&line, 1, line.count, file)
            // The state follows the name of the program in parentheses.
            guard let end = line[..<count].lastIndex(of: UInt8(ascii: ")")), end + 2 < count else { continue }
            if line[end + 2] != UInt8(ascii: "T") { return false }
        }
        return true
    }
}

package struct ServerEnded: Error {
    /// The server's output.
    package let log: String
}

extension FileDescriptor {
    fileprivate static func closeOnExecPipe() throws -> (readEnd: FileDescriptor, writeEnd: FileDescriptor) {
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw Errno(rawValue: errno)
        }
        return (FileDescriptor(rawValue: ends[0]), FileDescriptor(rawValue: ends[1]))
    }
}
