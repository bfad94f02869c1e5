import DescriptorIO
import Glibc
import OTASimulator
import OTAUpdate

/// The program of Examples/posix-port, as a device in range of a fake bluetoothd. The program's power is on while its process runs.
final class PortDevice: SimulatedDevice, @unchecked Sendable {
    private let lock = Lock()
    private let program, flash: String
    private var powerCuts: ArraySlice<Int>
    private var process: pid_t = 0
    /// The socket to the program; -1: the power is off.
    private var socket: CInt = -1
    private var received: [UInt8] = []
    private var connections: Set<UInt16> = []
    private var time = Duration.zero
    private var notify: @Sendable (UInt16, Channel, [UInt8]) -> Bool = { _, _, _ in true }
    private var restarted: @Sendable () -> Void = {}
    private var ownExits: [CInt] = []
    /// The exit codes of the program that the test did not cause, or 128 and the signal. 75: a power cut.
    var exits: [CInt] { lock.locked { ownExits } }

    /// - Parameter powerCuts: for each start of the program, the step of a flash operation at which the power fails
    ///   (`Examples/posix-port/flash.h`). It does not fail at later starts.
    init(_ program: String, flash: String, powerCuts: [Int] = []) {
        (self.program, self.flash, self.powerCuts) = (program, flash, powerCuts[...])
    }

    deinit { stop() }

    let channels: Set<Channel> = [
        VirtualGATT.info, VirtualGATT.control, VirtualGATT.data, VirtualGATT.progress, VirtualGATT.version,
    ]
    let dataChannel = VirtualGATT.data
    let programName: String? = nil
    var now: Duration { lock.locked { time } }
    let flashOperationCount = 0
    let imageReception: (offset: Int, size: Int)? = nil

    func place(at now: Duration) -> ProgramPlace? { .ownAddress }
    func updateLink(_ connection: UInt16, valueLength: Int) {}
    func schedule(_ cuts: [PowerCut], worn: [Int]) -> Int { 0 }
    func schedule(_ faults: [FlashFault]) {}
    func losePower(at now: Duration) { lock.locked { stop() } }

    func observe(
        onNotification: @escaping @Sendable (UInt16, Channel, [UInt8]) -> Bool,
        onRestart: @escaping @Sendable () -> Void
    ) {
        lock.locked { (notify, restarted) = (onNotification, onRestart) }
    }

    /// Starts the program if its power is off.
    func reachable(at now: Duration) -> Duration? {
        lock.locked {
            time = max(time, now)
            if socket < 0 { start() }
            return socket < 0 ? nil : time
        }
    }

    func isConnected(_ connection: UInt16) -> Bool { lock.locked { connections.contains(connection) } }

    /// Starts the program if its power is off, and handles what it has sent.
    func poll(at now: Duration) -> Duration? {
        lock.locked {
            time = max(time, now)
            if socket < 0 { start() }
            while let frame = nextFrame(waits: false) { handle(frame) }
            return nil
        }
    }

    func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool {
        lock.locked {
            guard socket >= 0 else { return false }
            connections.insert(connection)
            send("c", connection)
            return socket >= 0
        }
    }

    func disconnect(_ connection: UInt16, at now: Duration) {
        lock.locked { if connections.remove(connection) != nil { send("d", connection) } }
    }

    func subscribe(_ connection: UInt16, to channel: Channel, on: Bool, at now: Duration) throws(ATTError) {
        lock.locked { send("s", connection, [number(channel), on ? 1 : 0]) }
    }

    func read(
        _ connection: UInt16, _ channel: Channel, offset: Int, capacity: Int, at now: Duration
    ) throws(ATTError) -> [UInt8] {
        let value = try lock.locked { () throws(ATTError) -> [UInt8] in
            send("r", connection, [number(channel)])
            return try answer()
        }
        return Array(value.dropFirst(offset).prefix(capacity))
    }

