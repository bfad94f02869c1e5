import Glibc
import Subprocess
import SystemPackage
import Testing

extension Sandbox {
    /// Runs `otaflash` on a new terminal, which is its stdin, stdout and stderr.
    ///
    /// Types each answer after its prompt appears on the screen. The first answer creates the file `typed`.
    ///
    /// - Parameters:
    ///   - columns: the width of the terminal.
    ///   - resize: changes the width to `columns` after `prompt` first appears.
    ///   - answers: the prompts in sequence, each with its answer.
    ///   - script: the shell script that runs the tool as `"$0"` with its arguments as `"$@"`.
    /// - Returns: the termination status, and the complete output on the screen.
    func onTerminal(
        _ arguments: String..., columns: UInt16 = 80, resizing resize: (prompt: String, columns: UInt16)? = nil,
        env: [String: String] = [:],
        typing answers: [(prompt: String, answer: String)] = [], script: String = "exec \"$0\" \"$@\""
    ) async throws -> (status: TerminationStatus, screen: String) {
        try await onTerminal(arguments, columns: columns, resizing: resize, env: env, typing: answers, script: script)
    }

    func onTerminal(
        _ arguments: [String], columns: UInt16 = 80, resizing resize: (prompt: String, columns: UInt16)? = nil,
        env: [String: String] = [:],
        typing answers: [(prompt: String, answer: String)] = [], script: String = "exec \"$0\" \"$@\""
    ) async throws -> (status: TerminationStatus, screen: String) {
        let (master, slave) = try Self.openTerminal(columns: columns)
        defer { try? master.close() }
        let words = ["--ctty", "--wait", "/bin/sh", "-c", script, Self.binary.string] + arguments
        let result = try await Subprocess.run(
            // The new session has no controlling terminal. This terminal becomes it, and so also /dev/tty.
            .path("/usr/bin/setsid"), arguments: Arguments(words),
            environment: environment(["TERM": "xterm"].merging(env) { $1 }), workingDirectory: folder,
            input: .fileDescriptor(slave, closeAfterSpawningProcess: false),
            output: .fileDescriptor(slave, closeAfterSpawningProcess: false),
            error: .fileDescriptor(slave, closeAfterSpawningProcess: false)
        ) { _ in
            try slave.close()
            return try await watch(master, answers, resize)
        }
        return (result.terminationStatus, result.closureResult)
    }

    private static func openTerminal(columns: UInt16) throws -> (master: FileDescriptor, slave: FileDescriptor) {
        // The steps of posix_openpt, grantpt and ptsname, which Swift does not import (ioctl_tty(2)).
        let master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)
        var number: Int32 = 0
        try #require(master >= 0 && ioctl(master, UInt(0x4004_5431), &number) == 0, "TIOCSPTLCK")
        try #require(ioctl(master, UInt(0x8004_5430), &number) == 0, "TIOCGPTN")
        let slave = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        try #require(slave >= 0)
        try setColumns(columns, of: slave)
        return (FileDescriptor(rawValue: master), FileDescriptor(rawValue: slave))
    }

    private static func setColumns(_ columns: UInt16, of terminal: CInt) throws {
        var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        try #require(ioctl(terminal, UInt(TIOCSWINSZ), &size) == 0)
    }

    /// Polls the terminal, because a test run has few threads to block.
    private func watch(
        _ master: FileDescriptor, _ answers: [(prompt: String, answer: String)],
        _ resize: (prompt: String, columns: UInt16)?
    ) async throws -> String {
        var bytes: [UInt8] = []
        var resize = resize
        var answers = answers[...]
        var seen = 0
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = Glibc.read(master.rawValue, &buffer, buffer.count)
            if count > 0 {
                bytes += buffer[..<count]
            } else if count < 0, errno == EAGAIN {
                if let due = resize, String(decoding: bytes, as: UTF8.self).contains(due.prompt) {
                    resize = nil
                    try Self.setColumns(due.columns, of: master.rawValue)
                    bytes += Array("<resized>".utf8)
                }
                let fresh = String(decoding: bytes[seen...], as: UTF8.self)
                if let next = answers.first, fresh.contains(next.prompt) {
                    seen = bytes.count
                    answers.removeFirst()
                    try master.writeAll(next.answer.utf8)
                    try write("typed", [])
                }
                try await Task.sleep(for: .milliseconds(5))
            } else {
                // EIO: the last process with the terminal open has closed it.
                return String(decoding: bytes, as: UTF8.self)
            }
        }
    }
}
