import BlueZ
package import DBus
import DescriptorIO
import FoundationEssentials
import Glibc
package import Logging
import OTAClient

/// Starts a guard process. If this process is killed, the guard process disconnects the links of this process (docs/decisions/0007).
///
/// The guard process is a second otaflash process without output. It starts before the first device is connected. It ends when `stop` is
/// called or when this process ends.
package final class LinkGuard: LinkAccount {
    private enum State {
        case idle
        case running(CInt, pid_t)
        case failed
    }

    private let logger: Logger
    private let state = Guarded(State.idle)

    package init(_ logger: Logger) { self.logger = logger }

    /// Stops the guard process and waits for its end, so that no zombie process remains. Call this function when all links have ended.
    package func stop() {
        state.with { state in
            guard case .running(let line, let process) = state else { return }
            state = .idle
            close(line)
            waitpid(process, nil, 0)
        }
    }

    package func opened(_ device: DBusObjectPath) { notify(.opened, device, startsIt: true) }

    package func ended(_ device: DBusObjectPath) { notify(.ended, device, startsIt: false) }

    private func notify(_ notice: LinkGuardProcess.Notice, _ device: DBusObjectPath, startsIt: Bool) {
        state.with { state in
            if case .idle = state, startsIt { state = Self.start(logger) }
            guard case .running(let line, _) = state else { return }
            let message = [notice.rawValue] + device.text.utf8
            // If the guard process was killed, `send` fails. The update continues without a guard process.
            _ = message.withUnsafeBytes { send(line, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
        }
    }

    /// Starts the guard process with all signals blocked except SIGALRM. SIGALRM ends the guard process at its time limit
    /// (`LinkGuardProcess.limit`). Signals from a terminal or a service manager must end only this process, not the guard process.
    private static func start(_ logger: Logger) -> State {
        var ends: [CInt] = [-1, -1]
        let type = CInt(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { return failed(errno, logger) }
        defer { close(ends[1]) }

        var files = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&files)
        defer { posix_spawn_file_actions_destroy(&files) }
        posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO)
        // The guard process must not hold the output pipe of this process open. If it did, the reader of the pipe would wait for the end of
        // the guard process.
        posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
        descriptors.forEach { posix_spawn_file_actions_addclose(&files, $0) }

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigfillset(&signals)
        sigdelset(&signals, SIGALRM)
        posix_spawnattr_setsigmask(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))

        var process = pid_t()
        let words = cStrings(["otaflash", LinkGuardProcess.word])
        // The guard process gets only the variables that it needs to reach the system bus. Other variables may contain secrets.
        let environment = cStrings(
            ["DBUS_SYSTEM_BUS_ADDRESS", "LD_LIBRARY_PATH"].compactMap { name in
                Environment.value(name).map { "\(name)=\($0)" }
            })
        defer { (words + environment).forEach { free($0) } }
        let status = posix_spawn(&process, "/proc/self/exe", &files, &attributes, words, environment)
        guard status == 0 else {
            close(ends[0])
            return failed(status, logger)
        }
        logger.debug("links are guarded", metadata: ["process": "\(process)"])
        return .running(ends[0], process)
    }

    /// All open file descriptors above stderr. The guard process must not keep inherited descriptors open, such as a lock of the calling
    /// shell. The array also contains descriptors that `exec` itself would close. Closing such a descriptor before `exec` does no harm.
    private static var descriptors: [CInt] {
        let names = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        return (names ?? []).compactMap { CInt($0) }.filter { $0 > STDERR_FILENO }
    }

    private static func cStrings(_ texts: [String]) -> [UnsafeMutablePointer<CChar>?] {
        texts.map { strdup($0) } + [nil]
    }

    private static func failed(_ error: CInt, _ logger: Logger) -> State {
        logger.debug("links are not guarded", metadata: ["reason": "\(String(cString: strerror(error)))"])
        return .failed
    }
}

/// The process that a `LinkGuard` starts.
///
/// The process receives the start and the end of each link on stdin, which is a socket. When the other end of the socket is closed, the
/// process disconnects the remaining links through bluetoothd.
enum LinkGuardProcess {
    /// The only argument of the guard process. The help does not list this argument, because it is internal.
    static let word = "--guard-links"

    /// The first byte of a packet on the socket. The D-Bus path of a device follows.
    enum Notice: UInt8 {
        case opened = 0x2B
        case ended = 0x2D
    }

    /// The time limit for disconnecting the links, in seconds.
    private static let limit: UInt32 = 5

    /// Waits until the other end of the socket is closed, and then disconnects the remaining links.
    static func run() async {
        // Detach from the terminal, and leave the current directory so that its file system can be unmounted.
        setsid()
        _ = chdir("/")
        let links = listen()
        guard !links.isEmpty else { return }
        alarm(limit)
        try? await BlueZClient.endLinks(to: links)
    }

    /// Receives notices until the other end of the socket is closed. Returns the links that are still open.
    private static func listen() -> Set<DBusObjectPath> {
        var links: Set<DBusObjectPath> = []
        var packet = [UInt8](repeating: 0, count: 512)
        while true {
            let count = recv(STDIN_FILENO, &packet, packet.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return links }
            let device = DBusObjectPath(String(decoding: packet[1..<count], as: UTF8.self))
            switch Notice(rawValue: packet[0]) {
            case .opened: links.insert(device)
            case .ended: links.remove(device)
            case nil: break
            }
        }
    }
}
