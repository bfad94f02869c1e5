import FoundationEssentials
import Glibc
import OTATestSupport
import Subprocess
import SystemPackage
import Testing

/// A user of otaflash: a home, a state folder and a working folder of their own, gone when the test is over.
final class Sandbox: Sendable {
    /// Where commands run.
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

    func read(_ file: FilePath) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: file.string))) }

    func makeFolder(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
    }

    func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: path(name)) }

    /// The tool as it was built, beside the tests, or the one that OTAFLASH names.
    static let binary: FilePath = {
        if let named = getenv("OTAFLASH") { return FilePath(String(cString: named)) }
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return FilePath(own).removingLastComponent().appending("otaflash")
    }()

    /// Nothing of the environment of whoever runs the tests, but for what a binary needs to run and to be measured, and the
    /// mutant that `scripts/plant` chose.
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

    /// Runs `otaflash` to its end.
    @discardableResult
    func run(_ arguments: String..., env: [String: String] = [:], input: [UInt8] = []) async throws -> Run {
        try await run(arguments, env: env, input: input)
    }

    @discardableResult
    func run(_ arguments: [String], env: [String: String] = [:], input: [UInt8] = []) async throws -> Run {
        Run(
            try await Command.run(
                Self.binary.string, arguments, environment: environment(env), in: folder, input: input))
    }

    /// Runs `otaflash` as somebody whom the rights of files mean something to: root may read and write everything, so the tool is run
    /// as nobody then, from where nobody can get at it. Another program changes the user and makes the copy: this process has threads, and
    /// between its fork and an exec `setuid` may wait for ever for them (glibc), and a file it has open for writing cannot be executed.
    func runWithoutRights(_ arguments: [String]) async throws -> Run {
        chmod(folder.string, 0o755)
        let asNobody = """
            [ "$(id -u)" = 0 ] || exec "$0" "$@"
            [ -e otaflash ] || install --mode=755 "$0" otaflash || exit
            exec setpriv --reuid=65534 --clear-groups "$PWD/otaflash" "$@"
            """
        return try await shell(asNobody, arguments)
    }

    /// Runs `otaflash`, whose arguments are part of a shell script as `"$@"`.
    func shell(_ script: String, _ arguments: String..., env: [String: String] = [:]) async throws -> Run {
        try await shell(script, arguments, env: env)
    }

    private func shell(_ script: String, _ arguments: [String], env: [String: String] = [:]) async throws -> Run {
        Run(
            try await Command.run(
                "/bin/sh", ["-c", script, Self.binary.string] + arguments, environment: environment(env),
                in: folder))
    }
}

/// What a command ended with.
struct Run: Sendable {
    let status: TerminationStatus
    let out, err: String

    init(_ command: Command) {
        status = command.status
        out = command.outputText
        err = command.errorText
    }

    /// Nil: a signal ended it.
    var exit: Int32? { if case .exited(let code) = status { code } else { nil } }

    /// The object on stdout, which is one line and all there is.
    func json() throws -> JSONValue {
        #expect(out.hasSuffix("}\n") && out.split(separator: "\n").count == 1, "\(out)")
        return try JSONValue(parsing: out)
    }

    /// The objects on stderr, one a line.
    func events() throws -> [JSONValue] { try err.split(separator: "\n").map { try JSONValue(parsing: String($0)) } }
}
