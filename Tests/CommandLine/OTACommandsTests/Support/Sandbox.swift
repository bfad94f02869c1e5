import FoundationEssentials
import Glibc
import OTATestSupport
import Subprocess
import SystemPackage
import Testing

/// A temporary home, state folder and working folder for one test. They are deleted at the end of the test.
final class Sandbox: Sendable {
    /// The working folder of the commands.
    let folder: FilePath

    init() throws {
        var template = Array("/tmp/otaflash-test-XXXXXX".utf8CString)
        let path = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        folder = FilePath(try #require(path))
        try FileManager.default.createDirectory(atPath: home.string, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder.string) }

    var home: FilePath { folder.appending("home") }
    var state: FilePath { folder.appending("state") }

    func path(_ name: String) -> String { folder.appending(name).string }

    @discardableResult
    func write(_ name: String, _ bytes: [UInt8]) throws -> String {
        try Data(bytes).write(to: URL(filePath: path(name)))
        return name
    }

    func read(_ name: String) throws -> [UInt8] { try read(folder.appending(name)) }

    func read(_ file: FilePath) throws -> [UInt8] {
        // For an empty file, Data(contentsOf:) leaks its buffer (Swift 6.3.1), and the leak sanitizer would report it.
        var status = stat()
        if stat(file.string, &status) == 0, status.st_size == 0 { return [] }
        return Array(try Data(contentsOf: URL(filePath: file.string)))
    }

    func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
    }

    func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: path(name)) }

    /// The path of `otaflash`: the environment variable OTAFLASH, or the binary in the folder of the tests.
    static let binary: FilePath = {
        if let named = getenv("OTAFLASH") { return FilePath(String(cString: named)) }
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return FilePath(own).removingLastComponent().appending("otaflash")
    }()

    /// The environment of a command.
    ///
    /// It inherits only the variables of the loader, the coverage profile, the sanitizers and the mutant that `scripts/plant` chose.
    func environment(_ extra: [String: String] = [:]) -> Environment {
        var variables = [
            "HOME": home.string, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OTAFLASH_STATE_DIR": state.string,
            "SWIFT_BACKTRACE": "enable=no",
        ]
        let inherited = [
            "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "OTAFLASH_MUTANT",
        ]
        for name in inherited {
            variables[name] = getenv(name).map { String(cString: $0) }
        }
        variables.merge(extra) { $1 }
        return .custom(Dictionary(uniqueKeysWithValues: variables.map { (Environment.Key(stringLiteral: $0), $1) }))
    }

    /// Runs `otaflash` and waits until it exits.
    @discardableResult
    func run(_ arguments: String..., env: [String: String] = [:], input: [UInt8] = []) async throws -> Run {
        try await run(arguments, env: env, input: input)
    }

    @discardableResult
    func run(_ arguments: [String], env: [String: String] = [:], input: [UInt8] = []) async throws -> Run {
        let run = Run(
            try await Command.run(
                Self.binary.string, arguments, environment: environment(env), in: folder, input: input))
        try JSONOutputs.collect(run, of: arguments, isAlone: true)
        return run
    }

    /// Runs `otaflash` as a user without root's permissions.
    ///
    /// Root can read and write every file. As root, this function runs a copy of the tool as the user `nobody` (65534).
    /// A separate program changes the user, because `setuid` between fork and exec can block in a process with threads (glibc).
    /// A separate program makes the copy, because a file that this process has open for writing cannot be executed.
    func runWithoutRights(_ arguments: [String]) async throws -> Run {
        chmod(folder.string, 0o755)
        let asNobody = """
            [ "$(id -u)" = 0 ] || exec "$0" "$@"
            [ -e otaflash ] || install --mode=755 "$0" otaflash || exit
            exec setpriv --reuid=65534 --clear-groups "$PWD/otaflash" "$@"
            """
        return try await shell(asNobody, arguments)
    }

    /// Runs a shell script; `"$0"` is the path of `otaflash`, and `"$@"` are the arguments.
    func shell(_ script: String, _ arguments: String..., env: [String: String] = [:]) async throws -> Run {
        try await shell(script, arguments, env: env)
    }

    func shell(_ script: String, arguments: [String], env: [String: String] = [:]) async throws -> Run {
        try await shell(script, arguments, env: env)
    }

    private func shell(_ script: String, _ arguments: [String], env: [String: String] = [:]) async throws -> Run {
        let run = Run(
            try await Command.run(
                "/bin/sh", ["-c", script, Self.binary.string] + arguments, environment: environment(env),
                in: folder))
        try JSONOutputs.collect(run, of: arguments, isAlone: false)
        return run
    }
}

/// The result of a command.
struct Run: Sendable {
    let status: TerminationStatus
    let out, err: String

    init(_ command: Command) {
        status = command.status
        out = command.outputText
        err = command.errorText
    }

    /// The exit status; nil: a signal ended the command.
    var exit: Int32? { if case .exited(let code) = status { code } else { nil } }

    /// The JSON object on stdout. It must be the only line.
    func json() throws -> JSONValue {
        #expect(out.hasSuffix("}\n") && out.split(separator: "\n").count == 1, "\(out)")
        return try JSONValue(parsing: out)
    }

    /// The JSON objects on stderr, one per line.
    func events() throws -> [JSONValue] { try err.split(separator: "\n").map { try JSONValue(parsing: String($0)) } }
}
