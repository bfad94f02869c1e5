internal import DescriptorIO
internal import Glibc
internal import OTASigning
internal import Synchronization
internal import SystemPackage

/// Runs a program of the user, passes it an input, and returns its output.
///
/// The program inherits the environment of this process. The only descriptor that the program inherits is the standard error. The standard
/// output of the program is a pipe to this process. The standard input is a temporary file without a name and not a pipe, so that the
/// program can also open `/dev/stdin` as a file.
struct ChildProgram {
    /// The maximum length of the output, in bytes. A public key or a signature is shorter.
    static let maximumOutput = 64 << 10
    /// The time in which the program must end after SIGTERM, SIGINT or SIGHUP. If the program still runs after this time, it gets SIGKILL.
    private static let grace = Duration.seconds(2)

    enum Failure: Error {
        case cannotStart(String)
        case exit(Int32)
        case signal(Int32)
        case timeout
        case tooLong
    }

    /// The path of the program, or its name. A name without a slash is searched for in PATH.
    let program: String
    let limit: Duration

    /// Runs the program with one argument, and returns its standard output.
    ///
    /// If this process receives SIGINT, SIGTERM or SIGHUP during the run, the program receives the signal, too. This process handles the
    /// signal only after the program has ended.
    ///
    /// - Parameter context: the context string of an ML-DSA signature.
    func run(_ argument: String, input: [UInt8], context: String = "") throws(Failure) -> [UInt8] {
        let standardInput = try Self.file(input)
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw .cannotStart(Self.text(errno)) }
        ends.forEach { _ = fcntl($0, F_SETFD, FD_CLOEXEC) }
        defer { close(ends[0]) }
        return try ForwardedSignals.lock.locked { () throws(Failure) in
            ForwardedSignals.begin()
            defer { ForwardedSignals.end() }
            let process: pid_t
            do {
                defer { close(ends[1]) }
                process = try start(argument, context, input: standardInput.descriptor.rawValue, output: ends[1])
            }
            ForwardedSignals.process.store(process, ordering: .sequentiallyConsistent)
            return try collect(from: ends[0], of: process)
        }
    }

    // MARK: Start

    /// Returns a file without a name that contains these bytes. The position in the file is 0, so the program reads the bytes from the
    /// start.
    private static func file(_ bytes: [UInt8]) throws(Failure) -> OpenFile {
        do {
            let file = try OpenFile.scratch()
            try bytes.withUnsafeBufferPointer { (bytes) throws(Errno) in
                try file.write(UnsafeRawBufferPointer(bytes), at: 0)
            }
            return file
        } catch {
            throw .cannotStart("a temporary file: \(error)")
        }
    }

    private func start(_ argument: String, _ context: String, input: Int32, output: Int32) throws(Failure) -> pid_t {
        var files = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&files)
        defer { posix_spawn_file_actions_destroy(&files) }
        posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO)
        // Close all other descriptors in the program, because a file that this process inherited can contain a PIN or a passphrase.
        try Self.descriptors().forEach { posix_spawn_file_actions_addclose(&files, $0) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // otaflash ignores SIGPIPE and SIGXFSZ. The program would inherit this, so set these signals to their default actions.
        var defaults = sigset_t()
        sigemptyset(&defaults)
        for signal in [SIGPIPE, SIGXFSZ] { sigaddset(&defaults, signal) }
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
        let words = [strdup(program), strdup(argument), nil]
        defer { words.forEach { free($0) } }
        let own = [strdup("OTAFLASH_SIGNER=1"), strdup("\(Self.contextVariable)\(context)")]
        defer { own.forEach { free($0) } }
        let environment = Self.environment() + own + [nil]
        var process = pid_t()
        let status = posix_spawnp(&process, program, &files, &attributes, words, environment)
        guard status == 0 else { throw .cannotStart(Self.text(status)) }
        return process
    }

    /// The open descriptors of this process, except the three standard streams.
    private static func descriptors() throws(Failure) -> [Int32] {
        guard let folder = opendir("/proc/self/fd") else { throw .cannotStart("/proc/self/fd: \(text(errno))") }
        defer { closedir(folder) }
        var numbers: [Int32] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if let number = Int32(name), number > STDERR_FILENO { numbers.append(number) }
        }
        return numbers
    }

    private static let contextVariable = "OTAFLASH_SIGNATURE_CONTEXT="

    /// Returns pointers to the environment variables of this process, except those that this type sets. The texts are not copied, because a
    /// variable can contain a secret, and the secret should not be in memory twice.
    private static func environment() -> [UnsafeMutablePointer<CChar>?] {
        var variables: [UnsafeMutablePointer<CChar>?] = []
        var next = environ
        while let variable = next.pointee {
            let isOwn = ["OTAFLASH_SIGNER=", contextVariable].contains { (name: String) in
                strncmp(variable, name, name.utf8.count) == 0
            }
            if !isOwn { variables.append(variable) }
            next += 1
        }
        return variables
    }

    private static func text(_ error: Int32) -> String { String(cString: strerror(error)) }

    // MARK: Output and end

    /// Reads the output and waits for the end of the program. Kills the program if it writes too much or runs too long.
    private func collect(from output: Int32, of process: pid_t) throws(Failure) -> [UInt8] {
        let clock = ContinuousClock()
        let deadline = clock.now + limit
        var kill: ContinuousClock.Instant?
        var bytes: [UInt8] = []
        var isOpen = true
        var failure: Failure?
        while true {
            // Do not wait for the end of the output: another process that the program started can hold the pipe open after the program has
            // ended.
            let status = Self.ended(process)
            if isOpen {
                isOpen = Self.read(output, into: &bytes, waiting: status == nil)
            } else if status == nil {
                usleep(5000)
            }
            if let status {
                if let failure { throw failure }
                guard bytes.count <= Self.maximumOutput else { throw .tooLong }
                return try Self.check(status, bytes)
            }
            if failure == nil, bytes.count > Self.maximumOutput { failure = .tooLong }
            if failure == nil, clock.now >= deadline { failure = .timeout }
            if kill == nil, failure != nil || ForwardedSignals.isInterrupted {
                if failure != nil { Glibc.kill(process, SIGTERM) }
                kill = clock.now + Self.grace
            }
            if let kill, clock.now >= kill { Glibc.kill(process, SIGKILL) }
        }
    }

    /// Reads the available output. If `bytes` already has more than `maximumOutput` bytes, more output is discarded.
    ///
    /// - Parameter waiting: whether to wait for output, at most 50 ms.
    /// - Returns: whether more output can follow.
    private static func read(_ output: Int32, into bytes: inout [UInt8], waiting: Bool) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        var place = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
        var isFirst = true
        while poll(&place, 1, waiting && isFirst ? 50 : 0) > 0 {
            isFirst = false
            let count = Glibc.read(output, &buffer, buffer.count)
            guard count > 0 else { return count < 0 && errno == EINTR }
            if bytes.count <= maximumOutput { bytes += buffer.prefix(count) }
            // Return after one read, so that the caller can check the time limit even if the program writes without a pause.
            if waiting { break }
            if bytes.count > maximumOutput { return false }
        }
        return true
    }

    /// Returns the wait status of the program (wait(2)). Returns nil if the program has not ended.
    private static func ended(_ process: pid_t) -> Int32? {
        var status: Int32 = 0
        guard waitpid(process, &status, WNOHANG) == process else { return nil }
        // From now on, the kernel can give the process number to another process, which must not get the signals.
        ForwardedSignals.process.store(0, ordering: .sequentiallyConsistent)
        return status
    }

    private static func check(_ status: Int32, _ output: [UInt8]) throws(Failure) -> [UInt8] {
        // Decode the status like the macros WIFSIGNALED and WEXITSTATUS of wait(2).
        let signal = status & 0x7F
        guard signal == 0 else { throw .signal(signal) }
        guard status >> 8 & 0xFF == 0 else { throw .exit(status >> 8 & 0xFF) }
        return output
    }
}