    func write(_ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration) throws(ATTError) {
        try lock.locked { () throws(ATTError) in
            guard channel != VirtualGATT.data else { return send("v", connection, value) }
            send("w", connection, value)
            _ = try answer()
        }
    }

    /// Waits until the program has sent a notification or has restarted, or its power is off.
    func wait() {
        lock.locked { if let frame = nextFrame(waits: true) { handle(frame) } }
    }

    // MARK: The program

    private func start() {
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else { return }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
        let arguments: [String] = [program, flash] + (powerCuts.popFirst().map { ["\($0)"] } ?? [])
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        var environment: [UnsafeMutablePointer<CChar>?] = [nil]
        let error = posix_spawn(&process, program, &actions, nil, &words, &environment)
        posix_spawn_file_actions_destroy(&actions)
        words.forEach { free($0) }
        close(ends[1])
        guard error == 0 else { return _ = close(ends[0]) }
        // A program that hangs loses its power, so that the test fails and does not hang, too.
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout.size(ofValue: limit)))
        (socket, received) = (ends[0], [])
        // The first frame reports that the firmware runs.
        if let frame = nextFrame(waits: true) { handle(frame) }
    }

    private func stop() {
        guard socket >= 0 else { return }
        var status: CInt = 0
        kill(process, SIGKILL)
        waitpid(process, &status, 0)
        if status & 0x7F != SIGKILL { ownExits.append(status & 0x7F == 0 ? status >> 8 : 128 + status & 0x7F) }
        close(socket)
        socket = -1
        disconnectAll()
    }

    private func disconnectAll() {
        guard !connections.isEmpty else { return }
        connections = []
        restarted()
    }

    private func number(_ channel: Channel) -> UInt8 { UInt8(truncatingIfNeeded: channel.characteristic >> 96) }

    private func send(_ kind: Character, _ connection: UInt16, _ bytes: [UInt8] = []) {
        guard socket >= 0 else { return }
        let length = 3 + bytes.count
        let frame =
            [
                UInt8(length & 0xFF), UInt8(length >> 8), kind.asciiValue ?? 0, UInt8(connection & 0xFF),
                UInt8(connection >> 8),
            ]
            + bytes
        var rest = frame[...]
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
            guard sent > 0 else { return stop() }
            rest = rest.dropFirst(sent)
        }
    }

    /// Waits for the answer to a read or to a write of Control. Handles the notifications before it.
    private func answer() throws(ATTError) -> [UInt8] {
        while let frame = nextFrame(waits: true) {
            guard frame.first == UInt8(ascii: "a"), frame.count >= 2 else {
                handle(frame)
                continue
            }
            guard frame[1] == 0 else { throw ATTError(code: frame[1]) }
            return Array(frame.dropFirst(2))
        }
        throw .unlikely
    }

    private func handle(_ frame: [UInt8]) {
        switch frame.first {
        case UInt8(ascii: "b"):
            // The program may read the event of a connection from before its restart only now.
            for connection in connections { send("d", connection) }
            disconnectAll()
        case UInt8(ascii: "n") where frame.count >= 4:
            let channel = frame[3] == 3 ? VirtualGATT.control : VirtualGATT.progress
            _ = notify(UInt16(frame[1]) | UInt16(frame[2]) << 8, channel, Array(frame.dropFirst(4)))
        default: break
        }
    }

    private func nextFrame(waits: Bool) -> [UInt8]? {
        while socket >= 0 {
            if received.count >= 2 {
                let length = Int(received[0]) | Int(received[1]) << 8
                if received.count >= 2 + length {
                    defer { received.removeFirst(2 + length) }
                    return Array(received[2..<(2 + length)])
                }
            }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = recv(socket, &buffer, buffer.count, waits ? 0 : CInt(MSG_DONTWAIT))
            if count < 0, errno == EAGAIN, !waits { return nil }
            guard count > 0 else {
                stop()
                return nil
            }
            received += buffer[..<count]
        }
        return nil
    }
}