/// Forwards SIGINT, SIGTERM and SIGHUP to the program that ``ChildProgram`` runs.
private enum ForwardedSignals {
    /// The lock that allows only one program of `ChildProgram` to run at a time.
    static let lock = Lock()
    static let process = Atomic<pid_t>(0)
    private static let received = Atomic<Int32>(0)
    private nonisolated(unsafe) static var before: [(signal: Int32, action: sigaction)] = []

    static var isInterrupted: Bool { received.load(ordering: .sequentiallyConsistent) != 0 }

    /// Installs the handlers. Signals that this process ignores remain ignored.
    static func begin() {
        received.store(0, ordering: .sequentiallyConsistent)
        var action = sigaction()
        action.__sigaction_handler.sa_sigaction = { signal, info, _ in
            ForwardedSignals.received.store(signal, ordering: .sequentiallyConsistent)
            let process = ForwardedSignals.process.load(ordering: .sequentiallyConsistent)
            // Forward only a signal that a process sent (`si_code` ≤ 0). For a key such as Ctrl-C, the kernel sends the signal to both
            // processes, so this process must not send a second signal to the program.
            if process > 0, let info, info.pointee.si_code <= 0 { kill(process, signal) }
        }
        action.sa_flags = SA_SIGINFO | SA_RESTART
        before = [SIGINT, SIGTERM, SIGHUP].compactMap { signal in
            var old = sigaction()
            sigaction(signal, nil, &old)
            let handler = unsafeBitCast(old.__sigaction_handler.sa_handler, to: Int.self)
            guard handler != unsafeBitCast(SIG_IGN, to: Int.self) else { return nil }
            sigaction(signal, &action, nil)
            return (signal, old)
        }
    }

    /// Restores the previous handlers. If this process received a signal after `begin()`, this method raises the same signal again, so that
    /// the previous handler runs.
    static func end() {
        process.store(0, ordering: .sequentiallyConsistent)
        for (signal, old) in before {
            var old = old
            sigaction(signal, &old, nil)
        }
        before = []
        let signal = received.exchange(0, ordering: .sequentiallyConsistent)
        if signal != 0 { raise(signal) }
    }
}
